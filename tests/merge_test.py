#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""merge_test.py: `holdfast merge`, held against merge_reference.py and against its own promises.

    merge_test.py [long | case FORMAT NUMBER]

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py. `long`
draws more random cases; `case` runs one of them again, and keeps its folder when that fails.
What becomes of a merge that fails is in merge_trouble_test.py.
"""

import gzip
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter

import cases
import cli_test
import merge_cases
import merge_reference
from cli_test import MIB, PROGRAM, code, equal, it, true
from merge_cases import zstd
from merge_reference import Options

cases.cases.clear()

LONG = sys.argv[1:2] == ["long"]
CASES, CASES_FIRST = (120, 1000) if LONG else (8 if cli_test.SANITIZED else 40, 0)

# A sanitizer takes memory of its own.
with open(PROGRAM, "rb") as program_file:
    image = program_file.read()
MEASURABLE = b"__asan_init" not in image and b"__tsan_init" not in image
del image


def options_of(args):
    """The reference's options for a command's words."""
    def value(name, default=None):
        return args[args.index(name) + 1] if name in args else default
    zone = value("--zone")
    return Options(value("--format"), value("--key"), value("--time"), "--no-header" not in args,
                   int(value("--max-record", 16 * MIB)),
                   zone and merge_reference.offset(b"Z" if zone == "UTC" else zone.encode()))


def survey(s):
    """Every file below the scratch folder with what is in it."""
    found = {}
    for folder, _, names in os.walk(s.path):
        for name in names:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, s.path)] = s.read(path)
    return found


def names(s):
    return sorted(os.listdir(s.path))


def write_inputs(s, contents):
    """Writes files in-000, in-001, ...; returns their names."""
    inputs = [f"in-{i:03}" for i in range(len(contents))]
    for name, data in zip(inputs, contents):
        s.write(name, data)
    return inputs


def merge(s, args, inputs, out="out"):
    """Runs the program; its summary."""
    return json.loads(s.out("merge", "--json", *args, "-o", out, *inputs))


def refused(s, status, *args, lines=1):
    """Runs what must fail: a sentence that names the status, and no file made or changed."""
    before = survey(s)
    done = s.run("merge", *args, expect=code(s, status))
    text = done.stderr.decode()
    true(f"{status}: " in text and text.startswith("holdfast: merge"), f"{args}: {text!r}")
    true(text.count("\n") <= lines, f"at most {lines} lines: {text!r}")
    equal(done.stdout, b"", "nothing on stdout")
    after = survey(s)
    equal(sorted(after), sorted(before), f"{args}: the same files")
    true(after == before, f"{args}: files changed")
    return text


def refused_rows(s, count, *args, out="out"):
    """Runs what must fail for so many rows that cannot be merged: no output is made or changed, and
    the reject file, which is named, holds them all. Returns what is said."""
    before = survey(s)
    done = s.run("merge", *args, "-o", out, expect=code(s, "INVALID"))
    text = done.stderr.decode()
    true(f"INVALID: {count} row" in text and f"{out}.rejects" in text, f"{args}: {text!r}")
    equal(done.stdout, b"", "nothing on stdout")
    after = survey(s)
    after.pop(f"{out}.rejects")
    before.pop(f"{out}.rejects", None)
    true(after == before, f"{args}: another file changed")
    return text


def unpack(data):
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return zstd(data, "-d")
    return data


# ---- Against the reference ----------------------------------------------------------------------

SUMMARY = ["format", "input_bytes", "inputs", "inputs_unsorted", "output", "output_bytes",
           "reasons", "rejects", "rows_deleted", "rows_in", "rows_out", "rows_rejected", "rows_superseded",
           "spilled_bytes", "took_ms"]


def check_summary(s, summary, wanted, inputs, out):
    equal(sorted(summary), SUMMARY, "the summary's members")
    equal(summary["rows_in"],
          summary["rows_out"] + summary["rows_superseded"] + summary["rows_rejected"], "accounting")
    for name in ("rows_in", "rows_out", "rows_superseded", "inputs_unsorted"):
        equal(summary[name], getattr(wanted, name), name)
    equal(summary["rows_rejected"], len(wanted.rejects), "rows_rejected")
    equal(summary["inputs"], len(inputs), "inputs")
    equal(summary["output"], out, "output")
    equal(summary["input_bytes"], sum(os.path.getsize(s.file(name)) for name in inputs), "input_bytes")
    equal(summary["output_bytes"], os.path.getsize(s.file(out)), "output_bytes")
    equal(len(summary["reasons"]) > 0, len(wanted.rejects) > 0, "reasons where rows are rejected")


def check_rejects(s, summary, wanted, rejects):
    equal(os.path.exists(s.file(rejects)), bool(wanted.rejects), "a reject file when it is needed")
    equal(summary["rejects"], rejects if wanted.rejects else None, "its name")
    if wanted.rejects:
        # Records may hold LF, and no order is promised.
        lines = Counter(b"\n".join(wanted.rejects).split(b"\n") + [b""])
        equal(Counter(s.read(rejects).split(b"\n")) - lines, Counter(), "rejected, but should not")
        equal(lines - Counter(s.read(rejects).split(b"\n")), Counter(), "not rejected")


def check_output(s, wanted, out):
    output = unpack(s.read(out))
    if wanted.output is None:
        equal(merge_reference.complaint(wanted, output), None, "where rows tie")
    elif output != wanted.output:
        at = next((i for i, (a, b) in enumerate(zip(output, wanted.output)) if a != b),
                  min(len(output), len(wanted.output)))
        begin = max(0, at - 60)
        raise AssertionError(f"output differs at byte {at}: got {output[begin:at + 60]!r}, "
                             f"wanted {wanted.output[begin:at + 60]!r}")


def check_merge(s, args, inputs, wanted, out="out", rejects=None):
    """One run, in every respect."""
    rejects = rejects or out + ".rejects"
    allowed = ["--max-rejects", "any"] if wanted.rejects and "--max-rejects" not in args else []
    summary = merge(s, args + allowed, inputs, out)
    check_output(s, wanted, out)
    check_rejects(s, summary, wanted, rejects)
    check_summary(s, summary, wanted, inputs, out)
    return summary


def check_case(s, name, number):
    """A random case, and the same with its inputs in another order and other settings."""
    rng = random.Random(f"{name} {number}")
    case = merge_cases.draw_case(rng, name)
    inputs = write_inputs(s, case.on_disk)
    out = "out" + rng.choice(["", "", "", ".gz", ".zst"])
    true(set(names(s)) == set(inputs), "a folder with nothing but the inputs")
    try:
        wanted = merge_reference.merge(case.options, case.plain)
    except merge_reference.ZoneMissing:
        text = refused(s, "INVALID", *case.args, "--max-rejects", "any", "-o", out, *inputs,
                       lines=10)
        true("--zone" in text, text)
    else:
        check_drawn(s, rng, case, wanted, inputs, out)
    for name in inputs:
        os.unlink(s.file(name))


def check_drawn(s, rng, case, wanted, inputs, out):
    args = case.args + ["--max-rejects", str(len(wanted.rejects))]
    first = None
    for _ in range(2):
        tuned = ["--threads", str(rng.randint(1, 4))] + rng.choice([[], ["--memory", "8MiB"]])
        check_merge(s, args + tuned, inputs, wanted, out)
        first = first or s.read(out)
        true(s.read(out) == first, f"other bytes when the inputs are given as {inputs}")
        made = {out, out + ".rejects"} if wanted.rejects else {out}
        equal(set(names(s)) - set(inputs), made, "files that were made")
        for name in made:
            os.unlink(s.file(name))
        rng.shuffle(inputs)
    if wanted.rejects:
        refused_rows(s, len(wanted.rejects), *args[:-1], str(len(wanted.rejects) - 1), *tuned,
                     *inputs, out=out)
        os.unlink(s.file(out + ".rejects"))


def check_cases(s, name):
    for number in range(CASES_FIRST, CASES_FIRST + CASES):
        try:
            check_case(s, name, number)
        except Exception as trouble:
            raise AssertionError(f"merge_test.py case {name} {number}") from trouble


for form in ("usv", "csv", "tsv", "ndjson"):
    it(f"random {form} comes out as the reference says, in any order, with any settings")(
        lambda s, form=form: check_cases(s, form))


def literal(sentence, args, inputs, output, rejects=(), swap=True):
    """A test with everything spelled out, of the reference as well as the program."""
    args = args.split()

    def run(s):
        result = merge_reference.merge(options_of(args), inputs)
        equal(result.output, output, "the reference's output")
        equal(sorted(result.rejects), sorted(rejects), "the reference's rejects")
        paths = write_inputs(s, inputs)
        check_merge(s, args, paths, result)
        if swap:
            check_merge(s, args, paths[::-1], result)

    it(sentence)(run)


def u(*fields):
    """A record of USV."""
    return b"\x1f".join(field.encode("latin-1") for field in fields)


def lines(*records):
    return b"".join(record + b"\n" for record in records)


LATEST = "--format usv --key 1 --time 2"

literal("a key twice in one file, later times below: the last row wins", LATEST,
        [lines(u("a", "1", "x"), u("a", "2", "y"), u("a", "3", "b"), u("b", "1", "z"))],
        lines(u("a", "3", "b"), u("b", "1", "z")))
literal("a key twice in one file, later times above: the first row wins", LATEST,
        [lines(u("a", "3", "b"), u("a", "2", "y"), u("a", "1", "x"), u("b", "1", "z"))],
        lines(u("a", "3", "b"), u("b", "1", "z")))
literal("a key twice at one time: the greater bytes win, wherever they stand", LATEST,
        [lines(u("a", "5", "m"), u("a", "5", "z"), u("a", "5", "b"), u("b", "5", "z"),
               u("b", "5", "a")),
         lines(u("a", "5", "y"), u("b", "5", "zz"))],
        lines(u("a", "5", "z"), u("b", "5", "zz")))
literal("a key in several files, the latest in the middle of one", LATEST,
        [lines(u("a", "1"), u("a", "9"), u("a", "2")), lines(u("a", "8")), lines(u("a", "7"))],
        lines(u("a", "9")))
literal("times of all zones, precisions and units are compared as instants", LATEST,
        [lines(u("a", "2026-02-06T10:00:00Z", "utc"),
               u("b", "2026-02-06T10:00:00.000000000000000001Z", "atto"),
               u("c", "1770372000", "s"),
               u("d", "1770372000000", "ms"),
               u("e", "1969-12-31T23:59:59Z", "rfc"),
               u("f", "1770372000.000000001", "ns"),
               u("g", "2026-02-06t10:00:00z", "z")),
         lines(u("a", "2026-02-06T23:30:00+14:00", "east"),
               u("b", "2026-02-06 10:00:00.00000000000000000z", "blank"),
               u("c", "2026-02-06T04:59:59.999-05:00", "west"),
               u("d", "1770372000000001", "us"),
               u("e", "-1.5", "minus"),
               u("f", "1770372000000000002", "two"),
               u("g", "1770372000000000.0", "same"))],
        lines(u("a", "2026-02-06T10:00:00Z", "utc"),
              u("b", "2026-02-06T10:00:00.000000000000000001Z", "atto"),
              u("c", "1770372000", "s"),
              u("d", "1770372000000001", "us"),
              u("e", "1969-12-31T23:59:59Z", "rfc"),
              u("f", "1770372000000000002", "two"),
              u("g", "2026-02-06t10:00:00z", "z")))
literal("rows are put in the order of their instants, not of their text", "--format usv --time 1",
        [lines(u("2026-02-06T23:00:00+13:00", "b"), u("2026-02-06T10:30:00Z", "c")),
         lines(u("5"), u("1770371999999", "a"))],
        lines(u("5"), u("1770371999999", "a"), u("2026-02-06T23:00:00+13:00", "b"),
              u("2026-02-06T10:30:00Z", "c")))
literal("keys that begin with other keys come behind them", LATEST,
        [lines(u("", "1"), u("a", "1"), u("ab", "1"), u("abc", "1")),
         lines(u("a\0", "1"), u("a\x01", "1"), u("aa", "1"), u("ab\0", "1"), u("b", "1"))],
        lines(u("", "1"), u("a", "1"), u("a\0", "1"), u("a\x01", "1"), u("aa", "1"), u("ab", "1"),
              u("ab\0", "1"), u("abc", "1"), u("b", "1")))
literal("bytes above 127 are greater than those below", "--format usv --key 1",
        [lines(u("\x7f"), u("\xff")), lines(u("\x80"), u("\xff\0"))],
        lines(u("\x7f"), u("\x80"), u("\xff"), u("\xff\0")))
literal("empty files and empty lines are no rows", LATEST,
        [b"", b"\n\n\x1e\x1e\n", lines(u("a", "1")), b"\n", b"\x1e" + u("b", "1") + b"\n\n\n"],
        lines(u("a", "1"), u("b", "1")))
literal("all files empty make an empty output", LATEST, [b"", b"", b""], b"")
literal("a last record without its end is a record", "--format usv --key 1",
        [b"b", b"a\nc", b"d\x1e"], b"a\nb\nc\nd\n")
literal("records of USV end with LF, RS or RS LF, and CR is data", "--format usv --key 1",
        [b"a\r\nb\x1ec\x1e\nd\x1e\x1e\x1e\n\x1ee\n", b"a\x1ea\0\n"],
        b"a\na\0\na\r\nb\nc\nd\ne\n")
literal("NUL bytes are data, in keys and elsewhere", LATEST,
        [lines(u("\0", "1", "\0\0"), u("\0\0", "1", "")), lines(u("", "1"), u("\0", "2", "\0"))],
        lines(u("", "1"), u("\0", "2", "\0"), u("\0\0", "1", "")))
literal("equal rows keep the order of their file", "--format usv --key 1",
        [lines(u("a", "2"), u("a", "1"), u("a", "3"), u("b", "2"), u("b", "1"))],
        lines(u("a", "2"), u("a", "1"), u("a", "3"), u("b", "2"), u("b", "1")))
literal("equal rows of several files come with the smaller record first", "--format usv --key 1",
        [lines(u("a", "2"), u("a", "5")), lines(u("a", "1"), u("a", "2"), u("a", "6")),
         lines(u("a"), u("a", "7"))],
        lines(u("a"), u("a", "1"), u("a", "2"), u("a", "2"), u("a", "5"), u("a", "6"),
              u("a", "7")))
literal("a file that is not in order is sorted by key and record", "--format usv --key 1",
        [lines(u("b", "2"), u("b", "1"), u("a", "9"), u("a", "8"))],
        lines(u("a", "8"), u("a", "9"), u("b", "1"), u("b", "2")))
literal("disorder in the last row is noticed", LATEST,
        [lines(*[u(f"k{i:04}", "1") for i in range(3000)], u("a", "1")), lines(u("k", "1"))],
        lines(u("a", "1"), u("k", "1"), *[u(f"k{i:04}", "1") for i in range(3000)]))
literal("a row without its fields or with an unreadable time is rejected", LATEST,
        [lines(u("a", "1"), u("b"), u("c", "soon"), u("d", ""), u("e", "1", "2"))],
        lines(u("a", "1"), u("e", "1", "2")), [u("b"), u("c", "soon"), u("d", "")])
literal("only the fields that are asked for matter", "--format usv --key 2",
        [lines(u("never", "a"), u("a")), lines(u("", "b", "never"))],
        lines(u("never", "a"), u("", "b", "never")), [u("a")])
literal("rejected rows do not disturb the order of the others", "--format usv --key 2",
        [lines(u("z"), u("1", "a"), u("a"), u("1", "b"))],
        lines(u("1", "a"), u("1", "b")), [u("z"), u("a")])
for size, goes in ((4096, True), (4097, False)):
    long_record = u("b", "1", "x" * (size - 4))
    literal(f"a record of {size} bytes is {'kept' if goes else 'rejected'} where 4096 may be",
            LATEST + " --max-record 4096",
            [lines(u("a", "1"), long_record, u("c", "1")), long_record],
            lines(u("a", "1"), *[long_record] * goes, u("c", "1")), [long_record] * 2 * (not goes))
start = "p" * 70000
literal("keys that differ only behind 64 KiB are in order too", LATEST,
        [lines(u(start, "1"), u(start + "a", "1"), u(start + "c", "2")),
         lines(u(start[1:], "1"), u(start + "b", "1"), u(start + "c", "1")),
         lines(u(start + "aa", "1"), u(start + "c", "3"))],
        lines(u(start[1:], "1"), u(start, "1"), u(start + "a", "1"), u(start + "aa", "1"),
              u(start + "b", "1"), u(start + "c", "3")))

CSV = "--format csv --key k --time t"
literal("CSV keys are compared without their quotes, and rows keep theirs", CSV,
        [b'k,t,v\n"a",1,x\n"b""c",1,"l1\nl2"\r\n', b'k,t,v\r\na,"2","y,z"\r\n"b""",1,\n'],
        b'k,t,v\na,"2","y,z"\n"b""",1,\n"b""c",1,"l1\nl2"\n')
literal("a header alone is the output, without rows", CSV, [b"k,t\r\n", b"k,t"], b"k,t\n")
literal("an input of no bytes has no header", CSV, [b"", b"k,t\na,1\n", b""], b"k,t\na,1\n")
literal("CSV inputs of no bytes make an empty output", CSV, [b"", b""], b"")
literal("a byte order mark is no part of the header", CSV,
        [b"\xef\xbb\xbfk,t\na,1\n", b"k,t\nb,1\n"], b"k,t\na,1\nb,1\n")
literal("empty lines of CSV are no rows, quotes with nothing in them are",
        "--format csv --key 1", [b'k\n\n""\n\r\nb\n\n', b"k\na"], b'k\n""\na\nb\n')
literal("CSV rows with other fields than the header are rejected", CSV,
        [b'k,t,v\na,1,x\nb,1\nc,1,x,y\nd,1,"x,y"\ne,1,\n'],
        b'k,t,v\na,1,x\nd,1,"x,y"\ne,1,\n', [b"b,1", b"c,1,x,y"])
literal("a stray quote costs one row", CSV,
        [b'k,t\n5" pipe,1\na,1\n"b"x,1\nc,"1"2\nd,1\n"e" ,1\n'],
        b"k,t\na,1\nd,1\n", [b'5" pipe,1', b'"b"x,1', b'c,"1"2', b'"e" ,1'])
literal("a quote that is never closed costs its own line only", CSV,
        [b'k,t\na,1\nb,"1\nc,1\nd,1', b"k,t\ne,1\n"],
        b"k,t\na,1\nc,1\nd,1\ne,1\n", [b'b,"1'])
literal("a quote that the next one does not close costs its own line only", CSV,
        [b'k,t\na,"1\nb,1\n"c",1\nd,"1\ne,1\n', b'k,t\n"f\ng",1\n"h\ni" ,1\nj,1\n'],
        b'k,t\nb,1\n"c",1\ne,1\n"f\ng",1\nj,1\n',
        [b'a,"1', b'd,"1', b'"h', b'i" ,1'])
for size, closed in ((64, True), (63, False)):
    quoted_lines = b'"' + b"x" * 30 + b"\n" + b"y" * 31 + b'"'
    literal(f"a quote that is {'' if closed else 'not '}closed within the longest record",
            f"--format csv --no-header --key 1 --max-record {size}",
            [b"a\n" + quoted_lines + b"\nz\n"],
            b"a\n" + quoted_lines + b"\nz\n" if closed else b"a\nz\n",
            [] if closed else [quoted_lines[:31], quoted_lines[32:]])
literal("times without a zone are those of the zone that is named", LATEST + " --zone +02:00",
        [lines(u("a", "2026-01-01 00:00:00", "local"), u("b", "2026-01-01T00:00:00.5", "half")),
         lines(u("a", "2025-12-31T22:00:01Z", "utc"), u("b", "2025-12-31T22:00:00Z", "utc"))],
        lines(u("a", "2025-12-31T22:00:01Z", "utc"), u("b", "2026-01-01T00:00:00.5", "half")))
literal("CSV without a header has rows of any width", "--format csv --no-header --key 2",
        [b"1,b\n2\n3,a,x,y\n"], b"3,a,x,y\n1,b\n", [b"2"])
literal("a field of the header by number, quoted names by their value",
        "--format csv --key 2 --time t",
        [b'"t","k"\n1,a\n2,a\n', b'"t","k"\n3,b'], b'"t","k"\n2,a\n3,b\n')
literal("TSV has tabs where CSV has commas", "--format tsv --key k --time t",
        [b'k\tt\na,b\t1\n"x\ty"\t1\n', b'k\tt\na,b\t2\nz\n'],
        b'k\tt\na,b\t2\n"x\ty"\t1\n', [b"z"])

JSON = "--format ndjson --key k --time t"
literal("JSON keys are compared unescaped", JSON,
        [b'{"k":"\\u0061","t":1}\n{"k":"b\\n","t":1}', b'{"t":2,"k":"a"}\n{"k":"b","t":1}\n'],
        b'{"t":2,"k":"a"}\n{"k":"b","t":1}\n{"k":"b\\n","t":1}\n')
literal("JSON keys are in the order of UTF-8, not of UTF-16", "--format ndjson --key k",
        [b'{"k":"\\ud83d\\ude00"}', '{"k":"\uffff"}'.encode()],
        '{"k":"\uffff"}\n'.encode() + b'{"k":"\\ud83d\\ude00"}\n')
literal("a JSON number is a key by its text", "--format ndjson --key k",
        [b'{"k":9}\n{"k":"9"}\n{"k":9.0}', b'{"k":10}\n{"k":-1}\n{"k":1e1}\n'],
        b'{"k":-1}\n{"k":10}\n{"k":1e1}\n{"k":9}\n{"k":"9"}\n{"k":9.0}\n')
literal("of members with one name the last counts", JSON,
        [b'{"k":"z","t":0,"k":"a","t":"3"}\n{"k":"a","k":null,"t":1}', b'{"k":"a","t":2}'],
        b'{"k":"z","t":0,"k":"a","t":"3"}\n', [b'{"k":"a","k":null,"t":1}'])
literal("members of inner objects are not meant", JSON,
        [b'{"x":{"k":"z"},"k":"b","t":1,"y":[{"t":9,"k":[]}]}\n{"x":{"k":"a","t":1}}'],
        b'{"x":{"k":"z"},"k":"b","t":1,"y":[{"t":9,"k":[]}]}\n', [b'{"x":{"k":"a","t":1}}'])
literal("JSON times are strings or numbers", JSON,
        [b'{"k":1,"t":"1970-01-01T00:00:07Z"}\n{"k":2,"t":6.5}\n{"k":3,"t":"5"}\n{"k":3,"t":1e9}',
         b'{"k":1,"t":6}\n{"k":2,"t":"1970-01-01T00:00:06Z"}\n{"k":3,"t":4}\n{"k":3,"t":null}'],
        b'{"k":1,"t":"1970-01-01T00:00:07Z"}\n{"k":2,"t":6.5}\n{"k":3,"t":"5"}\n',
        [b'{"k":3,"t":1e9}', b'{"k":3,"t":null}'])
literal("blank lines are no JSON rows, and CR before LF is no part of one", JSON,
        [b' \t\r\n{"k":"a","t":1}\r\n\r\n\n {"k":"b","t":1} \n', b""],
        b'{"k":"a","t":1}\n {"k":"b","t":1} \n')
literal("what is not one strict JSON object is rejected", "--format ndjson --key k",
        [b'{"k":"a"}\n{"k":"b"},\n{"k":"c"}{}\n[]\n{"k":\'d\'}\n{"k":"e",}\n{"k":NaN}\n'
         b'{"k":"f\t"}\n{"k":"\\ud800"}\n{"k":"\xff"}\n{"k":"g","x":01}\nnull\n'
         b'{"k":true}\n{"k":"z"}'],
        b'{"k":"a"}\n{"k":"z"}\n',
        [b'{"k":"b"},', b'{"k":"c"}{}', b"[]", b"{\"k\":'d'}", b'{"k":"e",}', b'{"k":NaN}',
         b'{"k":"f\t"}', b'{"k":"\\ud800"}', b'{"k":"\xff"}', b'{"k":"g","x":01}', b"null",
         b'{"k":true}'])


@it("ties that begin alike and go on differently come out alike for any order of the inputs")
def _(s):
    contents = [lines(u("k", "b"), u("k", "a")), lines(u("k", "b"), u("k", "z")),
                lines(u("k", "b"), u("k", "b"), u("k", "a"))]
    wanted = merge_reference.merge(Options("usv", "1"), contents)
    inputs, outputs = write_inputs(s, contents), set()
    for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        check_merge(s, ["--format", "usv", "--key", "1"], [inputs[i] for i in order], wanted)
        outputs.add(s.read("out"))
    equal(len(outputs), 1, "different outputs")


@it("JSON that is nested without end is rejected or kept, and stops nothing")
def _(s):
    deep = b'{"k":"b","x":' + b"[" * 200000 + b"]" * 200000 + b"}"
    broken = b'{"k":"c","x":' + b"[{" * 200000
    inputs = write_inputs(s, [lines(b'{"k":"a"}', deep, broken, b'{"k":"d"}')])
    summary = merge(s, ["--format", "ndjson", "--key", "k", "--max-rejects", "any"], inputs)
    equal(summary["rows_in"], 4)
    true(b'{"k":"a"}\n' in s.read("out") and b'{"k":"d"}\n' in s.read("out"), "the rows around it")
    true(broken in s.read("out.rejects"), "what never closes is rejected")
    equal((s.read("out") + s.read("out.rejects")).count(deep), 1, "it is in one of the files")


# ---- Size ---------------------------------------------------------------------------------------


def draw_large(rng, name, size, order):
    """An input of about `size` bytes in records of about 1 KiB."""
    ordered, total = [], 0
    while total < size:
        key, stamp = f"key-{rng.randrange(size // 2000):07}", str(1770372000 + rng.randrange(999))
        filler = "%x" % rng.getrandbits(4 * rng.randrange(1, 2000))
        if name == "ndjson":
            record = f'{{"k":"{key}","t":{stamp},"f":"{filler}"}}'.encode()
        elif name == "usv":
            record = u(key, stamp, filler)
        else:
            record = f'"{key}",{stamp},"{filler}\n"'.encode()
        ordered.append((key, record))
        total += len(record)
    if order != "none":
        ordered.sort()
    if order == "late":
        ordered.append(("", ordered[0][1]))
    header = b"k,t,f\n" if name == "csv" else b""
    return header + lines(*[record for _, record in ordered])


def check_large(s, name, size, orders, mode):
    rng = random.Random(f"{name} {size} {mode}")
    fields = {"usv": ("1", "2")}.get(name, ("k", "t"))
    args = ["--format", name]
    args += ["--key", fields[0]] if mode != "time" else []
    args += ["--time", fields[1]] if mode != "key" else []
    contents = [draw_large(rng, name, size // len(orders), order) for order in orders]
    wanted = merge_reference.merge(options_of(args), contents)
    inputs = write_inputs(s, contents)
    del contents
    outputs = set()
    for threads in ("1", "3"):
        summary = check_merge(s, args + ["--memory", "8MiB", "--max-record", "1MiB", "--threads",
                                         threads], inputs, wanted)
        true(summary["spilled_bytes"] > 0, f"it spilled: {summary}")
        outputs.add(hashlib.sha256(s.read("out")).digest())
        inputs.reverse()
    equal(len(outputs), 1, "different outputs")
    equal(names(s), sorted(inputs + ["out"]), "scratch files are gone")


for large in (("usv", 16 * MIB, ["none", "late"], "latest"),
              ("csv", 16 * MIB, ["none"] * 3 + ["whole"] * 2, "key"),
              ("ndjson", 16 * MIB, ["late", "none", "none"], "time")):
    it(f"unsorted {large[0]} of more than the memory is sorted by spilling, {large[3]}")(
        lambda s, large=large: check_large(s, *large))

# Started from a small process: a child's peak counts that of its parent before exec.
MEASURE = """
import os, sys
child = os.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(child, 0)
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def measure(s, args, inputs, out="out"):
    """Runs a merge; its summary and the most memory that it had, in bytes."""
    process = subprocess.Popen([sys.executable, "-S", "-c", MEASURE, PROGRAM, "merge", "--json",
                                *args, "-o", out, *inputs], cwd=s.path, env=s.env,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    try:
        told, said = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    equal(process.returncode, 0, said)
    return json.loads(told), int(said) * 1024


def long_record_file(s, name, begin, piece, end, line_end, rows, bytes_min=100 * MIB):
    """A file with one record of 100 MiB between two rows; the hash of that record and an LF."""
    digest = hashlib.sha256(begin)
    with open(s.file(name), "wb") as out:
        out.write(rows[0] + b"\n" + begin)
        for _ in range(bytes_min // len(piece) + 1):
            out.write(piece)
            digest.update(piece)
        out.write(end + line_end + rows[1] + b"\n")
    digest.update(end + b"\n")
    return digest.hexdigest()


LONG_RECORDS = {
    "usv": ("1", u("b", "1", ""), b"x\0y\r" * 16384, b"", b"\x1e\n", (u("a", "1"), u("c", "1"))),
    "csv": ("k", b'b,"1\n2",', b'x"",\r' + b"y," * 30000, b'"', b"\r\n",
            (b"k,t,v\na,1,x", b"c,1,z")),
    "ndjson": ("k", b'{"k":"b","t":1,"x":"', b"x\\n" * 16384, b'"}', b"\r\n",
               (b'{"k":"a","t":1}', b'{"k":"c","t":1}')),
}


def stream_long_record(s, name):
    key, begin, piece, end, line_end, rows = LONG_RECORDS[name]
    digest = long_record_file(s, "in", begin, piece, end, line_end, rows)
    args = ["--format", name, "--key", key, "--max-rejects", "1"]
    summary, peak = measure(s, args, ["in"])
    equal(s.read("out"), lines(*rows))
    equal((summary["rows_in"], summary["rows_rejected"]), (3, 1))
    with open(s.file("out.rejects"), "rb") as rejects:
        equal(hashlib.file_digest(rejects, "sha256").hexdigest(), digest, "the reject file")
    if MEASURABLE:
        true(peak < 72 * MIB, f"{peak / MIB:.1f} MiB of memory")
    print(f"# {peak / MIB:.1f} MiB")


for form in ("usv", "csv", "ndjson") if LONG else ("csv",):
    it(f"a {form} record of 100 MiB streams to the reject file in bounded memory")(
        lambda s, form=form: stream_long_record(s, form))


def stay_within_memory(s):
    rng = random.Random(5)
    inputs = write_inputs(s, [draw_large(rng, "usv", 12 * MIB, order)
                              for order in ("none", "late", "whole")])
    for bound in (8, 16):
        summary, peak = measure(s, ["--format", "usv", "--key", "1", "--memory", f"{bound}MiB",
                                    "--max-record", "1MiB"], inputs)
        true(summary["spilled_bytes"] > 0, summary)
        true(peak < (bound + 6) * MIB, f"{peak / MIB:.1f} MiB where {bound} are allowed")
        print(f"# {peak / MIB:.1f} MiB of {bound}")


@it("zstd of the usual window is read in the least memory that can be set, by any threads")
def _(s):
    records = [u(f"{i:07}", "x" * 100) for i in range(40000)]
    for i in range(4):
        s.write(f"in-{i}", zstd(lines(*records[i::4]), sized=False))
    for threads in ("1", "2", "4"):
        merge(s, ["--format", "usv", "--key", "1", "--memory", "8MiB", "--threads", threads],
              [f"in-{i}" for i in range(4)])
        true(s.read("out") == lines(*records), f"the same records with {threads} threads")


if MEASURABLE:
    it("sorting stays within the memory that it is given")(stay_within_memory)


def again(name, number):
    scratch = cli_test.Scratch(None)
    print(f"# in {scratch.path}")
    check_case(scratch, name, number)
    scratch.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["case"]:
        again(*sys.argv[2:])
    else:
        sys.exit(cases.main())

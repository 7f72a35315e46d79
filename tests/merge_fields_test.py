#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""merge_fields_test.py: what `holdfast merge` does with fields: files with different columns, keys
of several fields, of numbers and in descending order, and deletions.

    merge_fields_test.py [SEED]

Prints TAP. Random inputs are held against a model that shares nothing with the program: it knows
rows as dicts, sorts with Python's sort and Decimal, and reads the output with Python's csv and json
modules. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import csv
import decimal
import functools
import gzip
import io
import json
import os
import random
import sys
from collections import Counter

import cases
import cli_test
from cli_test import MIB, code, equal, it, true
from merge_test import MEASURABLE, measure

cases.cases.clear()

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 0
CASES = 6 if cli_test.SANITIZED else 30


def merge(s, *args, out="out"):
    """Runs the program; its summary, whose rows add up."""
    summary = json.loads(s.out("merge", "--json", *args, "-o", out))
    equal(summary["rows_in"], summary["rows_out"] + summary["rows_superseded"]
          + summary["rows_rejected"] + summary["rows_deleted"], "the rows add up")
    return summary


def refused(s, *args, out="out"):
    """Runs what must be refused: no output, and a sentence, which is returned."""
    done = s.run("merge", *args, "-o", out, expect=code(s, "INVALID"))
    true(not os.path.exists(s.file(out)), f"{args}: no output")
    return done.stderr.decode()


def csv_bytes(header, rows, separator=",", quoting=csv.QUOTE_MINIMAL):
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator, lineterminator="\n", quoting=quoting)
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


def read_csv(data, separator=","):
    rows = list(csv.reader(io.StringIO(data.decode(), newline=""), delimiter=separator,
                           strict=True))
    return (rows[0], rows[1:]) if rows else ([], [])


# ---- Different columns --------------------------------------------------------------------------


@it("columns are united by name, in the order in which they first appear")
def _(s):
    s.write("a", b"id,at,x\n1,5,one\n3,5,three\n")
    s.write("b", b"y,id,at\ntwo,2,5\n")
    s.write("c", b"id,at,x,z\n4,5,four,z4\n")
    merge(s, "--format", "csv", "--key", "id", "--time", "at", "a", "b", "c")
    equal(s.read("out"), b"id,at,x,y,z\n1,5,one,,\n2,5,,two,\n3,5,three,,\n4,5,four,,z4\n")
    merge(s, "--format", "csv", "--key", "id", "--time", "at", "b", "c", "a")
    equal(s.read("out"), b"y,id,at,x,z\n,1,5,one,\ntwo,2,5,,\n,3,5,three,\n,4,5,four,z4\n")


@it("a header with the same names, written in another way, needs no other columns")
def _(s):
    s.write("a", b'id,"x"\n1,one\n')
    s.write("b", b'"id",x\n"2",two\n')
    s.write("c", b'x,id\nthree,3\n')
    merge(s, "--format", "csv", "--key", "id", "a", "b", "c")
    equal(s.read("out"), b'id,"x"\n1,one\n"2",two\n3,three\n')


@it("fields keep their quotes, and names may contain anything")
def _(s):
    s.write("a", b'"the,key","a ""b""",x\n1,"q, ""u""\nv",\n')
    s.write("b", b'n,"the,key","a ""b"""\n"n\n2",2,w\n')
    merge(s, "--format", "csv", "--key", "the\\,key", "a", "b")
    equal(s.read("out"), b'"the,key","a ""b""",x,n\n1,"q, ""u""\nv",,\n2,w,,"n\n2"\n')


@it("a carriage return at the end of a field stays there when the field comes last")
def _(s):
    s.write("a", b"id,x\n1,one\n")
    s.write("b", b"y,id\r\ntwo\r,2\r\n")
    merge(s, "--format", "csv", "--key", "id", "a", "b")
    equal(s.read("out"), b'id,x,y\n1,one,\n2,,"two\r"\n')
    equal(read_csv(s.read("out"))[1], [["1", "one", ""], ["2", "", "two\r"]])


@it("carriage returns before the end of a record are no data, in one merge or in two")
def _(s):
    s.write("a", b"id,at,x\r\r\n1,5,one\r\r\n2,5,two\r\n\r\r\n3,5,\"th\r\"\r")
    s.write("b", b"id,at,x\n3,5,th\n1,5,one\n4,5,fo\r\n")
    args = ["--format", "csv", "--key", "id", "--time", "at"]
    wanted = b'id,at,x\n1,5,one\n2,5,two\n3,5,"th\r"\n4,5,fo\n'
    merge(s, *args, "a", "b")
    equal(s.read("out"), wanted)
    merge(s, *args, "a", out="once")
    merge(s, *args, "b", "once")
    equal(s.read("out"), wanted)


@it("empty files, files with only a header, and compressed files take part")
def _(s):
    s.write("a", b"")
    s.write("b", b"id,x\n")
    s.write("c", gzip.compress(b"id,y\n1,why\n"))
    s.write("d", b"\n\n")
    merge(s, "--format", "csv", "--key", "id", "a", "b", "c", "d")
    equal(s.read("out"), b"id,x,y\n1,,why\n")


@it("rejected rows are kept as they were, and count as they did")
def _(s):
    s.write("a", b"id,x\n1,one\n")
    s.write("b", b'y,id\ntwo,2\nlonely\n"a"b,3\n\xff,4\n')
    summary = merge(s, "--format", "csv", "--key", "id", "--max-rejects", "any", "a", "b")
    equal(s.read("out"), b"id,x,y\n1,one,\n2,,two\n4,,\xff\n")
    equal(s.read("out.rejects"), b'lonely\n"a"b,3\n')
    equal(summary["rows_rejected"], 2)


@it("a record that the added columns make too long is rejected")
def _(s):
    s.write("a", b"id," + b",".join(b"c%d" % i for i in range(30)) + b"\n1" + b"," * 30 + b"\n")
    s.write("b", b"id,x\n2," + b"y" * 60 + b"\n3,z\n")
    summary = merge(s, "--format", "csv", "--key", "id", "--max-record", "64", "--max-rejects",
                    "1", "a", "b")
    equal((summary["rows_out"], summary["rows_rejected"]), (2, 1))
    equal(s.read("out.rejects"), b"2," + b"y" * 60 + b"\n")


@it("unsorted files with different columns are sorted, in groups and in little memory")
def _(s):
    rng = random.Random(SEED)
    inputs, rows = [], []
    for i in range(300):
        header = rng.sample(["id", "at", "x", "y", "z"][:rng.randint(2, 5)], 2)
        header = list(dict.fromkeys(["id", "at"] + header))
        rng.shuffle(header)
        drawn = [{name: str(rng.randrange(10**6)) if name == "id" else str(i * 100 + j)
                  for name in header} for j in range(rng.randrange(20))]
        rows += drawn
        s.write(f"in-{i}", csv_bytes(header, [[row[name] for name in header] for row in drawn]))
        inputs.append(f"in-{i}")
    summary = merge(s, "--format", "csv", "--key", "id", "--time", "at", "--memory", "8MiB",
                    "--threads", "3", *inputs)
    header, out = read_csv(s.read("out"))
    latest = {}
    for row in rows:
        latest.setdefault(row["id"], row)
        latest[row["id"]] = max(latest[row["id"]], row, key=lambda row: int(row["at"]))
    equal(sorted(header), sorted({name for row in rows for name in row}))
    equal([dict(zip(header, row)) for row in out],
          [{name: latest[key].get(name, "") for name in header} for key in sorted(latest)])
    true(summary["inputs_unsorted"] > 0, summary)


@it("short records that get many columns, and records with many fields, take little memory")
def _(s):
    s.write("wide", b"id,at," + b",".join(b"c%d" % i for i in range(20000)) + b"\n")
    s.write("long", b"id,at\n" + b"".join(b"%06d,5\n" % i for i in range(8000)))
    args = ["--format", "csv", "--key", "id", "--time", "at", "--memory", "16MiB", "--max-record",
            "1MiB", "--threads", "1"]
    _, needed = measure(s, args, ["wide", "long"])
    true(not MEASURABLE or needed < 24 * MIB, f"{needed} bytes for rows that become long")
    equal(os.path.getsize(s.file("out")),
          os.path.getsize(s.file("wide")) + 8000 * (len("000000,5\n") + 20000))
    s.write("commas", b"1" + b"," * 1000000 + b"\n" + b"2" + b"," * 1000000 + b"\n")
    _, needed = measure(s, ["--format", "csv", "--no-header", "--key", "1:number", "--memory",
                            "16MiB", "--threads", "1"], ["commas"])
    true(not MEASURABLE or needed < 24 * MIB, f"{needed} bytes for a record of many fields")


@it("a header with a name twice, without the key or without the time is refused by name")
def _(s):
    s.write("a", b"id,at,x\n1,5,one\n")
    for header, words in ((b"id,at,x,y,x", "'x' twice"), (b"at,y", "'id'"), (b"id,y", "'at'"),
                          (b'id,"at', "quote"), (b'id,at,"y"z', "quote")):
        s.write("b.csv", header + b"\n")
        for order in (["a", "b.csv"], ["b.csv", "a"]):
            text = refused(s, "--format", "csv", "--key", "id", "--time", "at", *order)
            true("b.csv" in text and words in text, f"{header}: {text}")
    s.write("c", b"id,x,x\n1,2,3\n")
    s.write("d", b"id,x,x\n4,5,6\n")
    merge(s, "--format", "csv", "--key", "id", "c", "d")
    equal(s.read("out"), b"id,x,x\n1,2,3\n4,5,6\n", "equal headers may have a name twice")


@it("a field given by number must be the same column in each file")
def _(s):
    s.write("a", b"id,at,x\n1,5,one\n")
    s.write("b", b"id,at,y\n2,5,two\n")
    s.write("c", b"at,id,y\n5,3,two\n")
    merge(s, "--format", "csv", "--key", "1", "--time", "2", "a", "b")
    equal(s.read("out"), b"id,at,x,y\n1,5,one,\n2,5,,two\n")
    os.unlink(s.file("out"))
    text = refused(s, "--format", "csv", "--key", "1", "a", "c")
    true("c" in text and "field 1 is 'at'" in text and "'id'" in text, text)
    text = refused(s, "--format", "csv", "--key", "id", "--no-header", "a", "b")
    true("without a header" in text, text)


@it("there is a limit to different headers and to columns, and it is told")
def _(s):
    for i in range(1001):
        s.write(f"{i}", b"id,c%d\n%d,x\n" % (i, i))
    names = [str(i) for i in range(1001)]
    summary = merge(s, "--format", "csv", "--key", "id:number", *names[:1000])
    equal(summary["rows_out"], 1000)
    header, rows = read_csv(s.read("out"))
    equal((len(header), [row.index("x") for row in rows]), (1001, list(range(1, 1001))))
    os.unlink(s.file("out"))
    true("more than 1000 different headers" in refused(s, "--format", "csv", "--key", "id", *names),
         "too many headers")
    for name in ("a", "b"):
        s.write(name, b"id," + b",".join(b"%s%d" % (name.encode(), i) for i in range(55000)) + b"\n")
    true("100000 different columns" in refused(s, "--format", "csv", "--key", "id", "a", "b"),
         "too many columns")
    for name in ("a", "b"):
        s.write(name, b"id,%s\n" % (name.encode() * 600000))
    true("longer than 1 MiB" in refused(s, "--format", "csv", "--key", "id", "a", "b"), "too long")


@it("ndjson objects with different members are merged as they are")
def _(s):
    s.write("a", b'{"id":"1","at":5,"x":1}\n{"id":"3","at":5}\n')
    s.write("b", b'{"y":[1,{"id":9}],"at":6,"id":"1"}\n{"at":5,"id":"2","z":null}\n')
    merge(s, "--format", "ndjson", "--key", "id", "--time", "at", "a", "b")
    equal([json.loads(line) for line in s.read("out").splitlines()],
          [{"y": [1, {"id": 9}], "at": 6, "id": "1"}, {"at": 5, "id": "2", "z": None},
           {"id": "3", "at": 5}])


# ---- Keys ---------------------------------------------------------------------------------------

NUMBERS = ["-1e400", "-12345678901234567890123456789", "-12345678901234567890123456788.5", "-10",
           "-9.99", "-1", "-0.5", "-1e-9", "-1e-400", "0", "1e-400", "0.00000001", "1e-7", "0.1",
           "0.10001", "0.5", "1", "1.000000000000000000000000000001", "2", "9", "10", "10.5", "99",
           "100", "1e10", "12345678901234567890", "12345678901234567891", "1e39", "1e40", "1e41",
           "123e400", "1e999999999"]


@it("numbers are compared exactly, whatever their size and form")
def _(s):
    rng = random.Random(SEED)
    for form, ends in (("usv", ("", "")), ("csv", ("n\n", "")), ("ndjson", None)):
        drawn = NUMBERS[:]
        rng.shuffle(drawn)
        records = [f'{{"n":{text}}}' for text in drawn] if ends is None else drawn
        s.write("in", ((ends or ("",))[0] + "\n".join(records) + "\n").encode())
        key = "1" if form == "usv" else "n"
        for order, wanted in ((":number", NUMBERS), (":number:desc", NUMBERS[::-1])):
            merge(s, "--format", form, "--key", key + order, "in")
            got = s.read("out").decode().split("\n")[1 if form == "csv" else 0:-1]
            equal([json.loads(line, parse_float=str, parse_int=str)["n"] for line in got]
                  if form == "ndjson" else got, wanted, f"{form}{order}")


@it("numbers that are equal are one key, however they are written")
def _(s):
    same = ["1", "1.0", "1e0", "10e-1", "0.1e1", "+1", "01", "1.000e+00", "0.000001E6"]
    s.write("in", "".join(f"{text}\x1f{i}\n" for i, text in enumerate(same)).encode())
    summary = merge(s, "--format", "usv", "--key", "1:number", "--time", "2", "in")
    equal((summary["rows_out"], s.read("out")), (1, b"0.000001E6\x1f8\n"))
    zeros = ["0", "-0", "0.000", "0e5", "-0e999999999", "+0", "-000"]
    s.write("in", "".join(f"{text}\x1f{i}\n" for i, text in enumerate(zeros)).encode())
    equal(merge(s, "--format", "usv", "--key", "1:number", "--time", "2", "in")["rows_out"], 1)


@it("a key that is not a number is rejected, with the reason")
def _(s):
    bad = ["", "NaN", "inf", "-", "+", "1.", ".5", "1e", "1e+", "0x10", " 1", "1 ", "1,5", "--1",
           "1e9999999999", "+-1", "one"]
    s.write("in", "".join(f"{text}\x1fx\n" for text in bad + ["7"]).encode())
    summary = merge(s, "--format", "usv", "--key", "1:number", "--max-rejects", "any", "in")
    equal((summary["rows_rejected"], s.read("out")), (len(bad), b"7\x1fx\n"))
    true("has a key that is not a number" in summary["reasons"][0], summary["reasons"])
    s.write("in", b'{"n":1}\n{"n":"1"}\n{"n":null}\n{"n":[1]}\n{}\n{"n":2}\n')
    summary = merge(s, "--format", "ndjson", "--key", "n:number", "--max-rejects", "any", "in")
    equal((summary["rows_rejected"], s.read("out")), (4, b'{"n":1}\n{"n":2}\n'))


@it("several fields make one key, and only rows with all of them equal replace each other")
def _(s):
    s.write("in", b"a,b,t\nx,1,1\nx,1,2\nxy,1,1\nx,2,1\n,1,1\n")
    merge(s, "--format", "csv", "--key", "a,b", "--time", "t", "in")
    equal(s.read("out"), b"a,b,t\n,1,1\nx,1,2\nx,2,1\nxy,1,1\n")
    merge(s, "--format", "csv", "--key", "a:desc,b:number:desc", "--time", "t", "in")
    equal(s.read("out"), b"a,b,t\nxy,1,1\nx,2,1\nx,1,2\n,1,1\n")
    s.write("in", b"a\0\x1fb\na\x1f\0b\na\x1fb\n\x1fab\n")
    merge(s, "--format", "usv", "--key", "1,2", "in")
    equal(s.read("out"), b"\x1fab\na\x1f\0b\na\x1fb\na\0\x1fb\n")


@it("a name with a comma, colon or backslash is reached by a backslash")
def _(s):
    for name, written in (("a,b", "a\\,b"), ("a:desc", "a\\:desc"), ("a\\b", "a\\\\b"),
                          (":", "\\:"), (",", "\\,")):
        s.write("in.csv", csv_bytes([name, "x"], [["2", "p"], ["1", "q"]]))
        s.write("in.ndjson", b"".join(json.dumps({name: key}).encode() + b"\n" for key in "21"))
        merge(s, "--format", "csv", "--key", written, "in.csv")
        equal(read_csv(s.read("out"))[1], [["1", "q"], ["2", "p"]])
        merge(s, "--format", "csv", "--key", written + ":desc,x", "in.csv")
        equal(read_csv(s.read("out"))[1], [["2", "p"], ["1", "q"]])
        merge(s, "--format", "ndjson", "--key", written, "in.ndjson")
        equal(json.loads(s.read("out").splitlines()[0]), {name: "1"})


@it("a key that cannot be understood is refused in words")
def _(s):
    s.write("in", b"a,b\n1,2\n")
    for key, words in (("a:up", ":number, :desc"), ("a:desc:number", ":desc"), ("a:number:number",
                       ":number"), ("a,a", "twice"), ("a,1,1", "twice"), ("a\\b", "backslash"),
                       ("a\\", "backslash"), ("a,", "number or a name"), ("a,c", "'c'"),
                       (",".join("abcdefghi"), "at most 8"), ("a:", ":number"),
                       ("x" * 3000, "2048"), ("0", "from 1"), ("3", "no field 3")):
        text = refused(s, "--format", "csv", "--key", key, "in")
        true(words in text, f"{key[:40]}: {text}")


# ---- Deletions ----------------------------------------------------------------------------------

DELETED = ["--format", "csv", "--key", "id", "--time", "at", "--deleted-field", "gone"]


@it("a deletion wins or loses by its time, and is written")
def _(s):
    s.write("a", b"id,at,gone\n1,1,\n2,5,true\n3,1,false\n4,9,1\n")
    s.write("b", b"id,at\n1,2\n2,6\n3,2\n4,3\n5,1\n")
    summary = merge(s, *DELETED, "a", "b")
    equal(s.read("out"), b"id,at,gone\n1,2,\n2,6,\n3,2,\n4,9,1\n5,1,\n")
    equal((summary["rows_deleted"], summary["rows_superseded"]), (0, 4))
    summary = merge(s, *DELETED, "--drop-deleted", "--all-files", "a", "b")
    equal(s.read("out"), b"id,at,gone\n1,2,\n2,6,\n3,2,\n5,1,\n")
    equal((summary["rows_deleted"], summary["rows_superseded"]), (1, 4))
    told = s.run("merge", *DELETED, "--drop-deleted", "--all-files", "-o", "out", "a", "b").stdout
    true(b"4 superseded, 0 rejected, 1 deleted" in told, told)


@it("true, yes and 1 mark a deletion, in any case; anything strange rejects the record")
def _(s):
    values = ["true", "TRUE", "True", "yes", "Yes", "1", "false", "FALSE", "no", "NO", "0", "",
              "maybe", "2", "t", " true", "01", "null"]
    wanted = [6, 6, 6]
    s.write("in", csv_bytes(["id", "at", "gone"], [[i, 1, v] for i, v in enumerate(values)]))
    args = ["--drop-deleted", "--all-files", "--max-rejects", "any"]
    summary = merge(s, *DELETED, *args, "in")
    equal([summary[name] for name in ("rows_deleted", "rows_out", "rows_rejected")], wanted)
    true("neither true nor false" in summary["reasons"][0], summary)
    s.write("in", b"".join(b"%d\x1f1\x1f%s\n" % (i, v.encode()) for i, v in enumerate(values))
            + b"short\x1f1\n")
    summary = merge(s, "--format", "usv", "--key", "1", "--time", "2", "--deleted-field", "3",
                    *args, "in")
    equal([summary[name] for name in ("rows_deleted", "rows_out", "rows_rejected")], [6, 7, 6])
    values = ["true", "1", '"true"', '"1"', '"Yes"', "false", "0", "null", '"no"', '""', '"0"',
              "2", "1.0", "[]", "{}", '"maybe"', "-1", '"\\u0031"']
    s.write("in", b"".join(b'{"id":%d,"at":1,"gone":%s}\n' % (i, v.encode())
                           for i, v in enumerate(values)) + b'{"id":99,"at":1}\n')
    summary = merge(s, "--format", "ndjson", "--key", "id", "--time", "at", "--deleted-field",
                    "gone", *args, "in")
    equal([summary[name] for name in ("rows_deleted", "rows_out", "rows_rejected")], [5, 7, 7])


@it("deletions need a key and a time, and are dropped only where nothing else is left")
def _(s):
    s.write("in", b"id,at,gone\n1,1,true\n")
    for args, words in ((["--key", "id", "--deleted-field", "gone"], "--time"),
                        (["--time", "at", "--deleted-field", "gone"], "--key"),
                        (["--key", "id", "--time", "at", "--drop-deleted", "--all-files"],
                         "--deleted-field"),
                        ([*DELETED[2:], "--drop-deleted"], "--all-files"),
                        ([*DELETED[2:], "--all-files"], "--drop-deleted")):
        done = s.run("merge", "--format", "csv", *args, "-o", "out", "in",
                     expect=code(s, "INVALID"))
        true(words in done.stderr.decode(), f"{args}: {done.stderr}")
    done = s.run("merge", "--format", "concat", "--deleted-field", "x", "-o", "out", "in",
                 expect=code(s, "INVALID"))
    true("usv, csv, tsv, ndjson or parquet" in done.stderr.decode(), done.stderr)


@it("all rows deleted leave a header and nothing else")
def _(s):
    s.write("a", b"id,at,gone\n1,1,\n2,1,\n")
    s.write("b", b"id,at,gone\n1,2,yes\n2,2,yes\n")
    summary = merge(s, *DELETED, "--drop-deleted", "--all-files", "b", "a")
    equal((s.read("out"), summary["rows_out"], summary["rows_deleted"]), (b"id,at,gone\n", 0, 2))


# ---- Against the model --------------------------------------------------------------------------


class Case:
    """Files as lists of dicts, and how they are merged. Half of the cases have so few times that
    many rows are decided by their values."""

    def __init__(self, rng):
        self.rng = rng
        self.format = rng.choice(["csv", "tsv", "ndjson", "usv"])
        self.names = ["id", "at", "gone", "k2", "k,3", "x", 'y"q', "z z", "é"]
        parts = rng.sample(["id", "k2", "k,3"], rng.randint(1, 3))
        self.key = [(name, rng.random() < 0.5, rng.random() < 0.4) for name in parts]
        self.latest = rng.random() < 0.7
        self.deleted = self.latest and rng.random() < 0.6
        self.drop = self.deleted and rng.random() < 0.6
        times = list(range(1, 4000))
        rng.shuffle(times)
        self.times = iter(times)
        self.ties = rng.random() < 0.5
        self.files = [self.draw_file() for _ in range(rng.choice([1, 2, 5, 5, 12, 230]))]

    def draw_file(self):
        rng = self.rng
        needed = [name for name, _, _ in self.key] + ["at"]
        if self.format == "usv":
            header = self.names
        else:
            rest = [name for name in self.names if name not in needed]
            header = needed + rng.sample(rest, rng.randrange(len(rest) + 1))
            rng.shuffle(header)
        rows = [self.draw_row(header) for _ in range(rng.choice([0, 1, 3, rng.randrange(16)]))]
        if rng.random() < 0.5:
            rows.sort(key=functools.cmp_to_key(self.compare))
        return header, rows

    def draw_row(self, header):
        rng = self.rng
        row = {name: rng.choice(["", "v", "a b", "1,5", '"', "\t", "é\n"]) for name in header}
        if self.format == "usv":
            row = {name: value.replace("\n", "") for name, value in row.items()}
        numbers = ["0", "-0.0", "1", "1.0", "2", "10", "-3", "1e2", "100", "0.5", "-0.25",
                   "123456789012345678901234567890", "123456789012345678901234567891"]
        texts = ["", "a", "aa", "ab", "b", "10", "9", "a,b", "é", "a\0", "a\0b"]
        if self.format in ("csv", "tsv"):
            texts = texts[:-2]  # Python's csv module reads no NUL
        for name, is_number, _ in self.key:
            row[name] = rng.choice(numbers if is_number else texts)
        row["at"] = rng.choice(["7", "7.0", "8"]) if self.ties else str(next(self.times))
        if "gone" in row:
            row["gone"] = rng.choice(["", "", "true", "1", "no"]) if self.deleted else ""
        return row

    def compare(self, a, b):
        for name, is_number, descending in self.key:
            x, y = a[name], b[name]
            if is_number:
                x, y = decimal.Decimal(x), decimal.Decimal(y)
            else:
                x, y = x.encode(), y.encode()
            if x != y:
                return -1 if (x < y) != descending else 1
        return 0

    def identity(self, row):
        return tuple(decimal.Decimal(row[name]).normalize() + 0 if is_number else row[name]
                     for name, is_number, _ in self.key)

    def order(self, header, row):
        """What decides which row of a key is kept."""
        when = decimal.Decimal(row["at"])
        if self.format in ("csv", "tsv"):
            return when, [row.get(name, "").encode()
                          for name in sorted(self.names, key=str.encode)]
        return when, self.encode(header, [row])[:-1]

    def args(self, drop):
        def field(name):
            if self.format == "usv":
                return str(self.names.index(name) + 1)
            return name.replace(",", "\\,")
        key = ",".join(field(name) + ":number" * is_number + ":desc" * descending
                       for name, is_number, descending in self.key)
        args = ["--format", self.format, "--key", key]
        args += ["--time", field("at")] if self.latest else []
        args += ["--deleted-field", field("gone")] if self.deleted else []
        return args + (["--drop-deleted", "--all-files"] if drop else [])

    def encode(self, header, rows):
        numeric = {name for name, is_number, _ in self.key if is_number}
        if self.format == "ndjson":
            return b"".join(
                ("{" + ",".join(json.dumps(name) + ":" + (row[name] if name in numeric
                                                          else json.dumps(row[name]))
                                for name in header) + "}\n").encode() for row in rows)
        if self.format == "usv":
            return b"".join("\x1f".join(row[name] for name in header).encode() + b"\n"
                            for row in rows)
        return csv_bytes(header, [[row[name] for name in header] for row in rows],
                         "," if self.format == "csv" else "\t",
                         self.rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))

    def decode(self, data):
        """The columns of the output, and its rows."""
        if self.format == "ndjson":
            return None, [json.loads(line, parse_int=str, parse_float=str)
                          for line in data.decode().split("\n")[:-1]]
        if self.format == "usv":
            return None, [dict(zip(self.names, line.split("\x1f")))
                          for line in data.decode().split("\n")[:-1]]
        header, rows = read_csv(data, "," if self.format == "csv" else "\t")
        true(all(len(row) == len(header) for row in rows), "each row has each column")
        return header, [dict(zip(header, row)) for row in rows]

    def wanted(self):
        """The columns, the rows in order, and how many were superseded and deleted."""
        columns = list(dict.fromkeys(name for header, _ in self.files for name in header))
        rows = [row for _, rows in self.files for row in rows]
        count, deleted = len(rows), 0
        if self.latest:
            best = {}
            for header, rows_of_file in self.files:
                for row in rows_of_file:
                    key, order = self.identity(row), self.order(header, row)
                    if key not in best or order > best[key][0]:
                        best[key] = order, row
            rows = [row for _, row in best.values()]
        superseded = count - len(rows)
        if self.drop:
            kept = [row for row in rows if row.get("gone") not in ("true", "1")]
            deleted, rows = len(rows) - len(kept), kept
        rows.sort(key=functools.cmp_to_key(self.compare))
        if self.format in ("csv", "tsv"):
            rows = [{name: row.get(name, "") for name in columns} for row in rows]
        return columns, rows, superseded, deleted

    def check(self, s):
        inputs = []
        for i, (header, rows) in enumerate(self.files):
            data = self.encode(header, rows)
            s.write(f"in-{i}", gzip.compress(data) if self.rng.random() < 0.2 else data)
            inputs.append(f"in-{i}")
        columns, rows, superseded, deleted = self.wanted()
        for tuned in (["--threads", "1"], ["--threads", "3", "--memory", "8MiB"]):
            summary = merge(s, *self.args(self.drop), *tuned, *inputs)
            header, out = self.decode(s.read("out"))
            equal((summary["rows_superseded"], summary["rows_deleted"]), (superseded, deleted))
            if header is not None:
                equal(header, columns, "the columns")
            if self.latest:
                equal(out, rows, "the rows")
            else:
                equal([self.identity(row) for row in out], [self.identity(row) for row in rows])
                equal(Counter(json.dumps(row, sort_keys=True) for row in out),
                      Counter(json.dumps(row, sort_keys=True) for row in rows))
        self.check_steps(s, inputs, rows)
        for name in inputs:
            os.unlink(s.file(name))

    def check_steps(self, s, inputs, rows):
        """Merges in steps, in a random order and grouping, as the workers of a partition do. Only
        the last step has all rows, so only it may drop deletions."""
        left, number = list(inputs), 0
        while len(left) > 1:
            self.rng.shuffle(left)
            count = min(len(left), self.rng.choice([2, 3, 5, 100]))
            merge(s, *self.args(drop=False), "--threads", self.rng.choice("123"), *left[:count],
                  out=f"step-{number}")
            left = left[count:] + [f"step-{number}"]
            number += 1
        merge(s, *self.args(self.drop), *left)

        def canonical(rows):
            """Without what a file without that column would not have."""
            if self.format in ("csv", "tsv"):
                rows = [{name: value for name, value in row.items() if value} for row in rows]
            return [json.dumps(row, sort_keys=True) for row in rows]
        out = self.decode(s.read("out"))[1]
        if self.latest:
            equal(canonical(out), canonical(rows), "the rows, in steps")
        else:
            equal(Counter(canonical(out)), Counter(canonical(rows)), "the rows, in steps")


def rows_of(s):
    header, rows = read_csv(s.read("out"))
    return [dict(zip(header, row)) for row in rows]


@it("equal times are decided by the values of columns, whatever the order of files and columns")
def _(s):
    s.write("a", b"id,at,x\n1,5,b\n")
    s.write("b", b"id,at,y\n1,5,c\n")
    s.write("c", b"y,x,at,id\n,a,5,1\n")
    args = ["--format", "csv", "--key", "id", "--time", "at"]
    for order in ("abc", "acb", "bac", "bca", "cab", "cba"):
        merge(s, *args, *order)
        equal(rows_of(s), [{"id": "1", "at": "5", "x": "b", "y": ""}], f"of {order}")
        merge(s, *args, order[0], order[1], out="two")
        merge(s, *args, "two", order[2])
        equal(rows_of(s), [{"id": "1", "at": "5", "x": "b", "y": ""}], f"{order} in two steps")


@it("equal times are decided by values, not by what stands between them")
def _(s):
    # '!' is less than a comma: with a column after it, "a!" would be less than "a".
    s.write("a", b"id,at,x\n1,5,a\n2,5,a\n3,5,q\n")
    s.write("b", b'id,at,x\n1,5,a!\n2,5,"a"\n3,5,"q"""\n')
    s.write("more", b"id,at,x,y\n9,5,,\n")
    args = ["--format", "csv", "--key", "id", "--time", "at"]
    merge(s, *args, "a", "b")
    equal(s.read("out"), b'id,at,x\n1,5,a!\n2,5,"a"\n3,5,"q"""\n')
    merge(s, *args, "a", "b", "more")
    equal(s.read("out"), b'id,at,x,y\n1,5,a!,\n2,5,"a",\n3,5,"q""",\n9,5,,\n')


@it("random files come out as the model says, in columns, order and number, in one merge or many")
def _(s):
    decimal.getcontext().prec = 100
    for number in range(CASES):
        try:
            Case(random.Random(f"{SEED} {number}")).check(s)
        except Exception as trouble:
            raise AssertionError(f"case {number} of seed {SEED}") from trouble


if __name__ == "__main__":
    sys.exit(cases.main())

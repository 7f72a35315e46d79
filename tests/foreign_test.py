#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""foreign_test.py: what `merge` and `index export` write is read by programs that are not ours, to
equal rows: Python's csv and json modules, Node, and DuckDB. The values are as awkward as text can be
without NUL.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py. DuckDB is
the library that `make setup-test` installs (duckdb_kit.py).
"""

import csv
import io
import json
import re
import subprocess
import sys

import cases
import duckdb_kit
from cli_test import MIB, equal, it, true

cases.cases.clear()
csv.field_size_limit(16 * MIB)

FIELDS = ["k", "v", "t"]
FORMATS = ("csv", "tsv", "ndjson", "usv")
SEPARATORS = {"csv": ",", "tsv": "\t"}
CONTROLS = "".join(map(chr, [*range(1, 32), 127]))

VALUES = [
    "", " ", "  leading blanks", "trailing blanks  ", "\t", "a\tb", '"', '""', 'say "hi"', '"quoted"',
    "a,b;c|d", ",", "line\nbreak", "line\r\nbreak", "\n", "\r", "a\rb", "\r\n", "ends with\n",
    "back\\slash", "\\", "\\n", '\\"', "'single'", "`", "emoji \U0001f600 \U0001f469\u200d\U0001f467",
    "caf\u00e9 \u4e2d\u6587 \u0645\u0631\u062d\u0628\u0627", "\u2028\u2029\u0085", "\ufeffmark", "\U0010ffff",
    "null", "NULL", "\\N", "None", "NaN", "true", "007", "1e5", "-0", "=1+1", "#comment", "--", "{}",
    "[1,2]", '{"a":"b"}', "2026-02-06T10:00:00Z", CONTROLS, "\x7f",
]
# Fields of 1 MiB; in an index, a whole record is at most that large.
LONG = {"merge": ["x" * MIB, '\u00e9\U0001f600",\n' * (MIB // 9 + 1)],
        "index": ["x" * (MIB - 100), '\u00e9\U0001f600",\n' * (MIB // 12)]}


def rows(version, step=1, where="merge"):
    """A row for each value, or for each `step`-th. Its key is its number."""
    values = VALUES + LONG[where]
    return [(f"{i:03}", values[i] if version == 2 else "an older value", f"177000000{version}")
            for i in range(0, len(values), step)]


# ---- Writers, for the inputs --------------------------------------------------------------------


def as_csv(table, separator=","):
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=separator)
    writer.writerow(FIELDS)
    writer.writerows(table)
    return text.getvalue().encode()


def as_ndjson(table):
    return b"".join(json.dumps(dict(zip(FIELDS, row)), ensure_ascii=int(row[0]) % 2 == 0).encode() + b"\n"
                    for row in table)


def plain_usv(table):
    """Merging leaves usv fields as they are, so that they cannot hold its separators."""
    return b"".join("\x1f".join(row).encode() + b"\n" for row in table
                    if not re.search("[\n\x1e\x1f]", row[1]))


def write_as(format_, table):
    if format_ in SEPARATORS:
        return as_csv(table, SEPARATORS[format_])
    return as_ndjson(table) if format_ == "ndjson" else plain_usv(table)


# ---- Readers ------------------------------------------------------------------------------------


def read_usv(data, escapes):
    """Five lines: fields between 0x1F, records before LF, and, in an index, escapes after 0x1B."""
    for line in data.decode().split("\n")[:-1]:
        row = line.split("\x1f")
        yield tuple(re.sub("\x1b(.)", lambda m: chr(ord(m[1]) & 0x1f), value) if escapes else value
                    for value in row)


def python_rows(path, format_, escapes):
    with open(path, "rb") as file:
        data = file.read()
    if format_ == "usv":
        return list(read_usv(data, escapes))
    if format_ == "ndjson":
        return [tuple(json.loads(line)[name] for name in FIELDS) for line in data.split(b"\n")[:-1]]
    table = list(csv.reader(io.StringIO(data.decode(), newline=""), delimiter=SEPARATORS[format_], strict=True))
    equal(table[0], FIELDS, "the header")
    return [tuple(row) for row in table[1:]]


# Node has a reader of JSON; that of CSV is RFC 4180 as a loop over characters.
NODE = r"""
const [path, format, escapes] = process.argv.slice(2);
const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(require('fs').readFileSync(path));
function separated(text, separator) {
    const rows = [];
    let row = [], field = '', at = 0;
    while (at < text.length) {
        if (text[at] === '"') {
            for (at++; text[at] !== '"' || text[at + 1] === '"'; at++) {
                if (at >= text.length) throw new Error('a quote is open');
                at += text[at] === '"';
                field += text[at];
            }
            at++;
        } else {
            const start = at;
            while (at < text.length && text[at] !== separator && text[at] !== '\n') at++;
            field = text.slice(start, at);
            if (field.includes('"')) throw new Error('a quote in ' + field.slice(0, 100));
        }
        row.push(field);
        field = '';
        if (text[at] === '\n' || at >= text.length) { rows.push(row); row = []; }
        else if (text[at] !== separator) throw new Error('text after a quote');
        else if (text[at + 1] === '\n') { row.push(''); rows.push(row); row = []; at++; }
        at++;
    }
    return rows;
}
const lines = () => text.split('\n').slice(0, -1);
const unescape = (value) => value.replace(/\x1b(.)/gs, (_, c) => String.fromCharCode(c.charCodeAt(0) & 0x1f));
let rows;
if (format === 'ndjson') rows = lines().map((line) => JSON.parse(line)).map((o) => [o.k, o.v, o.t]);
else if (format === 'usv') rows = lines().map((line) => line.split('\x1f').map((v) => escapes ? unescape(v) : v));
else rows = separated(text, format === 'csv' ? ',' : '\t').slice(1);
process.stdout.write(JSON.stringify(rows));
"""


def node_rows(s, path, format_, escapes):
    done = subprocess.run(["node", "-e", NODE, "node", path, format_, *(["1"] if escapes else [])],
                          cwd=s.path, capture_output=True, timeout=120, check=False)
    equal((done.returncode, done.stderr), (0, b""), f"node reads {path}")
    return [tuple(row) for row in json.loads(done.stdout)]


def duckdb_rows(path, format_, escapes):
    """None: DuckDB has no reader for it."""
    duck = duckdb_kit.Duck()
    columns = "columns={k: 'VARCHAR', v: 'VARCHAR', t: 'VARCHAR'}"
    if format_ == "ndjson":
        table = duck.query(f"SELECT * FROM read_json({duckdb_kit.quote(path)}, format='newline_delimited', "
                           f"maximum_object_size={32 * MIB}, {columns})")
    elif format_ in SEPARATORS:
        table = duck.query(
            f"SELECT * FROM read_csv({duckdb_kit.quote(path)}, delim={duckdb_kit.quote(SEPARATORS[format_])}, "
            f"quote='\"', escape='\"', header=true, auto_detect=false, strict_mode=true, null_padding=false, "
            f"nullstr='there is no such text', max_line_size={16 * MIB}, buffer_size={64 * MIB}, {columns})")
    else:
        return None
    return [tuple("" if value is None else value for value in row) for row in table]


def check_file(s, name, format_, wanted, escapes=False):
    """Each reader sees these rows, in this order; those of an index (which escapes) in any."""
    path = s.file(name)
    readers = {"Python": lambda: python_rows(path, format_, escapes),
               "Node": lambda: node_rows(s, path, format_, escapes),
               "DuckDB": lambda: duckdb_rows(path, format_, escapes)}
    for reader, read in readers.items():
        got = read()
        if got is None:
            continue
        got = sorted(got) if escapes else got
        equal([row[0] for row in got], [row[0] for row in wanted], f"{reader}: the keys")
        for row, good in zip(got, wanted):
            true(row == good, f"{reader} reads {row!r:.300} in {name}, not {good!r:.300}")


# ---- The cases ----------------------------------------------------------------------------------


def merge_case(format_):
    def run(s):
        new = write_as(format_, rows(2))
        s.write("old", write_as(format_, rows(1, step=3)))
        s.write("new", new)
        by_name = ["--key", "k", "--time", "t"] if format_ != "usv" else ["--key", "1", "--time", "3"]
        for threads in ("1", "3"):
            s.run("merge", "-q", "--format", format_, *by_name, "--threads", threads, "-o", "out", "old", "new")
            wanted = [row for row in rows(2) if format_ != "usv" or not re.search("[\n\x1e\x1f]", row[1])]
            if format_ == "usv":  # an older row stays where the new value cannot be written
                kept = {row[0] for row in wanted}
                wanted = sorted(wanted + [row for row in rows(1, step=3) if row[0] not in kept])
            check_file(s, "out", format_, wanted)
    it(f"merged {format_} is read by Python, Node and DuckDB to equal rows")(run)


def index_case(format_):
    def run(s):
        s.env["HOLDFAST_STORE"] = "dir:objects?sync=off"
        s.run("index", "create", "-q", "all", "--fields", ",".join(FIELDS), "--key", "k", "--time", "t")
        s.write("old.ndjson", as_ndjson(rows(1, 3, "index")))
        s.write("new.csv", as_csv(rows(2, 1, "index")))
        s.run("index", "put", "-q", "all", "--from", "old.ndjson")
        s.run("index", "compile", "-q", "all")
        s.run("index", "put", "-q", "all", "--from", "new.csv")
        for compiled in (False, True):
            if compiled:
                s.run("index", "compile", "-q", "all")
            s.run("index", "export", "-q", "all", "-o", f"out.{format_}")
            got = s.read(f"out.{format_}")
            check_file(s, f"out.{format_}", format_, rows(2, 1, "index"), escapes=True)
            equal(s.out("index", "export", "all", "--format", format_) == got, True, "stdout is the same")
    it(f"an index exported as {format_} is read by Python, Node and DuckDB to equal rows")(run)


for name in FORMATS:
    merge_case(name)
    index_case(name)


@it("DuckDB is there: without its library these cases would show less")
def _(_s):
    true(duckdb_kit.library_path(), "libduckdb.so is missing: run `make setup-test`")


if __name__ == "__main__":
    sys.exit(cases.main())

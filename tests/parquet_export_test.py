#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""parquet_export_test.py: records of partitions, exported from and to Parquet: filtered and converted,
with no row lost and no value changed in silence. DuckDB itself writes the inputs and reads the
outputs.

Prints TAP. Scratch folders are those of cli_test.py. Skipped where DuckDB's library is missing.
"""

import csv
import decimal
import io
import json
import sys

import cases
from cli_test import equal, fails, true
from duckdb_kit import quote
from parquet_test import create, ingest, main, parquet, rows, some_chunks, write

cases.cases.clear()


def columns(s, name):
    return [row[0] for row in s.duck.query(f"DESCRIBE SELECT * FROM {quote(s.file(name))}")]


def read_json(s, *args):
    text = s.out("compact", "cat", "--format", "ndjson", *args)
    return [json.loads(line, parse_float=decimal.Decimal) for line in text.splitlines()]


# ---- From Parquet -------------------------------------------------------------------------------


@parquet("a partition of Parquet files is exported as text, and filtered", ["dir"])
def _(s):
    create(s)
    ingest(s, *some_chunks(s, 3))
    write(s, "more.parquet", "SELECT 12::BIGINT AS id, TIMESTAMPTZ '2026-01-02 00:00:00+02' AT TIME ZONE "
                             "'UTC' AS seen, NULL::INTEGER AS v, [1, 2] AS l")
    ingest(s, "more.parquet")
    s.run("compact", "export", "-q", "-o", "all.parquet")
    equal(rows(s, "all.parquet", "id, v, l"), [("0", "2", None), ("1", "0", None), ("2", "1", None),
                                               ("3", "2", None), ("12", None, "[1, 2]")])
    told = [json.loads(line) for line in s.out("compact", "cat", "--format", "ndjson").splitlines()]
    equal(told[4], {"id": 12, "seen": "2026-01-01T22:00:00.000000Z", "v": None, "l": [1, 2]})
    s.run("compact", "export", "-q", "-o", "all.csv")
    equal(s.read("all.csv").splitlines()[:2], [b"id,seen,v,l", b"0,2026-01-01T00:02:00.000000Z,2,"])
    for args, ids in ((["--prefix", "1"], [1, 12]), (["--since", "2026-01-01T20:00:00Z"], [12]),
                      (["--until", "2026-01-01T00:01:00Z"], [1])):
        told = s.out("compact", "cat", "--format", "ndjson", *args).splitlines()
        equal([json.loads(line)["id"] for line in told], ids, args)
    s.run("compact", "export", "-q", "-o", "some.parquet", "--prefix", "1")
    equal(rows(s, "some.parquet", "id, v"), [("1", "0"), ("12", None)])


EVERY_TYPE = """SELECT i AS id, TIMESTAMP '2026-01-01' + INTERVAL (i) DAY AS seen,
    {'a': i, 'b': [i, NULL]} AS s, [[i]] AS l, MAP {'x': i} AS m,
    (1234567890123456789012345678.25 + i)::DECIMAL(30,2) AS d, TIME '10:00:00' AS t,
    DATE '2020-01-01' AS day, i::FLOAT / 3 AS f, '\\x00\\xFF'::BLOB AS b, i % 2 = 0 AS yes,
    TIMESTAMPTZ '2020-01-01 00:00:00+02' AS tz, TIMESTAMP_NS '2020-01-01 00:00:00.123456789' AS ns,
    i::UTINYINT AS u, CASE WHEN i > 1 THEN 'é' END AS e, 18446744073709551615::UBIGINT AS big,
    '6f5e63d1-ca49-4d4e-9a8d-bbd66c2e7b6a'::UUID AS uu, NULL::INTEGER AS none,
    CASE i WHEN 1 THEN 'nan' WHEN 2 THEN 'inf' ELSE '0.1' END::DOUBLE AS x FROM range(20) r(i)"""


@parquet("a filter keeps every type and every value of a partition of Parquet files", ["dir"])
def _(s):
    create(s)
    ingest(s, write(s, "all.parquet", EVERY_TYPE))
    s.run("compact", "export", "-q", "-o", "some.parquet", "--prefix", "1", "--until", "2026-01-15T00:00:00Z")
    wanted = [row for row in rows(s, "all.parquet") if row[0] in ("1", "10", "11", "12", "13")]
    equal(rows(s, "some.parquet"), wanted)
    types = [s.duck.query(f"SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM "
                          f"{quote(s.file(name))})") for name in ("some.parquet", "all.parquet")]
    equal(*types)
    s.run("compact", "export", "-q", "-o", "none.parquet", "--prefix", "x")
    equal(rows(s, "none.parquet"), [])


@parquet("in JSON and csv, Parquet's decimals keep their digits, and what JSON lacks is a text", ["dir"])
def _(s):
    create(s)
    ingest(s, write(s, "all.parquet", EVERY_TYPE))
    told = read_json(s)
    equal(len(told), 20)
    equal(list(told[0]), columns(s, "all.parquet"))
    equal([str(told[i]["d"]) for i in (0, 19)],
          ["1234567890123456789012345678.25", "1234567890123456789012345697.25"])
    equal([told[i]["x"] for i in (0, 1, 2)], [decimal.Decimal("0.1"), "nan", "inf"])
    equal([told[1][name] for name in ("seen", "tz", "ns", "day", "t", "big", "none", "yes", "e", "l", "m")],
          ["2026-01-02T00:00:00.000000Z", "2019-12-31T22:00:00.000000Z", "2020-01-01T00:00:00.123456Z",
           "2020-01-01", "10:00:00", 18446744073709551615, None, False, None, [[1]], {"x": 1}])
    text = s.out("compact", "cat", "--format", "csv").decode()
    first = list(csv.DictReader(io.StringIO(text)))[0]
    equal([first[name] for name in ("id", "d", "x", "none")],
          ["0", "1234567890123456789012345678.25", "0.1", ""])


@parquet("a filter by time means the same for every type of time", ["dir"])
def _(s):
    days = "SELECT i AS id, {} AS seen FROM range(1, 4) t(i)"
    for number, expression in enumerate((
            "TIMESTAMP '2026-01-01' + INTERVAL (i) DAY", "TIMESTAMPTZ '2026-01-01 00:00:00+00' + INTERVAL (i) DAY",
            "(TIMESTAMP '2026-01-01' + INTERVAL (i) DAY)::TIMESTAMP_NS", "(DATE '2026-01-01' + i::INTEGER)",
            "1767225600 + 86400 * i", "(1767225600 + 86400 * i)::UBIGINT", "(1767225600 + 86400 * i) * 1000",
            "(1767225600 + 86400 * i) * 1000000", "(1767225600 + 86400 * i) * 1000000000")):
        name = f"p{number}"
        s.run("compact", "create", "-q", "--partition", name, "--format", "parquet", "--key", "id", "--time", "seen")
        write(s, "in.parquet", days.format(expression))
        s.run("compact", "ingest", "-q", "--partition", name, "in.parquet")
        for args, ids in ((["--since", "2026-01-03T00:00:00Z"], [2, 3]), (["--until", "2026-01-03T00:00:00Z"], [1]),
                          (["--since", "2026-01-02T00:00:00.001Z", "--until", "2026-01-04T00:00:00Z"], [2]),
                          (["--since", "2026-01-05T00:00:00Z"], [])):
            equal([one["id"] for one in read_json(s, "--partition", name, *args)], ids, (expression, args))


@parquet("times that no text has, such as infinity, are found by no filter that excludes them", ["dir"])
def _(s):
    s.run("compact", "create", "-q", "--format", "parquet", "--time", "seen")
    write(s, "in.parquet", "SELECT * FROM (VALUES (1, TIMESTAMP '-infinity'), (2, TIMESTAMP '2001-01-01'), "
                           "(3, TIMESTAMP 'infinity'), (4, TIMESTAMP '20000-01-01')) t(id, seen)")
    ingest(s, "in.parquet")
    for args, ids in ((["--since", "2001-01-01T00:00:00Z", "--until", "2002-01-01T00:00:00Z"], ["2"]),
                      (["--since", "2100-01-01T00:00:00Z"], ["4", "3"]),
                      (["--until", "2001-01-01T00:00:00Z"], ["1"])):
        s.run("compact", "export", "-q", "-o", "out.parquet", *args)
        equal([row[0] for row in rows(s, "out.parquet")], ids, args)


# ---- To Parquet ---------------------------------------------------------------------------------


@parquet("partitions of text are exported as Parquet", ["dir"])
def _(s):
    for form, fields, data, wanted in (
            ("csv", ("id", "t"), b'id,t,v\n1,5,"a,\n""b"\n2,6,\n1,4,old\n',
             [("1", "5", 'a,\n"b'), ("2", "6", None)]),
            ("ndjson", ("id", "t"), b'{"id":1,"t":5,"v":{"x":[1]}}\n{"id":2,"t":6}\n',
             [("1", "5", "{'x': [1]}"), ("2", "6", None)]),
            ("usv", ("1", "2"), b"1\x1f5\x1fa\n2\x1f6\x1fb\n", [("1", "5", "a"), ("2", "6", "b")])):
        s.run("compact", "create", "-q", "--partition", form, "--format", form, "--key", fields[0],
              "--time", fields[1])
        s.write("in", data)
        s.run("compact", "ingest", "-q", "--partition", form, "in")
        s.run("compact", "export", "-q", "--partition", form, "-o", f"{form}.parquet")
        equal(rows(s, f"{form}.parquet"), wanted, form)
        nothing = ["compact", "export", "-q", "--partition", form, "-o", "nothing.parquet", "--prefix", "x"]
        if form == "csv":
            s.run(*nothing)
            equal((rows(s, "nothing.parquet"), columns(s, "nothing.parquet")), ([], ["id", "t", "v"]))
        else:
            true("no records" in fails(s, "UNSUPPORTED", *nothing), form)
    equal(columns(s, "usv.parquet"), ["1", "2", "3"])
    s.run("compact", "create", "-q", "--partition", "none", "--format", "csv", "--key", "id")
    text = fails(s, "UNSUPPORTED", "compact", "export", "--partition", "none", "-o", "none.parquet")
    true("no records" in text, text)


def export_text(s, form, data, *more):
    s.run("compact", "create", "-q", "--partition", form, "--format", form, "--key", "id", "--time", "t")
    s.write("in", data)
    s.run("compact", "ingest", "-q", "--partition", form, "in")
    s.run("compact", "export", "-q", "--partition", form, "-o", f"{form}.parquet", *more)


@parquet("no row of a csv file is taken for a comment, a title or a guess", ["dir"])
def _(s):
    for form, comma in (("csv", ","), ("tsv", "\t")):
        header = ["id", "t", "v"]
        body = [["#1", "1", "x"], ["# a", "2", "title"], ["a", "3", "#"], ['q"\n,', "4", "\r\n"], ["é", "5", "\\N"],
                ["z", "6", "NULL"], ["zz", "7", "'"], ["zzz", "8", ""]]
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=comma, lineterminator="\n")
        writer.writerows([header, *body])
        export_text(s, form, text.getvalue().encode())
        equal(sorted(rows(s, f"{form}.parquet")), sorted((*row[:2], row[2] or None) for row in body), form)


@parquet("JSON objects with many sparse members, and with types that change, keep their values", ["dir"])
def _(s):
    lines = [{"id": str(n), "t": n, f"m{n}": n, "v": n if n % 2 else [n], "n": 2**63 - n} for n in range(1, 301)]
    export_text(s, "ndjson", "".join(json.dumps(line) + "\n" for line in lines).encode())
    table = rows(s, "ndjson.parquet")
    equal((len(table), len(table[0])), (300, 304))
    names = columns(s, "ndjson.parquet")
    for row in table:
        told = dict(zip(names, row))
        n = int(told["id"])
        equal((told[f"m{n}"], told["v"], told["n"]), (str(n), str(n) if n % 2 else f"[{n}]", str(2**63 - n)))


if __name__ == "__main__":
    sys.exit(main())

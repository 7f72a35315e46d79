#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""parquet_test.py: Parquet files, merged by `holdfast merge` and kept in partitions. DuckDB itself
writes the inputs and reads the outputs. parquet_export_test.py is about exports, and
parquet_helper_test.py about the helper process.

Prints TAP. Scratch folders are those of cli_test.py. Skipped where DuckDB's library is missing.
"""

import json
import os
import random
import subprocess
import sys

import cases
import duckdb_kit
from cli_test import PROGRAM, code, equal, fails, it, true, until
from duckdb_kit import Duck, quote

cases.cases.clear()

LIBRARY = duckdb_kit.library_path()
HELPER = os.path.join(os.environ["HOLDFAST_BUILD"], "src", "parquet", "holdfast-parquet")
LATEST = ["--format", "parquet", "--key", "id", "--time", "seen"]


def parquet(sentence, stores=None):
    """A test that needs the library, and finds it and the helper."""

    def register(function):
        def run(s):
            s.env["HOLDFAST_DUCKDB"] = LIBRARY
            s.env["HOLDFAST_PARQUET"] = HELPER
            s.duck = Duck()
            function(s)

        run.__wrapped__ = function
        return it(sentence, stores)(run) if LIBRARY else run

    return register


def names(s):
    return sorted(os.listdir(s.path))


def write(s, name, select, options=""):
    s.duck.write(s.file(name), select, options)
    return name


def merge(s, args, inputs, out="out.parquet"):
    return json.loads(s.out("merge", "--json", *args, "-o", out, *inputs))


def rows(s, name="out.parquet", what="*"):
    return s.duck.rows(s.file(name), what)


def refused(s, status, args, inputs, out="out.parquet"):
    """What must fail, and leave no file: its sentence."""
    before = names(s)
    text = fails(s, status, "merge", *args, "-o", out, *inputs)
    equal(names(s), before, "nothing is left behind")
    return text


def values(*tuples):
    """A SELECT of rows (id, seen, v); the time is in minutes."""
    return "SELECT * FROM (VALUES " + ", ".join(
        f"({i}::BIGINT, TIMESTAMP '2026-01-01 00:00:00' + INTERVAL ({m}) MINUTE, {v})"
        for i, m, v in tuples) + ") t(id, seen, v)"


# ---- Merging ------------------------------------------------------------------------------------


@parquet("the latest row of each key is kept, sorted by key, whatever the order of the files")
def _(s):
    draw = random.Random(3)
    newest = {}
    for number in range(7):
        lot = [(draw.randrange(400), draw.randrange(10000), draw.randrange(1000)) for _ in range(300)]
        for key, minute, value in lot:
            newest[key] = max(newest.get(key, (-1, -1)), (minute, value))
        write(s, f"{number}.parquet", values(*lot))
    inputs = [f"{number}.parquet" for number in range(7)]
    report = merge(s, LATEST, inputs)
    equal((report["rows_in"], report["rows_out"], report["rows_superseded"]),
          (2100, len(newest), 2100 - len(newest)))
    minutes = "(epoch(seen) - epoch(TIMESTAMP '2026-01-01'))::BIGINT // 60"
    equal(rows(s, what=f"id, {minutes}, v"),
          [tuple(map(str, (key, *newest[key]))) for key in sorted(newest)])
    first = s.read("out.parquet")
    for more in ([], ["--threads", "1"], ["--threads", "4", "--memory", "1GiB"],
                 ["--memory", "128MiB"]):
        draw.shuffle(inputs)
        merge(s, LATEST + more, inputs, "again.parquet")
        true(s.read("again.parquet") == first, f"the same bytes with {more}")


@parquet("large merges give the same bytes with any number of threads and any memory")
def _(s):
    for number in range(6):
        write(s, f"{number}.parquet",
              f"SELECT hash(i + {number} * 7) % 300000 AS id, hash(i * 31 + {number}) % 5000 AS seen, "
              f"md5(i::VARCHAR) AS text, i / 3 AS value FROM range(60000) t(i)")
    inputs = [f"{number}.parquet" for number in range(6)]
    sums = set()
    for args in (LATEST, ["--format", "parquet", "--key", "id"]):
        for more in (["--threads", "1", "--memory", "128MiB"], ["--threads", "3", "--memory", "2GiB"]):
            report = merge(s, args + more, inputs)
            sums.add((len(args), hash(s.read("out.parquet"))))
            equal(report["rows_in"], 360000)
    equal(len(sums), 2, "one result for each way to merge")
    true(names(s) == sorted(inputs + ["out.parquet"]), names(s))


@parquet("of rows with the same key and time the greater one is kept, decided by all columns")
def _(s):
    write(s, "a.parquet", "SELECT 1 AS id, DATE '2026-01-01' AS seen, 'x' AS a, 2 AS b")
    write(s, "b.parquet", "SELECT 1 AS id, DATE '2026-01-01' AS seen, 'x' AS a, 3 AS b")
    write(s, "c.parquet", "SELECT 1 AS id, DATE '2026-01-01' AS seen, 'w' AS a, 9 AS b")
    write(s, "d.parquet", "SELECT 1 AS id, DATE '2025-12-31' AS seen, 'z' AS a, 9 AS b")
    for order in ("abcd", "dcba", "cadb"):
        merge(s, LATEST, [f"{name}.parquet" for name in order])
        equal(rows(s), [("1", "2026-01-01", "x", "3")])


@parquet("of rows with the same key and time the same one is kept, in one merge or in several")
def _(s):
    at = "1 AS id, DATE '2026-01-01' AS seen"
    write(s, "a.parquet", f"SELECT {at}, 1 AS b")
    write(s, "b.parquet", f"SELECT {at}, 1 AS a, 0 AS c")
    write(s, "c.parquet", f"SELECT {at}, 0 AS a")
    for order in ("abc", "bca", "cab"):
        first, second, third = (f"{name}.parquet" for name in order)
        merge(s, LATEST, [first, second, third])
        equal(rows(s, what="a, b, c"), [("1", None, "0")])
        merge(s, LATEST, [first, second], "two.parquet")
        merge(s, LATEST, ["two.parquet", third])
        equal(rows(s, what="a, b, c"), [("1", None, "0")], f"{order} in two steps")


def marked(*tuples):
    """As values(), with a column `gone`."""
    return "SELECT * FROM (VALUES " + ", ".join(
        f"({i}::BIGINT, TIMESTAMP '2026-01-01 00:00:00' + INTERVAL ({m}) MINUTE, {v}, {g}::BOOLEAN)"
        for i, m, v, g in tuples) + ") t(id, seen, v, gone)"


@parquet("deletions win or lose by time, and are written, or dropped with --all-files")
def _(s):
    write(s, "a.parquet", marked((1, 1, 1, "false"), (2, 1, 2, "NULL"), (4, 9, 4, "false")))
    write(s, "b.parquet", marked((1, 5, 0, "true"), (3, 5, 0, "true"), (4, 5, 0, "true")))
    write(s, "c.parquet", values((3, 9, 3)))
    inputs, args = ["a.parquet", "b.parquet", "c.parquet"], LATEST + ["--deleted-field", "gone"]
    report = merge(s, args, inputs)
    equal((report["rows_in"], report["rows_out"], report["rows_superseded"], report["rows_deleted"]),
          (7, 4, 3, 0))
    equal(rows(s, what="id, v, gone"), [("1", "0", "true"), ("2", "2", None), ("3", "3", None),
                                        ("4", "4", "false")])
    drop = args + ["--drop-deleted", "--all-files"]
    report = merge(s, drop, inputs, "less.parquet")
    equal((report["rows_in"], report["rows_out"], report["rows_superseded"], report["rows_deleted"]),
          (7, 3, 3, 1))
    merge(s, drop, ["out.parquet"], "steps.parquet")
    for name in ("less.parquet", "steps.parquet"):
        equal(rows(s, name, "id, v"), [("2", "2"), ("3", "3"), ("4", "4")], name)
    report = merge(s, drop, ["c.parquet"], "none.parquet")
    equal((report["rows_out"], report["rows_deleted"]), (1, 0), "no file has the column")
    write(s, "d.parquet", "SELECT 1 AS id, TIMESTAMP '2026-01-01' AS seen, 1 AS gone")
    text = refused(s, "INVALID", args, ["d.parquet"], "no.parquet")
    true("the deleted column 'gone' is INTEGER; it must be a BOOLEAN" in text, text)


@parquet("with a key or a time alone, every row is kept, in the order of that column")
def _(s):
    write(s, "a.parquet", values((3, 1, 1), (1, 9, 2), (3, 1, 1)))
    write(s, "b.parquet", values((2, 5, 3), (1, 1, 4)))
    merge(s, ["--format", "parquet", "--key", "id"], ["a.parquet", "b.parquet"])
    equal(rows(s, what="id, v"), [("1", "4"), ("1", "2"), ("2", "3"), ("3", "1"), ("3", "1")])
    merge(s, ["--format", "parquet", "--time", "seen"], ["b.parquet", "a.parquet"])
    equal(rows(s, what="v"), [("4",), ("1",), ("1",), ("3",), ("2",)])


@parquet("the output has the columns of all files, in the order of their first appearance")
def _(s):
    write(s, "a.parquet", "SELECT 1::INTEGER AS id, 1 AS seen, 'p' AS old")
    write(s, "b.parquet", "SELECT 2::BIGINT AS id, 1 AS seen, 'q' AS old, 1.5::DOUBLE AS more")
    write(s, "c.parquet", "SELECT 3::SMALLINT AS id, 1 AS seen, 'r' AS old, 2.5::FLOAT AS more, [7] AS l")
    for order in ("abc", "cba"):
        merge(s, LATEST, [f"{name}.parquet" for name in order])
        equal(s.duck.query(f"DESCRIBE SELECT * FROM {quote(s.file('out.parquet'))}")[0][1], "BIGINT")
        equal([row[0] for row in s.duck.query(
            f"DESCRIBE SELECT * FROM {quote(s.file('out.parquet'))}")], ["id", "seen", "old", "more", "l"])
        equal(rows(s), [("1", "1", "p", None, None), ("2", "1", "q", "1.5", None),
                        ("3", "1", "r", "2.5", "[7]")])


@parquet("names with quotes, newlines, patterns and emoji are names like any other")
def _(s):
    strange = 'a"b\'c\nd;--🎉'
    sql = duckdb_kit.name(strange)
    files = ["it's.parquet", 'a"b.parquet', "*[x]?{1,2}.parquet", "🎉 \n\t.parquet", "-x.parquet",
             "$HOME;`id`.parquet"]
    for number, name in enumerate(files):
        write(s, "plain", f"SELECT {number} AS {sql}, 1 AS \"it's seen\", {number} AS v")
        os.rename(s.file("plain"), s.file(name))
    report = merge(s, ["--format", "parquet", "--key", strange, "--time", "it's seen"],
                   [f"./{name}" for name in files], "o*[u]t '\".parquet")
    equal(report["rows_out"], len(files))
    os.rename(s.file("o*[u]t '\".parquet"), s.file("out.parquet"))
    equal([row[0] for row in rows(s)], [str(number) for number in range(len(files))])
    equal(s.duck.query(f"SELECT column_name FROM (DESCRIBE SELECT * FROM "
                       f"{quote(s.file('out.parquet'))})")[0][0], strange)


@parquet("a NULL key or time rejects the row, and the rows add up")
def _(s):
    write(s, "a.parquet", "SELECT * FROM (VALUES (1, 1, 'a'), (NULL, 2, 'b'), (3, NULL, 'c'), "
                          "(1, 5, 'd')) t(id, seen, v)")
    text = refused(s, "INVALID", LATEST, ["a.parquet"])
    true("2 rows have no key or no time" in text, text)
    report = merge(s, LATEST + ["--max-rejects", "2"], ["a.parquet"])
    equal([report[name] for name in ("rows_in", "rows_out", "rows_superseded", "rows_rejected")],
          [4, 1, 1, 2])
    equal(rows(s), [("1", "5", "d")])
    equal(sorted(row[2] for row in rows(s, report["rejects"])), ["b", "c"])


# ---- Files that cannot be merged ------------------------------------------------------------------


@parquet("a file whose column has another type, or that lacks the key, is named")
def _(s):
    for name in "abc":
        write(s, f"{name}.parquet", "SELECT 1 AS id, 1 AS seen, 2 AS v")
    good = ["a.parquet", "b.parquet", "c.parquet"]
    for name, select, words in (
            ("text", "SELECT 1 AS id, 1 AS seen, 'x' AS v",
             "text.parquet: the column 'v' is VARCHAR, but it is INTEGER in other files"),
            ("real", "SELECT 1 AS id, 1 AS seen, 1.5::DOUBLE AS v", "is DOUBLE, but it is INTEGER"),
            ("keyless", "SELECT 1 AS ident, 1 AS seen", "keyless.parquet: it has no column 'id', which is the key"),
            ("timeless", "SELECT 1 AS id, 2 AS v", "it has no column 'seen', which is the time"),
            ("case", "SELECT 1 AS ID, 1 AS seen, 2 AS v", "differ only in case"),
            ("nested", "SELECT {'a': 1} AS id, 1 AS seen", "the column 'id' is STRUCT")):
        write(s, f"{name}.parquet", select)
        for inputs in ([f"{name}.parquet", *good], [*good, f"{name}.parquet"]):
            text = refused(s, "INVALID", LATEST, inputs)
            true(words in text and f"{name}.parquet" in text, text)
        os.remove(s.file(f"{name}.parquet"))


@parquet("of a clash, the smaller files are blamed, however many they are")
def _(s):
    write(s, "large.parquet", "SELECT i AS id, i AS seen, md5(i::VARCHAR) AS v FROM range(5000) t(i)")
    small = [write(s, f"{name}.parquet", "SELECT 1::BIGINT AS id, 1::BIGINT AS seen, 2 AS v") for name in "abc"]
    text = refused(s, "INVALID", LATEST, [*small, "large.parquet"])
    true("a.parquet: the column 'v' is INTEGER, but it is VARCHAR in other files" in text, text)


@parquet("a file with two columns of one name, in upper or lower case, is refused")
def _(s):
    for name in (b"abc", b"ABC", b"aBc"):
        write(s, "in.parquet", "SELECT 1 AS id, 1 AS seen, 2 AS abc, 3 AS abx")
        data = s.read("in.parquet")
        true(b"abx" in data, "names are stored as they are")
        s.write("in.parquet", data.replace(b"abx", name))
        text = refused(s, "INVALID", LATEST, ["in.parquet"])
        true(f"in.parquet: the name of the column '{name.decode()}' occurs twice" in text, text)


@parquet("a key cannot be nested, and a time must be a timestamp, a date or an integer")
def _(s):
    for select, words in (
            ("SELECT [1] AS id, 1 AS seen", "the key column 'id' is INTEGER[]; a key cannot be nested"),
            ("SELECT 1 AS id, '2026' AS seen", "the time column 'seen' is VARCHAR; it must be"),
            ("SELECT 1 AS id, 1.5::DOUBLE AS seen", "the time column 'seen' is DOUBLE; it must be")):
        write(s, "in.parquet", select)
        text = refused(s, "INVALID", LATEST, ["in.parquet"])
        true(words in text, text)


@parquet("truncated, damaged, encrypted and foreign files are named, and nothing is written")
def _(s):
    write(s, "good.parquet", values((1, 1, 1)))
    write(s, "whole.parquet", "SELECT i AS id, i AS seen, md5(i::VARCHAR) AS v FROM range(20000) t(i)")
    whole = s.read("whole.parquet")
    os.remove(s.file("whole.parquet"))
    key = "0123456789112345"
    s.duck.query("SET force_mbedtls_unsafe = 'true'")
    s.duck.query(f"PRAGMA add_parquet_key('k', '{key}')")
    write(s, "encrypted.parquet", values((2, 2, 2)), ", ENCRYPTION_CONFIG {footer_key: 'k'}")
    for name, data, status, words in (
            ("half", whole[:len(whole) // 2], "CORRUPT", "the Parquet file is truncated"),
            ("tail", whole[:-1], "CORRUPT", "truncated"),
            ("length", whole[:-8] + b"\xff\xff\xff\x7fPAR1", "CORRUPT", "truncated"),
            ("footer", whole[:-400] + bytes(391) + b"\0" + whole[-8:], "CORRUPT", ""),
            ("empty", b"", "INVALID", "not a Parquet file"),
            ("csv", b"id,seen,v\n1,1,1\n" * 9, "INVALID", "not a Parquet file"),
            ("encrypted", s.read("encrypted.parquet"), "INVALID", "encrypted")):
        s.write(f"{name}.parquet", data)
        text = refused(s, status, LATEST, ["good.parquet", f"{name}.parquet"])
        true(words in text and f"{name}.parquet" in text, text)


@parquet("nested columns, files without rows and every type pass through unchanged")
def _(s):
    select = ("SELECT i AS id, i AS seen, {'a': i, 'b': [i, NULL]} AS s, [[i]] AS l, MAP {'x': i} AS m, "
              "i::DECIMAL(30,2) AS d, TIME '10:00:00' AS t, DATE '2020-01-01' AS day, i::FLOAT AS f, "
              "'\\x00\\xFF'::BLOB AS b, i % 2 = 0 AS yes, TIMESTAMPTZ '2020-01-01 00:00:00+02' AS tz, "
              "TIMESTAMP_NS '2020-01-01 00:00:00.123456789' AS ns, i::UTINYINT AS u, "
              "CASE WHEN i > 1 THEN 'é' END AS e, '6f5e63d1-ca49-4d4e-9a8d-bbd66c2e7b6a'::UUID AS uu ")
    write(s, "a.parquet", select + "FROM range(4) r(i)")
    write(s, "none.parquet", select + "FROM range(0) r(i)")
    report = merge(s, LATEST, ["a.parquet", "none.parquet"])
    equal((report["rows_in"], report["rows_out"]), (4, 4))
    equal(rows(s), rows(s, "a.parquet"))
    describe = "SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM {})"
    equal(s.duck.query(describe.format(quote(s.file("out.parquet")))),
          s.duck.query(describe.format(quote(s.file("a.parquet")))))
    report = merge(s, LATEST, ["none.parquet"])
    equal((report["rows_in"], report["rows_out"], rows(s)), (0, 0, []))


def write_wide(s, name, columns, first=0):
    wide = ", ".join(f"i + {n} AS c{n}" for n in range(columns))
    return write(s, name, f"SELECT i AS id, i AS seen, {wide} FROM range({first}, {first + 3}) t(i)")


@parquet("a file of 6,000 columns is refused by ingest, with the memory that it needs, and others are added",
         ["dir"])
def _(s):
    create(s)
    write_wide(s, "wide.parquet", 5998)
    write(s, "good.parquet", "SELECT 7::BIGINT AS id, 1::BIGINT AS seen")
    done = s.run("compact", "ingest", "wide.parquet", "good.parquet", expect=code(s, "UNAVAILABLE"))
    true(b"wide.parquet: it needs more than the 128.0 MiB of memory that it may use: 6000 columns and row groups "
         b"of this size need about 1.8" in done.stderr, done.stderr)
    equal([chunk["rows"] for chunk in live(s)], [1])


@parquet("large row groups are ingested, and merged by whoever has the memory for them", ["dir"])
def _(s):
    create(s, "--tries", "9")
    write(s, "large.parquet", "SELECT i AS id, i AS seen, repeat(md5(i::VARCHAR), 24) AS text "
                              "FROM range(90000) t(i)")
    ingest(s, "large.parquet", write(s, "small.parquet", "SELECT 5::BIGINT AS id, 99999::BIGINT AS seen"))
    (failed,) = run_all(s, "--memory", "128MiB", expect=code(s, "UNAVAILABLE"))
    true("it needs more than the 128.0 MiB of memory" in failed["why"] and "need about" in failed["why"], failed)
    for _ in range(2):  # each is tested alone first
        run_all(s, "--memory", "800MiB")
    equal([chunk["rows"] for chunk in live(s)], [90000])
    s.run("compact", "export", "-q", "-o", "some.parquet", "--prefix", "8")
    equal(s.duck.query(f"SELECT count(*) FROM {quote(s.file('some.parquet'))}"), [("11111",)])


@parquet("no chunk is blamed if a worker has too little memory for its columns, and another one merges it", ["dir"])
def _(s):
    create(s, "--tries", "1")
    ingest(s, *(write_wide(s, f"{number}.parquet", 1500, first=2 * number) for number in range(3)))
    text = refused(s, "UNAVAILABLE", LATEST + ["--memory", "128MiB"], ["0.parquet"])
    true("it needs more than the 128.0 MiB of memory that it may use: 1502 columns" in text, text)
    (end,) = run_all(s, "--memory", "128MiB", expect=code(s, "UNAVAILABLE"))
    equal(end["blame"], "nobody", end)
    true("1502 columns and row groups of this size need about 469." in end["why"], end)
    equal([(chunk["quarantine"], chunk["tries"]) for chunk in live(s)], [(None, 0)] * 3)
    run_all(s, "--memory", "600MiB")
    (merged,) = live(s)
    equal(rows(s, os.path.join("objects", merged["key"]), "id, c0, c1499"),
          [(str(n), str(n), str(n + 1499)) for n in range(7)])


# ---- Partitions -----------------------------------------------------------------------------------


def create(s, *more):
    s.run("compact", "create", "-q", "--format", "parquet", "--key", "id", "--time", "seen",
          "--level0-count", "3", "--ttl", "60s", "--grace", "1h", "--late-bound", "1h", "--skew", "0",
          "--step", "100ms", *more)


def ingest(s, *files):
    return [told["key"] for told in s.lines("compact", "ingest", *files)]


def run_all(s, *args, expect=0):
    """The ends of merges."""
    done = s.run("compact", "run", "--jobs", "1", "--json", "--force", *args, expect=expect)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return [event for event in events if event["event"] == "ended"]


def live(s):
    return [chunk for chunk in s.lines("compact", "ls") if chunk["state"] == "live"]


def chunk_rows(s, key):
    return rows(s, os.path.join("objects", key))


def some_chunks(s, count, first=0):
    """Files with a key of their own, and one that all have."""
    return [write(s, f"in-{number:03}.parquet", values((0, number, number), (number + 1, number, number)))
            for number in range(first, first + count)]


@parquet("a partition of Parquet files: ingested, merged to the latest row of each key, and checked",
         ["dir", "sqlite"])
def _(s):
    create(s)
    files = some_chunks(s, 7)
    told = s.lines("compact", "ingest", *files)
    equal([one["rows"] for one in told], [2] * 7)
    again = s.lines("compact", "ingest", *files)
    equal([one["key"] for one in again], [None] * 7, "ingested before")
    chunk = live(s)[0]
    equal((chunk["rows"], chunk["key"].endswith(".parquet")), (2, True))
    ends = run_all(s)
    equal({end["end"] for end in ends}, {"committed"})
    (left,) = live(s)
    s.write("merged.parquet", s.get(left["key"]))
    equal(left["rows"], 8)
    equal(rows(s, "merged.parquet", "id, v"),
          [("0", "6")] + [(str(number + 1), str(number)) for number in range(7)])
    s.run("compact", "fsck")


@parquet("markers of a partition of Parquet files go once they are old and nothing older is left",
         ["dir"])
def _(s):
    s.run("compact", "create", "-q", "--format", "parquet", "--key", "id", "--time", "seen",
          "--deleted-field", "gone", "--ttl", "60s", "--grace", "1h", "--late-bound", "8s", "--skew",
          "0", "--step", "100ms")  # a merge must end within half of the late bound
    write(s, "a.parquet", marked((1, 1, 1, "false"), (2, 1, 2, "NULL")))
    write(s, "b.parquet", marked((1, 5, 0, "true")))
    ingest(s, "a.parquet", "b.parquet")
    until(lambda: run_all(s) is not None and len(live(s)) == 1, "both are merged")
    equal([json.loads(line)["id"] for line in s.out("compact", "cat", "--format", "ndjson").splitlines()],
          [2])
    until(lambda: run_all(s) is not None and [one["rows"] for one in live(s)] == [1],
          "the marker is dropped")
    write(s, "late.parquet", marked((1, 4, 9, "false")))
    text = fails(s, "INVALID", "compact", "ingest", "late.parquet")
    true("takes only records later than" in text, text)
    s.run("compact", "fsck")


@parquet("what cannot be merged is refused by ingest with a sentence, and the rest is added", ["dir"])
def _(s):
    create(s)
    good = some_chunks(s, 2)
    write(s, "keyless.parquet", "SELECT 1 AS ident, 1 AS seen")
    write(s, "null.parquet", "SELECT NULL::INTEGER AS id, TIMESTAMP '2026-01-01' AS seen, 1 AS v")
    write(s, "untimed.parquet", "SELECT 1 AS id, 'now' AS seen")
    s.write("half.parquet", s.read(good[0])[:200])
    s.write("csv.parquet", b"id,seen,v\n1,2,3\n")
    bad = ["keyless", "null", "untimed", "half", "csv"]
    done = s.run("compact", "ingest", *(f"{name}.parquet" for name in bad), *good,
                 expect=code(s, "INVALID"))
    text = done.stderr.decode()
    for words in ("keyless.parquet: it has no column 'id', which is the key",
                  "null.parquet", "none of the 1 rows can be read: record 1 has no key or no time",
                  "untimed.parquet: the time column 'seen' is VARCHAR",
                  "half.parquet: the Parquet file is truncated",
                  "csv.parquet: it is not a Parquet file"):
        true(words in text, (words, text))
    equal(len(live(s)), 2)


@parquet("a flipped bit, which Parquet does not notice, quarantines its chunk alone", ["dir"])
def _(s):
    draw = random.Random(11)
    create(s)
    files = some_chunks(s, 4)
    keys = ingest(s, *files)
    path = s.file(os.path.join("objects", keys[2]))
    data = bytearray(s.read(os.path.join("objects", keys[2])))
    flips = unnoticed = wrong = 0
    while not wrong and flips < 3000:  # DuckDB reads many of these files without complaint, some with other rows
        flips += 1
        bit = draw.randrange(32, 8 * len(data) - 64)
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        s.write("flipped.parquet", flipped)
        try:
            read = rows(s, "flipped.parquet")
            unnoticed += 1
            wrong += read != chunk_rows(s, keys[2])
        except duckdb_kit.DuckError:
            pass
    print(f"# {flips} flips, {unnoticed} of them unnoticed by DuckDB, {wrong} with other rows")
    true(wrong > 0, f"{unnoticed} of {flips} flips unnoticed, {wrong} with other rows")
    data[len(data) // 3] ^= 4
    os.chmod(path, 0o644)
    with open(path, "wb") as out:
        out.write(data)
    (failed,) = [end for end in run_all(s, expect=code(s, "CORRUPT")) if end["end"] == "failed"]
    equal((failed["status"], failed["blame"]), ("CORRUPT", "chunk"))
    true(keys[2] in failed["why"], failed)
    run_all(s)
    equal(sorted(chunk["rows"] for chunk in live(s)), [2, 4])
    text = s.run("compact", "fsck", expect=code(s, "CORRUPT")).stdout.decode()
    true("wrong-checksum" in text, text)


def write_schemas(s):
    """Seven files with three schemas; the first has only what all have."""
    for number in range(7):
        more = ("", ", 'a' AS x", ", 'a' AS x, 1.5::DOUBLE AS y")[number % 3]
        write(s, f"{number}.parquet", f"SELECT {number}::BIGINT AS id, {number} AS seen, {number} AS v"
              + more)
    return [f"{number}.parquet" for number in range(7)]


def check_schemas(s):
    (merged,) = [chunk for chunk in live(s) if not chunk["quarantine"]]
    equal(rows(s, os.path.join("objects", merged["key"])),
          [(str(n), str(n), str(n), "a" if n % 3 else None, "1.5" if n % 3 == 2 else None)
           for n in range(7)])


@parquet("seven files of three schemas become one chunk, and ingest refuses the clashing one alone",
         ["dir"])
def _(s):
    create(s)
    files = write_schemas(s)
    write(s, "clash.parquet", "SELECT 100::BIGINT AS id, 5 AS seen, 'text' AS v")
    words = "clash.parquet: the column 'v' is VARCHAR, but it is INTEGER in other files"
    for inputs in (["0.parquet", "clash.parquet", *files[1:]], ["clash.parquet"]):
        done = s.run("compact", "ingest", *inputs, expect=code(s, "INVALID"))
        true(words in done.stderr.decode(), done.stderr)
    equal(len(live(s)), 7)
    run_all(s)
    check_schemas(s)
    done = s.run("compact", "ingest", "clash.parquet", expect=code(s, "INVALID"))
    true(words in done.stderr.decode(), done.stderr)


@parquet("a clash that ingest could not see is found by the merge, which quarantines that chunk alone",
         ["dir"])
def _(s):
    create(s)
    files = write_schemas(s)
    write(s, "clash.parquet", "SELECT 100::BIGINT AS id, 5 AS seen, 5 AS v, 7 AS x")
    keys = ingest(s, *files, "clash.parquet")  # the first file has no column x
    run_all(s, expect=code(s, "INVALID"))
    run_all(s)
    quarantined = [chunk for chunk in live(s) if chunk["quarantine"]]
    equal([chunk["key"] for chunk in quarantined], [keys[7]])
    true("the column 'x' is INTEGER, but it is VARCHAR in other files" in quarantined[0]["quarantine"],
         quarantined)
    check_schemas(s)


@parquet("a command may merge a partition of Parquet files, and what it writes is counted", ["dir"])
def _(s):
    create(s, "--command", f"{s.file('merger')} {{output}} {{inputs}}")
    for script, status in (('cp "$2" "$1"', "OK"), ('echo no >"$1"', "CORRUPT")):
        ingest(s, *some_chunks(s, 3, first=len(live(s))))
        s.write("merger", f"#!/bin/sh\n{script}\n".encode())
        os.chmod(s.file("merger"), 0o755)
        done = s.run("compact", "run", "--force", "--jobs", "1", "--json", "--allow-exec",
                     s.file("merger"), expect=code(s, status))
        if status == "CORRUPT":
            true(b"its output cannot be read as parquet" in done.stdout, done.stdout)
        else:
            equal([chunk["rows"] for chunk in live(s)], [2])


@parquet("Parquet passes through pipes, as other formats do")
def _(s):
    files = some_chunks(s, 2)
    merge(s, LATEST, files)
    piped = s.out("merge", *LATEST, "-o", "-", "--quiet", "-", files[1], stdin=s.read(files[0]))
    true(piped == s.read("out.parquet"), "the same bytes")
    script = f'"{PROGRAM}" merge {" ".join(LATEST)} -q -o fd.parquet /dev/fd/7 {files[1]} 7<{files[0]}'
    subprocess.run(["bash", "-c", script], cwd=s.path, env=s.env, check=True, timeout=60)
    true(s.read("fd.parquet") == s.read("out.parquet"), "a descriptor of the shell")
    done = s.run("merge", *LATEST, "-o", "-", "-", files[1], stdin=b"PAR1 and no more",
                 expect=code(s, "CORRUPT"))
    equal(done.stdout, b"")


@parquet("a partition of Parquet files cannot be compressed again, and needs columns", ["dir"])
def _(s):
    for args, words in ((["--key", "id", "--compress", "zstd"], "compresses its own columns"),
                        ([], "set a key field, a time field, or both"),
                        (["--key", "id", "--no-header"], "only csv and tsv")):
        text = fails(s, "INVALID", "compact", "create", "--format", "parquet", *args)
        true(words in text, text)


@parquet("options that Parquet has no use for are refused")
def _(s):
    write(s, "a.parquet", values((1, 1, 1)))
    for args, words in ((["--compress", "gzip"], "--compress"), (["--zone", "UTC"], "--zone"),
                        (["--no-header"], "--no-header"), (["--max-record", "1MiB"], "--max-record"),
                        (["--memory", "64MiB"], "128 MiB")):
        text = refused(s, "INVALID", LATEST + args, ["a.parquet"])
        true(words in text, text)
    text = refused(s, "INVALID", ["--format", "parquet"], ["a.parquet"])
    true("--key" in text, text)


def main():
    """The exit status of this program, and of those that share its means."""
    if not LIBRARY:
        print("1..0 # SKIP DuckDB's library is missing: run `make setup-test`")
        return 0
    return cases.main()


if __name__ == "__main__":
    sys.exit(main())

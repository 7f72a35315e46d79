#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compact_export_test.py: `compact cat` and `compact export`, run as a person or a script would run
them.

Prints TAP. Scratch folders are those of cli_test.py.
"""

import csv
import gzip
import io
import json
import sys

import cases
from cli_test import LOCAL, equal, fails, it, true, until
from compact_cli_test import chunks, run

cases.cases.clear()

INVALID = 86  # the exit status


def fill(s, *more):
    """Three chunks with two versions of a key; one value is hard to write."""
    s.run("compact", "create", "--format", "csv", "--key", "id", "--time", "at", "--grace", "0",
          "--skew", "0", *more)
    s.write("1.csv", b"id,at,note\napple,100,old\nbanana,100,\"yellow, mostly\"\n")
    s.write("2.csv", b"id,at,note\napple,200,new\ncherry,300,\"say \"\"red\"\"\"\n")
    s.write("3.csv", b"id,at,note\navocado,400,\n")
    s.run("compact", "ingest", "1.csv", "2.csv", "3.csv")


LATEST = [["id", "at", "note"], ["apple", "200", "new"], ["avocado", "400", ""],
          ["banana", "100", "yellow, mostly"], ["cherry", "300", 'say "red"']]


def read_csv(data, delimiter=","):
    return list(csv.reader(io.StringIO(data.decode()), delimiter=delimiter))


@it("cat prints the latest record of each key, in every format, as other programs read them", LOCAL)
def _(s):
    fill(s)
    equal(read_csv(s.out("compact", "cat")), LATEST)
    equal(read_csv(s.out("compact", "cat", "--format", "tsv"), "\t"), LATEST)
    objects = [dict(zip(LATEST[0], row)) for row in LATEST[1:]]
    equal([json.loads(line) for line in s.out("compact", "cat", "--json").splitlines()], objects)
    equal(s.out("compact", "cat", "--format", "ndjson"), s.out("compact", "cat", "--json"))
    usv = s.out("compact", "cat", "--format", "usv").decode().splitlines()
    equal([line.split("\x1f") for line in usv], LATEST[1:])
    s.run("compact", "cat", "--json", "--format", "csv", expect=INVALID)


@it("records are filtered by key and time, after the merge", LOCAL)
def _(s):
    fill(s)
    some = lambda *args: [row[0] for row in read_csv(s.out("compact", "cat", *args))[1:]]
    equal(some("--prefix", "a"), ["apple", "avocado"])
    equal(some("--since", "200"), ["apple", "avocado", "cherry"])
    equal(some("--since", "1970-01-01T00:03:20Z", "--until", "300"), ["apple"])
    equal(some("--until", "150"), ["banana"])  # the old apple does not come back
    equal(some("--prefix", "x"), [])
    for args in (["--since", "yesterday"], ["--since", "2", "--until", "1"]):
        fails(s, "INVALID", "compact", "cat", *args)


@it("export writes a whole file or none, and says what became of every row", LOCAL)
def _(s):
    fill(s)
    equal(s.out("compact", "export", "-o", "all.csv"),
          b"exported 3 chunks to all.csv (91 B): 5 rows in, 4 out, 1 superseded\n")
    equal(read_csv(s.read("all.csv")), LATEST)
    told = json.loads(s.out("compact", "export", "-o", "some.ndjson", "--since", "300", "--json"))
    equal((told["rows_out"], told["chunks"], told["skipped"]), (2, 2, 1))
    equal(told["rows_in"], told["rows_out"] + told["rows_superseded"] + told["rows_rejected"] +
          told["rows_deleted"] + told["rows_unselected"])
    equal(len(s.read("some.ndjson").splitlines()), 2)
    s.run("compact", "export", "-q", "-o", "packed.tsv.gz")
    equal(read_csv(gzip.decompress(s.read("packed.tsv.gz")), "\t"), LATEST)
    equal(read_csv(s.out("compact", "export", "-o", "-")), LATEST)
    fails(s, "INVALID", "compact", "export")
    fails(s, "INVALID", "compact", "export", "-o", "")
    fails(s, "INVALID", "compact", "export", "-o", "x", "--ttl", "1m")
    s.write("kept.csv", b"as it was")
    s.run("compact", "set", "-q", "--late-bound", "1h")
    fails(s, "INVALID", "compact", "export", "-o", "kept.csv", "--since", "soon")
    equal(s.read("kept.csv"), b"as it was")


@it("a chunk that is damaged fails the export by its name, and can be left out in quarantine", LOCAL)
def _(s):
    fill(s)
    key = json.loads(s.out("compact", "ls", "--json").splitlines()[2])["key"]
    s.put(key, b"id,at,note\nforged,1,x\n")
    true(key in fails(s, "CORRUPT", "compact", "cat"), "the chunk is named")
    s.run("compact", "quarantine", "-q", key)
    fails(s, "CORRUPT", "compact", "cat")
    told = json.loads(s.out("compact", "export", "-o", "rest.csv", "--skip-quarantined", "--json"))
    equal((told["quarantined"], told["rows_out"]), (1, 3))
    listed = s.lines("compact", "export", "--list", "--ttl", "1s")[:-1]
    equal([one["key"] for one in listed if one["quarantine"]], [key])
    text = s.run("compact", "export", "--list", "--ttl", "1s", expect=None).stdout.decode()
    true(f"{key}  quarantined: " in text, text)


@it("a list of objects stays pinned for its time, and can be released early", LOCAL)
def _(s):
    fill(s)
    lines = s.lines("compact", "export", "--list", "--ttl", "10m")
    objects, last = lines[:-1], lines[-1]
    equal([one["key"] for one in objects],
          [json.loads(line)["key"] for line in s.out("compact", "ls", "--json").splitlines()])
    equal((last["objects"], last["ttl_ms"], len(last["leases"])), (3, 600000, 1))
    for one in objects:
        got = json.loads(s.out("store", "get", one["key"], "got", "--json"))
        equal((got["etag"], len(s.read("got"))), (one["etag"], one["size_bytes"]))
    run(s, "--force")
    deleting = lambda: sum(chunk["state"] == "retired" for chunk in chunks(s, "--all"))
    until(lambda: run(s) and deleting() == 3, "all three are being deleted")
    for one in objects:
        s.run("store", "get", "-q", one["key"], "got")  # but not yet
    s.run("release", "-q", last["leases"][0])
    run(s)
    for one in objects:
        fails(s, "NOT_FOUND", "store", "get", one["key"], "got")
    equal(read_csv(s.out("compact", "cat")), LATEST)
    fails(s, "INVALID", "compact", "export", "--list", "--prefix", "a")


@it("a partition that only a command can merge, or without a key, says what is not possible", LOCAL)
def _(s):
    s.run("compact", "create", "--format", "exec", "--command", "cat {inputs} {output}",
          "--partition", "opaque")
    s.write("a", b"bytes")
    s.run("compact", "ingest", "-q", "--partition", "opaque", "a")
    fails(s, "UNSUPPORTED", "compact", "cat", "--partition", "opaque")
    s.run("compact", "create", "--format", "csv", "--time", "at", "--partition", "log")
    s.write("b.csv", b"at,x\n2,b\n1,a\n")
    s.run("compact", "ingest", "-q", "--partition", "log", "b.csv")
    equal(read_csv(s.out("compact", "cat", "--partition", "log")), [["at", "x"], ["1", "a"], ["2", "b"]])
    fails(s, "INVALID", "compact", "cat", "--partition", "log", "--prefix", "a")
    s.run("compact", "create", "--format", "csv", "--key", "x", "--partition", "empty")
    equal(s.out("compact", "cat", "--partition", "empty"), b"")


if __name__ == "__main__":
    sys.exit(cases.main())

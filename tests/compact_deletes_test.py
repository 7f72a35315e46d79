#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compact_deletes_test.py: partitions with a deleted field, run as a person or a script would run
them: deletion markers win or lose by time, and go when nothing is left that they delete.

Prints TAP. Scratch folders are those of cli_test.py.
"""

import json
import sys
import time

import cases
from cli_test import LOCAL, equal, fails, it, true, until
from compact_cli_test import BEGIN, chunks, create, keys, of_kind, run, status

cases.cases.clear()


def row(key, seconds, value="x", deleted=""):
    return f"{key}\x1f{value}\x1f{BEGIN + seconds}\x1f{deleted}\n".encode()


def make(s, *more):
    """Markers are kept for twice two seconds, unless told otherwise."""
    late = [] if "--late-bound" in more else ["--late-bound", "2s"]
    create(s, "--format", "usv", "--key", "1", "--time", "3", "--deleted-field", "4", *late, *more)


def ingest(s, *files, expect=0):
    names = []
    for number, data in enumerate(files):
        names.append(f"in-{number}")
        s.write(names[-1], data)
    done = s.run("compact", "ingest", "--json", *names, expect=expect)
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows(s):
    """The keys of all live rows, and whether they are markers."""
    found = []
    for key in keys(s):
        for line in s.get(key).splitlines():
            fields = line.split(b"\x1f")
            found.append((fields[0].decode(), fields[3] == b"true"))
    return sorted(found)


def totals(events):
    return of_kind(events, "done")[-1]["totals"]


@it("a marker wins or loses by time, and is kept while it is young", LOCAL)
def _(s):
    make(s, "--late-bound", "1h")
    ingest(s, row("a", 0), row("a", 5, deleted="true"), row("b", 5, deleted="true"),
           row("b", 9), row("c", 1))
    told = totals(run(s, "--force"))
    equal((told["rows_in"], told["rows_out"], told["rows_superseded"], told["rows_deleted"]),
          (5, 3, 2, 0))
    equal(rows(s), [("a", True), ("b", False), ("c", False)])
    run(s, "--force")
    equal(rows(s), [("a", True), ("b", False), ("c", False)])
    equal([line[:1] for line in s.out("compact", "cat").splitlines()], [b"b", b"c"])


@it("a marker goes once it is old and nothing older is left, and older records are refused", LOCAL)
def _(s):
    make(s)
    ingest(s, row("a", 0), row("a", 5, deleted="true"), row("b", 1))
    run(s, "--force")
    equal(rows(s), [("a", True), ("b", False)])
    deleted = []

    def is_planned():
        plan = json.loads(s.out("compact", "plan", "--json"))["plan"]
        return [(group["drops"], len(group["sources"])) for group in plan] == [(True, 1)]
    until(is_planned, "the plan shows the rewrite")
    true(b"(drops deletion markers)" in s.out("compact", "plan"), "people see it too")
    equal(status(s)["due"]["groups"], 1)

    def is_gone():
        deleted.append(totals(run(s))["rows_deleted"])
        return rows(s) == [("b", False)]
    until(is_gone, "the marker is dropped")
    equal(sum(deleted), 1)
    records = status(s)["last_hour"]["records"]
    equal(sum(record["rows_deleted"] for record in records), 1)
    for record in records:
        equal(record["rows_in"], record["rows_out"] + record["rows_superseded"]
              + record["rows_rejected"] + record["rows_deleted"])
    before = keys(s)
    told = ingest(s, row("a", 5, value="late"), row("c", 6), row("d", -100) + row("d", 100),
                  expect=86)
    equal([one["key"] is not None for one in told if "key" in one].count(True), 1)
    equal(len(keys(s)), len(before) + 1)
    text = fails(s, "INVALID", "compact", "ingest", "in-0")
    true("takes only records later than" in text and "in-0" in text, text)
    equal(rows(s), [("b", False), ("c", False)])
    s.run("compact", "fsck")


@it("a chunk that has lost all its rows is merged like any other", LOCAL)
def _(s):
    make(s)
    ingest(s, row("a", 0), row("a", 5, deleted="true"))
    run(s, "--force")
    until(lambda: run(s) and rows(s) == [], "the marker is dropped")
    equal([chunk["rows"] for chunk in chunks(s)], [0])
    s.run("compact", "fsck")
    ingest(s, row("b", 7), row("c", 8))
    run(s, "--force")
    equal(rows(s), [("b", False), ("c", False)])
    equal(len(chunks(s)), 1)
    s.run("compact", "fsck")


@it("a chunk that reaches back keeps the markers, even in quarantine", LOCAL)
def _(s):
    make(s)
    told = ingest(s, row("a", 0, value="old"))
    s.run("compact", "quarantine", "-q", told[0]["key"])
    ingest(s, row("a", 5, deleted="true"), row("b", 1))
    run(s, "--force")
    time.sleep(5)
    run(s, "--force")
    true(("a", True) in rows(s), "the marker is kept")
    s.run("compact", "quarantine", "-q", "--release", told[0]["key"])
    until(lambda: run(s, "--force") and rows(s) == [("b", False)], "both are gone")


@it("retention brings back nothing", LOCAL)
def _(s):
    day = 86400
    make(s, "--late-bound", "1h", "--retention", "30d")
    ingest(s, row("a", 0, "old") + row("b", 0, "old") + row("c", 40 * day),
           row("a", 4 * day, deleted="true") + row("b", 4 * day, "new"))
    shown = lambda: [line.split(b"\x1f")[:2] for line in s.out("compact", "cat").splitlines()]
    equal(shown(), [[b"b", b"new"], [b"c", b"x"]])
    equal(of_kind(run(s), "done")[-1]["totals"]["tended"]["retired"], 1)
    equal(shown(), [[b"c", b"x"]], "neither the deleted record nor the replaced one")
    gone = [chunk["key"] for chunk in chunks(s, "--all") if chunk["state"] == "tombstone"]
    s.run("compact", "undelete", *gone)
    equal(shown(), [[b"b", b"new"], [b"c", b"x"]], "undelete shows them as before")


@it("a file without records is no newest record, and expires nothing", LOCAL)
def _(s):
    s.run("compact", "create", "--format", "csv", "--key", "id", "--time", "at", "--late-bound", "1h",
          "--retention", "30d")
    s.write("old.csv", b"id,at\na,2020-01-01T00:00:00Z\n")
    s.write("empty.csv", b"id,at\n")
    s.run("compact", "ingest", "old.csv", "empty.csv")
    run(s)
    equal(s.out("compact", "cat"), b"id,at\na,2020-01-01T00:00:00Z\n")


@it("the field is shown, stays once there are chunks, and needs a key and a time", LOCAL)
def _(s):
    fails(s, "INVALID", "compact", "create", "--format", "usv", "--key", "1", "--deleted-field",
          "4")
    make(s)
    equal(status(s)["settings"]["deleted"], "4")
    true("deleted 4" in s.out("compact", "status").decode(), "the text")
    ingest(s, row("a", 0))
    text = fails(s, "CONFLICT", "compact", "set", "--deleted-field", "2")
    true("--deleted-field" in text, text)


@it("a version that does not know markers refuses the partition", LOCAL)
def _(s):
    make(s)
    ingest(s, row("a", 0, deleted="true"))
    document = json.loads(s.get("metadata/catalog.json"))
    equal(document["format"], "holdfast.catalog/2")
    chunk = document["chunks"][0]
    equal((chunk["markers"], chunk["marker_max"]), (1, BEGIN * 1000))
    true(chunk["marked"], "its stamp")


@it("a value that is neither true nor false is not a record", LOCAL)
def _(s):
    make(s)
    s.write("in", row("a", 0, deleted="maybe"))
    text = fails(s, "INVALID", "compact", "ingest", "in")
    true("neither true nor false" in text, text)
    equal(chunks(s), [])


if __name__ == "__main__":
    sys.exit(cases.main())

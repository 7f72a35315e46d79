#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""index_plain_cli_test.py: plain shards, on the command line and from programs that know nothing of
Holdfast: one reads and writes the shards' files, one swaps them by their ETags while workers compile.

Prints TAP. The index and its rows are those of index_cli_test.py.
"""

import hashlib
import os
import sys
import threading

import cases
from cli_test import LOCAL, equal, it, objects, true
from index_cli_test import (DIR, RS, US, compile_, count, create, fails, get, keys, load, put, rows_of,
                            status, usv)

cases.cases.clear()

SHARDS = "indexes/domains/shards/"


def plain(s, *more):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    return create(s, "--plain", "--digits", "1", *more)


def shard_of(domain):
    return SHARDS + hashlib.sha256(domain.encode()).hexdigest()[0] + ".usv"


# ---- A program that reads and writes files -------------------------------------------------------


def read_records(data):
    """As a program that expects bare records would: by lines, and by separators."""
    return {line.split(US)[0]: line.split(US) for line in data.decode().split("\n") if line}


def read_shards(s):
    """All records of all shards, from the files of the store."""
    records, folder = {}, s.file("objects/" + SHARDS)
    for name in os.listdir(folder):
        if name.endswith(".usv"):
            with open(os.path.join(folder, name), "rb") as source:
                records.update(read_records(source.read()))
    return records


def rewrite_file(s, key, data):
    path = s.file("objects/" + key)
    with open(path + ".new", "wb") as out:
        out.write(data)
    os.replace(path + ".new", path)


@it("a program that expects bare records reads every shard", DIR)
def _(s):
    plain(s)
    rows = rows_of(200)
    load(s, rows)
    compile_(s)
    equal(read_shards(s), {row[0]: list(row) for row in rows})
    load(s, [(row[0], "new", str(int(row[2]) + 1)) for row in rows[:100]])
    s.run("index", "rm", "-q", "domains", rows[150][0])
    compile_(s)
    records = read_shards(s)
    equal(len(records), 199)
    equal({records[row[0]][1] for row in rows[:100]}, {"new"})
    true(rows[150][0] not in records, "a deleted key is not in its shard")
    equal(count(s), 199)
    true(status(s)["schema"]["plain"], "status says so")


@it("what a program writes into a shard's file counts, and the next compile keeps it", DIR)
def _(s):
    plain(s)
    put(s, "a.example", "ours")
    compile_(s)
    key = shard_of("a.example")
    other = next(f"b{n}.example" for n in range(1000) if shard_of(f"b{n}.example") == key)
    for end in ("\n", RS, RS + "\n"):
        rewrite_file(s, key, (US.join([other, "theirs", "2026-02-07T10:00:00Z"]) + end +
                              US.join(["a.example", "older", "2026-02-05T10:00:00Z"]) + end +
                              US.join(["a.example", "ours", "2026-02-06T10:00:00Z"]) + end).encode())
        equal([row["owner"] for row in get(s, "a.example", other)], ["ours", "theirs"])
        equal(keys(s), ["a.example", other])
        put(s, "a.example", "late", "2026-02-04T10:00:00Z")
        compile_(s)
        equal(read_records(s.read("objects/" + key)),
              {"a.example": ["a.example", "ours", "2026-02-06T10:00:00Z"],
               other: [other, "theirs", "2026-02-07T10:00:00Z"]})
    rewrite_file(s, key, b"something else\n")
    true("not a record" in fails(s, "CORRUPT", "get", "domains", "a.example"), "it is left alone")
    equal(s.read("objects/" + key), b"something else\n")


# ---- A program that swaps --------------------------------------------------------------------------


def swap_in(s, domain, owner, at):
    """Adds a record to its shard, on condition of the ETag with which it was read."""
    key = shard_of(domain)
    while True:
        seen = [row for row in s.lines("store", "ls", "-r", key) if row["key"] == key]
        condition = ["--if-match", seen[0]["etag"]] if seen else ["--if-absent"]
        data = s.get(key) if seen else b""
        done = s.run("store", "put", "--force", *condition, "--", key, "-",
                     stdin=data + usv(domain, owner, at), expect=None)
        if done.returncode == 0:
            return


@it("a program that swaps shards by their ETags and workers that compile lose nothing", LOCAL)
def _(s):
    plain(s)
    ours, theirs = rows_of(120), [(f"their-{n}.example", "them", "1770000000") for n in range(24)]
    failures = []

    def compile_often():
        for start in range(0, len(ours), 20):
            s.run("index", "put", "-q", "domains", "--from", "-", "--format", "usv",
                  stdin=b"".join(usv(*row) for row in ours[start:start + 20]))
            done = s.run("index", "compile", "-q", "domains", expect=None)
            if done.returncode not in (0,) and b"CONFLICT" not in done.stderr:
                failures.append(done.stderr)

    worker = threading.Thread(target=compile_often)
    worker.start()
    for row in theirs:
        swap_in(s, *row)
    worker.join()
    equal(failures, [])
    compile_(s)
    equal(keys(s), sorted(row[0] for row in ours + theirs))
    equal([name for name in objects(s, "indexes/domains/inbox/")], [])


# ---- The option ------------------------------------------------------------------------------------


@it("--plain is kept, and cannot be added to an index or taken away", LOCAL)
def _(s):
    plain(s)
    true("unchanged" in create(s, "--digits", "1"), "what is omitted stays")
    equal(status(s)["schema"]["plain"], True)
    create(s, name="usual")
    true("plain" in fails(s, "INVALID", "create", "usual", "--fields", "domain,owner,updated_at", "--key",
                          "domain", "--time", "updated_at", "--plain"), "it says what differs")
    equal(status(s, "usual")["schema"]["plain"], False)


if __name__ == "__main__":
    sys.exit(cases.main())

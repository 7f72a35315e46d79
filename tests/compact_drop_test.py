#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compact_drop_test.py: `compact drop`, run as a person or a script would run it.

Prints TAP. Scratch folders are those of cli_test.py.
"""

import json
import sys

import cases
from cli_test import LOCAL, equal, fails, it, true, until
from compact_cli_test import BEGIN, chunks, create, ingest, keys, row, run, some_files

cases.cases.clear()


def names(s):
    return [one["key"] for one in s.lines("store", "ls", "-r")]


def drop(s, partition="default", *args):
    return json.loads(s.out("compact", "drop", partition, "--json", *args))


def make(s, *more):
    """A partition with two live chunks and three tombstones, one of which is kept for an hour."""
    create(s, "--grace", "1h", *more)
    ingest(s, some_files(3))
    run(s)
    ingest(s, some_files(1, hour=4, tag="x"))


def hurry(s):
    """Nothing is kept longer than the test can wait."""
    s.run("compact", "set", "-q", "--grace", "0", "--late-bound", "100ms")


def wait_until_gone(s):
    until(lambda: drop(s)["gone"], "nothing is left")


@it("a dry run shows what would be dropped and when, and changes nothing", LOCAL)
def _(s):
    make(s)
    before = names(s)
    told = drop(s, "default", "--dry-run")
    equal((told["dry_run"], told["marked"], told["gone"], told["chunks"], told["tombstones"]),
          (True, False, False, 2, 3))
    true(told["live_bytes"] > 0 and told["tombstone_bytes"] > 0, told)
    true(told["wait_ms"] >= 2 * 3600 * 1000 - 60000, "grace and late bound")
    text = s.out("compact", "drop", "default", "--dry-run").decode()
    true(text.startswith("would drop default: 2 chunks, "), text)
    true("\neverything can be gone in 2h" in text or "\neverything can be gone in 1h59m" in text,
         text)
    equal(names(s), before)


@it("a partition that is being dropped refuses everything in words", LOCAL)
def _(s):
    make(s)
    s.write("outside", b"x")
    told = drop(s)
    equal((told["marked"], told["chunks"]), (True, 2))
    for args in (["ingest", "outside"], ["run"], ["set", "--tries", "2"]):
        text = fails(s, "NOT_FOUND", "compact", *args)
        true("being dropped" in text, (args, text))
    text = fails(s, "CONFLICT", "compact", "create", "--format", "usv", "--key", "1", "--time", "3")
    true("being dropped" in text, text)
    true("being dropped" in s.out("compact", "plan").decode(), "the plan says why")
    true(json.loads(s.out("compact", "status", "--json"))["dropping"], "the status says so")
    text = s.out("compact", "status").decode()
    true("\ndropping     'holdfast compact drop --dry-run default' shows what is left\n" in text,
         text)
    told = drop(s)
    equal((told["chunks"], told["tombstones"], told["gone"]), (0, 5, False))


@it("in the end nothing is left of it, and all others are untouched", LOCAL)
def _(s):
    make(s)
    s.write("outside", b"x")
    s.run("store", "put", "-q", "data.txt", "outside")
    create(s, "--partition", "other")
    kept = ingest(s, some_files(1, tag="other"), "--partition", "other")
    hurry(s)
    wait_until_gone(s)
    fails(s, "NOT_FOUND", "compact", "drop", "default")
    fails(s, "NOT_FOUND", "compact", "ls")
    left = [name for name in names(s) if name.startswith(("data/", "metadata/", "roster/"))
            and "/other/" not in name]
    equal(left, [], "what is left")
    equal(keys(s, "--partition", "other"), kept)
    true("data.txt" in names(s), "an object outside")
    create(s)
    equal(len(ingest(s, some_files(2))), 2)


@it("pinned chunks stay until they are released", LOCAL)
def _(s):
    make(s)
    hurry(s)
    key = keys(s)[0]
    lease = s.out("compact", "pin", key, "--ttl", "10m").decode().strip()
    drop(s)
    until(lambda: drop(s)["pinned"] == 1, "all but one are deleted")
    equal([name for name in names(s) if name.startswith("data/")], [key])
    true("1 pinned" in s.out("compact", "drop", "default").decode(), "says so")
    s.run("release", "-q", lease)
    wait_until_gone(s)


@it("adopted objects stay unless they are owned, and their paths are free afterwards", LOCAL)
def _(s):
    make(s)
    create(s, "--partition", "other")
    for path in ("raw/1.usv", "mine/1.usv"):
        s.put(path, row("a", BEGIN))
    s.run("compact", "adopt", "-q", "raw/")
    s.run("compact", "adopt", "-q", "--own", "mine/")
    hurry(s)
    fails(s, "CONFLICT", "compact", "adopt", "raw/", "--partition", "other")
    wait_until_gone(s)
    equal([name for name in names(s) if name.startswith(("raw/", "mine/"))], ["raw/1.usv"])
    s.run("compact", "adopt", "-q", "raw/", "mine/", "--partition", "other")
    equal([chunk["object"] for chunk in chunks(s, "--partition", "other")], ["raw/1.usv"])


@it("a sweep and a run finish what a drop began", LOCAL)
def _(s):
    for words, status in ((["sweep", "--once", "-q"], 0), (["compact", "run"], 80)):
        make(s)
        hurry(s)
        drop(s)

        def is_gone(words=words, status=status):
            s.run(*words, expect=status)
            return not [name for name in names(s) if name.startswith(("data/", "metadata/"))]
        until(is_gone, "nothing is left")


@it("a name that is no partition is refused", LOCAL)
def _(s):
    s.make_store()
    fails(s, "INVALID", "compact", "drop", "No Such Name")
    true("there is no partition 'nothing'" in fails(s, "NOT_FOUND", "compact", "drop", "nothing"),
         "says so")
    fails(s, "NOT_FOUND", "compact", "drop", "nothing", "--dry-run")


@it("fsck finds nothing wrong in a partition that is being dropped", LOCAL)
def _(s):
    make(s)
    drop(s)
    s.run("compact", "fsck")
    equal({chunk["state"] for chunk in chunks(s, "--all")}, {"tombstone"})


if __name__ == "__main__":
    sys.exit(cases.main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""recovery_test.py: every way out in docs/recovery.md works: its blocks of commands are run as they are
printed there, in a bucket that has the problem.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import cases
from cli_test import LOCAL, code, equal, fails, it, true

cases.cases.clear()

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "recovery.md")
EPOCHS = [".holdfast/epoch/default.json", ".holdfast/epoch-copy/default.json"]


def sections():
    """The blocks of commands by heading."""
    with open(PAGE, encoding="utf-8") as file:
        parts = re.split(r"^## (.*)$", file.read(), flags=re.M)
    return {heading: re.findall(r"^```sh\n(.*?)^```$", text, flags=re.M | re.S)
            for heading, text in zip(parts[1::2], parts[2::2])}


SECTIONS = sections()
walked = set()


def walk(s, heading, number=0, expect=0):
    """Runs a block as an operator would, and returns what it printed."""
    walked.add(heading)
    done = subprocess.run(["sh", "-eu", "-c", SECTIONS[heading][number]], cwd=s.path, env=s.env,
                          capture_output=True, timeout=120, check=False)
    equal(done.returncode, expect, f"{heading}: {done.stderr.decode()}")
    return done.stdout.decode()


def token(s, *args):
    return int(s.out("acquire", *args).split(b":")[0])


def unblock(s):
    walk(s, "A lock table is damaged", 1)


def blocked(s, name):
    """Nothing is granted, and the reason is told."""
    text = fails(s, "HELD", "acquire", "--no-wait", name)
    true("blocked" in text and "free again in" in text, text)


@it("a backup restored: no lock is granted twice, tokens rise, and keys are as they were", LOCAL)
def _(s):
    s.run("key", "update", "k", "--take", stdin=b"1")
    s.run("release", s.out("acquire", "job").decode().strip())
    walk(s, "Make a backup")
    after = token(s, "job")  # the backup does not know this lease
    s.env["HOLDFAST_STORE"] = "dir:backup"
    text = walk(s, "The store was restored from a backup")
    true("Nothing was changed" in text and "Nothing is granted" in text, text)
    blocked(s, "job")
    equal(s.out("key", "get", "k"), b"1")
    unblock(s)
    true(token(s, "job") > after, "the token rises")


@it("a bucket that was copied: the copy is safe to use, and the original is untouched")
def _(s):
    s.env["HOLDFAST_STORE"] = "dir:objects"
    lease = s.out("acquire", "job").decode().strip()
    s.run("release", lease)
    before = s.everything()
    walk(s, "A bucket was copied to another place")
    equal(s.everything(), before)
    s.env["HOLDFAST_STORE"] = "sqlite:copy.db"
    blocked(s, "job")
    unblock(s)
    true(token(s, "job") > int(lease.split(":")[0]), "the token rises")


@it("a scrub finds nothing in a store that is in order, and names what is damaged", LOCAL)
def _(s):
    s.run("acquire", "job")
    true("0 damaged" in walk(s, "Find damage before it is needed"), "nothing is found")
    s.put("default/meta/job.json", s.get("default/meta/job.json").replace(b"named:job", b"named:jog"))
    text = s.run("store", "scrub", expect=88).stdout.decode()
    true("damaged     default/meta/job.json" in text, text)


@it("documents get their checksums, and the way back is open", LOCAL)
def _(s):
    s.run("acquire", "job")
    s.put("default/meta/job.json", cases.unsealed(s.get("default/meta/job.json")))
    text = walk(s, "Give every document a checksum")
    true("would add a checksum: default/meta/job.json" in text and "\nadded a checksum: default/meta/job.json" in text, text)
    true("is now off" in walk(s, "Give every document a checksum", 1), "off")


@it("one epoch document is enough; with both damaged nothing is granted until they are repaired", LOCAL)
def _(s):
    last = token(s, "job")
    s.put(EPOCHS[0], b"garbage")
    token(s, "new")
    for key in EPOCHS:
        s.put(key, b"garbage")
    text = fails(s, "CORRUPT", "acquire", "newer")
    true("holdfast store repair epoch" in text, text)
    walk(s, "The token epoch is damaged")
    true(token(s, "newer") > last, "the token rises")


@it("a damaged table is replaced, and blocked until it is safe, or until an operator says so", LOCAL)
def _(s):
    last = token(s, "job")
    s.put("default/meta/job.json", b"garbage")
    blocked(s, "job")
    text = walk(s, "A lock table is damaged")
    true("the table was damaged and replaced" in text, text)
    unblock(s)
    true(token(s, "job") > last, "the token rises")


def make_partition(s):
    s.run("compact", "create", "-q", "--format", "usv", "--key", "1", "--time", "3", "--level0-count", "3",
          "--grace", "1h", "--late-bound", "1h", "--skew", "0")
    for number in range(5):
        s.write(f"{number}.usv", b"k%d\x1fv%d\x1f2026-01-0%dT00:00:00Z\n" %
                (number % 4, number, number + 1))
        s.run("compact", "ingest", "-q", f"{number}.usv")
    s.run("compact", "run", "-q")
    return s.out("compact", "cat")


def lose_catalog(s):
    s.run("store", "rm", "-q", "--force", "metadata/catalog.json")
    fails(s, "NOT_FOUND", "compact", "cat")
    found = s.lines("compact", "fsck", expect=code(s, "CORRUPT"))
    true({row["kind"] for row in found if "kind" in row} == {"unreferenced"}, found)


@it("a lost catalog that has a copy: put back, nothing is missing", LOCAL)
def _(s):
    rows = make_partition(s)
    s.write("catalog.json", s.get("metadata/catalog.json"))
    lose_catalog(s)
    walk(s, "The catalog of a partition was lost")
    equal(s.out("compact", "cat"), rows)


@it("a lost catalog without a copy: the chunks are ingested again, and every row is there", LOCAL)
def _(s):
    rows = make_partition(s)
    lose_catalog(s)
    s.run("compact", "fsck", "--repair", "--older-than", "0s", expect=code(s, "CORRUPT"))  # deletes nothing
    walk(s, "The catalog of a partition was lost", 1)
    equal(s.out("compact", "cat"), rows)


@it("a truncated SQLite file is refused by every command, and a backup takes its place")
def _(s):
    s.env["HOLDFAST_STORE"] = "sqlite:store.db"
    for number in range(30):
        s.run("key", "update", f"k{number}", "--take", stdin=b"x" * 300)
    walk(s, "Make a backup")
    subprocess.run(["sqlite3", s.file("store.db"), "PRAGMA wal_checkpoint(TRUNCATE)"], check=True,
                   capture_output=True)
    with open(s.file("store.db"), "r+b") as file:
        file.truncate(os.path.getsize(s.file("store.db")) * 2 // 3)
    before = s.read("store.db")
    for command in (["key", "get", "k1"], ["acquire", "job"], ["key", "update", "k1", "--take"]):
        fails(s, "CORRUPT", *command)
    equal(s.read("store.db"), before, "nothing is changed")
    walk(s, "The file of an SQLite store is damaged")
    equal(s.out("key", "get", "k29"), b"x" * 300)


@it("a lock that was granted 2^32 times goes on, and its tokens rise", LOCAL)
def _(s):
    s.run("release", s.out("acquire", "job").decode().strip())
    table = cases.unsealed(s.get("default/meta/job.json")).decode()
    s.put("default/meta/job.json", re.sub(r'"next_token":\d+', f'"next_token":{2**32 - 2}', table).encode())
    last = 0
    for _ in range(4):
        lease = s.out("acquire", "job").decode().strip()
        true(int(lease.split(":")[0]) > last, lease)
        last = int(lease.split(":")[0])
        s.run("release", lease)
    true(last > 2**32, last)


@it("no block of the page is left out")
def _(s):
    with open(__file__, encoding="utf-8") as file:
        source = file.read()
    for heading, blocks in SECTIONS.items():
        for number in range(len(blocks)):
            call = f'walk(s, "{heading}"' + (f", {number})" if number else ")")
            true(call in source, call)


if __name__ == "__main__":
    sys.exit(cases.main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""namespace_cli_test.py: `namespace create` and `namespace show`: locks on paths in pages, what an
older program sees of them, and that every command that lists or repairs tables knows them.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import json
import os
import sys

import cases
from cli_test import LOCAL, equal, fails, it, true

cases.cases.clear()

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def create(s, *more):
    return s.lines("namespace", "create", "many", "--placement", "pages:64", *more)[0]


@it("a namespace with pages is created once, and shown", LOCAL)
def _(s):
    equal(create(s, "--segments", "2"), {"namespace": "many", "pages": 64, "segments": 2})
    equal(create(s, "--segments", "2"), {"namespace": "many", "pages": 64, "segments": 2})
    equal(s.out("namespace", "show", "many").decode(),
          "namespace many: paths are in 64 pages; segments that determine the page: 2\n")
    equal(s.out("namespace", "show", "default").decode(),
          "namespace default: all paths are in one table\n")
    text = fails(s, "MISMATCH", "namespace", "create", "many", "--placement", "pages:65")
    true("has 64 pages, determined by 2 segments" in text, text)


@it("what is no placement is refused, and nothing is written", ["sqlite"])
def _(s):
    s.run("acquire", "deploy")
    before = s.everything()
    for wrong in ("pages", "pages:", "pages:x", "tables:4", "64", "pages:1", "pages:65537"):
        text = fails(s, "INVALID", "namespace", "create", "many", "--placement", wrong)
        true("pages" in text, text)
    for wrong in ("0", "17", "4294967297"):
        fails(s, "INVALID", "namespace", "create", "many", "--placement", "pages:4", "--segments", wrong)
    fails(s, "INVALID", "namespace", "create", "data", "--placement", "pages:4")
    text = fails(s, "MISMATCH", "namespace", "create", "default", "--placement", "pages:4")
    true("already in use" in text, text)
    equal(s.everything(), before)


@it("paths in pages exclude each other as in one table, and what spans pages is refused", LOCAL)
def _(s):
    create(s)
    s.run("acquire", "--ns", "many", "tree:/a/b")
    text = fails(s, "HELD", "acquire", "--no-wait", "--ns", "many", "path:/a/b/c")
    true("tree:/a/b" in text or "path:/a/b/c" in text, text)
    s.run("acquire", "--no-wait", "--ns", "many", "path:/b/c")
    text = fails(s, "INVALID", "acquire", "--ns", "many", "tree:/")
    true("a tree must have at least 1 segment" in text, text)
    text = fails(s, "INVALID", "acquire", "--ns", "many", "path:/x", "path:/y")
    true("different pages; use a lock for each, or paths with the same first segment" in text, text)
    equal(s.run("run", "--ns", "many", "path:/c", "--", "true").returncode, 0)


@it("every command finds the locks in pages", LOCAL)
def _(s):
    create(s)
    for i in range(5):
        s.run("acquire", "--ns", "many", f"path:/p{i}/x")
    lease = s.lines("acquire", "--ns", "many", "path:/q")[0]["lease"]
    true(":many/paths/" in lease, lease)
    equal(len(s.lines("locks", "ls", "--ns", "many")), 6)
    equal(len(s.lines("locks", "ls", "--ns", "many", "path:/p3/")), 1)
    shown = s.lines("locks", "show", "--ns", "many", "path:/q")[0]
    true(shown["table"].startswith("many/paths/"), shown)
    s.run("renew", lease)
    s.run("release", lease)
    s.run("locks", "break", "--ns", "many", "path:/p0/x", "--reason", "test")
    equal(len(s.lines("locks", "ls", "--ns", "many")), 4)
    swept = s.lines("sweep", "--full")[-1]
    equal(swept["failed"], 0)
    equal(s.lines("namespace", "show", "many")[0]["pages"], 64)
    restored = [line for line in s.lines("store", "restored", "--yes") if "table" in line]
    equal(len(restored), 6)
    true(all(line["table"].startswith("many/paths/") for line in restored), restored)
    fails(s, "HELD", "acquire", "--no-wait", "--ns", "many", "path:/q")


@it("a restore finds pages even if the backup lacks the mark and the epoch", LOCAL)
def _(s):
    create(s)
    s.run("acquire", "--ns", "many", "path:/q")
    s.run("store", "rm", "--force", "many/paths.json")
    for key in (".holdfast/epoch/many.json", ".holdfast/epoch-copy/many.json"):
        s.run("store", "rm", "--force", key)
    restored = [line for line in s.lines("store", "restored", "--yes") if "table" in line]
    true([line["table"].startswith("many/paths/") for line in restored] == [True], restored)


@it("an older program refuses the store, and one that is running the table", LOCAL)
def _(s):
    create(s)
    document = json.loads(s.get(".holdfast/format.json"))
    equal(document["features"]["incompatible"], ["path-pages"])
    equal(document["placements"], {"many": {"pages": 64, "segments": 1}})
    # What a program that does not know a feature does (bucket_cli_test.py), for this one:
    with open(os.path.join(ROOT, "src/store/bucket.c"), encoding="utf-8") as file:
        true('{ INCOMPATIBLE, "path-pages" }' in file.read(), "the feature is incompatible")
    # A program that opened the store before finds the mark, whose format it does not know.
    mark = json.loads(s.get("many/paths.json"))
    equal(mark, {"format": "holdfast.leases/2", "pages": 64, "segments": 1})


@it("without the format document, locks are refused until the creation is repeated", LOCAL)
def _(s):
    create(s)
    s.run("store", "rm", "--force", ".holdfast/format.json")
    text = fails(s, "UNSUPPORTED", "acquire", "--ns", "many", "path:/a")
    true("namespace create" in text, text)
    create(s)
    s.run("acquire", "--ns", "many", "path:/a")


@it("a probe keeps the placements", LOCAL)
def _(s):
    create(s)
    s.run("namespace", "create", "deep", "--placement", "pages:8", "--segments", "3")
    s.run("store", "probe")
    for name, pages in (("many", 64), ("deep", 8)):
        equal(s.lines("namespace", "show", name)[0]["pages"], pages)
    document = json.loads(s.get(".holdfast/format.json"))
    equal(len(document["verdicts"]), 1)
    equal(sorted(document["placements"]), ["deep", "many"])


@it("a copy of the store has the placements, and its locks are found", LOCAL)
def _(s):
    create(s)
    s.run("acquire", "--ns", "many", "path:/a")
    s.run("store", "cp", "-r", "-q", "--to", "dir:copy", "", "")
    copied = ("--store", "dir:copy")
    equal(s.lines("namespace", "show", "many", *copied)[0]["pages"], 64)
    equal(len(s.lines("locks", "ls", "--ns", "many", *copied)), 1)
    fails(s, "HELD", "acquire", "--no-wait", "--ns", "many", "path:/a", *copied)


if __name__ == "__main__":
    sys.exit(cases.main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""adopt_cli_test.py: objects of other programs in a partition: `compact adopt`, `compact watch
--inbox`, and what fsck, ls, undelete and an older program say about them. Also: every command that
fsck advises exists.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import glob
import json
import os
import re
import signal
import subprocess
import sys

import cases
from cli_test import LOCAL, PROGRAM, equal, fails, it, true, until
from compact_cli_test import BEGIN, chunks, create, keys, row

cases.cases.clear()

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def loosely(s, *args):
    """Runs a command that may fail; what it printed."""
    return subprocess.run([PROGRAM, *args], cwd=s.path, env=s.env, capture_output=True,
                          timeout=120).stdout.decode()


def put_some(s, prefix, count):
    for i in range(count):
        s.put(f"{prefix}{i}.usv", row(f"key-{i}", BEGIN + i) + row("all", BEGIN + i, str(i)))


def objects(s, prefix):
    return sorted(line["key"] for line in s.lines("store", "ls", prefix))


def rows_of(s):
    """All rows of the live chunks."""
    found = []
    for chunk in chunks(s):
        data = s.get(chunk.get("object") or chunk["key"])
        found += data.splitlines()
    return sorted(found)


# ---- Adopting -----------------------------------------------------------------------------------


@it("objects are adopted without a copy, once, and merged like any others", LOCAL)
def adopts(s):
    create(s, "--grace", "1h")
    put_some(s, "raw/", 3)
    told = s.lines("compact", "adopt", "raw/")
    equal([line["object"] for line in told], ["raw/0.usv", "raw/1.usv", "raw/2.usv"])
    equal(objects(s, "data/"), [])
    text = s.out("compact", "adopt", "raw/").decode()
    true("3 objects were already adopted" in text, text)
    s.run("compact", "run", "--all", "--force")
    equal(len(keys(s)), 1)
    equal(len(rows_of(s)), 4)
    equal(len(objects(s, "raw/")), 3)
    s.run("compact", "fsck")
    s.run("compact", "adopt", "-q", "raw/")
    equal(len(keys(s)), 1)


@it("a prefix has one partition, and Holdfast's own folders have none", LOCAL)
def one_partition(s):
    create(s)
    create(s, "--partition", "other")
    put_some(s, "raw/a/", 2)
    s.run("compact", "adopt", "-q", "raw/a/")
    for path in ("raw/a/", "raw/", "raw/a/0.usv", "raw/a/b/"):
        done = fails(s, "CONFLICT", "compact", "adopt", path, "--partition", "other")
        true("registered to partition default" in done, done)
    fails(s, "CONFLICT", "compact", "adopt", "--own", "raw/a/")
    for path in ("data/", "metadata/catalog.json", ".holdfast/", "indexes/x/", "default/"):
        fails(s, "INVALID", "compact", "adopt", path)
    fails(s, "NOT_FOUND", "compact", "adopt", "raw/a/none.usv")
    fails(s, "NOT_FOUND", "compact", "adopt", "x/", "--partition", "nowhere")
    equal(keys(s, "--partition", "other"), [])


@it("an object that was rewritten is quarantined and never merged; the others are", LOCAL)
def rewritten(s):
    create(s)
    put_some(s, "raw/", 4)
    s.run("compact", "adopt", "-q", "raw/")
    s.put("raw/2.usv", row("key-2", BEGIN + 999, "evil"))
    loosely(s, "compact", "run", "--all", "--force")
    loosely(s, "compact", "run", "--all", "--force")
    live = chunks(s)
    bad = [chunk for chunk in live if chunk["quarantine"]]
    equal([chunk["object"] for chunk in bad], ["raw/2.usv"])
    true("rewritten after it was adopted" in bad[0]["quarantine"], bad[0]["quarantine"])
    merged = [chunk for chunk in live if "object" not in chunk]
    data = b"".join(s.get(chunk["key"]) for chunk in merged)
    true(b"evil" not in data and b"key-2" not in data and b"key-3" in data, data)
    found = [json.loads(line) for line in
             loosely(s, "compact", "fsck", "--json").splitlines()]
    equal([line["kind"] for line in found if "kind" in line], ["rewritten"])
    true("compact adopt" in found[0]["repair"], found[0]["repair"])
    s.run("compact", "adopt", "-q", "raw/")  # the new version is another object
    loosely(s, "compact", "run", "--all", "--force")
    true(any(b"evil" in line for line in rows_of(s)), "the new version")
    for advice in (bad[0]["quarantine"], found[0]["repair"], loosely(s, "compact", "status")):
        true("compact quarantine --discard" in advice, advice)
    said = fails(s, "CORRUPT", "compact", "cat")
    true("compact quarantine --discard" in said, said)
    told = json.loads(s.out("compact", "quarantine", bad[0]["key"], "--discard", "--json"))
    equal((told["discarded"], told["quarantine"]), (True, None))
    true(b"evil" in s.out("compact", "cat"), "all that is left")
    s.run("compact", "fsck")
    fails(s, "NOT_FOUND", "compact", "quarantine", bad[0]["key"], "--discard")
    fails(s, "CONFLICT", "compact", "quarantine", keys(s)[0], "--discard")


@it("a path is released after twice the late bound, once nothing needs its objects", LOCAL)
def released(s):
    create(s, "--late-bound", "500ms")
    create(s, "--partition", "other")
    put_some(s, "raw/", 2)
    s.run("compact", "adopt", "-q", "raw/")
    status = json.loads(s.out("compact", "status", "--json"))
    equal(status["paths"], [{"path": "raw/", "own": False, "releasing": False}])
    equal(status["dropping"], False)
    text = s.out("compact", "release", "raw/").decode()
    true(text.startswith("releasing raw/: 2 chunks still need its objects; can be released in "),
         text)
    text = s.out("compact", "status").decode()
    true("\nadopts       raw/, until it is released\n" in text, text)
    fails(s, "CONFLICT", "compact", "adopt", "raw/", "--partition", "other")

    def is_released():
        # On a busy machine a merge may take longer than half the late bound, and loses.
        s.run("compact", "run", "-q", "--all", "--force")
        return json.loads(s.out("compact", "release", "raw/", "--json"))["released"]
    until(is_released, "the path is released")
    fails(s, "NOT_FOUND", "compact", "release", "raw/")
    s.run("compact", "adopt", "-q", "raw/", "--partition", "other")
    equal(len(keys(s, "--partition", "other")), 2)
    equal(len(keys(s)), 1)


@it("fsck finds an adopted object that is missing or has other bytes", LOCAL)
def checked(s):
    create(s)
    put_some(s, "raw/", 2)
    s.run("compact", "adopt", "-q", "raw/")
    s.run("store", "rm", "raw/0.usv")
    s.put("raw/1.usv", row("x", BEGIN))
    for deep in ([], ["--shallow"]):
        found = [json.loads(line) for line in
                 loosely(s, "compact", "fsck", "--json", *deep).splitlines()]
        equal(sorted(line["kind"] for line in found if "kind" in line),
              ["missing-object", "rewritten"])
    loosely(s, "compact", "fsck", "--repair")
    equal(sum(1 for chunk in chunks(s) if chunk["quarantine"]), 2)


@it("a merge is undone only if its adopted objects are still what they were", LOCAL)
def undone(s):
    create(s, "--grace", "1h")
    put_some(s, "raw/", 3)
    s.run("compact", "adopt", "-q", "raw/")
    s.run("compact", "run", "-q", "--all", "--force")
    dead = [chunk["key"] for chunk in chunks(s, "--all") if chunk["state"] == "tombstone"]
    s.run("compact", "undelete", dead[0])
    equal(sum(1 for chunk in chunks(s) if "object" in chunk), 3)
    s.run("compact", "run", "-q", "--all", "--force")
    s.put("raw/1.usv", row("y", BEGIN))
    dead = [chunk["key"] for chunk in chunks(s, "--all")
            if chunk["state"] == "tombstone" and "object" in chunk]
    said = fails(s, "CONFLICT", "compact", "undelete", dead[0])
    true("raw/1.usv was rewritten" in said, said)
    equal(sum(1 for chunk in chunks(s) if "object" in chunk), 0)


@it("only what is owned is deleted, after the grace period", LOCAL)
def owned(s):
    create(s)
    put_some(s, "raw/", 2)
    put_some(s, "mine/", 2)
    s.run("compact", "adopt", "-q", "raw/")
    s.run("compact", "adopt", "-q", "--own", "mine/")
    s.run("compact", "run", "-q", "--all", "--force")
    until(lambda: s.run("compact", "run", "-q", "--all") and objects(s, "mine/") == [],
          "owned objects are deleted")
    equal(len(objects(s, "raw/")), 2)
    text = s.out("compact", "adopt", "raw/").decode()
    true("2 objects were already adopted" in text, text)
    equal(len(keys(s)), 1)


# ---- Manifests ----------------------------------------------------------------------------------


def manifest_of(s, prefix):
    """A manifest, made from a partition that has read the objects."""
    create(s, "--partition", "scout")
    s.run("compact", "adopt", "-q", prefix, "--partition", "scout")
    lines = []
    for chunk in chunks(s, "--partition", "scout"):
        lines.append({"key": chunk["object"], "etag": chunk["etag"], "size": chunk["size_bytes"],
                      "rows": chunk["rows"], "min": BEGIN * 1000, "max": (BEGIN + 9) * 1000,
                      "crc32c": int(chunk["crc32c"], 16)})
    s.run("store", "rm", "--force", "metadata/adopted.json")
    return lines


def write_manifest(s, lines):
    s.write("manifest", "".join(json.dumps(line) + "\n" for line in lines).encode())


@it("with a manifest no object is read, and one of another version is refused", LOCAL)
def manifest(s):
    create(s)
    put_some(s, "raw/", 3)
    lines = manifest_of(s, "raw/")
    lines[1]["etag"] = "other"
    write_manifest(s, lines)
    said = fails(s, "CONFLICT", "compact", "adopt", "raw/", "--manifest", "manifest")
    true("raw/1.usv" in said and "the version that the manifest describes" in said, said)
    equal(sorted(chunk["object"] for chunk in chunks(s)), ["raw/0.usv", "raw/2.usv"])
    write_manifest(s, [lines[0], lines[2]])
    s.run("compact", "adopt", "raw/", "--manifest", "manifest")  # the other one is read
    equal(len(keys(s)), 3)
    s.run("compact", "run", "-q", "--all", "--force")
    s.run("compact", "fsck")


@it("a manifest with a wrong checksum quarantines that chunk alone", LOCAL)
def wrong_manifest(s):
    create(s)
    put_some(s, "raw/", 3)
    lines = manifest_of(s, "raw/")
    lines[0]["crc32c"] ^= 1
    write_manifest(s, lines)
    s.run("compact", "adopt", "-q", "raw/", "--manifest", "manifest")
    for _ in range(3):
        loosely(s, "compact", "run", "-q", "--all", "--force")
    bad = [chunk for chunk in chunks(s) if chunk["quarantine"]]
    equal([chunk["object"] for chunk in bad], ["raw/0.usv"])
    true("checksum" in bad[0]["quarantine"], bad[0]["quarantine"])


@it("a manifest with a mistake is refused with the number of its line", LOCAL)
def bad_manifest(s):
    create(s)
    put_some(s, "raw/", 2)
    lines = manifest_of(s, "raw/")
    whole = json.dumps(lines[0])
    for text, said in ((whole + "\n{", "line 2"), (whole + "\n" + whole, "described before"),
                       ("[]", "line 1"), (whole + "\n" + "x" * 20000, "line 2: the line is too long"), (whole.replace('"crc32c"', '"crc"'), "crc32c"),
                       (whole.replace('"max": ', '"max": -'), "max is before min")):
        s.write("manifest", (text + "\n").encode())
        why = fails(s, "INVALID", "compact", "adopt", "raw/", "--manifest", "manifest")
        true(said in why, why)
    equal(keys(s), [])
    fails(s, "NOT_FOUND", "compact", "adopt", "raw/", "--manifest", "nowhere")
    lines[0]["key"] = "raw/none.usv"
    write_manifest(s, lines)
    why = fails(s, "NOT_FOUND", "compact", "adopt", "raw/", "--manifest", "manifest")
    true("raw/none.usv" in why, why)


# ---- The inbox ----------------------------------------------------------------------------------


@it("watch --inbox adopts what is dropped, merges it, and clears it", LOCAL)
def inbox(s):
    create(s, "--level0-count", "2")
    put_some(s, "in/", 2)
    s.put("in/bad.usv", b"no time\n")
    watch = subprocess.Popen([PROGRAM, "compact", "watch", "--inbox", "in/", "--poll", "200ms",
                              "--json"], cwd=s.path, env=s.env, stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: [c for c in chunks(s) if c["level"] == 1], "the first two are merged")
        put_some(s, "in/more-", 2)
        until(lambda: objects(s, "in/") == ["in/bad.usv"], "what was merged is cleared", 60)
    finally:
        watch.send_signal(signal.SIGTERM)
        out = watch.communicate(timeout=30)[0]
    equal(watch.returncode, 0)
    events = [json.loads(line) for line in out.splitlines()]
    equal(events[-1]["totals"]["adopted"], 4)
    true(any(e["event"] == "adopted" for e in events), out)
    bad = [e["why"] for e in events if e["event"] == "trouble"]
    equal(len([why for why in bad if "in/bad.usv" in why]), 1, bad)
    fails(s, "INVALID", "compact", "watch", "--inbox", "in")
    fails(s, "INVALID", "compact", "watch", "--inbox", "data/")


# ---- Older programs, and advice -----------------------------------------------------------------


@it("adopting records the feature and the version that older programs refuse", LOCAL)
def older(s):
    create(s)
    put_some(s, "raw/", 1)
    before = json.loads(s.get("metadata/catalog.json"))
    equal(before["format"], "holdfast.catalog/1")
    s.run("compact", "adopt", "-q", "raw/")
    after = json.loads(s.get("metadata/catalog.json"))
    equal(after["format"], "holdfast.catalog/2")
    features = json.loads(s.get(".holdfast/format.json"))["features"]
    equal(features["incompatible"], ["adopted-objects"])
    # What a program that does not know a feature does (bucket_cli_test.py), for this one:
    with open(f"{ROOT}/src/store/bucket.c", encoding="utf-8") as file:
        true('{ INCOMPATIBLE, "adopted-objects" }' in file.read(), "the feature is incompatible")


@it("a copy of a bucket with adopted objects records the feature, too", LOCAL)
def copied(s):
    create(s)
    put_some(s, "raw/", 1)
    s.run("compact", "adopt", "-q", "raw/")
    s.run("store", "cp", "-r", "--to", f"dir:{s.path}/copy")
    features = json.loads(s.out("store", "get", ".holdfast/format.json", "--store",
                                f"dir:{s.path}/copy"))["features"]
    equal(features["incompatible"], ["adopted-objects"])


@it("fsck reports a list of adopted paths that cannot be read", LOCAL)
def bad_list(s):
    create(s)
    put_some(s, "raw/", 1)
    s.run("compact", "adopt", "-q", "raw/")
    s.run("compact", "fsck")
    good = s.get("metadata/adopted.json")
    s.put("metadata/adopted.json", cases.unsealed(good).replace(b"raw/", b"data/"))
    found = [json.loads(line) for line in loosely(s, "compact", "fsck", "--json").splitlines()]
    found = [line for line in found if line.get("kind") == "bad-catalog"]
    equal([line["key"] for line in found], ["metadata/adopted.json"])
    s.put("metadata/adopted.json", good)
    s.run("compact", "fsck")


@it("every command that fsck advises exists, with its options")
def advice(s):
    texts = ""
    for path in sorted(glob.glob(f"{ROOT}/src/compact/fsck/*.[ch]")):
        with open(path, encoding="utf-8") as file:
            texts += re.sub(r'"\s*(?:LAYOUT_\w+\s*)?"', "", file.read())
    advised = sorted(set(re.findall(r"'(holdfast [a-z -]+)'", texts)))
    true(len(advised) >= 5, advised)
    for line in advised:
        words = line.split()[1:]
        help_text = s.out(*[w for w in words if not w.startswith("-")], "--help").decode()
        for option in (w for w in words if w.startswith("-")):
            true(option in help_text, f"{line}: {option}")
    vague = re.findall(r'"[^"]*\b(?:ingest it|delete it by hand|release the chunk,)[^"]*"', texts)
    equal(vague, [])


if __name__ == "__main__":
    sys.exit(cases.main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compat_test.py: buckets that earlier versions wrote (tests/compat) are read, changed and found to be
consistent by this one; and so are buckets of a later version, whose documents have members that this
version does not know and keeps.

Prints TAP. tests/compat/record.py says what is in a bucket.
"""

import base64
import copy
import glob
import json
import os
import sys

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import cases
from cli_test import LOCAL, code, equal, fails, it, true

cases.cases.clear()

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compat")
LATER = {"deep": [1, {"x": None}], "text": "a \"b\" \u00e4"}
TTL = "3s"


def recorded(path):
    with open(path, encoding="utf-8") as file:
        return {key: base64.b64decode(saved["base64"]) if "base64" in saved else saved["text"].encode()
                for key, saved in json.load(file)["objects"].items()}


def restore(s, objects):
    """The bucket as it was, object by object."""
    for key, data in objects.items():
        s.put(key, data)


# ---- What must be true of a bucket --------------------------------------------------------------


def read_all(s):
    """Everything in the bucket says what was written, and nothing is changed by reading it."""
    equal(s.out("key", "get", "small"), b"two")
    equal(s.out("key", "get", "large"), b"x" * 5000)
    equal(s.out("key", "get", "in/c"), b"committed")
    fails(s, "NOT_FOUND", "key", "get", "gone")
    fails(s, "NOT_FOUND", "key", "get", "in/a")
    equal(s.out("read", "fenced"), b"written under a lock")
    held = {row["scopes"][0]: row for row in s.lines("locks", "ls") if row["state"] != "waiting"}
    equal(held["named:held"]["holder"], "anna")
    equal(s.lines("locks", "show", "held")[0]["queue"][0]["holder"], "bert")
    true("tree:/a/b" in held and "range:7:0-4096" in held and "named:some" in held, held)
    equal(s.lines("locks", "ls", "--ns", "many")[0]["scopes"], ["path:/one/two"])
    equal(sorted(row["state"] for row in s.lines("txn", "ls")), ["commit", "pending"])
    rows = s.out("compact", "cat").decode().splitlines()
    equal(rows[0].split("\x1f")[:2], ["k00", "v36"])
    equal(len(rows), 13)
    records = {row["id"]: row["state"] for row in s.lines("index", "query", "hosts")}
    equal(records, {f"h{n}": "down" if n == 1 else "up" for n in range(12) if n != 2})


def change_all(s):
    """Everything in the bucket can be used, and what ended is taken over."""
    s.run("acquire", "--wait", "30s", "--ttl", TTL, "held")  # its holder and the first in line are dead
    s.run("acquire", "--wait", "30s", "--ttl", TTL, "read")
    s.run("acquire", "--wait", "30s", "--ttl", TTL, "tree:/a")
    s.run("acquire", "--wait", "30s", "--ttl", TTL, "range:7:0-1")
    s.run("acquire", "--wait", "30s", "--ttl", TTL, "--ns", "many", "path:/one/two")
    s.run("acquire", "--slots", "3", "--ttl", TTL, "some")
    s.write("file", b"again")
    s.run("write", "fenced", "file", "--lock", "job")
    equal(s.out("read", "fenced"), b"again")
    for name in ("small", "large", "gone", "in/c"):
        s.run("key", "update", name, "--take", stdin=b"three")
        equal(s.out("key", "get", name), b"three")
    (unfinished,) = [row for row in s.lines("txn", "ls") if row["state"] == "pending"]
    s.run("txn", "rollback", unfinished["txn"])
    s.run("key", "update", "in/a", "--take", "--wait", "30s", stdin=b"three")
    s.write("more.usv", b"k00\x1fnew\x1f2026-02-01T00:00:00Z\n")
    s.run("compact", "ingest", "-q", "more.usv")
    s.run("compact", "run", "-q")
    equal(s.out("compact", "cat").decode().splitlines()[0].split("\x1f")[1], "new")
    s.run("index", "put", "hosts", "id=h3", "state=down", "at=2026-01-03T00:00:00Z")
    s.run("index", "compile", "-q", "hosts")
    equal(s.lines("index", "get", "hosts", "h3")[0]["state"], "down")
    s.run("elect", "join", "-q", "crew", "--for", "100ms")
    s.run("sweep", "-q", "--once")


def consistent(s):
    """An object that was adopted has another ETag in a bucket that was copied, which is noticed."""
    found = s.lines("compact", "fsck", expect=code(s, "CORRUPT"))
    equal([row["kind"] for row in found if "kind" in row], ["rewritten"])


def documents(s):
    """Every object that is a JSON object, by key."""
    found = {}
    for row in s.lines("store", "ls", "--recursive"):
        try:
            document = json.loads(s.get(row["key"]))
        except ValueError:
            continue
        if isinstance(document, dict):
            found[row["key"]] = document
    return found


def with_later(objects):
    """The bucket as a later version might have written it."""
    changed = {}
    for key, data in objects.items():
        try:
            document = json.loads(cases.unsealed(data))
        except ValueError:
            document = None
        if isinstance(document, dict):
            document["later"] = LATER
            for member in document.values():
                for one in member if isinstance(member, list) else []:
                    if isinstance(one, dict):
                        one["later"] = LATER
            data = json.dumps(document, separators=(",", ":")).encode()
        changed[key] = data
    return changed


def without_pins(found):
    """A snapshot pins its chunks for a while. The table of leases gets the pin, and the epoch says, once a boot, how
    long a lease of chunks may be."""
    found.pop("metadata/compaction-leases.json")
    for key, document in found.items():
        if key.startswith(".holdfast/epoch"):
            document.pop("write")
            document["longest"].pop("chunks", None)
    return found


# ---- Cases --------------------------------------------------------------------------------------


def add_cases(path):
    version = os.path.basename(path)[:-len(".json")]

    @it(f"a bucket of {version} is read, changed and consistent", LOCAL)
    def _(s):
        restore(s, recorded(path))
        read_all(s)
        consistent(s)
        change_all(s)
        consistent(s)

    @it(f"a bucket of {version} with members of a later version is used, and they are kept", LOCAL)
    def _(s):
        restore(s, with_later(recorded(path)))
        before = documents(s)
        read_all(s)
        equal(without_pins(documents(s)), without_pins(copy.deepcopy(before)), "reading changes only the pins of a snapshot")
        change_all(s)
        lost = [key for key, document in documents(s).items()
                if key in before and before[key].get("later") and document.get("later") != LATER]
        equal(lost, [])
        consistent(s)


for found in sorted(glob.glob(os.path.join(FOLDER, "*.json"))):
    add_cases(found)

if __name__ == "__main__":
    sys.exit(cases.main())

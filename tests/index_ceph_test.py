#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""index_ceph_test.py: plain shards and drops of indexes on a real S3 store (Ceph), whose ETags are hashes
of the content, which refuses ranges of empty objects, and which has no conditional deletes.

Prints TAP.
"""

import hashlib
import json
import sys
import tempfile

import ceph_kit
import tap_kit
from merge_ceph_test import Desk
from tap_kit import tell

US = "\x1f"
FOLDER = "indexes/domains/"


def record(domain, owner, at):
    return US.join([domain, owner, f"2026-02-06T{at:02}:00:00Z"]).encode() + b"\n"


def put(desk, domain, owner, at):
    desk.run("index", "put", "-q", "domains", f"domain={domain}", f"owner={owner}",
             f"updated_at=2026-02-06T{at:02}:00:00Z")


def owners(desk, *domains):
    shown = desk.run("index", "get", "domains", "--json", *domains)
    return [json.loads(line)["owner"] for line in shown.splitlines()]


def keys_of_one_shard(count):
    """Names whose hashes begin with the same digit, and that shard's key."""
    names = [f"{n}.example" for n in range(200) if hashlib.sha256(f"{n}.example".encode()).hexdigest()[0] == "7"]
    return sorted(names)[:count], FOLDER + "shards/7.usv"


def listed(desk, key):
    rows = [json.loads(line) for line in desk.run("store", "ls", "-r", "--json", key).splitlines()]
    return next((row for row in rows if row["key"] == key), None)


def compile_and_delete(desk):
    (a, b), shard = keys_of_one_shard(2)
    desk.run("index", "create", "-q", "domains", "--fields", "domain,owner,updated_at", "--key", "domain",
             "--time", "updated_at", "--digits", "1", "--plain")
    put(desk, a, "ada", 9)
    put(desk, b, "bob", 9)
    desk.run("index", "compile", "-q", "domains")
    tell(desk.get(shard) == record(a, "ada", 9) + record(b, "bob", 9), "a plain shard is bare records")
    tell(owners(desk, b, a) == ["bob", "ada"], "keys are found by the sidecar")
    desk.run("index", "rm", "-q", "domains", a, b)
    desk.run("index", "compile", "-q", "domains")
    tell(listed(desk, shard)["size_bytes"] == 0, "a shard whose keys are all deleted is empty")
    tell(json.loads(desk.run("index", "count", "domains", "--json"))["records"] == 0, "and is read as that")
    put(desk, a, "old", 8)
    desk.run("index", "compile", "-q", "domains")
    tell(desk.get(shard) == b"", "an older record does not bring its key back")


def swap(desk):
    (a, b), shard = keys_of_one_shard(2)
    etag = listed(desk, shard)["etag"]
    theirs = US.join([b, "them", "2999-01-01T00:00:00Z"]).encode() + b"\n"
    desk.run("store", "put", "-q", "--force", "--if-match", etag, shard, "-", stdin=theirs)
    tell(owners(desk, b) == ["them"], "what another program swaps in is read")
    put(desk, a, "late", 7)
    desk.run("index", "compile", "-q", "domains")
    tell(desk.get(shard) == theirs, "and stays when the index is compiled")


def drop(desk):
    done = json.loads(desk.run("index", "drop", "domains", "--json"))
    tell(done["deleted"] > 0 and not done["gone"], "a drop deletes all objects, and waits", str(done))
    left = [json.loads(line)["key"] for line in desk.run("store", "ls", "-r", "--json", FOLDER).splitlines()]
    tell(left == [FOLDER + "index.json"], "only the mark is left", str(left))
    why = desk.run("index", "create", "domains", "--json", "--fields", "a,b", "--key", "a", "--time", "b",
                   fails="CONFLICT")
    tell("drop it again in" in why, "the name is not free", why)


def main():
    with tempfile.TemporaryDirectory(prefix="holdfast-index-") as scratch:
        with ceph_kit.shared_or_own(scratch) as ceph:
            desk = Desk(scratch, ceph, ceph.bucket("index").url(prefix="p/q"))
            for part in (compile_and_delete, swap, drop):
                part(desk)
    return tap_kit.end()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""merge_ceph_test.py: `merge` and `compact ingest` with objects of a real S3 store (Ceph) as inputs
and outputs, given as URL#KEY.

Prints TAP.
"""

import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import ceph_kit
import tap_kit
from tap_kit import tell

PROGRAM = os.path.abspath(os.environ["HOLDFAST_PROGRAM"])
USV = ["--format", "usv", "--key", "1"]
LARGE_ROWS = 360000  # 23 MiB: several parts of an upload
STRANGE = "a#b?c%20 d/ü&=+.usv"


class Desk:
    """Runs the program in a scratch folder, with the bucket as its store."""

    def __init__(self, scratch, ceph, url):
        self.path, self.url = scratch, url
        self.env = dict(ceph.environment, HOLDFAST_STORE=url)

    def file(self, name):
        return os.path.join(self.path, name)

    def run(self, *args, stdin=b"", fails=None):
        """The result of a command that must succeed, or the sentence of one that must fail with
        this status."""
        done = subprocess.run([PROGRAM, *args], cwd=self.path, env=self.env, input=stdin,
                              capture_output=True, timeout=300, check=False)
        if bool(fails) == (done.returncode == 0):
            raise AssertionError(f"{args}: {done.returncode}: {done.stderr[-2000:]}")
        return self.sentence(done.stderr, fails) if fails else done.stdout

    def sentence(self, text, status):
        error = json.loads(text)
        if error["status"] != status:
            raise AssertionError(f"not {status}: {error}")
        return error["why"]

    def put(self, key, data):
        self.run("store", "put", "-q", key, "-", stdin=data)

    def get(self, key):
        return self.run("store", "get", key)

    def merge(self, out, *inputs, stdin=b"", fails=None):
        told = self.run("merge", "--json", *USV, "-o", out, *inputs, stdin=stdin, fails=fails)
        return told if fails else json.loads(told)


def merge_objects(desk):
    url = desk.url
    desk.put("in/b", b"b\n")
    desk.put("in/c.gz", gzip.compress(b"c\n"))
    with open(desk.file("a"), "wb") as file:
        file.write(b"a\nd\n")
    told = desk.merge(f"{url}#out/x", "a", f"{url}#in/b", f"{url}#in/c.gz")
    listed = json.loads(desk.run("store", "ls", "--json", "out/"))
    tell(desk.get("out/x") == b"a\nb\nc\nd\n", "objects and files are merged into an object")
    tell(told["etag"] == listed["etag"] and told["output"] == f"{url}#out/x",
         "the result has the ETag of the object that was written", f"{told} {listed}")
    desk.merge(f"{url}#out/x", f"{url}#out/x", "-", stdin=b"e\n")
    tell(desk.get("out/x") == b"a\nb\nc\nd\ne\n", "an object is merged with stdin into itself")
    desk.merge(f"{url}#{STRANGE}", f"{url}#out/x")
    desk.merge("local", f"{url}#{STRANGE}")
    with open(desk.file("local"), "rb") as file:
        tell(file.read() == b"a\nb\nc\nd\ne\n", "a key with strange characters is one key")
    desk.merge("dir:other#k", f"{url}#in/b", f"{url}#in/c.gz")
    tell(desk.run("store", "get", "--store", "dir:other", "k") == b"b\nc\n",
         "objects of one store are merged into another")


def merge_large(desk):
    rng = random.Random(1)
    rows = [b"%064x\n" % rng.getrandbits(256) for _ in range(LARGE_ROWS)]
    desk.put("large/1", b"".join(rows[::2]))
    desk.put("large/2", b"".join(rows[1::2]))
    told = desk.merge(f"{desk.url}#large/out", f"{desk.url}#large/1", f"{desk.url}#large/2")
    tell(told["rows_out"] == LARGE_ROWS and desk.get("large/out") == b"".join(sorted(rows)),
         "objects of many parts are read and written")


def refuse(desk):
    url = desk.url
    why = desk.merge(f"{url}#none", f"{url}#in/missing", fails="NOT_FOUND")
    tell("in/missing" in why, "an object that does not exist is named", why)
    why = desk.merge(f"{url}#none", f"{url}#in/b", "missing", fails="NOT_FOUND")
    tell(desk.run("store", "ls", "none") == b"", "a merge that fails writes no object", why)


def write_meanwhile(desk):
    """Another client changes the output object while the merge waits for its input."""
    for before, change in ((b"old", "put"), (None, "put"), (b"old", "rm")):
        desk.run("store", "rm", "-q", "k")
        if before:
            desk.put("k", before)
        process = subprocess.Popen([PROGRAM, "merge", "--json", *USV, "-o", f"{desk.url}#k", "-"],
                                   cwd=desk.path, env=desk.env, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until_seen(process)
        if change == "put":
            desk.put("k", b"theirs")
        else:
            desk.run("store", "rm", "-q", "k")
        _, said = process.communicate(b"a\n", timeout=120)
        why = desk.sentence(said, "CONFLICT")
        left = desk.run("store", "ls", "k")
        good = desk.get("k") == b"theirs" if change == "put" else left == b""
        tell(good and "another client has written or removed" in why,
             f"an output object {'that exists' if before else 'that is absent'}, and that somebody "
             f"{'writes' if change == 'put' else 'removes'} meanwhile, is not replaced", why)


def wait_until_seen(process):
    """Until the merge waits for stdin: it has seen the output object by then."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if has_scratch(process.pid):
            return
        time.sleep(0.05)
    raise AssertionError("the merge never waits for its input")


def has_scratch(pid):
    """Whether it has made the copies of its output object and of stdin."""
    folder = f"/proc/{pid}/fd"
    links = [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]
    return sum("(deleted)" in link for link in links) >= 2


def ingest(desk):
    desk.run("compact", "create", "-q", "--format", "usv", "--key", "1", "--time", "2")
    desk.put("rows/1", b"a\x1f1770000000\n")
    desk.put("rows/2", b"b\x1f1770000001\n")
    desk.run("compact", "ingest", "-q", f"{desk.url}#rows/1", f"{desk.url}#rows/2")
    tell(desk.run("compact", "cat") == b"a\x1f1770000000\nb\x1f1770000001\n",
         "objects are ingested by their URL")


def main():
    with tempfile.TemporaryDirectory(prefix="holdfast-merge-") as scratch:
        with ceph_kit.shared_or_own(scratch) as ceph:
            desk = Desk(scratch, ceph, ceph.bucket("merge").url(prefix="p/q"))
            for part in (merge_objects, merge_large, refuse, write_meanwhile, ingest):
                part(desk)
    return tap_kit.end()


if __name__ == "__main__":
    sys.exit(main())

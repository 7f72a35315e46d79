#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""record.py: writes a bucket with everything in it that Holdfast keeps in buckets, and saves its objects
as one JSON document. tests/compat_test.py reads and changes it with every later version.

    HOLDFAST_PROGRAM=... tests/compat/record.py NAME      saves tests/compat/NAME.json

Run it once for each release, and whenever a format gains a version or a feature; never write over
a document that exists, because users' buckets do not change either. compat_test.py knows what the
steps below put there; a step that is added for a new document gets a condition there ("has ...").
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.environ["HOLDFAST_PROGRAM"]

ROWS = [f"k{n % 12:02}\x1fv{n}\x1f2026-01-01T00:00:{n:02}Z\n" for n in range(48)]


class Bucket:
    def __init__(self, path):
        self.path = path
        self.env = {"PATH": os.environ["PATH"], "HOME": path, "HOLDFAST_STORE": "dir:objects"}

    def run(self, line, stdin=""):
        done = subprocess.run([PROGRAM, *line.split()], cwd=self.path, env=self.env,
                              input=stdin.encode(), capture_output=True, timeout=60, check=False)
        if done.returncode:
            sys.exit(f"record.py: {line}: {done.stderr.decode()}")
        return done.stdout.decode().strip()

    def file(self, name, text):
        with open(os.path.join(self.path, name), "w", encoding="utf-8") as out:
            out.write(text)
        return name


def locks(bucket):
    bucket.run("store probe")
    bucket.run("acquire --ttl 2s --holder anna --note 7 held")
    bucket.run("acquire --ttl 2s --mode shared read")
    bucket.run("acquire --ttl 2s --mode shared read")
    bucket.run("acquire --ttl 2s --slots 3 some")
    bucket.run("acquire --ttl 2s tree:/a/b")
    bucket.run("acquire --ttl 2s range:7:0-4096")
    bucket.run("namespace create many --placement pages:4")
    bucket.run("acquire --ttl 2s --ns many path:/one/two")
    lease = bucket.run("acquire --ttl 2s --once-per 1d daily")
    bucket.run(f"release --complete {lease}")
    waiter = subprocess.Popen([PROGRAM, "acquire", "--holder", "bert", "held"], cwd=bucket.path,
                              env=bucket.env, stdout=subprocess.DEVNULL)
    while not json.loads(bucket.run("locks show held --json"))["queue"]:
        time.sleep(0.02)
    waiter.kill()  # it stays in the queue
    waiter.wait()
    lease = bucket.run("acquire --ttl 1h job")
    bucket.run(f"write fenced {bucket.file('file', 'written under a lock')} --lock {lease}")
    bucket.run(f"release {lease}")


def keys(bucket):
    bucket.run("key update small --take", "one")
    bucket.run("key update small --take", "two")
    bucket.run("key update large --take", "x" * 5000)
    bucket.run("key update gone --take", "one")
    bucket.run("key rm gone --take")
    txn = bucket.run("txn begin")
    for name in ("in/a", "in/b"):
        lease = bucket.run(f"key acquire --ttl 2s --txn {txn} {name}")
        bucket.run(f"key update {name} --lease {lease} --txn {txn}", "staged")
    txn = bucket.run("txn begin")
    lease = bucket.run(f"key acquire --txn {txn} in/c")
    bucket.run(f"key update in/c --lease {lease} --txn {txn}", "committed")
    bucket.run(f"txn commit {txn}")


def compaction(bucket):
    bucket.run("compact create --format usv --key 1 --time 3 --level0-count 3 --grace 1h --late-bound 1h "
               "--skew 0")
    for part in range(4):
        bucket.run("compact ingest " + bucket.file(f"part{part}.usv", "".join(sorted(ROWS[part::6]))))
    bucket.run("compact run")
    for part in range(4, 6):
        bucket.run("compact ingest " + bucket.file(f"part{part}.usv", "".join(sorted(ROWS[part::6]))))
    bucket.run("compact ingest " + bucket.file("odd.usv", "k99\x1fodd\x1f2026-01-01T00:00:00Z\n"))
    odd = json.loads(bucket.run("compact ls --json").splitlines()[-1])["key"]
    bucket.run(f"compact quarantine {odd} --why because")
    bucket.run("store put raw/one.usv " + bucket.file("raw.usv", "k50\x1fraw\x1f2026-01-01T00:00:00Z\n"))
    bucket.run("compact create --partition theirs --format usv --key 1 --time 3 --level0-count 3 --grace 1h "
               "--late-bound 1h --skew 0")
    bucket.run("compact adopt --partition theirs raw/")


def indexes(bucket):
    bucket.run("index create hosts --fields id,state,at --key id --time at")
    for n in range(12):
        bucket.run(f"index put hosts id=h{n} state=up at=2026-01-01T00:00:00Z")
    bucket.run("index compile hosts")
    bucket.run("index put hosts id=h1 state=down at=2026-01-02T00:00:00Z")
    bucket.run("index rm hosts h2")


def elections(bucket):
    bucket.run("elect join crew --for 1s")
    bucket.run("sweep --once")


def objects(bucket):
    saved = {}
    for row in bucket.run("store ls --recursive --json").splitlines():
        key = json.loads(row)["key"]
        done = subprocess.run([PROGRAM, "store", "get", "--", key], cwd=bucket.path, env=bucket.env,
                              capture_output=True, check=True)
        try:
            saved[key] = {"text": done.stdout.decode()}
        except UnicodeDecodeError:
            saved[key] = {"base64": base64.b64encode(done.stdout).decode()}
    return saved


def main():
    target = os.path.join(FOLDER, sys.argv[1] + ".json")
    if os.path.exists(target):
        sys.exit(f"record.py: {target} exists; a recorded bucket never changes")
    with tempfile.TemporaryDirectory() as path:
        bucket = Bucket(path)
        for part in (locks, keys, compaction, indexes, elections):
            part(bucket)
        with open(target, "w", encoding="utf-8") as out:
            json.dump({"version": bucket.run("version").split()[-1], "objects": objects(bucket)}, out, indent=1,
                      sort_keys=True)
            out.write("\n")


if __name__ == "__main__":
    main()

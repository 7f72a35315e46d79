#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""adopt_ceph_test.py: how many requests it takes to adopt objects on Ceph, with and without a
manifest.

    adopt_ceph_test.py 10000    the published figures: at most 2.1 and 1.1 requests per object

Prints TAP.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import ceph_kit
import tap_kit
from tap_kit import say, tell

PROGRAM = os.path.abspath(os.environ["HOLDFAST_PROGRAM"])
BEGIN = 1770000000
CREATE = ["--format", "usv", "--key", "1", "--time", "3"]


def run(env, *args, expect=0):
    done = subprocess.run([PROGRAM, *args], env=env, capture_output=True, text=True, timeout=1500)
    if done.returncode != expect:
        raise AssertionError(f"{args}: {done.returncode}: {done.stderr[-2000:]}")
    return done


def write_objects(folder, count):
    """Files that `store cp` copies into the bucket."""
    os.makedirs(os.path.join(folder, "raw"))
    for i in range(count):
        with open(os.path.join(folder, "raw", f"object-{i:06}.usv"), "wb") as file:
            file.write(f"key-{i % 100}\x1fvalue-{i}\x1f{BEGIN + i}\n".encode())


def adopt(env, bar, count, what, *args):
    """Adopts all objects; a line of --trace is one request."""
    begun = time.monotonic()
    done = run(env, "compact", "adopt", "raw/", "--trace", "-q", *args)
    took = time.monotonic() - begun
    requests = len(done.stderr.splitlines())
    each = requests / count
    say(f"{what}: {requests} requests for {count} objects, {each:.3f} each, {took:.1f} s")
    tell(each <= bar, f"to adopt an object {what} takes at most {bar} requests", f"{each:.3f}")


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
    with tempfile.TemporaryDirectory(prefix="holdfast-adopt-") as scratch:
        with ceph_kit.shared_or_own(scratch) as ceph:
            bucket = ceph.bucket("adopt")
            source = os.path.join(scratch, "source")
            write_objects(source, count)
            for name, bar in (("read", 2.1), ("manifest", 1.1)):
                env = dict(ceph.environment, HOLDFAST_STORE=bucket.url(prefix=name + "/"))
                run(env, "store", "cp", "-q", "-r", "--from", f"dir:{source}", "--to",
                    env["HOLDFAST_STORE"])
                run(env, "compact", "create", "-q", *CREATE)
                args = []
                if name == "manifest":
                    args = ["--manifest", write_manifest(env, scratch)]
                adopt(env, bar, count, "with a manifest" if args else "by reading it", *args)
                live = run(env, "compact", "ls", "--json").stdout.splitlines()
                objects = {json.loads(line)["object"] for line in live}
                tell(len(live) == len(objects) == count, f"{count} objects are adopted, each once")
                done = run(env, "compact", "adopt", "raw/")
                tell(f"{count} objects were already adopted" in done.stdout,
                     "adopted again, all are known", done.stdout)
    return tap_kit.end()


def write_manifest(env, scratch):
    """What the writer of the objects knows."""
    path = os.path.join(scratch, "manifest")
    listed = run(env, "store", "ls", "--json", "raw/").stdout.splitlines()
    with open(path, "w", encoding="utf-8") as file:
        for line in map(json.loads, listed):
            number = int(line["key"][-10:-4])
            at = (BEGIN + number) * 1000
            file.write(json.dumps({"key": line["key"], "etag": line["etag"],
                                   "size": line["size_bytes"], "rows": 1, "min": at, "max": at,
                                   "crc32c": number}) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""contention_test.py: one, two and five compaction workers on a lease table, on Ceph, each worker with 0.1
claims a second: how many writes of the lease table does a claim take, and how many are in vain?

    contention_test.py [--seconds S] [--traces FOLDER]

Prints TAP, and figures behind '#', with the 95 % interval of the share. Merges take four to six seconds. The
figures come from the workers' traces, which FOLDER gets. There are several tables of two and of five
workers, because a single one has too few claims. A table of a well-known design expects 0 %, less than
2 % and less than 5 % of such writes to conflict.
"""

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import chaos_kit
from chaos_kit import PATIENCE, PROGRAM, US, Child, say, tell

TABLES = {1: 1, 2: 5, 5: 2}  # by workers
EXPECTED = {1: 0, 2: 2, 5: 5}  # percent
CLAIMS_A_SECOND = 0.1          # of a worker
HOUR_MS = 3600 * 1000


class Worker(Child):
    """A worker, with the requests to its lease table."""

    def __init__(self, bucket, partition, scratch, trace):
        self.trace = trace
        self.puts = self.conflicts = self.gets = self.started = self.ended = 0
        self.table = f"metadata/{partition}/compaction-leases.json"
        super().__init__(bucket, "--json", "--trace", "compact", "watch", "--partition", partition, "--jobs", "1",
                         "--memory", "8MiB", "--threads", "1", "--scratch", scratch, "--allow-exec",
                         shutil.which("sh"), stderr=subprocess.STDOUT)

    def hear(self, when, line):
        self.trace.write(f"{when:.4f} {line.rstrip()}\n")
        try:
            told = json.loads(line)
        except ValueError:
            return
        self.started += told.get("event") == "started"
        self.ended += told.get("event") == "ended"
        if told.get("key") != self.table:
            return
        self.puts += told.get("call") == "put"
        self.gets += told.get("call") == "get"
        self.conflicts += told.get("call") == "put" and told.get("status") != "OK"


def produce(bucket, partition, workers, seconds, place, made):
    """Puts in groups of two chunks, at random times; a group is what has the same hour."""
    draw, begun, number = random.Random(partition), time.monotonic(), 0
    while True:
        time.sleep(draw.expovariate(CLAIMS_A_SECOND * workers))
        if time.monotonic() - begun > seconds:
            return
        number += 1
        paths = []
        for part in "ab":
            path = os.path.join(place, f"{partition}-{number}{part}.usv")
            with open(path, "w", encoding="ascii") as file:
                file.write(US.join([f"key-{number}-{part}", "value", str(1_700_000_000_000 + number * HOUR_MS)]) + "\n")
            paths.append(path)
        bucket.must("-q", "compact", "ingest", "--partition", partition, "--writer", "soak", *paths)
        made[partition] = number


def create(bucket, partition):
    bucket.must("compact", "create", "--partition", partition, "--format", "usv", "--key", "1", "--time", "3",
                "--level0-count", "2", "--level1-size", "64MiB", "--command",
                f"sh -c 'sleep $(shuf -n 1 -i 4000-6000)e-3; exec \"$@\"' - {PROGRAM} merge --format usv --key 1 --time 3 "
                "-o {output} {inputs}")


def interval(part, whole):
    """Of a share, by Wilson: 95 %."""
    whole, z = max(whole, 1), 1.96
    share = part / whole
    middle, half = share + z * z / (2 * whole), z * math.sqrt(share * (1 - share) / whole + (z / whole / 2) ** 2)
    return tuple(100 * end / (1 + z * z / whole) for end in (middle - half, middle + half))


def report(workers, size, made, seconds):
    claims, puts, conflicts = (sum(getattr(one, name) for one in workers)
                               for name in ("started", "puts", "conflicts"))
    low, high = interval(conflicts, puts)
    say(f"{size} workers: {claims} claims in {seconds:.0f} s, {puts / max(claims, 1):.2f} puts per claim, "
        f"{100 * conflicts / max(puts, 1):.1f} % of {puts} puts in vain ({low:.1f} to {high:.1f}; expected elsewhere: "
        f"{EXPECTED[size]} %), {sum(one.gets for one in workers)} gets")
    tell(claims >= made, f"{size} workers: every one of {made} groups is claimed", f"{claims}")
    tell(size > 1 or conflicts == 0, f"{size} workers: a worker that is alone has no conflicts", f"{conflicts}")


def story(site, options):
    bucket, made, threads = site.bucket("contention"), {}, []
    crews = {size: [] for size in TABLES}
    for partition, size in ((f"of-{size}-{number}", size) for size in TABLES for number in range(TABLES[size])):
        create(bucket, partition)
        for number in range(size):
            scratch = os.path.join(site.folder, f"{partition}-{number}")
            os.makedirs(scratch)
            trace = open(os.path.join(options.traces or scratch, f"{partition}-{number}.trace"), "w", encoding="utf-8")
            crews[size].append(Worker(bucket, partition, scratch, trace))
        threads.append(threading.Thread(target=produce, daemon=True,
                                        args=(bucket, partition, size, options.seconds, site.folder, made)))
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    until = time.monotonic() + PATIENCE
    everybody = [one for crew in crews.values() for one in crew]
    while time.monotonic() < until and sum(one.ended for one in everybody) < sum(made.values()):
        time.sleep(0.5)
    for size, crew in crews.items():
        for one in crew:
            one.process.terminate()
            one.wait()
            one.trace.close()
        groups = sum(count for partition, count in made.items() if partition.startswith(f"of-{size}-"))
        report(crew, size, groups, time.monotonic() - begun)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--traces", default="", help="where the workers' traces go (default: nowhere)")
    options = parser.parse_args()
    return chaos_kit.play(lambda site: story(site, options), "ceph")


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compact_chaos_test.py: many worker processes compact one bucket while one of them is killed every
second.

    compact_chaos_test.py STORE [--workers N] [--chunks N] [--seconds S] [--seconds-a-job S] [--quick]

STORE is sqlite, dir, ceph or azurite. Prints TAP, and figures behind '#'. What was put in is known to this
script alone; afterwards it reads the catalog's JSON and the objects themselves, and compares: every key has
its newest row, in exactly one live chunk of those that the plan leaves, nothing is orphaned, nothing
was committed twice. Files that several processes bring at once, some of them killed, come in once.
"""

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import chaos_kit
from chaos_kit import PATIENCE, PROGRAM, US, Child, say, tell

ROWS = 40           # of a chunk
HOURS = 16
HOUR_MS = 3600 * 1000
START_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
TTL = 3.0
GRACE = 2.0
LATE_BOUND = 12.0
# Where nobody dies, work is lost only because a machine is too busy to renew a lease in its ttl or to
# merge in half of the late bound: there both are longer than the test.
TTL_QUIET, LATE_BOUND_QUIET = 300.0, 3600.0
STEP = 0.2
# Beyond ttl: what the store's clock is allowed to be wrong by, its date's grain, and looking again.
SKEW = {"sqlite": 0.0, "dir": 0.0, "ceph": 2.0, "azurite": 2.0}
GRAIN = {"sqlite": 0.0, "dir": 0.0, "ceph": 2.0, "azurite": 2.0}
POLL = {"sqlite": 0.2, "dir": 0.2, "ceph": 2.0, "azurite": 2.0}
SLACK = 4.0         # two processors for sixteen workers and a cluster
# To take over: the catalog is read, the lease is read and read again as a proof, and claimed. Azurite
# has one thread, and each of these waits for what sixteen workers have asked before.
REQUESTS = 4


# ---- What is put in -----------------------------------------------------------------------------


class Expectation:
    """Rows in, and of each key the newest."""

    def __init__(self):
        self.rows = 0
        self.newest = {}

    def add(self, key, when, row):
        self.rows += 1
        if key not in self.newest or (when, row) > self.newest[key]:
            self.newest[key] = (when, row)


def make_chunks(folder, chunks, expectation):
    draw = random.Random(7)
    paths = []
    for number in range(chunks):
        hour = number * HOURS // chunks
        rows = []
        for _ in range(ROWS):
            key = f"key-{draw.randrange(chunks * ROWS // 3):06}"
            when = START_MS + hour * HOUR_MS + draw.randrange(HOUR_MS)
            row = US.join([key, f"value {draw.getrandbits(64):016x} of {number}", str(when)])
            rows.append((key, when, row))
        rows.sort(key=lambda row: row[0])
        for row in rows:
            expectation.add(*row)
        path = os.path.join(folder, f"chunk-{number:05}.usv")
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write("".join(row[2] + "\n" for row in rows))
        paths.append(path)
    return paths


# ---- The workers --------------------------------------------------------------------------------


class Worker(Child):
    """A process, and what it told, each line with the time at which we read it."""

    def __init__(self, bucket, scratch, number):
        self.events = []
        self.log = os.path.join(scratch, f"worker-{number}.err")
        folder = os.path.join(scratch, f"scratch-{number}")
        os.makedirs(folder, exist_ok=True)
        with open(self.log, "wb") as log:
            super().__init__(bucket, "--json", "compact", "run", "--all", "--jobs", "1", "--memory",
                             "8MiB", "--threads", "1", "--scratch", folder, stderr=log)

    def hear(self, when, line):
        try:
            self.events.append((when, json.loads(line)))
        except ValueError:
            pass  # cut off by a kill

    def told(self, event):
        return [(when, one) for when, one in self.events if one.get("event") == event]

    def is_in_job(self):
        return len(self.told("started")) > len(self.told("ended"))


class Crew(chaos_kit.Crew):
    def __init__(self, bucket, options, scratch):
        super().__init__(options.workers, lambda number: Worker(bucket, scratch, number))

    def choose(self, running, draw):
        """Of two that are killed one is in a job, if any is: on a slow store most workers wait."""
        aimed = len(self.all) % 2 == 0
        return draw.choice(aimed and [worker for worker in running if worker.is_in_job()] or running)


def last_words(workers):
    return "\n".join(open(worker.log).read()[:300] for worker in workers)


def summed(workers, field):
    """A total of the last line of each worker that ended by itself."""
    return sum(one["totals"][field] for worker in workers for _, one in worker.told("done"))


# ---- The audit ----------------------------------------------------------------------------------


def catalogs_of(bucket):
    """All catalog documents."""
    return [json.loads(bucket.must("store", "get", key))
            for key, _ in bucket.listing("metadata/", "--recursive") if key.endswith("catalog.json")]


def audit(bucket, expectation, label):
    catalogs = catalogs_of(bucket)
    live = {}
    twice = []
    for catalog in catalogs:
        for chunk in catalog.get("chunks", []):
            if chunk["key"] in live:
                twice.append(chunk["key"])
            live[chunk["key"]] = chunk
    tell(not twice, f"{label}: no key is live in two catalogs", "\n".join(twice))
    newest, rows, bad = {}, 0, []
    for key, chunk in live.items():
        done = bucket.run("store", "get", key)
        if done.returncode != 0:
            bad.append(f"{key}: a live chunk without object")
            continue
        body = done.stdout.decode()
        lines = body.splitlines()
        rows += len(lines)
        if len(lines) != chunk["rows"] or len(body.encode()) != chunk["size"]:
            bad.append(f"{key}: {len(lines)} rows, catalog says {chunk['rows']}")
        for line in lines:
            fields = line.split(US)
            one = (int(fields[2]), line)
            if fields[0] not in newest or one > newest[fields[0]]:
                newest[fields[0]] = one
    tell(not bad, f"{label}: every live chunk is there, with the rows that the catalog says",
         "\n".join(bad))
    lost = [key for key, one in expectation.newest.items() if newest.get(key) != one]
    extra = [key for key in newest if key not in expectation.newest]
    tell(not lost and not extra,
         f"{label}: each of {len(expectation.newest)} keys has its newest row, and nothing else is there",
         "\n".join(lost[:10] + extra[:10]))
    parents = collections.Counter()
    for catalog in catalogs:
        for grave in catalog.get("tombstones", []):
            if grave.get("into"):
                for chunk in grave["chunks"]:
                    parents[chunk["key"]] += 1
    again = [key for key, times in parents.items() if times > 1]
    tell(not again, f"{label}: no chunk was merged into two others", "\n".join(again))
    say(f"{label}: rows in {expectation.rows}, live {rows}, superseded {expectation.rows - rows}, "
        f"live chunks {len(live)}, quarantined {sum('quarantine' in c for c in live.values())}")
    return live


def expect_no_orphans(bucket, scratch, label):
    """Past grace and D a worker clears away all that is dead."""
    deadline = time.monotonic() + GRACE + LATE_BOUND + 60
    while True:
        bucket.must("-q", "compact", "run", "--all", "--scratch", scratch)
        catalogs = catalogs_of(bucket)
        live = {chunk["key"] for one in catalogs for chunk in one.get("chunks", [])}
        dead = sum(len(one.get("tombstones", [])) + len(one.get("deleting", []))
                   for one in catalogs)
        objects = {key for key, _ in bucket.listing("data/", "--recursive")}
        if (dead == 0 and objects == live) or time.monotonic() > deadline:
            break
        time.sleep(1)
    tell(dead == 0 and objects == live, f"{label}: past grace and D no orphan is left",
         "\n".join([f"{dead} dead"] + sorted(objects ^ live)[:10]))
    found = bucket.json("compact", "fsck", "--older-than", "1s")
    tell(found[-1].get("found_count", -1) == 0, f"{label}: fsck finds nothing", json.dumps(found)[:2000])


def takeovers(crew):
    """For each job that died with its worker: when, and when somebody began with its chunks again."""
    begun = collections.defaultdict(list)
    for worker in crew.all:
        for when, one in worker.told("started"):
            begun[one["sources"][0]].append((when, worker))
    found = []
    for worker in crew.all:
        if worker.killed_at is None:
            continue
        ended = {one["sources"][0] for _, one in worker.told("ended")}
        for when, one in worker.told("started"):
            if one["sources"][0] in ended:
                continue
            later = [at for at, other in begun[one["sources"][0]]
                     if other is not worker and at > when]
            if later:
                found.append((worker.killed_at, min(later)))
    return found


def free_times(crew):
    """When each worker had nothing to do: from a look at what there is, at which it chose nothing, to
    the last look before its next job. One that begins another job was not free."""
    times = []
    for worker in crew.all:
        looks = []
        for when, event in sorted((when, event) for event in ("planned", "started", "done")
                                  for when, _ in worker.told(event)):
            if event == "planned":
                looks.append(when)
            elif looks:
                times.append((looks[0], looks[-1]))
                looks = []
        if looks:
            times.append((looks[0], worker.killed_at or looks[-1]))
    return times


def seconds_without(times, begin, end):
    """How much of this time none of the others covers."""
    marks = sorted({begin, end, *(when for one in times for when in one if begin < when < end)})
    return sum(until - since for since, until in zip(marks, marks[1:])
               if not any(one[0] <= since and until <= one[1] for one in times))


class Pulse:
    """How busy the machine and the server are: the longest that a command which does nothing took,
    and the longest that one took which asks for one object."""

    USUAL = 0.25  # seconds, with sixteen workers on two processors

    def __init__(self, bucket):
        self.bucket = bucket
        self.longest = self.server = 0.0

    def beat(self):
        begun = time.monotonic()
        self.bucket.must("--version")
        idle = time.monotonic() - begun
        self.bucket.run("store", "get", "nothing-here")  # NOT_FOUND is an answer, too
        self.longest = max(self.longest, idle)
        self.server = max(self.server, time.monotonic() - begun - 2 * idle)

    def slower_than_usual(self):
        return max(1.0, self.longest / self.USUAL)


# ---- The story ----------------------------------------------------------------------------------


def ms(seconds):
    return f"{round(seconds * 1000)}ms"


def create(bucket, options, slow, ttl, late_bound):
    words = ["compact", "create", "--format", "usv", "--key", "1", "--time", "3",
             "--level1-size", "64KiB", "--ttl", ms(ttl), "--grace", ms(GRACE),
             "--late-bound", ms(late_bound), "--step", ms(STEP), "--backlog", "100000",
             "--tries", "5", "--skew", ms(SKEW[options.store])]
    if slow:
        words += ["--command", f"sh -c 'sleep {options.seconds_a_job}; exec \"$@\"' - {PROGRAM} merge "
                  "--format usv --key 1 --time 3 -o {output} {inputs}"]
    bucket.must(*words)


def fill(bucket, paths):
    begun = time.monotonic()
    for at in range(0, len(paths), 500):
        bucket.must("-q", "compact", "ingest", "--writer", "chaos", *paths[at:at + 500])
    say(f"{len(paths)} chunks put in within {time.monotonic() - begun:.1f} s")


class Bringer(Child):
    """One who ingests files."""

    def __init__(self, bucket, paths):
        super().__init__(bucket, "-q", "compact", "ingest", *paths, stderr=subprocess.DEVNULL)

    def hear(self, when, line):
        pass


def bring_story(bucket, options, paths, _expectation, _scratch):
    """Several bring the same files at once, some are killed, and then somebody brings all again."""
    paths = paths[:100]
    draw = random.Random(19)
    create(bucket, options, slow=False, ttl=TTL_QUIET, late_bound=LATE_BOUND_QUIET)
    crew = chaos_kit.Crew(4, lambda _: Bringer(bucket, draw.sample(paths, len(paths))))
    for _ in range(6):
        time.sleep(0.05)
        crew.kill_one(draw)
    wrong = crew.drain()
    tell(not wrong, "whoever brings files that others bring too comes to its end")
    for _ in range(2):
        told = bucket.json("compact", "ingest", *paths)
        fresh = sum(not one["already_there"] for one in told)
        tell(fresh == 0, "what was told as ingested is already there", f"{fresh} were not")
    chunks = [chunk for catalog in catalogs_of(bucket) for chunk in catalog["chunks"]]
    tell((len(chunks), sum(chunk["rows"] for chunk in chunks)) == (len(paths), ROWS * len(paths)),
         "files that are brought by several, killed and again come in once",
         f"{len(chunks)} chunks of {len(paths)} files")


def quiet_story(bucket, options, paths, expectation, scratch):
    create(bucket, options, slow=False, ttl=TTL_QUIET, late_bound=LATE_BOUND_QUIET)
    fill(bucket, paths)
    begun = time.monotonic()
    crew = Crew(bucket, options, scratch)
    wrong = crew.drain()
    say(f"{options.workers} workers without kills: {time.monotonic() - begun:.1f} s")
    tell(not wrong, "without kills every worker comes to its end", last_words(wrong))
    vain, claims = summed(crew.all, "wasted_bytes"), summed(crew.all, "claims")
    held = summed(crew.all, "claims_held")
    say(f"claims {claims}, refused {held}, bytes merged in vain {vain}")
    ends = [json.dumps({key: one[key] for key in one if key != "sources"})
            for worker in crew.all for _, one in worker.told("ended") if one["end"] != "committed"]
    tell(vain == 0, "without kills nothing is merged in vain", "\n".join([f"{vain} bytes", *ends]))
    audit(bucket, expectation, "without kills")


def chaos_story(bucket, options, paths, expectation, scratch):
    create(bucket, options, slow=True, ttl=TTL, late_bound=LATE_BOUND)
    fill(bucket, paths)
    draw = random.Random(11)
    begun = time.monotonic()
    crew = Crew(bucket, options, scratch)
    kills = 0
    pulse = Pulse(bucket)
    while crew.running() and time.monotonic() - begun < PATIENCE:
        time.sleep(1)
        pulse.beat()
        if time.monotonic() - begun < options.seconds:
            kills += crew.kill_one(draw)
    wrong = crew.drain()
    took = time.monotonic() - begun
    died = [worker for worker in crew.all if worker.killed_at]
    in_job = sum(worker.is_in_job() for worker in died)
    say(f"{options.workers} workers, {kills} kills, {in_job} of them in a job: {took:.1f} s")
    tell(not wrong, "with a kill every second all who are left come to their end", last_words(wrong))
    tell(in_job > 0, "kills hit workers in their jobs")
    live = audit(bucket, expectation, "with kills")
    quarantined = [f"{key}: {chunk['quarantine']}" for key, chunk in live.items()
                   if "quarantine" in chunk]
    tell(not quarantined, "nothing is quarantined", "\n".join(quarantined))
    free = free_times(crew)
    times = sorted((until - since, seconds_without(free, since, until))
                   for since, until in takeovers(crew))
    bound = TTL + SKEW[options.store] + GRAIN[options.store] + POLL[options.store] + \
        options.workers * STEP + SLACK * pulse.slower_than_usual() + REQUESTS * pulse.server
    say(f"takeovers {len(times)}: " + " ".join(f"{took:.1f}-{busy:.1f}" for took, busy in times) +
        f" s, bound {bound:.1f} s with a pulse of {pulse.longest:.2f} s, of the server "
        f"{pulse.server:.2f} s")
    tell(all(took - busy <= bound for took, busy in times),
         "what a dead worker had begun is begun again within ttl, proof and a poll of whoever is free")
    expect_no_orphans(bucket, scratch, "with kills")


def stories(site, options):
    for name, story in (("bring", bring_story), ("quiet", quiet_story), ("chaos", chaos_story)):
        if options.quick and name == "quiet":
            continue
        folder = os.path.join(site.folder, name)
        os.makedirs(folder)
        expectation = Expectation()
        paths = make_chunks(folder, options.chunks, expectation)
        bucket = site.bucket(name)
        bucket.environment["HOLDFAST_ALLOW_EXEC"] = "/bin/sh"  # what the settings name as command
        story(bucket, options, paths, expectation, folder)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=["sqlite", "dir", "ceph", "azurite"])
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--chunks", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=20, help="for so long workers are killed")
    parser.add_argument("--seconds-a-job", default="0.5")
    parser.add_argument("--quick", action="store_true", help="only with kills")
    options = parser.parse_args()
    return chaos_kit.play(lambda site: stories(site, options), options.store)


if __name__ == "__main__":
    sys.exit(main())

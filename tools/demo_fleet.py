#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""demo_fleet.py: many workers compact one bucket, and some of them are killed or stopped.

    demo_fleet.py fill FOLDER CHUNKS     writes files of records for `compact ingest`, and `rows`
    demo_fleet.py run FOLDER WORKERS     runs workers on $HOLDFAST_STORE until all work is done;
                                         two are killed with -9 and one is stopped past its ttl

The workers write their events to FOLDER/worker-N.json. Needs only the standard library.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

KEYS, ROWS_OF_CHUNK, CHUNKS_OF_HOUR = 20000, 1500, 20
HOUR = 3600
BEGIN = 1770000000 // HOUR * HOUR
TTL = 3
PATIENCE = 120


# ---- Filling ------------------------------------------------------------------------------------


def fill(folder, chunks):
    """Writes chunks of records sorted by key, as a writer would. Each record is unique, so the
    audit finds duplicates."""
    draw = random.Random(7)
    with open(os.path.join(folder, "rows"), "wb") as everything:
        for chunk in range(chunks):
            hour = BEGIN + chunk // CHUNKS_OF_HOUR * HOUR
            rows = []
            for number in range(ROWS_OF_CHUNK):
                key, moment = draw.randrange(KEYS), hour + draw.randrange(HOUR)
                rows.append(f"customer-{key:06}\x1fbalance {draw.randrange(10**6)} by row "
                            f"{chunk:04}-{number:04} of a demonstration\x1f{moment}\n".encode())
            data = b"".join(sorted(rows))
            everything.write(data)
            with open(os.path.join(folder, f"chunk-{chunk:04}.usv"), "wb") as out:
                out.write(data)


# ---- Workers ------------------------------------------------------------------------------------


def ask(*words):
    """The JSON lines of `holdfast compact WORDS --json`; empty when it takes longer than a second,
    because a worker that is stopped in the middle of a write blocks all others."""
    try:
        told = subprocess.run(["holdfast", "compact", *words, "--json"], timeout=1, check=True,
                              capture_output=True).stdout
    except subprocess.SubprocessError:
        return []
    return [json.loads(line) for line in told.splitlines()]


class Worker:
    """One worker process, and its events so far."""

    def __init__(self, folder, number):
        self.number, self.fate = number, None
        self.begun = self.ended = self.committed = 0
        self.sources = []
        path = os.path.join(folder, f"worker-{number}.json")
        scratch = os.path.join(folder, f"scratch-{number}")
        os.mkdir(scratch)
        with open(path, "wb") as out:
            self.process = subprocess.Popen(["holdfast", "compact", "run", "--all", "--jobs", "1",
                                             "--scratch", scratch, "--json"], stdout=out)
        self.log, self.rest = open(path, "rb"), b""

    def listen(self):
        """Reads new events; an incomplete line is kept for the next call."""
        *lines, self.rest = (self.rest + self.log.read()).split(b"\n")
        for event in map(json.loads, lines):
            if event["event"] == "started":
                self.begun, self.sources = self.begun + 1, event["sources"]
            self.ended += event["event"] == "ended"
            self.committed += event.get("end") == "committed"

    def at_work(self):
        """Whether it is in the middle of a merge: begun, and not ended."""
        self.listen()
        return self.begun > self.ended

    def signal(self, number):
        self.process.send_signal(number)

    def over(self):
        return self.process.poll() is not None

    def catch_at_work(self):
        """Stops the worker in the middle of a merge; False when that is not possible. It is not
        stopped after the commit, nor during a write to the store, which would block the others."""
        if self.over() or not self.at_work():
            return False
        self.signal(signal.SIGSTOP)
        if self.at_work() and ask("status") and \
                set(self.sources) <= {chunk["key"] for chunk in ask("ls")}:
            return True
        self.signal(signal.SIGCONT)
        return False


def say(begun, sentence):
    print(f"  {time.monotonic() - begun:5.1f} s  {sentence}", flush=True)


class Accidents:
    """Two kills and one long pause, each in the middle of a merge and after a number of commits."""

    def __init__(self, workers, begun):
        self.workers, self.begun = workers, begun
        self.planned = [("killed", 2), ("stopped", 6), ("killed", 12)]
        self.wakes_at = None

    def happen(self):
        if self.planned and sum(w.committed for w in self.workers) >= self.planned[0][1]:
            for worker in self.workers:
                if not worker.fate and worker.catch_at_work():
                    self.strike(worker, self.planned.pop(0)[0])
                    break
        for worker in self.workers:
            worker.listen()
            if worker.fate == "stopped" and self.wakes_at and time.monotonic() >= self.wakes_at:
                self.wakes_at = None
                worker.signal(signal.SIGCONT)
                say(self.begun, f"worker {worker.number} continues")

    def strike(self, worker, fate):
        worker.fate = fate
        if fate == "killed":
            worker.signal(signal.SIGKILL)
            say(self.begun, f"worker {worker.number} is killed with -9 in the middle of a merge")
            return
        self.wakes_at = time.monotonic() + 2 * TTL
        say(self.begun, f"worker {worker.number} is stopped in the middle of a merge, for "
            f"{2 * TTL} s; its lease lasts {TTL} s")


def progress(begun):
    for told in ask("status"):
        levels = "  ".join(f"L{level['level']} {level['chunks']:>3}" for level in told["levels"])
        say(begun, f"{levels:<24}  due {told['due']['groups']:>2}  under way "
            f"{len(told['under_way'])}  committed {told['last_hour']['committed']:>2}")


def run(folder, count):
    begun = time.monotonic()
    workers = [Worker(folder, number) for number in range(1, count + 1)]
    accidents, tell_at = Accidents(workers, begun), begun
    try:
        while not all(worker.over() for worker in workers):
            accidents.happen()
            if time.monotonic() >= tell_at:
                progress(begun)
                tell_at += 0.5
            if time.monotonic() > begun + PATIENCE:
                raise SystemExit(f"demo: the workers did not finish within {PATIENCE} s")
            time.sleep(0.002)
    finally:
        for worker in workers:
            worker.log.close()
            if not worker.over():
                worker.signal(signal.SIGKILL)
                worker.process.wait()
    progress(begun)
    if accidents.planned:
        raise SystemExit("demo: the workers finished before all planned kills and stops")
    for worker in workers:
        ended = -signal.SIGKILL if worker.fate == "killed" else 0
        if worker.process.returncode != ended:
            raise SystemExit(f"demo: worker {worker.number} ended with status "
                             f"{worker.process.returncode}, not {ended}")


if __name__ == "__main__":
    {"fill": fill, "run": run}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))

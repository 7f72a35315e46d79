#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""parquet_chaos_test.py: four workers compact a partition of Parquet files while more are ingested. Again
and again, a worker whose helper is at work, or such a helper, is killed.

    parquet_chaos_test.py STORE [--seconds S] [--files N]

STORE is sqlite or dir. Prints TAP. What was put in is read by DuckDB from the files that were ingested,
and what is there in the end from the objects of the live chunks: both must have the same latest row of
each key, in every column, and no row may be in two chunks.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import duckdb_kit
from duckdb_kit import quote
from tap_kit import end, say, tell

PROGRAM = os.path.abspath(os.environ["HOLDFAST_PROGRAM"])
HELPER = os.path.join(os.environ["HOLDFAST_BUILD"], "src", "parquet", "holdfast-parquet")
WORKERS = 4
LOOKS_MIN = 5  # for somebody at work, between two ingests, however slow the machine is
ROWS = 2000
PATIENCE = 180


class Bucket:
    def __init__(self, kind, folder):
        self.folder = folder
        url = {"dir": f"dir:{folder}/objects", "sqlite": f"sqlite:{folder}/objects.db"}[kind]
        self.environment = dict(os.environ, HOLDFAST_STORE=url, HOLDFAST_PARQUET=HELPER,
                                HOLDFAST_DUCKDB=duckdb_kit.library_path(), TMPDIR=folder)

    def run(self, *words):
        return subprocess.run([PROGRAM, *words], env=self.environment, capture_output=True,
                              text=True, timeout=PATIENCE)

    def must(self, *words):
        done = self.run(*words)
        if done.returncode != 0:
            raise SystemExit(f"Bail out! {words[:3]}: {done.stderr.strip()}")
        return done.stdout

    def lines(self, *words):
        return [json.loads(line) for line in self.must("--json", *words).splitlines()]

    def start(self, number):
        scratch = os.path.join(self.folder, f"scratch-{number % WORKERS}")
        os.makedirs(scratch, exist_ok=True)
        return subprocess.Popen([PROGRAM, "--json", "compact", "watch", "--jobs", "1", "--threads",
                                 "1", "--poll", "200ms", "--scratch", scratch],
                                env=self.environment, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)


def write_files(duck, folder, count):
    paths = []
    for number in range(count):
        path = os.path.join(folder, f"in-{number:04}.parquet")
        more = ("", ", NULL::BIGINT AS more", ", i AS more")[number % 3]
        duck.write(path, f"SELECT (hash(i * 7 + {number}) % {count * ROWS // 3})::BIGINT AS id, "
                         f"TIMESTAMP '2026-01-01' + INTERVAL (hash(i + {number} * 31) % 3000) SECOND "
                         f"AS seen, md5((i * {number + 1} % 97)::VARCHAR) AS text{more} "
                         f"FROM range({ROWS}) t(i)")
        paths.append(path)
    return paths


def helpers_at_work(folder):
    """The helpers of this test: process id and that of the worker."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                mine = f"TMPDIR={folder}".encode() in file.read().split(b"\0")
            if mine and "holdfast-parquet" in os.readlink(f"/proc/{pid}/exe"):
                with open(f"/proc/{pid}/stat", "rb") as file:
                    found[int(pid)] = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            pass  # it has ended
    return found


class Crew:
    """Four workers, of which one or its helper is killed again and again."""

    def __init__(self, bucket):
        self.bucket = bucket
        self.workers = [bucket.start(number) for number in range(WORKERS)]
        self.workers_killed = self.helpers_killed = 0

    def kill_worker(self, pid):
        for number, worker in enumerate(self.workers):
            if worker.pid == pid:
                worker.kill()
                worker.wait()
                self.workers[number] = self.bucket.start(number)
                self.workers_killed += 1

    def kill_one(self):
        """One that is at work now, if there is one: two workers for each helper."""
        for helper, worker in helpers_at_work(self.bucket.folder).items():
            if self.workers_killed <= 2 * self.helpers_killed:
                self.kill_worker(worker)
            else:
                try:
                    os.kill(helper, signal.SIGKILL)
                    self.helpers_killed += 1
                except ProcessLookupError:
                    pass  # it has ended meanwhile
            return

    def stop(self):
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.wait(timeout=PATIENCE)


def ingest_and_kill(bucket, inputs, seconds):
    """Gives the files to the workers, a few at a time, and kills; who was killed, and how often."""
    crew = Crew(bucket)
    begun, given, looks = time.monotonic(), 0, 0
    while time.monotonic() < begun + seconds or given < len(inputs):
        due = int(len(inputs) * min((time.monotonic() - begun) / seconds, 1))
        if looks >= LOOKS_MIN and (due >= given + 4 or due == len(inputs) > given):
            due = min(due, given + 8)
            bucket.must("compact", "ingest", *inputs[given:due])
            given, looks = due, 0
        crew.kill_one()
        looks += 1
        time.sleep(0.1)
    crew.stop()
    return crew


def latest(files):
    """Of rows with an equal time, the greatest by all other columns, in the order of their names."""
    return (f"SELECT id, seen, text, more FROM read_parquet([{', '.join(map(quote, files))}], "
            f"union_by_name = true) QUALIFY row_number() OVER (PARTITION BY id ORDER BY seen DESC, "
            f"more DESC NULLS LAST, text DESC NULLS LAST) = 1")


def fetch(bucket, chunks):
    paths = []
    for number, chunk in enumerate(chunks):
        paths.append(os.path.join(bucket.folder, f"live-{number:04}.parquet"))
        bucket.must("store", "get", chunk["key"], paths[-1])
    return paths


def check(bucket, duck, inputs, crew):
    for _ in range(10):  # what the killed left behind is taken over when its leases end
        done = bucket.run("compact", "run", "--jobs", "2", "--force")
        chunks = [chunk for chunk in bucket.lines("compact", "ls") if chunk["state"] == "live"]
        if done.returncode == 0 and len(chunks) == 1:
            break
        time.sleep(3)
    say(f"{crew.workers_killed} workers and {crew.helpers_killed} helpers killed; {len(chunks)} chunk(s) in the end")
    tell(crew.workers_killed > 0 and crew.helpers_killed > 0, "workers and helpers were killed at work")
    tell(not helpers_at_work(bucket.folder), "no helper outlives its worker")
    tell(not [chunk for chunk in chunks if chunk["quarantine"]], "no chunk is quarantined for a kill")
    outputs = fetch(bucket, chunks)
    wanted, got = latest(inputs), latest(outputs)
    differ = duck.query(f"SELECT count(*) FROM (({wanted}) EXCEPT ALL ({got}))")[0][0]
    more = duck.query(f"SELECT count(*) FROM (({got}) EXCEPT ALL ({wanted}))")[0][0]
    tell((differ, more) == ("0", "0"), "DuckDB finds the latest row of each key, in every column, and no other",
         f"{differ} missing, {more} too many")
    counted = duck.query(f"SELECT count(*), count(DISTINCT id) FROM read_parquet("
                         f"[{', '.join(map(quote, outputs))}], union_by_name = true)")[0]
    recorded = sum(chunk["rows"] for chunk in chunks)
    tell(int(counted[0]) == recorded, "the catalog counts the rows that DuckDB counts",
         f"{counted} {recorded}")
    tell(len(chunks) == 1 and counted[0] == counted[1], "all files end in one chunk, each key once",
         f"{len(chunks)} {counted} {done.stderr}")
    ids = [int(row[0]) for row in duck.rows(outputs[0], "id")]
    tell(ids == sorted(ids), "and in the order of keys")
    fsck = bucket.run("compact", "fsck")
    tell(fsck.returncode == 0, "fsck finds nothing wrong", fsck.stdout + fsck.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=["sqlite", "dir"])
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--files", type=int, default=60)
    options = parser.parse_args()
    if not duckdb_kit.library_path():
        print("1..0 # SKIP DuckDB's library is missing: run `make setup-test`")
        return 0
    folder = tempfile.mkdtemp(prefix="holdfast-parquet-")
    try:
        bucket, duck = Bucket(options.store, folder), duckdb_kit.Duck()
        inputs = write_files(duck, folder, options.files)
        bucket.must("compact", "create", "--format", "parquet", "--key", "id", "--time", "seen",
                    "--level0-count", "4", "--ttl", "3s", "--grace", "1h", "--late-bound", "1h",
                    "--skew", "0", "--step", "100ms", "--tries", "1000", "--group-max", "8")
        check(bucket, duck, inputs, ingest_and_kill(bucket, inputs, options.seconds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return end()


if __name__ == "__main__":
    sys.exit(main())

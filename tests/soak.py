#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""soak.py: everything at once on one Ceph bucket, for hours: locks, keys and transactions, compaction, an
index and the sweeper, while processes are killed and paused, the gateway is restarted, and the
store's clock steps.

    soak.py [--hours N] [--out FOLDER]

Prints TAP, and figures behind '#'. FOLDER gets soak.csv (a line per sample) and soak.svg. Three
processes are never killed: a worker that compacts, a compiler of the index, and the sweeper. Their
memory and descriptors must not grow: the upper end of the 95 % interval of the slope, after the
first third of the run, must be at most 1 MiB and 1 descriptor an hour. A run of less than half an
hour is too short for that; it only reports the slopes.

How many connections are open depends on what is done at the moment, and hides a slow leak. So every four
minutes nothing new is put in for a while, and descriptors are counted in the second half of that rest, when
connections that are not needed are closed: the fewest count, since a leak never goes away. During work they
must stay below a bound.

At the end, the audits of tools/ compare what the script knows with what is in the bucket. The clock
that steps is the date in the replies, as a relay in front of the gateway rewrites it; all clients
take their time from it. It stays within what clients assume.
"""

import argparse
import collections
import csv
import datetime
import email.utils
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree
TESTS = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(TESTS, "..", "tools"))

import audit
import ceph_kit
import chaos_kit
import charts
import index_audit
import index_chaos_test
import tap_kit
import txn_audit
import txn_chaos_test
from bucket import Folder, open_store
from chaos_kit import PATIENCE, US, Bucket, Child, say, tell

BAR_BYTES, BAR_DESCRIPTORS = 1 << 20, 1.0  # an hour
JUDGED_HOURS = 0.5
DESCRIPTORS_MAX = 120  # at any time: 32 connections of three each, and files
WORK_S, REST_S = 190, 50  # connections are closed after 15 s
LOCKS, LOCKERS = 3, 3
ACCOUNTS, TXN_WORKERS = 200, 2
TXN_RATE, TXN_AHEAD = 3, 200  # transactions a second, on average: their records stay for a day
ENDS = {"sweep": (0, 130, -signal.SIGTERM)}  # it has nothing to give back
KEYS = 2000          # of the chunks
INDEX_KEYS = 500
STEPS_S = (-5, -2, 0, 2, 5)  # of the store's clock
DATE = re.compile(rb"\r\nDate: ([A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT)\r\n")


class Relay(ceph_kit.Relay):
    """Counts requests, and changes the date of replies."""

    off_s = 0

    async def pass_on(self, reader, writer, counted):
        if counted:
            await super().pass_on(reader, writer, counted)
            return
        try:
            while data := await reader.read(65536):
                writer.write(DATE.sub(self.changed, data) if self.off_s else data)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    def changed(self, found):
        when = email.utils.parsedate_to_datetime(found[1].decode()) + datetime.timedelta(seconds=self.off_s)
        return b"\r\nDate: " + email.utils.format_datetime(when, usegmt=True).encode() + b"\r\n"


# ---- What works ---------------------------------------------------------------------------------


class Quiet(Child):
    """A process of the program that runs until it is told to end. Its errors go to a file."""

    def __init__(self, bucket, place, *words):
        self.lines, self.words = collections.deque(maxlen=5), words
        self.log = tempfile.NamedTemporaryFile(dir=place, suffix=".err", delete=False)
        super().__init__(bucket, *words, stderr=self.log)

    def hear(self, when, line):
        self.lines.append(line)

    def last_words(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return f"{' '.join(self.words)}: " + file.read()[-500:]


class Soak:
    """The bucket, its workers, and what was put in."""

    def __init__(self, ceph, relay, bucket, place):
        self.ceph, self.relay, self.bucket, self.place = ceph, relay, bucket, place
        self.draw = random.Random(27)
        self.stop = threading.Event()
        self.work = threading.Event()  # not set: a rest
        self.threads, self.trouble = [], []
        self.faults = collections.Counter()
        self.rows, self.records = [], []  # of the partition, and of the index
        self.locked = collections.Counter()
        self.samples = []

    def scratch(self, name):
        folder = os.path.join(self.place, name)
        os.makedirs(folder, exist_ok=True)
        return folder

    def start(self):
        options = argparse.Namespace(accounts=ACCOUNTS, workers=TXN_WORKERS, ttl=2.0, store="ceph")
        self.txn_options = options
        bucket = self.bucket
        txn_chaos_test.tellers(bucket, "open", options, txn_chaos_test.BALANCE, txn_chaos_test.SHARES)
        bucket.must("compact", "create", "--format", "usv", "--key", "1", "--time", "3", "--level0-count",
                    "4", "--level1-size", "64KiB", "--ttl", "10s", "--grace", "5s", "--late-bound", "30s",
                    "--step", "200ms", "--skew", "12s")
        fields = index_chaos_test.FIELDS
        bucket.must("-q", "index", "create", "soak", "--fields", ",".join(fields), "--key", fields[0], "--time",
                    fields[2], "--digits", "1")
        self.steady = {"compact": self.compactor("steady"), "index": self.compiler(), "sweep": self.sweeper()}
        self.crews = [txn_chaos_test.Crew(bucket, options),
                      chaos_kit.Crew(1, lambda number: self.compactor(f"killed-{number}")),
                      chaos_kit.Crew(1, lambda _: self.compiler())]
        for work in (self.ingest, self.put_records, *(lambda n=n: self.lock(n) for n in range(LOCKERS))):
            thread = threading.Thread(target=self.guard, args=(work,), daemon=True)
            self.threads.append(thread)
            thread.start()

    def compactor(self, name):
        return Quiet(self.bucket, self.place, "--json", "compact", "watch", "--jobs", "1", "--memory", "8MiB",
                     "--threads", "1", "--scratch", self.scratch(name))

    def compiler(self):
        return Quiet(self.bucket, self.place, "--json", "index", "compile", "soak", "--watch", "--ttl", "5s")

    def sweeper(self):
        return Quiet(self.bucket, self.place, "--json", "sweep", "--idle-grace", "10s", "--op-delay", "10ms")

    def guard(self, work):
        try:
            work()
        except (Exception, SystemExit) as why:  # told by the main thread
            self.trouble.append(repr(why))

    def until_done(self, *words, stdin=b""):
        """Runs the command until it succeeds: the gateway may be gone. To repeat it does no harm."""
        for _ in range(100):
            done = self.bucket.run(*words, stdin=stdin)
            if done.returncode == 0:
                return
            time.sleep(0.2)
        raise RuntimeError(f"{' '.join(words)[:100]}: {done.stderr.decode()[:300]}")

    def pauses(self, draw, most):
        """Draws a pause, and waits for the end of a rest. False at the end."""
        if self.stop.wait(draw.uniform(0, most)):
            return False
        while not self.work.wait(1):
            if self.stop.is_set():
                return False
        return True

    def ingest(self):
        draw, number, folder = random.Random(1), 0, self.scratch("chunks")
        while self.pauses(draw, 3):
            number += 1
            when = 1_700_000_000_000 + number * 1000
            rows = sorted(US.join([f"key-{draw.randrange(KEYS):05}", f"value {draw.getrandbits(64):016x}",
                                   str(when + n)]) for n in range(40))
            path = os.path.join(folder, f"chunk-{number:06}.usv")
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write("".join(row + "\n" for row in rows))
            self.until_done("-q", "compact", "ingest", "--writer", "soak", path)
            self.rows += [row.encode() for row in rows]
            os.unlink(path)

    def put_records(self):
        draw, number = random.Random(2), 0
        while self.pauses(draw, 2):
            rows = []
            for _ in range(20):
                number += 1
                rows.append(US.join([f"host-{draw.randrange(INDEX_KEYS)}.example", f"value {number}",
                                     str(1_770_000_000 + number)]).encode())
            self.until_done("-q", "index", "put", "soak", "--from", "-", "--format", "usv",
                            stdin=b"".join(row + b"\n" for row in rows))
            self.records += rows

    def lock(self, number):
        """Each holder appends its token to the file of the lock: tokens never fall."""
        draw = random.Random(100 + number)
        while not self.stop.wait(draw.uniform(0, 0.3)):
            name = f"soak-{draw.randrange(LOCKS)}"
            path = os.path.join(self.scratch("tokens"), name)
            done = self.bucket.run("run", "--ns", "locks", "--ttl", "5s", "--wait", "30s", name, "--", "sh", "-c",
                                   f'echo "$HOLDFAST_TOKEN" >> {path}; sleep 0.05')
            self.locked[done.returncode] += 1

    def pace_transactions(self, elapsed):
        """The workers know no pause, so all of them end when they are ahead, and begin again later."""
        crew = self.crews[0]
        if crew.alive and crew.told() > TXN_RATE * elapsed + TXN_AHEAD:
            for child in crew.alive:
                if child.runs():
                    child.process.send_signal(signal.SIGCONT)
            self.trouble += [child.last_words() for child in crew.dismiss()]
            crew.alive.clear()
        elif not crew.alive and crew.told() < TXN_RATE * elapsed:
            for _ in range(TXN_WORKERS):
                crew.start()

    # ---- Faults and samples ---------------------------------------------------------------------

    def one_fault(self, kind):
        self.faults[kind] += 1
        if kind == "kill":
            self.draw.choice(self.crews).kill_one(self.draw)
        elif kind == "pause":
            running = [child for crew in self.crews for child in crew.running()]
            if running:
                victim = self.draw.choice(running).process
                victim.send_signal(signal.SIGSTOP)
                ceph_kit.later(self.draw.uniform(1, 12), lambda: victim.poll() is None
                               and victim.send_signal(signal.SIGCONT))
        elif kind == "clock step":
            self.relay.off_s = self.draw.choice(STEPS_S)
        elif kind == "gateway restart":
            self.ceph.kill_for(1, "client.rgw-1")

    def sample(self, begun, rest):
        """`rest`: the number of the rest, from 1, if it is at least half over."""
        row = {"seconds": round(time.monotonic() - begun, 1), "requests": self.relay.requests, "rest": rest}
        for name, child in self.steady.items():
            row[f"{name}_bytes"], row[f"{name}_descriptors"] = usage_of(child.process.pid)
        self.samples.append(row)

    def count_objects(self):
        """Of each folder at the top of the bucket."""
        done = self.bucket.run("--json", "store", "ls", "--recursive", "")
        if done.returncode != 0:
            return  # the gateway is gone; next time
        keys = [json.loads(line).get("key") for line in done.stdout.splitlines()]
        folders = collections.Counter(key.partition("/")[0] for key in keys if key)
        self.samples[-1].update({f"objects_{name}": count for name, count in folders.items()})

    def run(self, seconds):
        begun = time.monotonic()
        every, count_every = max(1.0, seconds / 600), max(15.0, seconds / 60)
        next_fault, next_restart, next_count = begun + 3, begun + min(60, seconds / 3), begun
        self.work.set()
        rest_at, rest_ends, rests = begun + WORK_S, math.inf, 1
        while time.monotonic() - begun < seconds:
            time.sleep(every)
            now = time.monotonic()
            self.sample(begun, rests if now >= rest_ends - REST_S / 2 else 0)
            if now >= rest_ends:
                self.work.set()
                rest_at, rest_ends, rests = now + WORK_S, math.inf, rests + 1
            elif now >= rest_at and self.work.is_set():
                self.work.clear()
                rest_ends = now + REST_S
            self.pace_transactions(now - begun)
            if now >= next_count:
                self.count_objects()
                next_count = now + count_every
            if now >= next_restart:
                self.one_fault("gateway restart")
                next_restart = now + self.draw.uniform(60, 180)
            elif now >= next_fault:
                self.one_fault(self.draw.choice(("kill", "kill", "pause", "clock step")))
                next_fault = now + self.draw.uniform(2, 8)
        self.relay.off_s = 0
        self.work.set()
        self.ceph.wait_for_repairs()
        self.stop.set()
        for thread in self.threads:
            thread.join(PATIENCE)
        self.count_objects()


def usage_of(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return resident, len(os.listdir(f"/proc/{pid}/fd"))


# ---- Slopes -------------------------------------------------------------------------------------


def slope(points):
    """Of a line through the points (hours, value): the slope, and the upper end of its 95 % interval. The
    samples are averaged in at most 30 parts first, because neighbours are not independent."""
    size = max(1, len(points) // 30)
    parts = [points[i:i + size] for i in range(0, len(points), size)]
    x = [sum(p[0] for p in part) / len(part) for part in parts]
    y = [sum(p[1] for p in part) / len(part) for part in parts]
    n = len(x)
    if n < 3:
        return 0.0, math.inf
    mean_x, mean_y = sum(x) / n, sum(y) / n
    spread = sum((a - mean_x) ** 2 for a in x)
    per_hour = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / spread
    rest = sum((b - mean_y - per_hour * (a - mean_x)) ** 2 for a, b in zip(x, y))
    student = 1.96 + 2.8 / (n - 2)  # close to the 97.5 % quantile for 8 or more
    return per_hour, per_hour + student * math.sqrt(rest / (n - 2) / spread)


def fewest_of_rests(rows, what):
    """For each rest, the sample with the fewest."""
    rests = collections.defaultdict(list)
    for row in rows:
        if row["rest"]:
            rests[row["rest"]].append(row)
    return [min(rest, key=lambda row: row[what]) for rest in rests.values()]


def judge_slopes(soak, hours):
    settled = soak.samples[len(soak.samples) // 3:]
    for name in soak.steady:
        bytes_, descriptors = f"{name}_bytes", f"{name}_descriptors"
        for what, rows, unit, bar, said in (
                (bytes_, settled, 1024.0, BAR_BYTES, "KiB"),
                (descriptors, fewest_of_rests(settled, descriptors), 1.0, BAR_DESCRIPTORS, "descriptors")):
            per_hour, most = slope([(row["seconds"] / 3600, row[what]) for row in rows])
            say(f"{name}: {per_hour / unit:+.2f} {said} an hour, at most {most / unit:+.2f} (95 %)")
            if hours >= JUDGED_HOURS:
                tell(most <= bar, f"{name}: {what.rpartition('_')[2]} stay flat, at most {bar / unit:.0f} {said} "
                     "more an hour", f"{most / unit:.2f}")
        per_hour, most = slope([(row["seconds"] / 3600, row[descriptors]) for row in settled])
        say(f"{name}: {per_hour:+.2f} descriptors an hour, at most {most:+.2f}, while it works too")
        peak = max(row[descriptors] for row in soak.samples)
        tell(peak <= DESCRIPTORS_MAX, f"{name}: never more than {DESCRIPTORS_MAX} descriptors", f"{peak}")


def write_samples(soak, out):
    names = list(dict.fromkeys(name for row in soak.samples for name in row))
    with open(os.path.join(out, "soak.csv"), "w", encoding="ascii", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(soak.samples)
    x = [row["seconds"] / 60 for row in soak.samples]
    panels = [("memory, MiB", {name: list(zip(x, (row[f"{name}_bytes"] / 2**20 for row in soak.samples)))
                               for name in soak.steady}),
              ("descriptors", {name: list(zip(x, (row[f"{name}_descriptors"] for row in soak.samples)))
                               for name in soak.steady}),
              ("objects", {name.partition("_")[2]: [(row["seconds"] / 60, row[name]) for row in soak.samples
                                                    if name in row]
                           for name in names if name.startswith("objects_")}),
              ("requests a second", {"all": rates(soak.samples)})]
    with open(os.path.join(out, "soak.svg"), "w", encoding="utf-8") as file:
        file.write(charts.draw_lines("soak", "minutes", panels))


def rates(samples):
    """The requests of each part, of at most 100, per second."""
    size = max(1, len(samples) // 100)
    ends = samples[::size]
    return [(b["seconds"] / 60, (b["requests"] - a["requests"]) / max(b["seconds"] - a["seconds"], 0.1))
            for a, b in zip(ends, ends[1:])]


# ---- The end ------------------------------------------------------------------------------------


def end_workers(soak):
    """Tells all to end."""
    everybody = [*soak.steady.items(), *(("killed", child) for crew in soak.crews for child in crew.alive)]
    wrong = [child.last_words() for _, child in everybody if not child.runs()]
    tell(not wrong, "no process ends by itself", "\n".join(wrong))
    for _, child in everybody:
        if child.runs():
            child.process.send_signal(signal.SIGCONT)
            child.process.terminate()
        child.wait()
    wrong = [f"{child.process.returncode} {child.last_words()}" for name, child in everybody
             if child.process.returncode not in ENDS.get(name, (0,))]
    tell(not wrong, "told to end, all end in order", "\n".join(wrong))


def copy_of(soak, *prefixes):
    folder = os.path.join(soak.place, "copy")
    shutil.rmtree(folder, ignore_errors=True)
    for prefix in prefixes:
        soak.bucket.must("-q", "store", "cp", "--recursive", "--to", f"dir:{folder}?sync=off", prefix)
    return folder


def judge(result, sentence):
    say(sentence + ": " + ", ".join(f"{name} {figure}" for name, figure in result.figures.items() if figure))
    tell(not result.wrong, sentence, "\n".join(result.wrong[:20]))


def audit_all(soak):
    bucket = soak.bucket
    story = soak.crews[0].story()
    txn_chaos_test.settle(bucket, soak.txn_options, story)
    bucket.must("-q", "compact", "run", "--all", "--scratch", soak.scratch("last"))
    bucket.must("-q", "index", "compile", "soak")
    folder = copy_of(soak, *txn_chaos_test.FOLDERS, "metadata/", "data/", "indexes/")
    judge(txn_audit.audit(Folder(folder), story, balance=txn_chaos_test.BALANCE, settled=True),
          f"transactions: {sum(worker.told for worker in soak.crews[0].all)} were told, and are true")
    judge(audit.audit(folder, soak.rows), f"compaction: the newest of {len(soak.rows)} rows are there")
    judge(index_audit.audit(open_store(f"dir:{folder}"), "soak", soak.records),
          f"index: the newest of {len(soak.records)} records are there")
    tokens = os.listdir(soak.scratch("tokens"))
    fell = []
    for name in tokens:
        with open(os.path.join(soak.place, "tokens", name), encoding="ascii") as file:
            told = [int(line) for line in file]
        fell += [f"{name}: {b} after {a}" for a, b in zip(told, told[1:]) if b <= a]
    tell(tokens and not fell, f"locks: tokens rise with each of {soak.locked[0]} holders", "\n".join(fell[:20]))
    found = bucket.json("compact", "fsck", "--older-than", "1h")
    tell(found[-1].get("found_count", -1) == 0, "fsck finds nothing", json.dumps(found)[:1000])


def story(ceph, place, options):
    ours = ceph.bucket("soak")
    relay = Relay("127.0.0.1", ceph.endpoint())
    soak = Soak(ceph, relay, Bucket(ours.url_at(relay.endpoint), ceph.environment), place)
    soak.start()
    soak.run(options.hours * 3600)
    tell(not soak.trouble, "all writers come to their end", "\n".join(soak.trouble))
    say("faults: " + ", ".join(f"{count} of {kind}" for kind, count in soak.faults.most_common()))
    say(f"runs under a lock, by exit status: {dict(soak.locked)}; requests: {relay.requests}")
    os.makedirs(options.out, exist_ok=True)
    write_samples(soak, options.out)
    judge_slopes(soak, options.hours)
    end_workers(soak)
    audit_all(soak)


def main():
    parser = argparse.ArgumentParser(description="everything at once on one Ceph bucket, for hours")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--out", default="", help="where soak.csv and soak.svg go (default: nowhere)")
    options = parser.parse_args()
    place = tempfile.mkdtemp(prefix="holdfast-soak-")
    options.out = options.out or os.path.join(place, "out")
    try:
        with ceph_kit.own(place) as ceph:
            story(ceph, place, options)
    except ceph_kit.CannotStart as why:
        tell(False, "the cluster starts", str(why))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return tap_kit.end()


if __name__ == "__main__":
    sys.exit(main())

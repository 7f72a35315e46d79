#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rolling_upgrade_test.py: the version before this one and this one share a bucket while one replaces
the other, command by command, and commands are killed.

    rolling_upgrade_test.py STORE [--seconds S] [--workers N]

STORE is sqlite, dir or ceph. The other version is the commit in tests/compat/previous, which is built
from the history of this repository, once per build folder. Both directions are run: the new version
replaces the old one, and the old one the new. Prints TAP, and figures behind '#'. What each command was
told is known to this script alone; at the end it audits with both versions: tokens rise, no two hold a
lock at once, no change is lost or made twice, transactions are whole, every row and record is there,
and no command ever meets a document that it cannot use.
"""

import argparse
import collections
import fcntl
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import chaos_kit
from chaos_kit import PATIENCE, PROGRAM, US, Bucket, say, tell

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TTL = 3
KILL_CHANCE = 0.12
UNUSABLE = re.compile(r"CORRUPT|UNSUPPORTED|INVALID|INTERNAL|Sanitizer")
SEALED = re.compile(rb'"write": ?"[0-9a-f]{32}~[0-9a-f]{8}"')


# ---- The other version --------------------------------------------------------------------------


class CannotBuild(Exception):
    """Raised, with the reason, if the other version cannot be built here."""


def build_previous():
    """The program of the previous version, built once per build folder."""
    with open(os.path.join(SOURCE, "tests", "compat", "previous"), encoding="utf-8") as file:
        (commit,) = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    folder = os.path.join(os.environ["HOLDFAST_BUILD"], "previous")
    program = os.path.join(folder, commit, "build", "src", "cli", "holdfast")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two tests of a run build it only once
        if not os.path.exists(program):
            extract(commit, os.path.join(folder, commit))
            compile_in(os.path.join(folder, commit))
    return program


def extract(commit, place):
    known = subprocess.run(["git", "-C", SOURCE, "cat-file", "-e", commit + "^{commit}"], check=False,
                           capture_output=True)
    if known.returncode != 0:
        raise CannotBuild(f"the history with {commit} is not here (a tarball, or a shallow clone); this test "
                          "runs in a full clone, by 'make full'")
    shutil.rmtree(place, ignore_errors=True)
    os.makedirs(place)
    archive = subprocess.Popen(["git", "-C", SOURCE, "archive", commit], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", place], stdin=archive.stdout, check=True)
    if archive.wait() != 0:
        raise CannotBuild(f"git archive {commit} failed")


def compile_in(place):
    for command in (["meson", "setup", "build", "--buildtype=debugoptimized"],
                    ["ninja", "-C", "build", "src/cli/holdfast"]):
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotBuild(f"{' '.join(command)}: {(done.stdout + done.stderr)[-1000:]}")


# ---- One run ------------------------------------------------------------------------------------

# A grant of the lock: when the command began and ended, its token, and when its release began, if the
# lease was released in time.
Grant = collections.namedtuple("Grant", "begun ended token released")


class Killed(Exception):
    """The command was killed, so what it did is unknown."""


class Refused(Exception):
    """The command failed, with a status that clients expect of each other's work."""


class Rolling:
    """Workers on one bucket. At first all commands are of the version `old`, and at the end all of
    `new`; in between, ever more of them."""

    def __init__(self, bucket, folder, old, new, seconds):
        self.bucket, self.folder = bucket, folder
        self.programs = (old, new)
        self.begun, self.seconds = time.monotonic(), seconds
        self.mutex = threading.Lock()
        self.ran = collections.Counter()  # (version, how it ended)
        self.unusable = []
        self.grants = []
        self.updates = collections.Counter()
        self.written = {}                 # key of an index -> (the last known, those that may be)
        self.ingested, self.serial = set(), itertools.count()
        self.draw = random.Random(11)

    def is_over(self):
        return time.monotonic() - self.begun > self.seconds

    def choose(self):
        with self.mutex:
            share = (time.monotonic() - self.begun) / self.seconds
            version = int(self.draw.random() < share)
            kill = self.draw.random() < KILL_CHANCE
            return version, self.draw.uniform(0.001, 0.25) if kill else None

    def command(self, *words, stdin=b"", never_killed=False):
        version, kill_after = self.choose()
        child = subprocess.Popen([self.programs[version], *words], env=self.bucket.environment,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        timer = None
        if kill_after is not None and not never_killed:
            timer = threading.Timer(kill_after, child.kill)
            timer.start()
        out, told = child.communicate(stdin, timeout=PATIENCE)
        if timer:
            timer.cancel()
        killed = child.returncode == -signal.SIGKILL
        with self.mutex:
            self.ran[version, "killed" if killed else "done" if child.returncode == 0 else "refused"] += 1
            if (not killed and child.returncode < 0) or UNUSABLE.search(told.decode(errors="replace")):
                self.unusable.append(f"{'old' if version == 0 else 'new'} {' '.join(words)}: "
                                     f"{child.returncode} {told.decode(errors='replace').strip()}")
        if killed:
            raise Killed
        if child.returncode != 0:
            raise Refused(told.decode(errors="replace"))
        return out.decode()

    # ---- What a worker does ---------------------------------------------------------------------

    def lock(self):
        begun = time.monotonic()
        lease = self.command("acquire", "--ttl", f"{TTL}s", "--wait", "20s", "job").strip()
        ended = time.monotonic()
        released = None
        try:
            time.sleep(0.01)
            released = time.monotonic()
            self.command("release", lease)
            if time.monotonic() - begun > TTL:
                released = None
        except (Killed, Refused):
            released = None
        with self.mutex:
            self.grants.append(Grant(begun, ended, int(lease.split(":")[0]), released))

    def key(self):
        try:
            self.command("key", "update", "counted", "--take", "--wait", "20s", stdin=b"x" * 10)
            result = "done"
        except Killed:
            result = "unknown"
        except Refused as why:
            result = "unknown" if "UNSURE" in str(why) else "not done"
        with self.mutex:
            self.updates[result] += 1

    def transaction(self):
        txn = self.command("txn", "begin").strip()
        value = f"{next(self.serial)}".encode()
        try:
            for name in ("pair/a", "pair/b"):
                lease = self.command("key", "acquire", "--ttl", f"{TTL}s", "--wait", "10s", "--txn", txn, name).strip()
                self.command("key", "update", name, "--lease", lease, "--txn", txn, stdin=value)
            self.command("txn", "commit", txn)
        except Refused:
            self.command("txn", "rollback", txn)

    def fenced(self):
        self.command("write", "-q", "--wait", "20s", "--ttl", f"{TTL}s", "--lock", "fence", "fenced", "-",
                     stdin=f"{next(self.serial)}".encode())
        self.command("read", "fenced")

    def ingest(self):
        number = next(self.serial)
        path = os.path.join(self.folder, f"{os.path.basename(self.bucket.place)}-{number}.usv")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"row{number:06}{US}value{US}{1_700_000_000_000 + number}\n")
        while True:  # a file that comes twice is added once
            try:
                self.command("compact", "ingest", "-q", path)
                break
            except Killed:
                continue
        with self.mutex:
            self.ingested.add(f"row{number:06}")

    def merge(self):
        self.command("compact", "run", "-q", "--threads", "1", "--jobs", "1", "--memory", "8MiB")

    def record(self):
        number = next(self.serial)
        key = f"k{number % 8}"
        value = f"v{number}"
        stamp = f"2026-01-01T00:00:00.{number:06}Z"
        known = True
        try:
            self.command("index", "put", "things", f"id={key}", f"value={value}", f"at={stamp}")
        except (Killed, Refused):
            known = False
        with self.mutex:
            self.written.setdefault(key, []).append((number, value, known))

    def compile(self):
        self.command("index", "compile", "-q", "things")

    def sweep(self):
        self.command("sweep", "-q", "--once")

    STEPS = [lock] * 5 + [key] * 4 + [transaction, fenced, fenced, ingest, ingest, merge, record, record, compile, sweep]

    def work(self, number):
        draw = random.Random(number)
        while not self.is_over():
            try:
                draw.choice(self.STEPS)(self)
            except (Killed, Refused):
                pass

    def run(self, workers):
        threads = [threading.Thread(target=self.work, args=(number,)) for number in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


# ---- Audits -------------------------------------------------------------------------------------


def told_by(program, bucket, *words):
    done = subprocess.run([program, *words], env=bucket.environment, capture_output=True, timeout=PATIENCE, check=False)
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


def audit_locks(run, label):
    grants = sorted(run.grants, key=lambda grant: grant.token)
    tokens = [grant.token for grant in grants]
    tell(len(set(tokens)) == len(tokens) and len(tokens) > 0, f"{label}: every grant has a token of its own",
         f"{len(tokens)} grants")
    early = [(a, b) for a, b in zip(grants, grants[1:]) if b.ended < a.begun]
    tell(not early, f"{label}: tokens rise", str(early[:3]))
    held = sorted((grant.ended, grant.released) for grant in grants if grant.released)
    both = [(a, b) for a, b in zip(held, held[1:]) if b[0] < a[1]]
    tell(not both, f"{label}: no two hold the lock at once", str(both[:3]))


def audit_keys(run, label):
    for program in run.programs:
        status, out, why = told_by(program, run.bucket, "--json", "key", "describe", "counted")
        version = json.loads(out)["version"] if status == 0 else -1
        least, most = run.updates["done"], run.updates["done"] + run.updates["unknown"]
        tell(least <= version <= most, f"{label}: every change of a key is made once",
             f"version {version}, from {least} to {most}; {why}")
        values = [told_by(program, run.bucket, "key", "get", name)[1] for name in ("pair/a", "pair/b")]
        tell(values[0] == values[1], f"{label}: transactions are whole", str(values))


def audit_data(run, label):
    for program in run.programs:
        status, out, why = told_by(program, run.bucket, "compact", "cat")
        rows = {line.split(US)[0] for line in out.decode().splitlines()}
        tell(status == 0 and rows == run.ingested, f"{label}: every row is there, and no other",
             f"{len(rows)} rows, {len(run.ingested)} ingested; {why}")
        status, out, why = told_by(program, run.bucket, "--json", "compact", "fsck")
        tell(status == 0, f"{label}: fsck finds nothing", out.decode()[-1000:] + why)
        status, out, why = told_by(program, run.bucket, "--json", "index", "query", "things")
        found = {row["id"]: row["value"] for row in map(json.loads, out.splitlines()) if "id" in row}
        wrong = [key for key, puts in run.written.items() if found.get(key) not in may_be(puts)]
        tell(status == 0 and not wrong, f"{label}: every record is the last that was put",
             f"{wrong} of {found}; {why}")


def may_be(puts):
    """The values that a key may have: that of its last put, or of a later one that may have happened."""
    last = max((number for number, _, known in puts if known), default=-1)
    return {value for number, value, known in puts if number >= last} | ({None} if last < 0 else set())


def count_documents(run, label):
    """Both forms of documents are there, so each version has used what the other one wrote."""
    sealed = plain = 0
    for key, _ in run.bucket.listing("", "-r"):
        if not key.startswith(("default/", "metadata/", ".txn", "indexes/", ".holdfast/epoch")):
            continue
        data = run.bucket.run("store", "get", key, "-").stdout
        sealed += bool(SEALED.search(data[:300]))
        plain += not SEALED.search(data[:300])
    say(f"{label}: {sealed} documents with a checksum, {plain} others")


def roll(site, name, old, new, options):
    """One direction, from its first command to its audit."""
    run = Rolling(site.bucket(name), site.folder, old, new, options.seconds)
    bucket = Bucket(run.bucket.url, run.bucket.environment)
    for words in (("compact", "create", "-q", "--format", "usv", "--key", "1", "--time", "3", "--level0-count", "3",
                   "--grace", "1s", "--late-bound", "10s", "--skew", "0"),
                  ("index", "create", "-q", "things", "--fields", "id,value,at", "--key", "id", "--time", "at")):
        status, _, why = told_by(old, bucket, *words)
        if status != 0:
            raise SystemExit(f"Bail out! {' '.join(words)}: {why}")
    run.begun = time.monotonic()
    run.run(options.workers)
    time.sleep(TTL + 1)
    counts = {f"{('old', 'new')[version]} {how}": count for (version, how), count in sorted(run.ran.items())}
    say(f"{name}: commands {counts}, grants {len(run.grants)}, rows {len(run.ingested)}")
    tell(not run.unusable, f"{name}: no command meets anything that it cannot use", "\n".join(run.unusable[:10]))
    tell(all(run.ran[version, how] > 0 for version in (0, 1) for how in ("done", "killed")),
         f"{name}: both versions worked, and both were killed", str(counts))
    for program in run.programs:
        for words in (("txn", "ls"), ("locks", "ls"), ("sweep", "-q", "--once")):
            status, _, why = told_by(program, run.bucket, *words)
            tell(status == 0, f"{name}: '{' '.join(words)}' at the end", why)
    audit_locks(run, name)
    audit_keys(run, name)
    audit_data(run, name)
    count_documents(run, name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=6)
    options = parser.parse_args()
    try:
        begun = time.monotonic()
        previous = build_previous()
        say(f"the previous version is there after {time.monotonic() - begun:.1f} s")
    except (CannotBuild, OSError) as why:
        print(f"1..0 # SKIP {' '.join(str(why).split())}")
        return 0

    def story(site):
        roll(site, "upgrade", previous, PROGRAM, options)
        roll(site, "downgrade", PROGRAM, previous, options)

    return chaos_kit.play(story, options.store)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hostile_network_test.py: a network that cuts. Each request of a command in turn meets a fate: the
command must end in time with a status that is true, and when the network is well again nothing is
lost, doubled or stuck, and no process is left.

    hostile_network_test.py [full]

In full each request meets every fate; else each of some requests meets one, the next one the next.
Prints TAP. The store is that of hostile_kit.py.
"""

import concurrent.futures
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time

import cases
import s3_fake
from cli_test import PROGRAM, equal, true, until
from hostile_kit import SECONDS_MAX, Answer, Lab, until_nobody_is_left

cases.cases.clear()
cases.SIDE_BY_SIDE = 12  # they wait for time-outs, mostly
FULL = sys.argv[1:] == ["full"]
AT_ONCE = 32
TRIALS = 14  # of a command, about, unless in full
PATIENT_SECONDS_MAX = 240
REQUEST_SECONDS = 1  # what a request may take that has no deadline of its own


# ---- Fates of a request ---------------------------------------------------------------------------


def refused(connection, request):
    """It never arrives, and the connection is reset."""
    connection.reset()


def lost_reply(connection, request):
    """It is done, and there is no answer."""
    Answer(request)
    raise s3_fake.Gone


def cut_in_headers(connection, request):
    answer = Answer(request)
    connection.send(f"HTTP/1.1 {answer.status} X\r\nETag: \"0123".encode())
    raise s3_fake.Gone


def cut_in_body(connection, request):
    """Whole headers, and half of what they announce."""
    answer = Answer(request)
    body = answer.body or b"none of this was announced"
    connection.reply(answer.status, body[:len(body) // 2], answer.headers, length=len(body))
    raise s3_fake.Gone


def failed_afterwards(connection, request):
    """It is done, and told as an error of the server."""
    Answer(request)
    connection.reply(500, s3_fake.error("InternalError"))


def black_hole(connection, request):
    """It is taken and never answered, nor done."""
    s3_fake.slow(connection, request)


def black_hole_behind(connection, request):
    """It is done and never answered."""
    Answer(request)
    s3_fake.slow(connection, request)


def dripping(connection, request):
    """The answer comes a byte at a time, and has no end."""
    answer = Answer(request)
    connection.send(f"HTTP/1.1 {answer.status} X\r\nETag: \"x\"\r\nContent-Length: 500\r\n".encode())
    while True:
        connection.send(b"X-Drip: 1\r\n")
        connection.sock.settimeout(0.5)
        try:
            connection.fill()
        except TimeoutError:
            pass


FATES = [refused, lost_reply, cut_in_headers, cut_in_body, failed_afterwards, black_hole,
         black_hole_behind, dripping]


# ---- Trials ---------------------------------------------------------------------------------------


class Trial:
    """One run of a command in a bucket and a folder of its own."""

    def __init__(self, lab, bucket, seconds=SECONDS_MAX):
        self.lab, self.bucket, self.seconds = lab, bucket, seconds
        self.folder = lab.file(bucket.name)
        os.mkdir(self.folder)
        for name, data in FILES.items():
            with open(os.path.join(self.folder, name), "wb") as out:
                out.write(data)

    def attempt(self, *args, stdin=b"", **options):
        """With little patience for a request, unless something else is said."""
        return self.lab.attempt(*args, stdin=stdin, bucket=self.bucket, cwd=self.folder,
                                seconds=self.seconds,
                                **{"timeout": f"{REQUEST_SECONDS}s", **options})

    def out(self, *args, stdin=b""):
        """When the network is well."""
        status, out, said = self.attempt(*args, stdin=stdin, timeout="20s")
        equal(status, "OK", f"{args}: {said}")
        return out.decode()

    def lines(self, name):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return file.read().split()


FILES = {"new": b"new", "x": b"x\x1f1\n", "y": b"y\x1f1\n", "z": b"z\x1f1\n"}
CERTAIN = {"UNAVAILABLE", "TIMEOUT", "DENIED", "INVALID", "UNSUPPORTED", "HELD", "CONFLICT"}


def token_of(lease):
    return json.loads(lease)["token"]


def one_of(status, done, undone, found, what):
    """What a status says of what was found: OK, it is done; certainly not; or either."""
    true(found in (done, undone), f"{what}: {status}, and found {found!r}")
    if status == "OK":
        equal(found, done, f"{what}: {status}")
    elif status in CERTAIN:
        equal(found, undone, f"{what}: {status}")


class Act:
    """A command: what must be there before, its words, and what must be true afterwards, when the
    network is well."""

    stdin = b""
    patient = False  # it asks a store that does not answer for a minute, and ends what it began

    def prepare(self, t):
        """Returns what `words` and `judge` are given."""

    def words(self, made):
        raise NotImplementedError

    def judge(self, t, made, status, out):
        raise NotImplementedError


class Acquire(Act):
    name = "acquire"

    def words(self, made):
        return ["acquire", "--json", "--no-wait", "--ttl", "1m", "deploy"]

    def judge(self, t, made, status, out):
        again, _, said = t.attempt("acquire", "--no-wait", "--ttl", "1m", "deploy")
        if status in CERTAIN:
            equal(again, "OK", f"after {status}: {said}")
        if status == "OK":
            equal(again, "HELD", "beside a holder")
            t.out("release", json.loads(out)["lease"])
            true(token_of(t.out("acquire", "--json", "--no-wait", "deploy")) > token_of(out),
                 "the token rises")


class AcquireKnown(Acquire):
    name = "acquire of a lock that was held before"

    def prepare(self, t):
        lease = t.out("acquire", "--json", "--no-wait", "deploy")
        t.out("release", json.loads(lease)["lease"])
        return token_of(lease)

    def judge(self, t, made, status, out):
        if status == "OK":
            true(token_of(out) > made, "the token rises")
        super().judge(t, made, status, out)


class Release(Act):
    name = "release"

    def prepare(self, t):
        return t.out("acquire", "--no-wait", "--ttl", "1m", "deploy").strip()

    def words(self, made):
        return ["release", made]

    def judge(self, t, made, status, out):
        again, _, _ = t.attempt("acquire", "--no-wait", "deploy")
        one_of(status, "OK", "HELD", again, "the lock after a release")
        true(t.attempt("release", made)[0] in ("OK", "LOST", "NOT_FOUND"), "released twice")


class Run(Act):
    name = "run"

    def words(self, made):
        return ["run", "--no-wait", "--ttl", "3s", "job", "--", "sh", "-c", "echo ran >> ran"]

    def judge(self, t, made, status, out):
        times = len(t.lines("ran"))
        one_of(status, 1, 0, times, "times that it ran")
        t.out("run", "--wait", "20s", "--ttl", "3s", "job", "--", "sh", "-c", "echo ran >> ran")
        equal(len(t.lines("ran")), times + 1, "times that it ran after all")


class Write(Act):
    name = "write"

    def prepare(self, t):
        t.out("write", "--lock", "writer", "o", "-", stdin=b"old")

    def words(self, made):
        return ["write", "-q", "--no-wait", "--ttl", "2s", "--lock", "writer", "o", "new"]

    def judge(self, t, made, status, out):
        one_of(status, "new", "old", t.out("read", "o"), "the object")
        t.out("write", "-q", "--wait", "20s", "--ttl", "2s", "--lock", "writer", "o", "x")
        equal(t.out("read", "o").encode(), FILES["x"])


class KeyUpdate(Act):
    name = "key update"
    stdin = b"new"

    def prepare(self, t):
        t.out("key", "update", "--take", "k", stdin=b"old")

    def words(self, made):
        return ["key", "update", "-q", "--take", "--no-wait", "--ttl", "2s", "k"]

    def state(self, t):
        return t.out("key", "get", "k"), json.loads(t.out("key", "describe", "--json", "k"))["version"]

    def judge(self, t, made, status, out):
        one_of(status, ("new", 2), ("old", 1), self.state(t), "the key and its version")
        version = self.state(t)[1]
        t.out("key", "update", "--take", "--wait", "20s", "--ttl", "2s", "k", stdin=b"last")
        equal(self.state(t), ("last", version + 1), "the next change")


class TxnCommit(Act):
    name = "txn commit"

    def prepare(self, t):
        txn = t.out("txn", "begin").strip()
        for key in ("ann", "joe"):
            t.out("key", "update", "--take", key, stdin=b"old")
            lease = t.out("key", "acquire", "--no-wait", "--txn", txn, key).strip()
            t.out("key", "update", key, "--txn", txn, "--lease", lease, stdin=b"new")
        return txn

    def words(self, made):
        return ["txn", "commit", "-q", made]

    def judge(self, t, made, status, out):
        found = [t.out("key", "get", key) for key in ("ann", "joe")]
        one_of(status, ["new", "new"], ["old", "old"], found, "both keys")
        again = t.attempt("txn", "commit", made)[0]
        if again == "OK":
            equal([t.out("key", "get", key) for key in ("ann", "joe")], ["new", "new"])
        else:
            equal((again, found), ("MISMATCH", ["old", "old"]), "a commit that is asked again")


class Ingest(Act):
    name = "compact ingest"
    patient = True

    def prepare(self, t):
        t.out("compact", "create", "-q", "--format", "usv", "--key", "1", "--level0-count", "2",
              "--step", "0", "--ttl", "1s", "--skew", "0")

    def words(self, made):
        return ["compact", "ingest", "-q", "x", "y", "z"]

    def rows(self, t):
        keys = [json.loads(line)["key"] for line in t.out("compact", "ls", "--json").splitlines()]
        return sorted("".join(t.out("store", "get", key) for key in keys).splitlines())

    def judge(self, t, made, status, out):
        whole = ["x\x1f1", "y\x1f1", "z\x1f1"]
        found = self.rows(t)
        true(len(set(found)) == len(found) and set(found) <= set(whole), f"{status}: {found}")
        if status == "OK":
            equal(found, whole, status)
        t.out("compact", "ingest", "-q", "x", "y", "z")
        equal(self.rows(t), whole, "each row once, after it was ingested again")


class CompactRun(Ingest):
    name = "compact run"

    def prepare(self, t):
        super().prepare(t)
        t.out("compact", "ingest", "-q", "x", "y", "z")

    def words(self, made):
        return ["compact", "run", "-q", "--jobs", "1"]

    def judge(self, t, made, status, out):
        whole = ["x\x1f1", "y\x1f1", "z\x1f1"]
        equal(self.rows(t), whole, status)
        end = time.monotonic() + 20  # a lease of a second may stand there
        while len(t.out("compact", "ls", "--json").splitlines()) > 1:
            true(time.monotonic() < end, "merged in the end")
            t.out("compact", "run", "-q", "--all", "--force")
        equal(self.rows(t), whole, "merged in the end")
        t.out("compact", "fsck")


class IndexPut(Act):
    name = "index put"

    def prepare(self, t):
        t.out("index", "create", "-q", "i", "--fields", "k,v,t", "--key", "k", "--time", "t")
        t.out("index", "put", "-q", "i", "k=a", "v=old", "t=1")

    def words(self, made):
        return ["index", "put", "-q", "i", "k=a", "v=new", "t=2"]

    def values(self, t):
        found = [json.loads(line) for line in t.out("index", "query", "--json", "i").splitlines()]
        return sorted((row["k"], row["v"]) for row in found)

    def judge(self, t, made, status, out):
        one_of(status, [("a", "new")], [("a", "old")], self.values(t), "the record")
        t.out("index", "compile", "-q", "i")
        one_of(status, [("a", "new")], [("a", "old")], self.values(t), "the record, compiled")


class IndexCompile(IndexPut):
    name = "index compile"

    def prepare(self, t):
        super().prepare(t)
        t.out("index", "put", "-q", "i", "k=a", "v=new", "t=2")
        t.out("index", "put", "-q", "i", "k=b", "v=b", "t=1")

    def words(self, made):
        return ["index", "compile", "-q", "--wait", "0", "i"]

    def judge(self, t, made, status, out):
        whole = [("a", "new"), ("b", "b")]
        equal(self.values(t), whole, status)
        t.attempt("index", "compile", "-q", "--wait", "0", "i")  # a shard's lock may be left, for 5 min
        equal(self.values(t), whole, "compiled again")


class Copy(Act):
    name = "store cp -r"

    def prepare(self, t):
        t.out("store", "put", "-q", "--store", "dir:" + t.lab.file("local"), "d/a", "-", stdin=b"a")
        t.out("store", "put", "-q", "--store", "dir:" + t.lab.file("local"), "d/b", "-", stdin=b"b")
        return "dir:" + t.lab.file("local")

    def words(self, made):
        return ["store", "cp", "-q", "-r", "--from", made, "d/", "e/"]

    def judge(self, t, made, status, out):
        wanted = {"e/a": b"a", "e/b": b"b"}
        found = {key: t.bucket.object(key) for key in t.bucket.keys("e/")}
        true(found.items() <= wanted.items(), f"{status}: {found}")
        if status == "OK":
            equal(found, wanted, status)
        t.out(*self.words(made))
        equal({key: t.bucket.object(key) for key in t.bucket.keys("e/")}, wanted, "copied again")


ACTS = [Acquire, AcquireKnown, Release, Run, Write, KeyUpdate, TxnCommit, Ingest, CompactRun, IndexPut,
        IndexCompile, Copy]


def from_the(number, fate, for_good):
    """The request of this number meets its fate; those behind it too, if the network is gone."""
    def lie(connection, request):
        if request.number != number and not (for_good and request.number > number):
            return False
        fate(connection, request)
        return True

    return lie


def one_trial(lab, act, base, made, number, fate, for_good):
    what = f"request {number}: {fate.__name__}{' and all behind it' if for_good else ''}"
    bucket = base.twin(f"{base.name}-{number}-{fate.__name__}-{for_good}".replace("_", "-").lower())
    trial = Trial(lab, bucket, PATIENT_SECONDS_MAX if act.patient else SECONDS_MAX)
    bucket.lie = from_the(number, fate, for_good)
    try:
        begun = time.monotonic()
        status, out, said = trial.attempt(*act.words(made), stdin=act.stdin)
        took = time.monotonic() - begun
        asked = bucket.log[:]
        bucket.lie = None
        act.judge(trial, made, status, out)
    except AssertionError as wrong:
        log = asked if bucket.lie is None else bucket.log
        raise AssertionError(f"{what}: {wrong}; {said if bucket.lie is None else ''} {log}") from None
    return f"{what}: {status} after {took:.1f} s, judged after {time.monotonic() - begun:.1f}"


def plan(act, count):
    """All trials of a command with so many requests: number, fate, and whether for good."""
    every = list(itertools.product(range(1, count + 1), FATES, (False, True)))
    if FULL:
        return every
    few = range(1, count + 1, max(1, round(count / TRIALS)))
    return [(number, FATES[turn % len(FATES)], turn % 3 == 2 and not act.patient)
            for turn, number in enumerate(few)]


def add(kind):
    def case(lab):
        act = kind()
        first = Trial(lab, lab.bucket)
        first.out("store", "probe", "-q")
        made = act.prepare(first)
        calm = Trial(lab, lab.bucket.twin(lab.bucket.name + "-calm"))
        status, out, said = calm.attempt(*act.words(made), stdin=act.stdin)
        equal(status, "OK", f"where nothing is wrong: {said}")
        count = calm.bucket.count
        act.judge(calm, made, status, out)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            futures = [pool.submit(one_trial, lab, act, lab.bucket, made, *row)
                       for row in plan(act, count)]
        failures = [str(f.exception()) for f in futures if f.exception()]
        for future in futures:
            if not future.exception():
                print("# " + future.result())
        true(not failures, f"{len(failures)} of {len(futures)}: " + "\n".join(failures))
        until_nobody_is_left(lab.path)

    cases.add(f"a network that cuts: {kind.name} ends in time and tells the truth, whichever request "
              "is cut", case, Lab)


for kind_ in ACTS:
    add(kind_)


def second_signal(lab):
    """The first one is obeyed in order: the worker would give back what it holds, and waits for that."""
    act = CompactRun()
    first = Trial(lab, lab.bucket)
    first.out("store", "probe", "-q")
    act.prepare(first)
    for words in (["run", "-q"], ["watch", "-q", "--poll", "50ms"]):
        bucket = lab.bucket.twin(f"{lab.bucket.name}-{words[0]}")
        bucket.lie = from_the(12, black_hole, True)
        env = {**lab.env, "HOLDFAST_STORE": lab.url_of(bucket)}
        worker = subprocess.Popen([PROGRAM, "compact", *words], cwd=lab.path, env=env,
                                  stdin=subprocess.DEVNULL)
        until(lambda bucket=bucket: bucket.count >= 12, "the network is gone")
        worker.send_signal(signal.SIGTERM)
        time.sleep(1)
        equal(worker.poll(), None, f"{words}: it still waits for the store")
        begun = time.monotonic()
        worker.send_signal(signal.SIGTERM)
        equal(worker.wait(30), -signal.SIGTERM, words)
        true(time.monotonic() - begun < 3, f"{words}: at once")


cases.add("a network that cuts: a second signal ends compact run and watch at once", second_signal, Lab)


class StuckLog:
    """A waiter with -v, whose read for the log is never answered. That is the second one of the table
    without a condition."""

    def __init__(self, lab):
        self.reads, self.stuck, self.given_up = 0, threading.Event(), threading.Event()
        lab.bucket.lie = self.lie
        self.process = lab.start("-v", "acquire", "--wait", "1m", "job")
        true(self.stuck.wait(30), "it reads for the log")
        lab.bucket.lie = None

    def lie(self, connection, request):
        if (request.method, request.key) != ("GET", "default/meta/job.json") or \
                "if-none-match" in request.headers:
            return False
        self.reads += 1
        if self.reads < 2:
            return False
        self.stuck.set()
        try:
            black_hole(connection, request)
        finally:
            self.given_up.set()


def stuck_log(lab):
    lab.run("store", "probe", "-q")
    lease = lab.out("acquire", "--ttl", "10m", "job").decode().strip()
    waiter = StuckLog(lab)
    waiter.process.send_signal(signal.SIGINT)
    waiter.process.communicate(timeout=30)
    equal(waiter.process.returncode, -signal.SIGINT)
    equal(json.loads(lab.out("locks", "show", "job", "--json"))["queue"], [], "Ctrl-C left the line")
    waiter = StuckLog(lab)
    lab.run("release", "-q", lease)
    lease = waiter.process.stdout.readline()
    true(lease.endswith(b"job.json\n") and not waiter.given_up.is_set(), f"at once: {lease}")
    waiter.process.communicate(timeout=30)
    equal(waiter.process.returncode, 0)


cases.add("a network that cuts: a read that only the log needs delays neither a grant nor Ctrl-C",
          stuck_log, Lab)


if __name__ == "__main__":
    sys.exit(cases.main())

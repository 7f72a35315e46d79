#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lock_ceph_test.py: locks on a real Ceph RADOS gateway, whose clock we know only by the dates of
its replies, and which stops, dies and is cut off.

    lock_ceph_test.py calm        what locks cost there and do there
    lock_ceph_test.py calm long   the same with a thousand that wait for one lock, not 300
    lock_ceph_test.py accidents   20 trials of each accident
    lock_ceph_test.py trials N    N trials of each accident

Prints TAP. `calm` uses the cluster of this test run, or starts one (ceph_kit.py). The others start a
cluster with three gateways of their own, because they stop and kill its daemons, in a network
namespace of their own, which needs no privilege; for the partition there is a second namespace
behind a link, and in that the holders live.
"""

import concurrent.futures
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import typing

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import ceph_kit
import run_trials
import tap_kit
from run_trials import DAY, LOST, PROGRAM, Unwell, Wrong, until
from tap_kit import run_program, say, tell, took

GATEWAYS = 3
AT_ONCE = 20        # trials of a kind side by side
SHORT = (20, 1), (5, 1), (3, 2), (3, 4)  # leases as short as the store is fit for: count, seconds
ATTEMPTS = 4        # of a round, if the machine is too slow for the leases of the trials
STARTING_MAX = 8    # trials that start processes at the same time: a burst would cost leases
OUTAGE = 6.0        # seconds, three times the ttl of the trials
PARTITION = 30.0
SKEW = 30.0         # what a store that is not known is allowed, by default
NEAR, FAR = "192.0.2.1", "192.0.2.2"  # the two ends of the link


# ---- A link that can be cut ---------------------------------------------------------------------


class Link:
    """A network namespace behind a link that can be cut, with a way to the gateway."""

    def __init__(self, endpoint):
        # It lives as long as this process, and dies with us, when its input ends.
        self.inside = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE)
        ours = os.readlink("/proc/self/ns/net")
        until(lambda: os.readlink(f"/proc/{self.inside.pid}/ns/net") != ours, "a namespace")
        self.enter = ["nsenter", "-n", "-t", str(self.inside.pid)]
        self.ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns",
                str(self.inside.pid))
        self.ip("addr", "add", f"{NEAR}/24", "dev", "near")
        self.ip("link", "set", "near", "up")
        self.ip("addr", "add", f"{FAR}/24", "dev", "far", inside=True)
        self.ip("link", "set", "far", "up", inside=True)
        self.relay = ceph_kit.Relay(NEAR, endpoint)

    def ip(self, *words, inside=False):
        subprocess.run([*(self.enter if inside else []), "ip", *words], check=True, timeout=30)

    def cut_for(self, seconds):
        self.ip("link", "set", "near", "down")
        self.mending = ceph_kit.later(seconds, lambda: self.ip("link", "set", "near", "up"))

    def close(self):
        self.inside.stdin.close()
        self.inside.wait()


# ---- Accidents ----------------------------------------------------------------------------------

starting = threading.BoundedSemaphore(STARTING_MAX)


class GatewayTrial(run_trials.Trial):
    """A trial whose sides may reach the store by different ways."""

    def __init__(self, name, environment, holder, waiter):
        super().__init__(waiter, name, environment)
        self.programs = {"holder": holder, "waiter": [PROGRAM, "--store", waiter]}

    def program(self, side):
        return self.programs[side]

    def begin(self):
        with starting:
            super().begin()

    def expect_calm(self):
        """Nobody runs any more, the lock is free, and what landed late did no harm."""
        until(lambda: self.folder.encode() not in command_lines.read(),
              "the end of all processes", 20)
        last = int(self.lines("notes", "note")[0][2])
        words = [*self.program("waiter"), "run", "--no-wait", self.name, "--",
                 run_trials.BEAT, "note", self.path("after")]
        done = subprocess.run(words, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Wrong(f"afterwards the lock is not free: {done.stderr.strip()}")
        token = int(self.lines("after", "note")[0][2])
        if token <= last:
            raise Wrong(f"afterwards token {token} after {last}")


class CommandLines:
    """The command lines of all processes. Trials that ask at the same time share one look at them,
    which begins after they asked."""

    def __init__(self):
        self.lock = threading.Lock()
        self.begun, self.found = 0.0, b""

    def read(self):
        asked = time.monotonic()
        with self.lock:
            if self.begun < asked:
                self.begun = time.monotonic()
                self.found = b"\n".join(map(self.read_one, filter(str.isdigit, os.listdir("/proc"))))
            return self.found

    @staticmethod
    def read_one(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return file.read()
        except OSError:
            return b""  # it ended meanwhile


command_lines = CommandLines()


ABORTED = "another trial of this round did not come so far"


def together(accident, deed):
    """An accident that happens to all trials at once: the last one that is ready does the deed."""
    barrier = threading.Barrier(AT_ONCE, action=deed, timeout=run_trials.PATIENCE)

    def both(trial):
        try:
            barrier.wait()
        except threading.BrokenBarrierError:
            raise Unwell(ABORTED) from None
        accident(trial)

    both.give_up = barrier.abort
    return both


def survive(trial):
    trial.expect_order()
    trial.expect_end(LOST)
    trial.expect_calm()


def jumping_clock(seconds):
    """The holder's calendar jumps. The gateway refuses what is signed with another day, so it must
    not be; nothing else may come of it."""
    stays_and_stops = run_trials.moved_clock("holder", seconds)

    def accident(trial):
        stays_and_stops(trial)
        trial.expect_calm()

    accident.side = "holder"
    return accident


class Partition:
    """A round in which holders are cut off. The locks are taken over while the link is down; then
    there is time for other accidents, until the link is mended and `quiet` is set."""

    def __init__(self, link):
        self.link = link
        self.taken_over = threading.Semaphore(0)
        self.quiet = threading.Event()

    def accident(self):
        self.taken_over = threading.Semaphore(0)
        return together(self.survive, lambda: self.link.cut_for(PARTITION))

    def survive(self, trial):
        mended = time.monotonic() + PARTITION
        try:
            trial.expect_order()
        finally:
            self.taken_over.release()
        if time.monotonic() > mended - 5:
            raise Wrong("the lock was taken over only when the link was mended")
        self.link.mending.join()
        time.sleep(1)  # what was on its way may arrive now
        self.quiet.wait()
        trial.expect_end(LOST)
        trial.expect_calm()

    def wait_for_takeovers(self, future):
        """Until the holders need the store no more, or the round of this future is over."""
        for _ in range(AT_ONCE):
            while not self.taken_over.acquire(timeout=0.1):
                if future.done():
                    return


class Kind(typing.NamedTuple):
    """The gateways of holder and waiter (0: across the link), and a function that makes the accident
    of one round."""

    name: str
    holder: int
    waiter: int
    accident: typing.Callable


def kinds_beside_each_other(ceph):
    """None of these disturbs the store of another."""
    return [
        Kind("the only gateway is killed and started again", 3, 3,
             lambda: together(survive, lambda: ceph.kill_for(OUTAGE, "client.rgw-3"))),
        Kind("the holder's gateway is stopped", 2, 1,
             lambda: together(survive, lambda: ceph.stop_for(OUTAGE, ["client.rgw-2"]))),
        Kind("holdfast is killed", 1, 1, lambda: run_trials.kill_holdfast),
        Kind("holdfast is stopped past the ttl", 1, 1, lambda: run_trials.stop_holdfast),
        Kind("holdfast and the command are stopped past the ttl", 1, 1,
             lambda: run_trials.stop_both),
        Kind("the holder's clock goes a day forward", 1, 1, lambda: jumping_clock(DAY)),
        Kind("the holder's clock goes a day back", 1, 1, lambda: jumping_clock(-DAY)),
    ]


def standstill(ceph):
    return Kind("all of Ceph stands still", 1, 1,
                lambda: together(survive, lambda: ceph.stop_for(OUTAGE, ceph.daemons())))


class Accidents:
    """Rounds of AT_ONCE trials of each kind."""

    def __init__(self, ceph, link):
        self.ceph, self.link = ceph, link
        self.bucket = ceph.bucket("trials")
        self.pulse = ceph_kit.Pulse(self.bucket)
        self.numbers = itertools.count(1)
        self.wrong = {}  # by the name of the kind

    def holder(self, gateway, prefix):
        if gateway:
            return [PROGRAM, "--store", self.bucket.url(prefix, gateway)]
        url = self.bucket.url_at(self.link.relay.endpoint, prefix)
        return [*self.link.enter, PROGRAM, "--store", url]

    def attempt(self, kind):
        """A round of a kind: what went wrong, and whether that is not for want of speed alone."""
        accident, begun = kind.accident(), time.monotonic()
        prefix = f"trials-{next(self.numbers)}"
        holder, waiter = self.holder(kind.holder, prefix), self.bucket.url(prefix, kind.waiter)
        failed = []

        def one(number):
            trial = GatewayTrial(f"trial/{number}", self.ceph.environment, holder, waiter)
            wrong = run_trials.conduct(trial, accident)
            if wrong:
                failed.append(trial)
            if wrong and hasattr(accident, "give_up"):
                accident.give_up()
            return wrong

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            found = [wrong for wrong in pool.map(one, range(AT_ONCE)) if wrong]
        slow = self.pulse.longest(begun, self.ceph.standstills) > 0 or \
            any(trial.slow for trial in failed)
        return found, not (found and slow and all(trial.unwell for trial in failed))

    def one_kind(self, kind):
        """A round of a kind; adds what went wrong. Where holders lost their leases before anything
        had happened, and the store or their requests were slow at that time, nothing was shown: once
        more."""
        begun = time.monotonic()
        for _ in range(ATTEMPTS):
            found, certain = self.attempt(kind)
            if certain:
                break
            why = next((one for one in found if ABORTED not in one), ABORTED)
            took(f"{kind.name}: once more, the machine was too slow: {why}", begun)
        self.wrong.setdefault(kind.name, []).extend(found)
        took(kind.name, begun)

    def one_round(self):
        """A round of all kinds. While the link is down all other accidents happen: first those that
        leave the store of the others alone, then the one that does not."""
        partition = Partition(self.link)
        cut_off = Kind("the holder is cut off for 30 s", 0, 1, partition.accident)
        others = kinds_beside_each_other(self.ceph)
        with concurrent.futures.ThreadPoolExecutor(1 + len(others)) as pool:
            try:
                future = pool.submit(self.one_kind, cut_off)
                list(pool.map(self.one_kind, others))
                self.ceph.wait_for_repairs()
                partition.wait_for_takeovers(future)
                self.one_kind(standstill(self.ceph))
            finally:
                partition.quiet.set()
            future.result()

    def report(self, trials):
        for name, found in self.wrong.items():
            tell(not found, f"when {name} the command is dead before the next one starts "
                 f"({trials} trials)", f"{len(found)} of {trials}: " + "; ".join(found[:5])
                 if found else "")


# ---- A lease that is dead since long ------------------------------------------------------------


class LongDead:
    """A holder that is killed now, and whose lease is taken over much later."""

    def __init__(self, bucket):
        self.bucket = bucket
        words = [PROGRAM, "run", "--store", bucket.url("dead"), "--ttl", "2s", "dead", "--",
                 "sh", "-c", "echo held; exec sleep 1000"]
        with subprocess.Popen(words, env=bucket.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as holder:
            self.held = holder.stdout.readline() == b"held\n"
            holder.kill()
        self.killed = time.monotonic()

    def take_over(self):
        """By one who never saw it before: the dates of the store's replies are its only proof."""
        wait = self.killed + 2 + SKEW + 4 - time.monotonic()
        if wait > 0:
            time.sleep(wait)  # time has to pass: it is what is tested
        relay = ceph_kit.Relay("127.0.0.1", self.bucket.ceph.endpoint())
        url = self.bucket.url_at(relay.endpoint, "dead")
        # Nobody has come this way before: the first to do so finds out what the store is like.
        subprocess.run([PROGRAM, "elect", "ls", "none", "--store", url], check=True, timeout=60,
                       env=self.bucket.environment)
        before = relay.requests
        words = [PROGRAM, "run", "--store", url, "--no-wait", "dead", "--", "sh", "-c",
                 "echo held; read x"]
        with subprocess.Popen(words, env=self.bucket.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.PIPE) as newcomer:
            line = newcomer.stdout.readline()
            requests = relay.requests - before
            _, errors = newcomer.communicate(timeout=60)
        tell(self.held and line == b"held\n" and 0 < requests <= 4,
             "a newcomer takes over a lease that is long dead within 4 round trips",
             f"{requests} requests {errors.decode(errors='replace')}")


# ---- A lease that is as short as can be ---------------------------------------------------------


def hold_short(bucket, count, ttl):
    """Holds so many leases for three times their ttl. Returns what those said that lost theirs, and
    whether each of them had a renewal that the store answered too slowly."""
    words = [PROGRAM, "run", "--trace", "--store", bucket.url("short"), "--ttl", f"{ttl}s"]
    many = [subprocess.Popen([*words, f"short/{number}", "--", "sleep", str(3 * ttl)],
                             env=bucket.environment, stdin=subprocess.DEVNULL,
                             stderr=subprocess.PIPE) for number in range(count)]
    ends = [(process.communicate(timeout=60)[1], process.returncode) for process in many]
    lost = [run_trials.parse_trace(text.decode(errors="replace")) for text, code in ends if code]
    return [f"{said} ({' '.join(f'{one * 1000:.0f}' for one in took)} ms)" for said, took in lost], \
        all(run_trials.is_renewal_slow(took, ttl) for _, took in lost)


def check_short(bucket):
    """The dates of replies are cut to the second; that must not cost a healthy lease its life. A
    round on a store or a machine that was too slow for it shows nothing: then once more, with fewer
    leases, and at last with longer ones."""
    pulse = ceph_kit.Pulse(bucket)
    for count, ttl in SHORT:
        begun = time.monotonic()
        lost, was_slow = hold_short(bucket, count, ttl)
        if not lost or not (was_slow or pulse.longest(begun) > 0):
            break
        took(f"{count} leases of {ttl} s: once more, it was too slow: {'; '.join(lost)}", begun)
    pulse.close()
    tell(not lost, "a lease of one second is kept on a healthy store", "\n".join(lost))


# ---- Fenced objects -----------------------------------------------------------------------------


def check_fenced(bucket, scratch):
    """Equal bytes have equal ETags here, so a fence cannot be in the object's metadata."""
    environment = dict(bucket.environment, HOLDFAST_STORE=bucket.url("fenced"))

    def run(*words, data=b""):
        return subprocess.run([PROGRAM, *words], env=environment, cwd=scratch, input=data,
                              capture_output=True, timeout=60)

    def acquire():
        return run("acquire", "--no-wait", "writer").stdout.decode().strip()

    old = acquire()
    first = run("write", "--lock", old, "object", "-", data=b"the same bytes")
    run("locks", "break", "writer", "--reason", "a test")
    new = acquire()
    second = run("write", "--lock", new, "object", "-", data=b"other bytes")
    third = run("write", "--lock", new, "object", "-", data=b"the same bytes")
    late = run("write", "--lock", old, "object", "-", data=b"late bytes")
    codes = [done.returncode for done in (first, second, third, late)]
    found = run("read", "object").stdout
    tell(codes[:3] == [0, 0, 0] and codes[3] != 0 and found == b"the same bytes",
         "an object refuses a holder whose lock is lost, also where equal bytes look equal",
         f"{codes} {found} {late.stderr.decode(errors='replace')}")


# ---- All of it ----------------------------------------------------------------------------------


def run_on_gateway(name, bucket, label, seconds):
    environment = dict(bucket.environment, HOLDFAST_TEST_URL=bucket.url(name))
    run_program(name, ["url"], environment, label, seconds)


def run_calm(ceph, scratch, crowd):
    """A dead lease takes its time, in which everything else happens, and a long line of those that
    wait for a lock too."""
    bucket = ceph.bucket("locks")
    bucket.environment["HOLDFAST_TEST_CROWD"] = str(crowd)
    dead = LongDead(bucket)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(run_on_gateway, "lock_wait_test", bucket, "waiting", 180)
        run_on_gateway("lock_request_test", bucket, "requests", 60)
        run_on_gateway("lock_test", bucket, "locks", 60)
        check_fenced(bucket, scratch)
        check_short(bucket)
        waiting.result()
    dead.take_over()


def run_accidents(ceph, rounds):
    link = Link(ceph.endpoint())
    try:
        accidents = Accidents(ceph, link)
        for _ in range(rounds):
            accidents.one_round()
        accidents.pulse.close()
        say(f"the longest stall of the store: {accidents.pulse.longest(0, ceph.standstills):.1f} s")
        accidents.report(rounds * AT_ONCE)
    finally:
        link.close()


def in_own_network():
    """Whether we are in a network namespace of our own; enters one if not."""
    if "HOLDFAST_OWN_NETWORK" in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=30)
        return True
    unshare = ["unshare", "-n" if os.geteuid() == 0 else "-rn"]
    possible = subprocess.run([*unshare, "ip", "link", "set", "lo", "up"], capture_output=True,
                              text=True)
    if possible.returncode != 0:
        tell(False, "a network namespace can be made", possible.stderr)
        return False
    os.environ["HOLDFAST_OWN_NETWORK"] = "yes"
    os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


def main(mode, trials):
    scratch = tempfile.mkdtemp(prefix="holdfast-lock-ceph-")
    begun = time.monotonic()
    cluster = ceph_kit.shared_or_own(scratch) if mode == "calm" else \
        ceph_kit.own(scratch, GATEWAYS)
    try:
        with cluster as ceph:
            took("Ceph is up", begun)
            if mode == "calm":
                run_calm(ceph, scratch, trials)
            else:
                run_accidents(ceph, (trials + AT_ONCE - 1) // AT_ONCE)
    except Exception:  # whatever goes wrong is a failure, and the servers must be stopped
        tell(False, "the servers start and the programs end in time", traceback.format_exc())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    took("all of it", begun)


def mode_of(words):
    """(mode, number of trials, or of those that wait)"""
    if words in (["calm"], ["calm", "long"]):
        return words[0], 1000 if words[1:] else 300
    if words == ["accidents"]:
        return words[0], AT_ONCE
    if len(words) == 2 and words[0] == "trials" and words[1].isdigit():
        return words[0], int(words[1])
    sys.exit("usage: lock_ceph_test.py calm [long] | accidents | trials N")


if __name__ == "__main__":
    chosen = mode_of(sys.argv[1:])
    if chosen[0] == "calm" or in_own_network():
        main(*chosen)
    sys.exit(tap_kit.end())

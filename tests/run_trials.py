# SPDX-License-Identifier: Apache-2.0
"""run_trials.py: trials of `holdfast run`: something happens to a holder, and its command must be
dead before the next holder begins.

A module. `trials(url, kind, count)` runs `count` trials of one kind of accident side by side on a
store and returns what went wrong. In each trial one `holdfast run` holds a lock;
its command (run_beat.c), a child and an orphan of it write the boot-time clock into a file all the
time, deaf to TERM. A second `holdfast run` waits for the same lock; its command notes the moment.
Then the accident. The last beat must come before the note, and the token must have risen.
"""

import concurrent.futures
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import calendar_kit

PROGRAM = os.path.abspath(os.environ["HOLDFAST_PROGRAM"])
BEAT = os.path.join(os.environ["HOLDFAST_TEST_PROGRAMS"], "run_beat")
TTL = 3.0
PATIENCE = 60.0
LATE_BEAT = 0.05      # from a grant until beats that came after it are looked for
ATTEMPTS = 4          # of a trial, if the machine is too slow for its lease
DAY = 86400
REQUEST = re.compile(r"holdfast: (?:get|put|delete|list|copy) .* -> [A-Z]")
TRACED = re.compile(r"holdfast: (get|put|delete|list|copy) .* (?:(\d+)s)?(?:(\d+)ms)?(?:(\d+)us|0)?(?:, depth \d+)?$")
RENEWAL_REQUESTS = 4  # at most, beside an entry of the expiry index
RENEWAL_SHARE = 0.15  # of a TTL for these, which leaves time for a second try
LOST = 90  # the exit status of the table


class Wrong(Exception):
    """What a trial found."""


class Unwell(Wrong):
    """A lease was lost though nothing had happened to its holder: the store or the machine was too
    slow for it."""


def until(condition, what, patience=PATIENCE):
    """Waits for a condition, which returns what it found."""
    end = time.monotonic() + patience
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise Wrong(f"{what} did not come in {patience:.0f} s")
        time.sleep(0.01)


def parent_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def parse_trace(text):
    """What a program with --trace said, and how many seconds each of its last requests took."""
    lines = text.splitlines()
    requests = [match for match in map(TRACED.match, lines) if match]
    said = [line for line in lines if not TRACED.match(line)]
    unknown = [line for line in said if REQUEST.match(line)]
    if unknown[:-1]:  # the last line may be cut off
        raise AssertionError(f"--trace prints requests in a way that this test does not know: {unknown[0]}")
    return " ".join(said)[:300], [
        int(match[2] or 0) + int(match[3] or 0) / 1e3 + int(match[4] or 0) / 1e6
        for match in requests[-4 * RENEWAL_REQUESTS:]]


def is_renewal_slow(took, ttl):
    """Whether a renewal among these requests may have taken so long that the lease is lost."""
    return any(sum(took[at:at + RENEWAL_REQUESTS]) > RENEWAL_SHARE * ttl for at in range(len(took)))


class Trial:
    """One lock, one holder, one who waits."""

    def __init__(self, url, name, environment):
        self.folder = tempfile.mkdtemp(prefix="holdfast-run-")
        self.url, self.name = url.replace("{folder}", self.folder), name
        self.environment = environment
        self.processes = []
        self.guard = None
        self.clocks = {}
        self.unwell = self.slow = False
        self.random = random.Random(name)

    def close(self):
        """Leaves nothing behind: a guard that goes on sees to its command."""
        if self.guard and os.path.exists(f"/proc/{self.guard}"):
            os.kill(self.guard, signal.SIGCONT)
        for process in self.processes:
            process.kill()
            process.wait()
        if self.guard:
            until(lambda: not os.path.exists(f"/proc/{self.guard}"), "the end of the guard")
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def lines(self, name, word):
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return [line.split() for line in file if line.startswith(word)]
        except FileNotFoundError:
            return []

    def environment_of(self, side):
        """With a calendar that can be moved, for a side that is to have one."""
        environment = dict(self.environment)
        if side in self.clocks:
            environment.update(self.clocks[side].environment())
        return environment

    def give_clock(self, side):
        self.clocks[side] = calendar_kit.Calendar(self.path(f"{side}.clock"))

    def program(self, side):
        """The program and its store, as this side reaches it."""
        return [PROGRAM, "--store", self.url]

    def start(self, side, *command):
        words = [*self.program(side), "run", "--trace", "--ttl", f"{int(TTL * 1000)}ms", "--wait", "2m",
                 self.name, "--", "env", "-u", "LD_PRELOAD", *command]
        process = subprocess.Popen(words, env=self.environment_of(side), cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=open(self.path(side + ".err"), "wb"))
        self.processes.append(process)
        return process

    def printed(self, side):
        with open(self.path(side + ".err"), encoding="utf-8", errors="replace") as file:
            return parse_trace(file.read())

    def errors(self, side):
        said, took = self.printed(side)
        return f"{said} (its last requests took {' '.join(f'{one * 1000:.0f}' for one in took)} ms)"

    def was_too_slow(self):
        """Whether requests took so long that a lease of TTL may well be lost."""
        recent = [self.printed(side)[1] for side in ("holder", "waiter")
                  if os.path.exists(self.path(side + ".err"))]
        return any(is_renewal_slow(took, TTL) for took in recent)

    def begin(self):
        self.holder = self.start("holder", BEAT, "beat", self.path("beats"))
        started = until(self.has_started, "the first holder")
        self.child, self.token = int(started[1]), int(started[2])
        self.guard = parent_of(self.child)
        self.waiter = self.start("waiter", BEAT, "note", self.path("notes"))

    def has_started(self):
        if self.holder.poll() is not None:
            raise Unwell(f"the holder ended with {self.holder.returncode}: {self.errors('holder')}")
        lines = self.lines("beats", "start")
        return lines[0] if lines and lines[0][-1].isdigit() else None

    def is_granted(self):
        if self.waiter.poll() not in (None, 0):
            what = Unwell if self.waiter.returncode == LOST else Wrong
            raise what(f"the waiter ended with {self.waiter.returncode}: {self.errors('waiter')}")
        return self.waiter.poll() == 0

    def send(self, number, *pids):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                raise Unwell(f"process {pid} ended by itself: {self.errors('holder')}") from None

    def pause(self, ttls):
        """Lets time pass, during which the lock must stay where it is."""
        end = time.monotonic() + ttls * TTL
        while time.monotonic() < end:
            if self.lines("notes", "note"):
                self.judge_early_grant()
            if self.holder.poll() is not None:
                raise Unwell(f"the holder ended by itself with {self.holder.returncode}: "
                             f"{self.errors('holder')}")
            time.sleep(0.02)

    def judge_early_grant(self):
        """The lock went on though nothing had happened to its holder: rightly so only if the holder
        knows that it lost it, and its command was dead by then."""
        self.expect_order()
        try:
            code = self.holder.wait(TTL)
        except subprocess.TimeoutExpired:
            code = None
        if code != LOST:
            raise Wrong("the lock was granted while its holder was well")
        raise Unwell(f"the lease was lost, and the lock granted: {self.errors('holder')}")

    def beats_since_grant(self):
        """How long after the second grant the last beat came, in us; less than 0: before it."""
        last = max(int(line[1]) for line in self.lines("beats", "beat") if len(line) == 2)
        return last - int(self.lines("notes", "note")[0][1])

    def expect_order(self):
        until(self.is_granted, "the second grant")
        time.sleep(LATE_BEAT)
        late = self.beats_since_grant()
        if late >= 0:
            raise Wrong(f"a beat came {late / 1000:.1f} ms after the grant")
        token = int(self.lines("notes", "note")[0][2])
        if token <= self.token:
            raise Wrong(f"token {token} after {self.token}")

    def expect_end(self, *codes):
        """How the holder ended, once it can."""
        try:
            code = self.holder.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Wrong("the holder does not end") from None
        if code not in codes:
            what = Unwell if code == LOST else Wrong
            raise what(f"the holder ended with {code}, not {codes}: {self.errors('holder')}")


# ---- The accidents: what happens once both are there --------------------------------------------


def kill_holdfast(trial):
    trial.send(signal.SIGKILL, trial.holder.pid)
    trial.expect_order()


def stop_holdfast(trial):
    trial.send(signal.SIGSTOP, trial.holder.pid)
    trial.expect_order()
    trial.send(signal.SIGCONT, trial.holder.pid)
    trial.expect_end(LOST)


def kill_command(trial):
    trial.send(signal.SIGKILL, trial.child)
    trial.expect_order()
    trial.expect_end(-signal.SIGKILL)


def stop_command(trial):
    """holdfast is well and goes on renewing: nobody else gets it until the command is over."""
    trial.send(signal.SIGSTOP, trial.child)
    trial.pause(1.3)
    trial.send(signal.SIGCONT, trial.child)
    trial.send(signal.SIGKILL, trial.child)
    trial.expect_order()
    trial.expect_end(-signal.SIGKILL)


def kill_both(trial):
    trial.send(signal.SIGKILL, trial.holder.pid, trial.child)
    trial.expect_order()


def stop_both(trial):
    trial.send(signal.SIGSTOP, trial.holder.pid, trial.child)
    trial.expect_order()
    trial.send(signal.SIGCONT, trial.holder.pid)
    trial.expect_end(LOST)


def kill_guard(trial):
    trial.send(signal.SIGKILL, trial.guard)
    trial.expect_order()
    trial.expect_end(-signal.SIGKILL)


def stop_guard(trial):
    """What the guard cannot do, holdfast does once it is told to end."""
    trial.send(signal.SIGSTOP, trial.guard)
    trial.pause(1.3)
    trial.send(signal.SIGKILL, trial.child)
    trial.pause(0.5)
    trial.send(signal.SIGCONT, trial.guard)
    trial.expect_order()
    trial.expect_end(-signal.SIGKILL)


def stop_guard_and_holdfast(trial):
    """Beyond help: this one must go wrong."""
    trial.send(signal.SIGSTOP, trial.guard, trial.holder.pid)
    until(lambda: trial.is_granted() and trial.beats_since_grant() >= 0, "a beat after the grant")
    trial.expect_order()


def moved_clock(side, seconds):
    """The calendar of one side jumps; nothing may come of it. Then the holder is stopped."""

    def accident(trial):
        trial.clocks[side].move(seconds)
        trial.pause(1.3)
        stop_holdfast(trial)

    accident.side = side
    return accident


KINDS = {
    "holdfast is killed": kill_holdfast,
    "holdfast is stopped past the ttl": stop_holdfast,
    "the command is killed": kill_command,
    "the command is stopped past the ttl": stop_command,
    "holdfast and the command are killed": kill_both,
    "holdfast and the command are stopped past the ttl": stop_both,
    "the guard is killed": kill_guard,
    "the guard is stopped past the ttl": stop_guard,
    "the holder's clock goes a day forward": moved_clock("holder", DAY),
    "the holder's clock goes a day back": moved_clock("holder", -DAY),
    "the waiter's clock goes a day forward": moved_clock("waiter", DAY),
    "the waiter's clock goes a day back": moved_clock("waiter", -DAY),
}


def conduct(trial, accident):
    """What went wrong, or None."""
    try:
        if hasattr(accident, "side"):
            trial.give_clock(accident.side)
        trial.begin()
        trial.pause(trial.random.random() / 2)
        accident(trial)
        return None
    except (Wrong, OSError) as wrong:
        trial.unwell, trial.slow = isinstance(wrong, Unwell), trial.was_too_slow()
        return f"{trial.name}: {wrong}"
    finally:
        trial.close()


def one_trial(url, accident, name, environment):
    return conduct(Trial(url, name, environment), accident)


def settled_trial(url, accident, name, environment):
    """A trial whose holder lost its lease before anything happened to it, because requests were slow,
    has shown nothing: then once more, a few times."""
    for _ in range(ATTEMPTS):
        trial = Trial(url, name, environment)
        wrong = conduct(trial, accident)
        if not (wrong and trial.unwell and trial.slow):
            break
    return wrong


def trials(url, kind, count, environment=None, at_once=20):
    """Runs them, `at_once` side by side. `{folder}` in the URL is a folder that each trial has to
    itself. Returns what went wrong."""
    environment = dict(environment or os.environ)
    stem = kind.replace(" ", "-").replace("'", "")
    names = [f"{stem}/{number}" for number in range(count)]
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        results = pool.map(lambda name: settled_trial(url, KINDS[kind], name, environment),
                           names)
        return [wrong for wrong in results if wrong]

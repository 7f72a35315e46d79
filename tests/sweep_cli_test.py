#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sweep_cli_test.py: `sweep` and `sweep status` beside other processes, and over all namespaces.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import json
import signal
import sys
import threading
import time

import cases
from cli_test import LOCAL, equal, it, objects, true, until

cases.cases.clear()

PAST = "2026010100"  # an hour that is over


def enter(s, name, ns="default"):
    """An entry of the expiry index, of a table that is not there: a sweep deletes it."""
    s.run("store", "put", "--force", "-q", f"{ns}/.lease-index/{PAST}/meta/{name}.json", "-", stdin=b"{}")


def entries(s, ns="default"):
    return len(objects(s, f"{ns}/.lease-index/{PAST}/"))


class Traffic:
    """Other processes that change the store, one after the other, until the end of the block."""

    def __init__(self, s, *command):
        self.s, self.command, self.done, self.count = s, command, False, 0
        self.widest = 0.0  # the longest time without a change, on a machine that may be busy
        self.thread = threading.Thread(target=self.work)

    def work(self):
        last = time.monotonic()
        while not self.done:
            self.s.run(*self.command, stdin=b"1")
            self.widest = max(self.widest, time.monotonic() - last)
            last = time.monotonic()
            self.count += 1

    def __enter__(self):
        self.thread.start()
        until(lambda: self.count > 0, "traffic")
        return self

    def __exit__(self, *_):
        self.done = True
        self.thread.join()


class Sweeper:
    """A sweeper in the background; `lines` has what it has told so far."""

    def __init__(self, s, *more):
        self.process = s.start("sweep", "--json", *more)
        self.lines = []
        self.thread = threading.Thread(target=self.read)

    def read(self):
        for line in self.process.stdout:
            self.lines.append(json.loads(line))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.thread.join(20)
        self.process.communicate(timeout=20)


# ---- Beside others ------------------------------------------------------------------------------


@it("an idle sweeper waits until no other process has changed the store for its grace", LOCAL)
def _(s):
    for i in range(3):
        enter(s, f"k{i}")
    with Traffic(s, "key", "update", "busy", "-q", "--take") as traffic:
        with Sweeper(s, "--idle-grace", "1s", "--op-delay", "0ms") as sweeper:
            time.sleep(3)
            told, left = list(sweeper.lines), entries(s)
            if traffic.widest < 0.9:
                equal((told, left), ([], 3), "no run beside the others")
            traffic.done = True
            until(lambda: entries(s) == 0, "the run after the others have ended")


@it("a change by another process stops a run of the idle sweeper within one entry", LOCAL)
def _(s):
    for i in range(12):
        enter(s, f"k{i:02}")
    with Sweeper(s, "--idle-grace", "1s", "--op-delay", "1s") as sweeper:
        until(lambda: entries(s) < 12, "a run has begun")
        s.run("key", "update", "other", "-q", "--take", stdin=b"1")
        left = entries(s)
        until(lambda: sweeper.lines, "it has stopped")
        first = sweeper.lines[0]
        equal((first["stop"], first["stopped_by_activity"]), ("other_process", 1))
        true(entries(s) >= left - 1, (left, entries(s)))
        until(lambda: entries(s) < left - 1, "it has gone on when the store was idle again")


# ---- What the index knows -----------------------------------------------------------------------


@it("acquire with a ttl of 5 minutes or more enters the expiry index, by one request", LOCAL)
def _(s):
    def puts(*command):
        traced = s.run(*command, "--no-wait", "--trace", "--json").stderr.splitlines()
        return [row["key"] for row in map(json.loads, traced) if row["call"] in ("put", "change") and
                row["status"] == "OK"]
    s.run("acquire", "warm", "-q", "--ttl", "1h", "--no-wait")  # records the longest ttl
    for name in ("long", "brief"):
        s.run("acquire", name, "-q", "--ttl", "10s", "--no-wait")
    for name in ("long", "brief"):
        s.run("locks", "break", name, "-q", "--reason", "test")
    equal(puts("acquire", "brief", "--ttl", "4m"), ["default/meta/brief.json"])
    made = puts("acquire", "long", "--ttl", "50m")
    equal((len(made), made[0]), (2, "default/meta/long.json"))
    true(made[1].startswith("default/.lease-index/") and made[1].endswith("/meta/long.json"), made)
    made = puts("key", "acquire", "key", "--ttl", "50m")
    true(made[-1].endswith("/meta/key.json") and made[-1].startswith("default/.lease-index/"), made)


# ---- Namespaces ---------------------------------------------------------------------------------


def status(s, *more):
    return json.loads(s.out("sweep", "status", "--json", *more))


@it("sweep and its status cover all namespaces, and with --ns that one", LOCAL)
def _(s):
    for ns in ("default", "jobs", "zoo"):
        s.run("key", "update", "k", "-q", "--take", "--ns", ns, stdin=b"1")
        enter(s, "k", ns)
    s.put("data/meta/x.json", b"not a namespace")
    s.put("other/thing", b"nor is this")
    equal(status(s)["namespaces"], ["default", "jobs", "zoo"])
    equal((status(s)["due"]["lease_entries"], status(s, "--ns", "zoo")["due"]["lease_entries"]), (3, 1))
    true(b"default, jobs, zoo" in s.out("sweep", "status"), "for people")
    one = s.lines("sweep", "--once", "--ns", "jobs")[0]
    equal((one["ns"], one["namespaces"], one["ops"], one["entries_deleted"]), ("jobs", 1, 1, 1))
    equal([entries(s, ns) for ns in ("default", "jobs", "zoo")], [1, 0, 1])
    both = s.lines("sweep", "--once")[0]
    equal((both["ns"], both["namespaces"], both["ops"], both["entries_deleted"]), (None, 3, 2, 2))
    equal([status(s)["total"]["runs"], status(s, "--ns", "jobs")["total"]["runs"]], [2, 1])
    equal(status(s)["total"]["entries_deleted"], 3)


@it("a run over all namespaces that stops at a cap goes on in the namespace where it stopped", LOCAL)
def _(s):
    for ns in ("a", "b", "c"):
        s.run("key", "update", "k", "-q", "--take", "--ns", ns, stdin=b"1")
        for i in range(2):
            enter(s, f"k{i}", ns)
    for left in ([0, 1, 2], [0, 0, 0]):
        run = s.lines("sweep", "--once", "--max-ops", "3")[0]
        equal((run["ops"], [entries(s, ns) for ns in ("a", "b", "c")]), (3, left))


@it("a full sweep clears leases of every namespace, listing the bucket once", LOCAL)
def _(s):
    for ns in ("default", "jobs"):
        s.run("acquire", "x", "-q", "--ttl", "1s", "--ns", ns, "--no-wait")
    cleared, end = 0, time.monotonic() + 20
    while cleared < 2 and time.monotonic() < end:
        cleared += s.lines("sweep", "--full")[0]["leases_cleared"]
    equal(cleared, 2)
    traced = s.run("sweep", "--full", "--trace", "--json").stderr.splitlines()
    listed = [row for row in map(json.loads, traced) if row["call"] == "list" and row["key"] == ""]
    equal(len(listed), 2, "once for the names, and once for the objects")


# ---- Saying so ----------------------------------------------------------------------------------


@it("an idle sweep says at once what it will do and when; with --json and -q it does not", LOCAL)
def _(s):
    for ns in ("default", "jobs"):
        s.run("key", "update", "k", "-q", "--take", "--ns", ns, stdin=b"1")
    for more, line in (((), b"sweeping namespaces default, jobs; first run in 5m, if the store is "
                            b"idle for that long; stop with Ctrl-C\n"),
                       (("--ns", "jobs", "--idle-grace", "2m"),
                        b"sweeping namespace jobs; first run in 2m, if the store is idle for that "
                        b"long; stop with Ctrl-C\n")):
        sweep = s.start("sweep", *more)
        equal(sweep.stdout.readline(), line)
        sweep.send_signal(signal.SIGINT)
        equal(sweep.communicate(timeout=20), (b"", b""))
    for more in ("--json", "-q"):
        sweep = s.start("sweep", more)
        time.sleep(0.5)
        sweep.send_signal(signal.SIGINT)
        equal(sweep.communicate(timeout=20), (b"", b""))


if __name__ == "__main__":
    sys.exit(cases.main())

#!/usr/bin/env python3
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


if __name__ == "__main__":
    sys.exit(cases.main())

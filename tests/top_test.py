#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""top_test.py: `holdfast top` in a real terminal (tmux), as a person would use it, and without one.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import os
import shlex
import signal
import subprocess
import sys

import cases
import cli_test
import s3_fake
from cli_test import code, equal, it, true, until
from hostile_kit import Lab

cases.cases.clear()


class Terminal:
    """A window of tmux, on a socket of its own, in which the program runs."""

    def __init__(self, s, *words, columns=120, lines=20, environment=()):
        self.socket = s.file("tmux.socket")
        self.done, self.errors = s.file("done"), s.file("errors")
        command = shlex.join(["env", *("%s=%s" % pair for pair in s.env.items()), *environment,
                              cli_test.PROGRAM, "top", *words])
        self.tmux("new-session", "-d", "-c", s.path, "-x", str(columns), "-y", str(lines),
                  "%s 2>%s; echo $? >%s" % (command, shlex.quote(self.errors),
                                            shlex.quote(self.done)))

    def tmux(self, *words, check=True):
        run = subprocess.run(["tmux", "-f", "/dev/null", "-S", self.socket, *words], check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        true(not check or run.returncode == 0,
             "tmux %s: %s\n%s" % (words[0], run.stderr, self.end()))
        return run.stdout

    def end(self):
        """How the program ended, if it did, for a message."""
        told = [open(path, errors="replace").read() if os.path.exists(path) else ""
                for path in (self.done, self.errors)]
        return "the program ended with '%s' and said: %s" % tuple(told)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server", check=False)

    def text(self):
        return self.tmux("capture-pane", "-p", check=False)

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def shows(self, *texts):
        """Waits until all of them are on the screen; returns its lines."""
        seen = [""]

        def found():
            seen[0] = self.text()
            return all(text in seen[0] for text in texts)
        try:
            until(found, "%r on the screen" % (texts,))
        except AssertionError as error:
            raise AssertionError("%s, which shows:\n%s\n%s" % (error, seen[0], self.end())) from None
        return seen[0].splitlines()

    def ends(self, status=0):
        until(lambda: os.path.exists(self.done) and os.path.getsize(self.done) > 0, "it ends")
        with open(self.done, encoding="ascii") as file:
            equal(int(file.read()), status)


def hold(s, name, *words):
    s.run("acquire", name, "--ttl", "10m", *words)


@it("a lock appears and vanishes while top shows the store", ["sqlite", "dir"])
def _(s):
    hold(s, "first")
    with Terminal(s, "--interval", "100ms") as terminal:
        terminal.shows("1 held, 0 waiting", "first")
        lease = s.out("acquire", "second", "--ttl", "10m", "--holder", "someone").decode().strip()
        terminal.shows("2 held", "second", "someone")
        s.run("release", lease)
        until(lambda: "second" not in terminal.text(), "it is gone")
        terminal.shows("1 held")
        terminal.keys("q")
        terminal.ends()


@it("panes, order, filter, pause and help answer to their keys", ["sqlite"])
def _(s):
    for number in range(30):
        hold(s, "job-%02d" % number, "--holder", "worker-%d" % (number % 3))
    with Terminal(s, "--interval", "100ms") as terminal:
        terminal.shows("30 held", "job-00", "rows 1 to 15 of 30")
        terminal.keys("End")
        terminal.shows("job-29", "rows 16 to 30 of 30")
        terminal.keys("Home", "r")
        terminal.shows("by name, reversed", "job-29")
        terminal.keys("r", "/", "w", "o", "r", "k", "e", "r", "-", "1", "Enter")
        lines = terminal.shows("filter: worker-1", "job-01")
        true(not any("worker-2" in line for line in lines), lines)
        terminal.keys("Escape")
        terminal.shows("rows 1 to 15 of 30")
        terminal.keys("2")
        terminal.shows("LONGEST HELD", "worker-2")
        terminal.keys("3")
        terminal.shows("there is no such partition")
        terminal.keys("4")
        terminal.shows("REQUESTS OF THIS PROGRAM", "list")
        terminal.keys("1", "p")
        terminal.shows("paused")
        hold(s, "another")
        terminal.keys("/", "a", "n", "o", "Enter")
        terminal.shows("nothing matches the filter", "30 held")
        terminal.keys("p")
        terminal.shows("another", "31 held")
        terminal.keys("?")
        terminal.shows("Esc removes it")
        terminal.keys("q")
        terminal.ends()


@it("merges and indexes are shown", ["sqlite"])
def _(s):
    s.run("compact", "create", "-q", "--format", "csv", "--key", "id", "--partition", "events")
    s.write("a.csv", b"id,v\n1,2\n")
    s.run("compact", "ingest", "-q", "--partition", "events", "a.csv")
    s.run("index", "create", "-q", "domains", "--key", "domain", "--fields",
          "domain,owner,seen", "--time", "seen")
    with Terminal(s, "--interval", "100ms", "--partition", "events") as terminal:
        terminal.keys("3")
        terminal.shows("partition  events", "1 chunks new", "index      domains", "0 entries wait")


@it("it fits its window, and follows it", ["sqlite"])
def _(s):
    for number in range(9):
        hold(s, "a-name-that-is-not-short-%d" % number)
    with Terminal(s, "--interval", "100ms", columns=40, lines=8) as terminal:
        terminal.shows("9 held", "a-name-that-is-")
        equal(len(terminal.text().splitlines()), 8)
        terminal.tmux("resize-window", "-x", "150", "-y", "24")
        terminal.shows("a-name-that-is-not-short-8", "LEFT")
        terminal.tmux("resize-window", "-x", "10", "-y", "3")
        until(lambda: len(terminal.text().splitlines()) <= 3, "it is small")
        terminal.keys("q")
        terminal.ends()


@it("a damaged table is counted, and the other rows stay", ["dir"])
def _(s):
    hold(s, "first")
    hold(s, "second")
    table = s.file("objects/default/meta/first.json")
    kept = s.read(table)
    with Terminal(s, "--interval", "100ms") as terminal:
        terminal.shows("2 held", "first", "second")
        s.write(table, b"{")
        lines = terminal.shows("1 held", "1 damaged", "second")
        true(not any("first" in line for line in lines), lines)
        s.write(table, kept)
        terminal.shows("2 held", "first")
        terminal.keys("q")
        terminal.ends()


@it("a signal ends it, and the terminal is as before", ["sqlite"])
def _(s):
    hold(s, "first")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with Terminal(s, "--interval", "100ms") as terminal:
            terminal.shows("first")
            (shell,) = terminal.tmux("list-panes", "-F", "#{pane_pid}").split()
            children = subprocess.run(["pgrep", "-P", shell], stdout=subprocess.PIPE, text=True)
            os.kill(int(children.stdout.split()[0]), number)
            terminal.ends()
        os.remove(terminal.done)


@it("it ends after the time that was asked for", ["sqlite"])
def _(s):
    hold(s, "first")
    with Terminal(s, "--for", "300ms") as terminal:
        terminal.ends()


@it("it takes as long a time as other commands, and ends at once if that is 0", ["sqlite"])
def _(s):
    hold(s, "first")
    with Terminal(s, "--for", "0") as terminal:
        terminal.ends()
    s.out("top", "--for", "36500d", "--interval", "30d")


def says(words):
    """Refuses everything, with these words."""
    def lie(connection, _request):
        connection.reply(400, s3_fake.error("InvalidRequest", message=words))
        return True

    return lie


def escape_reason(lab):
    lab.run("store", "probe", "-q")
    lab.bucket.lie = says("\x9b2Jno\x85")
    done = lab.run("top", expect=code(lab, "INVALID"))
    true(rb"\xc2\x9b2Jno\xc2\x85" in done.stderr and b"\x9b" not in done.stderr, done.stderr)


cases.add("what a store says cannot send a control byte to a terminal", escape_reason, Lab)


@it("without a terminal, the locks are printed once", ["sqlite", "dir"])
def _(s):
    hold(s, "first", "--holder", "me")
    hold(s, "second", "--holder", "me")
    text = s.out("top").decode()
    true("2 held, 0 waiting" in text and "first" in text and "second" in text, text)
    true("\x1b" not in text and "quit" not in text, text)
    equal([line for line in s.out("top", "sec").decode().splitlines() if "first" in line], [])


@it("what makes no sense is refused with a sentence, and nothing is created", ["sqlite"])
def _(s):
    for words, status, text in (
            (["--json"], "INVALID", b"top is for people"),
            (["--interval", "1ms"], "INVALID", b"--interval must be at least 50ms"),
            ([], "NOT_FOUND", b"there is no store at")):
        done = s.run("top", *words, expect=code(s, status))
        true(text in done.stderr, done.stderr)
        equal(done.stdout, b"")
    true(not os.path.exists(s.file("objects.db")), "nothing is created")
    hold(s, "first")
    done = s.run("top", "what:", expect=code(s, "INVALID"))
    equal(done.stdout, b"")
    with Terminal(s, environment=["TERM=no-such-terminal"]) as terminal:
        terminal.ends(code(s, "UNSUPPORTED"))
        true(b"kind of terminal is not known" in s.read("errors"), s.read("errors"))


if __name__ == "__main__":
    sys.exit(cases.main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run_test.py: `holdfast run`, as a person or a script would use it.

    run_test.py            what it does
    run_test.py trials N   N trials of each accident (run_trials.py) on sqlite:

Prints TAP. The program's path comes in $HOLDFAST_PROGRAM.
"""

import ctypes
import errno
import json
import os
import pty
import re
import select
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import cases
import json_kit
import run_trials
from cases import equal, true
from run_trials import PROGRAM, until


def it(sentence):
    def register(function):
        cases.add(sentence, function, Scratch)
        return function

    return register


class Scratch:
    """A folder with a store, and the means to run the program there."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="holdfast-run-")
        self.env = {"PATH": os.path.dirname(PROGRAM) + ":" + os.environ["PATH"],
                    "HOME": self.path, "TMPDIR": self.path,
                    "HOLDFAST_STORE": "sqlite:store.db"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        self.started = []

    def close(self):
        for process in self.started:
            process.kill()  # its guard sees to its command
            process.communicate()
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, name):
        return os.path.join(self.path, name)

    def read(self, name):
        try:
            with open(self.file(name), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def start(self, *args, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([PROGRAM, "run", *args], cwd=self.path, env=self.env,
                                   **options)
        self.started.append(process)
        return process

    def run(self, *args, expect=0, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        if "input" in options:
            del options["stdin"]
        done = subprocess.run([PROGRAM, "run", *args], cwd=self.path, env=self.env, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        json_kit.check(["run", *args], done.stdout, done.stderr)
        equal(done.returncode, expect, f"{args}: {done.stderr.decode(errors='replace')}")
        return done

    def out(self, *args, **options):
        done = self.run(*args, **options)
        equal(done.stderr, b"", "nothing on stderr")
        return done.stdout.decode()

    def hold(self, *args, script=":"):
        """A holder that has the lock, runs the script and then ends when it reads a line."""
        process = self.start(*args, "--", "sh", "-c", f"echo held; {script}; read -r x; exit 0",
                             stdin=subprocess.PIPE)
        equal(process.stdout.readline(), b"held\n", "the holder")
        return process

    def let_go(self, process, expect=0):
        process.stdin.write(b"\n")
        process.stdin.flush()
        equal(process.wait(30), expect)


def codes():
    table = json.loads(subprocess.run([PROGRAM, "help", "--json"], stdout=subprocess.PIPE,
                                      check=True).stdout)
    return {row["status"]: row["exit_code"] for row in table["statuses"]}


CODES = codes()


# ---- The command --------------------------------------------------------------------------------


@it("the exit status of the command is passed on")
def _(s):
    for code in (0, 1, 42, 255):
        s.run("x", "--", "sh", "-c", f"exit {code}", expect=code)


@it("a signal that the command dies of is what holdfast dies of, and it leaves no core")
def _(s):
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGUSR1):
        s.run("x", "--", "sh", "-c", f"kill -{int(number)} $$", expect=-number)
    equal([name for name in os.listdir(s.path) if name.startswith("core")], [])


@it("stdin, stdout and stderr are the command's")
def _(s):
    done = s.run("x", "--", "sh", "-c", "tr a-z A-Z; echo oops >&2", input=b"hello\n")
    equal((done.stdout, done.stderr), (b"HELLO\n", b"oops\n"))
    big = os.urandom(1 << 20)
    equal(s.run("x", "cat", input=big).stdout, big)


@it("a run on an sqlite store waits for the disk twice: for the grant, and for the release")
def _(s):
    s.run("x", "--", "true")  # creates the store
    s.env["LD_PRELOAD"] = os.path.join(os.environ["HOLDFAST_TEST_PROGRAMS"], "libsyncs.so")
    s.env["HOLDFAST_TEST_SYNCS"] = s.file("syncs")
    for runs in (1, 2, 3):
        s.run("x", "--", "true")
        equal(len(s.read("syncs")), 2 * runs)


@it("the command finds its token and lease in its environment, and the tokens rise")
def _(s):
    seen = []
    for _ in range(3):
        token, lease = s.out("x", "--", "sh", "-c",
                             'echo "$HOLDFAST_TOKEN $HOLDFAST_LEASE"').split()
        true(lease.startswith(token + ":"), lease)
        seen.append(int(token))
    true(seen[0] < seen[1] < seen[2], seen)
    del s.env["HOLDFAST_STORE"]
    equal(s.out("--store", "dir:other", "x", "--", "sh", "-c", 'echo "$HOLDFAST_STORE"'),
          f"dir:{s.path}/other\n")
    equal(s.out("x", "--", "sh", "-c", 'echo "$HOLDFAST_STORE"'),
          f"sqlite:{s.path}/.local/state/holdfast/store.db\n", "the default store")


@it("what follows the command is the command's own, with or without dashes between")
def _(s):
    equal(s.out("x", "echo", "-n", "--json", "--", "a"), "--json -- a")
    equal(s.out("x", "--", "echo", "--wait", "--"), "--wait --\n")
    equal(s.out("--quiet", "x", "--ttl", "5s", "--", "echo", "a"), "a\n")
    done = s.run("x", expect=CODES["INVALID"])
    true(b"COMMAND is missing" in done.stderr, done.stderr)


@it("a program that is not there is 127, one that cannot be run 126, each with a sentence")
def _(s):
    done = s.run("x", "no-such-program", expect=127)
    equal(done.stderr, b"holdfast: run x: NOT_FOUND: there is no program 'no-such-program'\n")
    done = s.run("x", "./no-such-file", expect=127)
    true(b"cannot run './no-such-file': No such file" in done.stderr, done.stderr)
    with open(s.file("plain"), "w", encoding="utf-8") as file:
        file.write("text")
    done = s.run("x", "./plain", expect=126)
    true(b"DENIED" in done.stderr and done.stderr.count(b"\n") == 1, done.stderr)
    told = json.loads(s.run("--json", "x", "./plain", expect=126).stderr)
    equal((told["status"], told["command"]), ("DENIED", "run x"))
    s.out("--no-wait", "x", "true")


def forbid_vfork():
    """From now on vfork fails with EAGAIN, as it does at a limit on the number of processes."""
    allow, refuse = 0x7fff0000, 0x00050000 | errno.EAGAIN
    vfork, clone = {"x86_64": (58, 56), "aarch64": (-1, 220)}[os.uname().machine]
    steps = [(0x20, 0, 0, 0),  # the number of the system call
             (0x15, 3, 0, vfork & 0xffffffff), (0x15, 0, 3, clone),
             (0x20, 0, 0, 16), (0x45, 0, 1, 0x4000),  # CLONE_VFORK among its flags
             (0x06, 0, 0, refuse), (0x06, 0, 0, allow)]
    steps = b"".join(struct.pack("=HBBI", *step) for step in steps)
    room = ctypes.create_string_buffer(steps, len(steps))
    program = struct.pack("HP", len(steps) // 8, ctypes.addressof(room))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in ((38, 1, 0, 0, 0), (22, 2, program, 0, 0)):  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
        if libc.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {call[0]}")


@it("a command that was never started is 126, whatever has kept it from starting")
def _(s):
    for args in ([], ["-q"], ["--once-per", "1h"]):
        done = s.run(*args, "x", "touch", "ran", expect=126, preexec_fn=forbid_vfork)
        true(b"cannot run 'touch': Resource temporarily unavailable" in done.stderr, done.stderr)
    true(not os.path.exists(s.file("ran")), "it was not started")
    s.out("--no-wait", "--once-per", "1h", "x", "true")


@it("signals stay ignored that were, and others have their usual meaning")
def _(s):
    script = "grep -E '^Sig(Blk|Ign)' /proc/self/status"

    def sets(**options):
        text = s.run("x", "--", "sh", "-c", script, **options).stdout.decode()
        return [int(line.split()[1], 16) for line in text.splitlines()]

    def ignore():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    blocked, ignored = sets()
    equal(blocked, 0)
    blocked, more = sets(preexec_fn=ignore)
    equal(more, ignored | 1 << (signal.SIGHUP - 1) | 1 << (signal.SIGINT - 1))


# ---- Signals ------------------------------------------------------------------------------------

LISTENER = ("trap 'echo usr1' USR1; trap 'echo hup' HUP; trap 'echo term; exit 7' TERM; "
            "echo ready; while :; do sleep 0.02; done")


@it("signals to holdfast reach the command, and the command decides")
def _(s):
    process = s.start("x", "--", "sh", "-c", LISTENER)
    for send, wanted in ((None, b"ready\n"), (signal.SIGUSR1, b"usr1\n"),
                         (signal.SIGHUP, b"hup\n"), (signal.SIGTERM, b"term\n")):
        if send:
            process.send_signal(send)
        equal(process.stdout.readline(), wanted)
    equal(process.wait(30), 7)
    s.out("--no-wait", "x", "true")


@it("a command that dies of the signal takes holdfast with it, and the lock is free")
def _(s):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        process = s.start("x", "--", "sh", "-c", "ulimit -c 0; echo ready; exec sleep 1000")
        equal(process.stdout.readline(), b"ready\n")
        process.send_signal(number)
        equal(process.wait(30), -number)
        s.out("--no-wait", "x", "true")


def read_terminal(fd, wanted, text=b""):
    end = time.monotonic() + 30
    while wanted not in text:
        if not select.select([fd], [], [], max(0, end - time.monotonic()))[0]:
            raise AssertionError(f"{wanted!r} did not come: {text!r}")
        text += os.read(fd, 4096)
    return text


def on_terminal(s, *args):
    """Starts the program as the leader of a terminal's session."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(s.path)
        os.execve(PROGRAM, [PROGRAM, "run", *args], s.env)
    return pid, fd


@it("Ctrl-C on a terminal reaches the command once")
def _(s):
    pid, fd = on_terminal(s, "x", "--", "sh", "-c",
                          "trap 'echo interrupted' INT; trap 'exit 9' USR1; echo ready; "
                          "while :; do sleep 0.02; done")
    text = read_terminal(fd, b"ready")
    os.write(fd, b"\x03")
    text = read_terminal(fd, b"interrupted", text)
    os.kill(pid, signal.SIGUSR1)
    while True:
        try:
            piece = os.read(fd, 4096)
        except OSError:
            break
        text += piece
        if not piece:
            break
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 9)
    os.close(fd)
    equal(text.count(b"interrupted"), 1, text)


@it("a job that is stopped and continued in time goes on")
def _(s):
    process = s.start("x", "--", "sh", "-c", "echo ready; read -r x; exit 3",
                      stdin=subprocess.PIPE, start_new_session=True)
    equal(process.stdout.readline(), b"ready\n")
    os.killpg(process.pid, signal.SIGSTOP)
    until(lambda: run_state(process.pid) == "T", "the stop")
    os.killpg(process.pid, signal.SIGCONT)
    s.let_go(process, 3)


def run_state(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0]


# ---- The lock -----------------------------------------------------------------------------------


@it("who does not want to wait is told who holds it")
def _(s):
    holder = s.hold("--holder", "anna", "x")
    done = s.run("--no-wait", "x", "true", expect=CODES["HELD"])
    true(re.match(rb"holdfast: run x: HELD: x has been held by anna \(token \d+\) for \d+m?s; [^\n]*\n$",
                  done.stderr), done.stderr)
    done = s.run("--wait", "300ms", "x", "true", expect=CODES["TIMEOUT"])
    true(re.match(rb"holdfast: run x: TIMEOUT: gave up waiting: x has been held by anna", done.stderr), done.stderr)
    s.out("--no-wait", "y", "true")
    s.out("--no-wait", "--ns", "other", "x", "true")
    s.let_go(holder)


@it("who waits gets it when it is released, and nothing overlaps")
def _(s):
    holder = s.hold("x")
    waiters = [s.start("x", "--", "sh", "-c", "mkdir busy && sleep 0.02 && rmdir busy")
               for _ in range(5)]
    s.let_go(holder)
    for waiter in waiters:
        equal(waiter.wait(30), 0, waiter.stderr.read())


@it("shared holders share, slots have a number, scopes conflict as they should")
def _(s):
    first = s.hold("--mode", "shared", "x")
    s.out("--no-wait", "--mode", "shared", "x", "true")
    s.run("--no-wait", "x", "true", expect=CODES["HELD"])
    s.let_go(first)
    slots = [s.hold("--slots", "2", "pool") for _ in range(2)]
    s.run("--no-wait", "--slots", "2", "pool", "true", expect=CODES["HELD"])
    s.let_go(slots[0])
    s.out("--no-wait", "--slots", "2", "pool", "true")
    s.let_go(slots[1])
    tree = s.hold("tree:/a")
    s.run("--no-wait", "path:/a/b", "true", expect=CODES["HELD"])
    s.out("--no-wait", "path:/b", "true")
    s.let_go(tree)


@it("locks nest, and a run inside of a run of the same lock runs under its lease")
def _(s):
    tell = 'echo "$HOLDFAST_LEASE $HOLDFAST_TOKEN $HOLDFAST_STORE"'
    equal(s.out("a", "holdfast", "run", "b", "--", "echo", "inside"), "inside\n")
    for outer, inner in (([], []), (["--ns", "n"], ["--ns", "n"]), (["--mode", "shared"], ["--mode", "shared"]),
                         ([], ["--mode", "shared"]), (["--slots", "2"], ["--slots", "2"]), ([], ["--slots", "3"])):
        name = f"x{len(outer)}{len(inner)}" + "".join(outer + inner).replace("-", "")
        twice = s.out(*outer, name, "--", "sh", "-c",
                      f"{tell}; exec holdfast run {' '.join(inner)} --no-wait {name} -- sh -c '{tell}'")
        true(len(set(twice.splitlines())) == 1, twice)
    deep = s.out("a", "--", "holdfast", "run", "b", "--", "sh", "-c",
                 f"echo $HOLDFAST_LEASE; holdfast run --no-wait named:a -- sh -c '{tell}'").split()
    true("/b.json" in deep[0] and "/a.json" in deep[1] and deep[1].startswith(deep[2] + ":"), deep)
    equal(s.run("a", "holdfast", "run", "a", "sh", "-c", "exit 7", expect=7).stderr, b"")
    store = s.out("a", "sh", "-c", 'store=$HOLDFAST_STORE; export HOLDFAST_STORE=dir:other; exec holdfast --store '
                  '"$store" run --no-wait a -- sh -c \'echo $HOLDFAST_STORE\'')
    equal(store, s.out("a", "sh", "-c", "echo $HOLDFAST_STORE"), "the store of the inner run")
    s.run("a", "holdfast", "run", "a", "sh", "-c", "kill -USR1 $$", expect=-signal.SIGUSR1)
    done = s.run("a", "holdfast", "run", "a", "no-such-program", expect=127)
    equal(done.stderr, b"holdfast: run a: NOT_FOUND: there is no program 'no-such-program'\n")
    s.run("a", "sh", "-c", "holdfast run a -- sleep 60 & sleep 0.2")
    s.out("--no-wait", "a", "true")


@it("a run inside of a run waits for itself if it is told to, and not if its mode is another one")
def _(s):
    s.run("a", "holdfast", "run", "--no-inherit", "--no-wait", "a", "true", expect=CODES["HELD"])
    for outer, inner, wanted in ((["--mode", "shared"], [], b"mode shared"),
                                 (["--slots", "2"], ["--slots", "3"], b"mode slots"),
                                 (["--slots", "2"], ["--mode", "shared"], b"mode slots"),
                                 ([], ["--once-per", "1h"], b"--once-per needs a lease of its own")):
        done = s.run(*outer, "a", "holdfast", "run", *inner, "--wait", "forever", "a", "true",
                     expect=CODES["HELD"])
        true(b"the run around this one holds it" in done.stderr and wanted in done.stderr, done.stderr)
    s.run("--mode", "shared", "a", "holdfast", "run", "-E", "7", "a", "true", expect=7)


@it("an environment that is forged, copied or stale gives nobody a lock")
def _(s):
    holder = s.hold("x", script="env | grep HOLDFAST_ > new; mv new theirs")
    until(lambda: s.read("theirs"), "its environment")
    theirs = dict(line.split("=", 1) for line in s.read("theirs").splitlines())
    inner = ["holdfast", "run", "--no-wait", "x", "true"]
    ours = dict(s.env)
    s.env.update(theirs)  # of a process that is not our ancestor
    s.run("--no-wait", "x", "true", expect=CODES["HELD"])
    s.env = ours
    lease = f"HOLDFAST_LEASE={theirs['HOLDFAST_LEASE']}"
    s.run("y", "env", lease, *inner, expect=CODES["HELD"])
    for guard in (theirs["HOLDFAST_GUARD"], "1:3", "x", ":", f"{os.getpid()}:0", "9" * 30, "$PPID:0", "$PPID:1",
                  "$PPID:$HOLDFAST_TOKEN", ",,,", "0:0", "-1:-1"):
        s.run("y", "sh", "-c", f'{lease} HOLDFAST_GUARD={guard} exec "$@"', "sh", *inner, expect=CODES["HELD"])
    s.run("x", "--store", "sqlite:other.db", *inner[:2], "--store", "sqlite:store.db", *inner[2:],
          expect=CODES["HELD"])
    s.run("--ns", "n", "x", *inner, expect=CODES["HELD"])
    s.let_go(holder)
    # The lease of the outer run is broken, and its guard has not noticed yet.
    done = s.run("--ttl", "60s", "x", "sh", "-c", "holdfast locks break -q x --reason test; "
                 "holdfast run x touch ran; echo $? > status; exit 5", expect=CODES["LOST"])
    equal((s.read("status"), os.path.exists(s.file("ran"))), (f"{CODES['LOST']}\n", False))
    true(b"the lease of the run around this one (token" in done.stderr, done.stderr)


@it("the guard does not spin on a processor when a command with threads ends")
def _(s):
    holder = s.hold("x")
    before = cases.processor_time()[1]
    for _ in range(8):
        s.run("y", "holdfast", "run", "--no-wait", "x", "true", expect=CODES["HELD"])
    spent = cases.processor_time()[1] - before
    s.let_go(holder)
    true(spent < 0.9, f"{spent:.2f} s of system time")


@it("once per period it runs, wherever it is started, unless it failed")
def _(s):
    s.run("--once-per", "1h", "job", "false", expect=1)
    s.run("--once-per", "1h", "job", "no-such-program", expect=127)
    equal(s.out("--once-per", "1h", "job", "echo", "ran"), "ran\n")
    done = s.run("--once-per", "1h", "job", "echo", "ran", expect=CODES["ALREADY"])
    equal(done.stdout, b"")
    equal(done.stderr.count(b"\n"), 1, done.stderr)
    equal(s.run("-q", "--once-per", "1h", "job", "true", expect=CODES["ALREADY"]).stderr, b"")
    equal(s.out("--once-per", "1us", "job", "echo", "again"), "again\n")
    equal(s.out("job", "echo", "always"), "always\n")


@it("a success that could not be recorded is not reported as one, and never in silence")
def _(s):
    process = s.hold("-q", "--ttl", "10s", "--once-per", "1h", "job")
    blocker = sqlite3.connect(s.file("store.db"), isolation_level=None, timeout=30)
    blocker.execute("BEGIN EXCLUSIVE")
    process.stdin.write(b"\n")
    process.stdin.flush()
    status = process.wait(60)
    blocker.execute("ROLLBACK")
    blocker.close()
    text = process.stderr.read()
    wanted = {CODES["UNREPORTED"]: b"UNREPORTED", CODES["UNSURE"]: b"UNSURE", CODES["LOST"]: b"LOST"}
    true(wanted[status] in text and (b"--once-per" in text or status == CODES["LOST"]), (status, text))


@it("a period counts from when the run began, so that a job of cron runs every time")
def _(s):
    begun = time.monotonic()
    s.run("--once-per", "5s", "job", "sh", "-c", "touch began; sleep 2")
    if time.monotonic() - begun < 4:
        s.run("--once-per", "5s", "job", "true", expect=CODES["ALREADY"])
    # The period began at the grant, somewhat before the command did.
    time.sleep(max(0, os.stat(s.file("began")).st_mtime + 5.1 - time.time()))
    equal(s.out("--once-per", "5s", "job", "echo", "again"), "again\n")
    s.run("--once-per", "1h", "job", "true", expect=CODES["ALREADY"])
    time.sleep(1.1)
    equal(s.out("--once-per", "1h", "--slack", "59m59s", "job", "echo", "early"), "early\n")
    s.run("--slack", "1s", "job", "true", expect=CODES["INVALID"])
    s.run("--once-per", "1h", "--slack", "1h", "job", "true", expect=CODES["INVALID"])


@it("three hundred others of the same table do not make it forget")
def _(s):
    s.env["HOLDFAST_STORE"] = "sqlite:store.db?sync=off"
    s.run("--once-per", "1h", "path:/a", "true")
    for i in range(300):
        s.run("--once-per", "1h", f"path:/{i}", "true")
    s.run("--once-per", "1h", "path:/a", "true", expect=CODES["ALREADY"])


@it("of many that start at once, one runs in the period")
def _(s):
    many = [s.start("--once-per", "1h", "job", "sh", "-c", "echo ran >> log") for _ in range(10)]
    ends = sorted(process.wait(60) for process in many)
    equal(ends, [0] + 9 * [CODES["ALREADY"]])
    equal(s.read("log"), "ran\n")


@it("options that make no sense are refused before anything happens")
def _(s):
    for args in (["--ttl", "999ms"], ["--mode", "both"], ["--slots", "0"], ["--ttl", "30"],
                 ["--wait", "1s", "--no-wait"], ["--mode", "shared", "--slots", "2"],
                 ["--ttl", "1000h"], ["--ns", "Upper"]):
        done = s.run(*args, "x", "touch", "ran", expect=CODES["INVALID"])
        equal(done.stderr.count(b"\n"), 1, done.stderr)
    s.run("No Such Name", "touch", "ran", expect=CODES["INVALID"])
    true(not os.path.exists(s.file("ran")), "nothing ran")


# ---- While waiting ------------------------------------------------------------------------------


@it("a signal ends the wait, and whoever waits behind is not held up")
def _(s):
    holder = s.hold("x")
    for number in (signal.SIGINT, signal.SIGTERM):
        waiter = s.start("x", "touch", "ran")
        until(lambda: queue_length(s) == 1, "the waiter")
        second = s.start("x", "touch", f"second-{number}")
        until(lambda: queue_length(s) == 2, "the second waiter")
        waiter.send_signal(number)
        equal(waiter.wait(30), -number)
        equal(waiter.stderr.read(), b"")
        s.let_go(holder)
        equal(second.wait(30), 0)
        holder = s.hold("x")
    s.let_go(holder)
    true(not os.path.exists(s.file("ran")), "the command was not started")


def queue_length(s):
    table = subprocess.run([PROGRAM, "store", "get", "default/meta/x.json"], cwd=s.path,
                           env=s.env, stdout=subprocess.PIPE, check=True).stdout
    return len(json.loads(table).get("waiters", []))


@it("on a terminal it says for whom it waits, and takes that away again")
def _(s):
    holder = s.hold("--holder", "anna", "deploy")
    pid, fd = on_terminal(s, "deploy", "--", "echo", "done")
    text = read_terminal(fd, b"waiting: deploy has been held by anna (token ")
    s.let_go(holder)
    text = read_terminal(fd, b"done\r\n", text)
    equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
    os.close(fd)
    shown = text.split(b"done")[0].split(b"\r")
    equal(shown[-2].strip(), b"", f"blanks over it at the end: {text!r}")


# ---- Ends ---------------------------------------------------------------------------------------


@it("what the command leaves running is ended before the lock is released")
def _(s):
    code = s.start("--ttl", "2s", "x", "--", "sh", "-c",
                   "setsid sh -c 'trap \"\" TERM; echo $$ > left; exec sleep 1000' & "
                   "while [ ! -s left ]; do sleep 0.01; done; exit 4",
                   stdout=subprocess.DEVNULL).wait(30)
    equal(code, 4)
    true(not os.path.exists(f"/proc/{s.read('left').strip()}"), "it is gone")
    s.out("--no-wait", "x", "true")


@it("a lease that cannot be renewed ends the command by TERM, and the status is LOST")
def _(s):
    process = s.start("--ttl", "2s", "x", "--", "sh", "-c",
                      "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.02; done")
    equal(process.stdout.readline(), b"ready\n")
    blocker = sqlite3.connect(s.file("store.db"), isolation_level=None, timeout=30)
    blocker.execute("BEGIN EXCLUSIVE")
    equal(process.stdout.readline(), b"asked\n")
    blocker.execute("ROLLBACK")
    blocker.close()
    equal(process.wait(60), CODES["LOST"])
    lines = process.stderr.read().decode().splitlines()
    # The shell's own word about its child may come before or between them.
    warned = any("could not be renewed; unless" in line for line in lines[:-1])
    true(warned and "LOST" in lines[-1], lines)


@it("a lease that is broken ends the command, and the status is LOST")
def _(s):
    process = s.start("--ttl", "2s", "x", "--", "sh", "-c", "echo ready; exec sleep 1000")
    equal(process.stdout.readline(), b"ready\n")
    subprocess.run([PROGRAM, "locks", "break", "x", "--reason", "a test"], cwd=s.path, env=s.env,
                   stdout=subprocess.DEVNULL, check=True)
    s.out("--no-wait", "x", "true")
    equal(process.wait(30), CODES["LOST"])
    true(b"LOST" in process.stderr.read(), "a sentence")


@it("a store that is silent for less than the lease lasts is no matter")
def _(s):
    process = s.hold("--ttl", "6s", "x")
    blocker = sqlite3.connect(s.file("store.db"), isolation_level=None, timeout=30)
    blocker.execute("BEGIN EXCLUSIVE")
    end = time.monotonic() + 3
    while time.monotonic() < end:
        equal(process.poll(), None, "it goes on")
        time.sleep(0.05)
    blocker.execute("ROLLBACK")
    blocker.close()
    s.let_go(process)


@it("the lock of a run that is killed is free once its last descendant is dead, and not before")
def _(s):
    # Asked to end, the descendant takes its time.
    process = s.start("--ttl", "30s", "x", "--", "sh", "-c",
                      "setsid sh -c 'trap \"sleep 1; echo gone >> order; exit\" TERM; echo up >> order; "
                      "while :; do sleep 0.02; done' & exec sleep 1000", stdout=subprocess.DEVNULL)
    until(lambda: s.read("order"), "the descendant")
    waiter = s.start("--wait", "20s", "x", "--", "sh", "-c", "echo granted >> order",
                     stdout=subprocess.DEVNULL)
    until(lambda: json.loads(subprocess.run([PROGRAM, "locks", "show", "x", "--json"], cwd=s.path,
                                            env=s.env, stdout=subprocess.PIPE,
                                            check=True).stdout)["queue"], "in line")
    begun = time.monotonic()
    process.kill()
    equal(waiter.wait(30), 0)
    took = time.monotonic() - begun
    equal(s.read("order").split(), ["up", "gone", "granted"])
    true(took < 10, f"it took {took:.1f} s, with a ttl of 30 s")
    true(b"its guard ended the command and releases the lock" in process.stderr.read(), "a word")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


@it("the lock of a command that cannot be ended is not released")
def _(s):
    # Without this capability, not even root may signal a process of another user.
    process = subprocess.Popen(
        ["setpriv", "--bounding-set", "-kill", "--inh-caps", "-kill", PROGRAM, "run", "--ttl", "60s", "x", "--",
         "setpriv", "--reuid", "65534", "--clear-groups", "sh", "-c", "echo $$; exec sleep 1000 >/dev/null 2>&1"],
        cwd=s.path, env=s.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    s.started.append(process)
    command = int(process.stdout.readline())
    try:
        (guard,) = children(process.pid)
        os.kill(guard, signal.SIGKILL)
        equal(process.wait(30), CODES["LOST"])
        said = process.stderr.read()
        true(b"could not be ended in time; the lock was not released" in said and b"were ended" not in said, said)
        equal(run_state(command), "S", "the command")
        s.run("--no-wait", "x", "true", expect=CODES["HELD"])
    finally:
        os.kill(command, signal.SIGKILL)


@it("USR1 that comes after the command has ended does not end holdfast")
def _(s):
    for _ in range(5):
        process = s.start("x", "--", "sh", "-c", "trap '' USR1; echo up; sleep 0.1")
        equal(process.stdout.readline(), b"up\n")
        while process.poll() is None:
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.0002)
        equal(process.returncode, 0)


@it("a run inside of a run starts its command with CHLD ignored, if it was")
def _(s):
    shown = s.out("x", "--", "bash", "-c", "trap '' CHLD; exec holdfast run x -- grep SigIgn /proc/self/status")
    true(int(shown.split()[1], 16) >> (signal.SIGCHLD - 1) & 1, shown)


@it("a lease that cannot be released by the guard ends by itself")
def _(s):
    process = s.hold("--ttl", "3s", "x")
    blocker = sqlite3.connect(s.file("store.db"), isolation_level=None, timeout=30)
    blocker.execute("BEGIN EXCLUSIVE")
    process.kill()
    process.wait(30)
    time.sleep(1)
    blocker.execute("ROLLBACK")
    blocker.close()
    s.run("--wait", "20s", "x", "true")


@it("the lease of a run stands in no argument of any process")
def _(s):
    process = s.hold("--ttl", "30s", "x", script="echo $HOLDFAST_LEASE > lease")
    lease = until(lambda: s.read("lease").strip(), "the lease")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                true(lease.encode() not in file.read(), f"process {pid}")
        except OSError:
            pass
    s.let_go(process)


@it("a guard that is killed is told of, and the lock is released")
def _(s):
    process = s.hold("x", script="echo $PPID > guard")
    guard = int(until(lambda: s.read("guard").strip(), "the guard"))
    os.kill(guard, signal.SIGKILL)
    equal(process.wait(30), -signal.SIGKILL)
    true(b"guard process was killed" in process.stderr.read(), "a sentence")
    s.out("--no-wait", "x", "true")


def in_bash(s, script):
    """Runs a script whose last command replaces the shell, so that its other children are holdfast's."""
    return subprocess.run(["bash", "-c", script], cwd=s.path, env=s.env, stdin=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, timeout=60, check=False)


@it("a run that gets no lock leaves the other children of its shell alone, and its words arrive")
def _(s):
    holder = s.hold("--once-per", "1h", "x")
    logged = ("exec > >(cat >log; echo end >>log) 2>&1; sleep 1000 >/dev/null 2>&1 & echo $! >sleeper; "
              "exec holdfast run")
    for args, status in ((["--no-wait"], "HELD"), (["--wait", "300ms"], "TIMEOUT"), (["--once-per", "1h"], "ALREADY")):
        if status == "ALREADY":
            s.let_go(holder)
        done = in_bash(s, f"{logged} {' '.join(args)} x -- true")
        sleeper = int(s.read("sleeper"))
        os.kill(sleeper, signal.SIGKILL)  # it has lived until now
        equal(done.returncode, CODES[status], done.stderr)
        until(lambda: s.read("log").endswith("end\n"), f"the end of the log: {s.read('log')}")
        true(f"holdfast: run x: {status}: " in s.read("log"), s.read("log"))


@it("a nested run, and one whose guard is killed, leave the other children of their shell alone")
def _(s):
    begin = "sleep 1000 >/dev/null 2>&1 & echo $! >sleeper; exec holdfast run"
    s.run("x", "bash", "-c", f"{begin} --no-wait x -- sh -c 'kill -0 $(cat sleeper)'")
    done = in_bash(s, f"{begin} --no-wait y -- sh -c 'kill -KILL $PPID; sleep 1000'")
    os.kill(int(s.read("sleeper")), signal.SIGKILL)
    equal(done.returncode, -signal.SIGKILL)
    true(b"guard process was killed" in done.stderr, done.stderr)


# ---- Accidents ----------------------------------------------------------------------------------

STORE = "sqlite:{folder}/store.db"


@it("a trial notices when the command outlives its lease: both guards are stopped")
def _(s):
    wrong = run_trials.one_trial(STORE, run_trials.stop_guard_and_holdfast, "control",
                                 dict(os.environ))
    true(wrong and ("after the grant" in wrong or "did not come" in wrong), wrong)


def trial_of(kind, count, at_once):
    def test(_):
        wrong = run_trials.trials(STORE, kind, count, at_once=at_once)
        true(not wrong, f"{len(wrong)} of {count}: " + "; ".join(wrong[:5]))

    it(f"when {kind} the command is dead before the next one starts ({count} trials)")(test)


def main(arguments):
    # Ignored where the tests run under nohup, or in the background of a shell.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if arguments:
        cases.cases.clear()
        for kind in run_trials.KINDS:
            trial_of(kind, int(arguments[1]), int((arguments + ["20"])[2]))
    return cases.main()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

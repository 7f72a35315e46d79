#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""s3_cli_test.py: the program on S3, as played by s3_fake.py: on a machine whose clock is wrong, and
what it lets others see of its secrets.

Prints TAP. The program's path comes in $HOLDFAST_PROGRAM.
"""

import datetime
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import calendar_kit
import cases
import json_kit
from cases import equal, true
from run_trials import DAY, PROGRAM, until

SECRET = "hunter2-is-a-secret"
CONFLICT, DENIED, UNSUPPORTED = 82, 85, 87


def it(sentence):
    def register(function):
        cases.add(sentence, function, Scratch)
        return function

    return register


class Scratch:
    """A folder, a stand-in S3, and the means to run the program there."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="holdfast-s3-")
        script = os.path.join(os.environ["HOLDFAST_TESTS"], "s3_fake.py")
        self.fake = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE)
        self.port = int(self.fake.stdout.readline().split()[1])
        self.calendar = None
        self.env = {"PATH": os.path.dirname(PROGRAM) + ":" + os.environ["PATH"],
                    "HOME": self.path, "TMPDIR": self.path,
                    "AWS_ACCESS_KEY_ID": "access", "AWS_SECRET_ACCESS_KEY": SECRET}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        self.started = []

    def close(self):
        for process in self.started:
            process.kill()  # its guard sees to its command
            process.communicate()
        self.fake.communicate()
        shutil.rmtree(self.path, ignore_errors=True)

    def url(self, bucket, host="127.0.0.1"):
        return f"s3://{bucket}?endpoint=http://{host}:{self.port}"

    def file(self, name):
        return os.path.join(self.path, name)

    def seen(self, method, bucket):
        self.fake.stdin.write(f"seen {method} {bucket}\n".encode())
        self.fake.stdin.flush()
        return int(self.fake.stdout.readline())

    def shift_clock(self, seconds):
        """Moves the wall clock of the programs that are started, and of those that run."""
        if not self.calendar:
            self.calendar = calendar_kit.Calendar(self.file("clock"))
            self.env.update(self.calendar.environment())
        self.calendar.move(seconds)

    def start(self, bucket, *args, **options):
        for name, value in {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
                            "stderr": subprocess.PIPE}.items():
            options.setdefault(name, value)
        words = [PROGRAM, "--store", self.url(bucket), *args]
        process = json_kit.Popen(words, cwd=self.path, env=self.env, **options)
        self.started.append(process)
        return process

    def run(self, bucket, *args, expect=0, given=b""):
        done = subprocess.run([PROGRAM, "--store", self.url(bucket), *args], cwd=self.path,
                              env=self.env, input=given, capture_output=True, check=False,
                              timeout=60)
        json_kit.check(args, done.stdout, done.stderr)
        equal(done.returncode, expect, f"{args}: {done.stderr}")
        return done


# ---- Clocks ---------------------------------------------------------------------------------------


@it("a wall clock that jumps by a day while `run` holds a lock changes nothing")
def _(s):
    s.shift_clock(0)
    holder = s.start("clocked", "run", "--ttl", "2s", "job", "--", "env", "-u", "LD_PRELOAD", "sh",
                     "-c", "echo begun >begun; while [ ! -e end ]; do sleep 0.1; done; echo ended")
    until(lambda: os.path.exists(s.file("begun")), "the command")
    for by in (DAY, -DAY):
        s.shift_clock(by)
        end = time.monotonic() + 5  # the lease is renewed several times
        while time.monotonic() < end:
            true(holder.poll() is None, "the command was ended")
            time.sleep(0.05)
    with open(s.file("end"), "w", encoding="utf-8"):
        pass
    out, err = holder.communicate(timeout=30)
    equal((holder.returncode, out, err), (0, b"ended\n", b""))


@it("commands work on a machine whose wall clock is wrong")
def _(s):
    for days in (1, -1, -20 * 365, 20 * 365):
        s.shift_clock(days * DAY)
        text = str(days)
        s.run("clocked", "store", "put", "k", "-", given=text.encode())
        equal(s.run("clocked", "store", "get", "k").stdout, text.encode())
        equal(s.run("clocked", "run", "job", "--", "echo", text).stdout, text.encode() + b"\n")


@it("where the time is refused all the same the error names the clocks")
def _(s):
    s.shift_clock(DAY)
    done = s.run("skewed", "store", "put", "k", "-", given=b"1", expect=DENIED)
    for words in (b"RequestTimeTooSkewed", b"this machine's says", b"the store's 2001-02-03",
                  b"set this machine's clock"):
        true(words in done.stderr, done.stderr)


# ---- A store that does not answer ------------------------------------------------------------------


@it("a timeline goes on after an outage of the store, and Ctrl-C in the next one shows what was seen")
def _(s):
    url = s.url("clocked") + "&timeout=1s"
    s.url = lambda bucket: url

    def reads():
        """The table has been read since, also if the watch has just begun and reads other objects first."""
        before = s.seen("GET", "clocked")
        until(lambda: s.seen("GET", "clocked") >= before + 8, "a read")

    def outage():
        """Until the watch has told of it."""
        s.fake.send_signal(signal.SIGSTOP)
        told = json.loads(watcher.stderr.readline())
        true(told["status"] in ("TIMEOUT", "UNAVAILABLE"), told)

    lease = s.run("clocked", "acquire", "-q", "--ttl", "10m", "--holder", "ada", "x").stdout.strip().decode()
    watcher = s.start("clocked", "locks", "timeline", "x", "--json", "--for", "60s", "--interval", "50ms")
    reads()
    outage()
    s.fake.send_signal(signal.SIGCONT)
    s.run("clocked", "release", "-q", lease)
    s.run("clocked", "acquire", "-q", "--ttl", "10m", "--holder", "bob", "x")
    reads()
    outage()
    watcher.send_signal(signal.SIGINT)
    try:
        out = watcher.communicate(timeout=30)[0]
    finally:
        s.fake.send_signal(signal.SIGCONT)
    equal(watcher.returncode, -signal.SIGINT)
    holds = [json.loads(line) for line in out.splitlines()]
    equal([(hold["owner"], hold.get("ended")) for hold in holds], [("ada", "unknown"), ("bob", None)])


# ---- The probe ------------------------------------------------------------------------------------


def requests(s, *args):
    """How many requests a command takes."""
    def count():
        return sum(s.seen(method, "whole") for method in ("GET", "PUT", "POST", "DELETE", "HEAD"))

    before = count()
    s.run("whole", *args)
    return count() - before


@it("a store is probed with some fifty requests, once a month")
def _(s):
    probed, known = requests(s, "locks", "ls"), requests(s, "locks", "ls")
    true(30 <= probed - known <= 70, f"{probed} requests, then {known}")
    equal(requests(s, "locks", "ls"), known)
    verdict = json.loads(s.run("whole", "store", "get", ".holdfast/format.json").stdout)["verdicts"][0]
    at, until_ = (datetime.datetime.fromisoformat(verdict[name].rstrip("Z"))
                  for name in ("probed_at", "expires_at"))
    equal(until_ - at, datetime.timedelta(days=30))


@it("a sync on S3 finds equal objects by their ETags, and replaces and deletes on condition")
def _(s):
    s.run("plain", "locks", "ls")  # the probe finds that deletes can be conditional
    for key, data in (("from/a", b"1"), ("from/b", b"22"), ("to/b", b"xx"), ("to/c", b"3")):
        s.run("plain", "store", "put", "-q", key, "-", given=data)

    def sync():
        done = subprocess.run([PROGRAM, "store", "sync", "--delete", "--json", "--trace", s.url("plain") + "#from/",
                               s.url("plain") + "#to/"], cwd=s.path, env=s.env, capture_output=True, check=False)
        equal(done.returncode, 0, done.stderr)
        calls = [json.loads(line) for line in done.stderr.splitlines()]
        return ([json.loads(line).get("to") for line in done.stdout.splitlines()],
                [(call["call"], call["key"], bool(call.get("if_match"))) for call in calls if call["call"] != "list"])

    told, calls = sync()
    equal(told, ["to/a", "to/b", "to/c", None])
    true(("put_file", "to/b", True) in calls and ("delete", "to/c", True) in calls, calls)
    equal(sync(), ([None], [("get", ".holdfast/format.json", False)]))


@it("a sync that deletes within one bucket probes it, as between two")
def _(s):
    s.run("plain", "store", "put", "-q", "from/a", "-", given=b"1")
    s.run("plain", "store", "put", "-q", "to/b", "-", given=b"2")
    url = s.url("plain")
    for command, kept in ((["--delete", "--dry-run"], b"from/a\nto/b\n"), (["--delete"], b"from/a\nto/a\n")):
        done = subprocess.run([PROGRAM, "store", "sync", "-q", *command, url + "#from/", url + "#to/"], cwd=s.path,
                              env=s.env, capture_output=True, check=False)
        equal(done.returncode, 0, done.stderr)
        listed = s.run("plain", "store", "ls", "-r").stdout.split()
        equal([key for key in listed if not key.startswith(b".holdfast/")], kept.split())


@it("a move on S3 refuses a target with the same bytes, which an opposite move may be about to delete")
def _(s):
    for key in ("a", "b"):
        s.run("plain", "store", "put", "-q", key, "-", given=b"1")
    said = s.run("plain", "store", "mv", "a", "b", expect=CONFLICT).stderr
    true(b"already has the same bytes" in said, said)
    s.run("plain", "store", "mv", "-q", "a", "c")
    listed = s.run("plain", "store", "ls", "-r").stdout.split()
    equal([key for key in listed if not key.startswith(b".holdfast/")], [b"b", b"c"])


@it("a libcurl that does not tell what was sent is refused before anything is sent")
def _(s):
    os.symlink(os.path.join(os.environ["HOLDFAST_TEST_PROGRAMS"], "libold_curl.so"), s.file("libcurl.so.4"))
    s.env["LD_LIBRARY_PATH"] = s.path
    done = s.run("plain", "store", "put", "k", "-", given=b"x", expect=UNSUPPORTED)
    true(b"libcurl is too old" in done.stderr and b"7.80" in done.stderr, done.stderr)


# ---- Secrets --------------------------------------------------------------------------------------


def other_address():
    """An address of this machine that is not a loopback one: where there is none, one of nobody."""
    return "192.0.2.1"


@it("a store that is reached without encryption is warned of once, unless it is on this machine")
def _(s):
    def errors(host, *args):
        words = [PROGRAM, *args, "--store", s.url("whole", host) + "&timeout=100ms"]
        done = subprocess.run(words, cwd=s.path, env=s.env, capture_output=True, check=False,
                              timeout=60)
        return done.stderr.decode().splitlines()

    for host in ("127.0.0.1", "localhost", "127.8.9.10", "[::1]"):
        told = errors(host, "store", "get", "k")
        true(not any("warning" in line for line in told), told)
    for host in (other_address(), "127.0.0.1.example.invalid", "localhost.example.invalid"):
        told = errors(host, "store", "get", "k")
        equal(told[0], f"holdfast: warning: http://{host}:{s.port} is not encrypted: anyone on the "
                       "network path can read and change the traffic; use https://")
        equal(len(told), 2, told)
    told = errors(other_address(), "store", "get", "k", "--json")
    equal(sorted(json.loads(told[0])), ["warning"])
    told = errors(other_address(), "store", "cp", "k", "--to", s.url("plain", other_address()))
    equal(sum("warning" in line for line in told), 1, told)


@it("a core dump has no keys in it: there is none")
def _(s):
    def dumped(process):
        _, status = os.waitpid(process.pid, 0)
        process.returncode = status
        return os.WCOREDUMP(status)

    def allow():
        resource.setrlimit(resource.RLIMIT_CORE,
                           (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)

    control = subprocess.Popen(["sleep", "60"], cwd=s.path, preexec_fn=allow)
    control.send_signal(signal.SIGQUIT)
    if not dumped(control):
        print("# this machine writes no core dumps at all")
    waits = s.start("slow", "store", "get", "k", preexec_fn=allow)
    until(lambda: s.seen("GET", "slow") > 0, "the request")
    waits.send_signal(signal.SIGSEGV)
    true(not dumped(waits), "a core dump")
    s.started.remove(waits)
    # What `run` starts is dumped as ever: 3 is PR_GET_DUMPABLE.
    ask = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    equal(s.run("whole", "run", "job", "--", "python3", "-c", ask).stdout, b"1\n")


@it("neither errors nor traces nor command lines have a secret in them")
def _(s):
    s.env["AWS_SESSION_TOKEN"] = "a-token-of-some-length"
    for bucket in ("parrot", "who", "bad-secret", "denied"):
        done = subprocess.run([PROGRAM, "--store", s.url(bucket), "store", "put", "k", "-",
                               "--trace"], cwd=s.path, env=s.env, input=b"1",
                              capture_output=True, check=False, timeout=60)
        true(done.returncode != 0, bucket)
        for secret in (SECRET, s.env["AWS_SESSION_TOKEN"]):
            true(secret.encode() not in done.stdout + done.stderr, done.stderr)
    waits = s.start("slow", "store", "get", "k")
    with open(f"/proc/{waits.pid}/cmdline", "rb") as file:
        true(SECRET.encode() not in file.read(), "a secret in the command line")


if __name__ == "__main__":
    sys.exit(cases.main())

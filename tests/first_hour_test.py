#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""first_hour_test.py: what a newcomer types: which store is meant, how long a command waits, and what it
says when nothing seems to happen.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time

import cases
from cli_test import LOCAL, PROGRAM, code, equal, fails, it, true

cases.cases.clear()


class Terminal:
    """The program with a terminal as its stderr, and what it writes there."""

    def __init__(self, s, *args, **options):
        self.ours, theirs = pty.openpty()
        self.process = s.start(*args, stderr=theirs, **options)
        os.close(theirs)
        self.text = ""

    def read(self, seconds):
        if select.select([self.ours], [], [], seconds)[0]:
            try:
                self.text += os.read(self.ours, 65536).decode()
            except OSError:
                return False
        return True

    def wait_for(self, words):
        end = time.monotonic() + 30
        while words not in self.text:
            true(time.monotonic() < end, f"in vain: {words!r} in {self.text!r}")
            self.read(0.05)

    def end(self):
        """What stdout had, once it has ended; the exit status is in `process`."""
        out = self.process.communicate(timeout=60)[0]
        while self.read(0.1) and select.select([self.ours], [], [], 0.1)[0]:
            pass
        os.close(self.ours)
        return out.decode()


# ---- Which store? -------------------------------------------------------------------------------


@it("a command that run starts in another folder opens the same store", LOCAL)
def _(s):
    os.mkdir(s.file("elsewhere"))
    inside = "cd elsewhere && holdfast renew -q && holdfast locks ls --json"
    for url in (s.url, s.url.replace(":", ":./"), s.url + "?sync=off"):
        for args in ((), ("--store", url)):
            s.env["HOLDFAST_STORE"] = url if not args else "mem:"
            told = json.loads(s.out("run", *args, "deploy", "--", "sh", "-c", inside))
            equal(told["scopes"], ["named:deploy"], url)
    equal(os.listdir(s.file("elsewhere")), [])
    shown = s.out("run", "--store", s.url + "?sync=off", "x", "--", "sh", "-c", "echo $HOLDFAST_STORE")
    kind, name = s.url.split(":")
    equal(shown.decode(), f"{kind}:{os.path.realpath(s.path)}/{name}?sync=off\n")


@it("the default store is handed on too, so that a child with another home finds it")
def _(s):
    s.out("run", "deploy", "--", "sh", "-c", "HOME=/nowhere holdfast renew -q")
    true(os.path.exists(s.file(".local/state/holdfast/store.db")), "the user's own store")
    equal(os.stat(s.file(".local/state/holdfast")).st_mode & 0o777, 0o700)


@it("an empty HOLDFAST_STORE is refused with what to do", LOCAL)
def _(s):
    s.env["HOLDFAST_STORE"] = ""
    for args in (("locks", "ls"), ("run", "x", "--", "true"), ("store", "put", "k", "-"),
                 ("compact", "watch"), ("index", "get", "x", "y")):
        text = fails(s, "INVALID", *args)
        true("HOLDFAST_STORE is empty: set it to the URL of a store" in text, text)
        true("or unset it" in text, text)
    s.out("store", "put", "--store", s.url, "k", "-")
    equal(os.path.exists(s.file(".local")), False)


READING = [line.split() for line in (
    "store ls", "store get k", "store get k f", "locks ls", "locks show x", "locks watch --for 1s", "locks timeline x",
    "read k", "namespace show n", "clock", "key get k", "key show k", "key ls", "key watch k", "txn ls",
    "txn show 0123456789abcdef0123456789abcdef", "compact plan", "compact status", "compact ls",
    "compact fsck", "index get i k", "index query i", "index export i -o f", "index count i", "index status i",
    "elect ls crew", "elect rank crew 1", "sweep status", "store cp k l", "store cp -r a b", "store scrub")]


@it("a command that only reads makes no store, and names the path where there is none")
def _(s):
    before = os.listdir(s.path)
    kinds = {"sqlite:typo.db": "typo.db", "dir:typo": "typo", "dir:a/b/typo": "a/b/typo",
             "sqlite:a/typo.db?sync=off": "a/typo.db", None: ".local/state/holdfast/store.db"}
    for url, path in kinds.items():
        for args in READING:
            text = fails(s, "NOT_FOUND", *args, *(("--store", url) if url else ()))
            before_path, after_path = (
                ("there is no store at", "the first command that writes") if url else
                ("HOLDFAST_STORE is not set, and the local store", "set HOLDFAST_STORE to the URL"))
            true(f"{before_path} '{os.path.realpath(s.path)}/{path}'" in text or
                 f"{before_path} '{s.path}/{path}'" in text, (args, text))
            true(after_path in text, text)
    equal(os.listdir(s.path), before, "nothing was made")
    marked = {" ".join(args[:2]) for args in READING} | {"read", "clock"}
    for command in s.table()["commands"]:
        if command["only_reads"] and command["command"] != "completion words":  # says nothing instead
            true(any(command["command"] == " ".join(args[:n]) for args in READING for n in (1, 2)),
                 f"{command['command']} is not tried here ({marked})")


@it("store cp does not make the store that it is to copy from", LOCAL)
def _(s):
    text = fails(s, "NOT_FOUND", "store", "cp", "k", "--from", "dir:typo")
    true("there is no store at" in text, text)
    equal(os.listdir(s.path), [])


@it("a tilde and a slash at the start of a path are the home folder, and nowhere else", LOCAL)
def _(s):
    os.mkdir(s.file("work"))
    kind, name = s.url.split(":")
    s.out("store", "put", "-q", "--store", f"{kind}:~/{name}", "k", "-", stdin=b"1")
    true(os.path.exists(s.file(name)), os.listdir(s.path))
    equal(s.get("k"), b"1")
    s.out("store", "put", "-q", "--store", f"{kind}:~{name}", "k", "-", stdin=b"2")
    true(os.path.exists(s.file("~" + name)), os.listdir(s.path))
    s.env["HOME"] = "relative"
    true("HOME" in fails(s, "INVALID", "store", "ls", "--store", f"{kind}:~/{name}"), "no home")


@it("the URL of a store where a key is meant is refused; --hex still takes such a key", LOCAL)
def _(s):
    s.put("k", b"1")
    for args in (("ls", "s3://b/x"), ("ls", "dir:/srv"), ("ls", "sqlite:x.db"), ("get", "s3://b/x"),
                 ("put", "s3://b/x", "-"), ("rm", "mem:"), ("rm", "k", "s3://b")):
        text = fails(s, "INVALID", "store", *args)
        true("looks like a store URL; pass it with --store" in text, text)
    text = fails(s, "INVALID", "store", "cp", "s3://b/x", "k")
    true("looks like a store URL; pass it with --from or --to" in text, text)
    odd = "s3://b/x"
    s.out("store", "put", "-q", "--hex", odd.encode().hex(), "-", stdin=b"odd")
    equal(s.out("store", "get", "--hex", odd.encode().hex()), b"odd")
    equal([line["key"] for line in s.lines("store", "ls", "-r")], ["k", odd])
    s.put("s3", b"")
    s.put("http://x", b"")


@it("a text that is no URL, and a kind that there is not, are told with every kind that there is")
def _(s):
    for url in ("/srv/x", "", "nonsense", "azure2://x", "ftp://x/y"):
        text = fails(s, "INVALID", "store", "ls", "--store", url)
        true("use sqlite:FILE, dir:PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, "
             "azure://ACCOUNT/CONTAINER, http://HOST:PORT, https://HOST:PORT, unix:PATH or mem:" in text, text)
    text = fails(s, "INVALID", "store", "ls", "--store", "https://x/y")
    true("the URL of a server is https://HOST:PORT; that of a bucket is s3://" in text, text)


@it("on a terminal who writes to the default store is told once that nobody shares it")
def _(s):
    note = f"holdfast: using the local store of user {os.popen('id -un').read().strip()}; " \
           "set HOLDFAST_STORE to share it\r\n"
    for args in (("run", "x", "--", "true"), ("run", "--once-per", "1h", "y", "--", "true"),
                 ("acquire", "z"), ("run", "w", "--", "sh", "-c", "holdfast acquire inner")):
        terminal = Terminal(s, *args)
        terminal.end()
        equal((terminal.process.returncode, terminal.text), (0, note), args)
    for args in (("run", "-q", "x", "--", "true"), ("run", "--json", "x", "--", "true"),
                 ("locks", "ls"), ("run", "--store", "sqlite:", "x", "--", "true")):
        terminal = Terminal(s, *args)
        terminal.end()
        equal((terminal.process.returncode, terminal.text), (0, ""), args)
    s.run("run", "x", "--", "true")  # off a terminal nothing is on stderr


# ---- Waiting ------------------------------------------------------------------------------------


@it("run on a terminal waits without a limit and shows who holds the lock; elsewhere for a minute", LOCAL)
def _(s):
    lease = s.out("acquire", "--ttl", "10m", "--holder", "ada", "deploy").decode().strip()
    for args, words in (((), "waiting: "), (("--wait", "forever"), "waiting: "),
                        (("--wait", "50s"), "waiting for up to 50s: ")):
        terminal = Terminal(s, "run", *args, "deploy", "--", "echo", "mine")
        terminal.wait_for(words + "deploy has been held by ada (token 1) for ")
        terminal.process.send_signal(signal.SIGINT)
        terminal.end()
        equal(terminal.process.returncode, -signal.SIGINT, terminal.text)
    terminal = Terminal(s, "run", "deploy", "--", "echo", "mine")
    terminal.wait_for("held by ada")
    s.run("release", lease)
    equal((terminal.end(), terminal.process.returncode), ("mine\n", 0))
    text = re.sub(r"\s+", " ", s.out("run", "--help").decode())
    true("(default: forever on a terminal, otherwise 1m)" in text, text)


@it("every command with --wait takes forever, and nothing else that is no span")
def _(s):
    s.write("rows.csv", b"k,v,t\na,1,2026-01-01T00:00:00Z\n")
    s.run("index", "create", "i", "--fields", "k,v,t", "--key", "k", "--time", "t")
    s.run("compact", "create", "--format", "csv", "--key", "k", "--time", "t")
    s.run("store", "put", "-q", "raw/rows.csv", "rows.csv")
    tried = {"compact adopt": ("raw/rows.csv",),
             "run": ("x", "--", "true"), "elect run": ("e", "--step", "0s", "--", "true"),
             "acquire": ("a",), "key acquire": ("k",),
             "key update": ("u", "--take"), "key rm": ("u", "--take"),
             "write": ("o", "rows.csv", "--lock", "w"), "compact ingest": ("rows.csv",),
             "index put": ("i", "--fold", "--from", "rows.csv"), "index compile": ("i",)}
    waits = {c["command"] for c in s.table()["commands"] for o in c["options"] if o["name"] == "wait"}
    equal(waits, set(tried) | {"hold"})  # which ends with its stdin
    for command, args in tried.items():
        s.run(*command.split(), "--wait", "forever", *args)
        true("not a duration" in fails(s, "INVALID", *command.split(), "--wait", "ever", *args), command)


@it("the bounds of a ttl are told in one way, and how to have a longer one", LOCAL)
def _(s):
    for args, least, most, given in (
            (("run", "--ttl", "999ms", "x", "--", "true"), "1s", "1d", "999ms"),
            (("run", "--ttl", "25h", "x", "--", "true"), "1s", "1d", "1d1h"),
            (("acquire", "--ttl", "99ms", "x"), "100ms", "1d", "99ms"),
            (("acquire", "--ttl", "2h", "x"), "100ms", "1h", "2h"),
            (("key", "acquire", "--ttl", "61m", "x"), "100ms", "1h", "1h1m"),
            (("key", "acquire", "--ttl", "2d", "x"), "100ms", "1d", "2d"),
            (("acquire", "--max-ttl", "2d", "x"), "100ms", "1d", "2d"),
            (("acquire", "--max-ttl", "0", "x"), "100ms", "1d", "0"),
            (("run", "--max-ttl", "10us", "x", "true"), "100ms", "1d", "10us")):
        text = fails(s, "INVALID", *args)
        true(f"the ttl must be between {least} and {most}, not {given}" in text, text)
        equal("; --max-ttl SPAN" in text, most == "1h", text)


@it("a ttl above an hour is granted where --max-ttl allows it, and from then on", LOCAL)
def _(s):
    for command in (("acquire",), ("key", "acquire")):
        told = json.loads(s.out(*command, "--max-ttl", "12h", "--ttl", "3h", "x", "--json"))
        equal(told["ttl_ms"], 3 * 3600 * 1000)
        s.run("renew", told["lease"])
        s.run("release", told["lease"])
        told = json.loads(s.out(*command, "--ttl", "12h", "x", "--json"))
        equal(told["ttl_ms"], 12 * 3600 * 1000)
        s.run("release", told["lease"])
        true("and 12h, not 13h" in fails(s, "INVALID", *command, "--ttl", "13h", "x"), "its own bound")
    s.run("run", "--max-ttl", "2h", "--ttl", "2h", "y", "--", "true")


# ---- Quiet failures -----------------------------------------------------------------------------


def said(process, seconds=20):
    """The next line of its stderr; one that says nothing is killed."""
    if not select.select([process.stderr], [], [], seconds)[0]:
        process.kill()
        process.communicate()
        true(False, f"{process.args} says nothing")
    return process.stderr.readline().decode()


@it("compact watch on a partition that is not there says so at once and waits for it", LOCAL)
def _(s):
    for quiet in ((), ("-q",)):
        watcher = s.start("compact", "watch", "--poll", "100ms", "--partition", "logs", *quiet)
        text = said(watcher)
        true("NOT_FOUND: there is no partition 'logs'; create it with 'holdfast compact create "
             "--format csv --key FIELD --partition logs'; waiting until it exists" in text, text)
        equal(watcher.poll(), None, "it waits")
        watcher.send_signal(signal.SIGINT)
        watcher.communicate(timeout=60)
        equal(watcher.returncode, 0)
    watcher = s.start("compact", "watch", "--poll", "100ms", "--partition", "logs", "--json")
    true("there is no partition" in json.loads(said(watcher))["why"], "as JSON too")
    s.run("compact", "create", "--partition", "logs", "--format", "csv", "--time", "t")
    watcher.send_signal(signal.SIGINT)
    equal(watcher.communicate(timeout=60)[1], b"", "it is said once")


class FullDisk:
    """A small file system with a store on it, full to the last block."""

    def __init__(self, s):
        self.path = s.file("disk")
        os.mkdir(self.path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", self.path], check=True)
        s.env["HOLDFAST_STORE"] = f"sqlite:{self.path}/store.db"
        for name in ("a", "b", "c", "d"):
            s.run("run", name, "--", "true")
        s.run("key", "update", "k", "--take", stdin=b"1")
        ballast = os.open(self.path + "/ballast", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(ballast, bytes(4096)) > 0:
                pass
        except OSError:
            os.close(ballast)

    def relieve(self):
        os.truncate(self.path + "/ballast", 0)

    def close(self):
        subprocess.run(["umount", "-l", self.path], check=True)


@it("who waits for a lock or a key on a full disk is told once what it waits for")
def _(s):
    if os.geteuid() != 0:
        return  # only root can mount
    disk = FullDisk(s)
    try:
        waiters = [s.start("acquire", "--ttl", "10s", "--wait", "forever", "a"),
                   s.start("key", "acquire", "--wait", "50s", "k"),
                   s.start("run", "b", "--", "echo", "ran"),
                   s.start("acquire", "--json", "c")]
        for waiter in waiters:
            text = said(waiter, 5)
            true("UNAVAILABLE" in text and "waiting for the store: " in text and
                 "no space left on the disk" in text, (waiter.args, text))
        equal(json.loads(text)["status"], "UNAVAILABLE")
        equal([waiter.poll() for waiter in waiters], [None] * 4, "they go on waiting")
        disk.relieve()
        for waiter in waiters:
            out, errors = waiter.communicate(timeout=60)
            equal((waiter.returncode, errors), (0, b""), waiter.args)
            true(out, waiter.args)
    finally:
        for waiter in waiters:
            waiter.kill()
        disk.close()


@it("who changes a key on a full disk is told so, and not to look for a holder")
def _(s):
    if os.geteuid() != 0:
        return
    disk = FullDisk(s)
    try:
        done = s.run("key", "update", "k", "--take", stdin=b"2", expect=None)
        text = done.stderr.decode()
        true(done.returncode != 0 and "no space left on the disk" in text, text)
        true("holder" not in text and "--wait" not in text, text)
        disk.relieve()
        equal(s.run("key", "get", "k").stdout, b"1")
    finally:
        disk.close()


class Hung:
    """A server that accepts, and never answers."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"s3://bucket/x?endpoint=http://127.0.0.1:{self.socket.getsockname()[1]}&region=r"


def within_a_second(done):
    """Whether done() comes true within a second, as this machine counts it: a plain process that sleeps
    for the 0.8 s that a command leaves its request has ended too, and 0.2 s of turns have gone by since,
    in which this process ran. A machine that pauses, pauses both."""
    subprocess.run(["sleep", "0.8"], check=True)
    for _ in range(20):
        if done():
            return True
        time.sleep(0.01)
    return done()


IN_ORDER = ("compact run", "compact watch", "compact ingest", "index put", "index compile", "elect join",
            "sweep")
HUNG = [line.split() for line in (
    "store ls", "store get k", "store put k f", "store rm k", "store cp k l", "store probe", "store scrub", "locks ls",
    "locks show x", "locks watch", "locks timeline x", "locks break x --reason r", "acquire x", "acquire --no-wait x", "hold x",
    "renew 1:00-1:default/meta/x.json", "release 1:00-1:default/meta/x.json", "write o f --lock x", "read o",
    "namespace create n --placement pages:4", "namespace show n", "store restored", "store repair epoch", "store upgrade", "clock", "key acquire k", "key update k --take", "key get k",
    "key show k", "key ls", "key watch k", "store mv k l", "store sync STORE dir:other", "txn begin", "txn ls", "compact create --format csv --time t", "compact plan",
    "compact status", "compact ls", "compact fsck", "compact pause --why x", "compact resume", "index get i k",
    "index query i", "index export i -o f", "index count i", "index status i", "elect ls crew",
    "elect rank crew 1", "sweep status", "run x -- true", "run --no-wait x -- true")]


@it("Ctrl-C ends every command within a second on a store that never answers")
def _(s):
    hung = Hung()
    s.write("f", b"t\n")
    s.env.update(HOLDFAST_STORE=hung.url, AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")
    for some in range(0, len(HUNG), 8):
        started = [s.start(*(hung.url if word == "STORE" else word for word in args)) for args in HUNG[some:some + 8]]
        time.sleep(1)
        early = [process.args for process in started if process.poll() is not None]
        for process in started:
            process.send_signal(signal.SIGINT)
        within_a_second(lambda: all(process.poll() is not None for process in started))
        late = [process.args for process in started if process.poll() is None]
        for process in started:
            process.kill()
            process.communicate()
        equal((early, late), ([], []), "did not wait for the store; did not end")
        equal({process.returncode for process in started}, {-signal.SIGINT})


@it("a command that ends in order says so within a second, and the second Ctrl-C ends it")
def _(s):
    hung = Hung()
    s.write("f", b"t\n")
    s.env.update(HOLDFAST_STORE=hung.url, AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")
    more = {"compact ingest": ["f"], "index put": ["i", "k=v"], "index compile": ["i"], "elect join": ["g"]}
    for command in IN_ORDER:
        process = s.start(*command.split(), *more.get(command, []))
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        true(within_a_second(lambda: select.select([process.stderr], [], [], 0)[0]), command)
        equal(said(process), "holdfast: stopping; press Ctrl-C again to exit now\n", command)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=5)
        equal(process.returncode, -signal.SIGINT, command)


# ---- What the design says ------------------------------------------------------------------------


@it("docs/design.md names only commands, options and folders that there are, or calls them planned")
def _(s):
    root = os.path.dirname(os.path.abspath(os.environ["HOLDFAST_TESTS"]))
    table = s.table()
    commands = [command["command"] for command in table["commands"]]
    options = {option["name"] for command in table["commands"] for option in command["options"]}
    options |= {option["name"] for option in table["options"]}
    with open(os.path.join(root, "docs", "design.md"), encoding="utf-8") as file:
        lines = [line for line in file if "planned" not in line.lower()]
    seen = 0
    for line in lines:
        for code_ in re.findall(r"`([^`]+)`", line):
            named = re.match(r"holdfast ([a-z ]+)", code_)
            if named:
                true(any((named[1] + " ").startswith(name + " ") for name in commands), code_)
            for option in re.findall(r"--([a-z][a-z-]+)", code_):
                true(option in options, f"{code_}: {line:.80}")
            if code_.startswith("src/"):
                true(any(map(os.path.exists, (os.path.join(root, code_),
                                              os.path.join(root, code_ + ".h")))), code_)
            seen += 1
    true(seen > 100, "it was read")


if __name__ == "__main__":
    sys.exit(cases.main())

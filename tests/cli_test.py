#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cli_test.py: the program `holdfast`, run as a person or a script would run it.

Prints TAP. The program's path comes in $HOLDFAST_PROGRAM. Each test has a scratch folder of its
own, which is also its home, and the table of commands as `holdfast help --json` tells it.
"""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import cases
import duckdb_kit
import json_kit
from cases import equal, true, until

PROGRAM = os.path.abspath(os.environ["HOLDFAST_PROGRAM"])
MIB = 1024 * 1024
CODES = {}  # by status

# Looking for leaks costs seconds at the end of each process, so only one test does it.
with open(PROGRAM, "rb") as program_file:
    SANITIZED = b"__asan_init" in program_file.read()


def it(sentence, stores=None):
    """Registers a test; one for each kind of store when it names some."""

    def register(function):
        for kind in stores or [None]:
            name = f"{sentence} ({kind})" if kind else sentence
            cases.add(name, function, lambda kind=kind: Scratch(kind))
        return function

    return register


LOCAL = ["dir", "sqlite"]


class Scratch:
    """A folder, a store in it, and the means to run the program there."""

    def __init__(self, kind):
        self.path = tempfile.mkdtemp(prefix="holdfast-cli-")
        self.help_table = None
        self.url = {"dir": "dir:objects", "sqlite": "sqlite:objects.db", None: None}[kind]
        self.env = {
            "PATH": os.path.dirname(PROGRAM) + ":" + os.environ["PATH"],
            "HOME": self.path,
            "TMPDIR": self.path,
        }
        for name in ("UBSAN_OPTIONS", "TSAN_OPTIONS", "HOLDFAST_SERVE", "HOLDFAST_TOP"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        self.find_leaks(False)
        if self.url:
            self.env["HOLDFAST_STORE"] = self.url

    def find_leaks(self, wanted):
        given = os.environ.get("ASAN_OPTIONS", "")
        self.env["ASAN_OPTIONS"] = f"{given}:detect_leaks={int(wanted)}".lstrip(":")

    def close(self):
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, name):
        return os.path.join(self.path, name)

    def write(self, name, data):
        with open(self.file(name), "wb") as out:
            out.write(data)

    def read(self, name):
        with open(self.file(name), "rb") as source:
            return source.read()

    def start(self, *args, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return json_kit.Popen([PROGRAM, *args], cwd=self.path, env=self.env, **options)

    def run(self, *args, stdin=b"", expect=0, **options):
        options.setdefault("stdout", subprocess.PIPE)
        done = subprocess.run([PROGRAM, *args], cwd=self.path, env=self.env, input=stdin,
                              stderr=subprocess.PIPE, timeout=120, **options)
        json_kit.check(args, done.stdout, done.stderr)
        if expect is not None:
            equal(done.returncode, expect, f"{args}: {done.stderr.decode(errors='replace')}")
        if expect == 0 and "--trace" not in args:
            equal(done.stderr, b"", "nothing on stderr")
        return done

    def out(self, *args, **options):
        return self.run(*args, **options).stdout

    def lines(self, *args, **options):
        return [json.loads(line) for line in self.out(*args, "--json", **options).splitlines()]

    def put(self, key, data):
        return self.out("store", "put", "--force", "--", key, "-", stdin=data).decode().strip()

    def get(self, key):
        return self.out("store", "get", "--", key)

    def make_store(self):
        """An empty one: commands that only read make none."""
        self.put("k", b"")
        self.run("store", "rm", "-q", "k")

    def everything(self):
        return self.out("store", "ls", "-r", "--json")

    def table(self):
        """What `holdfast help --json` prints, asked once: its check against the schema is slow."""
        if self.help_table is None:
            self.help_table = json.loads(self.out("help", "--json"))
        return self.help_table


def code(scratch, status):
    if not CODES:
        CODES.update({s["status"]: s["exit_code"] for s in scratch.table()["statuses"]})
    return CODES[status]


def fails(scratch, status, *args, **options):
    """Runs what must fail: one sentence on stderr, which is returned, and the status's exit code."""
    done = scratch.run(*args, expect=code(scratch, status), **options)
    text = done.stderr.decode()
    true(re.fullmatch(r"holdfast: [^\n]*\b%s: [^\n]+\n" % status, text), f"one sentence: {text!r}")
    return text


def error(scratch, status, *args, **options):
    """Runs what must fail, and leaves the store as before."""
    before = scratch.everything()
    text = fails(scratch, status, *args, **options)
    equal(scratch.everything(), before, "nothing changed")
    return text


def objects(scratch, prefix):
    return scratch.out("store", "ls", "-r", prefix).decode().split()


def command_pages(scratch):
    for command in scratch.table()["commands"]:
        yield command, scratch.out(*command["command"].split(), "--help").decode()


# ---- Objects ------------------------------------------------------------------------------------


@it("an object that was put from a file is got into a file and a pipe", LOCAL)
def _(s):
    s.write("in", b"some bytes")
    etag = s.out("store", "put", "a/b", "in").decode().strip()
    s.run("store", "get", "a/b", "out")
    equal(s.read("out"), b"some bytes")
    equal(s.out("store", "get", "a/b"), b"some bytes")
    equal(s.out("store", "get", "a/b", "-"), b"some bytes")
    equal(s.lines("store", "ls", "a/")[0]["etag"], etag)


@it("empty objects and ranges of others are got", LOCAL)
def _(s):
    s.put("empty", b"")
    s.put("digits", b"0123456789")
    equal(s.get("empty"), b"")
    for text, wanted in (("0-4", b"0123"), ("2-", b"23456789"), ("8-1KiB", b"89")):
        equal(s.out("store", "get", "--range", text, "digits"), wanted, text)
    for text in ("4-4", "5-2", "-", "x-", "3", "1-2-3", ""):
        error(s, "INVALID", "store", "get", "--range", text, "digits")
    error(s, "INVALID", "store", "get", "--range", "10-", "digits")


@it("put obeys its conditions", LOCAL)
def _(s):
    s.write("in", b"1")
    first = s.out("store", "put", "--if-absent", "k", "in").decode().strip()
    text = error(s, "CONFLICT", "store", "put", "--if-absent", "k", "in")
    equal(text, "holdfast: store put k: CONFLICT: the object already exists\n")
    s.write("in", b"2")
    s.out("store", "put", "--if-match", first, "k", "in")
    error(s, "CONFLICT", "store", "put", "--if-match=" + first, "k", "in")
    error(s, "NOT_FOUND", "store", "put", "--if-match", first, "other", "in")
    equal(s.get("k"), b"2")


@it("ls rolls up, goes deep, limits, goes on and shows details", LOCAL)
def _(s):
    for key in ("a", "d/1", "d/2", "d/e/3", "z"):
        s.put(key, b"xyz")
    equal(s.out("store", "ls"), b"a\nd/\nz\n")
    equal(s.out("store", "ls", "d/"), b"d/1\nd/2\nd/e/\n")
    equal(s.out("store", "ls", "-r"), b"a\nd/1\nd/2\nd/e/3\nz\n")
    equal(s.out("store", "ls", "-r", "--limit", "2", "--after", "a"), b"d/1\nd/2\n")
    equal(s.out("store", "ls", "--delimiter", "e", "d"), b"d/1\nd/2\nd/e\n")
    equal(s.out("store", "ls", "-n", "0"), b"")
    equal(s.out("store", "ls", "nothing"), b"")
    line = s.out("store", "ls", "--long", "d/1").decode()
    true(re.match(r" +3  \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z  \S+ +d/1\n$", line), line)
    rows = s.lines("store", "ls")
    equal([row.get("key", row.get("prefix")) for row in rows], ["a", "d/", "z"])
    equal(sorted(rows[0]), ["etag", "key", "modified_at", "size_bytes"])


@it("more objects than a page holds are all listed and removed", LOCAL)
def _(s):
    url = s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    keys = [f"many/{i:05}" for i in range(1100)]
    os.mkdir(s.file("plain"))
    s.run("store", "put", "one", "-", "--store", url, stdin=b"1")
    subprocess.run(["sh", "-c", "for k; do printf 1 > plain/$k; done", "sh",
                    *[k[5:] for k in keys]], cwd=s.path, check=True)
    s.run("store", "cp", "-r", "-q", "--from", "dir:plain", "--to", url, "", "many/")
    equal(s.out("store", "ls", "-r", "many/").decode().split(), keys)
    equal(s.out("store", "ls"), b"many/\none\n")
    equal(len(s.lines("store", "rm", *keys)), len(keys))
    equal(s.out("store", "ls"), b"one\n")


@it("rm removes what it is told, and only if it still matches", LOCAL)
def _(s):
    etag = s.put("a", b"1")
    s.put("b", b"1")
    s.put("c", b"1")
    error(s, "CONFLICT", "store", "rm", "--if-match", "other", "a")
    error(s, "INVALID", "store", "rm", "--if-match", etag, "a", "b")
    error(s, "INVALID", "store", "rm", "b", "x" * 1025)
    error(s, "INVALID", "store", "rm", "b", "")
    s.run("store", "rm", "--if-match", etag, "a")
    equal(s.lines("store", "rm", "b", "not-there"),
          [{"key": "b", "removed": True}, {"key": "not-there", "removed": True}])
    equal(s.out("store", "ls"), b"c\n")


@it("rm -r removes all objects below a prefix, page by page, and shows them first if asked to", LOCAL)
def _(s):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    os.makedirs(s.file("plain/a"))
    subprocess.run(["sh", "-c", "for k in $(seq 1 1100); do printf 1 > plain/a/$k; done; printf 1 > plain/b"],
                   cwd=s.path, check=True)
    s.run("store", "cp", "-r", "-q", "--from", "dir:plain")
    before = s.everything()
    shown = s.lines("store", "rm", "-r", "--dry-run", "a/1", "a/2")
    equal(s.everything(), before)
    true(all(not row["removed"] for row in shown) and {"key": "a/1100", "removed": False} in shown, shown)
    equal(s.out("store", "rm", "-r", "--dry-run", "b"), b"b\n")
    gone = s.lines("store", "rm", "-r", "a/1", "a/2")
    equal(sorted(row["key"] for row in gone), sorted(row["key"] for row in shown))
    equal(len(s.out("store", "ls", "-r", "a/").split()), 1101 - 1 - len(gone))
    equal(s.out("store", "rm", "-r", "a/", "c/"), b"")
    equal(s.out("store", "ls"), b"b\n")
    error(s, "INVALID", "store", "rm", "-r", "")
    error(s, "INVALID", "store", "rm", "-r", "--if-match", "x", "b")


@it("rm -r finds Holdfast's own objects before it removes any, and spares them without --force", LOCAL)
def _(s):
    s.run("release", s.out("acquire", "job").decode().strip())
    s.put("default/aaa", b"1")
    before = s.everything()
    for prefixes in (["default/"], ["default/aaa", "default/meta/"]):
        text = fails(s, "INVALID", "store", "rm", "-r", *prefixes)
        true("default/meta/job.json" in text and "--force" in text, text)
        equal(s.everything(), before)
    s.run("store", "rm", "-r", "--force", "default/")
    equal(s.out("store", "ls", "-r", "default/"), b"")


@it("rm -r and mv -r choose objects by patterns", LOCAL)
def _(s):
    for key in ("a/1.csv", "a/b/2.csv", "a/3.txt", "a/old.csv"):
        s.put(key, key.encode())
    chosen = ["-r", "--include", "*.csv", "--exclude", "*old*"]
    equal(s.out("store", "rm", *chosen, "--dry-run", "a/"), b"a/1.csv\na/b/2.csv\n")
    before = s.everything()
    equal(s.out("store", "mv", *chosen, "--dry-run", "a/", "z/"), b"a/1.csv -> z/1.csv\na/b/2.csv -> z/b/2.csv\n")
    equal(s.everything(), before)
    equal(s.out("store", "mv", *chosen, "a/", "z/"), b"moved 2 objects\n")
    equal(s.out("store", "ls", "-r").split(), [b"a/3.txt", b"a/old.csv", b"z/1.csv", b"z/b/2.csv"])
    s.run("store", "rm", "-q", "-r", "--include", "*.txt", "--include", "*2*", "--exclude", "z/1*", "a/", "z/")
    equal(s.out("store", "ls", "-r").split(), [b"a/old.csv", b"z/1.csv"])
    true("require --recursive" in error(s, "INVALID", "store", "rm", "--include", "*", "a/old.csv"), "a sentence")
    true("require --recursive" in error(s, "INVALID", "store", "mv", "--exclude", "*", "z/1.csv", "y"), "a sentence")


@it("cp -r and mv -r never take a copy for one of their sources", LOCAL)
def _(s):
    s.put("x/x/z", b"A")
    s.put("x/z", b"B")
    for verb in ("cp", "mv"):
        text = error(s, "INVALID", "store", verb, "-r", "x/", "")
        true("'x/z', which is part of the source" in text and "x/x/z" in text, text)
    s.run("store", "mv", "-q", "-r", "x/x/", "x/y/")
    equal(s.out("store", "ls", "-r").split(), [b"x/y/z", b"x/z"])


@it("cp -r and mv -r never take a copy for one of their sources, whatever names its store has", LOCAL)
def _(s):
    s.put("x/x/z", b"A")
    s.put("x/z", b"B")
    kind, name = s.url.split(":")
    os.symlink(name, s.file("link"))
    ends = [(["--to", f"{kind}:link"], "x/", "", "x/z"), (["--from", f"{kind}:./{name}"], "x/", "", "x/z"),
            (["--to", f"{s.url}?sync=off"], "x/", "", "x/z")]
    if kind == "dir":  # a folder in a store, or around it, is a store, too
        ends += [(["--from", "dir:link/x"], "", "", "x/z"), (["--to", f"dir:{s.path}"], "x/", "objects/", "objects/x/z")]
    for stores, source, target, part in ends:
        for verb in ("cp", "mv"):
            text = error(s, "INVALID", "store", verb, "-r", *stores, source, target)
            true(f"'{part}', which is part of the source" in text, text)
    s.run("store", "mv", "-q", "-r", "--to", f"{kind}:link", "x/x/", "x/y/")
    equal(objects(s, ""), ["x/y/z", "x/z"])


@it("mv copies, verifies and then deletes; it replaces nothing, and continues where it was stopped", LOCAL)
def _(s):
    s.put("a", b"1")
    equal(s.lines("store", "mv", "a", "b"), [{"from": "a", "to": "b", "size_bytes": 1, "moved": True}])
    equal((s.out("store", "ls"), s.get("b")), (b"b\n", b"1"))
    s.put("a", b"2")
    true("'b' already exists with different bytes" in error(s, "CONFLICT", "store", "mv", "a", "b"), "a sentence")
    s.put("c", b"2")  # what a move leaves that was stopped after the copy
    s.run("store", "mv", "-q", "a", "c")
    equal(s.out("store", "ls"), b"b\nc\n")
    s.run("store", "mv", "-q", "-r", "", "x/", "--to", "dir:other")
    equal((s.out("store", "ls"), s.out("store", "ls", "-r", "--store", "dir:other")), (b"", b"x/b\nx/c\n"))
    error(s, "NOT_FOUND", "store", "mv", "nothing", "b")
    error(s, "INVALID", "store", "mv", "a", "a")
    s.run("release", s.out("acquire", "job").decode().strip())
    error(s, "INVALID", "store", "mv", "-r", "default/", "elsewhere/")
    s.put("k", b"1")
    error(s, "INVALID", "store", "mv", "k", "default/meta/k.json")


@it("mv never deletes an object that it moves onto itself, whatever names its store has", LOCAL)
def _(s):
    s.put("a/1", b"1")
    s.put("a/2", b"2")
    kind, name = s.url.split(":")
    os.symlink(name, s.file("link"))
    s.write("holdfast.conf", f"[store named]\nurl = {kind}:{s.file(name)}\n".encode())
    s.env["HOLDFAST_CONFIG"] = s.file("holdfast.conf")
    before = s.everything()
    names = [s.url, f"{kind}:./{name}", f"{kind}:link", f"{s.url}?sync=off", "named"]
    names += [f"{s.url}/", f"{s.url}//"] if kind == "dir" else []
    for other in names:
        for args in (["--to", other, "a/1"], ["--from", other, "a/1"], ["-r", "--to", other, "a/"],
                     ["-r", "--to", other, ""]):
            for command in ("mv", "cp"):
                said = error(s, "INVALID", "store", command, *args)
                true("source and target are the same" in said, said)
        error(s, "INVALID", "store", "mv", "-r", "--to", other, "a/", "a/b/")
        equal(s.everything(), before, other)
    if kind == "dir":
        error(s, "INVALID", "store", "mv", "-r", "--from", f"{s.url}/a", "", "a/")
        error(s, "INVALID", "store", "mv", "--from", f"{s.url}/a", "1", "a/1")
        equal(s.everything(), before)
    s.run("store", "mv", "-q", "--to", f"{kind}:link", "a/1", "b")  # by another name, but another key
    equal(s.out("store", "ls", "-r"), b"a/2\nb\n")


@it("places on the network are compared by the servers that they are on")
def _(s):
    local = "endpoint=http://127.0.0.1:1"
    same = [("s3://bucket", "s3://bucket/"), ("s3://bucket", "s3://bucket?region=eu-west-1"),
            ("s3://bucket", "s3://bucket?endpoint=https://s3.eu-west-1.amazonaws.com"),
            ("s3://bucket?endpoint=http://host:80/", "s3://bucket?style=path&endpoint=http://host"),
            ("gs://bucket", "gs://bucket?endpoint=https://storage.googleapis.com/"),
            ("azure://account/box", "azure://account/box/?endpoint=https://account.blob.core.windows.net")]

    def check(one, other):
        for command in (["mv"], ["cp"], ["mv", "-r"], ["cp", "-r"]):
            said = fails(s, "INVALID", "store", *command, "--from", one, "--to", other, "k")
            true("source and target are the same" in said, (command, one, other, said))
        said = fails(s, "INVALID", "store", "sync", "--delete", one + "#a/", other)
        true("FROM and TO overlap" in said, (one, other, said))

    for one, other in same:
        check(one, other)
    said = fails(s, "INVALID", "store", "mv", "-r", "--from", "s3://bucket/a", "--to", "s3://bucket", "", "a/")
    true("source and target are the same" in said, said)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        s.env[name] = "http://127.0.0.1:1/"
        check("s3://bucket", f"s3://bucket?{local}")
        del s.env[name]
    s.env["AZURE_STORAGE_CONNECTION_STRING"] = "AccountName=account;BlobEndpoint=http://127.0.0.1:1/account;"
    check("azure://account/box", f"azure://account/box?{local}/account/")
    done = s.run("store", "cp", "--from", f"s3://bucket?timeout=1s&{local}", "--to", f"s3://bucket?timeout=1s&{local}2",
                 "k", expect=None)
    true(done.returncode not in (0, code(s, "INVALID")), done.stderr)


@it("mv leaves fenced objects where they are", LOCAL)
def _(s):
    for key, data in (("r/small", b"x"), ("r/large", b"x" * 10000)):
        s.run("write", "-q", "--lock", "job", key, "-", stdin=data)
        before = s.everything()
        said = error(s, "INVALID", "store", "mv", key, "archive/x")
        true("fenced objects are not moved" in said, said)
        fails(s, "INVALID", "store", "mv", "-r", "r/", "archive/")
        equal(s.everything(), before)
        equal(s.out("read", key), data)


@it("what is written to a source during its move is never lost", LOCAL)
def _(s):
    for i in range(6):
        s.put("a", b"before")
        mover = s.start("store", "mv", "-q", "a", f"b{i}")
        s.put("a", b"after")
        mover.communicate()
        true(mover.returncode in (0, code(s, "CONFLICT")), mover.returncode)
        kept = s.out("store", "ls", "a")
        equal(s.get("a" if kept else f"b{i}"), b"after", f"move {i}")


@it("of objects that cannot all be removed each that stays is named, and the others are gone")
def _(s):
    s.env["HOLDFAST_STORE"] = "dir:objects"
    for key in ("a", "b", "c"):
        s.put(key, b"1")
    os.mkdir(s.file("outside"))
    for name in ("bad", "worse"):
        os.symlink(s.file("outside"), s.file("objects/" + name))
    done = s.run("store", "rm", "a", "bad/x", "b", "worse/x", "c", expect=code(s, "INVALID"))
    said = done.stderr.decode().splitlines()
    equal([next(k for k in ("bad/x", "worse/x", "?") if k in line or k == "?") for line in said],
          ["bad/x", "worse/x"], said)
    equal(s.out("store", "ls").decode().split(), [])


@it("bytes from a pipe wait in files without a name, in $TMPDIR", LOCAL)
def _(s):
    os.mkdir(s.file("temporary"))
    s.env["TMPDIR"] = s.file("temporary")
    putter = s.start("store", "put", "k", "-", stdin=subprocess.PIPE)
    putter.stdin.write(b"x" * 3 * MIB)
    putter.stdin.flush()

    def waits():
        folder = f"/proc/{putter.pid}/fd"
        return any(os.readlink(f"{folder}/{fd}").startswith(s.file("temporary") + "/")
                   and os.stat(f"{folder}/{fd}").st_size > 0 for fd in os.listdir(folder))

    until(waits, "bytes in a temporary file")
    equal(os.listdir(s.file("temporary")), [], "names")
    putter.kill()
    putter.communicate()
    equal(os.listdir(s.file("temporary")), [], "names that a killed one leaves")


OWN = (".holdfast/epoch/default.json", ".txn-decisions/m/1", "roster/g/1", "metadata/catalog.json",
       "data/default/L1/2026/02/1.usv", "indexes/a/index.json", "indexes/a/shards/0f.usv",
       "default/meta/deploy.json", "default/inode/7.json", "team-b/paths.json",
       "default/state/k/12-0123456789abcdef0123456789abcdef", "default/.lease-index/2026020610/meta/k.json",
       "state.csv.hf/12-3-0123456789abcdef0123456789abcdef")
THEIRS = ("data/in.csv", "indexes/a/inbox/0f/k.usv", "indexes/a/k.usv", "docs/state/2026-01", "meta/a.json",
          "a/b/meta/c.json", "reports/inode/x.json", "state.csv", "a.hf/b")


@it("Holdfast's own objects are put, removed and written over only with --force", LOCAL)
def _(s):
    s.write("in", b"new")
    for key in OWN:
        s.run("store", "put", "-q", "--force", key, "-", stdin=b"own")
        text = error(s, "INVALID", "store", "put", key, "in")
        true("--force" in text, text)
        error(s, "INVALID", "store", "put", "--if-absent", key, "in")
        error(s, "INVALID", "store", "rm", "no-such-key", key)
        error(s, "INVALID", "store", "cp", OWN[0], key if key != OWN[0] else OWN[1])
    for key in THEIRS:
        s.run("store", "put", "-q", key, "in")
        s.run("store", "rm", "-q", key)
    s.run("store", "cp", "-q", "-r", "--to", "dir:backup")  # to where there is nothing
    s.run("store", "put", "-q", "--force", OWN[-1], "in")
    done = s.run("store", "cp", "-q", "-r", "--to", "dir:backup", expect=code(s, "INVALID"))
    true(OWN[-1].encode() in done.stderr and b"--force" in done.stderr, done.stderr)
    s.run("store", "cp", "-q", "-r", "--force", "--to", "dir:backup")
    equal(s.out("--store", "dir:backup", "store", "get", OWN[-1]), b"new")
    s.run("store", "rm", "-q", "--force", *OWN)
    equal(s.out("store", "ls"), b"")


@it("cp copies within a store and to another, and leaves equal copies alone", LOCAL)
def _(s):
    s.put("d/a", b"1")
    s.put("d/b", b"22")
    s.run("store", "cp", "d/a", "copy")
    equal(s.get("copy"), b"1")
    for other in ("dir:other", "sqlite:other.db"):
        rows = s.lines("store", "cp", "-r", "--to", other, "d/", "e/")
        equal(rows[-1], {"objects_copied": 2, "copied_bytes": 3, "objects_equal": 0,
                         "objects_vanished": 0})
        equal(s.out("store", "get", "e/b", "--store", other), b"22")
        rows = s.lines("store", "cp", "-r", "--to", other, "d/", "e/")
        equal([row["copied"] for row in rows[:-1]], [False, False])
    s.put("d/b", b"33")
    equal(s.lines("store", "cp", "-r", "--to", "dir:other", "d/", "e/")[-1]["objects_copied"], 1)
    equal(s.out("store", "get", "e/b", "--store", "dir:other"), b"33")


@it("cp with --if-absent replaces nothing, and never copies onto itself", LOCAL)
def _(s):
    s.put("a", b"1")
    s.put("b", b"2")
    error(s, "CONFLICT", "store", "cp", "--if-absent", "a", "b")
    error(s, "INVALID", "store", "cp", "a", "a")
    error(s, "INVALID", "store", "cp")
    error(s, "INVALID", "store", "cp", "-r", "", "below/")
    error(s, "NOT_FOUND", "store", "cp", "nothing", "b")
    error(s, "INVALID", "store", "cp", "-r", "a", "x" * 1030)


@it("cp -r chooses objects by patterns", LOCAL)
def _(s):
    for key in ("a/1.csv", "a/b/2.csv", "a/3.txt", "a/old.csv"):
        s.put(key, key.encode())
    lines = s.lines("store", "cp", "-r", "--include", "*.csv", "--exclude", "*old*", "a/", "z/")
    equal([line.get("to") for line in lines], ["z/1.csv", "z/b/2.csv", None])
    equal(s.out("store", "ls", "-r", "z/"), b"z/1.csv\nz/b/2.csv\n")
    true("require --recursive" in error(s, "INVALID", "store", "cp", "--include", "*", "a/1.csv", "b"), "a sentence")


def contents(s, url):
    """The objects of a store, except Holdfast's own."""
    keys = s.out("store", "ls", "-r", "--store", url).decode().split()
    return {key: s.out("store", "get", "--store", url, key) for key in keys}


@it("sync makes one store equal to another, and the second sync does nothing", LOCAL)
def _(s):
    other = {"dir:objects": "sqlite:other.db", "sqlite:objects.db": "dir:other"}[s.url]
    for key, data in (("a/1", b"1"), ("a/2", b"2"), ("b", b"b" * 70000)):
        s.put(key, data)
    equal(s.out("store", "sync", "--dry-run", s.url, other).splitlines()[:-1], [b"copy a/1", b"copy a/2", b"copy b"])
    true(not os.path.exists(s.file(other.split(":")[1])), "a trial makes no store")
    equal(s.out("store", "sync", s.url, other),
          b"copied 3 (68.4 KiB), deleted 0, already equal 0, deleted meanwhile 0\n")
    for key, data in (("a/2", b"x"), ("extra", b"x")):  # the same size, and one too many
        s.out("store", "put", "--store", other, key, "-", stdin=data)
    trial = s.lines("store", "sync", "--delete", "--dry-run", s.url, other)
    equal([(line.get("action"), line.get("to")) for line in trial], [("copy", "a/2"), ("delete", "extra"), (None, None)])
    equal((trial[-1]["objects_equal"], trial[-1]["done"]), (2, False))
    s.run("store", "sync", "-q", s.url, other)
    equal(sorted(contents(s, other)), ["a/1", "a/2", "b", "extra"])
    equal([line.get("to") for line in s.lines("store", "sync", "--delete", s.url, other)], ["extra", None])
    equal(contents(s, other), contents(s, s.url))
    traced = s.run("store", "sync", "-q", "--delete", "--trace", s.url, other)
    equal([line for line in traced.stderr.splitlines() if b": put" in line or b": delete" in line], [])


@it("sync copies between prefixes and by patterns, and refuses places that overlap", LOCAL)
def _(s):
    for key in ("a/1.csv", "a/2.txt", "z/1.csv", "z/3.csv", "z/4.txt"):
        s.put(key, key.encode())
    chosen = ["--delete", "--include", "a/*.csv"]
    lines = s.lines("store", "sync", *chosen, f"{s.url}#a/", f"{s.url}#z/")
    equal([(line.get("action"), line.get("to")) for line in lines], [("copy", "z/1.csv"), ("delete", "z/3.csv"), (None, None)])
    equal(s.out("store", "ls", "-r").split(), [b"a/1.csv", b"a/2.txt", b"z/1.csv", b"z/4.txt"])
    equal(s.get("z/1.csv"), b"a/1.csv")
    kind, name = s.url.split(":")
    os.symlink(name, s.file("link"))
    for places in ((s.url, s.url), (s.url, f"{s.url}#a/"), (f"{s.url}#a/b", f"{s.url}#a/"), (s.url, f"{kind}:link"),
                   (s.url, f"{s.url}?sync=off")):
        true("FROM and TO overlap" in error(s, "INVALID", "store", "sync", *places), places)
    error(s, "INVALID", "store", "sync", "dir:x", "dir:x/y/z")
    error(s, "INVALID", "store", "sync", "--store", "dir:x", s.url, "dir:y")
    error(s, "NOT_FOUND", "store", "sync", "dir:missing", s.url)


@it("sync copies Holdfast's own objects, but replaces and deletes them only by force", LOCAL)
def _(s):
    s.run("release", s.out("acquire", "job").decode().strip())
    s.run("store", "sync", "-q", s.url, "dir:copy")
    true("default/meta/job.json" in contents(s, "dir:copy"), "the table is copied")
    s.run("release", s.out("acquire", "job").decode().strip())
    true("use --force" in fails(s, "INVALID", "store", "sync", s.url, "dir:copy"), "a sentence")
    s.run("store", "sync", "-q", "--force", s.url, "dir:copy")
    s.out("store", "put", "-q", "--store", "dir:copy", "extra", "-")
    s.run("release", s.out("acquire", "--store", "dir:copy", "another").decode().strip(), "--store", "dir:copy")
    fails(s, "INVALID", "store", "sync", "--delete", s.url, "dir:copy")
    true("extra" in contents(s, "dir:copy"), "it was refused before anything was deleted")


@it("cp of everything leaves the findings of the probe behind", LOCAL)
def _(s):
    s.run("store", "probe")
    s.put("a", b"1")
    s.run("store", "cp", "-q", "-r", "--to", "dir:other")
    equal(s.out("store", "ls", "-r", "--store", "dir:other"), b"a\n")


@it("probe finds a local store good and keeps that in the store", LOCAL)
def _(s):
    report = json.loads(s.out("store", "probe", "--json", "--no-save"))
    true(report["usable"] and len(report["findings"]) > 5, report)
    true({f["verdict"] for f in report["findings"]} <= {"good", "lacking", "warning"}, report)
    equal(s.out("store", "ls", "-r"), b"")
    true(b"good" in s.out("store", "probe"), "for people")
    equal(s.out("store", "ls", "-r"), b".holdfast/format.json\n")


@it("the default store is in the state folder of the user")
def _(s):
    s.put("a", b"1")
    true(os.path.exists(s.file(".local/state/holdfast/store.db")), "the file")
    s.env["XDG_STATE_HOME"] = s.file("state %41?")
    s.put("b", b"1")
    true(os.path.exists(s.file("state %41?/holdfast/store.db")), "the other file")
    equal(s.out("store", "ls", "--store", "sqlite:"), b"b\n")
    s.env["HOLDFAST_STORE"] = "mem:"
    equal(s.out("store", "ls"), b"")
    equal(s.out("store", "ls", "--store=sqlite:.local/state/holdfast/store.db"), b"a\n")


# ---- Keys of all kinds --------------------------------------------------------------------------

ODD_KEYS = [b"\x01", b"\x1b[31mred", b" ", b"-dash", b"..", b"../up", b"/", b"a", b"a/../b",
            b"a//b", b"a\\b", b"a\nb", b"a\xff", "schlüssel".encode(), b"\xc2\x9b", b"\xff\xfe"]


@it("keys of odd bytes go in, are listed exactly, and come out", LOCAL)
def _(s):
    for i, key in enumerate(ODD_KEYS):
        s.run("store", "put", "-q", "--", key, "-", stdin=b"%d" % i)
    equal(s.out("store", "ls", "-r", "--null").split(b"\0")[:-1], sorted(ODD_KEYS))
    for row, key in zip(s.lines("store", "ls", "-r"), sorted(ODD_KEYS)):
        told = bytes.fromhex(row["key_hex"]) if "key_hex" in row else row["key"].encode()
        equal(told, key)
        equal("key_hex" in row, b"\xff" in key, "hexadecimal only where it must be")
        wanted = b"%d" % ODD_KEYS.index(key)
        equal(s.out("store", "get", "--", key), wanted)
        equal(s.out("store", "get", "--hex", key.hex()), wanted)
    s.run("store", "put", "-q", "--hex", "006100", "-", stdin=b"nul")
    equal(s.lines("store", "ls", "-r", "-n", "1")[0]["key"], "\0a\0")
    error(s, "INVALID", "store", "get", "--hex", "0x")
    error(s, "INVALID", "store", "get", "--hex", "abc")
    error(s, "INVALID", "store", "get", "")
    error(s, "INVALID", "store", "get", "x" * 1025)


def on_terminal(scratch, *args, **options):
    """What the program writes when stdout is a terminal."""
    ours, theirs = pty.openpty()
    process = scratch.start(*args, stdout=theirs, **options)
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    errors = process.communicate()[1]
    equal(process.returncode, 0, errors)
    return text.replace(b"\r\n", b"\n")


@it("on a terminal no key can send a control byte, and sizes are readable", ["sqlite"])
def _(s):
    for key in ODD_KEYS:
        s.run("store", "put", "-q", "--", key, "-", stdin=b"x" * 2048)
    text = on_terminal(s, "store", "ls", "-r")
    true(not re.search(rb"[\x00-\x09\x0b-\x1f\x7f\xff]|\xc2[\x80-\x9f]", text), text)
    for shown in (rb"\x1b[31mred", rb"a\nb", rb"a\\b", rb"a\xff", rb"\xc2\x9b"):
        true(shown + b"\n" in text, (shown, text))
    true("schlüssel\n".encode() in text, text)
    true(b" 2.0 KiB " in on_terminal(s, "store", "ls", "-l", "a"), "readable sizes")
    done = s.run("store", "get", b"no\n\x1b", expect=code(s, "NOT_FOUND"))
    equal(done.stderr, b"holdfast: store get no\\n\\x1b: NOT_FOUND: no such object\n")


# ---- Streams, files, signals --------------------------------------------------------------------


@it("100 MiB go in by stdin and come out by stdout unchanged", LOCAL)
def _(s):
    block = os.urandom(MIB)
    writer = s.start("store", "put", "--quiet", "big", "-", stdin=subprocess.PIPE)
    for i in range(100):
        writer.stdin.write(block[i:] + block[:i])
    equal(writer.communicate(), (b"", b""))
    equal(writer.returncode, 0)
    reader = s.start("store", "get", "big")
    for i in range(100):
        equal(reader.stdout.read(MIB), block[i:] + block[:i], f"MiB {i}")
    equal(reader.communicate(), (b"", b""))
    equal(os.listdir(s.path).count("big"), 0)


@it("put takes pipes as files; get follows links, keeps modes, and writes to devices")
def _(s):
    os.mkfifo(s.file("pipe"))
    writer = s.start("store", "put", "k", "pipe")
    s.write("pipe", b"through a pipe")
    equal(writer.wait(), 0)
    equal(s.get("k"), b"through a pipe")
    s.write("real", b"old")
    os.chmod(s.file("real"), 0o640)
    os.symlink("real", s.file("link"))
    s.run("store", "get", "k", "link")
    equal(s.read("real"), b"through a pipe")
    true(os.path.islink(s.file("link")), "still a link")
    equal(os.stat(s.file("real")).st_mode & 0o777, 0o640)
    s.run("store", "get", "k", "/dev/null")
    true(not os.path.isfile("/dev/null"), "still a device")
    error(s, "INVALID", "store", "get", "k", ".")
    error(s, "INVALID", "store", "put", "k", ".")
    error(s, "NOT_FOUND", "store", "put", "k", "no-such-file")
    error(s, "NOT_FOUND", "store", "get", "k", "no-such-folder/file")


@it("a failed get leaves the old file as it was", LOCAL)
def _(s):
    s.write("out", b"old")
    s.put("k", b"new")
    error(s, "NOT_FOUND", "store", "get", "nothing", "out")
    error(s, "INVALID", "store", "get", "--range", "7-", "k", "out")
    equal(s.read("out"), b"old")
    true(not [name for name in os.listdir(s.path) if ".part-" in name], os.listdir(s.path))


def interrupt_get(s, *signals):
    """Starts a get of a large object and signals it once its scratch file is there. Returns the
    process's end, or None when it was done before that."""
    process = s.start("store", "get", "big", "out")
    while process.poll() is None and not any(".part-" in n for n in os.listdir(s.path)):
        pass
    if len(signals) > 1:
        process.send_signal(signal.SIGSTOP)
    for number in signals:
        process.send_signal(number)
    if len(signals) > 1:
        process.send_signal(signal.SIGCONT)
    errors = process.communicate()[1]
    equal(errors, b"")
    return process.returncode if process.returncode != 0 else None


def until_in_time(s, *signals):
    """Larger and larger objects until the signals come before the end."""
    for size in (64, 128, 256):
        s.write("in", bytes(size * MIB))
        s.run("store", "put", "-q", "big", "in")
        s.write("out", b"old")
        end = interrupt_get(s, *signals)
        if end is not None:
            return end
    raise AssertionError("the program was always faster")


@it("a get that is killed never leaves half a file under the name", LOCAL)
def _(s):
    equal(until_in_time(s, signal.SIGKILL), -signal.SIGKILL)
    equal(s.read("out"), b"old")
    s.run("store", "get", "big", "out")
    equal(s.read("out"), s.read("in"))


@it("Ctrl-C ends a get by the signal, quietly, and nothing is left", LOCAL)
def _(s):
    equal(until_in_time(s, signal.SIGINT), -signal.SIGINT)
    equal(s.read("out"), b"old")
    true(not [name for name in os.listdir(s.path) if ".part-" in name], os.listdir(s.path))


@it("a second signal ends it at once, and still nothing is left")
def _(s):
    true(until_in_time(s, signal.SIGINT, signal.SIGTERM) in (-signal.SIGINT, -signal.SIGTERM),
         "ended by one of them")
    equal(s.read("out"), b"old")
    true(not [name for name in os.listdir(s.path) if ".part-" in name], os.listdir(s.path))


@it("a signal that comes twice within a moment, as timeout(1) sends it, is one signal")
def _(s):
    make_scene(s, "compact watch")
    for again in (0, 0.02, 0.05):
        for _ in range(20):  # until this process was not held up in between
            watch = s.start("compact", "watch", "--json")
            watch.stdout.readline()  # it is at work
            begun = time.monotonic()
            watch.send_signal(signal.SIGTERM)
            time.sleep(again)
            watch.send_signal(signal.SIGTERM)
            took = time.monotonic() - begun
            watch.communicate()
            if took < 0.15:
                break
        equal((watch.returncode, took < 0.15), (0, True), f"again after {again} s")


@it("Ctrl-C ends a put that waits for stdin, and changes nothing", LOCAL)
def _(s):
    s.put("k", b"old")
    writer = s.start("store", "put", "k", "-", stdin=subprocess.PIPE)
    writer.stdin.write(bytes(MIB))  # more than a pipe holds: it has begun to read
    writer.stdin.flush()
    writer.send_signal(signal.SIGINT)
    equal(writer.stdout.read(), b"")
    equal(writer.wait(), -signal.SIGINT)
    writer.communicate()
    equal(s.get("k"), b"old")


@it("Ctrl-C ends a sync between two objects, and the next sync does the rest", LOCAL)
def _(s):
    for number in range(4):
        s.put(f"a/{number}", os.urandom(1000))
    for prefix in "bcdefgh":
        s.run("store", "cp", "-q", "-r", "a/", f"{prefix}/")
    for attempt in range(20):  # until it was still at work
        place = f"dir:to-{attempt}"
        sync = s.start("store", "sync", "--json", s.url, place)
        sync.stdout.readline()  # of the first object
        sync.send_signal(signal.SIGINT)
        sync.communicate()
        copied = len(s.out("store", "ls", "-r", "--store", place).splitlines())
        if copied < 32:
            break
    equal((sync.returncode, 0 < copied < 32), (-signal.SIGINT, True))
    rest = s.lines("store", "sync", s.url, place)
    equal((len(rest) - 1, rest[-1]["objects_equal"]), (32 - copied, copied), "what is there is whole")
    equal(s.lines("store", "sync", s.url, place)[-1]["objects_equal"], 32)


@it("a closed pipe ends the program quietly", LOCAL)
def _(s):
    s.put("big", bytes(MIB))
    for args in (("store", "get", "big"), ("store", "ls"), ("help",), ("help", "--json")):
        theirs_read, theirs_write = os.pipe()
        os.close(theirs_read)
        process = s.start(*args, stdout=theirs_write)
        os.close(theirs_write)
        equal(process.communicate()[1], b"", args)
        equal(process.returncode, -signal.SIGPIPE, args)


@it("a full disk or a closed stdout is an error, told once")
def _(s):
    s.put("k", b"1")
    for args in (("store", "get", "k"), ("store", "ls"), ("version",), ("store", "ls", "--json")):
        with open("/dev/full", "wb") as full:
            done = s.run(*args, stdout=full, expect=code(s, "UNREPORTED"))
        equal(done.stderr.count(b"\n"), 1, done.stderr)
        true(b"No space left" in done.stderr, done.stderr)
    shell = subprocess.run(["sh", "-c", "holdfast version >&-"], env=s.env, cwd=s.path,
                           stderr=subprocess.PIPE, check=False)
    equal(shell.returncode, code(s, "UNREPORTED"), shell.stderr)


@it("what was done and cannot be told has an exit code of its own")
def _(s):
    def untold(*args, **options):
        with open("/dev/full", "wb") as full:
            done = s.run(*args, stdout=full, expect=code(s, "UNREPORTED"), **options)
        true(b"UNREPORTED" in done.stderr and b"No space left" in done.stderr, done.stderr)

    untold("store", "put", "k", "-", stdin=b"first")
    equal(s.get("k"), b"first")
    untold("store", "put", "k", "-", "--json", stdin=b"second")
    equal(s.get("k"), b"second")
    untold("store", "get", "k")
    untold("store", "cp", "k", "copy", "--json")
    equal(s.get("copy"), b"second")
    untold("key", "update", "orders/42", "--take", "--json", stdin=b"open")
    equal(s.out("key", "get", "orders/42"), b"open")
    lease = s.out("acquire", "job").decode().strip()
    untold("release", "--json", lease)
    s.run("acquire", "--no-wait", "job")
    # What could not be told to the only one who would know of it is undone again.
    for args in (("acquire", "other"), ("key", "acquire", "a"), ("txn", "begin")):
        with open("/dev/full", "wb") as full:
            done = s.run(*args, stdout=full, expect=code(s, "UNAVAILABLE"))
        true(b"undone, because" in done.stderr, done.stderr)
    s.run("acquire", "--no-wait", "other")
    s.run("key", "acquire", "--no-wait", "a")
    equal(s.lines("txn", "ls", "--state", "pending"), [])


@it("a cp -r whose report cannot be written copies all the same", LOCAL)
def _(s):
    for i in range(3):
        s.put(f"from/{i}", b"x" * i)
    with open("/dev/full", "wb") as full:
        s.run("store", "cp", "-r", "--json", "from/", "to/", stdout=full,
              expect=code(s, "UNREPORTED"))
    equal(len(s.lines("store", "ls", "-r", "to/")), 3)


@it("mv -r and rm -r whose report cannot be written do the later pages all the same", ["dir"])
def _(s):
    s.env["HOLDFAST_STORE"] += "?sync=off"
    os.makedirs(s.file("objects/a"))
    for i in range(1001):
        s.write(f"objects/a/{i:04}", b"1")
    with open("/dev/full", "wb") as full:
        s.run("store", "mv", "-r", "--json", "a/", "b/", stdout=full, expect=code(s, "UNREPORTED"))
        equal((len(objects(s, "a/")), len(objects(s, "b/"))), (0, 1001))
        s.run("store", "rm", "-r", "--json", "b/", stdout=full, expect=code(s, "UNREPORTED"))
    equal(objects(s, ""), [])


@it("a compaction whose report cannot be written merges all the same")
def _(s):
    s.run("compact", "create", "--format", "usv", "--key", "1", "--time", "3")
    names = [f"{i}.usv" for i in range(40)]
    for i, name in enumerate(names):
        s.write(name, f"{i}\x1fa\x1f2026-01-01T00:00:00Z\x1e".encode())
    s.run("compact", "ingest", *names)
    with open("/dev/full", "wb") as full:
        s.run("compact", "run", "--all", "--force", "--json", stdout=full,
              expect=code(s, "UNREPORTED"))
    chunks = s.lines("compact", "ls")
    equal((sum(chunk["rows"] for chunk in chunks), len(chunks) < 40), (40, True))


@it("a cp -r that is killed goes on where it was, between any two stores", LOCAL)
def _(s):
    count, other = 40, {"dir:objects": "sqlite:other.db", "sqlite:objects.db": "dir:other"}[s.url]
    os.mkdir(s.file("plain"))
    for i in range(count):
        s.write(f"plain/{i:02}", os.urandom(100 + i * 10000))
    s.run("store", "cp", "-r", "-q", "--from", "dir:plain", "--to", s.url)
    command = ("store", "cp", "-r", "--to", other)
    process = s.start(*command, "--json")
    for _ in range(10):
        true(json.loads(process.stdout.readline())["copied"], "nothing was there")
    process.kill()
    process.communicate()
    equal(process.returncode, -signal.SIGKILL)
    rows = s.lines(*command)
    true(rows[-1]["objects_equal"] >= 10, rows[-1])
    equal(rows[-1]["objects_equal"] + rows[-1]["objects_copied"], count)
    equal(s.lines(*command)[-1]["objects_equal"], count)
    for i in range(0, count, 7):
        equal(s.out("store", "get", f"{i:02}", "--store", other), s.read(f"plain/{i:02}"))


@it("a long transfer shows its progress on a terminal, and takes it away again")
def _(s):
    ours, theirs = pty.openpty()
    process = s.start("store", "put", "k", "-", stdin=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown, end = b"", time.monotonic() + 30
    while b"/s" not in shown and time.monotonic() < end:
        process.stdin.write(bytes(1000))
        process.stdin.flush()
        if select.select([ours], [], [], 0.05)[0]:
            shown += os.read(ours, 4096)
    true(re.search(rb"\rk  [\d.]+ (B|KiB)  [\d.]+ (B|KiB)/s", shown), shown)
    process.stdin.close()
    process.stdin = None
    process.wait()
    while select.select([ours], [], [], 0)[0]:
        try:
            shown += os.read(ours, 4096)
        except OSError:
            break
    os.close(ours)
    process.stdout.close()
    equal(process.returncode, 0)
    equal(shown.split(b"\r")[-2].strip(), b"", "blanks over it at the end")


@it("--quiet writes data and errors only; --trace a line for each request")
def _(s):
    equal(s.out("store", "put", "-q", "k", "-", stdin=b"1"), b"")
    equal(s.out("-q", "store", "cp", "k", "l"), b"")
    traced = s.run("store", "get", "--trace", "k")
    equal(traced.stdout, b"1")
    true(re.fullmatch(rb"holdfast: get \.holdfast/format\.json -> NOT_FOUND[^\n]*\n"
                      rb"holdfast: get[^\n]* k [^\n]*OK[^\n]*, depth 2\n", traced.stderr), traced.stderr)


# ---- Errors -------------------------------------------------------------------------------------


@it("errors are one clear sentence with the exit code of the table")
def _(s):
    s.put("k", b"1")
    for status, args, wanted in (
        ("INVALID", ["store", "ls", "--recursiv"], "did you mean --recursive?"),
        ("INVALID", ["store", "ls", "--lnog"], "did you mean --long?"),
        ("INVALID", ["store", "ls", "--zzzzzz"], "--help lists the options"),
        ("INVALID", ["store", "ls", "-x"], "unknown option -x"),
        ("INVALID", ["stor", "ls"], "did you mean 'store'?"),
        ("INVALID", ["store", "lst"], "did you mean 'store ls'?"),
        ("INVALID", ["nonsense"], "holdfast help"),
        ("INVALID", ["store"], "ls, get, put"),
        ("INVALID", ["store", "get"], "KEY is missing"),
        ("INVALID", ["store", "get", "k", "f", "g"], "unexpected argument 'g'"),
        ("INVALID", ["store", "ls", "--limit"], "--limit needs a value: N"),
        ("INVALID", ["store", "ls", "--limit", "ten"], "--limit: "),
        ("INVALID", ["store", "ls", "--long=yes"], "--long takes no value"),
        ("INVALID", ["store", "ls", "-r", "--delimiter", "x"], "cannot be used together"),
        ("INVALID", ["store", "ls", "--delimiter", "xy"], "exactly one byte"),
        ("INVALID", ["store", "ls", "--limit", "1", "--limit", "2"], "given twice"),
        ("INVALID", ["store", "put", "--if-match", "", "k", "/dev/null"], "ETag"),
        ("INVALID", ["--recursive", "store", "ls"], "must come after it"),
        ("INVALID", ["store", "ls", "--store", "nothing"], "not the URL of a store"),
        ("INVALID", ["store", "ls", "--store", "ftp:x"], "ftp:"),
        ("INVALID", ["help", "nonsense"], "lists the commands"),
        ("NOT_FOUND", ["store", "get", "none"], "no such object"),
    ):
        text = error(s, status, *args)
        true(wanted in text, f"{args}: {text}")


@it("with --json errors are JSON objects too")
def _(s):
    for args in (["store", "get", "k", "--json"], ["--json", "store", "get", b"\xff\n"],
                 ["store", "ls", "--nonsense", "--json"]):
        done = subprocess.run([PROGRAM, *args], cwd=s.path, env=s.env, capture_output=True,
                              check=False)
        told = json.loads(done.stderr)
        equal(sorted(told), ["command", "outcome", "status", "why"])
        equal(done.returncode, code(s, told["status"]))
        equal(done.stdout, b"")


class Fake:
    """The stand-in S3 server of s3_fake.py; its buckets are behaviours."""

    def __init__(self, scratch):
        script = os.path.join(os.environ["HOLDFAST_TESTS"], "s3_fake.py")
        self.process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().split()[1])
        scratch.env.update(AWS_ACCESS_KEY_ID="access", AWS_SECRET_ACCESS_KEY="hunter2")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def url(self, bucket):
        return f"s3://{bucket}?endpoint=http://127.0.0.1:{self.port}"


@it("a copy that the target loses is a failure, not an object that vanished", ["sqlite"])
def _(s):
    s.put("k", b"1")
    with Fake(s) as fake:
        for args in (["-r"], ["k"]):
            done = s.run("store", "cp", *args, "--to", fake.url("forgets"),
                         expect=code(s, "CORRUPT"))
            true(b"read back" in done.stderr, done.stderr)


@it("-v shows events and requests that fail, -vv every request; --log writes them with their time", LOCAL)
def _(s):
    said = s.run("-v", "run", "job", "--", "true", expect=None).stderr.decode()
    true(re.fullmatch(r"(holdfast: [^\n]*\n)+", said), said)
    true("granted named:job, token " in said and "released named:job" in said and "-> OK" not in said, said)
    true(" -> OK" in s.run("-vv", "run", "job", "--", "true", expect=None).stderr.decode(), "every request")
    s.put("k", b"1")
    said = s.run("-v", "store", "put", "--if-absent", "k", "-", expect=code(s, "CONFLICT")).stderr.decode()
    true("put k if-absent -> CONFLICT" in said or "put_file k if-absent -> CONFLICT" in said, said)
    for line in s.run("--log", "json", "run", "job", "--", "true", expect=None).stderr.splitlines():
        equal(json_kit.fit("log", line), None)
    equal(s.run("--log", "json:log", "store", "put", "--if-absent", "k", "-", expect=code(s, "CONFLICT")).stdout, b"")
    lines = [json.loads(line) for line in s.read("log").splitlines()]
    equal([line["event"] for line in lines], ["request", "error"])
    equal([json_kit.fit("log", line) for line in s.read("log").splitlines()], [None, None])
    held = s.out("acquire", "busy").decode().strip()
    for args in (("acquire", "--wait", "400ms", "busy"), ("run", "--wait", "1200ms", "busy", "--", "true")):
        said = s.run("-v", *args, expect=code(s, "TIMEOUT")).stderr.decode()
        true(re.search(r"^holdfast: waiting: .*held by", said, re.M) and said.count("holdfast: waiting: ") == 1, said)
    s.run("release", held)
    s.env["HOLDFAST_LOG"] = "text:log.txt"
    s.run("-vv", "store", "get", "k")
    s.run("store", "get", "k")  # a log without a level has only what fails
    lines = s.read("log.txt").decode().splitlines()
    true(len(lines) == 2 and all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z holdfast\[\d+\]: get", at) for at in lines), lines)
    for given, piece in (("xml", "is not a form of the log"), ("json:", "the name of the file is missing"),
                         ("text:missing/folder", "cannot open 'missing/folder'")):
        text = s.run("--log", given, "store", "ls", expect=None).stderr.decode()
        true(piece in text, text)


@it("--color decides about bold titles, then HOLDFAST_COLOR, then NO_COLOR, and without them the terminal")
def _(s):
    def bold(*args, **env):
        return b"\033[" in subprocess.run([PROGRAM, *args, "help"], cwd=s.path, env={**s.env, "TERM": "xterm", **env},
                                          capture_output=True, check=True).stdout

    equal((bold(), bold("--color", "always"), bold("--color=auto")), (False, True, False))
    equal((bold(HOLDFAST_COLOR="always"), bold("--color", "never", HOLDFAST_COLOR="always")), (True, False))
    equal((bold("--color", "always", NO_COLOR="1"), bold(HOLDFAST_COLOR="always", NO_COLOR="1")), (True, True))
    fails(s, "INVALID", "--color", "red", "help")


@it("neither errors nor traces pass on what a server sends to the terminal, or a secret")
def _(s):
    with Fake(s) as fake:
        done = s.run("store", "get", "k", "--trace", "--store", fake.url("escapes"),
                     expect=code(s, "INVALID"))
    true(b"owned" in done.stderr, done.stderr)
    true(not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]|hunter2", done.stderr), done.stderr)


@it("a damaged store is CORRUPT, and stays as it is")
def _(s):
    s.write("bad.db", b"this is no database, whatever its name says" * 100)
    done = s.run("store", "ls", "--store", "sqlite:bad.db", expect=code(s, "CORRUPT"))
    equal(done.stderr.count(b"\n"), 1)
    equal(s.read("bad.db"), b"this is no database, whatever its name says" * 100)


@it("options stand anywhere before --, and nothing behind it is one")
def _(s):
    s.put("--json", b"1")
    equal(s.out("--store", "sqlite:", "store", "get", "--", "--json"), b"1")
    equal(s.out("store", "--quiet", "ls", "--", "--json"), b"--json\n")
    equal(s.out("store", "ls", "-lr0", "--").count(b"\0"), 1)
    equal(s.out("store", "rm", "--", "--json"), b"")


# ---- Help, manual page, completion --------------------------------------------------------------


@it("the help of every command names all its options and arguments")
def _(s):
    for command, page in command_pages(s):
        for option in command["options"] + s.table()["options"]:
            true(f"--{option['name']}" in page, (command["command"], option["name"]))
            if option["letter"]:
                true(f"-{option['letter']}, " in page, (command["command"], option["letter"]))
        for argument in command["arguments"]:
            true(argument["name"] in page, (command["command"], argument["name"]))
        equal(page, s.out("help", *command["command"].split()).decode(), "both ways to ask")
        for line in page.splitlines():
            true(len(line) <= 90, f"too wide: {line}")


@it("help lists every command and every exit code")
def _(s):
    for text in (s.out("help").decode(), s.out("--help").decode()):
        for command in s.table()["commands"]:
            true(f"\n  {command['command']} " in text, command["command"])
        for status in s.table()["statuses"]:
            true(f"\n  {status['exit_code']} {status['status']} " in text, status)
    true(b"store ls" in s.out("store", "--help") and b"store ls" in s.out("help", "store"), "group")
    true(b"try first" in s.out(), "a welcome")
    equal(s.out("--version"), s.out("version"))
    equal(json.loads(s.out("version", "--json"))["version"].encode(), s.out("version").split()[1])


@it("the manual page has every command, option and exit code, and is good roff")
def _(s):
    source = s.out("help", "--man")
    s.write("holdfast.1", source)
    text = source.decode().replace("\\-", "-").replace("\\(aq", "'").replace("\\(rs", "\\")
    for command in s.table()["commands"]:
        true(f"\n.SS {command['command']}\n" in text, command["command"])
        for option in command["options"]:
            true(f"--{option['name']}" in text, option["name"])
        for example in command["examples"]:
            true(f"\n{example['line']}\n" in text, example["line"])
    for status in s.table()["statuses"]:
        true(f"\n.B {status['exit_code']} {status['status']}\n" in text, status)
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", s.file("holdfast.1")],
                              capture_output=True, check=True)
        equal(done.stderr, b"", "groff has no warnings")


@it("each command has a manual page of its own, which is good roff")
def _(s):
    os.mkdir(s.file("pages"))
    s.run("help", "--man-pages", "pages")
    pages = {f"holdfast-{command['command'].replace(' ', '-')}.1": command
             for command in s.table()["commands"]}
    equal(set(os.listdir(s.file("pages"))), set(pages) | {"holdfast.1"})
    equal(s.read("pages/holdfast.1"), s.out("help", "--man"))
    for name, command in pages.items():
        source = s.read(f"pages/{name}")
        equal(source, s.out("help", "--man", *command["command"].split()), name)
        text = source.decode().replace("\\-", "-").replace("\\(aq", "'")
        title = name[:-2].upper()
        true(text.startswith(f".TH {title} 1 "), name)
        true(f"\n.SH NAME\n{name[:-2]} - " in text, name)
        for option in command["options"]:
            true(f"--{option['name']}" in text, (name, option["name"]))
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z",
                               *[s.file(f"pages/{name}") for name in pages]],
                              capture_output=True, check=True)
        equal(done.stderr, b"", "groff has no warnings")
    done = s.run("help", "--man-pages", "no/such/folder", expect=80)
    true(b"no/such/folder" in done.stderr, done.stderr)


def with_env(s, *args, **env):
    """What the program writes to a terminal, with this in its environment."""
    before = dict(s.env)
    s.env.update(env)
    text = on_terminal(s, *args)
    s.env = before
    return text


@it("titles are bold on a terminal that can, and nowhere else; NO_COLOR is honoured")
def _(s):
    s.run("acquire", "deploy")
    for words, title in ((("help", "store", "get"), b"Examples"), (("locks", "ls"), b"SCOPE")):
        bold = with_env(s, *words, TERM="xterm")
        true(b"\x1b[1m" + title in bold and bold.count(b"\x1b[1m") == bold.count(b"\x1b[0m"),
             bold)
        for env in ({"TERM": "dumb"}, {"TERM": "xterm", "NO_COLOR": "1"}):
            true(b"\x1b" not in with_env(s, *words, **env), env)
        true(b"\x1b[1m" in with_env(s, *words, TERM="xterm", NO_COLOR=""), "an empty one")
        true(b"\x1b" not in s.out(*words), "a pipe")


def complete(s, line):
    script = ". ./completion.bash; COMP_LINE=$1; COMP_POINT=${#1}; _holdfast; " \
             "printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "--norc", "-c", script, "bash", line], cwd=s.path, env=s.env,
                          capture_output=True, check=True)
    equal(done.stderr, b"", line)
    return done.stdout.decode().split()


@it("bash completes commands, options, kinds of stores and files, as the table has them")
def _(s):
    s.write("completion.bash", s.out("completion", "bash"))
    s.write("report.csv", b"")
    commands = [command["command"] for command in s.table()["commands"]]
    equal(sorted(complete(s, "holdfast ")), sorted({command.split()[0] for command in commands}))
    equal(complete(s, "holdfast store p"), ["put", "probe"])
    equal(complete(s, "holdfast help store g"), ["get"])
    shared = s.table()["options"]
    for command in s.table()["commands"]:
        offered = complete(s, f"holdfast {command['command']} -")
        for option in command["options"] + shared:
            true(f"--{option['name']}" in offered, (command["command"], option["name"]))
        known = {f"--{option['name']}" for option in command["options"] + shared}
        true({o for o in offered if o.startswith("--")} == known, command["command"])
    equal(complete(s, "holdfast --store "), ["dir:", "sqlite:", "s3://", "gs://", "azure://", "http://", "mem:"])
    equal(complete(s, "holdfast store ls --store=s"), ["sqlite:", "s3://"])
    equal(complete(s, "holdfast --store dir:x store put --if-match e k rep"), ["report.csv"])
    equal(complete(s, "holdfast store ls --store sqlite:rep"), ["report.csv"])
    equal(complete(s, "holdfast store ls --limit "), [])
    for scheme in complete(s, "holdfast --store "):
        process = s.start("store", "ls", "--store", scheme)  # whatever is missing behind it
        true(b"unknown kind of store" not in process.communicate()[1], scheme)


def hold_deploy(s):
    """Holds the lock `deploy`, unless an example before this one left it held."""
    done = subprocess.run([PROGRAM, "acquire", "--no-wait", "deploy"], cwd=s.path, env=s.env,
                          capture_output=True, check=False)
    if done.returncode == 0:
        s.env["HOLDFAST_LEASE"] = done.stdout.decode().strip()
    else:
        equal(done.returncode, code(s, "HELD"), done.stderr)
    s.run("write", "state.csv", "report.csv")


def make_chunks(s):
    """A partition with chunks that are due, and some that were merged."""
    s.run("compact", "create", "-q", "--format", "usv", "--key", "1", "--time", "3")
    for force in (["--force"], []):
        for part in ("part-1.usv", "part-2.usv"):
            s.run("compact", "ingest", "-q", part, "--id", f"{part} {force}")
        s.run("compact", "run", "-q", *force)
    rows = s.lines("compact", "ls", "--all")
    for name, state in (("CHUNK", "live"), ("TOMBSTONE", "tombstone")):
        s.env[name] = [row["key"] for row in rows if row["state"] == state][0]


def make_index(s):
    """An index with a record in a shard and one in the inbox."""
    s.run("index", "create", "-q", "domains", "--fields", "domain,owner,updated_at", "--key",
          "domain", "--time", "updated_at")
    s.run("index", "put", "-q", "domains", "domain=example.com", "owner=ada")
    s.run("index", "compile", "-q", "domains")
    s.run("index", "put", "-q", "domains", "domain=example.org", "owner=joe")


def make_keys(s):
    """A key with a first version."""
    s.run("key", "update", "-q", "orders/42", "--take", stdin=b"open\n")


EXAMPLE_FILES = {
    "report.csv": b"day,visits\nmonday,17\n",
    "older.csv": b"day,visits\nfriday,12\nsunday,9\n",
    "events-1.ndjson": b'{"id":"a","updated":"2026-02-06T10:00:00Z"}\n',
    "events-2.ndjson": b'{"id":"a","updated":"2026-02-06T12:00:00+01:00"}\n',
    "domains.csv": b"domain,owner,updated_at\nexample.net,eve,2026-02-06T10:00:00Z\n",
    "part-1.usv": b"a\x1fx\x1f1770000000\n",
    "part-2.usv": b"b\x1fy\x1f1770000001\na\x1fz\x1f1770000002\n",
}


def write_parquet(s):
    s.env["HOLDFAST_DUCKDB"] = duckdb_kit.library_path()
    s.env["HOLDFAST_PARQUET"] = os.path.join(os.path.dirname(PROGRAM), os.pardir, "parquet",
                                             "holdfast-parquet")
    duck = duckdb_kit.Duck()
    for part in (1, 2):
        duck.write(s.file(f"part-{part}.parquet"),
                   f"SELECT 'a' AS id, TIMESTAMP '2026-02-06 10:0{part}:00' AS updated")


def make_scene(s, name):
    """What the examples of a command find there."""
    write_example_files(s)
    if name == "merge":
        write_parquet(s)
    if name.startswith("compact "):
        make_chunks(s)
        s.run("store", "put", "-q", "raw/day-1.usv", "part-1.usv")
        s.run("store", "put", "-q", "incoming/day-2.usv", "part-2.usv")
    if name.startswith("index "):
        make_index(s)
    if name.startswith("key "):
        make_keys(s)


def write_example_files(s):
    for file, data in EXAMPLE_FILES.items():
        s.write(file, data)


def make_example_files(s):
    """What each single example finds there, whatever the one before did."""
    write_example_files(s)
    s.run("store", "put", "-q", "reports/old.csv", "report.csv")
    s.env["ETAG"] = s.out("store", "put", "reports/today.csv", "report.csv").decode().strip()
    hold_deploy(s)


@it("every example works as it stands")
def _(s):
    table = s.table()
    shown = [("welcome", table["welcome"])]
    shown += [(command["command"], command["examples"]) for command in table["commands"]]
    for name, examples in shown:
        true(examples, f"{name} has examples")
        fresh = Scratch(None)
        make_scene(fresh, name)
        for example in examples:
            make_example_files(fresh)
            done = subprocess.run(["bash", "-o", "pipefail", "-c", example["line"]],
                                  cwd=fresh.path, env=fresh.env, capture_output=True, check=False)
            said = re.sub(rb"^holdfast: pinned; to end this early: .*\n", b"", done.stderr)
            equal((done.returncode, said), (0, b""), example["line"])
        fresh.close()


# ---- Messages -----------------------------------------------------------------------------------


@it("words that other programs have lead to ours")
def _(s):
    for words, piece in ((["lock", "x", "--", "true"], "holdfast run NAME -- COMMAND"),
                         (["unlock", "x"], "holdfast release"),
                         (["index", "delete", "domains"], "index drop"),
                         (["ls"], "locks ls"), (["rm", "x"], "store rm"),
                         (["flock", "x", "true"], "holdfast run NAME")):
        done = s.run(*words, expect=86)
        true(piece.encode() in done.stderr, (words, done.stderr))


@it("an alias is the command that it stands for, and help marks it so")
def _(s):
    aliases = {alias: command["command"] for command in s.table()["commands"]
               for alias in command["aliases"]}
    for alias in ("key remove", "key describe", "key keepalive", "store remove", "locks describe",
                  "index show", "compact show", "sweep show"):
        true(alias in aliases, alias)
    names = {command["command"] for command in s.table()["commands"]}
    for alias, target in aliases.items():
        true(alias not in names and target in names, alias)
        page = s.out(*alias.split(), "--help").decode()
        equal(page, s.out(*target.split(), "--help").decode(), alias)
        true(f"'{alias}'" in page and "Aliases: " in page, page)
    for verb in ("remove", "describe", "keepalive"):
        true(not any(name.split()[-1] == verb for name in names), f"{verb} is an alias only")
    s.run("key", "update", "-q", "k", "--take", stdin=b"1")
    equal(s.out("key", "describe", "k", "--json"), s.out("key", "show", "k", "--json"))
    s.run("key", "remove", "k", "--take")
    s.run("key", "get", "k", expect=80)


@it("help marks the options without which a command does nothing")
def _(s):
    text = " ".join(s.out("locks", "break", "--help").decode().split())
    true("with your name (required)" in text, text)
    true("(required)" not in s.out("locks", "ls", "--help").decode(), "others are not marked")


@it("numbers and nouns agree, and ages read well")
def _(s):
    s.write("a.csv", b"id,at\n1,2026-02-06T10:00:00Z\n")
    s.write("b.csv", b"id,at\n1,2026-02-06T11:00:00Z\n2,2026-02-06T11:00:00Z\n")
    one = s.out("merge", "--format", "csv", "--key", "id", "-o", "o.csv", "a.csv").decode()
    true("merged 1 file into" in one and ": 1 row in," in one, one)
    two = s.out("merge", "--format", "csv", "--key", "id", "-o", "p.csv", "a.csv", "b.csv").decode()
    true("merged 2 files into" in two and ": 3 rows in," in two, two)
    s.run("compact", "create", "-q", "--format", "csv", "--key", "id")
    s.run("compact", "ingest", "-q", "a.csv")
    s.run("compact", "ingest", "-q", "b.csv")
    plan = s.out("compact", "plan", "--force").decode()
    true("1 group, 2 chunks, " in plan and "3 rows" in plan, plan)
    status = s.out("compact", "status").decode()
    true(not re.search(r"\b1 (chunks|rows|leases|catalogs)\b", status), status)
    true("0 chunks" in status, status)
    s.run("txn", "begin")
    true(b"just now" in s.out("txn", "ls"), s.out("txn", "ls"))
    s.run("compact", "pause")
    for command in ("plan", "status"):
        text = s.out("compact", command).decode()
        true("no reason given (" in text, text)


@it("compact ls has titles, as other listings do; --quiet leaves them out")
def _(s):
    s.write("a.csv", b"id\n1\n")
    s.run("compact", "create", "-q", "--format", "csv", "--key", "id")
    s.run("compact", "ingest", "-q", "a.csv")
    for options in ([], ["--all"]):
        lines = s.out("compact", "ls", *options).decode().splitlines()
        equal(lines[0].split(), (["STATE"] if options else []) +
              ["LEVEL", "SIZE", "ROWS", "LATEST", "KEY"])
        equal(lines[0].index("KEY"), lines[1].index("data/"), "columns stand below their titles")
        equal(s.out("compact", "ls", "-q", *options).decode().splitlines(), lines[1:])


def refused_on_terminal(s, *args):
    ours, theirs = pty.openpty()
    process = s.start(*args, stdout=theirs)
    os.close(theirs)
    errors = process.communicate()[1]
    os.close(ours)
    return process.returncode, errors


@it("binary data goes to a terminal only with --force")
def _(s):
    s.run("acquire", "-q", "l")
    s.run("store", "put", "-q", "k", "-", stdin=b"a\0b")
    s.run("key", "update", "-q", "k", "--take", stdin=b"a\0b")
    s.run("write", "-q", "--lock", "f", "f", "-", stdin=b"a\0b")
    for words in (("store", "get", "k"), ("key", "get", "k"), ("read", "f")):
        code_, errors = refused_on_terminal(s, *words)
        true(code_ == 86 and b"--force" in errors, (words, errors))
        true(b"a\0b" in on_terminal(s, *words, "--force"), words)
        equal(s.out(*words), b"a\0b", "a pipe takes anything")
    s.run("store", "put", "-q", "t", "-", stdin="schlüssel\n".encode())
    equal(on_terminal(s, "store", "get", "t"), "schlüssel\n".encode())


@it("/dev/stdin and /dev/stdout are what - is")
def _(s):
    for name in ("-", "/dev/stdin"):
        s.run("store", "put", "-q", "k", name, stdin=b"1")
        s.run("write", "-q", "--lock", "f", "f", name, stdin=b"1")
    for name in ("-", "/dev/stdout"):
        for words in (("store", "get", "k", name), ("read", "f", name)):
            equal(s.out(*words), b"1", words)
            with open(s.file("all"), "wb") as out:
                out.write(b"before ")
                out.flush()
                s.run(*words, stdout=out)
            equal(s.read("all"), b"before 1", "what is there is not begun anew")
        s.write("a.csv", b"id\n1\n")
        equal(s.out("merge", "--format", "csv", "--key", "id", "-o", name, "a.csv"), b"id\n1\n",
              "merge is a filter")


@it("a folder that cannot be written to is named", ["dir"])
def _(s):
    s.put("k", b"1")
    os.chmod(s.path, 0o755)
    s.write("empty", b"")
    done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", PROGRAM, "store",
                           "put", "k", "empty"], cwd=s.path, env=s.env, capture_output=True,
                          check=False)
    true(done.returncode == 85 and b"/objects" in done.stderr, done.stderr)


def leak_nothing(s):
    s.put("d/a", b"1")
    s.put("d/b", b"2")
    s.find_leaks(True)
    s.run("store", "put", "k", "-", stdin=b"3")
    s.run("store", "get", "k", "file", "--json")
    s.run("store", "ls", "-r", "--json")
    s.run("store", "cp", "-r", "--to", "dir:other", "--json")
    s.run("store", "rm", "k", "--if-match", "other", expect=82)
    s.run("store", "get", "--hex", "6", expect=86)
    s.run("store", "probe", "--json")
    s.run("help", "--json")
    s.run("completion", "bash")


if SANITIZED:
    it("no command leaks memory, whether it succeeds or fails")(leak_nothing)


if __name__ == "__main__":
    sys.exit(cases.main())

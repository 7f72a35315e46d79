#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hostile_test.py: other people: a user of the same machine, and somebody who can write the bucket.
docs/security.md says what each can do; here each tries the rest.

    hostile_test.py [full]

In full each kind of object is tampered with in every way; else in a quarter of them, another one for
each kind. Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
The cases about a local user need root, which can become another one; elsewhere they have nothing to
try.
"""

import copy
import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import time

import cases
from cli_test import PROGRAM, Scratch, code, equal, fails, true, until

cases.cases.clear()

NOBODY = 65534
SECONDS_MAX = 20  # no command may take longer, whatever it finds
MIB = 1024 * 1024


def it(sentence, make=lambda: Scratch("dir")):
    def register(function):
        cases.add(sentence, function, make)
        return function

    return register


# ---- A local user -------------------------------------------------------------------------------


class Shared(Scratch):
    """A scratch folder that others may enter, with a folder `shared` that is like /tmp, and `ours`,
    which is root's alone."""

    def __init__(self):
        super().__init__("dir")
        os.chmod(self.path, 0o755)
        os.mkdir(self.file("shared"))
        os.chmod(self.file("shared"), 0o1777)
        os.mkdir(self.file("ours"), 0o700)
        self.write("ours/precious", b"old")
        self.write("in", b"b\na\n")


def local(sentence):
    if os.geteuid() == 0:
        return it("a local user: " + sentence, Shared)
    return lambda function: function


def as_nobody(s, script, *args, **options):
    options.setdefault("cwd", s.file("shared"))
    return subprocess.Popen(["sh", "-c", script, "sh", *args], user=NOBODY, group=NOBODY,
                            extra_groups=[], **options)


def nobody(s, script, *args):
    process = as_nobody(s, script, *args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = process.communicate(timeout=60)[0]
    equal(process.returncode, 0, said)
    return said


def chunks_to_merge(s, *more):
    s.run("compact", "create", "-q", "--format", "usv", "--key", "1", "--level0-count", "2",
          "--step", "0", *more)
    for name in ("x", "y"):
        s.write(name, f"{name}\x1f1\n".encode())
    s.run("compact", "ingest", "-q", "x", "y")


def outputs(s, path):
    """All commands that write to a file that is named."""
    s.put("k", b"secret")
    s.run("write", "-q", "--lock", "l", "fenced", "in")
    s.run("key", "update", "-q", "--take", "name", stdin=b"secret")
    s.run("index", "create", "-q", "domains", "--fields", "d,t", "--key", "d", "--time", "t")
    merge = ["merge", "-q", "--format", "usv", "--key", "1"]
    return [[*merge, "-o", path, "in"],
            ["merge", "-q", "--format", "exec", "--command", "sort -o {output} {inputs}",
             "-o", path, "in"],
            ["merge", "-q", "--format", "usv", "--key", "2", "-o", "out", "--rejects", path, "in"],
            ["store", "get", "k", path], ["read", "fenced", path],
            ["key", "get", "name", "-o", path], ["index", "export", "domains", "-o", path]]


@local("a link planted where an output goes is not followed, nor is one on the way there")
def _(s):
    nobody(s, 'ln -s "$1" out; ln -s "$2" folder', s.file("ours/precious"), s.file("ours"))
    for path in ("shared/out", "shared/folder/precious", "shared/folder/new"):
        for args in outputs(s, path):
            if args[0] == "index":
                args += ["--format", "usv"]
            said = s.run(*args, expect=code(s, "DENIED")).stderr.decode()
            true("created in a folder that everyone can write to" in said and "65534" in said, said)
            equal((os.listdir(s.file("ours")), s.read("ours/precious")), (["precious"], b"old"),
                  args)
            equal(sorted(os.listdir(s.file("shared"))), ["folder", "out"], args)


@local("links that we made ourselves, or root, are followed in the same folder")
def _(s):
    os.symlink(s.file("ours/precious"), s.file("shared/out"))
    for args in outputs(s, "shared/out"):
        if args[0] == "index" or "--rejects" in args:
            continue
        s.write("ours/precious", b"old")
        s.run(*args)
        true(s.read("ours/precious") != b"old" and os.path.islink(s.file("shared/out")), args)
    equal(os.listdir(s.file("ours")), ["precious"])


@local("a pipe planted where an output goes is not written to, and nobody waits for its reader")
def _(s):
    nobody(s, "mkfifo -m 0666 out")
    reader = as_nobody(s, "exec timeout 60 cat out > read", stderr=subprocess.DEVNULL)
    for args in outputs(s, "shared/out"):
        if args[0] not in ("store", "read", "key"):
            continue
        begun = time.monotonic()
        said = s.run(*args, expect=code(s, "DENIED")).stderr.decode()
        true("pipe or device" in said and time.monotonic() - begun < SECONDS_MAX, said)
    reader.terminate()
    reader.wait()
    true(not os.path.exists(s.file("shared/read")) or s.read("shared/read") == b"", "it read")


@local("a file planted where an output goes is replaced, and neither its mode nor its owner kept")
def _(s):
    for args in outputs(s, "shared/out"):
        if args[0] == "index" or "--rejects" in args:
            continue
        nobody(s, "rm -f out; echo theirs > out; chmod 0666 out; ln -f out seen")
        s.run(*args)
        got = os.stat(s.file("shared/out"))
        equal((got.st_uid, stat.S_IMODE(got.st_mode) & 0o022), (0, 0), args)
        equal(s.read("shared/seen"), b"theirs\n", "what they still have open")
        os.unlink(s.file("shared/out"))


@local("a worker removes nothing that they call a scratch folder, however fast they swap it")
def _(s):
    chunks_to_merge(s)
    count = 1000
    os.mkdir(s.file("ours/victim"))
    for number in range(count):
        s.write(f"ours/victim/{number}", b"")
    name = "holdfast-scratch-0123456789abcdef"
    nobody(s, 'mkdir -m 0700 "$1" && cd "$1" && touch lock && mkdir d && '
              'for i in $(seq 0 "$2"); do : > d/$i; done && ln -s "$3" link', name, str(count - 1),
           s.file("ours/victim"))
    swapper = as_nobody(s, 'cd "$1" && while :; do mv d e; mv link d; mv d link; mv e d; done', name,
                        stderr=subprocess.DEVNULL)
    try:
        for _ in range(3):
            s.run("compact", "run", "-q", "--force", "--scratch", "shared")
    finally:
        swapper.kill()
        swapper.wait()
    equal(len(os.listdir(s.file("ours/victim"))), count, "of ours")
    equal(os.listdir(s.file("shared")), [name])
    theirs = [len(names) for _, _, names in os.walk(s.file("shared/" + name))]
    equal((sum(theirs), os.path.exists(s.file(f"shared/{name}/lock"))), (count + 1, True), "of theirs")


@local("they cannot look into a worker's scratch folder, nor move or remove it")
def _(s):
    s.write("merge.sh", b'touch begun; while test -e held; do sleep 0.05; done; cp "$2" "$1"\n')
    chunks_to_merge(s, "--command", f"sh {s.file('merge.sh')} {{output}} {{inputs}}")
    s.write("held", b"")
    worker = s.start("compact", "run", "-q", "--scratch", "shared", "--allow-exec", "/bin/sh")
    until(lambda: os.path.exists(s.file("begun")) or worker.poll() is not None, "it began")
    names = os.listdir(s.file("shared"))
    equal(len(names), 1, "a scratch folder")
    tried = nobody(s, 'ls "$1"; cat "$1"/*/*; mv "$1" mine; rm -rf "$1"; ln -s x "$1/x"; echo', *names)
    os.unlink(s.file("held"))
    equal((worker.communicate(timeout=60), worker.returncode), ((b"", b""), 0), tried)
    equal(os.listdir(s.file("shared")), [])


@local("nobody can read or write another user's default store")
def _(s):
    del s.env["HOLDFAST_STORE"]
    s.put("k", b"secret")
    for path in ("", "/store.db"):
        got = nobody(s, 'cat "$1" 2>&1; echo x > "$1"/x; echo', s.file(".local/state/holdfast") + path)
        true(b"secret" not in got and b"denied" in got, got)
    equal(s.get("k"), b"secret")


# ---- Somebody who can write the bucket ------------------------------------------------------------


def furnish(s):
    """A bucket with something of every kind."""
    s.env["HOLDFAST_STORE"] = "dir:objects?sync=off"
    s.run("store", "probe", "-q")
    s.run("store", "restored", "--yes", "-q")
    s.run("acquire", "--no-wait", "--ttl", "1h", "deploy")
    s.run("release", "-q", s.out("acquire", "--no-wait", "free").decode().strip())
    s.run("acquire", "--no-wait", "path:/a/b", "tree:/c")
    s.run("acquire", "--no-wait", "range:7:0-4096")
    s.run("write", "-q", "--lock", "writer", "fenced", "-", stdin=b"small")
    s.run("write", "-q", "--lock", "writer", "large", "-", stdin=b"x" * 10000)
    s.run("key", "update", "-q", "--take", "orders/42", stdin=b"open")
    s.run("key", "update", "-q", "--take", "orders/43", stdin=b"y" * 10000)
    txn = s.out("txn", "begin").decode().strip()
    s.env["TXN"] = txn
    lease = s.out("key", "acquire", "--no-wait", "--txn", txn, "accounts/ann").decode().strip()
    s.run("key", "update", "-q", "accounts/ann", "--txn", txn, "--lease", lease, stdin=b"60")
    s.run("compact", "create", "-q", "--format", "usv", "--key", "1", "--level0-count", "2",
          "--step", "0", "--ttl", "1s", "--skew", "0")
    for number in range(4):
        s.write(f"in-{number}", f"k{number}\x1fv\n".encode())
    s.run("compact", "ingest", "-q", "in-0", "in-1")
    s.run("compact", "run", "-q")
    s.run("compact", "ingest", "-q", "in-2", "in-3")
    s.run("index", "create", "-q", "domains", "--fields", "d,owner,t", "--key", "d", "--time", "t")
    s.run("index", "put", "-q", "domains", "d=a.org", "owner=ann")
    s.run("index", "compile", "-q", "domains")
    s.run("index", "put", "-q", "domains", "d=b.org", "owner=bob")
    s.run("sweep", "--once", "-q")
    member = s.start("elect", "join", "builders", "--as", "anna")
    until(lambda: s.out("store", "ls", "roster/builders/"), "a member")
    member.kill()
    member.communicate()
    plant(s, "default/.lease-index/2020010100/meta/deploy.json", b'{"write":"x"}')
    plant(s, "metadata/other/pause", b'{"format":"holdfast.pause/1","since":"2026-11-15T10:00:00.000Z",'
          b'"why":"w","by":"b","write":"x"}')
    shutil.move(s.file("objects"), s.file("good"))


# What kinds of objects there are, an object of each, and which commands come by it.
LOCKS = ["locks ls", "locks ls --all --json", "locks show deploy", "acquire --no-wait deploy",
         "acquire --no-wait fresh", "run --no-wait deploy -- true", "sweep --once",
         "sweep --full --dry-run", "sweep status"]
FENCED = ["read fenced", "read large", "write --lock writer --no-wait fenced in",
          "write --lock writer --no-wait large in", "sweep --full"]
KEYS = ["key ls", "key get orders/42", "key get orders/43", "key show accounts/ann",
        "key get accounts/ann", "key update --take --no-wait orders/42 --from in",
        "key rm --take --no-wait orders/43", "txn ls", "txn show $TXN", "txn commit $TXN",
        "txn rollback $TXN", "sweep --full", "sweep --once"]
COMPACT = ["compact status", "compact status --json", "compact ls --all", "compact plan",
           "compact run --jobs 1 --force", "compact ingest --wait 0 in-0", "compact fsck",
           "compact fsck --repair", "compact pause", "sweep --full", "compact run --jobs 1"]
INDEX = ["index status domains", "index get domains a.org", "index query domains",
         "index count domains", "index put domains d=c.org owner=eve",
         "index compile --wait 0 domains", "index export domains -o exported.csv"]
OTHERS = ["store probe", "store scrub", "store ls -r", "store restored --yes", "elect ls builders",
          "elect rank builders 0", "clock", "acquire --no-wait fresh", "locks ls"]
KINDS = [
    ("the format document", r"\.holdfast/format\.json", OTHERS + LOCKS[:4]),
    ("the epoch", r"\.holdfast/epoch/default\.json", OTHERS + LOCKS + KEYS[:6]),
    ("what was swept", r"\.holdfast/sweep/\.all\.json", ["sweep --once", "sweep status", "sweep --full"]),
    ("the table of a name", r"default/meta/deploy\.json", LOCKS),
    ("the table of paths", r"default/paths\.json",
     LOCKS[:2] + ["acquire --no-wait path:/a/b", "acquire --no-wait path:/z", "sweep --full"]),
    ("the table of an inode", r"default/inode/7\.json",
     LOCKS[:2] + ["acquire --no-wait inode:7", "acquire --no-wait range:7:9000-", "sweep --full"]),
    ("a key", r"default/meta/orders/42\.json", KEYS),
    ("a key in a transaction", r"default/meta/accounts/ann\.json", KEYS),
    ("a key with a large state", r"default/meta/orders/43\.json", KEYS),
    ("a large state", r"default/state/orders/43/.*", KEYS),
    ("the record of a transaction", r"\.txn-decisions/m/.*", KEYS),
    ("when to look at a transaction", r"\.txn-decisions/e/.*", KEYS[-2:]),
    ("when to look at a lease", r"default/\.lease-index/.*", ["sweep --once", "sweep --full"]),
    ("a member", r"roster/builders/.*", OTHERS),
    ("a fence", r"fenced", FENCED),
    ("a fence with a body", r"large", FENCED),
    ("the body of a fenced object", r"large\.hf/.*", FENCED),
    ("a catalog", r"metadata/catalog\.json", COMPACT),
    ("the table of chunks", r"metadata/compaction-leases\.json", COMPACT),
    ("the records of jobs", r"metadata/compaction-jobs\.json", COMPACT),
    ("a pause", r"metadata/other/pause", ["compact status --partition other",
                                          "compact run --partition other",
                                          "compact resume --partition other"]),
    ("a chunk", r"data/default/L0/.*", COMPACT),
    ("an index", r"indexes/domains/index\.json", INDEX),
    ("a shard", r"indexes/domains/shards/..\.usv", INDEX),
    ("the lock of a shard", r"indexes/domains/shards/..\.lock", INDEX),
    ("the manifest of an index", r"indexes/domains/manifest\.json", INDEX),
    ("an entry of an inbox", r"indexes/domains/inbox/.*", INDEX),
]


def plant(s, key, data, folder="objects"):
    """Writes an object past the program: names here need no escapes."""
    path = os.path.join(s.path, folder, key)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(data)


def every_key(s, folder):
    root = s.file(folder)
    for path, _, names in os.walk(root):
        for name in names:
            key = os.path.relpath(os.path.join(path, name), root)
            if not key.startswith("%"):
                yield key


def change_all(value, change, name=None):
    """A JSON value with all that is in it changed, but for the name of its format."""
    if isinstance(value, dict):
        return {n: v if n == "format" and name is None else change_all(v, change, n)
                for n, v in value.items()}
    if isinstance(value, list):
        return [change_all(v, change, name) for v in value]
    return change(value)


def of(kind, to):
    """A change of all values of a kind."""
    return lambda value: to if isinstance(value, kind) and not isinstance(value, bool) else value


def structured(document):
    """Documents that are JSON, and wrong."""
    yield "numbers that are too large", change_all(document, of(int, 2 ** 63))
    yield "numbers at the end of what tokens may be", change_all(document, of(int, 2 ** 53 - 1))
    yield "negative numbers", change_all(document, of(int, -1))
    yield "no numbers but 0", change_all(document, of(int, 0))
    yield "texts for numbers", change_all(document, of(int, "1"))
    yield "empty texts", change_all(document, of(str, ""))
    yield "texts that lead elsewhere", change_all(document, of(str, "../../../../outside/x"))
    yield "texts that a terminal obeys", change_all(document, of(str, "\x1b[2J\x07\r"))
    yield "texts that are long", change_all(document, of(str, "x" * 100000))
    yield "lists for values", change_all(document, lambda value: [value])
    yield "another version", {**document, "format": "holdfast.strange/99"}
    yield "members that nobody knows", {**document, "zzz": {"deep": [document]}}
    for name in document:
        if name != "format":
            yield f"no {name}", {n: v for n, v in document.items() if n != name}


def commanded(document):
    """Settings with a command in them, as whoever can write the bucket may write them."""
    for line in ("sh -c 'touch ran; cat \"$@\" > \"$0\"' {output} {inputs}",
                 "/bin/sh -c 'touch ran' {output} {inputs}", "./ran.sh {output} {inputs}",
                 "touch ran {output} {inputs}", "$(touch ran) {output} {inputs}"):
        settings = {**document["settings"], "command": line, "command_limit_ms": 1000}
        yield f"the command {line}", {**document, "settings": settings}
        yield f"format exec and the command {line}", {**document,
                                                      "settings": {**settings, "format": "exec"}}


def mutations(data, number):
    """Names and bytes; None for an object that is gone."""
    yield "gone", None
    yield "empty", b""
    yield "the first half of it", data[:len(data) // 2]
    yield "an empty object", b"{}"
    yield "null", b"null"
    yield "brackets", b"[" * 100000
    yield "an object with a member twice", b'{"format":1,"format":2}'
    yield "noise", random.Random(number).randbytes(5000)
    yield "much of nothing", b" " * (17 * MIB)
    try:
        document = json.loads(cases.unsealed(data))
    except ValueError:
        yield "behind it noise", data + b"\x00\xff\x1f\x1e\n"
        return
    for name, changed in structured(copy.deepcopy(document)):
        yield name, json.dumps(changed).encode()
    if "settings" in document and "command_limit_ms" in document["settings"]:
        for name, changed in commanded(document):
            yield name, json.dumps(changed).encode()


def outside_of(s):
    """All files but those of the bucket, with what is in them."""
    found = {}
    for path, folders, names in os.walk(s.path):
        if path == s.path:
            folders[:] = [f for f in folders if f not in ("objects", "good")]
        for name in names + folders:
            full = os.path.join(path, name)
            found[full] = None if os.path.isdir(full) else s.read(full)
    found.pop(s.file("exported.csv"), None)
    return found


def attempt(s, line, what):
    """Runs a command on a bucket that was tampered with: it ends soon, with a status that is
    documented and, unless it is good, a sentence that no terminal obeys."""
    args = [s.env["TXN"] if word == "$TXN" else word for word in line.split()]
    try:
        done = subprocess.run([PROGRAM, *args], cwd=s.path, env=s.env, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{what}: {line}: it did not end") from None
    said = done.stderr.decode(errors="strict")
    true(done.returncode in DOCUMENTED, f"{what}: {line}: {done.returncode} {said}")
    true(not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", said), f"{what}: {line}: {said!r}")
    sentence = r'\{"status":"[A-Z_]+","outcome":"[a-z_]+","why":"[^\n]+\}\n' if "--json" in args else r"holdfast: [^\n]+\n"
    true(done.returncode == 0 or re.match(sentence, said), f"{what}: {line}: {said!r}")


DOCUMENTED = set()


class Bucket(Scratch):
    def __init__(self):
        super().__init__("dir")
        self.write("in", b"x\n")
        os.mkdir(self.file("outside"))
        self.write("outside/x", b"ours")
        self.write("ran.sh", b"#!/bin/sh\ntouch ran\n")
        os.chmod(self.file("ran.sh"), 0o755)
        DOCUMENTED.update([0, *(row["exit_code"] for row in self.table()["statuses"])])
        furnish(self)


FULL = sys.argv[1:] == ["full"]
TURNS = 4


def some_mutations(data, number):
    for turn, (name, changed) in enumerate(mutations(data, number)):
        if FULL or turn % TURNS == number % TURNS or "command" in name:
            yield name, changed


def tamper(number, kind, pattern, lines):
    def case(s):
        key = sorted(key for key in every_key(s, "good") if re.fullmatch(pattern, key))[0]
        data = s.read("good/" + key)
        before = outside_of(s)
        for turn, (name, changed) in enumerate(some_mutations(data, number)):
            shutil.rmtree(s.file("objects"), ignore_errors=True)
            shutil.copytree(s.file("good"), s.file("objects"))
            if changed is None:
                os.unlink(s.file("objects/" + key))
            else:
                plant(s, key, changed)
            first = turn % len(lines)  # each has its turn to see it as it was left
            for line in lines[first:] + lines[:first]:
                attempt(s, line, f"{key}: {name}")
            equal(outside_of(s), before, f"{key}: {name}: files outside of the bucket")

    it(f"a bucket writer: {kind}, tampered with in any way, ends no command badly", Bucket)(case)


for number_, kind_ in enumerate(KINDS):
    tamper(number_, *kind_)


@it("a bucket writer: links in the folder of a store lead nowhere")
def _(s):
    os.mkdir(s.file("outside"))
    s.write("outside/x", b"ours")
    s.put("a/b", b"1")
    for name in ("link", "a/link"):
        os.symlink(s.file("outside/x"), s.file("objects/" + name))
        done = s.run("store", "get", name, expect=code(s, "INVALID"))
        equal(done.stdout, b"", "nothing of it")
        fails(s, "INVALID", "store", "put", name, "-", stdin=b"theirs")
    s.write("outside/present", b"ours")
    os.symlink(s.file("outside"), s.file("objects/%sessions"))
    s.run("acquire", "deploy")
    fails(s, "TIMEOUT", "acquire", "--wait", "300ms", "deploy")
    equal(s.read("outside/present"), b"ours")
    os.unlink(s.file("outside/present"))
    fails(s, "TIMEOUT", "acquire", "--wait", "300ms", "deploy")
    shutil.rmtree(s.file("objects/default"))
    os.symlink(s.file("outside"), s.file("objects/default"))
    fails(s, "INVALID", "acquire", "--no-wait", "deploy")
    fails(s, "INVALID", "store", "rm", "default/x")
    equal((os.listdir(s.file("outside")), s.read("outside/x")), (["x"], b"ours"))


if __name__ == "__main__":
    sys.exit(cases.main())

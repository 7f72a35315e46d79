#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""key_cli_test.py: the commands about keys, transactions and sweeping, run as a person or a script
would run them, on good input and on bad.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

import cases
from cli_test import LOCAL, MIB, SANITIZED, code, equal, fails, it, objects, true, until

cases.cases.clear()

DIR = ["dir"]
NOBODY = "0123456789abcdef" * 2  # the id of no transaction


# ---- How it is used -----------------------------------------------------------------------------


def refused(s, status, outcome, *args, **options):
    """Runs what must be refused, with --json; returns the sentence. Without an outcome of its own it is
    the status's."""
    done = s.run(*args, "--json", expect=code(s, status), **options)
    equal(done.stdout, b"", "nothing on stdout")
    told = json.loads(done.stderr)
    equal((told["status"], told["outcome"]), (status, outcome or status.lower()), told["why"])
    return told["why"]


def acquire(s, name, *more):
    return json.loads(s.out("key", "acquire", "--json", "--no-wait", name, *more))


def update(s, name, data, *more):
    return json.loads(s.out("key", "update", "--json", name, *more, stdin=data))


def get(s, name):
    return s.out("key", "get", name)


def describe(s, name):
    return json.loads(s.out("key", "describe", "--json", name))


def begin(s):
    return s.out("txn", "begin").decode().strip()


def show(s, txn):
    return json.loads(s.out("txn", "show", "--json", txn))


# ---- One key ------------------------------------------------------------------------------------


@it("a key is taken, changed, read by anybody, and given back", LOCAL)
def _(s):
    held = acquire(s, "orders/42", "--ttl", "1m", "--holder", "ann")
    equal((held["key"], held["version"], held["etag"], held["removed"], held["txn"]),
          ("orders/42", 0, None, False, None))
    true(held["lease"].startswith(f"{held['token']}:") and held["ttl_ms"] == 60000 and
         50000 < held["expires_in_ms"] <= 60000, held)
    first = update(s, "orders/42", b"one", "--lease", held["lease"])
    equal((first["version"], first["size_bytes"], first["staged"]), (1, 3, False))
    equal((first["written_with_token"], len(first["etag"])), (held["token"], 32))
    s.env["HOLDFAST_LEASE"] = held["lease"]
    s.write("two", b"two!")
    told = s.out("key", "update", "orders/42", "--from", "two").decode()
    true(re.match(r"version 2, 4 ?B\S*, ETag [0-9a-f]{32}\n$", told), told)
    equal(get(s, "orders/42"), b"two!")
    equal(s.out("key", "update", "-q", "orders/42", stdin=b"\0\xff"), b"", "quiet")
    equal(get(s, "orders/42"), b"\0\xff", "any bytes")
    equal(s.out("key", "keepalive"), b"renewed for 1m\n")
    alive = json.loads(s.out("key", "keepalive", "--json"))
    equal((alive["token"], alive["lease"]), (held["token"], held["lease"]))
    seen = describe(s, "orders/42")
    equal((seen["version"], seen["held"], seen["holder"], seen["staged"], seen["waiters"]),
          (3, True, "ann", False, 0))
    equal(seen["token"], held["token"])
    s.run("key", "release")
    equal(describe(s, "orders/42")["held"], False)
    refused(s, "LOST", "lease_expired", "key", "keepalive")
    refused(s, "LOST", "lease_expired", "key", "release")
    again = acquire(s, "orders/42")
    equal(again["version"], 3)
    true(again["token"] > held["token"], "tokens rise")
    why = refused(s, "FENCED", "fencing_mismatch", "key", "update", "orders/42", stdin=b"late")
    true("acquire" in why, why)
    equal(get(s, "orders/42"), b"\0\xff", "and nothing changed")


@it("a key is taken meanwhile by --take, and conditions hold or refuse", LOCAL)
def _(s):
    one = update(s, "k", b"1", "--take", "--if-version", "0")
    equal(one["version"], 1)
    two = update(s, "k", b"2", "--take", "--if-version", "1", "--if-etag", one["etag"])
    equal(two["version"], 2)
    true(two["etag"] != one["etag"], "a new one each time")
    why = refused(s, "CONFLICT", "version_conflict", "key", "update", "k", "--take",
                  "--if-version", "1", stdin=b"3")
    true("read" in why and "again" in why, why)
    refused(s, "CONFLICT", "version_conflict", "key", "update", "k", "--take", "--if-version",
            "0", stdin=b"3")
    refused(s, "CONFLICT", "etag_mismatch", "key", "remove", "k", "--take", "--if-etag",
            one["etag"])
    equal(get(s, "k"), b"2")
    equal(describe(s, "k")["held"], False, "given back each time")
    gone = json.loads(s.out("key", "remove", "k", "--take", "--json", "--if-etag", two["etag"]))
    equal((gone["version"], gone["removed"]), (3, True))
    fails(s, "NOT_FOUND", "key", "get", "k")
    fails(s, "NOT_FOUND", "key", "get", "k", "--info")
    equal(describe(s, "k")["removed"], True)
    equal(update(s, "k", b"", "--take", "--if-version", "0")["version"], 4, "holds nothing: 0")
    equal(get(s, "k"), b"")
    equal(update(s, "k", b"", "--take")["size_bytes"], 0)


@it("a state of 20 MiB goes through pipes in bounded memory, and the old one is deleted", LOCAL)
def _(s):
    large = os.urandom(MIB) * 20
    done = update(s, "large", large, "--take")
    equal(done["size_bytes"], len(large))
    equal(get(s, "large"), large)
    told = json.loads(s.out("key", "get", "large", "-o", "copy", "--json"))
    equal((told["file"], told["etag"], s.read("copy") == large), ("copy", done["etag"], True))
    equal(objects(s, "default/state/"), [f"default/state/large/{done['written_with_token']}-{done['etag']}"])
    next_ = update(s, "large", large[:5000], "--take")
    equal(objects(s, "default/state/"),
          [f"default/state/large/{next_['written_with_token']}-{next_['etag']}"])
    update(s, "large", b"small", "--take")
    equal(objects(s, "default/state/"), [], "it stands in the document")
    equal([name for name in os.listdir(s.path) if name.startswith(".") and "copy" in name], [])


@it("get writes to files, devices and pipes, and leaves a file alone that it cannot replace", DIR)
def _(s):
    update(s, "k", b"bytes", "--take")
    for target in ("-", "/dev/stdout"):
        equal(s.out("key", "get", "k", "-o", target), b"bytes")
    s.write("old", b"old")
    fails(s, "NOT_FOUND", "key", "get", "nothing", "-o", "old")
    equal(s.read("old"), b"old")
    s.run("key", "get", "k", "--output=old")
    equal(s.read("old"), b"bytes")
    fails(s, "INVALID", "key", "get", "k", "-o", ".")
    fails(s, "INVALID", "key", "get", "k", "-o", "")
    true(re.match(rb"version 1, 5 ?B\S*, ETag [0-9a-f]{32}\n$", s.out("key", "get", "k", "--info")),
         "info")
    equal(json.loads(s.out("key", "get", "k", "--info", "--json"))["version"], 1)


@it("what is staged is seen after the release, or never", LOCAL)
def _(s):
    update(s, "k", b"1", "--take")
    lease = acquire(s, "k")["lease"]
    told = update(s, "k", b"2", "--staged", "--lease", lease)
    equal((told["staged"], told["version"]), (True, 2))
    equal((get(s, "k"), describe(s, "k")["staged"]), (b"1", True))
    s.run("key", "release", "--lease", lease)
    equal(get(s, "k"), b"2")
    lease = acquire(s, "k")["lease"]
    s.run("key", "remove", "k", "--staged", "--lease", lease)
    done = json.loads(s.out("key", "release", "--rollback", "--json", "--lease", lease))
    equal((done["released"], done["decision"], done["transaction"]), (True, "rollback", False))
    equal((get(s, "k"), describe(s, "k")["version"]), (b"2", 2))
    lease = acquire(s, "k", "--ttl", "1s")["lease"]
    update(s, "k", b"3", "--staged", "--lease", lease)
    held = json.loads(s.out("key", "acquire", "k", "--wait", "20s", "--json"))
    equal((held["version"], get(s, "k")), (2, b"2"), "lost with its lease")
    refused(s, "LOST", "fencing_mismatch", "key", "release", "--lease", lease)


@it("whoever holds a key keeps others waiting, who may give up, in time or by Ctrl-C", DIR)
def _(s):
    held = acquire(s, "k", "--holder", "ann")
    for more in (["--no-wait"], ["--wait", "0s"]):
        why = refused(s, "HELD", "waiting", "key", "acquire", "k", *more)
        true("ann" in why and "--wait" in why, why)
    refused(s, "TIMEOUT", "waiting", "key", "acquire", "k", "--wait", "50ms")
    refused(s, "HELD", "waiting", "key", "update", "k", "--take", "--no-wait", stdin=b"x")
    txn = begin(s)
    for args in (["key", "acquire", "k"], ["key", "acquire", "k", "--txn", txn]):
        waiting = s.start(*args, "--wait", "1h")
        until(lambda: describe(s, "k")["waiters"] == 1, "in line")
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=20)
        equal((waiting.returncode, out, err), (-signal.SIGINT, b"", b""))
        equal(describe(s, "k")["waiters"], 0, "left the line")
    equal(show(s, txn)["keys"], [], "and took nothing")
    waiting = s.start("key", "acquire", "k", "--wait", "1h", "--json")
    until(lambda: describe(s, "k")["waiters"] == 1, "in line")
    s.run("key", "release", "--lease", held["lease"])
    told = json.loads(waiting.communicate(timeout=20)[0])
    true(told["token"] > held["token"], "its turn")


@it("a process that is killed between acquire and release leaves nothing that stays", LOCAL)
def _(s):
    update(s, "k", b"1", "--take")
    holder = s.start("key", "acquire", "k", "--ttl", "1s")
    lease = holder.stdout.readline().decode().strip()
    holder.kill()
    holder.communicate()
    pipe = s.start("key", "update", "k", "--lease", lease, stdin=subprocess.PIPE)
    pipe.kill()
    pipe.communicate()
    equal(update(s, "k", b"2", "--take", "--wait", "20s")["version"], 2)
    refused(s, "EXPIRED", "lease_expired", "key", "update", "k", "--lease", lease, stdin=b"x")
    equal(get(s, "k"), b"2")


# ---- Listing ------------------------------------------------------------------------------------


@it("watch prints each version that it sees, waits for a key that does not exist, and ends when it is told", DIR)
def _(s):
    s.run("key", "update", "other", "--take", "-q", stdin=b"x")  # makes the store
    watch = s.start("key", "watch", "--json", "--interval", "50ms", "k")
    for version in (1, 2):
        s.run("key", "update", "k", "--take", "-q", stdin=b"x" * version)
        told = json.loads(watch.stdout.readline())
        equal((told["key"], told["version"], told["size_bytes"], told["removed"]), ("k", version, version, False))
    s.run("key", "rm", "k", "--take", "-q")
    equal(json.loads(watch.stdout.readline())["removed"], True)
    watch.send_signal(signal.SIGINT)
    equal((watch.wait(30), watch.stdout.read(), watch.stderr.read()), (-signal.SIGINT, b"", b""))
    line = s.out("key", "watch", "--for", "0s", "k").decode()
    true("removed as version 3" in line and line.count("\n") == 1, line)
    fails(s, "INVALID", "key", "watch", "--interval", "1ms", "k")
    fails(s, "INVALID", "key", "watch", "K")


@it("ls shows keys that hold something or are held, and only those asked for", LOCAL)
def _(s):
    update(s, "a/1", b"one", "--take")
    update(s, "a/2", b"two", "--take")
    s.run("key", "remove", "-q", "a/2", "--take")
    acquire(s, "b", "--holder", "ann")
    s.run("release", acquire(s, "only-a-lock")["lease"])
    update(s, "other", b"x", "--take", "--ns", "else")
    rows = {row["key"]: row for row in s.lines("key", "ls")}
    equal(sorted(rows), ["a/1", "a/2", "b"])
    equal([rows[name]["version"] for name in sorted(rows)], [1, 2, 0])
    equal((rows["a/2"]["removed"], rows["b"]["holder"], rows["a/1"]["holder"]),
          (True, "ann", None))
    equal([row["key"] for row in s.lines("key", "ls", "a/")], ["a/1", "a/2"])
    equal([row["key"] for row in s.lines("key", "ls", "--ns", "else")], ["other"])
    equal(s.out("key", "ls", "none"), b"")
    true("never written" in fails(s, "NOT_FOUND", "key", "get", "none"), "not of objects")
    true("never written" in fails(s, "NOT_FOUND", "key", "get", "none", "--info"), "nor here")
    true("no key or lock" in fails(s, "NOT_FOUND", "key", "describe", "none"), "nor here")
    true("removed" in fails(s, "NOT_FOUND", "key", "get", "a/2", "--info"), "another thing")
    text = s.out("key", "ls").decode().splitlines()
    equal(text[0].split(), ["KEY", "VERSION", "SIZE", "UPDATED", "HOLDER", "TXN"])
    equal([line.split()[0] for line in text[1:]], ["a/1", "a/2", "b"])


@it("ls shows the other keys if a document is damaged, and says which one is", LOCAL)
def _(s):
    update(s, "a", b"one", "--take")
    update(s, "c", b"three", "--take")
    s.run("store", "put", "--force", "-q", "default/meta/broken.json", "-", stdin=b"{")
    done = s.run("key", "ls", expect=code(s, "CORRUPT"))
    equal(len(done.stdout.splitlines()), 3, "the others all the same")
    true(b"broken" in done.stderr, done.stderr)


# ---- Transactions -------------------------------------------------------------------------------


@it("a transaction across processes is seen whole or not at all", LOCAL)
def _(s):
    for name in ("a", "b"):
        update(s, name, b"old", "--take")
    for decide, word, wanted in (("commit", "committed", b"new"), ("rollback", "rolled back", b"old")):
        for name in ("a", "b"):
            update(s, name, b"old", "--take")
        txn = begin(s)
        equal(show(s, txn)["state"], "pending")
        for name in ("a", "b"):
            held = acquire(s, name, "--txn", txn)
            equal(held["txn"], txn)
            told = update(s, name, b"new", "--lease", held["lease"], "--txn", txn)
            equal((told["staged"], told["txn"]), (True, txn))
            equal(get(s, name), b"old")
        equal(describe(s, "a")["staged"], True)
        equal(sorted(show(s, txn)["keys"]), ["default/a", "default/b"])
        equal(s.out("txn", decide, txn).decode(), word + "\n")
        equal([get(s, name) for name in ("a", "b")], [wanted, wanted])
        after = show(s, txn)
        equal((after["state"], after["applied"]), (decide, decide == "commit"))
        s.run("txn", decide, txn)  # once more is fine
        other = "rollback" if decide == "commit" else "commit"
        refused(s, "MISMATCH", decide, "txn", other, txn)
        equal(describe(s, "a")["held"], False)


@it("transactions are listed, and a key names the one that has it", LOCAL)
def _(s):
    for decide in ("commit", "rollback"):
        txn = begin(s)
        acquire(s, "a", "--txn", txn)
        seen = describe(s, "a")
        equal((seen["txn"], seen["txn_state"], seen["staged"]), (txn, "pending", True))
        equal([row["txn"] for row in s.lines("txn", "ls", "--state", "pending")], [txn])
        s.run("txn", decide, txn)
        equal((describe(s, "a")["held"], describe(s, "a")["txn"]), (False, None))
    equal(len(s.lines("txn", "ls")), 2)
    equal(len(s.lines("txn", "ls", "--state", "commit")), 1)
    titles = s.out("txn", "ls").decode().splitlines()[0].split()
    equal(titles, ["TXN", "STATE", "BEGAN", "HOLDER", "KEYS"])


@it("a key of a transaction is changed for that only, and its release decides", LOCAL)
def _(s):
    txn, other = begin(s), begin(s)
    first = acquire(s, "a", "--txn", txn)["lease"]
    second = acquire(s, "b", "--txn", txn)["lease"]
    why = refused(s, "MISMATCH", "txn_mismatch", "key", "update", "a", "--lease", first,
                  stdin=b"x")
    true("--txn" in why, why)
    refused(s, "MISMATCH", "txn_mismatch", "key", "update", "a", "--lease", first, "--txn", other,
            stdin=b"x")
    plain = acquire(s, "c")["lease"]
    refused(s, "MISMATCH", "txn_mismatch", "key", "update", "c", "--lease", plain, "--txn", other,
            stdin=b"x")
    refused(s, "HELD", "waiting", "key", "acquire", "a", "--no-wait", "--txn", other)
    update(s, "a", b"1", "--lease", first, "--txn", txn)
    update(s, "b", b"2", "--lease", second, "--txn", txn)
    done = json.loads(s.out("key", "release", "--json", "--lease", second))
    equal((done["decision"], done["transaction"]), ("commit", True))
    equal((get(s, "a"), get(s, "b"), show(s, txn)["state"]), (b"1", b"2", "commit"))
    lease = acquire(s, "a", "--txn", other)["lease"]
    s.run("key", "remove", "-q", "a", "--lease", lease, "--txn", other)
    s.run("key", "release", "--rollback", "--lease", lease)
    equal((get(s, "a"), show(s, other)["state"]), (b"1", "rollback"))


@it("of two transactions that want the same key the second waits, and then sees what the first did",
    LOCAL)
def _(s):
    update(s, "k", b"0", "--take")
    first, second = begin(s), begin(s)
    lease = acquire(s, "k", "--txn", first)["lease"]
    update(s, "k", b"1", "--lease", lease, "--txn", first)
    waiting = s.start("key", "acquire", "k", "--txn", second, "--wait", "1h", "--json")
    until(lambda: describe(s, "k")["waiters"] == 1, "in line")
    s.run("txn", "commit", first)
    held = json.loads(waiting.communicate(timeout=20)[0])
    equal(held["version"], 1 + 1)
    told = update(s, "k", b"2", "--lease", held["lease"], "--txn", second, "--if-version", "2")
    equal(told["version"], 3)
    s.run("txn", "commit", second)
    equal(get(s, "k"), b"2")


@it("a transaction whose lease is over is rolled back, by who wants the key or who commits", LOCAL)
def _(s):
    for name in ("a", "b"):
        update(s, name, b"old", "--take")
    txn = begin(s)
    for name in ("a", "b"):
        lease = acquire(s, name, "--txn", txn, "--ttl", "1s")["lease"]
        update(s, name, b"new", "--lease", lease, "--txn", txn)
    held = json.loads(s.out("key", "acquire", "a", "--wait", "20s", "--json"))
    equal((held["version"], get(s, "a"), get(s, "b")), (1, b"old", b"old"))
    equal(show(s, txn)["state"], "rollback")
    refused(s, "MISMATCH", "rollback", "txn", "commit", txn)
    refused(s, "MISMATCH", None, "key", "acquire", "b", "--txn", txn)
    s.run("key", "release", "--lease", held["lease"])
    equal(update(s, "b", b"next", "--take", "--wait", "20s")["version"], 2)


# ---- Bad input ----------------------------------------------------------------------------------


@it("bad input of each kind gets a sentence, and changes nothing", DIR)
def _(s):
    update(s, "k", b"1", "--take")
    txn = begin(s)
    before = s.everything()
    lease = "4294967297:0123456789abcdef0123456789abcdef-1:default/meta/"
    for words, *args in (
            ("NAME", "key", "acquire"), ("NAME", "key", "get"), ("NAME", "key", "describe"),
            ("ID", "txn", "show"), ("unexpected argument", "key", "get", "k", "file"),
            ("lower", "key", "acquire", "Key"), ("name", "key", "get", "a b"),
            ("name", "key", "get", "../k"), ("name", "key", "describe", ".hidden"),
            ("empty", "key", "update", "/k", "--take"), ("128", "key", "get", "x" * 129),
            ("TOKEN:ID:TABLE", "key", "keepalive", "--lease", "nonsense"),
            ("--ttl", "key", "update", "k", "--lease", lease + "k.json", "--ttl", "1s"),
            ("--wait", "key", "remove", "k", "--lease", lease + "k.json", "--wait", "1s"),
            ("cannot be used together", "key", "update", "k", "--lease", "x", "--take"),
            ("cannot be used together", "key", "get", "k", "-o", "f", "--info"),
            ("--staged", "key", "update", "k", "--take", "--staged"),
            ("--txn", "key", "update", "k", "--take", "--txn", txn),
            ("--staged", "key", "update", "k", "--txn", txn, "--staged"),
            ("empty", "key", "update", "k", "--take", "--if-etag", ""),
            ("--if-version", "key", "update", "k", "--take", "--if-version", "-1"),
            ("--if-version", "key", "update", "k", "--take", "--if-version", "one"),
            ("ttl", "key", "acquire", "k", "--ttl", "0s"),
            ("ttl", "key", "acquire", "k", "--ttl", "2h"),
            ("folder", "key", "update", "k", "--take", "--from", "."),
            ("32", "txn", "commit", "x"), ("32", "txn", "show", txn.upper() + "0"),
            ("32", "key", "acquire", "k", "--txn", ""), ("32", "txn", "rollback", "../../x"),
            ("pending", "txn", "ls", "--state", "open"),
            ("cannot be used together", "sweep", "--once", "--full"), ("--idle-grace", "sweep", "--once",
                                                       "--idle-grace", "1m"),
            ("max", "sweep", "--once", "--max-ops", "0"), ("--op-delay", "sweep", "--op-delay", "x"),
            ("unexpected argument", "sweep", "status", "now"), ("did you mean", "key", "aquire", "k")):
        text = fails(s, "INVALID", *args)
        true(words in text, (args, words, text))
    fails(s, "NOT_FOUND", "key", "get", "nothing")
    fails(s, "NOT_FOUND", "key", "describe", "nothing")
    fails(s, "NOT_FOUND", "key", "update", "k", "--take", "--from", "missing")
    fails(s, "NOT_FOUND", "txn", "show", NOBODY)
    fails(s, "NOT_FOUND", "txn", "commit", NOBODY)
    fails(s, "MISMATCH", "key", "update", "k", "--lease", lease + "other.json")
    refused(s, "DENIED", "lease_required", "key", "update", "k")
    refused(s, "DENIED", "lease_required", "key", "remove", "k", "--lease", "")
    refused(s, "DENIED", "lease_required", "key", "release")
    refused(s, "LOST", "lease_expired", "key", "keepalive", "--lease", lease + "k.json")
    equal(s.everything(), before, "nothing changed")
    shared = s.out("acquire", "--mode", "shared", "k").decode().strip()
    refused(s, "DENIED", "lease_required", "key", "update", "k", "--lease", shared, stdin=b"x")
    paths = s.out("acquire", "path:/a").decode().strip()
    true("key" in fails(s, "INVALID", "key", "keepalive", "--lease", paths), "of another lock")
    fails(s, "MISMATCH", "key", "update", "k", "--lease", paths)
    equal(get(s, "k"), b"1")


def put(s, key, data):
    s.run("store", "put", "--force", "-q", key, "-", stdin=data)


@it("a key whose document is damaged says so, and what to do, until it is written anew", DIR)
def _(s):
    update(s, "k", b"1", "--take")
    put(s, "default/meta/k.json", b"{ not json")
    for words in (("get", "k"), ("get", "k", "--info"), ("describe", "k"), ("ls",)):
        text = fails(s, "CORRUPT", "key", *words)
        true("k" in text and "'holdfast key update --take'" in text, text)
    equal(len(objects(s, "default/meta/")), 1)


@it("a state that cannot be read is kept aside by who writes it anew", DIR)
def _(s):
    update(s, "k", b"1", "--take")
    damaged = cases.unsealed(s.get("default/meta/k.json")).replace(b'"size":1', b'"size":2')
    put(s, "default/meta/k.json", damaged)
    for words in (("get", "k"), ("describe", "k"), ("ls",)):
        true("'holdfast key update --take'" in fails(s, "CORRUPT", "key", *words), words)
    update(s, "k", b"anew", "--take")
    equal(get(s, "k"), b"anew")
    kept = objects(s, ".holdfast/kept/")
    equal([s.get(key) for key in kept], [damaged])


@it("damaged documents do not hide the keys that are listed after them", DIR)
def _(s):
    for name in "abc":
        update(s, name, b"1", "--take")
    put(s, "default/meta/a.json", b"{ not json")
    done = s.run("key", "ls", "--json", expect=code(s, "CORRUPT"))
    equal([json.loads(line)["key"] for line in done.stdout.splitlines()], ["b", "c"])
    equal(json.loads(done.stderr)["command"], "key ls default/meta/a.json")


@it("ls tells a holder without a name from nobody", DIR)
def _(s):
    update(s, "free", b"1", "--take")
    acquire(s, "held", "--holder", "")
    equal([(row["key"], row["held"], row["holder"]) for row in s.lines("key", "ls")],
          [("free", False, None), ("held", True, None)])


@it("what is committed is listed as it is read, also before anybody has settled it", DIR)
def _(s):
    update(s, "k", b"old", "--take")
    txn = begin(s)
    lease = acquire(s, "k", "--txn", txn)["lease"]
    staged = update(s, "k", b"newer", "--txn", txn, "--lease", lease)
    record = cases.unsealed(s.get(f".txn-decisions/m/{txn}"))
    equal(s.lines("key", "ls")[0]["version"], 1)
    put(s, f".txn-decisions/m/{txn}", record.replace(b'"pending"', b'"commit"'))
    row = s.lines("key", "ls")[0]
    equal((row["version"], row["size_bytes"], row["etag"]), (2, 5, staged["etag"]))
    equal(get(s, "k"), b"newer")


def damaged_txn(s, data):
    """A transaction with a key, whose record was overwritten from outside."""
    update(s, "k", b"before", "--take")
    txn = begin(s)
    lease = acquire(s, "k", "--txn", txn)["lease"]
    update(s, "k", b"after", "--txn", txn, "--lease", lease)
    put(s, f".txn-decisions/m/{txn}", data)
    return txn, lease


@it("a transaction whose record is damaged is given up by who says so, and by nobody else", LOCAL)
def _(s):
    for data in (b"", b'{"format":"holdfast.txn/1","id', b"x" * 300000):
        txn, lease = damaged_txn(s, data)
        for words in ("show", "commit", "rollback"):
            text = fails(s, "CORRUPT", "txn", words, txn)
            true("'holdfast txn rollback --damaged'" in text and f".txn-decisions/m/{txn}" in text, text)
        for words in (("get", "k"), ("describe", "k"), ("ls",)):
            text = fails(s, "CORRUPT", "key", *words)
            true(txn in text and "txn rollback" in text and "update" not in text, text)
        equal(s.get(f".txn-decisions/m/{txn}"), data, "nobody has touched it")
        equal(s.out("txn", "rollback", "--damaged", txn), b"rolled back\n")
        kept = objects(s, f".holdfast/kept/.txn-decisions/m/{txn}")
        equal([s.get(key) for key in kept], [data])
        equal((show(s, txn)["state"], get(s, "k")), ("rollback", b"before"))
        s.run("txn", "rollback", "--damaged", txn)
        equal(len(objects(s, f".holdfast/kept/.txn-decisions/m/{txn}")), 1, "once")
        s.run("key", "release", "--rollback", "--lease", lease)
        update(s, "k", b"before", "--take", "--no-wait")


@it("--damaged gives up nothing that can be read, or that a later version wrote", DIR)
def _(s):
    txn = begin(s)
    s.run("txn", "commit", txn)
    record = s.get(f".txn-decisions/m/{txn}")
    fails(s, "MISMATCH", "txn", "rollback", "--damaged", txn)
    equal(s.get(f".txn-decisions/m/{txn}"), record)
    later = cases.unsealed(record).replace(b"holdfast.txn/1", b"holdfast.txn/2")
    put(s, f".txn-decisions/m/{txn}", later)
    fails(s, "UNSUPPORTED", "txn", "rollback", "--damaged", txn)
    equal(s.get(f".txn-decisions/m/{txn}"), later)
    fails(s, "NOT_FOUND", "txn", "rollback", "--damaged", NOBODY)
    equal(objects(s, ".holdfast/kept/"), [])


@it("a store that fails is not taken for somebody who holds the key", DIR)
def _(s):
    update(s, "k", b"1", "--take")
    os.rename(s.file("objects/%tmp"), s.file("away"))
    s.write("objects/%tmp", b"no folder")
    why = refused(s, "TIMEOUT", None, "key", "acquire", "k", "--wait", "200ms")
    true("--wait" not in why and "key show" not in why, why)


@it("a full sweep says what it could not deal with, and goes on with the rest", DIR)
def _(s):
    txn, _ = damaged_txn(s, b"{ not json")
    put(s, ".txn-decisions/m/" + NOBODY, b"")
    update(s, "z", b"1", "--take")
    for more in ((), ("--dry-run",)):
        done = s.run("sweep", "--full", "--json", *more, expect=code(s, "CORRUPT"))
        run = json.loads(done.stdout)
        told = [json.loads(line) for line in done.stderr.splitlines()]
        equal({row["status"] for row in told}, {"CORRUPT"})
        about = [row["command"] for row in told]
        equal(sorted(about), sorted(f"sweep .txn-decisions/m/{id}" for id in (txn, NOBODY)))
        equal((run["stop"], run["failed"]), ("done", len(told)))
        true(run["ops"] > run["failed"], run)
    put(s, "default/state/foreign", b"")
    done = s.run("sweep", "--full", expect=code(s, "MISMATCH"))
    true(b"sweep default/state/foreign: MISMATCH: " in done.stderr, done.stderr)
    for i in range(15):
        put(s, f".txn-decisions/m/{i:032x}", b"")
    done = s.run("sweep", "--full", expect=code(s, "MISMATCH"))
    equal(done.stderr.count(b"\n"), 10, "the first few")


# ---- Sweeping -----------------------------------------------------------------------------------


@it("sweep clears what is over, tells what it did, and remembers it", LOCAL)
def _(s):
    s.make_store()
    fresh = json.loads(s.out("sweep", "status", "--json"))
    equal((fresh["due"]["lease_entries"], fresh["total"]["runs"]), (0, 0))
    true(b"none recorded" in s.out("sweep", "status"), "for people")
    update(s, "k", b"1", "--take")
    lease = acquire(s, "k", "--ttl", "1s")["lease"]
    update(s, "k", b"2", "--staged", "--lease", lease)
    s.run("store", "put", "--force", "-q", "default/.lease-index/2026010100/meta/k.json", "-", stdin=b"{}")
    equal(json.loads(s.out("sweep", "status", "--json"))["due"]["lease_entries"], 1)
    before = s.everything()
    dry = s.lines("sweep", "--dry-run")[0]
    equal((dry["dry_run"], dry["stop"], dry["ops"]), (True, "done", 1))
    equal(s.everything(), before, "a dry run changes nothing")
    run = s.lines("sweep", "--once")[0]
    equal((run["stop"], run["ops"], run["failed"]), ("done", 1, 0))
    text = s.out("sweep", "--full").decode()
    true(re.match(r"examined \d entr(y|ies) in [^:\n]+: [^\n]+\n$", text), text)
    after = json.loads(s.out("sweep", "status", "--json"))
    equal((after["due"]["lease_entries"], after["total"]["runs"]), (0, 2))
    equal(after["last"]["stop"], "done")
    true(b"2 runs" in s.out("sweep", "status"), "for people")
    equal(get(s, "k"), b"1")


@it("a run that is stopped at a cap says so, and the next goes on behind it", DIR)
def _(s):
    for i in range(4):
        update(s, f"k{i}", b"1", "--take")
    first = s.lines("sweep", "--full", "--max-ops", "3")[0]
    equal((first["ops"], first["stop"]), (3, "max_ops"))
    text = s.out("sweep", "status").decode()
    true("it reached the limit on entries" in text, text)
    second = s.lines("sweep", "--full")[0]
    equal((second["stop"], second["failed"]), ("done", 0))
    true(second["ops"] < 4, second)
    true(s.lines("sweep", "--full")[0]["ops"] >= 4, "from the beginning again")


@it("a lease that is over is cleared by a full sweep, and one that is not is left", DIR)
def _(s):
    update(s, "k", b"1", "--take")
    acquire(s, "k", "--ttl", "1s")
    alive = acquire(s, "alive")
    cleared = 0
    end = time.monotonic() + 20
    while cleared == 0 and time.monotonic() < end:
        cleared += s.lines("sweep", "--full")[0]["leases_cleared"]
    equal(cleared, 1)
    s.run("key", "keepalive", "--lease", alive["lease"])


@it("the sweep that waits until there is nothing else to do ends by Ctrl-C, in order", DIR)
def _(s):
    sweep = s.start("sweep", "--idle-grace", "200ms", "--op-delay", "0ms", "--json")
    first = json.loads(sweep.stdout.readline())
    # Runs in quick succession share a line.
    true(first["runs"] >= 1 and first["stop"] == "done", first)
    sweep.send_signal(signal.SIGINT)
    out, err = sweep.communicate(timeout=20)
    equal((sweep.returncode, err), (-signal.SIGINT, b""))
    for line in out.splitlines():
        json.loads(line)
    true(json.loads(s.out("sweep", "status", "--json"))["total"]["runs"] >= 1, "remembered")


@it("the guide's worked example works as typed")
def _(s):
    guide = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "guide.md")
    with open(guide, encoding="utf-8") as source:
        section = source.read().split("\n## Keys and transactions\n")[1].split("\n## ")[0]
    lines = re.findall(r"^    (.*)$", section, re.M)
    true(len(lines) > 10, lines)
    done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)], cwd=s.path,
                          env=s.env, capture_output=True, check=False)
    equal((done.returncode, done.stderr), (0, b""))
    true(b'{"open":3}\n' in done.stdout and b"committed\n" in done.stdout, done.stdout)
    equal((get(s, "accounts/ann"), get(s, "accounts/joe")), (b"60\n", b"40\n"))


def leak_nothing(s):
    s.find_leaks(True)
    lease = acquire(s, "k")["lease"]
    update(s, "k", b"x" * 5000, "--lease", lease)
    s.run("key", "update", "k", "--lease", lease, "--if-version", "7", expect=82)
    s.run("key", "acquire", "k", "--no-wait", expect=89)
    s.run("key", "release", "--lease", lease)
    txn = begin(s)
    lease = acquire(s, "k", "--txn", txn)["lease"]
    update(s, "k", b"2", "--lease", lease, "--txn", txn)
    s.run("txn", "ls")
    s.run("txn", "commit", txn)
    s.run("key", "ls")
    s.run("key", "describe", "k")
    s.run("sweep", "--full")
    s.run("sweep", "status", "--json")


if SANITIZED:
    it("no command leaks memory, whether it succeeds or fails", DIR)(leak_nothing)


if __name__ == "__main__":
    sys.exit(cases.main())

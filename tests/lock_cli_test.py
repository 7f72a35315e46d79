#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lock_cli_test.py: the commands about locks, run as a person or a script would run them.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import datetime
import fcntl
import json
import os
import pty
import re
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time

import cases
import cli_test
import s3_fake
from cli_test import LOCAL, MIB, PROGRAM, SANITIZED, code, equal, it, true, until
from hostile_kit import Lab

cases.cases.clear()

RESTORE_EPOCHS = 4096


def acquire(s, *args, **options):
    """Takes a lock, for longer than a busy machine may need for a test."""
    ttl = () if "--ttl" in args else ("--ttl", "10m")
    return json.loads(s.out("acquire", "--json", *ttl, *args, **options))


def fails(s, status, *args, **options):
    """Runs what must fail, in one sentence; returns it."""
    done = s.run(*args, expect=code(s, status), **options)
    text = done.stderr.decode()
    true(re.match(r"holdfast: [^\n]*\b%s: [^\n]+\n$" % status, text), f"one sentence: {text!r}")
    equal(done.stdout, b"", "nothing on stdout")
    return text


def show(s, scope, *args):
    return json.loads(s.out("locks", "show", "--json", scope, *args))


def held(s, *args):
    return s.lines("locks", "ls", *args)


# ---- Taking and giving back ---------------------------------------------------------------------


@it("a lease outlives the command that took it, and its release lets the next one in", LOCAL)
def _(s):
    lease = s.out("acquire", "deploy").decode().strip()
    true(re.fullmatch(r"\d+:[0-9a-f]{32}(-\d+)?:default/meta/deploy\.json", lease), lease)
    text = fails(s, "HELD", "acquire", "--no-wait", "deploy", "--holder", "b")
    true(re.search(r"deploy has been held by \S+@\S+ \(token 1\) for \S+; the lease expires in \S+ unless", text), text)
    s.run("release", lease)
    equal(held(s), [])
    second = acquire(s, "--ttl", "30s", "deploy")
    true(second["token"] > 1 and second["ttl_ms"] == 30000, second)
    true(0 < second["expires_in_ms"] <= 30000, second)
    equal(second["scopes"], ["named:deploy"])
    fails(s, "LOST", "release", lease)
    s.env["HOLDFAST_LEASE"] = second["lease"]
    equal(s.out("release"), b"")
    fails(s, "LOST", "release")


@it("a lease that nobody renews ends after its ttl, and its holder is told LOST", LOCAL)
def _(s):
    first = acquire(s, "--ttl", "1s", "job")
    second = acquire(s, "--wait", "20s", "job")
    true(second["token"] > first["token"], "a later token")
    text = fails(s, "LOST", "renew", first["lease"])
    true("ended" in text, text)
    equal([row["token"] for row in held(s)], [second["token"]])


@it("renewing moves the end, and is counted", LOCAL)
def _(s):
    lease = acquire(s, "--ttl", "1h", "job")["lease"]
    equal(s.out("renew", lease), b"renewed for 1h\n")
    renewed = json.loads(s.out("renew", lease, "--json"))
    equal((renewed["lease"], renewed["ttl_ms"]), (lease, 3600000))
    equal(show(s, "job")["held"][0]["renewals"], 2)
    equal(s.out("renew", "-q", lease), b"")


@it("those who wait are served in order, one at a time, with rising tokens", LOCAL)
def _(s):
    lease, count = acquire(s, "--holder", "first", "job"), 5
    waiters = []
    for i in range(count):
        waiters.append(s.start("acquire", "-q", "--json", "--wait", "1m", "--holder", f"w{i}", "job"))
        until(lambda: len(show(s, "job")["queue"]) == i + 1, f"waiter {i} in line")
    queue = show(s, "job")["queue"]
    equal([(row["place"], row["holder"]) for row in queue],
          [(i + 1, f"w{i}") for i in range(count)])
    for i in range(count):
        s.run("release", lease["lease"])
        out, errors = waiters[i].communicate(timeout=60)
        equal((waiters[i].returncode, errors), (0, b""), f"waiter {i}")
        after = json.loads(out)
        true(after["token"] > lease["token"], (lease, after))
        equal([row["holder"] for row in held(s)], [f"w{i}"])
        equal(held(s)[0]["waiters"], count - 1 - i)
        lease = after


@it("many processes at once: one of them holds, the others are told who", LOCAL)
def _(s):
    racers = [s.start("acquire", "--no-wait", "job") for _ in range(8)]
    ends = [racer.communicate() for racer in racers]
    won = [out for (out, _), racer in zip(ends, racers) if racer.returncode == 0]
    equal(len(won), 1, ends)
    lost = [errors for (_, errors), racer in zip(ends, racers) if racer.returncode == 89]
    equal(len(lost), 7, ends)
    equal(len(held(s)), 1)


@it("a wait in vain is a TIMEOUT that leaves nobody in line", LOCAL)
def _(s):
    s.run("acquire", "job")
    text = fails(s, "TIMEOUT", "acquire", "--wait", "100ms", "job")
    true("job has been held by" in text, text)
    equal(show(s, "job")["queue"], [])


@it("Ctrl-C leaves the line", LOCAL)
def _(s):
    s.run("acquire", "job")
    waiter = s.start("acquire", "job")
    until(lambda: show(s, "job")["queue"], "in line")
    waiter.send_signal(signal.SIGINT)
    equal(waiter.communicate(timeout=30), (b"", b""))
    equal(waiter.returncode, -signal.SIGINT)
    equal(show(s, "job")["queue"], [])


@it("a lease that cannot be printed is given back", LOCAL)
def _(s):
    with open("/dev/full", "wb") as full:
        s.run("acquire", "job", stdout=full, expect=code(s, "UNAVAILABLE"))
    equal(held(s), [])
    ours, theirs = os.pipe()
    os.close(ours)
    process = s.start("acquire", "job", stdout=theirs)
    os.close(theirs)
    process.communicate()
    equal(process.returncode, -signal.SIGPIPE)
    s.run("acquire", "--no-wait", "job")


def start_hold(s, *args, ttl="10m", **options):
    """A holder with a pipe to its stdin, and the variables that it has printed."""
    holder = s.start("hold", "--ttl", ttl, *args, stdin=subprocess.PIPE, **options)
    lines = dict(line.split("=", 1) for line in holder.stdout.read().decode().splitlines())
    equal(sorted(lines), ["HOLDFAST_LEASE", "HOLDFAST_TOKEN"])
    return holder, lines


@it("hold prints the lease for a shell, renews it, and releases it when its stdin is closed", LOCAL)
def _(s):
    holder, told = start_hold(s, "job", "--holder", "me", ttl="3s")
    until(lambda: held(s)[0]["renewals"] > 0, "a renewal")
    lease = held(s)[0]
    equal((lease["holder"], str(lease["token"])), ("me", told["HOLDFAST_TOKEN"]))
    s.run("renew", told["HOLDFAST_LEASE"], "-q")
    holder.stdin.close()
    equal(holder.wait(30), 0, holder.stderr.read())
    equal(held(s), [])
    told = s.start("hold", "--json", "path:/a", stdin=subprocess.PIPE)
    equal(json.loads(told.stdout.read())["scopes"], ["path:/a"])
    told.stdin.close()
    equal(told.wait(30), 0)


@it("hold ends with its parent, with a signal and with its lease, and leaves the line with its script", ["sqlite"])
def _(s):
    ours, theirs = os.pipe()  # its stdin stays open
    parent = subprocess.Popen(["sh", "-c", f'"{PROGRAM}" hold --ttl 10m job; exit 1'], cwd=s.path, env=s.env,
                              stdin=ours, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    true(parent.stdout.readline().startswith(b"HOLDFAST_TOKEN="), "it is held")
    parent.kill()
    parent.wait(30)
    until(lambda: not held(s), "the release after its parent was killed")
    os.close(ours)
    os.close(theirs)
    holder, _ = start_hold(s, "job")
    holder.terminate()
    equal(holder.wait(30), -signal.SIGTERM)
    equal(held(s), [])
    holder, _ = start_hold(s, "job", ttl="3s")  # a broken lease is noticed when it is renewed
    waiter = s.start("hold", "--wait", "forever", "job", stdin=subprocess.PIPE)
    until(lambda: show(s, "job")["queue"], "a waiter")
    waiter.stdin.close()
    equal(waiter.wait(30), code(s, "CANCELLED"))
    equal((waiter.stdout.read(), show(s, "job")["queue"]), (b"", []))
    fails(s, "HELD", "hold", "--no-wait", "job")
    s.run("locks", "break", "-q", "job", "--reason", "x")
    equal(holder.wait(60), code(s, "LOST"))
    true(b"LOST: the lease was lost" in holder.stderr.read(), "a sentence")
    with open("/dev/full", "wb") as full:
        s.run("hold", "job", stdout=full, expect=code(s, "UNAVAILABLE"))
    equal(held(s), [])


@it("hold ends as soon as its lease has, even if the store does not answer", ["sqlite"])
def _(s):
    holder, _ = start_hold(s, "job", ttl="3s")
    blocker = sqlite3.connect(s.file("objects.db"), isolation_level=None, timeout=30)
    blocker.execute("BEGIN EXCLUSIVE")
    begun = time.monotonic()  # the lease ends at most 3 s later
    status = holder.wait(60)
    took = time.monotonic() - begun
    blocker.execute("ROLLBACK")
    blocker.close()
    equal(status, code(s, "LOST"))
    equal(holder.stderr.read().count(b"LOST: the lease was lost"), 1)
    true(took < (5 if not SANITIZED else 7), f"it took {took:.1f} s")


def failed_release(lab):
    """With -q, too: it writes all errors."""
    def deny(connection, request):
        if request.method == "PUT":
            connection.reply(403, s3_fake.error("AccessDenied"))
        return request.method == "PUT"

    for end, status in (("close", code(lab, "DENIED")), ("signal", -signal.SIGTERM)):
        lab.bucket.lie = None
        holder, _ = start_hold(lab, "-q", end)
        lab.bucket.lie = deny
        if end == "close":
            holder.stdin.close()
        else:
            holder.terminate()
        equal(holder.wait(30), status, end)
        said = holder.stderr.read().decode()
        true(said.count("\n") == 1 and ": DENIED: the release failed; the lock may stay held" in said, (end, said))
        equal([row["scopes"] for row in held(lab, f"named:{end}")], [[f"named:{end}"]])


cases.add("hold fails if its release does, and says so even with -q", failed_release, Lab)


@it("the script of the examples holds its lock from its first step to its last one", ["sqlite"])
def _(s):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "hold.sh")

    def run_script(path):
        return subprocess.run(["bash", path], cwd=s.path, env=s.env, capture_output=True, timeout=60)

    done = run_script(script)
    equal((done.returncode, done.stdout, done.stderr), (0, b"step 1 under token 1\nstep 2\ndone\n", b""))
    equal(held(s), [])
    with open(script, encoding="utf-8") as file:
        text = file.read()
    true("--wait 10s" in text and 'echo "step 2"\n' in text, "the lines that are changed here")
    s.write("lost.sh", text.replace("hold --wait", "hold --ttl 3s --wait").replace('echo "step 2"\n', "holdfast locks break -q deploy --reason x\n"
                                    'until ! kill -0 "$holder" 2>&-; do sleep 0.01; done\n').encode())
    done = run_script(s.file("lost.sh"))
    equal((done.returncode, done.stdout), (code(s, "LOST"), b"step 1 under token 2\n"), done.stderr)
    acquire(s, "deploy")
    s.write("no.sh", text.replace("--wait 10s", "--no-wait").encode())
    done = run_script(s.file("no.sh"))
    equal((done.returncode, done.stdout), (code(s, "HELD"), b""), done.stderr)


@it("a lease comes on stdin too, where no other user sees it", LOCAL)
def _(s):
    lease = s.out("acquire", "--ttl", "10m", "job")
    s.run("renew", "-q", "-", stdin=lease)
    s.write("in", b"text")
    s.run("write", "--lock", "-", "k", "in", stdin=lease)
    equal(s.out("read", "k"), b"text")
    s.run("release", "-", stdin=lease.strip())
    equal(held(s), [])
    key = s.out("key", "acquire", "--ttl", "10m", "orders/42")
    s.run("key", "update", "orders/42", "--lease", "-", "--from", "in", "-q", stdin=key)
    s.run("key", "keepalive", "--lease", "-", "-q", stdin=key)
    s.run("key", "release", "--lease", "-", stdin=key)
    equal(s.out("key", "get", "orders/42"), b"text")
    for args in (("renew", "-"), ("key", "keepalive", "--lease", "-"), ("write", "--lock", "-", "k", "-")):
        true("no lease on stdin" in fails(s, "INVALID", *args), args)
    fails(s, "INVALID", "renew", "-", stdin=b"x" * 100000)


@it("shared leases and slots are held by many, as many as there may be", LOCAL)
def _(s):
    s.run("acquire", "--mode", "shared", "doc")
    s.run("acquire", "--mode", "shared", "doc")
    fails(s, "HELD", "acquire", "--no-wait", "doc")
    equal(len(held(s, "doc")), 2)
    for _ in range(3):
        s.run("acquire", "--no-wait", "--slots", "3", "gpu")
    fails(s, "HELD", "acquire", "--no-wait", "--slots", "3", "gpu")
    fails(s, "MISMATCH", "acquire", "--no-wait", "--slots", "4", "gpu")
    equal({row["slots"] for row in held(s, "gpu")}, {3})


@it("the exit status of a conflict can be chosen, and that of nothing else changes", ["sqlite"])
def _(s):
    acquire(s, "job")
    for args in (["acquire", "job", "--no-wait"], ["acquire", "job", "--wait", "50ms"],
                 ["key", "acquire", "job", "--no-wait"], ["key", "rm", "job", "--take", "--no-wait"],
                 ["key", "acquire", "job", "--wait", "50ms"],
                 ["write", "--no-wait", "o", "/dev/null", "--lock=job"],
                 ["run", "--no-wait", "job", "true"], ["run", "--wait", "50ms", "job", "true"],
                 ["elect", "run", "--step", "0s", "--wait", "50ms", "job", "true"]):
        at = 2 if args[0] in ("key", "elect") else 1
        done = s.run(*args[:at], "-E", "7", "--json", *args[at:], expect=7)
        told = json.loads(done.stderr)
        equal(told["status"], "TIMEOUT" if "50ms" in args else "HELD", args)
    done = s.run("acquire", "--conflict-exit-code=0", "--no-wait", "job", expect=None)
    equal((done.returncode, done.stdout), (0, b""))
    true(b"HELD" in done.stderr, done.stderr)
    s.run("run", "-E", "7", "other", "sh", "-c", "exit 3", expect=3)
    fails(s, "INVALID", "acquire", "-E", "7", "job", "--ttl", "1ms")
    s.run("acquire", "-E", "7", "other")
    s.run("release", s.out("acquire", "-E", "7", "done", "--once-per", "1h").decode().strip(), "--complete", "-q")
    fails(s, "ALREADY", "acquire", "-E", "7", "done", "--once-per", "1h")
    for value in ("256", "-1", "", "seven"):
        true("from 0 to 255" in fails(s, "INVALID", "acquire", "--conflict-exit-code=" + value, "job"), value)
    true("requires --take" in fails(s, "INVALID", "key", "rm", "job", "-E", "7"), "it waits for nothing")


@it("many scopes are held all or none, and who is in the way is named", LOCAL)
def _(s):
    lease = acquire(s, "chunk:data/a", "chunk:data/b")
    equal(lease["scopes"], ["chunk:data/a", "chunk:data/b"])
    text = fails(s, "HELD", "acquire", "--no-wait", "chunk:data/b", "chunk:data/c")
    true("chunk:data/a and 1 more has been held by" in text, text)
    s.run("acquire", "--no-wait", "chunk:data/c")
    fails(s, "INVALID", "acquire", "chunk:data/a", "deploy")
    s.run("acquire", "tree:/srv")
    fails(s, "HELD", "acquire", "--no-wait", "path:/srv/x")
    s.run("acquire", "range:7:0-10")
    s.run("acquire", "--no-wait", "range:7:10-")
    fails(s, "HELD", "acquire", "--no-wait", "inode:7")


@it("what was completed within the period is ALREADY done; what failed or was let go is not",
    LOCAL)
def _(s):
    args = ("acquire", "--once-per", "1h", "nightly")
    s.run("release", s.out(*args).decode().strip())
    s.run("release", "--fail", "--note", '"no disk"', s.out(*args).decode().strip())
    s.run("release", "--complete", "--note", '{"rows": 17}', s.out(*args).decode().strip())
    text = fails(s, "ALREADY", *args)
    true(re.search(r"already run just now by", text), text)
    ended = show(s, "nightly")["ended"]
    equal([(row["state"], row["note"]) for row in ended],
          [("failed", "no disk"), ("completed", {"rows": 17})])
    s.run("acquire", "--once-per", "1us", "nightly", expect=code(s, "OK"))


@it("a note that is no JSON ends nothing", LOCAL)
def _(s):
    lease = acquire(s, "job")["lease"]
    fails(s, "INVALID", "release", "--complete", "--note", "{", lease)
    fails(s, "INVALID", "release", "--note", "1", lease)
    fails(s, "INVALID", "acquire", "--note", "{", "other")
    s.run("renew", "-q", lease)


# jansson refuses most of these, and would round or shorten the others.
NOTES = ["99999999999999999999", "-1e999", '"a\\u0000b"', '{"\\u0000":1}', '"\\u00e9 \\/"',
         "0.12345678901234567890", '{"a":1, "a":2}', '[1.50,\t1E5]', '"\u00ff"']


@it("a note is printed as its holder wrote it, whatever JSON it is, and no listing fails by it", LOCAL)
def _(s):
    for i, note in enumerate(NOTES):
        acquire(s, "--note", note, f"job-{i}")
        for args in (("show", f"job-{i}"), ("ls", f"job-{i}"), ("watch", "--for", "1ms", f"job-{i}")):
            line = s.out("locks", *args, "--json").decode()
            true(f'"note":{note},' in line and line.count("\n") == 1, (note, line))
        s.out("locks", "show", f"job-{i}")
    acquire(s, "--note", '{"rows":\r\n17}', "lines")
    row = s.lines("locks", "ls", "lines")[0]
    equal(row["note"], {"rows": 17})
    equal(len(held(s)), len(NOTES) + 1)
    equal(s.lines("locks", "break", "job-0", "--reason", "x")[0]["note"], int(NOTES[0]))


@it("an entry of the audit log that another program wrote makes no listing fail", ["dir"])
def _(s):
    acquire(s, "deploy")
    s.run("locks", "break", "deploy", "--reason", "its host is gone")
    key = "default/meta/deploy.json"
    table = cases.unsealed(s.get(key)).decode()
    odd = table.replace('"why":"its host is gone"', '"why":"\\u0000"').replace(
        '"token":1}', '"token":99999999999999999999}')
    s.write(f"objects/{key}", odd.encode())
    true(odd != table, "changed")
    entry = show(s, "deploy")["audit"][0]
    equal((entry["why"], entry["token"]), ("\0", 99999999999999999999))
    s.out("locks", "show", "deploy")


@it("namespaces are apart, and a lease knows its own", LOCAL)
def _(s):
    s.run("acquire", "deploy")
    other = acquire(s, "--ns", "team-b", "deploy")
    equal([row["table"] for row in held(s)], ["default/meta/deploy.json"])
    equal([row["table"] for row in held(s, "--ns", "team-b")], ["team-b/meta/deploy.json"])
    s.run("renew", other["lease"])
    s.run("release", other["lease"])
    equal(held(s, "--ns", "team-b"), [])
    for name in ("a/b", "metadata", "data", "indexes", "roster", ".holdfast"):
        fails(s, "INVALID", "acquire", "--ns", name, "deploy")


@it("no namespace is a folder of members, whose elections would clear its tables away", LOCAL)
def _(s):
    for name in ("roster", "data", "metadata", "indexes"):
        text = fails(s, "INVALID", "run", "--ns", name, "deploy", "--", "true")
        true("reserved" in text, text)


# ---- Looking ------------------------------------------------------------------------------------


@it("ls shows what is held in columns, and with --all those who wait and what is over", LOCAL)
def _(s):
    s.run("release", "--complete", s.out("acquire", "done").decode().strip())
    equal(s.out("locks", "ls"), b"")
    s.run("acquire", "--holder", "a long holder's name", "b/deep")
    s.run("acquire", "--holder", "x", "tree:/srv")
    waiter = s.start("acquire", "--holder", "w", "b/deep")
    until(lambda: show(s, "b/deep")["queue"], "in line")
    lines = s.out("locks", "ls").decode().splitlines()
    equal(lines[0].split(), ["SCOPE", "MODE", "HOLDER", "TOKEN", "HELD", "EXPIRES", "WAITERS"])
    equal([line.split()[0] for line in lines[1:]], ["b/deep", "tree:/srv"])
    for title in ("MODE", "HOLDER", "TOKEN", "HELD", "EXPIRES", "WAITERS"):
        at = lines[0].index(title)
        true(all(line[at - 2:at] == "  " and line[at] != " " for line in lines[1:]), lines)
    true(re.search(r"  1  +\S+  +in \d+s  +1$", lines[1]), lines[1])
    lines = s.out("locks", "ls", "-a", "-q").decode().splitlines()
    equal([line.split()[0] for line in lines], ["active", "waiting", "completed", "active"])
    equal([line.split("  ")[0] for line in s.out("locks", "ls", "-q", "tree:").decode()
           .splitlines()], ["tree:/srv"])
    for prefix, count in (("b", 1), ("b/deep", 1), ("named:b/", 1), ("b/deepx", 0), ("tree", 0),
                          ("tree:/x", 0), ("path:", 0), ("chunk:", 0), ("inode:", 0), ("", 2)):
        equal(len(held(s, prefix)), count, prefix)
    fails(s, "INVALID", "locks", "ls", "what:")
    waiter.kill()
    waiter.communicate()


@it("show tells who, since when, the queue, the earliest takeover and its proof", LOCAL)
def _(s):
    s.make_store()
    text = s.out("locks", "show", "deploy").decode()
    true("nobody; the lock was never acquired" in text, text)
    equal(show(s, "deploy")["held"], [])
    lease = acquire(s, "--ttl", "30s", "--holder", "me", "--note", '{"a": 1}', "deploy")
    waiter = s.start("acquire", "--holder", "w", "deploy")
    until(lambda: show(s, "deploy")["queue"], "in line")
    text = s.out("locks", "show", "deploy").decode()
    for pattern in (r"^scope +named:deploy$", r"^table +default/meta/deploy.json$",
                    r"^holder +me$", rf"^  lease +{re.escape(lease['lease'])}$",
                    r"^  held +\S+, since 20\S+Z$", r"^  ttl +30s, renewals 0$",
                    r"^  expires +in \d+s unless renewed$", r'^  note +{"a": 1}$',
                    r"^  takeover +in \d+s at the earliest, by store time$",
                    r"^  1 +w, exclusive, polls every 100ms$", r"^next token +2$",
                    r"^settings +ttl at most 1h, "):
        true(re.search(pattern, text, re.M), (pattern, text))
    told = show(s, "deploy")
    equal(told["held"][0]["takeover"]["proof"], "store time")
    true(0 < told["held"][0]["takeover"]["in_ms"] <= 30000, told)
    waiter.kill()
    waiter.communicate()


@it("looking changes nothing, not even a table of another program", LOCAL)
def _(s):
    s.run("acquire", "deploy")
    s.run("store", "put", "--force", "-q", "metadata/compaction-leases.json", "-", stdin=SEED_FILE)
    before = s.everything()
    s.run("locks", "ls", "--all")
    s.run("locks", "show", "deploy")
    s.run("locks", "show", "nobody/ever")
    s.run("locks", "show", "chunk:chunk_a.parquet")
    s.run("locks", "watch", "--for", "200ms", "--interval", "50ms")
    s.run("store", "restored")
    s.run("clock")
    equal(s.everything(), before)


@it("on a terminal no holder's name can send a control byte", ["sqlite"])
def _(s):
    s.run("acquire", "--holder", "evil\x1b[2J\nname", "deploy")
    for args in (("locks", "ls"), ("locks", "show", "deploy")):
        text = cli_test.on_terminal(s, *args)
        true(rb"evil\x1b[2J\nname" in text and b"\x1b" not in text, text)
    done = s.run("acquire", "--no-wait", "deploy", expect=code(s, "HELD"))
    true(b"\x1b" not in done.stderr and done.stderr.count(b"\n") == 1, done.stderr)


# ---- Breaking -----------------------------------------------------------------------------------


@it("a broken lease is LOST to its holder, and the table says who broke it and why", LOCAL)
def _(s):
    lease = acquire(s, "--holder", "slow", "deploy")
    fails(s, "INVALID", "locks", "break", "deploy")
    equal(s.out("locks", "break", "deploy", "--reason", "its \"host\" is gone"),
          b"broken: deploy held by slow, token 1\n")
    text = fails(s, "LOST", "renew", lease["lease"])
    true("broken" in text, text)
    fails(s, "NOT_FOUND", "locks", "break", "deploy", "--reason", "again")
    told = show(s, "deploy")
    equal(len(told["audit"]), 1)
    entry = told["audit"][0]
    equal((entry["what"], entry["why"], entry["token"]), ("broken", "its \"host\" is gone", 1))
    true(re.fullmatch(r"[^@]+@[^@]+", entry["by"]), entry)
    true(re.search(r"^audit +20\S+ broken by \S+@\S+: its \"host\" is gone \(token 1 of slow\)$",
                   s.out("locks", "show", "deploy").decode(), re.M), "for people")
    true(acquire(s, "--no-wait", "deploy")["token"] > 1, "free for the next")


@it("break hits exactly the lease that was named", LOCAL)
def _(s):
    tokens = [acquire(s, "--mode", "shared", "doc")["token"] for _ in range(2)]
    text = fails(s, "INVALID", "locks", "break", "doc", "--reason", "x")
    true("2 leases hold this scope" in text and "--token" in text, text)
    fails(s, "NOT_FOUND", "locks", "break", "doc", "--token", "99", "--reason", "x")
    s.run("locks", "break", "doc", "--token", str(tokens[0]), "--reason", "x")
    equal([row["token"] for row in held(s)], [tokens[1]])
    tree = acquire(s, "tree:/srv")
    text = fails(s, "NOT_FOUND", "locks", "break", "path:/srv/x", "--reason", "x")
    true(f"one on tree:/srv conflicts with it; to break that one, use --token {tree['token']}" in text, text)
    told = json.loads(s.out("locks", "break", "path:/srv/x", "--token", str(tree["token"]),
                            "--reason", "x", "--json"))
    equal(told["lease"], tree["lease"])


# ---- Damage, other programs, backups ------------------------------------------------------------

SEED_FILE = json.dumps({"leases": {"lease-abc123": {
    "lease_id": "lease-abc123", "holder_id": "compactor-node-1",
    "chunks": ["chunk_a.parquet", "chunk_b.parquet"], "acquired_at": "2026-02-06T10:00:00Z",
    "expires_at": "2026-02-06T10:05:00Z", "level": 0, "status": "active",
    "color": "blue"}}}).encode()

DAMAGE = {
    "garbage": b"\x00\xffthis is no table",
    "empty": b"",
    "cut off": b'{"format":"holdfast.leases/1","next_token":2,"leases":{"a":{',
    "of wrong types": b'{"format":"holdfast.leases/1","next_token":"2","leases":[]}',
    "without its next token": b'{"format":"holdfast.leases/1","leases":{}}',
    "huge": b'{"format":"holdfast.leases/1","next_token":2,"leases":{}}' + b" " * (9 * MIB),
}


@it("a damaged table is told by show and ls, and replaced by acquire behind a barrier", ["dir"])
def _(s):
    s.run("acquire", "--ttl", "10m", "healthy")
    for number, (kind, damage) in enumerate(DAMAGE.items()):
        name = f"lock-{number}"
        before = acquire(s, name)
        s.write(f"objects/default/meta/{name}.json", damage)
        text = fails(s, "CORRUPT", "locks", "show", name)
        true("not a lease table" in text, (kind, text))
        done = s.run("locks", "ls", "--json", expect=code(s, "CORRUPT"))
        equal(done.stderr.count(b"\n"), 1, done.stderr)
        equal(json.loads(done.stdout)["scopes"], ["named:healthy"], "the others are listed")
        fails(s, "LOST", "renew", before["lease"])
        text = fails(s, "HELD", "acquire", "--no-wait", name)
        true(re.search(r"blocked: the table was damaged and replaced at \d\d:\d\d UTC; free again in "
                       r"\S+$", text.strip()), (kind, text))
        kept = s.out("store", "ls", "-r", f".holdfast/kept/default/meta/{name}.json").decode()
        equal(s.get(kept.strip()), damage, kind)
        barrier = show(s, name)["held"][0]
        equal((barrier["scopes"], barrier["ttl_ms"], barrier["barrier"]), ([], 600000, True))
        true(barrier["token"] >> 32 > before["token"] >> 32, "a new epoch")
        s.run("locks", "break", name, "--token", str(barrier["token"]), "--reason", "all stopped")
        true(acquire(s, "--no-wait", name)["token"] > barrier["token"], kind)
        s.run("locks", "break", name, "--reason", "x")


@it("after damage nothing is granted for as long as leases of that kind can be, and that is told", ["dir"])
def _(s):
    s.run("acquire", "--ttl", "30m", "named")
    s.run("acquire", "--ttl", "1m", "chunk:a")
    s.write("objects/metadata/compaction-leases.json", b"")
    said = r"blocked: the table was damaged and replaced at \d\d:\d\d UTC; free again in (1m\S*|[45]\ds)\b"
    text = fails(s, "HELD", "run", "--no-wait", "chunk:b", "--", "true")
    true(re.search(said, text), text)
    text = fails(s, "TIMEOUT", "run", "--wait", "100ms", "chunk:b", "--", "true")
    true(re.search(said, text), text)
    for args in (["ls", "chunk:"], ["show", "chunk:b"]):
        text = s.out("locks", *args).decode()
        true(re.search(said, text), text)
    barrier, = held(s, "chunk:")
    equal((barrier["ttl_ms"], barrier["barrier"]), (60000, True))


@it("tokens of chunks never fall, whichever namespace its clients are of", ["dir"])
def _(s):
    s.run("store", "restored", "--yes", "--ns", "team")
    s.run("store", "restored", "--yes", "--ns", "team")
    before = acquire(s, "--ns", "team", "chunk:a")["token"]
    s.write("objects/metadata/compaction-leases.json", b"{")
    fails(s, "HELD", "acquire", "--no-wait", "chunk:a", "--ns", "fresh")
    barrier, = held(s, "chunk:")
    true(barrier["token"] > before, (barrier["token"], before))


@it("a table of a later version is refused, not replaced", ["dir"])
def _(s):
    s.run("acquire", "job")
    later = b'{"format":"holdfast.leases/2","leases":"elsewhere"}'
    s.write("objects/default/meta/job.json", later)
    for args in (("locks", "show", "job"), ("acquire", "--no-wait", "job")):
        text = fails(s, "UNSUPPORTED", *args)
        true("upgrade" in text, text)
    equal(s.read("objects/default/meta/job.json"), later)


@it("a lease file of another program is shown, adopted, and goes on to block", ["dir"])
def _(s):
    os.makedirs(s.file("objects/metadata"))
    s.write("objects/metadata/compaction-leases.json", SEED_FILE)
    row, = held(s, "chunk:")
    equal((row["holder"], row["scopes"], row["takeover"]["proof"]),
          ("compactor-node-1", ["chunk:chunk_a.parquet", "chunk:chunk_b.parquet"], "watched"))
    true(3600000 <= row["takeover"]["in_ms"] < 3610000, "the longest that a lease can be")
    text = s.out("locks", "show", "chunk:chunk_a.parquet").decode()
    true("another program's" in text and "by watching it stay unchanged" in text, text)
    text = fails(s, "HELD", "acquire", "--no-wait", "chunk:chunk_b.parquet")
    true("compactor-node-1" in text, text)
    lease = acquire(s, "chunk:chunk_c.parquet")
    true(lease["token"] >> 32 >= 1, "tokens of a new epoch")
    table = json.loads(s.read("objects/metadata/compaction-leases.json"))
    equal(table["format"], "holdfast.leases/1")
    equal(table["leases"]["lease-abc123"]["color"], "blue", "what we do not know is kept")
    equal(len(held(s)), 2)
    fails(s, "HELD", "acquire", "--no-wait", "chunk:chunk_a.parquet")


@it("the lock of a shard is listed, shown, renewed, broken and released like any other", LOCAL)
def _(s):
    lease = acquire(s, "--holder", "w-1", "--ttl", "2m", "shard:domains/a3", "--ns", "team")
    equal(lease["scopes"], ["shard:domains/a3"])
    true(lease["lease"].endswith(":indexes/domains/shards/a3.lock"), lease)
    for prefix, count in (("shard:", 1), ("shard:dom", 1), ("shard:domains/a", 1), ("", 1),
                          ("shard:emails", 0), ("shard:domains/b", 0), ("domains", 0)):
        equal(len(held(s, prefix)), count, prefix)
    text = fails(s, "HELD", "acquire", "--no-wait", "shard:domains/a3")
    true("shard:domains/a3 has been held by w-1" in text, text)
    s.run("renew", lease["lease"])
    lock = json.loads(s.out("store", "get", "indexes/domains/shards/a3.lock"))
    equal(lock["worker_id"], "w-1")
    true(lock["created_at"] < lock["expires_at"], lock)
    s.run("release", lease["lease"])
    lock = json.loads(s.out("store", "get", "indexes/domains/shards/a3.lock"))
    equal((lock["worker_id"], lock["expires_at"]), ("w-1", lock["created_at"]))
    s.run("acquire", "shard:domains/a3")
    s.run("locks", "break", "shard:domains/a3", "--reason", "x")
    s.run("acquire", "--no-wait", "shard:domains/a3")
    fails(s, "INVALID", "acquire", "--ttl", "301s", "shard:domains/b3")
    fails(s, "INVALID", "acquire", "shard:domains")
    fails(s, "INVALID", "acquire", "--ns", "indexes", "deploy")


@it("a lock of another program is shown with its worker, and broken by its token", LOCAL)
def _(s):
    s.write("theirs", b'{"worker_id": "rpi-7", "created_at": "2026-02-06T10:00:00", '
                      b'"expires_at": "2026-02-06T10:05:00"}')
    s.run("store", "put", "--force", "indexes/domains/shards/a3.lock", "theirs")
    row, = held(s, "shard:")
    equal((row["holder"], row["scopes"], row["token"]), ("rpi-7", [], 0))
    text = s.out("locks", "show", "shard:domains/a3").decode()
    true(re.search(r"^holder +rpi-7$", text, re.M), text)
    true("in 5m at the earliest, by watching" in text, text)
    fails(s, "HELD", "acquire", "--no-wait", "shard:domains/a3")
    text = fails(s, "NOT_FOUND", "locks", "break", "shard:domains/a3", "--reason", "x")
    true("--token 0" in text, text)
    s.run("locks", "break", "shard:domains/a3", "--token", "0", "--reason", "it is gone")
    s.run("acquire", "--no-wait", "shard:domains/a3")


@it("after a restore tokens are of a later epoch, and a barrier holds what the backup knew", LOCAL)
def _(s):
    other = {"dir:objects": "dir:backup", "sqlite:objects.db": "sqlite:backup.db"}[s.url]
    s.run("acquire", "--ttl", "1s", "old")
    s.run("acquire", "--ns", "team", "theirs")
    s.run("acquire", "chunk:a")
    s.run("acquire", "shard:domains/a3")
    s.run("store", "cp", "-q", "-r", "--to", other)
    newest = max(acquire(s, "--wait", "20s", "old")["token"],  # since the backup
                 acquire(s, "new")["token"])
    s.env["HOLDFAST_STORE"] = other
    before = s.everything()
    text = s.out("store", "restored").decode()
    true("Nothing was changed" in text and "Stop all workers" in text, text)
    equal(s.everything(), before)
    rows = s.lines("store", "restored", "--yes")
    equal({row["namespace"]: row["epoch"] for row in rows if "namespace" in row},
          {"default": RESTORE_EPOCHS, "team": RESTORE_EPOCHS})
    equal({row["table"]: row["barrier_ms"] for row in rows if "table" in row},
          {"default/meta/old.json": 3600000, "team/meta/theirs.json": 3600000,
           "metadata/compaction-leases.json": 3600000, "indexes/domains/shards/a3.lock": 300000})
    for args in (["old"], ["--ns", "team", "theirs"], ["chunk:b"], ["shard:domains/a3"]):
        fails(s, "HELD", "acquire", "--no-wait", *args)
    true(acquire(s, "--no-wait", "new")["token"] >= RESTORE_EPOCHS << 32, "not in the backup")
    barrier, = [row for row in show(s, "old")["held"] if not row["scopes"]]
    true(re.match(r"store restored, by \S+@\S+$", barrier["holder"]), barrier)
    true(3500000 < barrier["takeover"]["in_ms"] <= 3600000, barrier)
    s.run("locks", "break", "old", "--token", str(barrier["token"]), "--reason", "all stopped")
    true(acquire(s, "--wait", "20s", "old")["token"] > max(newest, RESTORE_EPOCHS << 32), "higher")
    text = s.out("store", "restored", "--yes", "--ns", "gone").decode()
    true("namespace gone: its token epoch is now 4096" in text, text)
    true("namespace default: its token epoch is now 8192" in text, text)
    true(re.search(r"Nothing is granted in these for 1h, until about 20", text), text)


@it("an epoch that is lost is told by name, and rebuilt above every token", LOCAL)
def _(s):
    document, copy = ".holdfast/epoch/default.json", ".holdfast/epoch-copy/default.json"
    s.run("acquire", "first")
    s.run("store", "restored", "--yes", "-q")
    newest = acquire(s, "second")["token"]
    equal(newest >> 32, RESTORE_EPOCHS)
    s.run("store", "put", "--force", "-q", document, "-", stdin=b"")  # its copy stands in
    equal(acquire(s, "third")["token"], newest)
    s.run("store", "rm", "--force", document)
    equal(acquire(s, "fourth")["token"], newest)
    s.run("store", "rm", "--force", document, copy)
    text = fails(s, "CORRUPT", "acquire", "fifth")
    true("store repair epoch" in text, text)
    row, = s.lines("store", "repair", "epoch")
    equal((row["namespace"], row["rebuilt"], row["highest_token"]), ("default", True, newest))
    true(row["epoch"] > newest >> 32, row)
    equal(acquire(s, "fifth")["token"], row["epoch"] << 32 | 1)
    text = s.out("store", "repair", "epoch", "--ns", "default").decode()
    true(f"its token epoch is {row['epoch']}; it was intact" in text, text)
    for key in (document, copy):
        s.run("store", "put", "--force", "-q", key, "-", stdin=b"{")
    true("would be" in s.out("store", "restored").decode(), "nothing is changed yet")
    again = s.lines("store", "restored", "--yes")[0]
    true(again["epoch"] > row["epoch"], again)
    equal(acquire(s, "sixth")["token"], again["epoch"] << 32 | 1)


# ---- Fenced objects -----------------------------------------------------------------------------


@it("write needs the lock, read does not, and a stale holder is refused", LOCAL)
def _(s):
    old = acquire(s, "state")
    s.write("one", b"first")
    s.write("two", b"second")
    s.run("write", "obj", "one", "--lock", old["lease"])
    equal(s.out("read", "obj"), b"first")
    s.env["HOLDFAST_LEASE"] = old["lease"]
    told = json.loads(s.out("write", "obj", "two", "--json"))
    equal(told, {"key": "obj", "token": old["token"], "size_bytes": 6})
    equal(s.out("read", "obj", "-"), b"second", "the last write of one lease counts")
    s.run("locks", "break", "state", "--reason", "x")
    fails(s, "LOST", "write", "obj", "one")
    new = acquire(s, "state")
    s.run("write", "obj", "one", "--lock", new["lease"])
    fails(s, "LOST", "write", "obj", "two")
    told = json.loads(s.out("read", "obj", "copy", "--json"))
    equal(told, {"key": "obj", "token": new["token"], "size_bytes": 5, "file": "copy"})
    equal(s.read("copy"), b"first")
    fails(s, "MISMATCH", "write", "obj", "two", "--lock", "another-lock")
    s.run("renew", "-q", new["lease"])


@it("write with a scope holds it meanwhile, reads pipes, and gives it back", LOCAL)
def _(s):
    data = os.urandom(5 * MIB)
    s.run("write", "--lock", "state", "big", "-", stdin=data)
    equal(s.out("read", "big"), data)
    s.run("read", "big", "file")
    equal(s.read("file"), data)
    equal(held(s), [])
    s.run("acquire", "state")
    text = fails(s, "HELD", "write", "--lock", "state", "--no-wait", "big", "-", stdin=b"1")
    true("state has been held by" in text, text)
    equal(s.out("read", "big"), data)


@it("write takes a lock that covers the object's, held alone", LOCAL)
def _(s):
    s.run("write", "--lock", "path:/a/b", "obj", "-", stdin=b"1")
    s.run("write", "--lock", "path:/unrelated", "other", "-", stdin=b"1")
    text = fails(s, "MISMATCH", "write", "--lock", "path:/unrelated", "obj", "-", stdin=b"2")
    true("path:/a/b" in text, text)
    s.run("write", "--lock", "tree:/a", "obj", "-", stdin=b"3")
    s.run("write", "--lock", "path:/a/b", "obj", "-", stdin=b"4")
    equal(s.out("read", "obj"), b"4")
    shared = acquire(s, "--mode", "shared", "path:/a/b")["lease"]
    fails(s, "MISMATCH", "write", "--lock", shared, "obj", "-", stdin=b"5")
    s.run("release", shared)
    lease = acquire(s, "path:/a/b")["lease"]
    s.run("write", "--lock", lease, "obj", "-", stdin=b"6")
    equal(s.out("read", "obj"), b"6")


@it("read tells what is not there from what is not fenced, and leaves the file alone", LOCAL)
def _(s):
    s.put("plain", b"x")
    s.write("out", b"old")
    fails(s, "NOT_FOUND", "read", "nothing", "out")
    fails(s, "MISMATCH", "read", "plain", "out")
    fails(s, "MISMATCH", "write", "--lock", "state", "plain", "out")
    equal(s.read("out"), b"old")
    equal(s.get("plain"), b"x")


# ---- Watching -----------------------------------------------------------------------------------


@it("a lease that is provably over says so, and one that only should be over is overdue", LOCAL)
def _(s):
    acquire(s, "--ttl", "1s", "--holder", "dead", "job")
    s.write("theirs", b'{"worker_id": "rpi-7", "created_at": "2026-02-06T10:00:00", '
                      b'"expires_at": "2026-02-06T10:05:00"}')
    s.run("store", "put", "--force", "indexes/domains/shards/a3.lock", "theirs")
    until(lambda: held(s, "job")[0]["state"] == "over", "it is over")
    equal(show(s, "job")["held"][0]["state"], "over")
    equal((held(s, "shard:")[0]["state"], show(s, "shard:domains/a3")["held"][0]["state"]),
          ("overdue", "overdue"))  # its clock is no clock of ours: only watching it proves it
    acquire(s, "--ttl", "10m", "live")
    equal(held(s, "live")[0]["state"], "active")
    text = s.out("locks", "ls").decode()
    for pattern in (r"^job .* over \((\S+ ago|just now)\)",
                    r" rpi-7 .* overdue \((\S+ ago|just now)\)", r"^live .* in 9m"):
        true(re.search(pattern, text, re.M), (pattern, text))
    true(re.search(r"^over +job ", s.out("locks", "ls", "--all").decode(), re.M), "with --all")
    true(re.search(r"^  state +over$", s.out("locks", "show", "job").decode(), re.M), "show")


@it("watch tells when a lease that nobody ends is over", LOCAL)
def _(s):
    s.make_store()
    watcher = s.start("locks", "watch", "--json", "--interval", "50ms", "--for", "30s")
    acquire(s, "--ttl", "1s", "--holder", "dead", "job")
    rows = []
    while not rows or rows[-1]["event"] != "over":
        rows.append(json.loads(watcher.stdout.readline()))
    watcher.kill()
    watcher.communicate()
    equal([row["event"] for row in rows if row["event"] != "overdue"], ["granted", "over"])
    equal((rows[0]["state"], rows[-1]["state"]), ("active", "over"))


@it("watch prints each change as a line where there is no terminal", LOCAL)
def _(s):
    s.make_store()
    watcher = s.start("locks", "watch", "--json", "--interval", "50ms")
    lease = acquire(s, "--holder", "a", "deploy")["lease"]
    row = json.loads(watcher.stdout.readline())
    equal((row["event"], row["holder"], row["scopes"]), ("granted", "a", ["named:deploy"]))
    waiter = s.start("acquire", "--holder", "b", "deploy")
    row = json.loads(watcher.stdout.readline())
    equal((row["event"], row["holder"], row["place"]), ("waiting", "b", 1))
    s.run("release", lease)
    events = [json.loads(watcher.stdout.readline()) for _ in range(2)]
    equal(sorted((row["event"], row["holder"]) for row in events), [("ended", "a"), ("granted", "b")])
    equal(waiter.wait(), 0)
    waiter.communicate()
    watcher.send_signal(signal.SIGINT)
    equal(watcher.communicate(), (b"", b""))
    equal(watcher.returncode, -signal.SIGINT)
    lines = s.out("locks", "watch", "--for", "100ms").decode().splitlines()
    equal(len(lines), 1)
    true(re.fullmatch(r"20\S+Z  granted  deploy  exclusive  b  token \d+", lines[0]), lines)


@it("watch does not take the leases of a table that it cannot read for ended, and tells why once", ["dir"])
def _(s):
    lease = acquire(s, "first")["lease"]
    table = s.file("objects/default/meta/first.json")
    kept = s.read(table)

    def replace(data):
        s.write("new", data)
        os.replace(s.file("new"), table)

    watcher = s.start("locks", "watch", "--json", "--interval", "50ms", "--for", "30s")

    def told(stream):
        return json.loads(stream.readline())

    equal(told(watcher.stdout)["event"], "granted")
    for data, status in ((b"nonsense", "CORRUPT"), (b'{"format":"holdfast.leases/2"}', "UNSUPPORTED"),
                         (b"nonsense", "CORRUPT")):
        replace(data)
        damage = told(watcher.stderr)
        equal((damage["status"], damage["command"]), (status, "locks watch default/meta/first.json"))
    equal(acquire(s, "other")["token"], 1)
    event = told(watcher.stdout)
    equal((event["event"], event["scopes"]), ("granted", ["named:other"]))
    replace(kept)
    s.run("release", "-q", lease)
    event = told(watcher.stdout)
    equal((event["event"], event["scopes"]), ("ended", ["named:first"]))
    replace(b"nonsense")
    equal(told(watcher.stderr)["status"], "CORRUPT")
    watcher.send_signal(signal.SIGINT)
    equal(watcher.communicate(), (b"", b""))


class Screen:
    """A terminal of so many rows, and what the program writes on it."""

    def __init__(self, s, rows, columns, *args):
        self.ours, theirs = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.ours)
        self.process = s.start(*args, stdout=theirs, stdin=theirs, start_new_session=True)
        os.close(theirs)
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self):
        if select.select([self.ours], [], [], 0.05)[0]:
            try:
                self.text += os.read(self.ours, 65536).decode()
            except OSError:
                pass

    def frame(self):
        """The last whole picture, as lines."""
        frames = self.text.split("\x1b[H")
        whole = [frame for frame in frames[1:] if frame.endswith("\x1b[J")]
        return whole[-1][:-3].replace("\x1b[K", "").replace("\r", "").split("\n")[:-1] if whole else []

    def wait_for(self, condition, what):
        end = time.monotonic() + 30
        while not condition(self.frame()):
            true(time.monotonic() < end, f"in vain: {what}: {self.frame()}")
            self.read()

    def end(self, *signals):
        for number in signals:
            self.process.send_signal(number)
        errors = self.process.communicate(timeout=30)[1]
        for _ in range(20):
            self.read()
        equal(termios.tcgetattr(self.ours), self.before, "the terminal's modes")
        os.close(self.ours)
        equal(errors, b"")
        return self.process.returncode


@it("watch on a terminal is kept up to date, fits its window, and gives the screen back")
def _(s):
    for i in range(12):
        s.run("acquire", "--ttl", "10m", f"lock-{i:02}")
    screen = Screen(s, 24, 100, "locks", "watch", "--interval", "50ms")
    screen.wait_for(lambda f: f and f[0].startswith("12 held, 0 waiting"), "twelve")
    true(screen.text.startswith("\x1b[?1049h"), "a screen of its own")
    frame = screen.frame()
    equal(frame[2].split()[:3], ["STATE", "SCOPE", "MODE"])
    equal([line.split()[1] for line in frame[3:]], [f"lock-{i:02}" for i in range(12)])
    screen.resize(10, 40)
    screen.wait_for(lambda f: len(f) == 9, "a smaller window")
    frame = screen.frame()
    equal(frame[-1], "… and 7 more")
    true(all(len(line) <= 40 for line in frame), frame)
    s.run("locks", "break", "lock-00", "--reason", "x")
    screen.wait_for(lambda f: f[0].startswith("11 held"), "one less")
    equal(screen.end(signal.SIGINT), -signal.SIGINT)
    true(screen.text.endswith("\x1b[?1049l"), "the old screen is back")


@it("watch gives the screen back on its own end, too")
def _(s):
    s.make_store()
    screen = Screen(s, 24, 80, "locks", "watch", "--for", "100ms")
    equal(screen.end(), 0)
    true(screen.text.endswith("\x1b[?1049l"), screen.text[-80:])
    equal(screen.frame()[0].split("   ")[0] if screen.frame() else "0 held, 0 waiting",
          "0 held, 0 waiting")


# ---- Clocks, networks, bad input ----------------------------------------------------------------


@it("clock names the boot-time clock of a local store", LOCAL)
def _(s):
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    s.make_store()
    told = json.loads(s.out("clock", "--json"))
    true(told["kind"] == "boot" and told["id"].startswith(boot) and told["width_ms"] == 0, told)
    true("boot-time clock of this machine" in s.out("clock").decode(), "for people")


@it("clock shows between which bounds the clock of a store on the network must be")
def _(s):
    with cli_test.Fake(s) as fake:
        url = fake.url("plain")
        told = json.loads(s.out("clock", "--json", "--store", url))
        text = s.out("clock", "--store", url).decode()
    wall = time.time()
    earliest, latest = (datetime.datetime.fromisoformat(told[name].replace("Z", "+00:00"))
                        .timestamp() for name in ("earliest_at", "latest_at"))
    equal((told["kind"], told["known"], len(told["samples"])), ("date", True, 3))
    true(abs(told["width_ms"] - 1e3 * (latest - earliest)) <= 2, told)
    true(1e3 <= told["width_ms"] < 5e3, told)
    true(earliest <= wall and latest > wall - 60, (told, wall))
    for sample in told["samples"]:
        true(told["offset_min_ms"] <= sample["offset_min_ms"] < sample["offset_max_ms"] <=
             told["offset_max_ms"], told)
    for pattern in (r"^between +20\S+Z$", r"^width +\d\.\d{3} s$", r"^drift +200 ppm"):
        true(re.search(pattern, text, re.M), (pattern, text))


@it("locks on a store on the network are taken, shown and broken like others")
def _(s):
    with cli_test.Fake(s) as fake:
        s.env["HOLDFAST_STORE"] = fake.url("plain")
        lease = acquire(s, "deploy")
        fails(s, "HELD", "acquire", "--no-wait", "deploy")
        s.run("renew", lease["lease"])
        told = show(s, "deploy")
        true(told["settings"]["skew_tolerance_ms"] > 0, told)
        s.write("f", b"bytes")
        s.run("write", "obj", "f", "--lock", lease["lease"])
        equal(s.out("read", "obj"), b"bytes")
        s.run("locks", "break", "deploy", "--reason", "x")
        fails(s, "LOST", "renew", lease["lease"])


@it("bad input is one clear sentence")
def _(s):
    lease = acquire(s, "job")["lease"]
    for status, args, wanted in (
        ("INVALID", ["acquire"], "SCOPE is missing"),
        ("INVALID", ["acquire", "Deploy"], "use 'deploy'"),
        ("INVALID", ["acquire", "named:Web/Api"], "use 'web/api'"),
        ("INVALID", ["acquire", ""], "1 to 128 bytes"),
        ("INVALID", ["acquire", "x" * 129], "1 to 128 bytes"),
        ("INVALID", ["acquire", ".hidden"], "reserved"),
        ("INVALID", ["acquire", "a b"], "a-z, 0-9"),
        ("INVALID", ["acquire", "thing:x"], "use named: path:"),
        ("INVALID", ["acquire", "range:7:5-5"], "not a range"),
        ("INVALID", ["acquire", "path:a"], "not a path"),
        ("INVALID", ["acquire", "job", "--ttl", "1ms"], "ttl"),
        ("INVALID", ["acquire", "job2", "--ttl", "2h"], "between 100ms and 1h"),
        ("INVALID", ["acquire", "job", "--ttl", "30"], "--ttl: "),
        ("INVALID", ["acquire", "job", "--wait", "1s", "--no-wait"], "cannot be used together"),
        ("INVALID", ["acquire", "job", "--mode", "both"], "shared or exclusive"),
        ("INVALID", ["acquire", "job", "--slots", "0"], "--slots"),
        ("INVALID", ["acquire", "job", "--slots", "1", "--mode", "shared"], "cannot be used together"),
        ("INVALID", ["acquire", "job", "--holder", "x" * 300], "256 bytes"),
        ("INVALID", ["acquire", "job", "--ns", "Team"], "use 'team'"),
        ("INVALID", ["renew"], "HOLDFAST_LEASE"),
        ("INVALID", ["renew", "deploy"], "TOKEN:ID:TABLE"),
        ("INVALID", ["renew", "1:x"], "TOKEN:ID:TABLE"),
        ("INVALID", ["release", "x:1:default/meta/job.json"], "TOKEN:ID:TABLE"),
        ("LOST", ["renew", "7:nobody-1:default/meta/job.json"], "no such lease"),
        ("LOST", ["renew", "9" + lease], "ended"),
        ("INVALID", ["locks", "show", "Deploy"], "use 'deploy'"),
        ("NOT_FOUND", ["locks", "break", "nothing", "--reason", "x"], "no such lock"),
        ("INVALID", ["locks", "break", "job", "--reason", ""], "--reason"),
        ("INVALID", ["locks", "break", "job", "--reason", "x" * 2000], "at most"),
        ("INVALID", ["locks", "watch", "--interval", "1ms"], "50ms"),
        ("INVALID", ["write", "k", "/dev/null"], "HOLDFAST_LEASE"),
        ("INVALID", ["write", "k", "/dev/null", "--lock", "No"], "use 'no'"),
        *(("INVALID", ["write", "k", "/dev/null", "--lock", lease, *more], f"{more[0]} requires --lock with a scope")
          for more in (["--ttl", "5m"], ["--wait", "1s"], ["--no-wait"], ["--conflict-exit-code", "3"], ["--ns", "zzz"])),
        ("NOT_FOUND", ["write", "k", "no-such-file", "--lock", "job"], "no-such-file"),
        ("INVALID", ["store", "restored", "--ns", "A"], "use 'a'"),
        ("INVALID", ["locks"], "ls, show, break, watch"),
    ):
        text = fails(s, status, *args)
        true(wanted in text, f"{args}: {text}")
    s.run("renew", "-q", lease)


def leak_nothing(s):
    """Few commands, since each takes seconds to look for leaks."""
    s.write("in", b"x" * 10000)
    s.put("default/meta/bad.json", b"{")
    s.run("acquire", "--ttl", "10m", "job")
    s.find_leaks(True)
    s.run("write", "--lock", "state", "k", "in", "--json")
    s.run("read", "k", "copy", "--json")
    s.run("acquire", "job", "--wait", "100ms", expect=94)
    s.run("locks", "ls", "--all", expect=88)
    s.run("locks", "show", "job", "--json")
    s.run("locks", "watch", "--for", "100ms", "--json")
    s.run("locks", "break", "job", "--reason", "x", "--json")
    s.run("store", "restored", "--yes")


if SANITIZED:
    it("no command leaks memory, whether it succeeds or fails")(leak_nothing)

if __name__ == "__main__":
    sys.exit(cases.main())

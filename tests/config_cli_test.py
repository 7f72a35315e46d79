#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""config_cli_test.py: the configuration file: named stores, defaults and profiles, what comes before
what, and every mistake with its line.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import json
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import cases
from cli_test import PROGRAM, code, equal, fails, it, true

cases.cases.clear()
os.environ.pop("HOLDFAST_CONFIG", None)  # this test has a home of its own


def configure(s, text, mode=0o644):
    """The user's file, at its usual place."""
    path = s.file(".config/holdfast/holdfast.conf")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace("HERE", s.path))
    os.chmod(path, mode)
    return path


STORES = """# Two stores.
[store prod]
url = dir:HERE/prod

[ store test ]
url=sqlite:~/test.db
"""


def store_of(s, *args):
    return s.out(*args, "run", "x", "--", "sh", "-c", "echo $HOLDFAST_STORE").decode().strip()


@it("the file of the guide has no mistake")
def _(s):
    guide = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "guide.md")
    with open(guide, encoding="utf-8") as file:
        (block,) = re.findall(r"```ini\n(.*?)```", file.read(), re.S)
    configure(s, block)
    s.run("config", "check")


@it("a store has a name, for --store, for HOLDFAST_STORE and for both ends of a copy")
def _(s):
    configure(s, STORES)
    equal(store_of(s, "--store", "prod"), f"dir:{s.path}/prod")
    s.env["HOLDFAST_STORE"] = "test"
    equal(store_of(s), f"sqlite:{s.path}/test.db")
    s.put("k", b"1")
    s.run("store", "cp", "-q", "k", "--from", "test", "--to", "prod")
    equal(s.out("store", "get", "k", "--store", "prod"), b"1")
    text = fails(s, "INVALID", "store", "ls", "--store", "pord")
    true("there is no [store pord]" in text and "config show" in text, text)


@it("an object has the name of its store in front, where a command takes files; a file of that name is ./NAME")
def _(s):
    configure(s, STORES)
    s.run("store", "put", "-q", "--store", "prod", "a.csv", "-", stdin=b"id,t\n1,2026-02-06T10:00:00Z\n")
    s.run("merge", "-q", "--format", "csv", "--key", "id", "--time", "t", "-o", "test#b.csv", "prod#a.csv")
    equal(s.out("store", "get", "--store", "test", "b.csv"), b"id,t\n1,2026-02-06T10:00:00Z\n")
    s.run("store", "sync", "-q", "prod", "test#copy/")
    equal(s.out("store", "get", "--store", "test", "copy/a.csv")[:4], b"id,t")
    true("must be 1 to 1024 bytes" in fails(s, "INVALID", "merge", "--format", "csv", "--key", "id", "--time", "t", "-o", "out", "prod#"), "no key")
    s.write("prod#a.csv", b"id,t\n2,2026-02-06T10:00:00Z\n")
    s.run("merge", "-q", "--format", "csv", "--key", "id", "--time", "t", "-o", "out", "./prod#a.csv")
    equal(s.read("out"), b"id,t\n2,2026-02-06T10:00:00Z\n")
    text = fails(s, "NOT_FOUND", "merge", "--format", "csv", "--key", "id", "--time", "t", "-o", "out", "nobody#a.csv")
    true("nobody#a.csv" in text, text)


@it("the log and colors are set by an option, a variable or the file, in this order")
def _(s):
    configure(s, "[defaults]\nverbose = 2\nlog = text:HERE/log\ncolor = never\n")
    s.run("store", "put", "-q", "k", "-", stdin=b"1")
    true(b"k -> OK" in s.read("log"), s.read("log"))
    shown = {line["setting"]: (line["value"], line["origin"].rpartition("/")[2]) for line in s.lines("config", "show")}
    equal((shown["verbose"], shown["color"]), (("2", "holdfast.conf:2"), ("never", "holdfast.conf:4")))
    s.env["HOLDFAST_VERBOSE"] = "0"
    s.env["HOLDFAST_LOG"] = f"json:{s.path}/other"
    s.run("store", "ls")
    equal(s.read("other"), b"")
    shown = {line["setting"]: line["origin"] for line in s.lines("config", "show")}
    equal((shown["verbose"], shown["log"]), ("HOLDFAST_VERBOSE", "HOLDFAST_LOG"))
    for name, value in (("verbose", "3"), ("log", "xml"), ("color", "red")):
        configure(s, f"[defaults]\n{name} = {value}\n")
        true(f"holdfast.conf:2: {name}: " in fails(s, "INVALID", "store", "ls"), name)


@it("an option comes before the environment, that before the profile, and that before the defaults")
def _(s):
    text = STORES + "[defaults]\nstore = prod\nns = team\nttl = 7m\nwait = 50ms\n[profile ci]\nstore = test\nttl = 9m\n"
    path = configure(s, text)

    def lease(*args):
        told = json.loads(s.out("acquire", "--json", *args))
        s.run("release", "-q", told["lease"], *(args[:2] if "--profile" in args else ()))
        return told["ttl_ms"] // 60000, told["lease"].split(":")[2].split("/")[0]

    equal(store_of(s), f"dir:{s.path}/prod", "the defaults")
    equal(lease("job"), (7, "team"))
    equal(store_of(s, "--profile", "ci"), f"sqlite:{s.path}/test.db", "the profile")
    equal(lease("--profile", "ci", "job"), (9, "team"))
    equal(lease("--ttl", "1m", "--ns", "other", "job"), (1, "other"), "options")
    s.env["HOLDFAST_PROFILE"] = "ci"
    equal(store_of(s), f"sqlite:{s.path}/test.db", "the profile of the environment")
    s.env["HOLDFAST_STORE"] = f"dir:{s.path}/env"
    equal(store_of(s), f"dir:{s.path}/env", "the environment")
    equal(store_of(s, "--store", "prod"), f"dir:{s.path}/prod", "the option")
    s.run("acquire", "--ttl", "1m", "job")
    fails(s, "TIMEOUT", "acquire", "job")
    fails(s, "HELD", "acquire", "job", "--no-wait")
    rows = {row["setting"]: row for row in s.lines("config", "show")}
    equal(rows["store"], {"setting": "store", "value": s.env["HOLDFAST_STORE"], "origin": "HOLDFAST_STORE"})
    equal((rows["ttl"]["value"], rows["ttl"]["origin"]), ("9m", f"{path}:14"))
    equal((rows["ns"]["value"], rows["ns"]["origin"]), ("team", f"{path}:9"))
    equal(rows["store prod"]["value"], f"dir:{s.path}/prod")
    true("no profile 'nobody'" in fails(s, "INVALID", "locks", "ls", "--profile", "nobody"), "a sentence")
    s.env["HOLDFAST_CONFIG"] = ""
    del s.env["HOLDFAST_PROFILE"]
    equal([row["setting"] for row in s.lines("config", "show")], ["store"], "no file is read")


@it("a default changes no command for which the option means something else")
def _(s):
    configure(s, "[defaults]\nttl = 7m\nns = team\nwait = 1s\n")
    s.run("compact", "create", "--format", "usv", "--key", "1", "--time", "3", "-q")
    before = s.lines("compact", "set", "--grace", "1h")
    equal(s.lines("compact", "set", "--grace", "1h"), before)
    true('"ttl_ms":60000' in json.dumps(before, separators=(",", ":")), before)
    lease = s.out("key", "acquire", "k").decode().strip()
    s.run("key", "update", "k", "--lease", lease, "-q", stdin=b"1")
    lease = s.out("acquire", "job").decode().strip()
    s.run("write", "o", "-", "--lock", lease, "-q", stdin=b"1")
    s.run("store", "repair", "epoch")


@it("a key of another namespace than the default is changed under its lease, unless --ns says otherwise")
def _(s):
    configure(s, "[defaults]\nns = team\n")
    s.run("run", "-q", "--ns", "other", "k", "--", PROGRAM, "key", "update", "k", "-q", stdin=b"1")
    equal(s.out("key", "get", "--ns", "other", "k"), b"1")
    lease = s.out("key", "acquire", "--ns", "other", "k").decode().strip()
    s.run("key", "update", "k", "--lease", lease, "-q", stdin=b"2")
    fails(s, "MISMATCH", "key", "update", "k", "--ns", "team", "--lease", lease, "-q", stdin=b"3")
    equal(s.out("key", "get", "--ns", "other", "k"), b"2")


@it("a default for the holder is one for a transaction, too")
def _(s):
    configure(s, "[defaults]\nholder = anna\n")
    txn = s.out("txn", "begin").decode().strip()
    equal(json.loads(s.out("txn", "show", txn, "--json"))["holder"], "anna")


@it("each mistake is told with its file and line, and no command runs with it")
def _(s):
    for text, line, wanted in (
        ("store = prod\n", 1, "must follow [store NAME]"),
        ("\n[stores prod]\n", 2, "unknown section [stores]"),
        ("[store]\n", 1, "[store NAME]"),
        ("[store Prod]\n", 1, "a-z"),
        ("[defaults x]\n", 1, "has no name"),
        ("[defaults\n", 1, "']' is missing"),
        ("[defaults]\nsotre = x\n", 2, "did you mean 'store'?"),
        ("[defaults]\nforce = yes\n", 2, "unknown setting 'force'"),
        ("[defaults]\nttl = soon\n", 2, "not a duration"),
        ("[defaults]\nttl =\n", 2, "has no value"),
        ("[defaults]\nttl\n", 2, "NAME = VALUE"),
        ("[defaults]\nns = a\n\nns = b\n", 4, "already set in line 2"),
        ("[store a]\nurl = dir:relative\n", 2, "start with / or ~/"),
        ("[store a]\nurl = ftp://x\n", 2, "ftp"),
        ("[store a]\nurk = dir:/x\n", 2, "only 'url'"),
        ("[defaults]\nns = a\0b\n", 2, "NUL"),
    ):
        path = configure(s, text)
        said = fails(s, "INVALID", "locks", "ls")
        true(f"{path}:{line}: " in said and wanted in said, f"{text!r}: {said}")
        equal(fails(s, "INVALID", "config", "check").split(": ", 2)[2], said.split(": ", 2)[2])
    s.run("version")
    s.run("help")
    configure(s, "[defaults]\nttl = soon\nwait = soon\n")
    equal(s.run("config", "check", expect=86).stderr.count(b"\n"), 2, "all mistakes")
    configure(s, "#" * 70000)
    true("larger than 64 KiB" in fails(s, "INVALID", "locks", "ls"), "a bound")
    configure(s, "[defaults]\n" + "".join(f"[profile p{i}]\nns = a\n" for i in range(257)))
    true("more than 256 settings" in fails(s, "INVALID", "config", "check"), "a bound")


def of_machine(s, text, mode, *args):
    """Runs the program where this is the file of the whole machine; None if that is not allowed here."""
    os.makedirs(s.file("etc/holdfast"), exist_ok=True)
    s.write("etc/holdfast/holdfast.conf", text.encode())
    os.chmod(s.file("etc/holdfast/holdfast.conf"), mode)
    shutil.copy("/etc/ld.so.cache", s.file("etc/ld.so.cache"))
    spaces = ["unshare", "-rm", "sh", "-c", 'mount --bind etc /etc && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*spaces, "true"], cwd=s.path, check=False,
                                                     stderr=subprocess.DEVNULL).returncode != 0:
        print("# no other /etc can be mounted here")
        return None
    return subprocess.run([*spaces, PROGRAM, *args], cwd=s.path, env=s.env, capture_output=True, check=False)


@it("each of both files has its own bounds, and the mistakes of both are told")
def _(s):
    full = "".join(f"[profile p{i}]\nns = a\n" for i in range(256))
    configure(s, full)
    done = of_machine(s, full, 0o644, "config", "check", "--json")
    if done is None:
        return
    equal(done.returncode, 0, done.stderr)
    equal([json.loads(line)["settings"] for line in done.stdout.splitlines()], [256, 256])
    done = of_machine(s, full + "[defaults]\nns = b\n", 0o644, "config", "check")
    true(b"more than 256 settings" in done.stderr, done.stderr)
    configure(s, "[defaults]\nttl = soon\n")
    done = of_machine(s, full, 0o666, "config", "check")
    equal((done.returncode, done.stderr.count(b"\n")), (code(s, "INVALID"), 2), done.stderr)
    true(b"not a duration" in done.stderr and b"chmod o-w /etc/holdfast/holdfast.conf" in done.stderr, done.stderr)
    equal(len(fails(s, "INVALID", "config", "check").splitlines()), 1)


@it("a file that others may write is refused, and one with a secret that others may read is warned about")
def _(s):
    path = configure(s, STORES, 0o666)
    true("chmod o-w" in fails(s, "INVALID", "config", "check"), "a sentence")
    configure(s, "[store a]\nurl = azure://account/container?endpoint=http://127.0.0.1:1/?sig=x\n")
    said = s.run("config", "check", expect=None)
    true(b"contains a secret" in said.stderr and b"chmod go-r" in said.stderr, said.stderr)
    os.chmod(path, 0o600)
    equal(s.run("config", "check").stdout.decode().splitlines()[0], f"{path}: 1 setting, 1 store, 0 profiles")
    s.env["HOLDFAST_CONFIG"] = s.file("nowhere")
    true("HOLDFAST_CONFIG names" in fails(s, "NOT_FOUND", "locks", "ls"), "a sentence")
    s.env["HOLDFAST_CONFIG"] = s.path
    true("is not a file" in fails(s, "INVALID", "locks", "ls"), "a sentence")
    del s.env["HOLDFAST_CONFIG"]
    s.env["XDG_CONFIG_HOME"] = s.file("elsewhere")
    equal([row["exists"] for row in s.lines("config", "check")][0], False)


if __name__ == "__main__":
    sys.exit(cases.main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""merge_filter_test.py: `holdfast merge` as a filter: stdin and stdout, pipes, process substitution,
and objects given by URL; `compact ingest` takes the same.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import cases
from cli_test import LOCAL, PROGRAM, code, equal, fails, it, true, until
from merge_cases import zstd
from merge_test import names

cases.cases.clear()

USV = ["--format", "usv", "--key", "1"]
SORTED = b"".join(b"%06d\x1fsome text that makes the row longer\n" % i for i in range(60000))


def shuffled(data, seed=1):
    rows = data.splitlines(keepends=True)
    random.Random(seed).shuffle(rows)
    return b"".join(rows)


def shell(s, script, expect=0, stdin=b""):
    """Runs a bash script, in which `merge` merges usv files by their first field."""
    script = f'merge() {{ "{PROGRAM}" merge --format usv --key 1 "$@"; }}; {script}'
    done = subprocess.run(["bash", "-c", script], cwd=s.path, env=s.env, input=stdin,
                          capture_output=True, timeout=120, check=False)
    equal(done.returncode, expect, done.stderr.decode(errors="replace"))
    return done


def nothing_left(s, *wanted):
    """Scratch files of a merge without an output folder are in TMPDIR, which is this folder."""
    equal(names(s), sorted(wanted), "no scratch files are left")


# ---- stdin and stdout ---------------------------------------------------------------------------


@it("- is stdin as an input and stdout as the output, and nothing else is written")
def _(s):
    s.write("a", b"a\nc\n")
    equal(s.out("merge", *USV, "-o", "-", "a", "-", stdin=b"b\nd\n"), b"a\nb\nc\nd\n")
    equal(s.out("merge", *USV, "-o", "-", "-", stdin=b""), b"")
    equal(s.out("merge", *USV, "-o", "-", "-", stdin=b"b\na\n"), b"a\nb\n")
    equal(s.out("merge", *USV, "-o", "/dev/stdout", "/dev/stdin", stdin=b"a\n"), b"a\n")
    equal(s.out("merge", *USV, "-o", "-", "-", "a", stdin=gzip.compress(b"b\n")), b"a\nb\nc\n")
    equal(s.out("merge", "--format", "concat", "-o", "-", "-", "a", stdin=b"x\n"), b"x\na\nc\n")
    equal(s.out("merge", "--format", "exec", "--command", "sort -o {output} {inputs}", "-o", "-",
                "-", "a", stdin=b"b\n"), b"a\nb\nc\n")
    nothing_left(s, "a")


@it("large inputs in any order go through pipes to the same bytes as through files")
def _(s):
    s.write("in", shuffled(SORTED))
    s.run("merge", "-q", *USV, "-o", "out", "in", "in")
    for memory in ("8MiB", "64MiB"):
        got = s.out("merge", *USV, "--memory", memory, "-o", "-", "in", "-", stdin=s.read("in"))
        true(got == s.read("out"), f"the same with {memory}")
    packed = s.out("merge", *USV, "--compress", "zstd", "-o", "-", "-", stdin=s.read("in"))
    true(zstd(packed, "-d") == SORTED, "compressed")
    nothing_left(s, "in", "out")


@it("with --json and the records on stdout, the result is on stderr")
def _(s):
    done = subprocess.run([PROGRAM, "merge", *USV, "--json", "-o", "-", "-"], cwd=s.path,
                          env=s.env, input=b"b\na\n", capture_output=True, check=True)
    equal(done.stdout, b"a\nb\n")
    summary = json.loads(done.stderr)
    equal((summary["output"], summary["rows_out"], summary["inputs"]), ("-", 2, 1))


@it("a file on stdin is read from where the shell has stopped")
def _(s):
    s.write("in", b"header\nb\na\n")
    equal(shell(s, "(read line; merge -o - -) < in").stdout, b"a\nb\n")
    equal(shell(s, "merge -o - - < in").stdout, b"a\nb\nheader\n")


@it("rows that cannot be merged are named after stdin, and stdout stays empty")
def _(s):
    done = s.run("merge", "--format", "usv", "--key", "2", "-o", "-", "-", stdin=b"a\n",
                 expect=code(s, "INVALID"))
    equal(done.stdout, b"")
    true(b"stdin: record 1 has no key field" in done.stderr, done.stderr)
    out = s.out("merge", "--format", "usv", "--key", "2", "-o", "-", "--max-rejects", "1",
                "--rejects", "bad", "-", stdin=b"a\nb\x1fc\n")
    equal((out, s.read("bad")), (b"b\x1fc\n", b"a\n"))
    nothing_left(s, "bad")


@it("what makes no sense is refused before anything is read")
def _(s):
    s.write("a", b"a\n")
    for status, args, wanted in (
            ("INVALID", ["-o", "-", "-", "-"], "stdin can be read only once"),
            ("INVALID", ["-o", "out", "-", "/dev/stdin"], "stdin can be read only once"),
            ("INVALID", ["-o", "-", "--max-rejects", "1", "a"], "--rejects FILE"),
            ("INVALID", ["-o", "out", "--rejects", "-", "a"], "--rejects takes the name"),
            ("INVALID", ["-o", "out", "--rejects", "dir:x#y", "a"], "--rejects takes the name"),
            ("INVALID", ["-o", "out", ""], "empty"),
            ("INVALID", ["-o", "out", "s3://bucket/key"], "append '#' and the key"),
            ("INVALID", ["-o", "dir:x", "a"], "append '#' and the key"),
            ("INVALID", ["-o", "dir:x#", "a"], "1 to 1024 bytes"),
            ("NOT_FOUND", ["-o", "out", "dir:missing#k"], "there is no store at"),
            ("INVALID", ["-o", "dir:objects#.holdfast/x", "a"], "internal object of Holdfast")):
        text = fails(s, status, "merge", *USV, *args)
        true(wanted in text, f"{args}: {text}")
    true("out" not in names(s), names(s))


# ---- Closed readers, signals --------------------------------------------------------------------


@it("a reader that has seen enough ends the merge quietly, as other filters")
def _(s):
    s.write("in", SORTED)
    done = shell(s, "merge -o - in | head -n 1; echo ${PIPESTATUS[0]} >&2")
    equal((done.stdout, done.stderr), (SORTED[:SORTED.index(b"\n") + 1], b"141\n"))
    nothing_left(s, "in")


@it("Ctrl-C ends a merge that waits for stdin, for a named pipe, or for the reader of its output")
def _(s):
    os.mkfifo(s.file("pipe"))
    s.write("in", SORTED)
    for args, ready in ((["-o", "-", "-"], 0.3), (["-o", "out", "pipe"], 0.3),
                        (["-o", "-", "in"], 1.0)):
        process = s.start("merge", *USV, *args, stdin=subprocess.PIPE)
        time.sleep(ready)
        equal(process.poll(), None, args)
        process.send_signal(signal.SIGINT)
        equal(process.wait(timeout=30), -signal.SIGINT, args)
        equal(process.stderr.read(), b"", args)
        nothing_left(s, "in", "pipe")
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


# ---- Pipes --------------------------------------------------------------------------------------


@it("process substitution works on both sides")
def _(s):
    s.write("a", b"a\nd\n")
    equal(shell(s, r"merge -o - <(printf 'b\n') a <(printf 'c\n')").stdout, b"a\nb\nc\nd\n")
    shell(s, r"merge -q -o >(cat > got; : > done) <(printf 'b\na\n') && while ! [ -e done ]; do :; done")
    equal(s.read("got"), b"a\nb\n")
    equal(shell(s, r"merge -o - <(printf 'b\n' | gzip) <(printf 'a\n' | zstd -q)").stdout, b"a\nb\n")


@it("one program may write to several named pipes in any order")
def _(s):
    middle = SORTED.index(b"\n", len(SORTED) // 2 - 1000) + 1
    parts = [SORTED[:middle], SORTED[middle:]]
    true(len(parts[0]) <= len(parts[1]), "the second is the longer one")
    for name in ("p", "q"):
        os.mkfifo(s.file(name))

    def write():
        with open(s.file("p"), "wb") as p, open(s.file("q"), "wb") as q:
            for at in range(0, len(parts[1]), 100000):  # more than a pipe holds
                for pipe, part in ((q, parts[1]), (p, parts[0])):
                    pipe.write(part[at:at + 100000])
                    pipe.flush()

    writer = threading.Thread(target=write)
    writer.start()
    s.run("merge", "-q", *USV, "-o", "out", "q", "p")
    writer.join()
    true(s.read("out") == SORTED, "all of both")
    nothing_left(s, "out", "p", "q")


@it("a named pipe is an output, which gets nothing unless the merge succeeds")
def _(s):
    os.mkfifo(s.file("pipe"))
    s.write("in", b"b\na\n")
    for args, wanted, status in ((["in"], b"a\nb\n", 0), (["in", "gone"], b"", "NOT_FOUND")):
        process = s.start("merge", "-q", *USV, "-o", "pipe", *args)
        with open(s.file("pipe"), "rb") as pipe:
            equal(pipe.read(), wanted)
        process.communicate(timeout=60)
        equal(process.returncode, code(s, status) if status else 0)
    nothing_left(s, "in", "pipe")


# ---- Objects ------------------------------------------------------------------------------------


def store_of(s, name):
    url = s.env["HOLDFAST_STORE"] = name
    return url


@it("objects are inputs and the output, in stores of each kind")
def _(s):
    s.write("a", b"a\nd\n")
    for url in ("dir:objects", "sqlite:objects.db", "dir:" + s.file("a b%23c")):
        store_of(s, url)
        s.put("in/b", b"b\n")
        s.put("in/c.gz", gzip.compress(b"c\n"))
        summary = json.loads(s.out("merge", "--json", *USV, "-o", f"{url}#out/x", "a",
                                   f"{url}#in/b", f"{url}#in/c.gz"))
        equal(s.get("out/x"), b"a\nb\nc\nd\n")
        equal(summary["output"], f"{url}#out/x")
        equal(summary["etag"], s.lines("store", "ls", "out/")[0]["etag"])
        s.run("merge", "-q", *USV, "-o", f"{url}#out/x", f"{url}#out/x", "-", stdin=b"e\n")
        equal(s.get("out/x"), b"a\nb\nc\nd\ne\n")
        s.run("merge", "-q", *USV, "-o", f"{url}#out/y.zst", f"{url}#out/x")
        equal(zstd(s.get("out/y.zst"), "-d"), b"a\nb\nc\nd\ne\n")
        text = s.out("merge", *USV, "-o", f"{url}#out/x", "a").decode()
        true(text.startswith(f"merged 1 file into {url}#out/x "), text)


@it("an object between two stores, and one whose key is strange")
def _(s):
    store_of(s, "dir:one")
    s.put("a#b?c%20 d", b"b\na\n")
    s.run("merge", "-q", *USV, "-o", "sqlite:two.db#x", "dir:one#a#b?c%20 d")
    store_of(s, "sqlite:two.db")
    equal(s.get("x"), b"a\nb\n")


@it("an output object that somebody else writes meanwhile is not replaced")
def _(s):
    url = store_of(s, "dir:objects")
    for before, change in ((b"old", "put"), (None, "put"), (b"old", "rm")):
        s.run("store", "rm", "-q", "k")
        if before:
            s.put("k", before)
        process = s.start("merge", *USV, "-o", f"{url}#k", "-", stdin=subprocess.PIPE)
        time.sleep(0.5)
        if change == "put":
            s.put("k", b"theirs")
        else:
            s.run("store", "rm", "-q", "k")
        _, said = process.communicate(b"a\n", timeout=60)
        equal(process.returncode, code(s, "CONFLICT"), said)
        true(b"dir:objects#k: another client has written or removed" in said, said)
        equal(s.out("store", "ls"), b"k\n" if change == "put" else b"")
        if change == "put":
            equal(s.get("k"), b"theirs")


@it("a failed merge writes no object, and names the input by its URL")
def _(s):
    url = store_of(s, "dir:objects")
    s.put("good", b"a\n")
    s.put("bad.gz", b"this is not compressed")
    s.put("k", b"old")
    for key, status, wanted in (("bad.gz", "CORRUPT", "dir:objects#bad.gz: its name says gzip"),
                                ("none", "NOT_FOUND", "dir:objects#none: ")):
        text = fails(s, status, "merge", *USV, "-o", f"{url}#k", f"{url}#good", f"{url}#{key}")
        true(wanted in text, text)
    done = s.run("merge", "--format", "usv", "--key", "2", "-o", f"{url}#k", f"{url}#good",
                 expect=code(s, "INVALID"))
    true(b"dir:objects#good: record 1 has no key field" in done.stderr, done.stderr)
    equal(s.get("k"), b"old")
    equal(s.out("store", "ls"), b"bad.gz\ngood\nk\n")


@it("more objects than descriptors are refused with a sentence, and fewer are merged")
def _(s):
    url = store_of(s, "dir:objects")
    urls = [f"'{url}#{number:02}'" for number in range(40)]
    os.makedirs(s.file("plain"))
    for number in range(40):
        s.write(f"plain/{number:02}", b"%02d\n" % number)
    s.run("store", "cp", "-r", "-q", "--from", "dir:plain", "--to", url, "", "")
    done = shell(s, "ulimit -n 30; merge -o - " + " ".join(urls), expect=code(s, "UNAVAILABLE"))
    true(b"Too many open files" in done.stderr and done.stdout == b"", done)
    got = shell(s, "ulimit -n 70; merge -o - " + " ".join(urls)).stdout
    equal(got, b"".join(b"%02d\n" % number for number in range(40)))


# ---- compact ingest -----------------------------------------------------------------------------


def row(key, value="x"):
    return f"{key}\x1f{value}\x1f1770000000\n".encode()


@it("ingest takes stdin, pipes and objects, and tells of them by their names", LOCAL)
def _(s):
    s.run("compact", "create", "-q", "--format", "usv", "--key", "1", "--time", "3")
    s.put("drop/a", row("object"))
    s.write("file", row("file"))
    os.mkfifo(s.file("pipe"))
    writer = threading.Thread(target=lambda: open(s.file("pipe"), "wb").write(row("pipe")))
    writer.start()
    told = s.lines("compact", "ingest", "-", "file", f"{s.url}#drop/a", "pipe",
                   stdin=row("stdin"))
    writer.join()
    equal([one["path"] for one in told], ["stdin", "file", f"{s.url}#drop/a", "pipe"])
    true(all(one["key"] for one in told), told)
    again = s.lines("compact", "ingest", f"{s.url}#drop/a", "-", stdin=row("stdin"))
    equal([one["already_there"] for one in again], [True, True])
    rows = b"".join(s.get(chunk["key"]) for chunk in s.lines("compact", "ls"))
    equal(sorted(rows.splitlines()), sorted(row(key).strip()
                                            for key in ("file", "object", "pipe", "stdin")))


@it("an object that cannot be ingested is reported by its URL, and the others are added", LOCAL)
def _(s):
    s.run("compact", "create", "-q", "--format", "usv", "--key", "1", "--time", "3")
    s.put("good", row("a"))
    s.put("bad", b"no time\n")
    s.put("empty", b"")
    for key, status, wanted in (("bad", "INVALID", "none of the 1 rows can be read"),
                                ("empty", "INVALID", "it is empty"),
                                ("none", "NOT_FOUND", "")):
        done = s.run("compact", "ingest", f"{s.url}#{key}", f"{s.url}#good", "-q",
                     expect=code(s, status))
        text = done.stderr.decode()
        true(f"{s.url}#{key}" in text and wanted in text and "/proc/" not in text, text)
        equal(text.count("\n"), 1, text)
    equal(len(s.lines("compact", "ls")), 1)
    for args, wanted in ((["-", "-"], "stdin can be read only once"),
                         ([s.url, "x"], "append '#' and the key")):
        text = fails(s, "INVALID", "compact", "ingest", *args, stdin=row("b"))
        true(wanted in text, text)
    equal(len(s.lines("compact", "ls")), 1)


@it("more objects than temporary files are ingested in several batches")
def _(s):
    url = store_of(s, "dir:objects?sync=off")
    s.run("compact", "create", "-q", "--format", "usv", "--key", "1", "--time", "3")
    os.makedirs(s.file("plain"))
    for number in range(150):
        s.write(f"plain/{number:03}", row(f"{number:03}"))
    s.run("store", "cp", "-r", "-q", "--from", "dir:plain", "--to", url, "", "drop/")
    told = s.lines("compact", "ingest", *[f"{url}#drop/{number:03}" for number in range(150)])
    equal(len({one["key"] for one in told}), 150)
    text = s.out("compact", "ingest", *[f"{url}#drop/{number:03}" for number in range(150)])
    true(b"150" in text, text)


if __name__ == "__main__":
    sys.exit(cases.main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""merge_trouble_test.py: `holdfast merge` and the files around it: what it makes, what it leaves
when it fails or is stopped, and the formats that know no rows.

    merge_trouble_test.py [leaks]

`leaks` is for a build with AddressSanitizer, and looks for leaks of the program alone.
Prints TAP. Scratch folders are those of cli_test.py; how a merge is run, of merge_test.py.
"""

import gzip
import json
import os
import random
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import time

import cases
from cli_test import MIB, PROGRAM, code, equal, it, true
from merge_cases import zstd
from merge_test import SUMMARY, lines, merge, names, refused, refused_rows, u, unpack

cases.cases.clear()


# ---- The files around it ------------------------------------------------------------------------


@it("outputs are compressed as asked, or as their name ends, and the same each time")
def _(s):
    s.write("a", lines(u("b"), u("c")))
    s.write("b", gzip.compress(lines(u("a"))) + gzip.compress(lines(u("d"))))
    s.write("c", zstd(b"e\n") + zstd(b"f"))
    args = ["--format", "usv", "--key", "1"]
    for out, more, magic in (("o", [], b"a"), ("o.gz", [], b"\x1f\x8b"),
                             ("o.zst", [], b"\x28\xb5\x2f\xfd"),
                             ("p", ["--compress", "gzip"], b"\x1f\x8b"),
                             ("q", ["--compress", "zstd"], b"\x28\xb5\x2f\xfd"),
                             ("p.gz", ["--compress", "none"], b"a")):
        merge(s, args + more, ["a", "b", "c"], out)
        first = s.read(out)
        true(first.startswith(magic), f"{out}: {first[:4]}")
        equal(unpack(first), b"a\nb\nc\nd\ne\nf\n", out)
        merge(s, args + more, ["c", "b", "a"], out)
        true(s.read(out) == first, f"{out} in another order")


@it("output and reject file are made as files usually are, and replaced")
def _(s):
    s.write("in", b"a\n\x1fx\nb\n")
    for _ in range(2):
        summary = merge(s, ["--format", "usv", "--time", "1", "--rejects", "bad", "--max-rejects",
                            "3"], ["in"])
        equal((s.read("out"), s.read("bad")), (b"", b"a\n\x1fx\nb\n"))
        equal(summary["rejects"], "bad")
        mask = os.umask(0)
        os.umask(mask)
        for name in ("out", "bad"):
            equal(stat.S_IMODE(os.stat(s.file(name)).st_mode), 0o666 & ~mask, name)
            s.write(name, b"something old that is longer than what takes its place")
    equal(names(s), ["bad", "in", "out"])


@it("the summary is a sentence, an object, or nothing")
def _(s):
    s.write("in", b"a\nb\n")
    args = ["merge", "--format", "usv", "--key", "1", "-o", "out", "in"]
    text = s.out(*args).decode()
    true(text.count("\n") == 1 and "2" in text, text)
    equal(s.out(*args, "--quiet"), b"")
    summary = json.loads(s.out(*args, "--json"))
    equal(summary["format"], "usv")
    true(summary["took_ms"] >= 0, summary)


@it("folders below and paths above are fine, and names with blanks and dashes")
def _(s):
    os.makedirs(s.file("sub/folder"))
    s.write("-x y", b"b\n")
    s.write("sub/in", b"a\n")
    s.run("merge", "--quiet", "--format", "usv", "--key", "1", "-o", "sub/folder/out", "--",
          "-x y", os.path.join(s.path, "sub/in"))
    equal(s.read("sub/folder/out"), b"a\nb\n")
    equal(names(s), ["-x y", "sub"])
    equal(os.listdir(s.file("sub/folder")), ["out"])


@it("one file may be named twice")
def _(s):
    s.write("in", b"a\nb\n")
    merge(s, ["--format", "usv", "--key", "1"], ["in", "in"])
    equal(s.read("out"), b"a\na\nb\nb\n")


# ---- Failures -----------------------------------------------------------------------------------

USV = ["--format", "usv", "--key", "1"]


@it("options that make no sense are refused, with a reason that says which")
def _(s):
    s.write("out", b"old")
    s.write("in", b"k,t\na,1\n")
    for args, wanted in (
        (["-o", "out", "in"], "--format"),
        (["--format", "xml", "--key", "1", "-o", "out", "in"], "xml"),
        ([*USV, "in"], "-o"),
        ([*USV, "-o", "out"], ""),
        (["--format", "usv", "-o", "out", "in"], "--key"),
        (["--format", "ndjson", "-o", "out", "in"], "--key"),
        (["--format", "usv", "--key", "0", "-o", "out", "in"], "0"),
        (["--format", "usv", "--key", "name", "-o", "out", "in"], "name"),
        (["--format", "usv", "--key", "", "-o", "out", "in"], ""),
        (["--format", "csv", "--key", "3", "-o", "out", "in"], "3"),
        (["--format", "csv", "--key", "0", "-o", "out", "in"], "0"),
        (["--format", "csv", "--key", "x", "-o", "out", "in"], "x"),
        (["--format", "csv", "--key", "k", "--time", "x", "-o", "out", "in"], "x"),
        (["--format", "csv", "--no-header", "--key", "k", "-o", "out", "in"], "k"),
        ([*USV, "--memory", "1MiB", "-o", "out", "in"], "8MiB"),
        ([*USV, "--memory", "much", "-o", "out", "in"], "much"),
        ([*USV, "--max-record", "0", "-o", "out", "in"], "--max-record"),
        ([*USV, "--threads", "0", "-o", "out", "in"], "--threads"),
        ([*USV, "--threads", "100000", "-o", "out", "in"], "--threads"),
        ([*USV, "--max-rejects", "-1", "-o", "out", "in"], "--max-rejects"),
        ([*USV, "--compress", "lz4", "-o", "out", "in"], "lz4"),
        ([*USV, "--rejects", "out", "-o", "out", "in"], "out"),
        ([*USV, "--rejects", "./out", "-o", "out", "in"], "out"),
        (["--format", "exec", "-o", "out", "in"], "--command"),
        (["--format", "exec", "--command", "cp {inputs} x", "-o", "out", "in"], "{output}"),
        (["--format", "exec", "--command", "cp 'x {output}", "-o", "out", "in"], ""),
    ):
        text = refused(s, "INVALID", *args)
        true(wanted in text, f"{args}: {text!r} names {wanted!r}")


@it("CSV files without the key in their header are refused, with the name of the one without it")
def _(s):
    s.write("out", b"old")
    for name, data in (("a", b"k,t\n"), ("b", b""), ("c", b"j,t\na,1\n")):
        s.write(name, data)
    text = refused(s, "INVALID", "--format", "csv", "--key", "k", "-o", "out", "a", "b", "c")
    true("c" in text.split(": ", 2)[2], text)
    for more in (["c", "a"], ["a", "a", "c"], ["c", "c", "a"], ["--threads", "3", "c", "a", "a"]):
        refused(s, "INVALID", "--format", "csv", "--key", "1", "-o", "out", *more)


@it("rejected rows fail the merge unless so many are allowed; their file is kept and named")
def _(s):
    s.write("in", lines(u("a", "x"), u("b", "1"), u("c", "y"), u("d", "z")))
    s.write("out", b"old")
    args = ["--format", "usv", "--key", "1", "--time", "2"]
    for more in ([], ["--max-rejects", "0"], ["--max-rejects", "1"], ["--max-rejects", "2"]):
        text = refused_rows(s, 3, *args, *more, "in")
        true("RFC 3339" in text and "--max-rejects" in text, text)
        equal(s.read("out.rejects"), lines(u("a", "x"), u("c", "y"), u("d", "z")))
        os.unlink(s.file("out.rejects"))
    for most in ("3", "any"):
        s.run("merge", "-q", *args, "--max-rejects", most, "-o", "out", "in")
        equal((s.read("out"), s.read("out.rejects").count(b"\n")), (lines(u("b", "1")), 3))
    told = s.run("merge", "--json", *args, "-o", "out", "--rejects", "bad", "in",
                 expect=code(s, "INVALID"))
    said = json.loads(told.stderr)
    equal((said["rejects"], len(said["reasons"])), ("bad", 3))


@it("a reject file of an earlier merge is not removed by one that rejects nothing")
def _(s):
    s.write("bad", lines(u("a", "x"), u("b", "1")))
    s.write("good", lines(u("b", "1")))
    args = ["--format", "usv", "--key", "1", "--time", "2", "--max-rejects", "any", "-o", "out"]
    s.run("merge", "-q", *args, "bad")
    equal(s.read("out.rejects"), lines(u("a", "x")))
    s.run("merge", "-q", *args, "good")
    equal((s.read("out"), s.read("out.rejects")), (lines(u("b", "1")), lines(u("a", "x"))))


@it("a merge that rejects far too much stops, and keeps the first of it")
def _(s):
    s.write("in", b"x\n" * 300000)
    args = ["--format", "usv", "--key", "2", "-o", "out", "in"]
    done = s.run("merge", *args, "--max-rejects", "5", expect=code(s, "INVALID"))
    true(b"at least 1006 rows" in done.stderr, done.stderr)
    equal((names(s), s.read("out.rejects")), (["in", "out.rejects"], b"x\n" * 1006))
    s.run("merge", "-q", *args, "--max-rejects", "300000")
    equal((s.read("out"), s.read("out.rejects").count(b"\n")), (b"", 300000))


@it("times without a zone are one error that names --zone, whatever may be rejected")
def _(s):
    rows = [b"%03d,2026-01-01 00:00:00" % i for i in range(900)]
    s.write("in.csv", b"k,t\n" + lines(*rows))
    s.write("out", b"old")
    args = ["--format", "csv", "--key", "k", "--time", "t"]
    for more in ([], ["--max-rejects", "any"], ["--threads", "3"]):
        text = refused(s, "INVALID", *args, *more, "-o", "out", "in.csv")
        true("--zone" in text and "in.csv: record 1 " in text, text)
    for zone in ("utc", "+2:00", "+25:00", "Europe/Vienna", ""):
        true("--zone" in refused(s, "INVALID", *args, "--zone", zone, "-o", "out", "in.csv"), zone)
    refused(s, "INVALID", "--format", "csv", "--key", "k", "--zone", "UTC", "-o", "out", "in.csv")
    summary = merge(s, [*args, "--zone", "UTC"], ["in.csv"])
    equal((summary["rows_out"], s.read("out")), (900, s.read("in.csv")))


@it("damaged gzip and zstd are CORRUPT, whatever the damage")
def _(s):
    s.write("out", b"old")
    s.write("good", b"a\nb\n")
    rng = random.Random(1)
    data = lines(*[b"%032x" % rng.getrandbits(128) for _ in range(20000)])
    for pack in (gzip.compress, lambda data: zstd(data, "--check")):
        sound = pack(data)
        for damaged in (sound[:-1], sound[:len(sound) // 2], sound[:12],
                        sound + b"junk", sound[:-2] + bytes([sound[-2] ^ 1]) + sound[-1:],
                        sound[:5000] + bytes([sound[5000] ^ 4]) + sound[5001:],
                        sound + sound[:-3]):
            s.write("in", damaged)
            for more in (["good", "in"], ["--threads", "3", "in", "good"]):
                text = refused(s, "CORRUPT", *USV, "-o", "out", *more)
                true("in" in text.split(": ", 2)[2], text)


@it("a missing input is NOT_FOUND; a folder or a socket is none")
def _(s):
    s.write("out", b"old")
    s.write("good", b"a\n")
    true("gone" in refused(s, "NOT_FOUND", *USV, "-o", "out", "good", "gone"), "it is named")
    refused(s, "NOT_FOUND", "--format", "concat", "-o", "out", "good", "gone")
    refused(s, "NOT_FOUND", "--format", "exec", "--command", "cp {inputs} {output}", "-o", "out",
            "gone")
    os.mkdir(s.file("folder"))
    true("folder" in refused(s, "INVALID", *USV, "-o", "out", "good", "folder"), "it is named")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(s.file("sock"))
        done = s.run("merge", *USV, "-o", "out", "sock", expect=code(s, "UNAVAILABLE"))
        true(b"cannot open 'sock'" in done.stderr, done.stderr)
    equal((names(s), s.read("out")), (["folder", "good", "out", "sock"], b"old"))


@it("an output that cannot be is refused, and nothing is written")
def _(s):
    s.write("in", b"b\na\n")
    os.mkdir(s.file("folder"))
    os.mkdir(s.file("fine.rejects"))
    refused(s, "INVALID", "--format", "usv", "--time", "1", "-o", "fine", "in")
    refused(s, "INVALID", "--format", "usv", "--time", "1", "-o", "folder", "in")
    refused(s, "NOT_FOUND", "--format", "usv", "--time", "1", "-o", "fine", "--rejects",
            "gone/rejects", "in")
    true("gone/out" in refused(s, "NOT_FOUND", *USV, "-o", "gone/out", "in"), "it is named")
    refused(s, "INVALID", *USV, "-o", "folder", "in")
    refused(s, "INVALID", *USV, "-o", "", "in")
    for out in ("in/out", "folder/"):
        done = subprocess.run([PROGRAM, "merge", *USV, "-o", out, "in"], cwd=s.path, env=s.env,
                              capture_output=True, check=False)
        true(done.returncode in (code(s, "INVALID"), code(s, "NOT_FOUND"),
                                 code(s, "UNAVAILABLE")), f"{out}: {done}")
    equal((names(s), os.listdir(s.file("folder"))), (["fine.rejects", "folder", "in"], []))


@it("an output that is one of the inputs is replaced by the merge of both")
def _(s):
    s.write("a", b"b\na\n")
    s.write("b", b"c\n")
    merge(s, USV, ["a", "b"], "b")
    equal((s.read("a"), s.read("b"), names(s)), (b"b\na\n", b"a\nb\nc\n", ["a", "b"]))


# Exit status, then what is in the small disk, in a mount namespace of its own.
FULL_DISK = """
mount -t tmpfs -o size=1m none small || exit 99
printf old > small/out && "$@" 2> said
status=$?
ls -A small > left && cat small/out > kept
exit $status
"""


@it("a full disk is UNAVAILABLE and leaves nothing behind, wherever it fills")
def _(s):
    rng = random.Random(2)
    s.write("sorted", lines(*sorted(b"%032x" % rng.getrandbits(128) for _ in range(100000))))
    s.write("shuffled", lines(*[b"%0512x" % rng.getrandbits(2048) for _ in range(24000)]))
    s.write("few", b"a\n")
    os.mkdir(s.file("small"))
    spaces = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-r", "--mount"]
    for args in ([*USV, "-o", "small/out", "sorted"],
                 [*USV, "-o", "small/out", "--memory", "8MiB", "--max-record", "1MiB", "shuffled"],
                 [*USV, "-o", "small/out", "--threads", "3", "sorted", "shuffled"],
                 ["--format", "usv", "--key", "2", "--max-rejects", "any", "-o", "out",
                  "--rejects", "small/rejects", "sorted"],
                 ["--format", "concat", "-o", "small/out", "sorted"],
                 ["--format", "exec", "--command", "cp {inputs} {output}", "-o", "small/out",
                  "sorted"]):
        done = subprocess.run([*spaces, "sh", "-c", FULL_DISK, "sh", PROGRAM, "merge", *args],
                              cwd=s.path, env=s.env, capture_output=True, check=False)
        if done.returncode == 99 or b"unshare" in done.stderr:
            print("# skipped: needs root, or namespaces for users")
            return
        said = s.read("said").decode()
        equal(done.returncode, code(s, "UNAVAILABLE"), f"{args}: {said}")
        true("UNAVAILABLE: " in said, said)
        equal((s.read("left"), s.read("kept")), (b"out\n", b"old"), f"{args}: what is left")
        equal(names(s), ["few", "kept", "left", "said", "shuffled", "small", "sorted"], args)


@it("an input without an end stops before the disk is full, and leaves nothing behind")
def _(s):
    os.mkdir(s.file("small"))
    s.write("few", b"a\n")
    full = FULL_DISK.replace("size=1m", "size=16m")
    spaces = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-r", "--mount"]
    merging, elsewhere = ["merge", *USV, "-o"], {"TMPDIR": s.file("small")}
    for args, environment in (
            ([*merging, "small/out", "few", "/dev/zero"], {}),
            ([*merging, "-", "/dev/zero"], elsewhere),
            ([*merging, "small/out", "-"], {}),
            ([*merging, "dir:store#k", "-"], elsewhere),
            (["store", "put", "-q", "--store", "dir:store", "k", "-"], elsewhere)):
        with open("/dev/zero", "rb") as endless:
            done = subprocess.run([*spaces, "sh", "-c", full, "sh", PROGRAM, *args],
                                  cwd=s.path, env={**s.env, **environment}, stdin=endless,
                                  capture_output=True, check=False)
        if done.returncode == 99 or b"unshare" in done.stderr:
            print("# skipped: needs root, or namespaces for users")
            return
        said = s.read("said").decode()
        equal(done.returncode, code(s, "UNAVAILABLE"), f"{args}: {said}")
        true("nearly full: " in said and "of 16.0 MiB are free" in said and "whether the input ends" in said,
             said)
        equal((s.read("left"), s.read("kept"), done.stdout), (b"out\n", b"old", b""), args)


@it("a limit of file sizes is like a full disk: an error, and nothing is left behind")
def _(s):
    rng = random.Random(2)
    s.write("sorted", lines(*sorted(b"%032x" % rng.getrandbits(128) for _ in range(60000))))
    s.write("shuffled", lines(*[b"%032x" % rng.getrandbits(128) for _ in range(90000)]))
    before = names(s)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))  # ThreadSanitizer needs some
    for args in ([*USV, "-o", "out", "sorted"], [*USV, "-o", "out", "shuffled"],
                 [*USV, "-o", "-", "sorted"], [*USV, "-o", "out", "-"],
                 ["--format", "concat", "-o", "out.zst", "shuffled"]):
        with open(s.file("sorted"), "rb") as data:
            done = subprocess.run([PROGRAM, "merge", *args], cwd=s.path, env=s.env,
                                  preexec_fn=limit, input=data.read(), capture_output=True,
                                  check=False)
        equal(done.returncode, code(s, "UNAVAILABLE"), f"{args}: {done}")
        true(b"File too large" in done.stderr, done.stderr)
        equal((names(s), done.stdout), (before, b""), args)


# ---- Interrupted --------------------------------------------------------------------------------


def wait_until_busy(process, ticks):
    """Until the process has worked so many hundredths of a second, or ended."""
    end = time.monotonic() + 60
    while process.poll() is None:
        true(time.monotonic() < end, "it never began")
        with open(f"/proc/{process.pid}/stat", encoding="ascii", errors="replace") as state:
            fields = state.read().rpartition(")")[2].split()
        if int(fields[11]) + int(fields[12]) >= ticks:
            return


def write_slow(s):
    """Inputs that take a second to merge: much of it to compress."""
    rng = random.Random(3)
    row = [b"%064x" % rng.getrandbits(256) for _ in range(500000)]
    s.write("sorted", lines(*sorted(row[:250000])))
    s.write("shuffled", lines(*row[250000:]))
    s.write("out.gz", b"old")


@it("an interrupt leaves nothing behind, and the program dies of it")
def _(s):
    write_slow(s)
    before = names(s)
    for number, ticks in ((signal.SIGINT, 5), (signal.SIGINT, 30), (signal.SIGTERM, 15)):
        process = s.start("merge", *USV, "--threads", "2", "--memory", "8MiB", "--max-record",
                          "1MiB", "-o", "out.gz", "sorted", "shuffled")
        wait_until_busy(process, ticks)
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
        equal(process.returncode, -number, said)
        equal((names(s), s.read("out.gz")), (before, b"old"))


@it("a kill leaves at most one file under another name, and the next run is not disturbed")
def _(s):
    write_slow(s)
    before = names(s)
    for ticks in (3, 20, 50):
        process = s.start("merge", *USV, "-o", "out.gz", "sorted", "shuffled")
        wait_until_busy(process, ticks)
        process.kill()
        process.communicate()
        equal(process.returncode, -signal.SIGKILL)
        left = set(names(s)) - set(before)
        true(len(left) <= 1, f"left behind: {left}")
        equal(s.read("out.gz"), b"old")
        for name in left:
            os.unlink(s.file(name))
    s.write("few", b"b\na\n")
    merge(s, USV, ["few"], "out.gz")
    equal(unpack(s.read("out.gz")), b"a\nb\n")


# ---- concat and exec ----------------------------------------------------------------------------


@it("concat gives the bytes of the inputs, decompressed, in the order given")
def _(s):
    for name, data in (("a", b"one"), ("b", b""), ("c", gzip.compress(b"\0two\n")),
                       ("d", zstd(b"three"))):
        s.write(name, data)
    summary = merge(s, ["--format", "concat"], ["a", "b", "c", "d", "a"])
    equal(s.read("out"), b"one\0two\nthreeone")
    equal(sorted(summary), SUMMARY)
    for name in ("rows_in", "rows_out", "rows_superseded", "rows_rejected", "rejects"):
        equal(summary[name], None, name)
    merge(s, ["--format", "concat"], ["d", "c"], "out.zst")
    equal(unpack(s.read("out.zst")), b"three\0two\n")
    merge(s, ["--format", "concat"], ["b"])
    equal(s.read("out"), b"")
    s.write("c", gzip.compress(b"two")[:-1])
    refused(s, "CORRUPT", "--format", "concat", "-o", "out", "a", "c")


def exec_args(command, *more):
    return ["--format", "exec", "--command", command, *more, "-o", "out"]


@it("exec runs a command without a shell, and its output becomes ours")
def _(s):
    s.write("in put", b"b\n")
    s.write("other", b"a\nc\n")
    summary = json.loads(s.out("merge", "--json", *exec_args("sort -m -o {output} {inputs}"),
                               "in put", "other"))
    equal(s.read("out"), b"a\nb\nc\n")
    equal((summary["rows_in"], summary["inputs"], summary["output_bytes"]), (None, 2, 6))
    command = "sh -c 'cat \"$@\" > \"$0\"; echo $HOME; cat' {output} {inputs}"
    s.run("merge", "-q", *exec_args(command), "other", "in put")
    equal(s.read("out"), b"a\nc\nb\n")
    s.run("merge", "-q", *exec_args(r"dd if=other of={output} 'status=none' $(touch\ no)"),
          "other", expect=code(s, "UNAVAILABLE"))
    s.run("merge", "-q", *exec_args("dd if=other of={output} status=none"), "other")
    equal(s.read("out"), b"a\nc\n")
    equal(names(s), ["in put", "other", "out"])


@it("a command that fails or ends without an output is UNAVAILABLE, one that is none INVALID")
def _(s):
    s.write("in", b"a\n")
    s.write("out", b"old")
    text = refused(s, "UNAVAILABLE",
                   *exec_args("sh -c 'echo half > $0; echo why not >&2; exit 7' {output}"), "in")
    true("7" in text and "why not" in text, text)
    for command in ("true {output}", "sh -c 'echo half > $0; kill -9 $$' {output}"):
        refused(s, "UNAVAILABLE", *exec_args(command), "in")
    for command in ("no-such-command-anywhere {output}", "./in {output}"):
        refused(s, "INVALID", *exec_args(command), "in")


# What a command does that should not outlive its merge.
LINGER = "sh -c 'sleep 1000 & echo $! > pid.tmp; mv pid.tmp pid; echo half > $0; wait' {output}"


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as state:
            return state.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@it("a command that runs too long is killed with all that it started")
def _(s):
    s.write("in", b"a\n")
    s.write("out", b"old")
    for limit in (0.5, 2, 8):  # a busy machine may need longer to start the command at all
        begun = time.monotonic()
        s.run("merge", *exec_args(LINGER, "--time-limit", f"{1000 * limit:.0f}ms"), "in",
              expect=code(s, "TIMEOUT"))
        true(limit <= time.monotonic() - begun < limit + 20, "it ended in time")
        if os.path.exists(s.file("pid")):
            break
    true(not is_running(int(s.read("pid"))), "a grandchild lives on")
    equal((names(s), s.read("out")), (["in", "out", "pid"], b"old"))


@it("an interrupt ends the command and leaves nothing behind")
def _(s):
    s.write("in", b"a\n")
    process = s.start("merge", *exec_args(LINGER), "in")
    end = time.monotonic() + 30
    while not os.path.exists(s.file("pid")):
        true(time.monotonic() < end and process.poll() is None, "the command never began")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    equal(process.returncode, -signal.SIGINT, said)
    true(not is_running(int(s.read("pid"))), "a grandchild lives on")
    equal(names(s), ["in", "pid"])


@it("a command writes its output in a folder that nobody else can put anything into")
def _(s):
    s.write("in", b"a\n")
    os.chmod(s.path, 0o1777)
    command = ("sh -c 'dirname \"$0\" > where; stat -c %a \"$(dirname \"$0\")\" > mode; "
               "touch \"$0.more\"; cp \"$1\" \"$0\"' {output} {inputs}")
    s.run("merge", "-q", *exec_args(command), "in")
    equal((s.read("mode"), s.read("out")), (b"700\n", b"a\n"))
    true(re.search(rb"/?out\.part-[0-9a-f]{16}\n$", s.read("where")), s.read("where"))
    equal(names(s), ["in", "mode", "out", "where"])


@it("limits of memory, processor time and file size hold for a command")
def _(s):
    s.write("in", b"a\n")
    fill = "dd if=/dev/zero of={output} bs=1M count=200 status=none"
    refused(s, "UNAVAILABLE", *exec_args(fill, "--limit-file", "1MiB"), "in")
    hog = "dd if=/dev/zero of={output} bs=300M count=1 status=none"
    refused(s, "UNAVAILABLE", *exec_args(hog, "--limit-memory", "128MiB"), "in")
    spin = "sh -c 'while :; do :; done' {output}"
    refused(s, "UNAVAILABLE", *exec_args(spin, "--limit-cpu", "1s"), "in")
    few = "dd if=/dev/zero of={output} bs=1M count=1 status=none"
    s.run("merge", "-q", *exec_args(few, "--limit-file", "2MiB", "--limit-memory", "128MiB",
                                    "--limit-cpu", "10s"), "in")
    equal(os.path.getsize(s.file("out")), MIB)


@it("zlib, zstd and the network's libraries are loaded only where they are needed")
def _(s):
    s.write("plain", lines(u("b")))
    s.write("packed", gzip.compress(lines(u("a"))))
    s.write("tight", zstd(lines(u("a"))))
    for name in ("libz.so.1", "libzstd.so.1", "libexpat.so.1", "libcurl.so.4", "libcrypto.so.3"):
        s.write(name, b"not a library")
    args = ["--format", "usv", "--key", "1"]
    s.env["LD_LIBRARY_PATH"] = s.path
    s.run("run", "x", "--", "/bin/true")
    s.run("merge", "-q", *args, "-o", "out", "plain")
    for file, library in (("packed", "libz"), ("tight", "libzstd")):
        text = refused(s, "UNAVAILABLE", *args, "-o", "out", "plain", file)
        true(f"{library} is missing" in text, text)
    text = refused(s, "UNAVAILABLE", *args, "-o", "new.gz", "plain")
    true("libz is missing" in text, text)
    s.env["AWS_ACCESS_KEY_ID"] = s.env["AWS_SECRET_ACCESS_KEY"] = "none"
    text = s.run("--store", "s3://bucket/p?endpoint=http://127.0.0.1:1", "store", "ls",
                 expect=code(s, "UNAVAILABLE")).stderr.decode()
    true("libexpat" in text, text)


def leak_nothing(s):
    """Few commands, since each takes seconds to look for leaks (on arm64). merge_core_test and others
    look for those of the library, which cost nothing there (leaks.c)."""
    s.write("a", lines(u("b", "1"), u("a", "1"), u("c")))
    s.write("b", gzip.compress(lines(u("b", "2"))))
    s.write("c", gzip.compress(lines(u("b", "2")))[:-1])
    s.find_leaks(True)
    args = ["--format", "usv", "--key", "1", "--time", "2", "--threads", "2"]
    s.run("merge", "-q", *args, "-o", "out.zst", "a", "b", "--max-rejects", "any")
    s.run("merge", "-q", *args, "-o", "out", "a", "c", expect=88)
    s.run("merge", "-q", *args, "-o", "out", "a", "b", "--max-rejects", "0", expect=86)
    s.run("merge", "-q", *exec_args("cp {inputs} {output}"), "a")


if sys.argv[1:] == ["leaks"]:
    cases.cases.clear()
    it("no merge leaks memory, whether it succeeds or fails")(leak_nothing)


if __name__ == "__main__":
    sys.exit(cases.main())

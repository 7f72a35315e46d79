#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""merge_regress_test.py: what once went wrong with `holdfast merge`, and must not again.

Prints TAP. Scratch folders are those of cli_test.py; how a merge is run, of merge_test.py and
merge_trouble_test.py.
"""

import ctypes
import gzip
import os
import random
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time

import cases
from cli_test import MIB, code, equal, it, true
from merge_cases import zstd
from merge_test import (MEASURABLE, lines, measure, merge, names, refused, refused_rows, survey, u,
                        write_inputs)
from merge_trouble_test import USV, exec_args, wait_until_busy

cases.cases.clear()

MARK = b"\xef\xbb\xbf"


def counts(summary):
    return tuple(summary[name] for name in ("rows_in", "rows_out", "rows_rejected"))


# ---- Starts of files ----------------------------------------------------------------------------


@it("a byte order mark is no part of the first record, nor of its key, where there is no header")
def _(s):
    for args, marked, other, wanted in (
        (["--format", "ndjson", "--key", "k"], [b'{"k":"b"}', b'{"k":"d"}'], b'{"k":"c"}',
         [b'{"k":"b"}', b'{"k":"c"}', b'{"k":"d"}']),
        (["--format", "csv", "--no-header", "--key", "1"], [b"b,1", b"d,1"], b"c,1",
         [b"b,1", b"c,1", b"d,1"]),
        (["--format", "csv", "--no-header", "--key", "1"], [b'"b",1', b"d,1"], b"c,1",
         [b'"b",1', b"c,1", b"d,1"]),
    ):
        s.write("marked", MARK + lines(*marked))
        s.write("other", lines(other))
        summary = merge(s, args, ["marked", "other"])
        equal(s.read("out"), lines(*wanted), args)
        equal((counts(summary), summary["inputs_unsorted"]), ((3, 3, 0), 0), args)


@it("a byte order mark inside a text stays, also if its record becomes the first of an output")
def _(s):
    args = ["--format", "csv", "--no-header", "--key", "2"]
    s.write("marked", lines(b"x,1") + MARK + lines(b"b,0"))  # as by "cat a.csv b.csv"
    merge(s, args, ["marked"])
    equal(s.read("out"), MARK + MARK + lines(b"b,0", b"x,1"))
    s.write("other", lines(b"c,2"))
    s.write("again", s.read("out"))
    merge(s, args, ["again", "other"])
    equal(s.read("out"), MARK + MARK + lines(b"b,0", b"x,1", b"c,2"))


@it("empty lines before a header do not count, however many, and with any number of inputs")
def _(s):
    s.write("in", b"\n" * 300000 + b"k,t\na,1\nb,2\n")
    for count in (1, 40):
        merge(s, ["--format", "csv", "--key", "k"], ["in"] * count)
        equal(s.read("out"), b"k,t\n" + b"a,1\n" * count + b"b,2\n" * count, f"{count} inputs")


@it("a file that is called compressed and is not is CORRUPT, unless it is empty")
def _(s):
    s.write("out", b"old")
    for name in ("x.gz", "x.zst"):
        for args in (USV, ["--format", "concat"]):
            s.write(name, b"a\nb\n")
            text = refused(s, "CORRUPT", *args, "-o", "out", name)
            true(name in text, text)
            s.write(name, b"")
            s.run("merge", "-q", *args, "-o", "empty", name)
            equal(s.read("empty"), b"", name)


@it("a blank line longer than a record may be counts the same for any inputs and threads")
def _(s):
    s.write("empty", b"")
    for size in (5000, 200000):
        s.write("in", b'{"k":"a"}\n' + b" " * size + b'\n{"k":"b"}\n')
        for others in (0, 59):
            for threads in ("1", "2"):
                summary = merge(s, ["--format", "ndjson", "--key", "k", "--max-record", "1000",
                                    "--max-rejects", "1", "--threads", threads],
                                ["in"] + ["empty"] * others)
                equal(counts(summary), (3, 2, 1), f"{others} more inputs, {threads} threads")
                equal(s.read("out"), b'{"k":"a"}\n{"k":"b"}\n')
                equal(s.read("out.rejects"), b" " * size + b"\n", "what is rejected")


# ---- Quotes -------------------------------------------------------------------------------------


@it("one stray quote in row 11 of 50,000 costs that row, however it is read")
def _(s):
    rows = [b"%05d,1,some text" % i for i in range(50000)]
    stray = rows[10].replace(b",1,", b',1,"')
    text = b"k,t,v\n" + lines(*rows[:10], stray, *rows[11:])
    wanted = b"k,t,v\n" + lines(*rows[:10], *rows[11:])
    s.write("in", text)
    s.write("in.gz", gzip.compress(text))
    s.write("empty", b"")
    args = ["--format", "csv", "--key", "k", "--time", "t"]
    true("record 11 " in refused_rows(s, 1, *args, "in"), "the row is told")
    equal(s.read("out.rejects"), stray + b"\n")
    for inputs in (["in"], ["in.gz"], ["in"] + ["empty"] * 60):
        for more in (["--threads", "1"], ["--threads", "3", "--memory", "8MiB"],
                     ["--max-record", "100"]):
            summary = merge(s, [*args, *more, "--max-rejects", "1"], inputs)
            equal(counts(summary), (50000, 49999, 1), (inputs, more))
            true(s.read("out") == wanted, f"other rows: {inputs}, {more}")
            equal(s.read("out.rejects"), stray + b"\n")


# ---- Outputs ------------------------------------------------------------------------------------


@it("a file behind a name in /dev is no output and no reject file, and stays as it is")
def _(s):
    s.write("in", b"a\n")
    s.write("log", b"what was here before\n")
    before = survey(s)
    for args in ([*USV, "-o", "/dev/fd/1"],
                 ["--format", "usv", "--key", "2", "-o", "out", "--rejects", "/dev/stdout"],
                 ["--format", "usv", "--key", "2", "-o", "out", "--rejects", "/dev/fd/1"],
                 ["--format", "concat", "-o", "/dev/fd/1"],
                 ["--format", "exec", "--command", "cp {inputs} {output}", "-o", "/dev/fd/1"]):
        with open(s.file("log"), "ab") as log:
            done = s.run("merge", *args, "in", expect=code(s, "INVALID"), stdout=log)
        true(args[-1].encode() in done.stderr, done.stderr)
        equal(survey(s), before, args)


@it("/dev/shm is a folder like any other: an output may be there")
def _(s):
    s.write("in", b"b\na\n")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        out = os.path.join(folder, "out")
        for _ in range(2):
            s.run("merge", "-q", *USV, "-o", out, "in")
            with open(out, "rb") as file:
                equal(file.read(), b"a\nb\n")


@it("a name as long as names can be is fine for an output")
def _(s):
    s.write("in", b"b\na\n")
    for args in (USV, ["--format", "exec", "--command", "sort -o {output} {inputs}"]):
        out = "o" * 250
        s.run("merge", "-q", *args, "-o", out, "in")
        equal((s.read(out), names(s)), (b"a\nb\n", ["in", out]), args)
        os.unlink(s.file(out))


PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1


def obey_modes():
    """Modes of files hold for root too, in a process that is about to be; others obey anyway."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def mode(s, name):
    return stat.S_IMODE(os.stat(s.file(name)).st_mode)


@it("an output that exec replaces keeps its mode")
def _(s):
    s.write("in", b"a\n")
    s.write("out", b"old")
    os.chmod(s.file("out"), 0o600)
    s.run("merge", "-q", *exec_args("cp {inputs} {output}"), "in")
    equal((s.read("out"), mode(s, "out")), (b"a\n", 0o600))


@it("a command may make its output read-only")
def _(s):
    s.write("in", b"a\n")
    command = "sh -c 'cp \"$1\" \"$0\"; chmod 0444 \"$0\"' {output} {inputs}"
    s.run("merge", "-q", *exec_args(command), "in", preexec_fn=obey_modes)
    equal((s.read("out"), names(s)), (b"a\n", ["in", "out"]))


@it("a command that makes a folder or nothing at all has failed, and leaves nothing")
def _(s):
    s.write("in", b"a\n")
    s.write("out", b"old")
    for command in ("sh -c 'rm -f \"$0\"; mkdir \"$0\"' {output}",
                    "sh -c 'rm -f \"$0\"; mkfifo \"$0\"' {output}"):
        before = names(s)
        done = s.start("merge", *exec_args(command), "in")
        _, said = done.communicate(timeout=30)
        true(done.returncode in (code(s, "INVALID"), code(s, "UNAVAILABLE")), said)
        equal((names(s), s.read("out")), (before, b"old"), command)
    text = refused(s, "UNAVAILABLE", *exec_args("true {output}"), "in")
    true("no output file" in text, text)


# ---- Interrupted --------------------------------------------------------------------------------


def wait_until(process, happened):
    end = time.monotonic() + 30
    while process.poll() is None and not happened():
        true(time.monotonic() < end, "it never happened")


def is_delivered(process):
    """Whether no signal waits for the process: two that wait are one."""
    with open(f"/proc/{process.pid}/status", encoding="ascii", errors="replace") as state:
        fields = dict(line.split(":", 1) for line in state)
    return int(fields.get("ShdPnd", "0"), 16) == 0


@it("a second interrupt leaves nothing behind either, of the output and the reject file")
def _(s):
    rng = random.Random(6)
    noise = rng.randbytes(8 * MIB).hex().encode()
    s.write("in", b"rejected\n" + lines(*[b"%b\x1f%08d" % (noise[64 * i:64 * i + 64], i)
                                          for i in range(len(noise) // 64)]))
    s.write("out.gz", b"old")
    before = names(s)
    for _ in range(4):
        process = s.start("merge", "--format", "usv", "--key", "2", "-o", "out.gz", "in")
        wait_until(process, lambda: len(names(s)) == len(before) + 2)
        process.send_signal(signal.SIGINT)
        wait_until(process, lambda process=process: is_delivered(process))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        equal(process.returncode, -signal.SIGINT, said)
        equal((names(s), s.read("out.gz")), (before, b"old"))


@it("an interrupt is heard at once while few bytes of zstd become many rows")
def _(s):
    s.write("in", zstd(b"a\x1f1\n" * (4 * MIB)) * 1000)
    process = s.start("merge", *USV, "--time", "2", "-o", "out", "in")
    wait_until_busy(process, 20)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        _, said = process.communicate(timeout=2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    print(f"# {time.monotonic() - begun:.3f} s")
    equal((process.returncode, names(s)), (-signal.SIGINT, ["in"]), said)


# ---- Bounds -------------------------------------------------------------------------------------


def hold_windows(s):
    rows = b"a\x1f1\x1f" + b"x" * 1000 + b"\n"
    s.write("in", zstd(rows) + zstd(rows * 18000, "--long=24", sized=False))
    summary, peak = measure(s, [*USV, "--time", "2", "--memory", "64MiB"], ["in"] * 8)
    equal(counts(summary), (8 * 18001, 1, 0))
    true(peak < 72 * MIB, f"{peak / MIB:.1f} MiB of memory")
    print(f"# {peak / MIB:.1f} MiB")


def hold_keys(s):
    """Escaped keys are held beside their records: they need more, and that is said."""
    args = ["--format", "ndjson", "--key", "k", "--memory"]
    for start, memory in ((b"x", 64), (b"\\n", 192)):
        inputs = write_inputs(s, [lines(b'{"k":"%d%b%b"}' % (i, start, b"x" * 10000000))
                                  for i in range(3)])
        summary, peak = measure(s, [*args, f"{memory}MiB"], inputs)
        equal(counts(summary), (3, 3, 0))
        true(peak < (memory + 8) * MIB, f"{peak / MIB:.1f} MiB of memory")
        print(f"# {peak / MIB:.1f} MiB of {memory}")
    text = refused(s, "UNAVAILABLE", *args, "64MiB", "-o", "out", *inputs)
    true("memory setting" in text, text)


if MEASURABLE:
    it("large windows of later zstd frames count as memory")(hold_windows)
    it("long keys of NDJSON count as memory, escaped or not")(hold_keys)


@it("more inputs than files may be open are merged all the same")
def _(s):
    inputs = write_inputs(s, [b"%03d\n%03d\n" % (i, i + 500) for i in range(150)])
    s.run("merge", "-q", *USV, "-o", "out", *inputs,
          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    equal(s.read("out"), lines(*sorted(b"%03d" % (i + 500 * j) for i in range(150)
                                       for j in range(2))))


@it("concat names the file that is damaged")
def _(s):
    s.write("good", b"a\n")
    s.write("damaged", gzip.compress(b"b\n" * 1000)[:-3])
    s.write("out", b"old")
    text = refused(s, "CORRUPT", "--format", "concat", "-o", "out", "good", "damaged", "good")
    true("damaged: " in text.split(": ", 2)[2] and "good" not in text, text)


if __name__ == "__main__":
    sys.exit(cases.main())

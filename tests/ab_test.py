#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ab_test.py: tools/ab.py tells a difference from noise, and says what is wrong in a sentence. The
statistics on data whose answer is known, whole runs on commands of a shell. Prints TAP."""

import contextlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "ab.py")
sys.path.insert(0, os.path.dirname(TOOL))
sys.dont_write_bytecode = True
import ab  # noqa: E402
from cases import equal, true  # noqa: E402

TESTS = []


def it(sentence):
    def add(function):
        TESTS.append((sentence, function))
    return add


# ---- Statistics ---------------------------------------------------------------------------------


def noisy(chance, ratio, count=20):
    """Ratios of pairs: a few percent of noise on both sides, and now and then something slow."""
    def one(milliseconds):
        return milliseconds * chance.lognormvariate(0, 0.03) * (3 if chance.random() < 0.05 else 1)
    return [one(ratio * 10) / one(10) for _ in range(count)]


def verdict(ratios, counts_a=None, counts_b=None):
    return ab.verdict_of(ab.estimate_ratio(ratios), counts_a or {}, counts_b or {})


@it("the interval of 20 ratios is from the 6th to the 15th, of 6 it is all of them")
def _():
    equal([ab.interval_rank(count) for count in (0, 5, 6, 8, 9, 20, 40)], [0, 0, 1, 1, 2, 6, 14])
    values = [float(number) for number in range(1, 21)]
    random.Random(1).shuffle(values)
    found = ab.estimate_ratio(values)
    equal((found.ratio, found.low, found.high, found.pairs), (10.5, 6.0, 15.0, 20))


@it("too few pairs have no interval")
def _():
    try:
        ab.estimate_ratio([1.0] * 5)
    except ValueError:
        return
    raise AssertionError("five pairs gave an interval")


@it("the interval contains the true ratio in about 95 of 100 experiments, outliers or not")
def _():
    chance = random.Random(7)
    for wanted in (1.0, 1.07, 0.5):
        found = [ab.estimate_ratio(noisy(chance, wanted)) for _ in range(1000)]
        inside = sum(one.low <= wanted <= one.high for one in found)
        true(930 <= inside <= 985, f"{inside} of 1000 contain {wanted}")


@it("a side that is 10 % slower is told as slower, one that is 10 % faster as faster")
def _():
    chance = random.Random(3)
    for ratio, wanted in ((1.1, "slower"), (1 / 1.1, "faster")):
        told = [verdict(noisy(chance, ratio)) for _ in range(200)]
        true(told.count(wanted) >= 198, f"{told.count(wanted)} of 200 at {ratio}")


@it("equal sides are told as the same")
def _():
    chance = random.Random(5)
    told = [verdict(noisy(chance, 1.0)) for _ in range(200)]
    true(told.count("same") >= 180, f"{told.count('same')} of 200")
    equal(verdict([1.0] * 20), "same")


@it("a count that is higher means slower, although the interval of the times includes 1")
def _():
    a = {"requests": 4, "fsyncs": 2, "instructions": 1000000}
    same, faster = [1.0] * 20, [0.5] * 20
    equal(verdict(same, a, a), "same")
    for name, more in (("requests", 5), ("fsyncs", 3), ("instructions", 1020000)):
        for ratios in (same, faster):
            equal(verdict(ratios, a, dict(a, **{name: more})), "slower", name)
        equal(ab.raised_counts(a, dict(a, **{name: more})), [name])


@it("a count that is lower does not excuse times that are higher")
def _():
    equal(verdict([1.1] * 20, {"requests": 4}, {"requests": 3}), "slower")
    equal(verdict([1.0] * 20, {"requests": 4}, {"requests": 3}), "same")


@it("instructions within 1 % are equal, and a count that one side lacks decides nothing")
def _():
    equal(verdict([1.0] * 20, {"instructions": 1000000}, {"instructions": 1009000}), "same")
    equal(verdict([1.0] * 20, {"instructions": None}, {"instructions": 5}), "same")
    equal(verdict([1.0] * 20, {}, {"requests": 5}), "same")


@it("each side runs first in half of the pairs, in random order")
def _():
    orders = ab.orders_of(40, random.Random(1))
    equal(orders.count(True), 20)
    true(orders != sorted(orders) and orders != [i % 2 == 0 for i in range(40)], "shuffled")


# ---- Rows ---------------------------------------------------------------------------------------


class Row:
    """Times and counts as a test says: functions of the side and of how often it was asked."""
    name = "row"

    def __init__(self, times, counts=lambda side, asked: 1, broken=""):
        self.times, self.counts, self.broken = times, counts, broken
        self.sampled, self.counted = {"a": 0, "b": 0}, {"a": 0, "b": 0}

    def sample(self, side):
        if side.name in self.broken:
            raise ab.Failed("there is no such command")
        self.sampled[side.name] += 1
        return self.times(side.name, self.sampled[side.name])

    def count(self, side, counter):
        self.counted[side.name] += 1
        return self.counts(side.name, self.counted[side.name])


SIDES = [ab.Side("a", "A"), ab.Side("b", "B")]
REQUESTS = ab.Counter("requests", "", [], None)


def compare(row):
    return ab.compare(row, SIDES, 20, [REQUESTS], random.Random(1), lambda text: None)


@it("a row that looks different is measured again with twice the pairs, and the second result counts")
def _():
    chance = compare(Row(lambda side, asked: 1.2 if side == "b" and asked <= 21 else 1.0))
    equal((chance.verdict, chance.estimate.pairs, chance.estimate.ratio), ("same", 40, 1.0))
    real = compare(Row(lambda side, asked: 1.2 if side == "b" else 1.0))
    equal((real.verdict, real.estimate.pairs, real.is_bad()), ("slower", 40, True))
    equal(compare(Row(lambda side, asked: 1.0)).estimate.pairs, 20)


@it("a count that is higher by chance is counted again, one that is always higher means slower")
def _():
    row = Row(lambda side, asked: 1.0, lambda side, asked: 6 if (side, asked) == ("b", 1) else 5)
    found = compare(row)
    equal((found.verdict, found.counts[1]["requests"], row.counted["a"]), ("same", 5, 2))
    found = compare(Row(lambda side, asked: 1.0, lambda side, asked: 6 if side == "b" else 5))
    equal((found.verdict, found.why), ("slower", "more requests"))


@it("what only B can do is new, what B cannot do fails")
def _():
    found = compare(Row(lambda side, asked: 1.0, broken="a"))
    equal((found.verdict, found.is_bad(), found.why), ("new", False, "A: there is no such command"))
    for broken in ("b", "ab"):
        found = compare(Row(lambda side, asked: 1.0, broken=broken))
        equal((found.verdict, found.is_bad()), ("fails", True))


@it("a command that fails in the middle fails its row, one that cannot be counted does not")
def _():
    def fail_late(side, asked):
        if (side, asked) == ("a", 7):
            raise ab.Failed("the disk is full")
        return 1.0
    found = compare(Row(fail_late))
    equal((found.verdict, found.why),
          ("fails", "A: the disk is full, although it had worked before"))

    def refuse(side, asked):
        raise ab.Failed("not under valgrind")
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        found = compare(Row(lambda side, asked: 1.0, refuse))
    equal((found.verdict, found.counts), ("same", [{"requests": None}, {"requests": None}]))
    equal(errors.getvalue().splitlines()[0],
          "ab: cannot count requests of A in 'row': not under valgrind")


@it("what the counting tools write is read")
def _():
    equal(ab.read_trace("holdfast: get a -> NOT_FOUND (no such object) 10us\n"
                        "holdfast: put_file b if-absent -> OK \"x\" 5 bytes 1ms\n"
                        "holdfast: put: a sentence of another kind\n"
                        "something -> OK\n"), 2)
    equal(ab.read_strace("% time     seconds  usecs/call     calls    errors syscall\n"
                         "------ ----------- ----------- --------- --------- ----------------\n"
                         " 99.00    0.004128        1032         4           fdatasync\n"
                         "  1.00    0.000002           2         1         1 fsync\n"
                         "------ ----------- ----------- --------- --------- ----------------\n"
                         "100.00    0.004130         826         5         1 total\n"), 5)
    equal(ab.read_strace(""), 0)
    equal(ab.read_callgrind("events: Ir\nsummary: 70\n\ntotals: 70\nevents: Ir\ntotals: 5\n"), 75)
    equal(ab.read_callgrind("valgrind: failed\n"), None)
    equal(ab.read_perf("# started on Monday\n\n12345,,instructions:u,1000,100.00,,\n"), 12345)
    equal(ab.read_perf("<not supported>,,instructions:u,0,100.00,,\n"), None)


@it("a number of the table has four digits at most, and two counts stand there if they differ")
def _():
    equal([ab.short(number) for number in (None, 0, 9999, 12300, 3204567, 4000000000)],
          ["-", "0", "9999", "12.3k", "3.205M", "4G"])
    equal(ab.count_text("fsyncs", ({"fsyncs": 2}, {"fsyncs": 2})), "2")
    equal(ab.count_text("fsyncs", ({"fsyncs": 2}, {"fsyncs": 3})), "2 -> 3")
    equal(ab.count_text("fsyncs", ({}, {})), "-")


# ---- Whole runs ---------------------------------------------------------------------------------


class Place:
    """A folder for scratch, which must be empty after each run, and a PATH without anything that
    counts: a shell under valgrind takes a second."""

    def __init__(self, folder):
        self.scratch, self.tools = os.path.join(folder, "tmp"), os.path.join(folder, "bin")
        os.mkdir(self.scratch)
        os.mkdir(self.tools)
        for name in ("sh", "sleep", "git", "touch"):
            os.symlink(shutil.which(name), os.path.join(self.tools, name))
        self.environment = dict(os.environ, TMPDIR=self.scratch, PATH=self.tools)

    def start(self, *arguments):
        return subprocess.Popen([sys.executable, TOOL, *arguments], env=self.environment, text=True,
                                cwd=self.scratch, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *arguments):
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=60)
        equal(os.listdir(self.scratch), [], f"left in the scratch folder by {arguments}")
        return process.returncode, output, errors


def in_place(function):
    def run():
        with tempfile.TemporaryDirectory(prefix="holdfast-ab-test-") as folder:
            function(Place(folder))
    return run


@it("wrong usage ends with status 2 and one sentence that names it")
@in_place
def _(place):
    empty = os.path.dirname(place.tools)
    for arguments, words in (
            (["only-one"], "required: B"),
            (["--pairs", "19", "a", "b"], "--pairs must be at least 20"),
            (["--pairs", "many", "a", "b"], "--pairs"),
            (["--timeout", "0", "a", "b"], "--timeout must be positive"),
            (["--only", "nothing", "a", "b"], "no workload starts with 'nothing'; there are: run;"),
            (["--command", "--only", "run", ":", ":"], "--only is for workloads"),
            (["no-such-thing", "b"], "cannot compare 'no-such-thing': it is neither a build folder"),
            ([empty, empty], f"cannot compare '{empty}': there is no program src/cli/holdfast")):
        status, output, errors = place.run(*arguments)
        equal((status, output, errors.count("\n")), (2, "", 1), f"{arguments}: {errors}")
        true(errors.startswith("ab: ") and words in errors, errors)


@it("of two commands the one that takes twice as long is slower, and the status is 1")
@in_place
def _(place):
    status, output, errors = place.run("--command", "--json", "sleep 0.03", "sleep 0.06")
    equal((status, errors), (1, ""))
    told = json.loads(output)
    row = told["rows"][0]
    equal((told["slower"], row["verdict"], row["pairs"]), (["command"], "slower", 40))
    true(1 < row["low"] <= row["ratio"] <= row["high"] < 3, row)
    equal((told["a"], told["b"]), ("sleep 0.03", "sleep 0.06"))


@it("a command beside itself is the same, and what cannot be counted is a dash")
@in_place
def _(place):
    for _ in range(2):  # once in some 1,500 runs chance alone makes a difference
        status, output, errors = place.run("--command", "sleep 0.004", "sleep 0.004")
        if status == 0:
            break
    equal((status, errors), (0, ""), output)
    row = next(line for line in output.splitlines() if line.startswith("command "))
    equal(row.split()[-4:], ["-", "-", "-", "same"])
    true("instructions: not counted here" in output, output)
    true(output.endswith("B is not slower than A in 1 row\n"), output)


@it("a command that fails or takes too long is told with its reason")
@in_place
def _(place):
    status, output, _ = place.run("--command", ":", "echo no disk >&2; exit 3")
    equal(status, 1)
    true("fails: B: it ended with status 3: no disk" in output, output)
    status, output, _ = place.run("--command", "--timeout", "0.2", ":", "sleep 100")
    equal(status, 1)
    true("fails: B: it takes more than 0.2 s" in output, output)
    status, output, _ = place.run("--command", "exit 1", ":")
    equal(status, 0)
    true("new: A: it ended with status 1" in output, output)


def is_running(folder):
    """A dead process stays there until its new parent has buried it."""
    try:
        with open(os.path.join(folder, "stat"), encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@it("Ctrl-C ends the command and leaves no scratch folder")
@in_place
def _(place):
    told = os.path.join(os.path.dirname(place.tools), "told")
    for number in (signal.SIGINT, signal.SIGTERM):
        process = place.start("--command", f"echo $$ >'{told}'; exec sleep 100", ":")
        began = time.monotonic()
        while not (os.path.exists(told) and os.path.getsize(told)):
            true(time.monotonic() < began + 20, "the command does not start")
            time.sleep(0.01)
        process.send_signal(number)
        _, errors = process.communicate(timeout=20)
        equal((process.returncode, errors.strip()), (128 + number, "ab: interrupted"))
        equal(os.listdir(place.scratch), [])
        with open(told, encoding="utf-8") as file:
            command = f"/proc/{file.read().strip()}"
        ended = time.monotonic()
        while is_running(command):
            true(time.monotonic() < ended + 20, "the command goes on")
            time.sleep(0.01)
        os.unlink(told)


def main():
    print(f"1..{len(TESTS)}")
    failed = False
    for number, (sentence, function) in enumerate(TESTS, 1):
        try:
            function()
            print(f"ok {number} - {sentence}", flush=True)
        except Exception:
            failed = True
            print(f"not ok {number} - {sentence}")
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

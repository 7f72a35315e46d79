#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ab.py: reports whether B is slower than A, from pairs of runs and from counts.

    tools/ab.py [--pairs N] [--only NAME] [--json] A B
    tools/ab.py [--pairs N] [--json] --command 'COMMAND A' 'COMMAND B'

A and B are build folders (with src/cli/holdfast in them) or git revisions. A revision is built once
as a release, in build-ab/COMMIT. Each workload of the table below runs in pairs, one run per side,
in random order; each pair gives a ratio B/A. The table also has counts that do not depend on the
machine: store requests, fsyncs, instructions. docs/bench.md explains it.

Exit status: 0 if no row is slower, 1 if one is or B fails, 2 for wrong usage.
"""

import argparse
import contextlib
import json
import os
import random
import re
import select
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.path.join(ROOT, "build-ab")
PROGRAM = "src/cli/holdfast"

PAIRS_MIN = 20
BUILD_SECONDS_MAX = 1800
COUNTING_TIMES = 20  # the factor on the timeout of a command under strace or valgrind
COUNT_TRIES = 3
SEED = 1
WIDE = 1.2  # an interval whose ends are further apart hides differences that a user feels

COUNTS = ("requests", "fsyncs", "instructions")
# How much higher a count of B may be without counting as more. Requests and fsyncs are exact. The
# instructions of one program vary a little: random ids, timestamps, the length of paths.
TOLERANCE = {"requests": 0.0, "fsyncs": 0.0, "instructions": 0.01}


class Usage(Exception):
    """The command line is wrong."""


class Failed(Exception):
    """A command failed."""


class Stopped(Exception):
    """A signal asks us to stop."""


# ---- Statistics ---------------------------------------------------------------------------------


def interval_rank(count):
    """The rank from either end of the sorted values that bounds the 95 % interval of their median;
    0 if there are too few. Each value is below the true median with probability 1/2,
    regardless of the distribution, so the number of values below it is binomial."""
    ways, below, rank = 1, 0, 0
    for i in range(count):
        below += ways
        if below > 0.025 * 2 ** count:
            break
        rank, ways = i + 1, ways * (count - i) // (i + 1)
    return rank


@dataclass
class Estimate:
    ratio: float
    low: float
    high: float
    spread: float  # between the quartiles of the ratios, as a part of the median
    pairs: int


def estimate_ratio(ratios):
    """The median of the ratios with its 95 % interval from order statistics. One slow fsync makes a
    ratio of 3, which moves a mean and widens a Student interval over everything; the median does not
    notice it. Order statistics need no assumption about the noise and no random draws, unlike a
    bootstrap."""
    values = sorted(ratios)
    rank = interval_rank(len(values))
    if rank == 0:
        raise ValueError(f"{len(values)} pairs are too few for an interval")
    quarters = statistics.quantiles(values, n=4)
    median = statistics.median(values)
    return Estimate(median, values[rank - 1], values[-rank], (quarters[2] - quarters[0]) / median,
                    len(values))


def raised_counts(counts_a, counts_b):
    """The names of the counts that are higher for B."""
    return [name for name in COUNTS
            if counts_a.get(name) is not None and counts_b.get(name) is not None
            and counts_b[name] > counts_a[name] * (1 + TOLERANCE[name])]


def verdict_of(estimate, counts_a, counts_b):
    """Not slower: no count is higher, and the interval includes 1 or is below it."""
    if raised_counts(counts_a, counts_b) or estimate.low > 1:
        return "slower"
    return "faster" if estimate.high < 1 else "same"


def orders_of(pairs, chance):
    """For each pair whether A runs first: equally often as B, in random order, so the effect of
    running second is the same for both sides."""
    orders = [number % 2 == 0 for number in range(pairs)]
    chance.shuffle(orders)
    return orders


# ---- Running commands ---------------------------------------------------------------------------


def end_group(process):
    for number, seconds in ((signal.SIGTERM, 2), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        try:
            process.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            pass


def last_words(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return ": " + lines[-1][:200] if lines else ""


class signals:
    """Held back while a process starts: if Popen were left by an exception, nobody would know the
    process that it has started."""
    held = False
    came = None


@contextlib.contextmanager
def running(argv, **options):
    """A command in its own process group, which is ended if the block is left by an exception."""
    process = None
    signals.held = True
    try:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True, **options)
        signals.held = False
        if signals.came:
            raise Stopped(signals.came)
        yield process
    except BaseException:
        signals.held = False
        if process:
            end_group(process)
        raise


def run(argv, folder, environment, timeout, log):
    """Runs a command in its own process group, and returns its seconds. Waits on a pidfd, because
    Popen.wait with a timeout polls, which would round the seconds up."""
    with open(log, "wb") as errors:
        began = time.perf_counter()
        with running(argv, cwd=folder, env=environment, stdout=subprocess.DEVNULL,
                     stderr=errors) as process:
            ended = os.pidfd_open(process.pid)
            try:
                poll = select.poll()
                poll.register(ended, select.POLLIN)
                in_time = poll.poll(timeout * 1000)
                seconds = time.perf_counter() - began
            finally:
                os.close(ended)
            if not in_time:
                raise Failed(f"it takes more than {timeout:g} s")
            status = process.wait()
    if status:
        raise Failed(f"it ended with {f'status {status}' if status > 0 else f'signal {-status}'}"
                     + last_words(log))
    return seconds


# ---- Sides --------------------------------------------------------------------------------------


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)


def build_revision(commit, label):
    """The build folder of a commit, from the cache if possible. The folder gets its name only when
    it is complete."""
    build = os.path.join(CACHE, commit)
    if os.path.exists(os.path.join(build, PROGRAM)):
        return build
    print(f"ab: building {label} in build-ab/{commit}", file=sys.stderr, flush=True)
    os.makedirs(CACHE, exist_ok=True)
    partial = f"{build}.{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="holdfast-ab-") as folder:
        tree, log = os.path.join(folder, "tree"), os.path.join(folder, "log")
        try:
            for argv in (["git", "-C", ROOT, "worktree", "add", "--detach", tree, commit],
                         ["meson", "setup", "--buildtype=release", partial,
                          tree],
                         ["ninja", "-C", partial, PROGRAM]):
                run_build_step(argv, label, log)
            if not os.path.exists(build):
                os.rename(partial, build)
        finally:
            git("worktree", "remove", "--force", tree)
            shutil.rmtree(partial, ignore_errors=True)
    return build


def run_build_step(argv, label, log):
    with open(log, "wb") as output, running(argv, stdout=output, stderr=output) as process:
        status = process.wait(BUILD_SECONDS_MAX)
    if status:
        with open(log, encoding="utf-8", errors="replace") as file:
            sys.stderr.writelines(file.readlines()[-20:])
        raise Usage(f"cannot build '{label}': {argv[0]} ended with status {status}")


@dataclass
class Side:
    name: str     # "a" or "b"
    label: str    # as given on the command line
    program: str = ""
    command: str = ""
    buildtype: str = ""
    commit: str = ""


def read_buildtype(build):
    try:
        with open(os.path.join(build, "meson-info", "intro-buildoptions.json"),
                  encoding="utf-8") as file:
            return next((option["value"] for option in json.load(file)
                         if option["name"] == "buildtype"), "")
    except (OSError, ValueError):
        return ""


def resolve_side(name, label):
    build, commit = os.path.abspath(label), ""
    if not os.path.isdir(build):
        found = git("rev-parse", "--verify", "--quiet", "--end-of-options", label + "^{commit}")
        if found.returncode:
            raise Usage(f"cannot compare '{label}': it is neither a build folder nor a git revision")
        commit = found.stdout.strip()
        build = build_revision(commit, label)
    program = os.path.join(build, PROGRAM)
    if not os.access(program, os.X_OK) or os.path.isdir(program):
        raise Usage(f"cannot compare '{label}': there is no program {PROGRAM} in it; "
                    f"build it first (ninja -C {label})")
    return Side(name, label, program=program, commit=commit, buildtype=read_buildtype(build))


# ---- Workloads ----------------------------------------------------------------------------------


@dataclass
class Workload:
    """`body` is one operation, in shell; `hf` is the program, $i counts from 1 and on. A run is
    `repeat` of them, so that it takes tens of milliseconds, on a new store that `prepare` has made:
    where on the disk a store lies, and how its trees have grown, is then a part of the noise, and
    does not stay on one side of all pairs."""
    name: str
    prepare: str
    body: str
    repeat: int = 10
    stores: tuple = ("sqlite", "dir")
    warm: bool = True  # run the body once before measuring


INDEX = "hf index create -q sites --fields site,owner,updated --key site --time updated; "
COMPACT = "hf compact create -q --format csv --key id --time updated --level0-count 3"

WORKLOADS = [
    Workload("run", "", "hf run x -- true"),
    Workload("acquire, release", "", 'hf acquire x >lease; read -r lease <lease; hf release -q "$lease"'),
    Workload("key update", "", "hf key update -q k --take <1k"),
    Workload("key get", "hf key update -q k --take <1k", "hf key get k", repeat=20),
    Workload("txn of two keys", "",
             "hf txn begin >txn; read -r txn <txn; "
             'for key in ann joe; do hf key acquire --txn "$txn" $key >lease; read -r lease <lease; '
             'hf key update -q $key --txn "$txn" --lease "$lease" <1k; done; hf txn commit -q "$txn"',
             repeat=3),
    Workload("index put", INDEX, "hf index put -q sites site=$i.example owner=ada"),
    Workload("index get", INDEX + "hf index put -q --fold sites --from sites.csv; "
             "hf index put -q sites site=h0007.example owner=eve",
             "hf index get sites h0007.example h0142.example", repeat=20),
    Workload("merge", "", "hf merge -q --format csv --key id --time updated -o out.csv in/*.csv",
             repeat=5, stores=("",)),
    # One merge at a time: with more, the number of requests depends on which ends first.
    Workload("compact", COMPACT,
             "hf compact ingest -q in/0[0-5].csv; hf compact run -q --all --force --jobs 1",
             repeat=1, warm=False),
    Workload("store put, get", "", "hf store put -q k 1k; hf store get k"),
    Workload("store put, get, 8 MiB", "", "hf store put -q k 8m; hf store get k", repeat=2),
]

SCRIPT = 'set -e; i=0; while [ $i -lt "$REPEAT" ]; do i=$((i + 1)); %s; done'
PLAIN = 'hf() { "$HOLDFAST" "$@"; }; '
TRACED = 'hf() { "$HOLDFAST" --trace "$@" 2>>"$COUNTED/trace"; }; '


def make_inputs(folder):
    """Writes the files that workloads read, with the same bytes each time."""
    chance = random.Random(SEED)
    with open(os.path.join(folder, "1k"), "wb") as file:
        file.write(chance.randbytes(1024))
    with open(os.path.join(folder, "8m"), "wb") as file:
        file.write(chance.randbytes(8 << 20))
    with open(os.path.join(folder, "sites.csv"), "w", encoding="utf-8") as file:
        file.write("site,owner,updated\n")
        file.writelines(f"h{i:04}.example,owner-{i % 7},{1770000000 + i}\n" for i in range(200))
    os.mkdir(os.path.join(folder, "in"))
    for number in range(16):
        keys = sorted(chance.sample(range(100000), 4000))
        with open(os.path.join(folder, "in", f"{number:02}.csv"), "w", encoding="utf-8") as file:
            file.write("id,updated,body\n")
            file.writelines(f"k{key:06},{1770000000 + chance.randrange(3000)},"
                            f"{chance.getrandbits(256):064x}\n" for key in keys)


class Scratch:
    """A folder for a run, which both sides use in turn, so its path is the same; and a folder beside
    it with the input files."""

    def __init__(self, timeout):
        self.folder = tempfile.mkdtemp(prefix="holdfast-ab-")
        self.timeout = timeout
        self.run = os.path.join(self.folder, "run")
        self.inputs = os.path.join(self.folder, "inputs")
        self.counted = os.path.join(self.folder, "counted")
        self.log = os.path.join(self.folder, "log")

    def empty(self, path):
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path)
        return path

    def add_inputs(self):
        os.mkdir(self.inputs)
        make_inputs(self.inputs)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class ProgramRow:
    """A workload on a store, run with the program of each side."""

    def __init__(self, workload, store, scratch):
        self.workload, self.store, self.scratch = workload, store, scratch
        self.name = workload.name + (f", {store}" if store else "")
        self.repeat = workload.repeat

    def environment(self, side, repeat):
        folder = self.scratch.run
        environment = {key: value for key, value in os.environ.items()
                       if not key.startswith("HOLDFAST")}
        store = os.path.join(folder, "objects") if self.store == "dir" else \
            os.path.join(folder, "store.db")
        environment.update(HOLDFAST=side.program, HOLDFAST_STORE=f"{self.store or 'sqlite'}:{store}",
                           REPEAT=str(repeat), COUNTED=self.scratch.counted, TMPDIR=folder,
                           HOME=folder, XDG_STATE_HOME=folder)
        return environment

    def shell(self, side, script, repeat=1, times=1):
        return run(["sh", "-c", script], self.scratch.run, self.environment(side, repeat),
                   self.scratch.timeout * times, self.scratch.log)

    def prepare(self, side):
        folder = self.scratch.empty(self.scratch.run)
        for name in os.listdir(self.scratch.inputs):
            os.symlink(os.path.join(self.scratch.inputs, name), os.path.join(folder, name))
        if self.store == "dir":
            os.mkdir(os.path.join(folder, "objects"))
        warm = SCRIPT % self.workload.body if self.workload.warm else ""
        self.shell(side, f"set -e; {PLAIN}{self.workload.prepare}\n{warm}")

    def sample(self, side):
        """Milliseconds of one operation."""
        self.prepare(side)
        script = PLAIN + SCRIPT % self.workload.body
        return 1000 * self.shell(side, script, self.repeat) / self.repeat

    def count(self, side, counter):
        self.prepare(side)
        self.scratch.empty(self.scratch.counted)
        hf = TRACED if counter.name == "requests" else \
            f'hf() {{ {shlex.join(counter.argv)} "$HOLDFAST" "$@"; }}; '
        self.shell(side, hf + SCRIPT % self.workload.body, times=COUNTING_TIMES)
        return counter.read(read_all(self.scratch.counted))


class CommandRow:
    """Any two commands, run in the current folder."""
    name = "command"

    def __init__(self, scratch):
        self.scratch = scratch
        for name in ("a", "b"):
            os.mkdir(os.path.join(scratch.folder, name))

    def shell(self, side, around=(), times=1):
        folder = os.path.join(self.scratch.folder, side.name)
        environment = dict(os.environ, SCRATCH=folder)
        return run([*around, "sh", "-c", side.command], None, environment,
                   self.scratch.timeout * times, self.scratch.log)

    def sample(self, side):
        return 1000 * self.shell(side)

    def count(self, side, counter):
        if counter.name == "requests":
            return None
        self.scratch.empty(self.scratch.counted)
        self.shell(side, counter.argv + counter.children, times=COUNTING_TIMES)
        return counter.read(read_all(self.scratch.counted))


# ---- Counting -----------------------------------------------------------------------------------


def read_all(folder):
    texts = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            texts.append(file.read())
    return "\n".join(texts)


def read_trace(text):
    return len(re.findall(r"^holdfast: (?:get|put|delete|list|get_file|put_file)\b.* -> [A-Z_]+", text,
                          re.M))


def read_strace(text):
    """Of `strace -c`: % time, seconds, usecs/call, calls, errors if any, name."""
    return sum(int(number) for number in re.findall(
        r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(?:fsync|fdatasync|syncfs)$", text, re.M))


def read_callgrind(text):
    return sum(int(number) for number in re.findall(r"^totals: (\d+)", text, re.M)) or None


def read_perf(text):
    return sum(int(number) for number in re.findall(r"^(\d+),[^,]*,instructions", text, re.M)) or None


@dataclass
class Counter:
    name: str
    how: str
    argv: list       # goes before the program
    read: object     # converts its output to a number
    children: list = field(default_factory=list)  # more words, to count child processes too

    def works(self, counted):
        """The tool may be missing, or the kernel may refuse."""
        if not shutil.which(self.argv[0]):
            return False
        tried = subprocess.run([*self.argv, *self.children, "sh", "-c", ":"], capture_output=True)
        return tried.returncode == 0 and self.read(read_all(counted)) is not None


def find_counters(scratch):
    """The counters that work here, and a sentence for each that does not."""
    folder = scratch.counted
    strace = Counter("fsyncs", "calls of fsync, fdatasync and syncfs, by strace",
                     ["strace", "-f", "-c", "-A", "-o", f"{folder}/strace", "-e",
                      "trace=fsync,fdatasync,syncfs"], read_strace)
    perf = Counter("instructions", "of user space, by perf stat",
                   ["perf", "stat", "-x,", "-e", "instructions:u", "--append", "-o", f"{folder}/perf"],
                   read_perf)
    valgrind = Counter("instructions", "by valgrind --tool=callgrind, for perf stat has none here",
                       ["valgrind", "-q", "--tool=callgrind",
                        f"--callgrind-out-file={folder}/callgrind.%p"], read_callgrind,
                       ["--trace-children=yes"])
    found = [Counter("requests", "store requests, by holdfast --trace", [], read_trace)]
    for choices in ((strace,), (perf, valgrind)):
        for counter in choices:
            scratch.empty(folder)
            if counter.works(folder):
                found.append(counter)
                break
    return found


def count_side(row, side, counter):
    """The count; None if the program cannot be run that way, which is reported."""
    try:
        return row.count(side, counter)
    except Failed as reason:
        print(f"ab: cannot count {counter.name} of {side.name.upper()} in '{row.name}': {reason}",
              file=sys.stderr)
        return None


def count_both(row, sides, counters):
    """The counts of both sides. If a count of B is higher, both are counted again, and the lowest
    count of each side is used, which removes random additions."""
    counts = [{}, {}]
    for counter in counters:
        for attempt in range(COUNT_TRIES):
            for side, found in zip(sides, counts):
                number = count_side(row, side, counter)
                if attempt == 0 or (number is not None and number < found[counter.name]):
                    found[counter.name] = number
            if counter.name not in raised_counts(*counts):
                break
    return counts


# ---- Comparing ----------------------------------------------------------------------------------


@dataclass
class Result:
    name: str
    verdict: str     # same, faster, slower; "new" if only B can do it, "fails" if B cannot
    why: str = ""
    ms: tuple = (0.0, 0.0)
    estimate: Estimate = None
    counts: tuple = ({}, {})

    def is_bad(self):
        return self.verdict in ("slower", "fails")

    def is_wide(self):
        return self.estimate is not None and self.estimate.high > WIDE * self.estimate.low


def sample(row, side):
    try:
        return row.sample(side)
    except Failed as reason:
        raise Failed(f"{side.name.upper()}: {reason}") from None


def measure_pairs(row, sides, pairs, chance, progress):
    """The ratios B/A, and the median time of each side."""
    times = ([], [])
    for number, a_first in enumerate(orders_of(pairs, chance), 1):
        progress(f"{row.name}: pair {number} of {pairs}")
        for which in (0, 1) if a_first else (1, 0):
            times[which].append(sample(row, sides[which]))
    return ([b / a for a, b in zip(*times)],
            tuple(statistics.median(side_times) for side_times in times))


def try_side(row, side):
    """The reason why a side cannot run this row, or an empty text."""
    try:
        sample(row, side)
        return ""
    except Failed as reason:
        return str(reason)


def compare(row, sides, pairs, counters, chance, progress):
    """One row of the table. A row that looks different is measured again, with twice the pairs, and
    the second result counts: of twenty rows without a difference one is outside of its 95 % interval."""
    progress(f"{row.name}: first run")
    why = [try_side(row, side) for side in sides]
    if why[1]:
        return Result(row.name, "fails", why[1])
    if why[0]:
        return Result(row.name, "new", why[0])
    try:
        ratios, ms = measure_pairs(row, sides, pairs, chance, progress)
        if verdict_of(estimate_ratio(ratios), {}, {}) != "same":
            ratios, ms = measure_pairs(row, sides, 2 * pairs, chance, progress)
    except Failed as reason:
        return Result(row.name, "fails", f"{reason}, although it had worked before")
    progress(f"{row.name}: counting")
    counts = count_both(row, sides, counters)
    estimate = estimate_ratio(ratios)
    more = "; ".join(f"more {name}" for name in raised_counts(*counts))
    return Result(row.name, verdict_of(estimate, *counts), more, ms, estimate, counts)


# ---- Printing -----------------------------------------------------------------------------------


def short(number):
    """Four significant digits at most: 812, 3.204M."""
    if number is None:
        return "-"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if number >= size:
            return f"{number / (1e3 if unit == 'k' else size):.4g}{unit}"
    return str(number)


def count_text(name, counts):
    a, b = (side.get(name) for side in counts)
    return short(a) if short(a) == short(b) else f"{short(a)} -> {short(b)}"


TITLES = ("workload", "A ms", "B ms", "B/A", "95 % interval", "spread", "pairs", "requests", "fsyncs",
          "instructions", "verdict")
LAYOUT = "{:29} {:>8} {:>8} {:>6}  {:13} {:>6} {:>5}  {:>8} {:>8} {:>16}  {}"


def print_result(result):
    if result.estimate is None:
        print(f"{result.name:29} {result.verdict}: {result.why}", flush=True)
        return
    e = result.estimate
    print(LAYOUT.format(result.name, *(f"{ms:.3f}" for ms in result.ms), f"{e.ratio:.3f}",
                        f"{e.low:.3f}..{e.high:.3f}", f"{100 * e.spread:.1f} %", e.pairs,
                        *(count_text(name, result.counts) for name in COUNTS),
                        result.verdict + (f": {result.why}" if result.why else "")), flush=True)


def result_json(result):
    shown = {"workload": result.name, "verdict": result.verdict, "why": result.why}
    if result.estimate:
        e = result.estimate
        shown.update(a_ms=result.ms[0], b_ms=result.ms[1], ratio=e.ratio, low=e.low, high=e.high,
                     spread=e.spread, pairs=e.pairs, a=result.counts[0], b=result.counts[1])
    return shown


def describe(side):
    notes = [note for note in (side.commit[:12], side.buildtype) if note]
    return (side.command or side.label) + (f" ({', '.join(notes)})" if notes else "")


def print_head(sides, counters):
    for side in sides:
        print(f"{side.name.upper()}: {describe(side)}")
    print("times and counts are of one operation")
    for name in COUNTS:
        how = next((counter.how for counter in counters if counter.name == name), None)
        print(f"{name}: {how or 'not counted here'}")
    print("\n" + LAYOUT.format(*TITLES), flush=True)


def show_progress(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


# ---- The program --------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Usage(message)


def parse(arguments):
    parser = Parser(prog="ab.py", description="compares two builds, revisions or commands",
                    epilog="docs/bench.md explains the table.")
    parser.add_argument("a", metavar="A", help="a build folder or a git revision")
    parser.add_argument("b", metavar="B", help="what is compared with it")
    parser.add_argument("--command", action="store_true", help="A and B are commands for sh -c")
    parser.add_argument("--pairs", type=int, default=PAIRS_MIN, metavar="N",
                        help=f"pairs per row, at least {PAIRS_MIN} (default: {PAIRS_MIN})")
    parser.add_argument("--only", default="", metavar="NAME", help="workloads whose name starts so")
    parser.add_argument("--timeout", type=float, default=30, metavar="SECONDS",
                        help="how long one run may take (default: 30)")
    parser.add_argument("--json", action="store_true", help="write JSON to stdout")
    options = parser.parse_args(arguments)
    if options.pairs < PAIRS_MIN:
        raise Usage(f"--pairs must be at least {PAIRS_MIN}")
    if not 0 < options.timeout < 86400:
        raise Usage("--timeout must be positive, and less than a day")
    if options.command and options.only:
        raise Usage("--only is for workloads; with --command there is only one row")
    names = [workload.name for workload in WORKLOADS]
    if not any(name.startswith(options.only) for name in row_names()):
        raise Usage(f"no workload starts with '{options.only}'; there are: {'; '.join(names)}")
    return options


def row_names():
    return [workload.name + (f", {store}" if store else "")
            for workload in WORKLOADS for store in workload.stores]


def make_sides(options):
    if options.command:
        return [Side("a", "A", command=options.a), Side("b", "B", command=options.b)]
    sides = [resolve_side("a", options.a), resolve_side("b", options.b)]
    if sides[0].buildtype != sides[1].buildtype:
        print(f"ab: A is a build of type '{sides[0].buildtype}', B of type '{sides[1].buildtype}': "
              "the compiler explains part of the difference", file=sys.stderr)
    return sides


def make_rows(options, scratch):
    if options.command:
        return [CommandRow(scratch)]
    scratch.add_inputs()
    rows = [ProgramRow(workload, store, scratch)
            for workload in WORKLOADS for store in workload.stores]
    return [row for row in rows if row.name.startswith(options.only)]


def compare_all(options, sides, scratch):
    counters = find_counters(scratch)
    chance = random.Random(SEED)
    if not options.json:
        print_head(sides, counters)
    results = []
    for row in make_rows(options, scratch):
        results.append(compare(row, sides, options.pairs, counters, chance, show_progress))
        show_progress("")
        if not options.json:
            print_result(results[-1])
    return counters, results


def number_of(rows):
    return f"{len(rows)} row" + ("" if len(rows) == 1 else "s")


def print_end(options, sides, counters, results):
    bad = [result.name for result in results if result.is_bad()]
    wide = [result.name for result in results if result.is_wide()]
    if options.json:
        print(json.dumps({"a": describe(sides[0]), "b": describe(sides[1]),
                          "counted": {counter.name: counter.how for counter in counters},
                          "slower": bad, "wide": wide,
                          "rows": [result_json(result) for result in results]}, indent=1))
        return 1 if bad else 0
    print()
    if wide:
        print(f"{number_of(wide)} with an interval so wide that a difference of 20 % may hide in it; "
              "more --pairs or an idle machine would tell: " + "; ".join(wide))
    if bad:
        print(f"B is slower than A, or fails, in {number_of(bad)}: " + "; ".join(bad))
    else:
        print(f"B is not slower than A in {number_of(results)}")
    return 1 if bad else 0


def set_signals(handler):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def on_signal(number, _):
    """Handles only the first signal; the program is cleaning up afterwards."""
    set_signals(signal.SIG_IGN)
    signals.came = number
    if not signals.held:
        raise Stopped(number)


def main(arguments):
    set_signals(on_signal)
    scratch = None
    try:
        options = parse(arguments)
        sides = make_sides(options)
        scratch = Scratch(options.timeout)
        return print_end(options, sides, *compare_all(options, sides, scratch))
    except Usage as reason:
        print(f"ab: {reason}", file=sys.stderr)
        return 2
    except Stopped as reason:
        print("\nab: interrupted", file=sys.stderr)
        return 128 + reason.args[0]
    finally:
        set_signals(signal.SIG_IGN)
        if scratch:
            scratch.remove()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

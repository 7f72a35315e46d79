#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutants.py: breaks each rule of src/base/rule.h in turn, and reports how many seeds a checker of
the simulator needed to notice.

    tools/mutants.py HOLDFAST_SIM [--rounds N] [--seeds MAX] [--only NAME,...] [--record]

The simulator must be configured with -Dmutants=true. Each round starts at different seeds, the same
for all mutants. A mutant survives if no checker notices it within MAX seeds; an assertion of the
library does not count. A line of tests/sim_seeds.txt that names a rule in brackets must fail
under that mutant; otherwise its seed no longer shows the fault it was recorded for, and --record
replaces it with the first seed that does. With --record, mutants are not counted. The exit status is
0 when all mutants were killed, there are at least 40, at least ten of them are subtle (a median
of 50 seeds or more), and all recorded seeds fail.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROUND_APART = 1000000
MUTANTS_MIN, SUBTLE_MIN = 40, 10
SUBTLE_SEEDS, PLAIN_SEEDS = 50, 5
SECONDS_MAX = 600

SEEDS = pathlib.Path(__file__).parent.parent / "tests" / "sim_seeds.txt"
RECORDED = re.compile(r"^(\w+) (\d+) (\d+) (\d+) ([^#]*)#.*\[([A-Z_]+)\]")

KILLED = re.compile(r"^seed (\d+) failed: (.*)$", re.MULTILINE)

# Rules that a second checker must notice too: lock rules at the locks of shards and in the sweeper,
# and rules of transactions through servers.
ALSO = [
    ("FIRST_WRITE_IF_ABSENT", "index"),
    ("SCAVENGE_WITH_PROOF", "index"),
    ("RELEASE_NAMES_THE_LEASE", "index"),
    ("SCAVENGE_WITH_PROOF", "sweep"),
    ("PURGE_RAISES_EPOCH", "sweep"),
    ("OVER_FOR_ITS_OWN_TOO", "serve"),
    ("ROLLBACK_IS_RECORDED", "serve"),
    ("SETTLED_BY_THE_RECORD", "serve"),
    ("TAKEN_UNTIL_DECIDED", "serve"),
]

# Failures found by the simulator itself, not by a checker: memory, tasks and locks left behind.
NO_CHECKER = re.compile(r"ended without joining|ended and left|mutex")


class Round:
    """One search for a seed that a checker fails."""

    def __init__(self, program, name, workload, first, seeds, options=()):
        began = time.monotonic()
        run = subprocess.run(
            [program, "--mutant", name, "--workload", workload, "--seed", str(first),
             "--seeds", str(seeds), "--no-shrink", *options],
            capture_output=True, text=True, timeout=SECONDS_MAX)
        self.seconds = time.monotonic() - began
        found = KILLED.search(run.stderr)
        self.killed = (run.returncode == 1 and found is not None
                       and not NO_CHECKER.search(found.group(2)))
        self.seeds = int(found.group(1)) - first + 1 if self.killed else seeds
        self.sentence = found.group(2) if found else ""
        if not found and run.returncode != 0:
            self.sentence = "died: " + run.stderr.strip().splitlines()[0][:100]


class Mutant:
    def __init__(self, name, workload, wrong):
        self.name, self.workload, self.wrong = name, workload, wrong
        self.rounds = []

    def is_killed(self):
        return all(round.killed for round in self.rounds)

    def median(self):
        return statistics.median(round.seeds for round in self.rounds)

    def row(self):
        seeds = sorted(round.seeds for round in self.rounds)
        seconds = statistics.median(round.seconds for round in self.rounds)
        verdict = f"{self.median():7.0f} {seeds[0]:7d} {seeds[-1]:7d} {seconds:8.2f}"
        if not self.is_killed():
            lived = sum(not round.killed for round in self.rounds)
            verdict = f"   SURVIVED {lived} of {len(self.rounds)} rounds   "
        story = next((round.sentence for round in self.rounds if round.sentence), "")
        return (f"{self.name:28} {self.workload:7} {verdict}  {self.wrong}\n"
                f"{'':70}{story}")


def read_mutants(program, only):
    listing = subprocess.run([program, "--mutants"], capture_output=True, text=True, check=True)
    mutants = [Mutant(*line.split("\t")) for line in listing.stdout.splitlines()]
    wrong = {mutant.name: mutant.wrong for mutant in mutants}
    mutants += [Mutant(name, workload, wrong[name]) for name, workload in ALSO]
    unknown = set(only) - {mutant.name for mutant in mutants}
    if unknown:
        sys.exit(f"mutants.py: unknown mutant: {', '.join(sorted(unknown))}")
    return [mutant for mutant in mutants if not only or mutant.name in only]


def hunt(program, mutants, rounds, seeds):
    """Runs all rounds, as many at a time as there are cores."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = [
            (mutant, [pool.submit(Round, program, mutant.name, mutant.workload,
                                  1 + number * ROUND_APART, seeds)
                      for number in range(rounds)])
            for mutant in mutants]
        for mutant, futures in waiting:
            mutant.rounds = [future.result() for future in futures]
            print(mutant.row(), flush=True)


class Recorded:
    """A line of the seeds' file that names a rule: it must fail when the rule is broken."""

    def __init__(self, line):
        self.line = line
        found = RECORDED.match(line)
        self.workload, self.seed, nodes, operations, options, self.rule = found.groups()
        self.options = ["--nodes", nodes, "--operations", operations, *options.split()]

    def search(self, program, first, seeds):
        return Round(program, self.rule, self.workload, first, seeds, self.options)

    def is_stale(self, program):
        return not self.search(program, int(self.seed), 1).killed

    def with_seed(self, seed):
        """The line with another seed, its remark in the same column if there is room."""
        run, remark = self.line.split("#", 1)
        moved = run.replace(f"{self.workload} {self.seed} ", f"{self.workload} {seed} ", 1).rstrip()
        return f"{moved:{len(run) - 1}} #{remark}"


def recorded_lines(only):
    lines = SEEDS.read_text(encoding="ascii").splitlines()
    found = [RECORDED.match(line) for line in lines]
    return [Recorded(match.string) for match in found
            if match and (not only or match.group(6) in only)]


def stale_lines(program, only):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        lines = recorded_lines(only)
        stale = pool.map(lambda recorded: recorded.is_stale(program), lines)
        return [line for line, is_stale in zip(lines, stale) if is_stale]


def check_recorded(program, only):
    """Whether each recorded seed that names a rule fails when the rule is broken."""
    stale = stale_lines(program, only)
    for recorded in stale:
        print(f"{SEEDS.name}: {recorded.workload} {recorded.seed} passes without {recorded.rule}: "
              "record another seed (--record)")
    return not stale


def record(program, only, seeds):
    """Replaces stale seeds in the file. False if no other seed was found for one of them."""
    stale = stale_lines(program, only)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rounds = list(pool.map(lambda recorded: recorded.search(program, 1, seeds), stale))
    text = SEEDS.read_text(encoding="ascii")
    for recorded, found in zip(stale, rounds):
        if found.killed:
            text = text.replace(recorded.line, recorded.with_seed(found.seeds), 1)
        print(f"{recorded.rule:32} {recorded.workload:8} {recorded.seed:>6} -> "
              f"{found.seeds if found.killed else 'none'}")
    SEEDS.write_text(text, encoding="ascii")
    return all(found.killed for found in rounds)


def summarise(mutants, seconds):
    killed = [mutant for mutant in mutants if mutant.is_killed()]
    plain = sum(mutant.median() <= PLAIN_SEEDS for mutant in killed)
    subtle = sum(mutant.median() >= SUBTLE_SEEDS for mutant in killed)
    print(f"\n{len(killed)} of {len(mutants)} mutants killed by a checker, in {seconds:.0f} s; "
          f"{plain} of them within {PLAIN_SEEDS} seeds, {subtle} subtle "
          f"(a median of {SUBTLE_SEEDS} seeds or more)")
    return len(killed) == len(mutants), len(killed), subtle


def main():
    parser = argparse.ArgumentParser(description="breaks each rule in turn")
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=50000)
    parser.add_argument("--only", default="")
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    only = [name for name in arguments.only.split(",") if name]
    if arguments.record:
        return 0 if record(arguments.program, only, arguments.seeds) else 1
    mutants = read_mutants(arguments.program, only)
    print(f"{'rule':28} {'checker':7} {'median':>7} {'least':>7} {'most':>7} {'seconds':>8}  "
          f"what is done once it is broken\n")
    began = time.monotonic()
    hunt(arguments.program, mutants, arguments.rounds, arguments.seeds)
    all_killed, killed, subtle = summarise(mutants, time.monotonic() - began)
    enough = only or (killed >= MUTANTS_MIN and subtle >= SUBTLE_MIN)
    recorded = check_recorded(arguments.program, only)
    return 0 if all_killed and enough and recorded else 1


if __name__ == "__main__":
    sys.exit(main())

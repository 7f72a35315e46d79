#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutants.py: breaks each rule of src/base/rule.h in turn, and reports how many seeds a checker of
the simulator needed to notice.

    tools/mutants.py HOLDFAST_SIM [--rounds N] [--seeds MAX] [--only NAME,...]

The simulator must be configured with -Dmutants=true. Each round starts at different seeds, the same
for all mutants. A mutant survives if no checker notices it within MAX seeds; an assertion of the
library does not count. A line of tests/sim_seeds.txt that names a rule in brackets must fail
under that mutant; otherwise its seed no longer shows the fault it was recorded for. The exit status
is 0 when all mutants were killed, there are at least 40, at least ten of them are subtle (a median
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

# Rules that a second checker must notice too: lock rules at the locks of shards and in the sweeper.
ALSO = [
    ("FIRST_WRITE_IF_ABSENT", "index"),
    ("SCAVENGE_WITH_PROOF", "index"),
    ("RELEASE_NAMES_THE_LEASE", "index"),
    ("SCAVENGE_WITH_PROOF", "sweep"),
    ("PURGE_RAISES_EPOCH", "sweep"),
]

# Failures found by the simulator itself, not by a checker: memory, tasks and locks left behind.
NO_CHECKER = re.compile(r"ended without joining|ended and left|mutex")


class Round:
    """One search for a seed that a checker fails."""

    def __init__(self, program, name, workload, first, seeds):
        began = time.monotonic()
        run = subprocess.run(
            [program, "--mutant", name, "--workload", workload, "--seed", str(first),
             "--seeds", str(seeds), "--no-shrink"],
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


def check_recorded(program, only):
    """Whether each recorded seed that names a rule fails when the rule is broken."""
    stale = 0
    for line in SEEDS.read_text(encoding="ascii").splitlines():
        found = RECORDED.match(line)
        if not found or (only and found.group(6) not in only):
            continue
        workload, seed, nodes, operations, options, rule = found.groups()
        run = subprocess.run(
            [program, "--mutant", rule, "--workload", workload, "--seed", seed, "--nodes", nodes,
             "--operations", operations, "--no-shrink", *options.split()],
            capture_output=True, text=True, timeout=SECONDS_MAX)
        if run.returncode != 1 or not KILLED.search(run.stderr):
            print(f"{SEEDS.name}: {workload} {seed} passes without {rule}: record another seed")
            stale += 1
    return stale == 0


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
    arguments = parser.parse_args()
    only = [name for name in arguments.only.split(",") if name]
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

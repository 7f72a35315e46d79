#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sim_replay.py: one seed gives one history, whatever compiled the simulator.

    sim_replay.py HASHES HOLDFAST_SIM...            compare each program with the file
    sim_replay.py --write HASHES HOLDFAST_SIM       write the file anew

The file holds a line for each run, as holdfast-sim --hash prints it: workload, nodes, operations,
seed, and the hash of the trace. A change of the core, of the simulator or of a workload that
changes what happens changes the hashes: look at the trace, and if that is as it should be, write
the file anew. A difference between two builds of one source is always a bug.
"""

import subprocess
import sys

RUNS = [(workload, nodes, 50, seed)
        for workload in ("counter", "race") for nodes in (3, 5) for seed in (1, 42, 2026)]
RUNS += [(workload, 4, 20, seed)
         for workload in ("doc", "locks", "ranges", "epochs", "fenced", "elect", "compact", "index",
                          "plain", "drop", "bank", "sweep", "pages", "steps", "claims", "serve",
                          "upgrade")
         for seed in (1, 7)]
# Plans that few seeds have: an existing namespace, tables purged at once, readers and sweepers that
# look on, another program that goes back.
RUNS += [("locks", 5, 50, 394), ("epochs", 5, 50, 15), ("bank", 5, 50, 77), ("bank", 5, 50, 201),
         ("index", 5, 50, 236)]


def line_of(program, workload, nodes, operations, seed):
    run = subprocess.run(
        [program, "--hash", "--workload", workload, "--nodes", str(nodes), "--operations",
         str(operations), "--seed", str(seed)], capture_output=True, text=True)
    if run.returncode != 0:
        return f"failed: {run.stderr.strip()}"
    return run.stdout.strip()


def write(path, program):
    lines = [line_of(program, *run) for run in RUNS]
    with open(path, "w", encoding="ascii") as out:
        out.write("".join(line + "\n" for line in lines))


def compare(path, programs):
    with open(path, encoding="ascii") as expected:
        lines = expected.read().splitlines()
    print(f"1..{len(programs) * len(lines)}")
    number = failures = 0
    for program in programs:
        for line in lines:
            number += 1
            workload, nodes, operations, seed, _ = line.split()
            got = line_of(program, workload, nodes, operations, seed)
            ok = got == line
            failures += not ok
            print(f"{'ok' if ok else 'not ok'} {number} - seed {seed} of {workload} with {nodes} "
                  "nodes is the history on record")
            if not ok:
                print(f"# {program}: expected '{line}', got '{got}'")
    return failures > 0


def main():
    arguments = sys.argv[1:]
    if len(arguments) == 3 and arguments[0] == "--write":
        return write(arguments[1], arguments[2])
    if len(arguments) < 2 or arguments[0].startswith("-"):
        sys.exit(__doc__)
    return compare(arguments[0], arguments[1:])


if __name__ == "__main__":
    sys.exit(main())

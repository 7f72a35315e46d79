#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bars.py: the verdict on a run of benchmarks.

    bars.py GAPS < LOG

LOG is what tools/bench.sh prints. GAPS lists the bars that are known to be missed: a line with the name of the
bar and how far it may be missed, for one bar or several, and then lines, further in, that say why:

    20 % transfers, 8 tasks
        A transaction is two commits, and the peer's is one.

Prints each bar that was missed, the unknown ones last. Exit status: 0 if each of them is known and not missed by
more than GAPS says, 1 if not, or if a benchmark did not end, 2 if GAPS cannot be read.
"""

import re
import sys

sys.dont_write_bytecode = True

import charts

GAP = re.compile(r"^(?P<percent>\d+) % (?P<name>\S.*)$")
ENDS = ("all bars were met", "some bars were missed")


class Gap:
    def __init__(self, percent):
        self.percent, self.why = percent, ""


def read_gaps(lines):
    """The gaps by name. ValueError: a line is neither a bar nor a reason, or a bar has no reason."""
    gaps, of = {}, []  # of: the bars of the next reason
    has_reason = False
    for number, line in enumerate(lines, 1):
        found = GAP.match(line)
        if line.startswith("#") or not line.strip():
            continue
        if found and found["name"] not in gaps:
            of = [] if has_reason else of
            of.append(gaps.setdefault(found["name"], Gap(int(found["percent"]))))
            has_reason = False
        elif of and line[0].isspace():
            for gap in of:
                gap.why = f"{gap.why} {line.strip()}".strip()
            has_reason = True
        else:
            raise ValueError(f"line {number} is not 'PERCENT % NAME', or names a bar again: {line}")
    bare = [name for name, gap in gaps.items() if not gap.why]
    if bare:
        raise ValueError(f"no reason is given for '{bare[0]}'")
    return gaps


def read_log(lines):
    """The missed bars, with how many per cent each was missed by, and the programs that did not end."""
    missed, unended, program = [], [], None
    for line in lines:
        line = line.rstrip("\n")
        start, target = charts.PROGRAM.match(line), charts.TARGET.match(line)
        if line.startswith("== "):
            unended += [program] if program else []
            program = start[1] if start else None
        elif line in ENDS:
            program = None
        elif program and target and target["end"] == "missed":
            bar, value = float(target["bar"]), float(target["value"])
            missed.append((target["name"], 100 * abs(value - bar) / bar if bar else float("inf")))
    return missed, unended + ([program] if program else [])


def judge(gaps, missed, unended):
    """The lines to print, and whether all is as it is known to be."""
    known, unknown = [], [f"  {name} did not end" for name in unended]
    for name, percent in missed:
        gap = gaps.get(name)
        if gap and percent <= gap.percent:
            known.append(f"  {name}: by {percent:.0f} %, and up to {gap.percent} % are known. {gap.why}")
        else:
            unknown.append(f"  {name}: by {percent:.1f} %" + (f", but only {gap.percent} % are known" if gap else ""))
    lines = (["missed, as is known:"] + known if known else []) + (["missed:"] + unknown if unknown else [])
    return lines or ["all bars were met"], not unknown


def main():
    if len(sys.argv) != 2:
        print("usage: bars.py GAPS < LOG", file=sys.stderr)
        return 2
    try:
        with open(sys.argv[1], encoding="utf-8") as file:
            gaps = read_gaps(file)
    except (OSError, ValueError) as error:
        print(f"bars.py: {sys.argv[1]}: {error}", file=sys.stderr)
        return 2
    lines, good = judge(gaps, *read_log(sys.stdin))
    print("\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

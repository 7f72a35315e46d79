#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bars_test.py: tools/bars.py lets only those bars be missed that are known to be, and no further."""

import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests"))

import tap_kit

MET = """commit 1; 2 cores
== bench_one
  puts                                                        81682 puts/s  (70675 to 89217, 5 rounds)
  a ratio: ours / theirs                                    1.00769 x       bar >= 0.909091: met
all bars were met
"""
MISSED = """== bench_two, of 7f81ed6
  sqlite, 8 tasks: ours / theirs                           0.546654 x       bar >= 1: missed by 0.453346 (45.3 %)
                                                                            (95 % interval 0.495 to 0.581, 20 pairs)
  memory                                                         66 MiB     bar <= 60: missed by 6 (10.0 %)
some bars were missed
== export beside holdfast merge, while workers compact
  not of a program                                              100 us      (90 to 110, 7 rounds)
"""
GAPS = """# what is known
46 % sqlite, 8 tasks: ours / theirs
    Two commits,
    and the peer's is one.

10 % memory
    Buffers.
"""


def judge(log, gaps):
    """The exit status, and what is printed."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(gaps)
        file.flush()
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "bars.py"), file.name], input=log, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout


def expect(log, gaps, status, *parts):
    found = judge(log, gaps)
    assert found[0] == status and all(part in found[1] for part in parts), found


def all_met():
    expect(MET, "", 0, "all bars were met")
    expect(MET, GAPS, 0, "all bars were met")


def known():
    expect(MET + MISSED, GAPS, 0, "missed, as is known:", "by 45 %, and up to 46 % are known. Two commits, and the peer's is one.",
           "memory: by 10 %")


def several_with_one_reason():
    gaps = "46 % sqlite, 8 tasks: ours / theirs\n10 % memory\n    Slow.\n    Very.\n2 % other\n    Not this.\n"
    expect(MET + MISSED, gaps, 0, "46 % are known. Slow. Very.", "10 % are known. Slow. Very.")
    expect(MISSED, "10 % memory\n    Slow.\n46 % sqlite, 8 tasks: ours / theirs\n", 2, "no reason is given for 'sqlite")


def unknown():
    expect(MET + MISSED, "10 % memory\n    Buffers.\n", 1, "missed:\n  sqlite, 8 tasks: ours / theirs: by 45.3 %\n")


def further():
    expect(MET + MISSED, GAPS.replace("46 %", "45 %"), 1, "by 45.3 %, but only 45 % are known")
    expect(MET + MISSED, GAPS.replace("10 %", "9 %"), 1, "memory: by 10.0 %, but only 9 % are known")


def did_not_end():
    cut = MET.replace("all bars were met\n", "")
    expect(cut, GAPS, 1, "bench_one did not end")
    expect(cut + MISSED, GAPS, 1, "bench_one did not end", "missed, as is known:")


def bad_gaps():
    for gaps, why in (("memory\n", "line 1 is not"), ("5 % memory\n", "no reason is given for 'memory'"),
                      ("  why\n", "line 1 is not"), (GAPS + "1 % memory\n    Twice.\n", "names a bar again")):
        expect(MET, gaps, 2, why)


def ours_is_read():
    with open(os.path.join(ROOT, "bench", "gaps.txt"), encoding="utf-8") as file:
        gaps = file.read()
    expect(MET, gaps, 0, "all bars were met")


CASES = [
    ("bars that are met are no news", all_met),
    ("a bar may be missed as far as is known, and the reason is shown", known),
    ("bars in a row share the reason after them", several_with_one_reason),
    ("a bar that is not known to be missed is a failure", unknown),
    ("a bar that is missed by more than is known is a failure", further),
    ("a benchmark that did not end is a failure", did_not_end),
    ("a list of gaps that cannot be read is refused with a sentence", bad_gaps),
    ("the list of this tree can be read", ours_is_read),
]


def main():
    for sentence, case in CASES:
        why = ""
        try:
            case()
        except (AssertionError, OSError) as error:
            why = f"{type(error).__name__}: {error}"
        tap_kit.tell(not why, sentence, why)
    return tap_kit.end()


if __name__ == "__main__":
    sys.exit(main())

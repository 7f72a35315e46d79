#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""charts_test.py: tools/charts.py draws what benchmarks print, and an XML parser reads it."""

import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.dont_write_bytecode = True  # nothing of ours in the source tree
sys.path.insert(0, os.path.join(ROOT, "tools"))

import charts
import tap_kit

SVG = "{http://www.w3.org/2000/svg}"
LOG = """commit 1; 2 cores
== ab: build-bench beside itself
  run, sqlite       4.920    4.931  1.002  0.991..1.012   3.1 %    20         3        2           2.671M  same
== bench_one
  puts & gets <fast>                                          81682 puts/s  (70675 to 89217, 5 rounds)
  one round, and nothing                                          0 puts/s  (0 to 0, 1 rounds)
  a ratio                                                   1.00769 x       bar >= 0.909091: met
                                                                            (0.991 to 1.02 round by round)
  memory                                                    128.125 MiB     bar <= 64: missed by 64.125 (100.2 %)
  a count without a unit                                     100000         bar >= 100000: met
all bars were met
== bench_two, of 7f81ed6
  latency                                                       100 us      (90 to 110, 7 rounds)
== bench_nothing
skipped
== export beside holdfast merge, while workers compact
  not of a program                                              100 us      (90 to 110, 7 rounds)
"""


def draw(log):
    """The pictures by name; each is well-formed."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, os.path.join(ROOT, "tools", "charts.py"), folder], input=log, text=True,
                       check=True)
        return {name: ElementTree.parse(os.path.join(folder, name)).getroot() for name in os.listdir(folder)}


def texts(root):
    return [one.text for one in root.iter(SVG + "text")]


def count(root, kind):
    return sum(one.get("class") == kind for one in root.iter(SVG + "rect"))


def one_picture_for_each_program():
    assert sorted(draw(LOG)) == ["bench_one.svg", "bench_two.svg"]
    assert "bench_two, of 7f81ed6" in texts(draw(LOG)["bench_two.svg"])


def figures_and_targets_are_bars():
    root = draw(LOG)["bench_one.svg"]
    assert (count(root, "figure"), count(root, "met"), count(root, "missed")) == (2, 2, 1)
    assert {"81,682 puts/s", "1.01 x (>= 0.909)", "128 MiB (<= 64)"} <= set(texts(root)), texts(root)


def names_are_texts():
    assert "puts & gets <fast>" in texts(draw(LOG)["bench_one.svg"])


def an_empty_log_has_no_pictures():
    assert not draw("")


def the_pictures_of_the_documents_are_well_formed():
    folder = os.path.join(ROOT, "docs", "charts")
    found = [name for name in os.listdir(folder) if name.endswith(".svg")]
    assert found
    for name in found:
        ElementTree.parse(os.path.join(folder, name))


def lines_have_panels():
    panels = [("memory", {"a & b": [(0, 1), (10, 3)], "c": [(0, 2)]}), ("nothing", {})]
    text = charts.draw_lines("one hour", "minutes", panels)
    assert len(re.findall("<polyline", text)) == 2
    ElementTree.fromstring(text)
    for part in ("memory", "nothing", "a &amp; b", "0 to 10 minutes", "one hour"):
        assert part in text, part


CASES = [
    ("lines are drawn in panels, one for each quantity", lines_have_panels),
    ("each program that prints figures has a picture", one_picture_for_each_program),
    ("figures and targets are bars, met or missed", figures_and_targets_are_bars),
    ("what a name contains is shown as text", names_are_texts),
    ("a log without figures has no pictures", an_empty_log_has_no_pictures),
    ("the pictures in docs are well-formed", the_pictures_of_the_documents_are_well_formed),
]


def main():
    for sentence, case in CASES:
        why = ""
        try:
            case()
        except (AssertionError, KeyError, ElementTree.ParseError, subprocess.CalledProcessError) as error:
            why = f"{type(error).__name__}: {error}"
        tap_kit.tell(not why, sentence, why)
    return tap_kit.end()


if __name__ == "__main__":
    sys.exit(main())

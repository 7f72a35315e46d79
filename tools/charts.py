#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""charts.py: draws the figures of benchmarks as SVG charts, one file per benchmark.

    charts.py FOLDER < LOG

LOG is what tools/bench.sh prints. FOLDER gets bench_NAME.svg for each benchmark in it: a bar for each
figure, with the range of its rounds, on one scale for each unit; and for each target how far the
measured value is on the right side of it. The scales are logarithmic.
"""

import math
import os
import re
import sys
from xml.sax.saxutils import escape

PROGRAM = re.compile(r"^== ((bench_\w+|\w+_speed)\b.*?)\s*$")
FIGURE = re.compile(r"^  (?P<name>\S.*?)\s{2,}(?P<value>\d+) (?P<unit>\S+)\s+"
                    r"\((?P<least>\d+) to (?P<most>\d+), (?P<rounds>\d+) rounds?\)$")
TARGET = re.compile(r"^  (?P<name>\S.*?)\s{2,}(?P<value>[\d.e+-]+) (?P<unit>\S*)\s+"
                    r"bar (?P<way><=|>=) (?P<bar>[\d.e+-]+): (?P<end>met|missed)")

WIDTH, NAMES, VALUES, ROW = 1040, 420, 210, 20
STYLE = """<style>
text{font:12px system-ui,sans-serif;fill:#222}.title{font-weight:600;font-size:15px}
.name{text-anchor:end}.unit{fill:#666}.back{fill:#fff}.figure{fill:#0969da}.met{fill:#1a7f37}
.missed{fill:#cf222e}.line{stroke:#666}.range{stroke:#222}
@media(prefers-color-scheme:dark){text{fill:#ddd}.unit{fill:#999}.back{fill:#111}.figure{fill:#58a6ff}
.met{fill:#3fb950}.missed{fill:#f85149}.line{stroke:#999}.range{stroke:#ddd}}
</style>"""


def read(lines):
    """The title, figures and targets of each program, in the order of the log."""
    programs, current = {}, None
    for line in lines:
        line = line.rstrip("\n")
        if line.startswith("== "):
            found = PROGRAM.match(line)
            current = programs.setdefault(found.group(2), (found.group(1), [], [])) if found else None
        elif current is not None:
            for kind, pattern in ((1, FIGURE), (2, TARGET)):
                found = pattern.match(line)
                if found:
                    current[kind].append(found.groupdict())
    return {name: found for name, found in programs.items() if found[1] or found[2]}


class Chart:
    def __init__(self, title):
        self.parts, self.y = [], 44
        self.title = title
        self.text("title", 12, 24, title)

    def text(self, kind, x, y, text):
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>')

    def line(self, kind, x0, y0, x1, y1):
        self.parts.append(f'<line class="{kind}" x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"/>')

    def heading(self, text):
        self.y += 10
        self.text("unit", NAMES, self.y + 12, text)
        self.y += ROW

    def row(self, name, kind, x0, x1, value):
        self.text("name", NAMES - 8, self.y + 14, name if len(name) < 62 else name[:60] + "…")
        self.parts.append(f'<rect class="{kind}" x="{min(x0, x1):.1f}" y="{self.y + 3}" '
                          f'width="{max(abs(x1 - x0), 1):.1f}" height="14"/>')
        self.text("unit", WIDTH - VALUES + 8, self.y + 14, value)
        self.y += ROW

    def whole(self):
        height = self.y + 16
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
                f'viewBox="0 0 {WIDTH} {height}" role="img">\n<title>{escape(self.title)}</title>\n{STYLE}\n'
                f'<rect class="back" x="0" y="0" width="{WIDTH}" height="{height}"/>\n'
                + "\n".join(self.parts) + "\n</svg>\n")


def draw_figures(chart, figures):
    """On one scale for each unit, from a tenth of the smallest value to the largest."""
    for unit in dict.fromkeys(one["unit"] for one in figures):
        of_unit = [one for one in figures if one["unit"] == unit]
        values = [max(float(one[part]), 0.5) for one in of_unit for part in ("value", "least", "most")]
        first, last = math.log10(min(values)) - 1, math.log10(max(values))
        room = WIDTH - VALUES - NAMES

        def place(value, first=first, last=last, room=room):
            return NAMES + room * (math.log10(max(float(value), 0.5)) - first) / (last - first)

        chart.heading(unit)
        for one in of_unit:
            middle = chart.y + 10
            chart.row(one["name"], "figure", NAMES, place(one["value"]), f"{int(one['value']):,} {unit}")
            chart.line("range", place(one["least"]), middle, place(one["most"]), middle)


def draw_targets(chart, targets):
    """To the right of the line: better than the target."""
    better = []
    for one in targets:
        value, bar = float(one["value"]), float(one["bar"])
        ratio = value / bar if bar > 0 and value > 0 else 1
        better.append(math.log10(ratio if one["way"] == ">=" else 1 / ratio))
    widest = max(max(map(abs, better)), 0.1)
    middle, room = NAMES + (WIDTH - VALUES - NAMES) / 2, (WIDTH - VALUES - NAMES) / 2
    chart.heading("targets: green is on the right side")
    top = chart.y
    for one, far in zip(targets, better):
        chart.row(one["name"], one["end"], middle, middle + room * far / widest,
                  f"{float(one['value']):.3g} {one['unit']} ({one['way']} {float(one['bar']):.3g})")
    chart.line("line", middle, top, middle, chart.y)


PANEL, COLOURS = 150, ("#0969da", "#1a7f37", "#cf222e", "#9a6700", "#8250df", "#1b7c83", "#bc4c00", "#6e7781")


def draw_lines(title, unit, panels):
    """A chart of several panels, one below the other: (what, {name: [(x, y)...]}) each, from zero up."""
    chart = Chart(title)
    left, right = 90, WIDTH - VALUES
    last = max((x for _, lines in panels for points in lines.values() for x, _ in points), default=1) or 1
    for what, lines in panels:
        chart.text("unit", left, chart.y + 12, what)
        top, bottom = chart.y + 20, chart.y + 20 + PANEL
        most = max((y for points in lines.values() for _, y in points), default=1) or 1
        chart.line("line", left, bottom, right, bottom)
        chart.text("name", left - 6, top + 8, f"{most:,.4g}")
        chart.text("name", left - 6, bottom, "0")
        for number, (name, points) in enumerate(lines.items()):
            colour = COLOURS[number % len(COLOURS)]
            place = " ".join(f"{left + (right - left) * x / last:.1f},{bottom - PANEL * y / most:.1f}"
                             for x, y in points)
            chart.parts.append(f'<polyline points="{place}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
            chart.parts.append(f'<rect x="{right + 10}" y="{top + 18 * number}" width="10" height="10" fill="{colour}"/>')
            chart.text("unit", right + 26, top + 10 + 18 * number, name)
        chart.y = bottom + 16
    chart.text("unit", left, chart.y + 8, f"0 to {last:,.4g} {unit}")
    chart.y += 16
    return chart.whole()


def draw(title, figures, targets):
    chart = Chart(title)
    if figures:
        draw_figures(chart, figures)
    if targets:
        draw_targets(chart, targets)
    return chart.whole()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, found in read(sys.stdin).items():
        with open(os.path.join(sys.argv[1], name + ".svg"), "w", encoding="utf-8") as file:
            file.write(draw(*found))


if __name__ == "__main__":
    main()

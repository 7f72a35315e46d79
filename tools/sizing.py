#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sizing.py: measures simulated fleets, and writes their figures into docs/sizing.md and its chart.

    sizing.py HOLDFAST_SIM [--log FILE]     run all fleets (about ten minutes of one core)
    sizing.py --from FILE                   write the tables and the chart from an earlier log

FILE has one JSON object per fleet. The tables are between the lines <!-- sizing NAME --> and
<!-- end --> of docs/sizing.md; all other text is left alone.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time

import charts

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs/sizing.md")
CHART = os.path.join(ROOT, "docs/charts/sizing.svg")

# A claim every 10 s is the rate of compactors whose merges take 5 s and that are half busy.
SPREAD = [(64, 1, 20), (64, 4, 20), (64, 16, 20), (1000, 8, 3), (1000, 16, 5), (1000, 64, 5), (1000, 250, 5),
          (10000, 1000, 4)]
PATIENT = {"claim-every": 60, "poll": 30}
FLEETS = [("spread", {"workers": w, "partitions": p, "minutes": m}) for w, p, m in SPREAD]
FLEETS += [("large", {"workers": 10000, "partitions": p, "minutes": m, **PATIENT}) for p, m in ((300, 4), (1000, 60))]
FLEETS += [("turn", {"workers": 1000, "partitions": 64, "minutes": 10, "claim-every": 60, "poll": poll})
           for poll in (2, 10, 30, 120)]
FLEETS += [("beat", {"workers": 1000, "partitions": 64, "minutes": 10, "claim-every": 60, "poll": 10, "beat": beat})
           for beat in (10, 30, 60, 300)]
FLEETS += [("ttl", {"workers": 1000, "partitions": 64, "minutes": 30, **PATIENT, "lock-ttl": lock,
                    "chunk-ttl": chunk}) for lock, chunk in ((10, 60), (30, 300), (60, 900))]

# So many compactors on one lease table, each with 0.1 claims a second.
FLEETS += [("few", {"workers": w, "partitions": 1, "minutes": 120, "mergers": None}) for w in (1, 2, 5)]


def run_all(program, log):
    fleets = []
    for kind, options in FLEETS:
        words = [word for name, value in options.items()
                 for word in ((f"--{name}",) if value is None else (f"--{name}", str(value)))]
        print(f"sizing: {kind}: {' '.join(words)}", file=sys.stderr, flush=True)
        with subprocess.Popen([program, "scale", "--json", *words], stdout=subprocess.PIPE, text=True) as process:
            out = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            sys.exit(f"sizing: the fleet {' '.join(words)} failed")
        fleet = {"kind": kind, "date": time.strftime("%Y-%m-%d"),
                 "machine": f"{platform.machine()}, {os.cpu_count()} cores", **json.loads(out),
                 "core_s": usage.ru_utime + usage.ru_stime, "memory_mib": usage.ru_maxrss / 1024}
        fleets.append(fleet)
        if log:
            with open(log, "a", encoding="ascii") as out:
                out.write(json.dumps(fleet) + "\n")
    return fleets


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def seconds(value):
    if value == 0:
        return "–"
    return "over 600 s" if value > 600 else f"{number(value)} s"


def percent(value):
    return f"{100 * value:.1f} %"


COLUMNS = {
    "workers": ("workers", lambda f: f"{f['workers']:,}"),
    "partitions": ("partitions", lambda f: f"{f['partitions']:,}"),
    "offered": ("offered /s", lambda f: number(f["offered_per_s"])),
    "claims": ("claims /s", lambda f: number(f["claims_per_s"])),
    "puts": ("lease puts per claim", lambda f: f"{f['lease_puts_per_claim']:.2f}"),
    "conflicts": ("of these in vain", lambda f: percent(f["lease_conflict_share"])),
    "wait": ("due until claimed, p50 / p99", lambda f: f"{seconds(f['claim_wait_p50_s'])} / {seconds(f['claim_wait_p99_s'])}"),
    "leader": ("takeover of a leader, p99", lambda f: seconds(f["leader_takeover_p99_s"])),
    "claim": ("of a claim, p99", lambda f: seconds(f["claim_takeover_p99_s"])),
    "lock": ("wait for a lock, p99", lambda f: seconds(f["lock_wait_p99_s"])),
    "requests": ("requests a day", lambda f: f"{f['all_requests_per_s'] * 86400 / 1e6:,.1f} M"),
    "dollars": ("dollars a day", lambda f: number(f["all_dollars_a_day"])),
    "throttled": ("503", lambda f: percent(f["throttled_share"])),
    "beat": ("heartbeat", lambda f: f"{f['beat_s']:.0f} s"),
    "poll": ("poll", lambda f: f"{f['poll_s']:.0f} s"),
    "roster": ("of these for rosters", lambda f: number(f["roster_dollars_a_day"])),
    "reads": ("for catalogs and leases", lambda f: number(f["catalog_dollars_a_day"] + f["leases_dollars_a_day"])),
    "reads_per_claim": ("requests to the table per claim",
                        lambda f: f"{f['leases_requests_per_s'] / f['claims_per_s']:.1f}"),
    "locks": ("dollars a day for locks", lambda f: number(f["locks_dollars_a_day"])),
    "ttls": ("ttl of locks / claims", lambda f: f"{f['lock_ttl_s']:.0f} s / {f['chunk_ttl_s']:.0f} s"),
    "simulated": ("simulated", lambda f: f"{f['minutes']:.0f} min"),
    "core": ("time of one core", lambda f: seconds(f["core_s"])),
    "memory": ("memory", lambda f: f"{number(f['memory_mib'])} MiB"),
}
TABLES = {
    "spread": "workers partitions offered claims puts conflicts wait leader requests dollars throttled",
    "large": "workers partitions offered claims puts conflicts wait leader requests dollars throttled simulated core memory",
    "turn": "poll claims wait requests dollars roster reads",
    "beat": "beat claims wait leader requests dollars roster",
    "few": "workers claims puts conflicts reads_per_claim wait",
    "ttl": "ttls leader claim lock locks dollars",
}


def table(fleets, kind):
    columns = [COLUMNS[name] for name in TABLES[kind].split()]
    rows = [[show(fleet) for _, show in columns] for fleet in fleets if fleet["kind"] == kind]
    lines = ["| " + " | ".join(title for title, _ in columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def chart(fleets):
    figures = []
    for title, unit in (("claims_per_s", "claims/s"), ("all_dollars_a_day", "dollars/day"),
                        ("claim_wait_p99_s", "s until a group is claimed (p99)")):
        for fleet in fleets:
            if fleet["kind"] in ("spread", "large"):
                value = str(round(fleet[title]))
                figures.append({"name": f"{fleet['workers']:,} workers, {fleet['partitions']:,} partitions, "
                                        f"a claim every {fleet['claim_every_s']:.0f} s",
                                "value": value, "least": value, "most": value, "unit": unit, "rounds": "1"})
    return charts.draw("simulated fleets on a store like S3", figures, [])


def write(fleets):
    with open(PAGE, encoding="utf-8") as page:
        text = page.read()
    said = {kind: table(fleets, kind) for kind in TABLES}
    said["when"] = f"Simulated on {fleets[-1]['date']}, {fleets[-1]['machine']}."
    for name, lines in said.items():
        mark = f"<!-- sizing {name} -->\n"
        assert mark in text, f"docs/sizing.md lacks {mark}"
        text = re.sub(re.escape(mark) + r".*?<!-- end -->", lambda _, m=mark, l=lines: f"{m}{l}\n<!-- end -->",
                      text, flags=re.S)
    with open(PAGE, "w", encoding="utf-8") as page:
        page.write(text)
    with open(CHART, "w", encoding="utf-8") as out:
        out.write(chart(fleets))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--log")
    parser.add_argument("--from", dest="source")
    asked = parser.parse_args()
    if bool(asked.program) == bool(asked.source):
        sys.exit(__doc__)
    if asked.source:
        with open(asked.source, encoding="ascii") as log:
            fleets = [json.loads(line) for line in log]
    else:
        fleets = run_all(asked.program, asked.log)
    write(fleets)


if __name__ == "__main__":
    main()

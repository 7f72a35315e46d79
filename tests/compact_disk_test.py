#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compact_disk_test.py: compaction on a scratch disk that is too small, or full: a chunk that needs
more than there is ends alone in quarantine, the others are merged, and nobody is blamed for a disk
that somebody else has filled.

Prints TAP. Scratch folders are those of cli_test.py; disks are small ones in a mount namespace of
their own.
"""

import json
import os
import random
import subprocess
import sys

import cases
import duckdb_kit
from cli_test import LOCAL, MIB, PROGRAM, equal, it, true
from compact_cli_test import BEGIN, DIR, chunks, create, of_kind, plan
from merge_cases import zstd

cases.cases.clear()

DISK = 16 * MIB

# Mounts the disk, and runs the lines of the first argument, in which "$@" is the program.
SMALL_DISK = f"""
mount -t tmpfs -o size={DISK} none scratch || exit 99
eval "$0"
"""


def run_on_disk(s, lines):
    """The events of the runs in `lines`, and their exit status; None where nothing can be mounted."""
    os.makedirs(s.file("scratch"), exist_ok=True)
    spaces = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-r", "--mount"]
    done = subprocess.run([*spaces, "sh", "-c", SMALL_DISK, lines, PROGRAM, "compact", "run",
                           "--jobs", "1", "--json", "--scratch", "scratch"], cwd=s.path,
                          env=s.env, capture_output=True, timeout=300, check=False)
    if done.returncode == 99 or b"unshare" in done.stderr:
        print("# skipped: needs root, or namespaces for users")
        return None, 0
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def rows(tag, count, size, rng=None):
    """So many rows of about so many bytes, with keys that rise."""
    values = (b"%0*x" % (size, rng.getrandbits(4 * size)) if rng else b"x" * size
              for _ in range(count))
    return b"".join(b"%b-%06d\x1f%b\x1f%d\n" % (tag, i, value, BEGIN)
                    for i, value in enumerate(values))


def ingest(s, files):
    for name, data in files.items():
        s.write(name, data)
    return dict(zip(files, (one["key"] for one in s.lines("compact", "ingest", *files))))


def check_alone_in_quarantine(s, large, small, events, exit_status):
    """Only the large one is, with a sentence; the others are merged, and all ends."""
    true(exit_status != 0, "a group that failed is told")
    equal(of_kind(events, "done")[0]["totals"]["groups_failed"], 3, "as many tries as there are")
    left = {chunk["key"]: chunk["quarantine"] for chunk in chunks(s)}
    why = left.pop(large)
    true("scratch space" in why and "16.0 MiB" in why, why)
    equal([key for key, quarantine in left.items() if quarantine], [], "others in quarantine")
    equal([key for key in small if key in left], [], "others that were not merged")
    equal(plan(s)["groups"], 0, "nothing is left to do")


@it("a chunk that unpacks to more than the disk holds ends alone in quarantine", DIR)
def _(s):
    create(s)
    bomb = zstd(rows(b"bomb", 50000, 1000))
    true(len(bomb) < 200000, f"{len(bomb)} bytes")
    files = {f"small-{i}": rows(b"k%d" % i, 10, 100) for i in range(8)}
    names = ingest(s, {"bomb.zst": bomb, **files})
    events, exit_status = run_on_disk(s, '"$@" --all')
    if events is not None:
        check_alone_in_quarantine(s, names.pop("bomb.zst"), names.values(), events, exit_status)


@it("a chunk that is larger than the disk ends alone in quarantine", LOCAL)
def _(s):
    create(s)
    large = rows(b"large", 20000, 1000, random.Random(1))
    files = {f"small-{i}": rows(b"k%d" % i, 10, 100) for i in range(8)}
    names = ingest(s, {"large": large, **files})
    events, exit_status = run_on_disk(s, '"$@" --all')
    if events is not None:
        check_alone_in_quarantine(s, names.pop("large"), names.values(), events, exit_status)


@it("for a disk that somebody else has filled no chunk is blamed, and later all are merged", LOCAL)
def _(s):
    create(s)
    ingest(s, {f"in-{i}": rows(b"k%d" % i, 1000, 1000) for i in range(3)})
    fill = f"head -c {DISK - MIB // 2} /dev/zero > scratch/others"
    events, exit_status = run_on_disk(s, f'{fill}; "$@"; status=$?; rm scratch/others; "$@"; '
                                         'exit $status')
    if events is None:
        return
    true(exit_status != 0, "the first run fails")
    ends = of_kind(events, "ended")
    equal([one["end"] for one in ends], ["failed", "committed"])
    true("No space left" in ends[0]["why"] and "scratch space" not in ends[0]["why"], ends[0])
    equal([chunk["quarantine"] for chunk in chunks(s)], [None])


@it("nor is a chunk of Parquet blamed, on which DuckDB fails for lack of disk space", DIR)
def _(s):
    if not duckdb_kit.library_path():
        print("# skipped: DuckDB's library is missing")
        return
    s.env["HOLDFAST_DUCKDB"] = duckdb_kit.library_path()
    s.env["HOLDFAST_PARQUET"] = os.path.join(os.environ["HOLDFAST_BUILD"], "src/parquet/holdfast-parquet")
    create(s, "--format", "parquet", "--key", "id", "--time", "seen", "--tries", "1")
    names = [f"in-{i}.parquet" for i in range(3)]
    for i, name in enumerate(names):
        duckdb_kit.Duck().write(s.file(name), f"SELECT md5((n + {i})::VARCHAR) AS id, n AS seen, "
                                              "md5(n::VARCHAR) AS text FROM range(30000) t(n)")
    s.run("compact", "ingest", "-q", *names)
    fill = f"head -c {DISK - MIB // 2} /dev/zero > scratch/others"
    events, _ = run_on_disk(s, f'{fill}; "$@"; rm scratch/others; "$@"')
    if events is None:
        return
    ends = of_kind(events, "ended")
    equal([(one["end"], one.get("blame")) for one in ends], [("failed", "nobody"), ("committed", None)])
    true("No space left" in ends[0]["why"], ends[0])
    equal([chunk["quarantine"] for chunk in chunks(s)], [None])


if __name__ == "__main__":
    sys.exit(cases.main())

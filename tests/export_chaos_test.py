#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""export_chaos_test.py: a partition is exported while four workers compact it and two of them are
killed.

    export_chaos_test.py [--chunks N] [--rows N] [--rounds N] [--bars]

The export must be what `holdfast merge` makes of the files that were ingested, byte for byte. With
--bars, its peak memory and its speed beside `holdfast merge`, under the same load, are checked too:
the median of the rounds, in which either goes first in turn. `make bench` does this with 100 chunks
and 5,000,000 rows. Prints TAP, and figures behind '#'.
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

from tap_kit import end, say, tell

PROGRAM = os.path.abspath(os.environ["HOLDFAST_PROGRAM"])
WORKERS, KILLED = 4, 2
MEMORY_MAX_MIB = 64
SPEED_MIN = 0.7  # of `holdfast merge`
HOUR_MS = 1_700_000_000_000 // 3_600_000 * 3_600_000
FIELDS = ["--format", "usv", "--key", "1", "--time", "2"]


def make_files(folder, chunks, rows):
    """Sorted files in which every key occurs more than once, on average, and the latest row of each
    key, if there are few enough to keep them."""
    draw = random.Random(7)
    newest = {} if rows <= 1_000_000 else None
    paths = []
    for chunk in range(chunks):
        keys = sorted(draw.randrange(rows * 3 // 4) for _ in range(rows // chunks))
        path = os.path.join(folder, f"{chunk:03}.usv")
        with open(path, "w", encoding="ascii", newline="\n") as file:
            for key in keys:
                when = HOUR_MS + draw.randrange(3_600_000)
                row = f"key-{key:09}\x1f{when}\x1f{chunk:03} and {key * 2654435761 % 2**32:010} more"
                file.write(row + "\n")
                if newest is not None and (when, row) > newest.get(key, (0, "")):
                    newest[key] = (when, row)
        paths.append(path)
    return paths, newest


def holdfast(*args, store=None):
    environment = {**os.environ, **({"HOLDFAST_STORE": "dir:" + store} if store else {})}
    return subprocess.Popen([PROGRAM, *args], env=environment, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE)


def must(process):
    text = process.communicate()[1]
    if process.returncode != 0:
        sys.exit(f"{process.args}: {process.returncode}: {text.decode(errors='replace')}")


def measured(process, begun):
    """The seconds until it ends, its status, peak memory in MiB, and what it said."""
    text = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (time.monotonic() - begun, process.returncode, usage.ru_maxrss / 1024,
            text.decode(errors="replace"))


class Crew:
    """Workers on a new partition with these files."""

    def __init__(self, folder, paths):
        self.store = tempfile.mkdtemp(dir=folder)
        must(holdfast("compact", "create", *FIELDS, "--grace", "0", "--level0-count", "4",
                      "--group-max", "8", "--step", "50ms", "--ttl", "10s", store=self.store))
        must(holdfast("compact", "ingest", *paths, store=self.store))
        self.workers = [holdfast("compact", "watch", "--jobs", "1", "--threads", "1", "--memory",
                                 "16MiB", "--scratch", folder, "-q", store=self.store)
                        for _ in range(WORKERS)]

    def kill_some(self):
        for worker in self.workers[:KILLED]:
            worker.send_signal(signal.SIGKILL)

    def end(self):
        for worker in self.workers:
            worker.kill()
            worker.communicate()
        shutil.rmtree(self.store)


def under_load(folder, paths, make_command):
    """Runs a command beside a new crew, two of which are killed while it runs."""
    crew = Crew(folder, paths)
    time.sleep(0.1)  # they begin to merge
    begun = time.monotonic()
    process = make_command(crew.store)
    killer = threading.Timer(0.1, crew.kill_some)
    killer.start()
    result = measured(process, begun)
    killer.join()
    crew.end()
    return result


def digest(path):
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            sha.update(piece)
    return sha.hexdigest()


def expect_rows(path, newest):
    with open(path, encoding="ascii", newline="\n") as file:
        got = file.read().split("\n")[:-1]
    want = [newest[key][1] for key in sorted(newest)]
    tell(got == want, f"the export has the latest row of each of {len(newest)} keys, in order",
         "" if got == want else f"{len(got)} rows instead of {len(want)}")


def export_round(folder, paths, speeds, memories):
    exported, merged = os.path.join(folder, "exported"), os.path.join(folder, "merged")
    commands = {
        "export": lambda store: holdfast("compact", "export", "-o", exported, "--scratch", folder,
                                         "--format", "usv", store=store),
        "merge": lambda store: holdfast("merge", *FIELDS, "-o", merged, *paths),
    }
    order = sorted(commands, reverse=len(speeds) % 2 == 1)
    results = {name: under_load(folder, paths, commands[name]) for name in order}
    took, status, memory, text = results["export"]
    tell(status == 0, f"an export ends well while {WORKERS} workers compact and {KILLED} are killed",
         text)
    beside, status, _, text = results["merge"]
    if status != 0:
        sys.exit(text)
    say(f"export {took:.2f} s in {memory:.1f} MiB, merge {beside:.2f} s: {beside / took:.2f}")
    speeds.append(beside / took)
    memories.append(memory)
    tell(digest(exported) == digest(merged), "it is what a merge of the files gives")
    return exported


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--bars", action="store_true")
    options = parser.parse_args()
    speeds, memories = [], []
    with tempfile.TemporaryDirectory(prefix="holdfast-export-") as folder:
        os.mkdir(os.path.join(folder, "in"))
        paths, newest = make_files(os.path.join(folder, "in"), options.chunks, options.rows)
        for _ in range(options.rounds):
            exported = export_round(folder, paths, speeds, memories)
        if newest is not None:
            expect_rows(exported, newest)
    if options.bars:
        speed = statistics.median(speeds)
        tell(speed >= SPEED_MIN, f"it is at least {SPEED_MIN} times as fast as holdfast merge: "
             f"{speed:.2f} ({min(speeds):.2f} to {max(speeds):.2f}, {len(speeds)} rounds)")
        tell(max(memories) <= MEMORY_MAX_MIB,
             f"it takes at most {MEMORY_MAX_MIB} MiB: {max(memories):.1f}")
    return end()


if __name__ == "__main__":
    sys.exit(main())

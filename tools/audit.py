#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""audit.py: audits a compacted partition: was anything lost, duplicated or left behind?

    audit.py FOLDER ROWS [--partition NAME] [--events FILE]... [--settled] [--json]

FOLDER is the bucket as plain files: the folder of a dir: store, or a copy of another store
(holdfast store cp --recursive --to dir:FOLDER). ROWS has every record that was ever ingested, one
per line, in USV; by default the key is field 1, and the time, in seconds or milliseconds, is field
3. FILE is the output of a worker's `compact run --json`, which may be cut off.

It shares no code with Holdfast: it reads catalogs and objects itself, and needs only the standard
library. The record with the latest time of each key must be there; of two records with the same
time it is the one that compares greater bytewise. Exit status 0: no failure was found. """

import argparse
import collections
import gzip
import json
import sys

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import bucket
from bucket import UNIT, crc32c, winners

DEFAULT = "default"


# ---- Records ------------------------------------------------------------------------------------


def records(data):
    """The records of USV data, without their newlines."""
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    return [line for line in data.split(b"\n") if line]


class Fields:
    """The positions of the key and the time in a record."""

    def __init__(self, key, time):
        self.key, self.time = key - 1, time - 1

    def key_of(self, record):
        return record.split(UNIT)[self.key]

    def rank(self, record):
        return int(record.split(UNIT)[self.time]), record


# ---- Logs of workers ----------------------------------------------------------------------------


def read_events(path):
    """The events of one worker. The last one may be cut off, if the worker was killed."""
    events = []
    with open(path, "rb") as source:
        for line in source:
            try:
                events.append(json.loads(line))
            except ValueError:
                break
    return events


def judge_events(logs):
    """Counts the committed groups, and lists those with a source that was already committed. Also
    counts the bytes merged for nothing: by merges that were not committed, and by merges that the
    death of their worker cut short."""
    merged, committed, twice, wasted, cut = set(), 0, [], 0, 0
    for log in logs:
        begun = {}
        for event in log:
            group = tuple(event.get("sources", ()))
            if event["event"] == "started":
                begun[group] = event["input_bytes"]
            elif event["event"] == "ended":
                begun.pop(group, None)
                if event["end"] != "committed":
                    wasted += event["merged_bytes"]
                    continue
                committed += 1
                if not merged.isdisjoint(group):
                    twice.append(event["output"])
                merged.update(group)
        cut += sum(begun.values())
    return committed, twice, wasted, cut


# ---- The audit ----------------------------------------------------------------------------------


class Audit(bucket.Audit):
    def __init__(self, store, partition, fields):
        super().__init__()
        self.store, self.fields = store, fields
        self.objects = store.objects("")
        self.catalogs = list(self.read_catalogs(partition))
        self.live = [chunk for catalog in self.catalogs for chunk in catalog["chunks"]]

    def get(self, key):
        """The bytes of an object, or None."""
        return self.store.read(self.objects[key]) if key in self.objects else None

    def read_catalogs(self, partition):
        """The catalog of a partition, and those of its children after a split."""
        path = "metadata/" if partition == DEFAULT else f"metadata/{partition}/"
        text = self.get(path + "catalog.json")
        if text is None:
            raise SystemExit(f"audit: cannot read the partition: there is no '{path}catalog.json'")
        catalog = json.loads(text)
        yield catalog
        for child in catalog.get("children", []):
            yield from self.read_catalogs(child)

    def read_chunks(self):
        """The records of all live chunks. Every chunk must match its catalog entry."""
        rows, missing, damaged = [], [], []
        for chunk in self.live:
            data = self.get(chunk["key"])
            if data is None:
                missing.append(chunk["key"])
                continue
            found = records(data)
            if (len(data), crc32c(data)) != (chunk["size"], chunk["crc32c"]):
                damaged.append(chunk["key"])
            elif chunk.get("rows", len(found)) != len(found):
                damaged.append(chunk["key"])
            rows += found
        self.none(missing, "chunks missing")
        self.none(damaged, "chunks damaged")
        return rows

    def judge_rows(self, put, found):
        """No row is lost, invented or duplicated, and each key has the right record."""
        wanted, have = winners(put, self.fields), winners(found, self.fields)
        self.judge_winners(wanted, have)
        self.none(set(found) - set(put), "rows made up")
        before, after = collections.Counter(put), collections.Counter(found)
        self.none([row for row, count in after.items() if count > before[row] > 0], "rows doubled")
        self.figures.update({"rows in": len(put), "rows out": len(found),
                             "rows superseded": len(put) - len(found)})

    def names(self):
        """Every key that a catalog lists, by its state."""
        states = {"live": [chunk["key"] for chunk in self.live], "tombstone": [], "deleting": []}
        for catalog in self.catalogs:
            for grave in catalog.get("tombstones", []):
                states["tombstone"] += [chunk["key"] for chunk in grave["chunks"]]
            for removal in catalog.get("deleting", []):
                states["deleting"] += removal["keys"]
        return states

    def judge_names(self, partition_folders, settled):
        """Each key is listed once, and each object is listed."""
        states = self.names()
        every = [key for keys in states.values() for key in keys]
        self.none([key for key, count in collections.Counter(every).items() if count > 1],
                  "names that stand twice")
        objects = [key for key in self.objects if key.startswith(partition_folders)]
        self.none(sorted(set(objects) - set(every)), "orphans")
        self.figures["chunks"] = len(self.live)
        for state in ("tombstone", "deleting"):
            self.figures[f"names {state}"] = len(states[state])
            if settled:
                self.expect(not states[state], f"{state}: {states[state][:3]} is left")

    def judge_commits(self, logs):
        committed, twice, wasted, cut = judge_events(logs)
        self.figures["groups committed"] = committed
        self.none(twice, "groups committed twice")
        self.figures.update({"bytes merged in vain": wasted, "bytes of merges cut short": cut})


def audit(folder, rows, partition=DEFAULT, events=(), settled=False, fields=Fields(1, 3)):
    """Runs the whole audit. The result has `figures` and `wrong`."""
    result = Audit(bucket.Folder(folder), partition, fields)
    folders = tuple(f"data/{catalog['partition']}/" for catalog in result.catalogs)
    result.judge_rows(rows, result.read_chunks())
    result.judge_names(folders, settled)
    if events:
        result.judge_commits([read_events(path) for path in events])
    return result


def main():
    parser = argparse.ArgumentParser(description="audit a compacted partition")
    parser.add_argument("folder")
    parser.add_argument("rows")
    parser.add_argument("--partition", default=DEFAULT)
    parser.add_argument("--events", action="append", default=[])
    parser.add_argument("--settled", action="store_true",
                        help="fail if tombstones or names being deleted are left")
    parser.add_argument("--key", type=int, default=1)
    parser.add_argument("--time", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with open(options.rows, "rb") as source:
        rows = records(source.read())
    result = audit(options.folder, rows, options.partition, options.events, options.settled,
                   Fields(options.key, options.time))
    sys.exit(result.tell(options.json))


if __name__ == "__main__":
    main()

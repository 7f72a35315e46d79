#!/usr/bin/env python3
"""audit.py: was anything lost, doubled or left behind? An audit of a compacted partition.

    audit.py FOLDER ROWS [--partition NAME] [--events FILE]... [--settled] [--json]

FOLDER is the bucket as plain files: that of a dir: store, or a copy of any other (holdfast store cp
--recursive --to dir:FOLDER). ROWS has every record that was ever put in, one a line, in USV; by
default the key is field 1 and the time, in seconds or milliseconds, field 3. FILE is what a
worker's `compact run --json` wrote, as far as it got.

It shares no code with what it judges: it reads catalogs and objects by itself, and needs the
standard library only. Of each key the record with the latest time must be there, of two with the
same time that with the greater bytes. Exit status 0: all is well.
"""

import argparse
import collections
import gzip
import json
import os
import sys

DEFAULT = "default"
UNIT = b"\x1f"


# ---- The bucket ---------------------------------------------------------------------------------


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC32C = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class Bucket:
    """Objects as files of a folder."""

    def __init__(self, folder):
        self.folder = folder

    def get(self, key):
        """The bytes of an object, or None."""
        try:
            with open(os.path.join(self.folder, key), "rb") as source:
                return source.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def keys(self, prefix):
        """All keys below a folder."""
        found = []
        for folder, _, names in os.walk(os.path.join(self.folder, prefix)):
            found += [os.path.relpath(os.path.join(folder, name), self.folder) for name in names]
        return sorted(found)

    def catalogs(self, partition):
        """A partition's catalog and those of its children, which a split has made."""
        path = "metadata/" if partition == DEFAULT else f"metadata/{partition}/"
        text = self.get(path + "catalog.json")
        if text is None:
            raise SystemExit(f"audit: there is no {path}catalog.json")
        catalog = json.loads(text)
        yield catalog
        for child in catalog.get("children", []):
            yield from self.catalogs(child)


# ---- Records ------------------------------------------------------------------------------------


def records(data):
    """The records of USV, each without its end."""
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    return [line for line in data.split(b"\n") if line]


class Fields:
    """Where in a record key and time are."""

    def __init__(self, key, time):
        self.key, self.time = key - 1, time - 1

    def of(self, record):
        fields = record.split(UNIT)
        return fields[self.key], (int(fields[self.time]), record)


def winners(rows, fields):
    """The record of each key that must be there."""
    best = {}
    for record in rows:
        key, rank = fields.of(record)
        if key not in best or rank > best[key]:
            best[key] = rank
    return {key: rank[1] for key, rank in best.items()}


# ---- What workers wrote -------------------------------------------------------------------------


def read_events(path):
    """The events of one worker; the last may be cut, when it was killed."""
    events = []
    with open(path, "rb") as source:
        for line in source:
            try:
                events.append(json.loads(line))
            except ValueError:
                break
    return events


def judge_events(logs):
    """Groups that were committed, those of which a source had been committed before, and bytes that
    were merged for nothing: by merges that ended otherwise, and by those that their worker's
    death cut short."""
    merged, committed, twice, wasted, cut = set(), 0, [], 0, 0
    for log in logs:
        begun = {}
        for event in log:
            group = tuple(event.get("sources", ()))
            if event["event"] == "started":
                begun[group] = event["bytes"]
            elif event["event"] == "ended":
                begun.pop(group, None)
                if event["end"] != "committed":
                    wasted += event["bytes_merged"]
                    continue
                committed += 1
                if not merged.isdisjoint(group):
                    twice.append(event["output"])
                merged.update(group)
        cut += sum(begun.values())
    return committed, twice, wasted, cut


# ---- The audit ----------------------------------------------------------------------------------


class Audit:
    """Figures, and what is wrong."""

    def __init__(self, bucket, partition, fields):
        self.bucket, self.fields = bucket, fields
        self.figures, self.wrong = {}, []
        self.catalogs = list(bucket.catalogs(partition))
        self.live = [chunk for catalog in self.catalogs for chunk in catalog["chunks"]]

    def expect(self, holds, sentence):
        if not holds:
            self.wrong.append(sentence)

    def none(self, found, what):
        """A figure that must be 0; what was found is told, the first few."""
        self.figures[what] = len(found)
        shown = ", ".join(str(one) for one in list(found)[:3])
        self.expect(not found, f"{what}: {len(found)} ({shown})")

    def read_chunks(self):
        """All records that are data now; every chunk must be what its catalog says."""
        rows, missing, damaged = [], [], []
        for chunk in self.live:
            data = self.bucket.get(chunk["key"])
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
        """Nothing lost, nothing made up, nothing doubled, and everywhere the right winner."""
        wanted, have = winners(put, self.fields), winners(found, self.fields)
        self.none(sorted(set(wanted) - set(have)), "keys lost")
        self.none([key for key, row in wanted.items() if have.get(key, row) != row],
                  "keys with a wrong winner")
        self.none(set(found) - set(put), "rows made up")
        before, after = collections.Counter(put), collections.Counter(found)
        self.none([row for row, count in after.items() if count > before[row] > 0], "rows doubled")
        self.figures.update({"rows in": len(put), "rows out": len(found),
                             "rows superseded": len(put) - len(found)})

    def names(self):
        """Every key that some catalog knows, by its state."""
        states = {"live": [chunk["key"] for chunk in self.live], "tombstone": [], "deleting": []}
        for catalog in self.catalogs:
            for grave in catalog.get("tombstones", []):
                states["tombstone"] += [chunk["key"] for chunk in grave["chunks"]]
            for removal in catalog.get("deleting", []):
                states["deleting"] += removal["keys"]
        return states

    def judge_names(self, partition_folders, settled):
        """Each name stands once; each object has a name."""
        states = self.names()
        every = [key for keys in states.values() for key in keys]
        self.none([key for key, count in collections.Counter(every).items() if count > 1],
                  "names that stand twice")
        objects = [key for folder in partition_folders for key in self.bucket.keys(folder)]
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
    """All of it; returns an Audit with `figures` and `wrong`."""
    result = Audit(Bucket(folder), partition, fields)
    folders = [f"data/{catalog['partition']}" for catalog in result.catalogs]
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
                        help="nothing may be a tombstone or deleting any more")
    parser.add_argument("--key", type=int, default=1)
    parser.add_argument("--time", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with open(options.rows, "rb") as source:
        rows = records(source.read())
    result = audit(options.folder, rows, options.partition, options.events, options.settled,
                   Fields(options.key, options.time))
    if options.json:
        print(json.dumps({"figures": result.figures, "wrong": result.wrong}))
    else:
        for name, figure in result.figures.items():
            print(f"  {name:<28} {figure:>12,}")
        for sentence in result.wrong:
            print(f"  WRONG: {sentence}")
        print("  all is well" if not result.wrong else "  NOT well")
    sys.exit(1 if result.wrong else 0)


if __name__ == "__main__":
    main()

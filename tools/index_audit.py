#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""index_audit.py: audits an index: was anything lost, stale or left behind?

    index_audit.py STORE NAME ROWS [--aside N] [--writes LOG] [--json]

STORE is dir:FOLDER or sqlite:FILE; copy another store first (holdfast store cp --recursive --to
dir:FOLDER). ROWS has every record that was ever put, one per line, in the form of the index. LOG
has the observed versions of shards in order, one line "shard token nonce" per version.

It shares no code with Holdfast: it reads files, the database and shards itself, and needs only the
standard library. The record with the latest time of each key must be there; of two records with the
same time it is the one that compares greater bytewise. Exit status 0: no failure was found. """

import argparse
import datetime
import fractions
import hashlib
import json
import re
import sys

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import bucket
from bucket import UNIT, crc32c, open_store, winners

ESCAPE = b"\x1b"
OURS = re.compile(r"inbox/([0-9a-f]{1,4})/(.*)~(\d{8}T\d{6}(?:\.\d+)?)-([0-9a-f]{32})\.usv\Z", re.S)
FOLDERS = ("inbox/", "shards/", "aside/")


# ---- Records ------------------------------------------------------------------------------------

MOMENT = re.compile(r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z")
START = datetime.datetime(1970, 1, 1)


def seconds_of(text):
    """A time as a number of seconds, exact."""
    match = MOMENT.match(text)
    if not match:
        number = fractions.Fraction(text)
        digits = abs(number)
        for bound, unit in ((10**11, 1), (10**14, 10**3), (10**17, 10**6)):
            if digits < bound:
                return number / unit
        return number / 10**9
    *parts, fraction, zone = match.groups()
    whole = (datetime.datetime(*(int(part) for part in parts)) - START) // datetime.timedelta(seconds=1)
    if zone not in "Zz":
        shift = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
        whole += shift if zone[0] == "-" else -shift
    return whole + (fractions.Fraction("0" + fraction) if fraction else 0)


def value_of(field):
    """The value of a field, without its escapes."""
    return re.sub(ESCAPE + rb"(.)", lambda m: bytes([m[1][0] - 0x40]), field, flags=re.S)


class Fields:
    """The positions of the key and the time in a record, counted from 0."""

    def __init__(self, key, time):
        self.key, self.time = key, time

    def key_of(self, record):
        return value_of(record.split(UNIT)[self.key])

    def rank(self, record):
        return seconds_of(value_of(record.split(UNIT)[self.time]).decode()), record


def read_rows(path):
    with open(path, "rb") as source:
        return [line for line in source.read().split(b"\n") if line]


# ---- Shards -------------------------------------------------------------------------------------


class Damaged(Exception):
    """A shard whose content does not match its head."""


PROLOGUE = re.compile(rb'\{"format":"holdfast\.shard/1","line":"(\d{8})","check":"([0-9a-f]{8})"')


def hold(condition, sentence):
    if not condition:
        raise Damaged(sentence)


def read_head(data):
    """The first line of a shard, checked, and its size."""
    match = PROLOGUE.match(data)
    hold(match, "it does not begin as a shard does")
    size = int(match[1])
    line = data[:size]
    hold(len(line) == size and line.endswith(b"\n") and b"\n" not in line[:-1],
         "its line is not as long as it says")
    hold(crc32c(line[match.end():]) == int(match[2], 16), "the check of its line is another")
    return json.loads(line), size


def read_shard(data, fields):
    """The head of a shard and its records by key, all checked."""
    head, size = read_head(data)
    body, records, at, last = data[size:], {}, 0, None
    hold(head["size"] == len(body), f"it has {len(body)} bytes of records, not {head['size']}")
    for start, length, check, first in head["blocks"]:
        block = body[at:at + length]
        hold(start == at and len(block) == length, f"block at {start}: it is not beside the last")
        hold(crc32c(block) == int(check, 16), f"block at {start}: its check is another")
        hold(block.endswith(b"\n"), f"block at {start}: it ends within a record")
        lines = block[:-1].split(b"\n")
        hold(fields.key_of(lines[0]) == first.encode(), f"block at {start}: its first key is another")
        for line in lines:
            key = fields.key_of(line)
            hold(last is None or key > last, f"{key!r} stands behind {last!r}")
            records[key] = line
            last = key
        at += length
    hold(at == len(body), f"its blocks end at {at} of {len(body)}")
    hold(len(records) == head["records"], f"it has {len(records)} records, not {head['records']}")
    return head, records


# ---- The audit ----------------------------------------------------------------------------------


def judge_writes(writes):
    """Counts the versions (shard, token, nonce), and lists those with a lower token than before."""
    last, fallen, versions = {}, [], 0
    for shard, token, nonce in writes:
        if shard in last and last[shard][1] == nonce:
            continue
        versions += 1
        if shard in last and token < last[shard][0]:
            fallen.append(f"{shard}: {token} after {last[shard][0]}")
        last[shard] = (token, nonce)
    return versions, fallen


class Audit(bucket.Audit):
    def __init__(self, store, name):
        super().__init__()
        self.store, self.prefix = store, f"indexes/{name}/"
        found = store.objects(self.prefix)
        self.objects = {key.removeprefix(self.prefix): way for key, way in found.items()}
        self.schema = json.loads(self.read("index.json"))
        names = self.schema["fields"]
        self.fields = Fields(*(names.index(self.schema[what]) for what in ("key", "time")))

    def read(self, name):
        return self.store.read(self.objects[name])

    def below(self, folder, ending):
        return sorted(name for name in self.objects
                      if name.startswith(folder) and name.endswith(ending))

    def judge_shards(self):
        """The records of all shards, by key. Each shard must be consistent."""
        records, damaged, astray, tokens = {}, [], [], []
        digits = self.schema["digits"]
        shards = self.below("shards/", ".usv")
        for name in shards:
            shard = name.removeprefix("shards/").removesuffix(".usv")
            try:
                head, found = read_shard(self.read(name), self.fields)
            except (Damaged, ValueError, KeyError, TypeError) as why:
                damaged.append(f"{name}: {why}")
                continue
            tokens.append(head["token"])
            astray += [key for key in found
                       if hashlib.sha256(key).hexdigest()[:digits] != shard]
            records.update(found)
        self.none(damaged, "shards damaged")
        self.none(astray, "records in a wrong shard")
        self.figures.update({"shards": len(shards), "records": len(records),
                             "highest token": max(tokens, default=0)})
        return records

    def judge_records(self, rows, have):
        """No record is lost or invented, and each key has the right record."""
        wanted = winners(rows, self.fields)
        self.judge_winners(wanted, have)
        self.none(set(have.values()) - set(rows), "records made up")
        self.figures.update({"records in": len(rows), "keys": len(wanted)})

    def judge_inbox(self):
        """No entry of Holdfast is left in the inbox; of other programs only empty markers are."""
        ours, others, markers = [], [], 0
        for name, way in self.objects.items():
            if OURS.match(name):
                ours.append(name)
            elif name.endswith(".usv") and (name.startswith("inbox/") or
                                            not name.startswith(FOLDERS)):
                markers += self.store.size(way) == 0
                others += [name] if self.store.size(way) else []
        self.figures["markers"] = markers
        self.none(ours, "entries left")
        self.none(others, "entries of others left")

    def judge_aside(self, expected):
        """Each entry set aside has its bytes and a reason, and their number is as expected."""
        copies = {name[:-4] for name in self.below("aside/", ".usv")}
        reasons = {name[:-5] for name in self.below("aside/", ".json")}
        self.none(copies ^ reasons, "set aside without a reason, or a reason without")
        silent = [name for name in reasons
                  if not json.loads(self.read(name + ".json")).get("reason")]
        self.none(silent, "reasons that say nothing")
        self.figures["set aside"] = len(copies)
        if len(copies) != expected:
            self.wrong.append(f"set aside: {len(copies)}, not {expected}")

    def judge_locks(self):
        """Lock files are readable for other programs: the holder, the start and the end."""
        bad = []
        names = self.below("shards/", ".lock")
        for name in names:
            try:
                lock = json.loads(self.read(name))
                begun, over = (seconds_of(lock[at]) for at in ("created_at", "expires_at"))
                if not lock["worker_id"] or over < begun:
                    bad.append(name)
            except (ValueError, KeyError, TypeError) as why:
                bad.append(f"{name}: {why!r}")
        self.none(bad, "lock files that others cannot read")
        self.figures["lock files"] = len(names)

    def judge_writes(self, writes):
        versions, fallen = judge_writes(writes)
        self.figures["versions of shards seen"] = versions
        self.none(fallen, "tokens that fell")


def audit(store, name, rows, aside=0, writes=()):
    """Runs the whole audit. The result has `figures` and `wrong`."""
    result = Audit(store, name)
    result.judge_records(rows, result.judge_shards())
    result.judge_inbox()
    result.judge_aside(aside)
    result.judge_locks()
    if writes:
        result.judge_writes(writes)
    return result


def read_writes(path):
    with open(path, encoding="utf-8") as source:
        return [(shard, int(token), nonce) for shard, token, nonce in map(str.split, source)]


def main():
    parser = argparse.ArgumentParser(description="audit an index")
    parser.add_argument("store")
    parser.add_argument("name")
    parser.add_argument("rows")
    parser.add_argument("--aside", type=int, default=0, help="how many entries should be set aside")
    parser.add_argument("--writes", help="a log of the observed versions of shards")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = audit(open_store(options.store), options.name, read_rows(options.rows), options.aside,
                   read_writes(options.writes) if options.writes else ())
    sys.exit(result.tell(options.json))


if __name__ == "__main__":
    main()

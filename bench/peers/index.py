#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""index.py files|files-sync|sqlite FOLDER RECORDS SINGLE PREFIX : an index as one would write it.

RECORDS is USV of key, note and time. All of them are put, the first SINGLE of them one by one, then
some are read, those whose key starts with PREFIX are, and all are; each key keeps its latest record.
Prints one figure a line.

    files       one JSON file a record, in folders by the SHA-256 of the key; written beside and
                renamed, so that nobody reads half of one
    files-sync  the same, and each is on disk when it is told to be there
    sqlite      a table with a primary key, WAL, synchronous=FULL; one transaction for each record of
                the first SINGLE, for 1,000 of the rest
"""
import hashlib
import json
import os
import random
import sqlite3
import sys
import time

GETS = 2000
FIELDS = ("site", "note", "updated_at")


class Files:
    def __init__(self, folder, sync):
        self.folder, self.sync = folder, sync
        for number in range(256):
            os.makedirs(f"{folder}/{number:02x}", exist_ok=True)

    def path(self, key):
        return f"{self.folder}/{hashlib.sha256(key.encode()).hexdigest()[:2]}/{key}.json"

    def get(self, key):
        with open(self.path(key), encoding="utf-8") as file:
            return json.load(file)

    def put(self, record):
        path = self.path(record[0])
        try:
            if int(self.get(record[0])["updated_at"]) >= int(record[2]):
                return
        except FileNotFoundError:
            pass
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(dict(zip(FIELDS, record)), file)
            if self.sync:
                file.flush()
                os.fsync(file.fileno())
        os.rename(path + ".new", path)
        if self.sync:
            folder = os.open(os.path.dirname(path), os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    def put_many(self, records):
        for record in records:
            self.put(record)

    def starting_with(self, prefix):
        for shard in sorted(os.listdir(self.folder)):
            for name in sorted(os.listdir(f"{self.folder}/{shard}")):
                if name.startswith(prefix):
                    with open(f"{self.folder}/{shard}/{name}", encoding="utf-8") as file:
                        yield json.load(file)


class Table:
    UPSERT = ("INSERT INTO sites VALUES (?, ?, ?) ON CONFLICT (site) DO UPDATE"
              " SET note = excluded.note, updated_at = excluded.updated_at"
              " WHERE excluded.updated_at > updated_at")

    def __init__(self, folder):
        self.base = sqlite3.connect(f"{folder}/sites.db", isolation_level=None)
        self.base.execute("PRAGMA journal_mode = WAL")
        self.base.execute("PRAGMA synchronous = FULL")
        self.base.execute("CREATE TABLE sites (site TEXT PRIMARY KEY, note TEXT, updated_at INTEGER)"
                          " WITHOUT ROWID")

    def get(self, key):
        return self.base.execute("SELECT * FROM sites WHERE site = ?", (key,)).fetchone()

    def put(self, record):
        self.base.execute(self.UPSERT, record)

    def put_many(self, records):
        for at in range(0, len(records), 1000):
            self.base.execute("BEGIN")
            self.base.executemany(self.UPSERT, records[at:at + 1000])
            self.base.execute("COMMIT")

    def starting_with(self, prefix):
        return self.base.execute("SELECT * FROM sites WHERE site >= ? AND site < ?",
                                 (prefix, prefix + "\U0010ffff"))


def timed(work):
    begun = time.perf_counter()
    result = work()
    return time.perf_counter() - begun, result


def figures(index, records, single, prefix):
    took, _ = timed(lambda: [index.put(record) for record in records[:single]])
    yield "put", single / took
    if len(records) > single:
        took, _ = timed(lambda: index.put_many(records[single:]))
        yield "put_many", (len(records) - single) / took
    keys = random.Random(5).choices([record[0] for record in records], k=GETS)
    times = sorted(timed(lambda key=key: index.get(key))[0] for key in keys)
    yield "get", times[GETS // 2] * 1e6
    took, found = timed(lambda: sum(1 for _ in index.starting_with(prefix)))
    assert found == sum(record[0].startswith(prefix) for record in records)
    yield "prefix", took * 1e3
    took, found = timed(lambda: sum(1 for _ in index.starting_with("")))
    assert found == len(records)
    yield "scan", found / took


def main():
    way, folder, path, single, prefix = sys.argv[1:]
    index = Table(folder) if way == "sqlite" else Files(folder, way == "files-sync")
    with open(path, encoding="utf-8", newline="") as file:
        records = [tuple(line.rstrip("\n").split("\x1f")) for line in file]
    for name, figure in figures(index, records, int(single), prefix):
        print(name, figure)


main()

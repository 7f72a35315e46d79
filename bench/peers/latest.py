#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""latest.py dict|sqlite OUT IN... : keep the latest record of each key of USV files, in key order.

The key is the first field, the time the third, and all times are spelt alike. As one would write
it in a few lines: with a dict, or with an upsert into a table of SQLite.
"""
import sqlite3
import sys


def rows(paths):
    """(key, time, record)"""
    for path in paths:
        with open(path, "rb") as file:
            for line in file:
                key, _, time, _ = line.split(b"\x1f", 3)
                yield key, time, line


def by_dict(paths):
    latest = {}
    for key, time, line in rows(paths):
        found = latest.get(key)
        if found is None or (time, line) > found:
            latest[key] = (time, line)
    for key in sorted(latest):
        yield latest[key][1]


def by_sqlite(paths):
    base = sqlite3.connect("")  # a temporary file
    base.execute("CREATE TABLE latest (key BLOB PRIMARY KEY, time BLOB, line BLOB) WITHOUT ROWID")
    base.executemany(
        "INSERT INTO latest VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE"
        " SET time = excluded.time, line = excluded.line"
        " WHERE (excluded.time, excluded.line) > (time, line)",
        rows(paths),
    )
    for (line,) in base.execute("SELECT line FROM latest ORDER BY key"):
        yield line


def main():
    way, out, *paths = sys.argv[1:]
    with open(out, "wb") as file:
        file.writelines({"dict": by_dict, "sqlite": by_sqlite}[way](paths))


main()

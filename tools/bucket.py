# SPDX-License-Identifier: Apache-2.0
"""bucket.py: code that the audits share: reading the objects of a store from its files or its
database, checksums, and figures, some of which must be 0. It shares no code with Holdfast, and
needs only the standard library.
"""

import json
import os
import re
import sqlite3

UNIT = b"\x1f"


# ---- Stores -------------------------------------------------------------------------------------


class Folder:
    """A dir: store. The key of an object is the path of its file: % and two digits encode a byte,
    %- encodes nothing, %+/ splits a long name, and a final % marks a file beside a folder of the
    same name."""

    def __init__(self, folder):
        self.folder = folder

    @staticmethod
    def key_of(path):
        path = path.replace("%+/", "").replace("%-", "").removesuffix("%")
        return re.sub(rb"%([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]),
                      path.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def objects(self, prefix):
        """The keys below a folder, each with the path of its file."""
        found = {}
        for folder, _, names in os.walk(os.path.join(self.folder, prefix)):
            for name in names:
                path = os.path.join(folder, name)
                found[self.key_of(os.path.relpath(path, self.folder))] = path
        return found

    def read(self, way):
        try:
            with open(way, "rb") as source:
                return source.read()
        except FileNotFoundError:
            return None

    def size(self, way):
        return os.stat(way).st_size


class Database:
    """An sqlite: store: one row per object, whose bytes are in the row or in a file beside it."""

    def __init__(self, path):
        self.path = path
        self.base = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)

    def objects(self, prefix):
        rows = self.base.execute("SELECT key, id, size FROM objects WHERE key >= ? AND key < ?",
                                 (prefix.encode(), prefix.encode() + b"\xff"))
        return {key.decode("utf-8", "surrogateescape"): (number, size) for key, number, size in rows}

    def read(self, way):
        row = self.base.execute("SELECT file, body FROM objects WHERE id = ?", way[:1]).fetchone()
        if row is None:
            return None
        if row[0] is None:
            return row[1] or b""
        with open(os.path.join(self.path + ".objects", row[0]), "rb") as source:
            return source.read()

    def size(self, way):
        return way[1]


def open_store(url):
    kind, _, path = url.partition(":")
    if kind not in ("dir", "sqlite"):
        raise SystemExit(f"audit: cannot read the store '{url}': it must be dir: or sqlite:")
    return Folder(path) if kind == "dir" else Database(path)


# ---- Bytes and records --------------------------------------------------------------------------


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC32C = crc32c_table()


def crc32c(data):
    crc, table = 0xFFFFFFFF, CRC32C
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def winners(rows, fields):
    """The record that must remain for each key."""
    best = {}
    for record in rows:
        key, rank = fields.key_of(record), fields.rank(record)
        if key not in best or rank > best[key]:
            best[key] = rank
    return {key: rank[1] for key, rank in best.items()}


# ---- Results ------------------------------------------------------------------------------------


class Audit:
    """The figures of an audit, and a sentence for each failure."""

    def __init__(self):
        self.figures, self.wrong = {}, []

    def expect(self, holds, sentence):
        if not holds:
            self.wrong.append(sentence)

    def none(self, found, what):
        """Adds a figure that must be 0; a failure names the first few items."""
        self.figures[what] = len(found)
        shown = ", ".join(str(one) for one in list(found)[:3])
        self.expect(not found, f"{what}: {len(found)} ({shown})")

    def judge_winners(self, wanted, have):
        """No key is lost, and each key has the right record."""
        self.none(sorted(set(wanted) - set(have)), "keys lost")
        self.none([key for key, row in wanted.items() if have.get(key, row) != row],
                  "keys with a wrong winner")

    def tell(self, as_json):
        """Prints the figures and failures, and returns the exit status."""
        if as_json:
            print(json.dumps({"figures": self.figures, "wrong": self.wrong}))
            return bool(self.wrong)
        width = max(map(len, self.figures)) + 3
        for name, figure in self.figures.items():
            print(f"  {name:<{width}} {figure:>12,}")
        for sentence in self.wrong:
            print(f"  WRONG: {sentence}")
        print("  all is well" if not self.wrong else "  NOT well")
        return bool(self.wrong)

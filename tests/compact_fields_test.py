#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compact_fields_test.py: partitions whose files have different columns or members, and whose keys
are more than one field compared as bytes.

Prints TAP. Merged chunks are read with Python's csv and json modules. Scratch folders, and how the
program is run in them, are those of cli_test.py.
"""

import csv
import gzip
import io
import json
import os
import random
import sys

import cases
import cli_test
from cli_test import code, equal, fails, it, true
from merge_fields_test import SEED, Case

cases.cases.clear()

DIR = ["dir"]
AT = 1770000000


def create(s, *args):
    s.run("compact", "create", "-q", *args, "--time", "at", "--grace", "0", "--skew", "0")


def ingest(s, files, expect=0):
    """Ingests files of these contents; the names of those that were taken, and why not the others,
    each by its name."""
    names = []
    for name, data in files.items():
        s.write(name, data)
        names.append(name)
    done = s.run("compact", "ingest", "--json", *names, expect=expect)
    taken = [json.loads(line)["path"] for line in done.stdout.splitlines()]
    whys = [json.loads(line)["why"] for line in done.stderr.splitlines()]
    refused = {name: next((why for why in whys if name in why), None)
               for name in names if name not in taken}
    equal(len(whys), len(refused), f"one sentence for each: {whys}")
    return taken, refused


def run(s):
    done = s.run("compact", "run", "--force", "--jobs", "1", "--json")
    return [json.loads(line) for line in done.stdout.splitlines()]


def only_chunk(s):
    """The contents of the only live chunk."""
    live = s.lines("compact", "ls")
    equal(len(live), 1, f"one chunk: {live}")
    return s.out("store", "get", live[0]["key"]), live[0]


def read_csv(data):
    return list(csv.DictReader(io.StringIO(data.decode(), newline=""), strict=True))


# ---- Different columns --------------------------------------------------------------------------


@it("seven csv files with three schemas become one chunk with the columns of all", DIR)
def _(s):
    create(s, "--format", "csv", "--key", "id")
    schemas = [["id", "at", "name"], ["id", "at", "name", "email"], ["city", "at", "id", "email"]]
    files, rows = {}, []
    for number in range(7):
        header = schemas[number % 3]
        drawn = [{"id": f"k{(number * 3 + i) % 11}", "at": str(AT + number * 10 + i),
                  "name": f'n "{number}", {i}', "email": f"e{number}{i}", "city": f"c\n{i}"}
                 for i in range(5)]
        drawn = [{name: row[name] for name in header} for row in drawn]
        rows += drawn
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, header)
        writer.writeheader()
        writer.writerows(drawn)
        files[f"in-{number}.csv"] = text.getvalue().encode()
    ingest(s, files)
    _, refused = ingest(s, {"no-key.csv": b"ID,at\n1,1770000000\n",
                            "no-time.csv": b"id,AT\n1,1770000000\n",
                            "twice.csv": b"id,at,x,x\n1,1770000000,2,3\n"},
                        expect=code(s, "INVALID"))
    for name, words in (("no-key.csv", "no field 'id'"), ("no-time.csv", "no field 'at'"),
                        ("twice.csv", "'x' twice")):
        true(words in refused[name], refused)
    run(s)
    data, chunk = only_chunk(s)
    columns = list(dict.fromkeys(name for schema in schemas for name in schema))
    best = {}
    for row in rows:
        if row["id"] not in best or int(row["at"]) > int(best[row["id"]]["at"]):
            best[row["id"]] = row
    equal(read_csv(data), [{name: best[key].get(name, "") for name in columns}
                           for key in sorted(best)])
    equal(chunk["rows"], len(best))
    ingest(s, {"more.csv": b"at,id,new\n1770009999,k0,n\n", "less.csv": b"id,at\nk1,1770009999\n"})
    run(s)
    merged = {row["id"]: row for row in read_csv(only_chunk(s)[0])}
    equal(merged["k0"], {"id": "k0", "at": "1770009999", "name": "", "email": "", "city": "",
                         "new": "n"})
    equal(len(merged), len(best))


@it("a field given by number must be the same column in all files, or the file is refused", DIR)
def _(s):
    s.run("compact", "create", "-q", "--format", "csv", "--key", "1", "--time", "at", "--grace", "0",
          "--skew", "0")
    long = b"id,at,x\nk0,1770000000," + os.urandom(2**19).hex().encode() + b"\n"
    for first in (gzip.compress(long), b"id,at\nk1,1770000000\n"):
        _, refused = ingest(s, {"first.csv": first, "moved.csv": b"at,id\n1770000000,k2\n"},
                            expect=code(s, "INVALID"))
        true("its field 1 is 'at', but 'id' in other files" in refused["moved.csv"], refused)
        _, refused = ingest(s, {"again.csv": b"name,at,id\nx,1770000000,k3\n",
                                "more.csv": b"id,new,at\nk4,n,%d\n" % (AT + len(first))},
                            expect=code(s, "INVALID"))
        equal(list(refused), ["again.csv"])
        true("its field 1 is 'name', but 'id'" in refused["again.csv"], refused)
        run(s)
    merged = [line.split(b",")[0] for line in only_chunk(s)[0].splitlines()]
    equal(merged, [b"id", b"k0", b"k1", b"k4"])


@it("of chunks that disagree about a numbered field, the odd one is quarantined with its reason", DIR)
def _(s):
    s.run("compact", "create", "-q", "--format", "csv", "--key", "1", "--time", "at", "--grace", "0",
          "--skew", "0")
    for number in range(3):  # as if they had been ingested at the same time
        header, rows = [("id,at", "a,1770000000\nb,1770000000"), ("at,id", "1770000000,x"),
                        ("id,at,z", "c,1770000000,z")][number]
        ingest(s, {f"in-{number}.csv": f"{header}\n{rows}\n".encode()})
        for chunk in s.lines("compact", "ls"):
            s.run("compact", "quarantine", "-q", chunk["key"])
    for chunk in s.lines("compact", "ls"):
        s.run("compact", "quarantine", "-q", "--release", chunk["key"])
    fails(s, "INVALID", "compact", "run", "--force", "--jobs", "1")
    run(s)
    odd = [chunk for chunk in s.lines("compact", "ls") if chunk["quarantine"]]
    good = [chunk for chunk in s.lines("compact", "ls") if not chunk["quarantine"]]
    equal((len(odd), len(good)), (1, 1), f"{odd} {good}")
    true(f"{odd[0]['key']}: its field 1 is 'at', but 'id' in other files" in odd[0]["quarantine"], odd)
    equal(s.get(good[0]["key"]), b"id,at,z\na,1770000000,\nb,1770000000,\nc,1770000000,z\n")


@it("of seven ndjson files one has numbers as keys: it alone is refused, the others merge", DIR)
def _(s):
    create(s, "--format", "ndjson", "--key", "id")
    files = {f"in-{i}.ndjson": b"".join(
        json.dumps({"id": f"k{i}{j}", "at": AT + i, f"member-{i % 3}": [i]}).encode() + b"\n"
        for j in range(3)) for i in range(7)}
    files["in-3.ndjson"] = b'{"id":17,"at":1770000000}\n'
    files["mixed.ndjson"] = b'{"id":"x","at":1770000000}\n{"id":18,"at":1770000000}\n'
    taken, refused = ingest(s, files, expect=code(s, "INVALID"))
    equal((len(taken), sorted(refused)), (6, ["in-3.ndjson", "mixed.ndjson"]))
    true("'id' is a number, but a string in the partition" in refused["in-3.ndjson"], refused)
    true("a string in some records and a number in others" in refused["mixed.ndjson"], refused)
    run(s)
    data, chunk = only_chunk(s)
    rows = [json.loads(line) for line in data.splitlines()]
    equal([row["id"] for row in rows], [f"k{i}{j}" for i in range(7) if i != 3 for j in range(3)])
    equal([row[f"member-{int(row['id'][1]) % 3}"] for row in rows],
          [[int(row["id"][1])] for row in rows])
    equal(chunk["rows"], 18)
    _, refused = ingest(s, {"in-3.ndjson": files["in-3.ndjson"]}, expect=code(s, "INVALID"))
    true("a string in the partition" in refused["in-3.ndjson"], "a merged chunk knows it too")


@it("in a partition whose key is a number, a file with other keys is refused alone", DIR)
def _(s):
    create(s, "--format", "ndjson", "--key", "id:number")
    taken, refused = ingest(s, {"good.ndjson": b'{"id":10,"at":1}\n{"id":9,"at":1}\n',
                                "bad.ndjson": b'{"id":"9","at":2}\n',
                                "also.ndjson": b'{"id":9.0,"at":3}\n'},
                            expect=code(s, "INVALID"))
    true("has a key that is not a number" in refused["bad.ndjson"], refused)
    equal(taken, ["good.ndjson", "also.ndjson"])
    run(s)
    equal(only_chunk(s)[0], b'{"id":9.0,"at":3}\n{"id":10,"at":1}\n')


# ---- Keys ---------------------------------------------------------------------------------------


def catalog(s):
    return json.loads(s.out("store", "get", "metadata/catalog.json"))


@it("a key of several fields, of numbers or descending is kept as such, in version 2", DIR)
def _(s):
    create(s, "--format", "csv", "--key", "country:desc,id:number")
    kept = catalog(s)
    equal((kept["format"], kept["settings"]["keys"], "key" in kept["settings"]),
          ("holdfast.catalog/2", "country:desc,id:number", False))
    ingest(s, {"a": b"country,id,at\nch,10,1\nch,9,1\n", "b": b"id,country,at\n9,de,1\n9.0,ch,2\n"})
    run(s)
    equal(only_chunk(s)[0], b"country,id,at\nde,9,1\nch,9.0,2\nch,10,1\n")
    shown = json.loads(s.out("compact", "status", "--json"))["settings"]
    equal(shown["key"], "country:desc,id:number")
    fails(s, "CONFLICT", "compact", "set", "--key", "id:number")


@it("a key of one field is kept as it always was, whatever its name", DIR)
def _(s):
    for number, (given, name) in enumerate((("id", "id"), ("a\\,b", "a,b"), ("a\\:desc", "a:desc"),
                                            ("a\\\\b", "a\\b"))):
        partition = f"p{number}"
        create(s, "--partition", partition, "--format", "ndjson", "--key", given)
        kept = json.loads(s.out("store", "get", f"metadata/{partition}/catalog.json"))
        equal((kept["format"], kept["settings"]["key"], "keys" in kept["settings"]),
              ("holdfast.catalog/1", name, False))
        shown = json.loads(s.out("compact", "status", "--json", "--partition", partition))
        equal(shown["settings"]["key"], given)
        s.write("a", json.dumps({name: "2", "at": 1}).encode() + b"\n")
        s.write("b", json.dumps({name: "1", "at": 1}).encode() + b"\n")
        s.run("compact", "ingest", "-q", "--partition", partition, "a", "b")
        s.run("compact", "run", "-q", "--force", "--partition", partition)
        live = s.lines("compact", "ls", "--partition", partition)
        equal([json.loads(line)[name] for line in s.out("store", "get", live[0]["key"]).split(b"\n")[:-1]],
              ["1", "2"])


@it("a key that makes no sense is refused when the partition is made", DIR)
def _(s):
    s.make_store()
    for key, words in (("id:up", ":number, :desc"), ("a,a", "twice"), ("a\\b", "backslash"),
                       (",".join("abcdefghi"), "at most 8")):
        text = fails(s, "INVALID", "compact", "create", "--format", "csv", "--key", key)
        true(words in text, f"{key}: {text}")
    text = fails(s, "INVALID", "compact", "create", "--format", "usv", "--key", "1,id")
    true("field number" in text and "'id'" in text, text)
    text = fails(s, "INVALID", "compact", "create", "--format", "parquet", "--key", "id:number")
    true("one column" in text, text)
    s.run("compact", "create", "-q", "--format", "usv", "--key", "1,2:number:desc")


# ---- Against one merge of all files ---------------------------------------------------------------


class PartitionCase(Case):
    """Random files, as for merge: different columns, keys of several fields, of numbers and in
    descending order, deletions, and equal times. They are ingested in any order, merged in any
    grouping, and some merges are undone."""

    def __init__(self, rng):
        super().__init__(rng)
        self.files = [(header, rows) for header, rows in self.files if rows][:30]

    def settings(self):
        args = self.args(drop=False)
        policy = self.rng.choice([["--policy", "cascade", "--cascade-base", "2"],
                                  ["--level0-count", "2", "--level1-size", "1KiB"],
                                  ["--level0-count", "4"]])
        return [*args, *policy, "--grace", "1h", "--late-bound", "1h", "--skew", "0"]

    def compact(self, s):
        left = [f"in-{i}" for i in range(len(self.files))]
        self.rng.shuffle(left)
        while left:
            count = self.rng.randint(1, 6)
            s.run("compact", "ingest", "-q", *left[:count])
            left = left[count:]
            for _ in range(self.rng.randrange(3)):
                self.act(s)
        for _ in range(self.rng.randrange(3)):
            s.run("compact", "run", "-q", "--force", "--jobs", "2")

    def act(self, s):
        if self.rng.random() < 0.3:
            dead = [chunk["key"] for chunk in s.lines("compact", "ls", "--all")
                    if chunk["state"] == "tombstone"]
            if dead:  # it may have been merged further, and cannot be undone then
                s.run("compact", "undelete", "-q", self.rng.choice(sorted(dead)), expect=None)
            return
        s.run("compact", "run", "-q", "--jobs", self.rng.choice("12"),
              *(["--force"] if self.rng.random() < 0.3 else []))

    def check(self, s):
        for i, (header, rows) in enumerate(self.files):
            s.write(f"in-{i}", self.encode(header, rows))
        s.run("compact", "create", "-q", *self.settings())
        self.compact(s)
        s.out("merge", "-q", *self.args(drop=self.deleted), "-o", "out",
              *(f"in-{i}" for i in range(len(self.files))))
        wanted, got = (self.decode(data)[1] for data in (s.read("out"), s.out("compact", "cat")))
        if self.format in ("csv", "tsv"):
            wanted, got = ([{name: value for name, value in row.items() if value} for row in rows]
                           for rows in (wanted, got))
        equal(got, wanted)
        s.run("compact", "fsck")


@it("merges in any grouping and order, some of them undone, give what one merge of all files gives",
    DIR)
def _(s):
    number = done = 0
    while done < (3 if cli_test.SANITIZED else 8):
        case = PartitionCase(random.Random(f"{SEED} {number}"))
        number += 1
        if not case.latest or len(case.files) < 2:
            continue
        done += 1
        s.env["HOLDFAST_STORE"] = f"dir:store-{number}"
        try:
            case.check(s)
        except Exception as trouble:
            raise AssertionError(f"case {number - 1} of seed {SEED}") from trouble


if __name__ == "__main__":
    sys.exit(cases.main())

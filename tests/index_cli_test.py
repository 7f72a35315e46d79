#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""index_cli_test.py: the commands about indexes, run as a person or a script would run them, on good
input and on bad.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import cases
import cli_test
from cli_test import (LOCAL, MIB, SANITIZED, code, equal, it, objects, on_terminal, true,
                      until)

cases.cases.clear()

DIR = ["dir"]
FIELDS = ["domain", "owner", "updated_at"]
FORMATS = ("usv", "csv", "tsv", "ndjson")
US, RS, ESC = "\x1f", "\x1e", "\x1b"


# ---- How it is used -----------------------------------------------------------------------------


def fails(s, status, *args, **options):
    return cli_test.fails(s, status, "index", *args, **options)


def create(s, *more, name="domains", fields=",".join(FIELDS)):
    return s.out("index", "create", name, "--fields", fields, "--key", "domain", "--time",
                 "updated_at", *more).decode()


def usv(*values):
    """A record as docs/formats.md has it."""
    return US.join(re.sub("[\x1b-\x1f\n\0]", lambda m: ESC + chr(ord(m[0]) | 0x40), value)
                   for value in values).encode() + b"\n"


def rows_of(count, at=1770000000, owner="ada"):
    return [(f"host-{i:05}.example", f"{owner}{i}", str(at + i)) for i in range(count)]


def load(s, rows, *more, name="domains"):
    """Puts rows by way of a file; what the program says of it."""
    s.write("rows.usv", b"".join(usv(*row) for row in rows))
    return s.out("index", "put", name, "--from", "rows.usv", *more).decode()


def put(s, domain, owner="ada", at="2026-02-06T10:00:00Z", name="domains"):
    s.run("index", "put", "-q", name, f"domain={domain}", f"owner={owner}", f"updated_at={at}")


def get(s, *keys, name="domains"):
    shown = s.out("index", "get", name, "--json", "--", *keys)
    return [json.loads(line) for line in shown.splitlines()]


def query(s, *args, name="domains"):
    return sorted(s.lines("index", "query", name, *args), key=lambda row: row["domain"])


def keys(s, *args, name="domains"):
    return [row["domain"] for row in query(s, *args, name=name)]


def count(s, name="domains"):
    return json.loads(s.out("index", "count", name, "--json"))["records"]


def status(s, name="domains"):
    return json.loads(s.out("index", "status", name, "--json"))


def compile_(s, *args, name="domains", expect=0):
    """The events of a single pass."""
    done = s.run("index", "compile", name, "--json", *args, expect=expect)
    return [json.loads(line) for line in done.stdout.splitlines()]


def totals(events):
    return events[-1]["totals"]


# ---- Making one ---------------------------------------------------------------------------------


@it("an index is created once, unchanged by the same again, and extended at its end", LOCAL)
def _(s):
    equal(create(s), "created index domains: 3 fields, 256 shards\n")
    equal(create(s), "unchanged index domains: 3 fields, 256 shards\n")
    put(s, "a.example")
    wide = ",".join(FIELDS + ["registrar"])
    equal(create(s, fields=wide), "extended index domains to version 2: 4 fields, 256 shards\n")
    equal(get(s, "a.example")[0]["registrar"], "")
    s.run("index", "put", "-q", "domains", "domain=b.example", "registrar=x")
    equal(get(s, "b.example")[0]["registrar"], "x")
    told = json.loads(create(s, "--json", fields=wide))
    equal(told, {"index": "domains", "made": "unchanged", "version": 2, "fields": 4, "shards": 256})
    for more in (["--digits", "1", "--no-foreign"], []):
        equal(json.loads(create(s, "--json", *more, name="small"))["shards"], 16, "as it is")
    create(s, fields=wide, name="small")
    equal([status(s, "small")["schema"][name] for name in ("digits", "foreign")], [1, False])


@it("what cannot be an index is refused in words, and nothing is made", DIR)
def _(s):
    for words, *args in (("twice", "x", "--fields", "a,b,a", "--key", "a", "--time", "b"),
                         ("not one of the fields", "x", "--fields", "a,b", "--key", "c", "--time", "b"),
                         ("not one of the fields", "x", "--fields", "a,b", "--key", "a", "--time", "c"),
                         ("both", "x", "--fields", "a,b", "--key", "a", "--time", "a"),
                         ("a-z", "x", "--fields", "a,b c", "--key", "a", "--time", "b c"),
                         ("--digits", "x", "--fields", "a,b", "--key", "a", "--time", "b",
                          "--digits", "5"),
                         ("index name", "../x", "--fields", "a,b", "--key", "a", "--time", "b"),
                         ("needs fields: --fields a,b,c", "x", "--fields", "", "--key", "a",
                          "--time", "b"),
                         ("name 2 is empty", "x", "--fields", "a,,b", "--key", "a", "--time", "b"),
                         ("name 3 is empty", "x", "--fields", "a,b,", "--key", "a", "--time", "b"),
                         ("--fields", "x", "--key", "a", "--time", "b")):
        true(words in fails(s, "INVALID", "create", *args), (args, words))
    equal(s.everything(), b"")
    create(s)
    create(s, fields="domain,updated_at,owner", name="other")
    create(s, "--digits", "1", name="small")
    for words, name, fields, *more in (
            ("fields cannot be removed", "other", "domain,updated_at"),
            ("field 2", "domains", "domain,updated_at"),
            ("digits", "domains", ",".join(FIELDS), "--digits", "3"),
            ("have 1 digit;", "small", ",".join(FIELDS), "--digits", "3"),
            ("other programs", "domains", ",".join(FIELDS), "--no-foreign")):
        text = fails(s, "INVALID", "create", name, "--fields", fields, "--key", "domain",
                     "--time", "updated_at", *more)
        true(words in text, (text, words))


@it("no command works on an index that is not there, and each says how to make one", DIR)
def _(s):
    s.write("rows.usv", usv("a", "b", "1"))
    every = (["put", "hosts", "domain=a"], ["put", "hosts", "--from", "rows.usv"],
             ["put", "hosts", "--from", "rows.usv", "--fold"], ["get", "hosts", "k"],
             ["query", "hosts"], ["export", "hosts"], ["count", "hosts"], ["compile", "hosts"],
             ["status", "hosts"])
    for args in every:
        true("index create hosts" in fails(s, "NOT_FOUND", *args), args)
    create(s)
    true("did you mean 'domains'" in fails(s, "NOT_FOUND", "get", "domain", "k"), "the nearest")
    text = fails(s, "INVALID", "put", "domains", "onwer=x")
    for word in ("'onwer'", "'owner'", *FIELDS):
        true(word in text, text)
    for name, near in (("", None), ("x", None), ("o", None), ("OWNER", "owner"), ("ow", "owner")):
        text = fails(s, "INVALID", "put", "domains", f"{name}=x")
        equal(re.findall("did you mean '(.*?)'", text), [near] if near else [], text)
    for args in (["query", "domains", "--where", "nope=1"], ["query", "domains", "--where", "x"],
                 ["query", "domains", "--since", "noon"], ["query", "domains", "--shard", "xyz"],
                 ["query", "domains", "--format", "xml"], ["compile", "domains", "--shard", "g0"],
                 ["compile", "domains", "--ttl", "1h"], ["compile", "domains", "--poll", "1s"],
                 ["compile", "domains", "--once", "--watch"], ["put", "domains"],
                 ["put", "domains", "owner"], ["put", "domains", "owner=a", "owner=b"],
                 ["put", "domains", "owner=a", "--from", "x"], ["put", "domains", "--fold", "owner=a"],
                 ["put", "domains", "--from", "rows"], ["put", "domains", "--from", "."],
                 ["export", "domains", "-o", ""], ["get", "domains"]):
        fails(s, "INVALID", *args)
    s.run("index", "query", "domains", "--json", "--format", "csv", expect=code(s, "INVALID"))
    fails(s, "NOT_FOUND", "put", "domains", "--from", "missing.csv")
    true("RFC 3339 with a zone" in fails(s, "INVALID", "query", "domains", "--since", "noon"), "how")
    equal(objects(s, "indexes/"), ["indexes/domains/index.json"])


# ---- Putting and getting ------------------------------------------------------------------------


@it("a record that was put is seen at once, the latest of its key, compiled or not", LOCAL)
def _(s):
    create(s)
    equal(s.out("index", "put", "domains", "domain=example.com", "owner=ada"), b"put example.com\n")
    row = get(s, "example.com")[0]
    equal((row["domain"], row["owner"]), ("example.com", "ada"))
    true(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", row["updated_at"]), row)
    true(objects(s, "indexes/domains/inbox/")[0].startswith(
        "indexes/domains/inbox/a3/example.com~"), "example.com is in a3")
    put(s, "k", "old", "2026-02-06T10:00:00Z")
    put(s, "k", "new", "2026-02-06T11:30:00+01:00")
    put(s, "k", "older", "2026-02-06T09:00:00Z")
    for _ in range(2):
        equal(get(s, "k")[0]["owner"], "new")
        equal(s.out("index", "get", "domains", "k"), b"k\tnew\t2026-02-06T11:30:00+01:00\n")
        equal((keys(s), count(s)), (["example.com", "k"], 2))
        told = totals(compile_(s))
    equal((told["entries"], objects(s, "indexes/domains/inbox/")), (0, []))
    equal(objects(s, "indexes/domains/shards/a3.usv"), ["indexes/domains/shards/a3.usv"])
    put(s, "k", "late", "2026-02-06T09:59:00Z")
    equal((get(s, "k")[0]["owner"], count(s)), ("new", 2))


@it("get shows what is there, and ends as NOT_FOUND for what is not", DIR)
def _(s):
    create(s)
    put(s, "a")
    put(s, "b")
    done = s.run("index", "get", "domains", "a", "none", "b", expect=code(s, "NOT_FOUND"))
    equal([line.split("\t")[0] for line in done.stdout.decode().splitlines()], ["a", "b"])
    true(re.fullmatch(r"holdfast: index get none: NOT_FOUND: [^\n]+\n", done.stderr.decode()),
         done.stderr)


ODD = [("emoji 🦫", "naïve — ¿qué?", "2026-02-06T10:00:00Z"),
       ("tab\there", 'a "quoted", one', "1770372000.5"),
       ("line\nbreak", "cr\rlf\r\n", "1770372000"),
       ("sep" + US + RS + ESC + "\x1c\x1d", "\\n is not a break\\", "1770372000123"),
       (" blank ", "", "2026-02-06T10:00:00.000000001-08:00"),
       ("a/b/../c%2F~x", '"', "0"), ("-dash", "'; drop table", "2026-02-06 10:00:00z"),
       ("ключ" * 120, "long key", "1"), ("\x01\x7f", "\ufeff", "2"), ("~", ",", "3"),
       ('"', '""', "4"), ("json", '{"a":[1]}', "5")]


@it("every format carries every value there and back, before and after a compile", LOCAL)
def _(s):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    create(s)
    wanted = sorted(ODD)
    s.write("odd.ndjson", "".join(json.dumps(dict(zip(FIELDS, row))) + "\n" for row in ODD).encode())
    equal(s.out("index", "put", "domains", "--from", "odd.ndjson").decode(), f"put {len(ODD)} records\n")
    for number, form in enumerate(FORMATS):
        equal(sorted(tuple(row.values()) for row in query(s)), wanted, form)
        s.run("index", "export", "domains", "-q", "-o", f"all.{form}")
        equal(s.out("index", "export", "domains", "--format", form), s.read(f"all.{form}"), form)
        create(s, name=form)
        more = ["--fold"] if number % 2 else []
        s.run("index", "put", form, "--from", f"all.{form}", *more)
        equal(s.out("index", "export", form), s.out("index", "export", "domains"), form)
        compile_(s)
    for row in ODD:
        equal(tuple(get(s, row[0])[0].values()), row)
    s.run("index", "export", "domains", "-q", "-o", "all.txt")
    equal(s.read("all.txt"), s.read("all.usv"), "usv when the name tells nothing")
    equal(sorted(s.read("all.usv").split(b"\n")[:-1]), sorted(usv(*row)[:-1] for row in ODD))
    read = csv.reader(io.StringIO(s.read("all.csv").decode(), newline=""), strict=True)
    equal(sorted(tuple(row) for row in read if row != FIELDS), wanted, "Python's csv")
    equal(sorted(tuple(json.loads(line).values()) for line in
                 s.read("all.ndjson").decode().split("\n")[:-1]), wanted, "Python's json")
    lines = s.out("index", "query", "domains").decode().split("\n")[:-1]
    equal((len(lines), {line.count("\t") for line in lines}), (len(ODD), {2}), "one line each")
    true("line\\nbreak\tcr\\x0dlf\\x0d\\n\t1770372000" in lines, lines)


@it("columns and members come in any order, and what is left out is empty", DIR)
def _(s):
    create(s)
    s.write("a.csv", b'\xef\xbb\xbfupdated_at,domain\r\n1,"a"\r\n\r\n2,"b ""x"""\r\n3,c')
    s.write("b.tsv", b"domain\tupdated_at\towner\nd\t4\t\n")
    s.write("c.jsonl", b'{"updated_at":5,"domain":"e"}\n\n {"domain":"\\u0066","owner":null,'
            b'"updated_at":6.50} \n{"owner":true,"updated_at":"7","domain":8}\n')
    for name in ("a.csv", "b.tsv", "c.jsonl"):
        s.run("index", "put", "-q", "domains", "--from", name)
    s.run("index", "put", "-q", "domains", "--from", "-", "--format", "usv",
          stdin=b"\xef\xbb\xbfg\x1f\x1f9\x1eh\x1fx\x1f10\x1e\ni\x1f\x1f11")
    equal([tuple(row.values()) for row in query(s)],
          [("8", "true", "7"), ("a", "", "1"), ('b "x"', "", "2"), ("c", "", "3"), ("d", "", "4"),
           ("e", "", "5"), ("f", "", "6.50"), ("g", "", "9"), ("h", "x", "10"), ("i", "", "11")])
    create(s, name="marked")
    put(s, "\ufeffk", name="marked")
    s.run("index", "export", "marked", "-q", "-o", "marked.usv")
    s.run("index", "put", "marked", "-q", "--from", "marked.usv")
    equal(keys(s, name="marked"), ["\ufeffk"], "a mark that belongs to a key stays")


@it("a bulk load of many rows is all there, in the inbox or folded, and exact", LOCAL)
def _(s):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    create(s, "--digits", "1")
    rows = rows_of(1200)  # more than one request takes
    equal(load(s, rows), "put 1200 records\n")
    equal(load(s, rows_of(700, at=1780000000, owner="bob"), "--fold"),
          "put 700 records: 700 directly into 16 shards\n")
    told = json.loads(load(s, rows_of(10, at=1790000000, owner="eve"), "--fold", "--json"))
    equal(told, {"records": 10, "refused": 0, "stopped": False, "up_to_line": 10, "folded": True,
                 "shards": 0, "straight": 0, "by_inbox": 10, "held": 0, "few": 10, "damaged": 0})
    equal((count(s), status(s)["inbox"]["entries"]), (1200, 1210))
    owners = {row["domain"]: row["owner"][:3] for row in query(s)}
    wanted = {row[0]: "eve" if i < 10 else "bob" if i < 700 else "ada"
              for i, row in enumerate(rows)}
    equal(owners, wanted)
    told = totals(compile_(s))
    equal((told["entries"], told["new"], told["superseded"], told["deleted"]),
          (1210, 500, 700, 1210))
    equal({row["domain"]: row["owner"][:3] for row in query(s)}, wanted)
    equal((status(s)["inbox"]["entries"], status(s)["records"]), (0, 1200))


@it("rows that trickle in from a pipe are seen one by one, while it is open", DIR)
def _(s):
    create(s)
    loader = s.start("index", "put", "domains", "--from", "-", "--format", "csv",
                     stdin=subprocess.PIPE)
    loader.stdin.write(b"domain,updated_at\n")
    for number in range(1, 3):
        loader.stdin.write(b"k%d,%d\n" % (number, number))
        loader.stdin.flush()
        until(lambda: count(s) == number, "it is seen")
    equal(loader.communicate(b"k3,", timeout=60)[0], b"put 2 records; refused 1 row\n")
    equal(loader.returncode, code(s, "INVALID"))


@it("a load that is stopped tells what is in the index and up to which line", DIR)
def _(s):
    create(s)
    for args in ([], ["--json"]):
        loader = s.start("index", "put", "domains", "--from", "-", "--format", "csv", *args,
                         stdin=subprocess.PIPE)
        loader.stdin.write(b'domain,updated_at\nbad\n"%d\n",1\n' % len(args))
        loader.stdin.flush()
        until(lambda: count(s) == 1 + len(args), "it is seen")
        loader.send_signal(signal.SIGINT)
        out = loader.communicate(timeout=60)[0].decode()
        equal(loader.returncode, -signal.SIGINT)
        if args:
            told = json.loads(out)
            equal((told["records"], told["refused"], told["stopped"], told["up_to_line"]),
                  (1, 1, True, 4))
        else:
            equal(out, "put 1 record; refused 1 row; stopped: everything up to line 4 is in the index\n")


@it("a shard that is damaged does not stop a load: its records wait in its inbox", DIR)
def _(s):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    create(s, "--digits", "1")
    load(s, rows_of(400), "--fold")
    shard = "indexes/domains/shards/3.usv"
    s.put(shard, b"no shard\n")
    s.write("rows.usv", b"".join(usv(*row) for row in rows_of(400, at=1780000000)) + b"bad\n")
    done = s.run("index", "put", "domains", "--from", "rows.usv", "--fold",
                 expect=code(s, "CORRUPT"))
    told = re.fullmatch(r"put 400 records: (\d+) directly into 15 shards, (\d+) into the inbox of "
                        r"shards that are damaged; refused 1 row\n", done.stdout.decode())
    true(told and int(told[1]) + int(told[2]) == 400, done.stdout)
    lines = done.stderr.decode().splitlines()
    equal([("line 401" in line, "1 row was" in line, "CORRUPT" in line and shard in line)
           for line in lines], [(True, False, False), (False, True, False), (False, False, True)])
    equal(status(s)["inbox"]["entries"], int(told[2]))
    done = s.run("index", "put", "domains", "--from", "rows.usv", "--fold", "--json",
                 expect=code(s, "CORRUPT"))
    equal(json.loads(done.stdout)["damaged"], int(told[2]))
    s.run("store", "rm", "--force", "-q", shard)
    compile_(s)
    equal({row["updated_at"][:3] for row in query(s)}, {"178"})
    equal(count(s), 400)


@it("records of any length up to 1 MiB go in and come out, and none that is longer", DIR)
def _(s):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    create(s, "--digits", "1")
    lengths = [MIB - 8, 900000, 262144, 262143, 262137, 131072, 70000, 65536]
    texts = [('say "hi",\tthere\u00e9\r\n' * 70000).encode()[:length] for length in lengths]
    rows = [(f"k{i:05}", text.decode(errors="ignore"), "1") for i, text in enumerate(texts[1:])]
    rows.append(("exact", "x" * (MIB - 8), "1"))  # with two separators and the time
    s.write("long.ndjson", "".join(json.dumps(dict(zip(FIELDS, row))) + "\n"
                                   for row in rows + [("exact+", "x" * (MIB - 8), "1")]).encode())
    done = s.run("index", "put", "domains", "--from", "long.ndjson", expect=code(s, "INVALID"))
    true(re.match(r".* line 9: [^\n]*1048577[^\n]*\n.*1 row was refused, 8 put\n$",
                  done.stderr.decode()), done.stderr)
    for form in FORMATS:
        create(s, name=form)
        s.run("index", "export", "domains", "-q", "-o", f"all.{form}", "--format", form)
        s.run("index", "put", "-q", form, "--from", f"all.{form}")
        equal([tuple(row.values()) for row in query(s, name=form)], sorted(rows), form)


# ---- Rows that are none -------------------------------------------------------------------------


@it("rows that cannot be taken are told with their line, and the others go in", DIR)
def _(s):
    create(s)
    bad = {"a.usv": (usv("a", "x", "1") + b"no time\n" + usv("", "y", "1") + usv("b", "", "noon")
                     + b"c\x1f\x1f1\x1fmore\n" + b"d\x1f\xff\x1f1\n" + b"e\x1f\x1bq\x1f1\n"
                     + b"f\x1fa\x1db\x1f1\n" + usv("k" * 1025, "", "1") + usv("g", "", "1"),
                     [2, 3, 4, 5, 6, 7, 8, 9], ["a", "g"]),
           "b.csv": (b'domain,updated_at\nh,1\ni,1,1\nj\nk"l,1\n"m"n,1\n"two\nlines",never\no,2\n'
                     b'\xff,1\n"open,1\np,1\n', [3, 4, 5, 6, 7, 10, 11], ["h", "o"]),
           "c.ndjson": (b'{"domain":"q","updated_at":1}\n[1]\n{"domain":"r"}\n{"domain":"r",\n'
                        b'{"domain":"s","updated_at":1,"x":2}\n{"domain":["t"],"updated_at":1}\n'
                        b'{"domain":"u","domain":"v","updated_at":1}\n{"domain":"\\ud800",'
                        b'"updated_at":1}\n{"domain":"\xff","updated_at":1}\nnull\n'
                        b'{"domain\\ud800":"t","updated_at":1}\n{"domain":"w","updated_at":1}',
                        [2, 3, 4, 5, 6, 7, 8, 9, 10, 11], ["q", "w"])}
    seen = []
    for name, (data, lines, good) in bad.items():
        s.write(name, data)
        done = s.run("index", "put", "domains", "--from", name, expect=code(s, "INVALID"))
        told = done.stderr.decode().splitlines()
        equal([int(re.match(r"holdfast: index put domains: INVALID: line (\d+): ", line)[1])
               for line in told[:-1]], lines, (name, told))
        equal(told[-1], f"holdfast: index put domains: INVALID: {len(lines)} rows were refused, "
              f"{len(good)} put")
        equal(done.stdout.decode(), f"put {len(good)} records; refused {len(lines)} rows\n")
        seen = sorted(seen + good)
        equal(keys(s), seen, name)
    told = s.run("index", "put", "domains", "--from", "c.ndjson", expect=code(s, "INVALID"))
    for words in ("'x'", "its member 'domain' is an object or an array"):
        true(words in told.stderr.decode(), words)
    told = fails(s, "INVALID", "put", "domains", "domain=a", "updated_at=\tnoon" + "x" * 99)
    true(re.search(r"'%09noonx+\.\.\.' is not a time; expected RFC 3339 with a zone", told), told)
    s.write("many.usv", b"no\n" * 25)
    done = s.run("index", "put", "domains", "--from", "many.usv", expect=code(s, "INVALID"))
    equal(len(done.stderr.splitlines()), 11, "ten, and the sum")
    done = s.run("index", "put", "domains", "--from", "many.usv", "--json",
                 expect=code(s, "INVALID"))
    equal((len(done.stderr.splitlines()), json.loads(done.stdout)["refused"]), (11, 25))
    for line in done.stderr.splitlines():
        equal(json.loads(line)["status"], "INVALID")


@it("a quote that is never closed is told with the lines that it takes along", DIR)
def _(s):
    create(s)
    head = "domain{0}updated_at\na{0}1\n"
    for rest, size, words in (
            ('b{0}"2\nc{0}3\n', 0, "in line 3 is never closed; lines 3 to 4 are skipped"),
            ('"b\n"{0}"2\nc{0}3', 0, "in line 4 is never closed; lines 3 to 5 are skipped"),
            ('b{0}"2', 0, "in it is never closed; the line is skipped"),
            ('b{0}"2\n', 10 * MIB, "in line 3 is never closed; lines 3 to 4 are skipped")):
        for form, sep in (("csv", ","), ("tsv", "\t")):
            s.write("rows." + form, (head + rest).format(sep).encode())
            if size:
                os.truncate(s.file("rows." + form), size)  # too long
            done = s.run("index", "put", "domains", "--from", "rows." + form,
                         expect=code(s, "INVALID"))
            equal(done.stdout, b"put 1 record; refused 1 row\n")
            true(f" line 3: a quote opened {words}\n" in done.stderr.decode(), done.stderr)


@it("a header that is wrong stops the load before a row is put", DIR)
def _(s):
    create(s)
    for header, words in ((b"domain,updated_at,color", "'color'"), (b"domain,owner", "'updated_at'"),
                          (b"owner,updated_at", "'domain'"), (b"domain,updated_at,domain", "twice"),
                          (b'domain,"updated_at', "a quote opened in line 1 is never closed"),
                          (b"", "maximum"), (b'do"main,updated_at', "quote")):
        s.write("rows.csv", header + b"\na,1,2\n" if header else b"d")
        if not header:
            os.truncate(s.file("rows.csv"), 10 * MIB)
        text = fails(s, "INVALID", "put", "domains", "--from", "rows.csv")
        true(words in text and "header" in text, (text, words))
    equal(objects(s, "indexes/domains/inbox/"), [])
    s.write("empty.csv", b"")
    equal(s.out("index", "put", "domains", "--from", "empty.csv"), b"put 0 records\n")


@it("a record of 100 MiB is passed over without being held, in every format", DIR)
def _(s):
    create(s)
    for form, start in (("usv", b""), ("csv", b'domain,updated_at\n"'), ("ndjson", b"")):
        end = b'"\n' if form == "csv" else b"\n"
        good = {"usv": usv("a" + form, "", "1"), "csv": b"acsv,1\n",
                "ndjson": b'{"domain":"andjson","updated_at":1}\n'}[form]
        s.write(f"big.{form}", start)
        os.truncate(s.file(f"big.{form}"), len(start) + 100 * MIB)
        with open(s.file(f"big.{form}"), "ab") as out:
            out.write(end + good)
        process = s.start("index", "put", "domains", "--from", f"big.{form}")
        told = process.stderr.read().decode()
        _, ended, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(ended)
        equal(process.returncode, code(s, "INVALID"), told)
        true(re.search(r"line %d: [^\n]*maximum" % (2 if form == "csv" else 1), told), told)
        true(SANITIZED or used.ru_maxrss < 64 * 1024, f"{used.ru_maxrss} KiB for {form}")
        os.unlink(s.file(f"big.{form}"))
    equal(keys(s), ["acsv", "andjson", "ausv"])


# ---- Asking -------------------------------------------------------------------------------------


@it("query takes prefixes, times, conditions, limits and shards, alone and together", LOCAL)
def _(s):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    create(s, "--digits", "1")
    rows = [(f"{kind}.{i:02}", f"o{i % 3}", f"2026-02-{i + 1:02}T10:00:00+02:00")
            for kind in ("a", "ab", "b") for i in range(10)]
    load(s, rows[::2])
    compile_(s)
    load(s, rows[1::2])
    everything = sorted(row[0] for row in rows)
    equal(keys(s), everything)
    equal(keys(s, "--prefix", "a"), [k for k in everything if k[0] == "a"])
    equal(keys(s, "--prefix", "a."), [k for k in everything if k.startswith("a.")])
    equal(keys(s, "--prefix", "b.07"), ["b.07"])
    equal(keys(s, "--prefix", "c"), [])
    late = sorted(row[0] for row in rows if row[2] >= "2026-02-06")
    equal(keys(s, "--since", "2026-02-06T08:00:00Z"), late)
    equal(keys(s, "--since", "1770364800"), late)
    equal(keys(s, "--where", "owner=o1"), sorted(r[0] for r in rows if r[1] == "o1"))
    equal(keys(s, "--where", "owner!=o1", "--where", "owner!=o2", "--prefix", "b"),
          sorted(r[0] for r in rows if r[1] == "o0" and r[0][0] == "b"))
    equal(keys(s, "--where", "owner="), [])
    equal([len(keys(s, "-n", str(n))) for n in (0, 1, 7, 99)], [0, 1, 7, 30])
    parts = [keys(s, "--shard", f"{n:x}") for n in range(16)]
    equal(sorted(sum(parts, [])), everything)
    for part in parts:
        equal(part, sorted(part))
    equal(keys(s, "--shard", "A"), parts[10], "in upper case")
    shown = s.out("index", "query", "domains", "--shard", "3", "--format", "usv").decode()
    equal([line.split(US)[0] for line in shown.splitlines()], parts[3], "in order of keys")
    text = s.out("index", "query", "domains", "--prefix", "b.07", "--format", "csv").decode()
    equal(text, "domain,owner,updated_at\nb.07,o1,2026-02-08T10:00:00+02:00\n")


@it("an export has its name only when it is whole, and a closed pipe ends a query", DIR)
def _(s):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    create(s, "--digits", "1")
    load(s, rows_of(3000), "--fold")
    told = json.loads(s.out("index", "export", "domains", "-o", "out.usv", "--json"))
    equal((told["records"], s.read("out.usv").count(b"\n")), (3000, 3000))
    text = s.out("index", "export", "domains", "-o", "out.csv").decode()
    equal(text, "exported 3000 records to out.csv\n")
    fails(s, "NOT_FOUND", "export", "domains", "-o", "nowhere/out.usv")
    s.write("out.usv", b"before")
    shard = objects(s, "indexes/domains/shards/")[-1]
    s.write("damaged", s.get(shard)[:-9] + b"DAMAGED!\n")
    s.run("store", "put", "--force", "-q", shard, "damaged")
    done = s.run("index", "export", "domains", "-o", "out.usv", expect=code(s, "CORRUPT"))
    true(shard in done.stderr.decode(), done.stderr)
    equal(s.read("out.usv"), b"before")
    done = s.run("index", "query", "domains", expect=code(s, "CORRUPT"))
    true(2000 < len(done.stdout.splitlines()) < 3000, "the other shards are shown")
    process = s.start("index", "query", "domains", "--shard", "0")
    process.stdout.readline()
    process.stdout.close()
    equal((process.wait(60) in (0, -signal.SIGPIPE), process.stderr.read()), (True, b""))
    process.stderr.close()


@it("a query that has reported a damaged shard fails, whether or not it reaches its limit", DIR)
def _(s):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    create(s, "--digits", "1")
    load(s, rows_of(400), "--fold")
    shard = "indexes/domains/shards/0.usv"
    s.put(shard, b"no shard\n")
    for words in ((), ("-n", "1"), ("-n", "1", "--sort", "domain")):
        done = s.run("index", "query", "domains", *words, expect=code(s, "CORRUPT"))
        equal(done.stderr.decode().count(shard), 1, words)
        true(b"\n" in done.stdout, words)
    done = s.run("index", "query", "domains", "-n", "1", "--shard", "f")
    equal(done.stdout.count(b"\n"), 1, "no other shard is read")


# ---- Compiling ----------------------------------------------------------------------------------


@it("compile tells what it did, to people, to scripts and to nobody when quiet", DIR)
def _(s):
    create(s)
    equal(s.out("index", "compile", "domains"),
          b"compiled 0 shards: 0 entries, 0 new, 0 later, 0 superseded\n")
    put(s, "example.com", "ada", "1")
    put(s, "example.com", "joe", "2")
    put(s, "example.org", "joe", "2")
    events = compile_(s, "--shard", "a3")
    equal([(e["event"], e.get("shard"), e.get("end")) for e in events],
          [("shard", "a3", "done"), ("done", None, None)])
    equal((events[0]["entries"], events[0]["new"], events[0]["superseded"], events[0]["records"]),
          (2, 1, 1, 1))
    equal(len(objects(s, "indexes/domains/inbox/")), 1)
    equal(s.out("index", "compile", "domains", "--once"),
          b"compiled 1 shard: 1 entry, 1 new, 0 later, 0 superseded\n")
    put(s, "example.com", "eve", "3")
    equal(totals(compile_(s))["later"], 1)
    put(s, "example.com", "eve", "4")
    equal(s.out("index", "compile", "domains", "-q"), b"")
    equal(get(s, "example.com")[0]["updated_at"], "4")
    text = on_terminal(s, "index", "compile", "domains").decode()
    true(text.startswith("compiled 0 shards"), text)


@it("a watcher folds what comes, tells each shard, and ends well by Ctrl-C", LOCAL)
def _(s):
    create(s)
    for args in ([], ["--json"]):
        watcher = s.start("index", "compile", "domains", "--watch", "--poll", "50ms", *args)
        put(s, "example.com", "ada", f"{10 + len(args)}")
        line = watcher.stdout.readline().decode()
        if args:
            equal((json.loads(line)["shard"], json.loads(line)["entries"]), ("a3", 1))
        else:
            true(re.match(r"a3  done: 1 entry, 1 new, 0 later, 0 superseded; 1 record, \d+ B", line),
                 line)
        begun = time.monotonic()
        watcher.send_signal(signal.SIGINT)
        rest, told = watcher.communicate(timeout=60)
        true(time.monotonic() - begun < 5, "soon")
        equal((watcher.returncode, told), (0, b""))
        last = rest.decode().splitlines()[-1]
        true(json.loads(last)["totals"]["entries"] == 1 if args else last.startswith("compiled 1"),
             last)
        equal(status(s)["holders"], [], "nothing is held")
    equal(objects(s, "indexes/domains/inbox/"), [])


@it("readers see every key while entries vanish into shards", LOCAL)
def _(s):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    create(s, "--digits", "1")
    rows = rows_of(600)
    load(s, rows)
    workers = [s.start("index", "compile", "domains", "--watch", "--poll", "20ms") for _ in range(2)]
    wanted = [row[0] for row in rows]
    while status(s)["inbox"]["entries"] > 0:
        equal(keys(s), wanted)
        equal(get(s, wanted[7])[0]["owner"], "ada7")
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        equal((worker.communicate(timeout=60)[1], worker.returncode), (b"", 0))
    equal((keys(s), count(s)), (wanted, 600))


@it("entries that other programs wrote are seen and folded, wherever they put them", LOCAL)
def _(s):
    create(s)
    s.put("indexes/domains/example.com.usv", b"example.com\x1fflat\x1f1\n")
    s.put("indexes/domains/inbox/example.org.usv", b"example.org\x1finbox\x1f1\x1e\n")
    equal([row["owner"] for row in query(s)], ["flat", "inbox"])
    s.put("indexes/domains/example.com.usv", b"example.com\x1fagain\x1f2\n")
    told = status(s)["inbox"]
    equal((told["entries"], told["foreign"]), (2, 2))
    equal(totals(compile_(s))["entries"], 2)
    equal([row["owner"] for row in query(s)], ["again", "inbox"])
    equal(status(s)["inbox"]["entries"], 0)


@it("what cannot be read is set aside with its reason, and the rest goes on", DIR)
def _(s):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    create(s)
    put(s, "good.example")
    s.put("indexes/domains/malformed.usv", b"malformed\x1f\x1bq\x1f1\n")
    s.put("indexes/domains/bytes.usv", b"bytes\x1f\xff\xfe\x1f1\n")
    s.put("indexes/domains/wide.usv", b"wide\x1fa\x1f1\x1fb\x1fc\n")
    s.put("indexes/domains/mine.usv", b"yours\x1fa\x1f1\n")
    s.put("indexes/domains/inbox/a3/stray", b"what is this")
    s.write("huge", b"huge\x1fa\x1f1")
    os.truncate(s.file("huge"), 100 * MIB)
    s.run("store", "put", "-q", "indexes/domains/huge.usv", "huge")
    s.put("indexes/domains/inbox/zz/left.usv", b"left\x1fa\x1f1\n")
    for args in (["query"], ["export"], ["count"], ["export", "-o", "out.csv"]):
        for more in ([], ["--json"], ["-q"]):
            process = s.start("index", args[0], "domains", *args[1:], *more)
            told = process.communicate(timeout=60)[1].decode()
            equal(process.returncode, 0, told)
            words = "6 entries in the inbox cannot be read and are left out; a compile sets them aside"
            if more == ["--json"]:
                equal(json.loads(told), {"index": "domains", "unreadable": 6, "warning": words,
                                         "command": f"index {args[0]}"})
            else:
                equal(told, "" if more else f"holdfast: index {args[0]} domains: {words}\n")
    told = totals(compile_(s))
    equal((told["aside"], told["shards_failed"], told["new"]), (6, 0, 1), told)
    now = status(s)
    equal((now["aside"], now["inbox"]["entries"], now["inbox"]["strays"]), (6, 0, 1), now)
    reasons = {reason["entry"].split("/")[-1]: reason["why"] for reason in now["reasons"]}
    equal(sorted(reasons), ["bytes.usv", "huge.usv", "malformed.usv", "mine.usv", "stray",
                            "wide.usv"])
    for name, words in (("bytes.usv", "UTF-8"), ("malformed.usv", "ESC"), ("wide.usv", "5 fields")):
        true(words in reasons[name], reasons)
    kept = objects(s, "indexes/domains/aside/")
    equal((len(kept), {os.path.splitext(name)[1] for name in kept}), (12, {".usv", ".json"}))
    sizes = sorted(row["size_bytes"] for row in s.lines("store", "ls", "-r", "indexes/domains/aside/"))
    equal(sizes[-1], 100 * MIB, "whole")
    text = s.out("index", "status", "domains").decode()
    true("set aside    6\n" in text and "5 fields" in text, text)
    true("strays       1 in the inbox that is not an entry\n" in text, text)
    equal(keys(s), ["good.example"])
    equal(totals(compile_(s))["aside"], 0, "once")
    equal(s.get("indexes/domains/inbox/zz/left.usv"), b"left\x1fa\x1f1\n", "no folder of a shard")


@it("a lock file of garbage stops nobody who reads, nor the other shards", DIR)
def _(s):
    create(s)
    put(s, "example.com")
    put(s, "example.org")
    s.put("indexes/domains/shards/a3.lock", b"\x00garbage{{{")
    equal((keys(s), get(s, "example.com")[0]["owner"]), (["example.com", "example.org"], "ada"))
    equal(status(s)["locks_unreadable"], 1)
    true("cannot be read" in s.out("index", "status", "domains").decode(), "said")
    events = compile_(s, "--wait", "0s")
    equal(sorted(e["end"] for e in events if e["event"] == "shard"), ["done", "held"], events)
    equal(len(objects(s, ".holdfast/kept/")), 1, "kept")
    equal(keys(s), ["example.com", "example.org"])


@it("who holds a shard is told, others pass it by, and a fold uses its inbox", DIR)
def _(s):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    create(s, "--digits", "1")
    load(s, rows_of(400))
    held = s.out("acquire", "--ttl", "1m", "shard:domains/3").decode().strip()
    now = status(s)
    equal([holder["shard"] for holder in now["holders"]], ["3"])
    true(now["holders"][0]["state"] == "active" and now["holders"][0]["token"] > 0, now)
    text = s.out("index", "status", "domains").decode()
    true(re.search(r"compiling    1\n  3: \S+, for ", text), text)
    told = totals(compile_(s, "--wait", "0s"))
    equal((told["shards_held"], told["shards_done"]), (1, 15))
    waiting = status(s)["inbox"]["entries"]
    told = load(s, rows_of(400, at=1780000000), "--fold", "--wait", "50ms")
    equal(told, f"put 400 records: {400 - waiting} directly into 15 shards, {waiting} into the inbox "
          "of shards that are held\n")
    equal(status(s)["inbox"]["entries"], 2 * waiting)
    slow = s.start("index", "put", "domains", "--from", "rows.usv", "--fold")
    until(lambda: json.loads(s.out("locks", "show", "--json", "shard:domains/3"))["queue"],
          "it waits in line")
    slow.send_signal(signal.SIGINT)
    told = slow.communicate(timeout=30)[0].decode()
    equal(slow.returncode, -signal.SIGINT)
    true(re.fullmatch(r"put (\d+) records: \1 directly into \d+ shards; stopped: put the file again, "
                      r"which is safe\n", told), told)
    s.run("release", held)
    equal(totals(compile_(s))["shards_done"], 1)
    equal((status(s)["holders"], count(s)), ([], 400))
    equal({row["updated_at"][:3] for row in query(s)}, {"178"})


# ---- Status -------------------------------------------------------------------------------------


@it("status says in words how an index is", LOCAL)
def _(s):
    create(s)
    text = s.out("index", "status", "domains").decode()
    for words in ("index        domains, version 1", "domain (key), owner, updated_at (time)",
                  "inbox        empty", "shards       0 of 256", "not counted yet",
                  "compiling    0", "set aside    0"):
        true(words in text, (words, text))
    put(s, "a")
    put(s, "b")
    text = s.out("index", "status", "domains").decode()
    true(re.search(r"inbox +2 entries, \d+ B, for \d shards?; the oldest is \S+ old\n", text), text)
    told = status(s)
    true(0 <= told["inbox"]["oldest_age_ms"] < 60000, told)
    equal((told["schema"]["fields"], told["schema"]["key"], told["schema"]["digits"],
           told["records"]), (FIELDS, "domain", 2, None))
    compile_(s)
    told = status(s)
    equal((told["records"], told["inbox"]["oldest_age_ms"], told["shards"]["most"]), (2, None, 256))
    true(told["shards"]["size_bytes"] >= told["shards"]["largest_bytes"] > 0, told)
    text = s.out("index", "status", "domains").decode()
    true(re.search(r"records +2 in shards, as of (\S+ ago|just now)\n", text), text)


@it("the guide's worked example works as typed")
def _(s):
    guide = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "guide.md")
    with open(guide, encoding="utf-8") as source:
        section = source.read().split("\n## Indexes\n")[1].split("\n## ")[0]
    lines = re.findall(r"^    (holdfast index .*|printf .*)$", section, re.M)
    true(len(lines) > 5, lines)
    for line in lines:
        if "--watch" in line:
            continue
        done = subprocess.run(["bash", "-c", line], cwd=s.path, env=s.env, capture_output=True,
                              check=False)
        equal((done.returncode, done.stderr), (0, b""), line)


def leak_nothing(s):
    invalid, not_found = code(s, "INVALID"), code(s, "NOT_FOUND")
    create(s)
    put(s, "a")
    s.write("rows.csv", b'domain,updated_at\nb,1\nbad\n"c\td",2\n')
    s.find_leaks(True)
    s.run("index", "put", "domains", "--from", "rows.csv", expect=invalid)
    s.run("index", "put", "domains", "--from", "rows.csv", "--fold", expect=invalid)
    s.run("index", "compile", "domains", "--json")
    s.run("index", "query", "domains", "--where", "owner=ada", "--where", "owner!=b", "--json")
    s.run("index", "export", "domains", "-o", "out", "--format", "csv")
    s.run("index", "get", "domains", "a", "none", expect=not_found)
    s.run("index", "status", "domains", "--json")


if SANITIZED:
    it("no command leaks memory, whether it succeeds or fails", DIR)(leak_nothing)


if __name__ == "__main__":
    sys.exit(cases.main())

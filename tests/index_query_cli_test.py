#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""index_query_cli_test.py: what is asked of an index on the command line: many keys at once, conditions,
orders and times without a zone; and keys that are deleted.

Prints TAP. The index and its rows are those of index_cli_test.py.
"""

import json
import re
import sys

import cases
from cli_test import LOCAL, code, equal, it, objects, true
from index_cli_test import (DIR, FORMATS, US, compile_, count, create, fails, get, keys, load, put,
                            rows_of)

cases.cases.clear()


def ordered(s, *args, field="domain"):
    return [row[field] for row in s.lines("index", "query", "domains", *args)]


# ---- Many keys ----------------------------------------------------------------------------------


@it("get takes keys of arguments and of a file or stdin, and shows them in their order", LOCAL)
def _(s):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    create(s, "--digits", "1")
    rows = rows_of(300)
    load(s, rows[:200], "--fold")
    load(s, rows[200:])
    wanted = [row[0] for row in rows[::-7]]
    s.write("keys", "\n".join(wanted[3:]).encode() + b"\n\n")
    shown = s.lines("index", "get", "domains", *wanted[:3], "--keys-from", "keys")
    equal([row["domain"] for row in shown], wanted)
    shown = s.run("index", "get", "domains", "--keys-from", "-", "--format", "csv",
                  stdin="\r\n".join(wanted[3:]).encode())  # as another system ends its lines
    equal(shown.stdout.decode().splitlines()[0], "domain,owner,updated_at")
    equal([line.split(",")[0] for line in shown.stdout.decode().splitlines()[1:]], wanted[3:])
    s.write("keys", b"none-1\n" + wanted[0].encode() + b"\nnone-2")
    done = s.run("index", "get", "domains", "--keys-from", "keys", expect=code(s, "NOT_FOUND"))
    equal([line.split("\t")[0] for line in done.stdout.decode().splitlines()], [wanted[0]])
    equal(sorted(re.findall(r"index get (\S+): NOT_FOUND", done.stderr.decode())),
          ["none-1", "none-2"])


@it("get without a key, and keys from a file that is not there, are refused", DIR)
def _(s):
    create(s)
    true("--keys-from" in fails(s, "INVALID", "get", "domains"), "it says what to give")
    fails(s, "NOT_FOUND", "get", "domains", "--keys-from", "missing")
    put(s, "a")
    s.write("odd", b"b\na\0b\n")
    for command in ("get", "rm"):
        true("line 2" in fails(s, "INVALID", command, "domains", "--keys-from", "odd"), command)
    equal(keys(s), ["a"])
    s.write("none", b"\n\n")
    s.run("index", "get", "domains", "--keys-from", "none")


# ---- Conditions and orders ----------------------------------------------------------------------


def load_sizes(s):
    create(s, fields="domain,owner,updated_at,size")
    load(s, [("a", "ada", "2026-02-06T10:00:00Z", "9"), ("b", "bob", "2026-02-06T12:00:00+01:00", "10"),
             ("c", "adam", "1770372000", "1e1"), ("d", "eve", "2026-02-07T00:00:00Z", "large"),
             ("e", "", "2026-02-05T00:00:00Z", "")])
    compile_(s)


@it("query compares numbers, times, bytes and patterns, and all conditions must hold", DIR)
def _(s):
    load_sizes(s)
    for condition, wanted in [("size=10", "bc"), ("size!=10", "ade"), ("size < 10", "ae"), ("size >= 10", "bcd"),
                              ("owner ~ ad*", "ac"), ("owner~???", "abd"), ("owner >= bob", "bd"),
                              ("updated_at = 2026-02-06T11:00:00+01:00", "ac"),
                              ("updated_at > 2026-02-06T10:00:00Z", "bd"), ("owner=", "e")]:
        equal("".join(keys(s, "--where", condition)), wanted, condition)
    equal(keys(s, "--where", "size >= 10", "--where", "owner ~ *d*"), ["c"])
    for condition, sentence in [("size", "--where: expected FIELD OP VALUE"), ("sise=1", "did you mean 'size'"),
                                ("updated_at=noon", "is not a time"), ("owner~" + 300 * "x", "at most 256")]:
        true(sentence in fails(s, "INVALID", "query", "domains", "--where", condition), condition)


@it("query sorts by any field, as bytes, numbers or times, up or down, with a limit", DIR)
def _(s):
    load_sizes(s)
    equal("".join(ordered(s, "--sort", "domain")), "abcde")
    equal("".join(ordered(s, "--sort", "domain:desc")), "edcba")
    equal("".join(ordered(s, "--sort", "size:number")), "abced")
    equal("".join(ordered(s, "--sort", "size:number:desc")), "debca")
    equal("".join(ordered(s, "--sort", "size")), "ebcad")
    equal("".join(ordered(s, "--sort", "updated_at")), "eacbd")
    equal("".join(ordered(s, "--sort", "updated_at:desc", "--limit", "2")), "db")
    equal("".join(ordered(s, "--sort", "domain", "--limit", "0")), "")
    equal("".join(ordered(s, "--sort", "owner", "--where", "owner!=", "-n", "1")), "a")
    for order in ("sise", "size:", "size:up", "size:desc:number", "size::desc"):
        true("--sort: " in fails(s, "INVALID", "query", "domains", "--sort", order), order)


@it("what is sorted may be more than memory holds", DIR)
def _(s):
    s.env["HOLDFAST_STORE"] = s.url + "?sync=off"
    create(s, "--digits", "1")
    rows = [(f"host-{i * 7919 % 20000:05}", 1000 * "x", str(1770000000 + i)) for i in range(20000)]
    load(s, rows, "--fold")
    out = s.out("index", "query", "domains", "--sort", "updated_at:desc", "--format", "usv").decode()
    equal([line.split(US)[2] for line in out.splitlines()], [row[2] for row in reversed(rows)])


# ---- Zones --------------------------------------------------------------------------------------


@it("an index may say what times without a zone mean, once and for all", DIR)
def _(s):
    true("zone" in fails(s, "INVALID", "create", "domains", "--fields", "domain,updated_at", "--key", "domain",
                         "--time", "updated_at", "--zone", "Berlin"), "a zone is an offset")
    create(s, "--zone", "+02:00")
    put(s, "k", "here", "2026-02-06T12:00:00")
    put(s, "k", "utc", "2026-02-06T10:30:00Z")
    equal(get(s, "k")[0]["owner"], "utc")
    put(s, "k", "later", "2026-02-06 12:31:00")
    compile_(s)
    equal(get(s, "k")[0]["owner"], "later")
    equal(keys(s, "--since", "2026-02-06T12:31:00"), ["k"])
    equal(keys(s, "--since", "2026-02-06T12:31:01"), [])
    equal(json.loads(s.out("index", "status", "domains", "--json"))["schema"]["zone"], "+02:00")
    true("+02:00, for times without one" in s.out("index", "status", "domains").decode(), "for people")
    equal(json.loads(s.get("indexes/domains/index.json"))["format"], "holdfast.index/2")
    create(s)
    for zone in ("UTC", "-02:00"):
        true("cannot be changed" in fails(s, "INVALID", "create", "domains", "--fields",
                                          "domain,owner,updated_at", "--key", "domain", "--time", "updated_at",
                                          "--zone", zone), zone)
    create(s, name="others")
    equal(json.loads(s.get("indexes/others/index.json"))["format"], "holdfast.index/1")
    fails(s, "INVALID", "put", "others", "domain=k", "updated_at=2026-02-06T12:00:00")


# ---- Deleting -----------------------------------------------------------------------------------


@it("a deleted key is not shown by anything, before and after a compile", LOCAL)
def _(s):
    create(s, "--digits", "1")
    load(s, [(key, "ada", "2026-02-06T10:00:00Z") for key in "abcde"])
    compile_(s)
    equal(json.loads(s.get("indexes/domains/index.json"))["format"], "holdfast.index/1")
    equal(s.out("index", "rm", "domains", "a", "c", "x").decode(), "deleted 3 keys from domains\n")
    equal(s.out("index", "rm", "domains", "x", "--time", "2020-01-01T00:00:00Z").decode(),
          "deleted 1 key from domains as of 2020-01-01T00:00:00Z\n")
    equal(json.loads(s.get("indexes/domains/index.json"))["format"], "holdfast.index/2")
    s.write("keys", b"d\n")
    equal(json.loads(s.out("index", "rm", "domains", "--keys-from", "keys", "--json")),
          {"index": "domains", "deleted": 1})
    for _ in range(2):
        equal((keys(s), count(s)), (["b", "e"], 2))
        s.run("index", "get", "domains", "a", expect=code(s, "NOT_FOUND"))
        done = s.run("index", "get", "domains", "a", "b", "c", expect=code(s, "NOT_FOUND"))
        equal([line.split("\t")[0] for line in done.stdout.decode().splitlines()], ["b"])
        for form in FORMATS:
            s.run("index", "export", "domains", "-o", f"out.{form}")
            true(b"\x1d" not in s.read(f"out.{form}"), form)
        equal(s.read("out.csv").count(b"\n"), 3)
        compile_(s)
    status = json.loads(s.out("index", "status", "domains", "--json"))
    equal((status["records"], status["deletions"]), (2, 4))
    true("2 in shards, and 4 deletions" in s.out("index", "status", "domains").decode(), "for people")


@it("a deletion wins or loses by its time, whatever arrives first", DIR)
def _(s):
    create(s)
    s.run("index", "rm", "-q", "domains", "k", "--time", "2026-02-06T10:00:00Z")
    put(s, "k", "before", "2026-02-06T09:00:00Z")
    equal(keys(s), [])
    compile_(s)
    put(s, "k", "still before", "2026-02-06T09:59:00Z")
    for _ in range(2):
        equal(keys(s), [])
        compile_(s)
    put(s, "k", "after", "2026-02-06T10:01:00Z")
    for _ in range(2):
        equal(get(s, "k")[0]["owner"], "after")
        compile_(s)
    s.run("index", "rm", "-q", "domains", "k", "--time", "2026-02-06T10:00:30Z")
    equal(get(s, "k")[0]["owner"], "after")
    s.run("index", "rm", "-q", "domains", "k", "--time", "2026-02-06T10:01:01Z")
    equal(keys(s), [])


@it("what cannot be deleted is refused, and nothing is", DIR)
def _(s):
    create(s)
    put(s, "k")
    fails(s, "INVALID", "rm", "domains")
    fails(s, "INVALID", "rm", "domains", "k", "")
    fails(s, "INVALID", "rm", "domains", "k", 1025 * "x")
    true("--time takes" in fails(s, "INVALID", "rm", "domains", "k", "--time", "noon"), "it names the option")
    fails(s, "INVALID", "compile", "domains", "--keep-deleted", "1h")
    equal((keys(s), json.loads(s.get("indexes/domains/index.json"))["format"]), (["k"], "holdfast.index/1"))
    s.write("rows.usv", b"\x1dk\x1f\x1f2026-02-07T10:00:00Z\n")
    s.run("index", "put", "domains", "--from", "rows.usv", expect=code(s, "INVALID"))
    s.run("index", "rm", "-q", "domains", "other")
    s.run("index", "put", "domains", "--from", "rows.usv", expect=code(s, "INVALID"))
    equal(keys(s), ["k"])


@it("another program may delete a key too, once the index has deletions", DIR)
def _(s):
    create(s)
    put(s, "k")
    s.write("entry", b"\x1dk\x1f\x1f2026-02-07T10:00:00Z\n")
    s.run("store", "put", "-q", "indexes/domains/k.usv", "entry")
    compile_(s)
    equal(keys(s), ["k"])
    equal(len(objects(s, "indexes/domains/aside/")), 2, "no deletions yet")
    s.run("index", "rm", "-q", "domains", "other")
    s.run("store", "put", "-q", "indexes/domains/k.usv", "entry")
    for _ in range(2):
        equal(keys(s), [])
        compile_(s)


@it("an index is dropped: nobody opens it, and its name is not free yet", LOCAL)
def _(s):
    create(s)
    put(s, "a")
    compile_(s)
    put(s, "b")
    told = json.loads(s.out("index", "drop", "domains", "--dry-run", "--json"))
    equal((told["marked"], told["deleted"], told["objects"] > 2), (False, 0, True))
    equal(keys(s), ["a", "b"])
    text = s.out("index", "drop", "domains").decode()
    true(re.fullmatch(r"deleted \d+ objects of index domains; run this again in .+\n", text), text)
    equal(objects(s, "indexes/domains/"), ["indexes/domains/index.json"])
    for command in (["get", "domains", "a"], ["put", "domains", "domain=a"], ["status", "domains"],
                    ["rm", "domains", "a"], ["compile", "domains"]):
        true("being dropped" in fails(s, "NOT_FOUND", *command), command)
    true("drop it again in" in fails(s, "CONFLICT", "create", "domains", "--fields", "a,b", "--key", "a", "--time", "b"),
         "the name is not free")
    equal(json.loads(s.out("index", "drop", "domains", "--json"))["deleted"], 0)
    fails(s, "NOT_FOUND", "drop", "others")


if __name__ == "__main__":
    sys.exit(cases.main())

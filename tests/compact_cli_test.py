#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compact_cli_test.py: the commands about compaction, run as a person or a script would run them,
on good input and on bad.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py; what must
have come of it all is judged by tools/audit.py, which shares no code with the program.
"""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import calendar_kit
import cases
import cli_test
from cli_test import LOCAL, PROGRAM, SANITIZED, code, equal, fails, it, true, until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import audit  # noqa: E402

cases.cases.clear()

HOUR = 3600
BEGIN = 1770000000 // HOUR * HOUR
DIR = ["dir"]


# ---- How it is used -----------------------------------------------------------------------------


def row(key, time_, value="x"):
    return f"{key}\x1f{value}\x1f{time_}\n".encode()


def create(s, *more):
    """A partition with times that suit a test: whatever was merged may be deleted soon."""
    quick = {"--level0-count": "3", "--ttl": "3s", "--grace": "0", "--late-bound": "1h",
             "--skew": "0", "--step": "100ms"}
    given = [*more]
    for name, value in quick.items():
        if name not in given:
            given += [name, value]
    if "--format" not in given:
        given += ["--format", "usv", "--key", "1", "--time", "3"]
    s.run("compact", "create", "-q", *given)


def ingest(s, files, *args):
    """Files of these contents become chunks; their keys, in order."""
    names = []
    for number, data in enumerate(files):
        names.append(f"in-{number:03}")
        s.write(names[-1], data)
    return [told["key"] for told in s.lines("compact", "ingest", *names, *args)]


def some_files(count, hour=0, tag=""):
    """Each has a key of its own, and one that all have."""
    return [row("all", BEGIN + hour * HOUR + i, f"{tag}{i}")
            + row(f"key-{tag}{hour}-{i}", BEGIN + hour * HOUR + i) for i in range(count)]


def chunks(s, *args):
    return s.lines("compact", "ls", *args)


def keys(s, *args):
    return [chunk["key"] for chunk in chunks(s, *args)]


def status(s, *args):
    return json.loads(s.out("compact", "status", "--json", *args))


def plan(s, *args):
    return json.loads(s.out("compact", "plan", "--json", *args))


def run(s, *args, expect=0):
    """The events of a run with one job at a time."""
    done = s.run("compact", "run", "--jobs", "1", "--json", *args, expect=expect)
    return [json.loads(line) for line in done.stdout.splitlines()]


def of_kind(events, kind):
    return [event for event in events if event["event"] == kind]


def check_all(s, files, settled=False, events=()):
    """The audit of a dir: store finds nothing wrong, and of each key the right record."""
    result = audit.audit(s.file("objects"), audit.records(b"".join(files)), settled=settled,
                         events=events)
    equal(result.wrong, [], "the audit")
    return result.figures


def clear_away(s):
    """Runs until nothing is a tombstone or being deleted any more, late requests being over."""
    s.run("compact", "set", "-q", "--late-bound", "1ms")
    until(lambda: run(s) and {chunk["state"] for chunk in chunks(s, "--all")} <= {"live"},
          "all is cleared away")


# ---- Partitions ---------------------------------------------------------------------------------


@it("a partition is made once: again with the same settings is fine, with others a CONFLICT", LOCAL)
def _(s):
    args = ("compact", "create", "--format", "usv", "--key", "1", "--time", "3")
    equal(s.out(*args), b"created partition default: usv, policy levels\n")
    s.run(*args)
    fails(s, "CONFLICT", *args, "--grace", "1h")
    told = json.loads(s.out(*args, "--partition", "logs", "--grace", "1h", "--json"))
    equal((told["partition"], told["settings"]["grace_ms"]), ("logs", 3600000))
    equal(status(s, "--partition", "logs")["settings"], told["settings"])


@it("settings that make no sense are refused in words, and nothing is made", DIR)
def _(s):
    s.make_store()
    args = ("compact", "create", "--format", "usv")
    for more, words in ((["--key", "1", "--policy", "heap"], "--policy"),
                        ([], "a time field"), (["--key", "1", "--no-header"], "header"),
                        (["--key", "1", "--level0-count", "1"], "2 to"),
                        (["--key", "1", "--ttl", "1us"], "--ttl"),
                        (["--key", "1", "--compress", "rar"], "--compress"),
                        (["--key", "1", "--partition", "A/b"], "partition")):
        true(words in fails(s, "INVALID", *args, *more), (more, words))
    fails(s, "INVALID", "compact", "create", "--key", "1")
    equal(s.everything(), b"")


@it("no command works on a partition that is not there, and each says how to make one", DIR)
def _(s):
    s.make_store()
    s.write("file", row("a", BEGIN))
    for args in (["ls"], ["plan"], ["run"], ["status"], ["ingest", "file"], ["set", "--ttl", "1m"],
                 ["quarantine", "k"], ["undelete", "k"], ["fsck", "--partition", "default"],
                 ["pause"], ["resume"]):
        text = fails(s, "NOT_FOUND", "compact", *args)
        true("there is no partition" in text, (args, text))
    true("compact create" in fails(s, "NOT_FOUND", "compact", "ls"), "says how")


@it("set changes what it is told, and nothing that chunks are made of once there are some", LOCAL)
def _(s):
    create(s)
    before = status(s)["settings"]
    told = json.loads(s.out("compact", "set", "--retention", "30d", "--time", "2", "--json"))
    equal(told["settings"], {**before, "retention_ms": 30 * 86400000, "time": "2"})
    s.run("compact", "set", "-q", "--retention", "0", "--time", "3")
    equal(status(s)["settings"], before)
    ingest(s, some_files(1))
    text = fails(s, "CONFLICT", "compact", "set", "--key", "2")
    true("--key" in text, text)
    fails(s, "INVALID", "compact", "set")
    fails(s, "INVALID", "compact", "set", "--tries", "0")
    equal(status(s)["settings"], before)


# ---- Files become chunks ------------------------------------------------------------------------


@it("files become chunks of level 0, in order, with rows, times, writer and checksum", LOCAL)
def _(s):
    create(s)
    s.write("a", row("k", BEGIN) + row("l", BEGIN + 60))
    s.write("b", row("m", BEGIN + HOUR))
    told = s.lines("compact", "ingest", "a", "b", "--writer", "w1")
    equal([(one["path"], one["rows"], one["size_bytes"], one["malformed"]) for one in told],
          [("a", 2, len(s.read("a")), 0), ("b", 1, len(s.read("b")), 0)])
    listed = chunks(s)
    equal([chunk["key"] for chunk in listed], [one["key"] for one in told])
    equal((listed[0]["level"], listed[0]["rows"], listed[0]["writer"], listed[0]["sequence"],
           listed[0]["state"], listed[0]["quarantine"]), (0, 2, "w1", 1, "live", None))
    equal((listed[0]["min_at"], listed[0]["max_at"]),
          ("2026-02-02T02:00:00.000Z", "2026-02-02T02:01:00.000Z"))
    equal(listed[0]["crc32c"], f"{audit.crc32c(s.read('a')):08x}")
    equal(s.get(listed[0]["key"]), s.read("a"))
    true(re.fullmatch(r"data/default/L0/2026/02/[0-9a-f]{32}\.usv", listed[0]["key"]), listed[0])
    s.write("c", row("n", BEGIN))
    text = s.out("compact", "ingest", "a", "c").decode()
    true(re.fullmatch(r"ingested 1 file: 1 row, \d+ B; 1 file was already there\n", text), text)
    equal(s.out("compact", "ingest", "a", "-q"), b"")
    header, *lines = s.out("compact", "ls").decode().splitlines()
    true(header.startswith("LEVEL "), header)
    equal(len(lines), 3)
    true(re.match(r"L0 +\d+ B +2  2026-02-02T02:01:00.000Z  data/default/L0/", lines[0]), lines)


@it("a file that was ingested before is already there; --id tells equal files apart", LOCAL)
def _(s):
    create(s, "--format", "concat")
    s.write("a", b"beat\n")
    for args in ([], ["--id", "monday"], ["--id", "tuesday"]):
        for again in (False, True):
            told, = s.lines("compact", "ingest", "a", *args)
            equal((told["already_there"], told["key"] is None), (again, again))
    equal(len(chunks(s)), 3)
    fails(s, "INVALID", "compact", "ingest", "a", "a", "--id", "monday")


@it("a file that is empty, missing or a folder is told and left; the rest goes on", DIR)
def _(s):
    create(s)
    s.write("good", row("k", BEGIN))
    s.write("empty", b"")
    os.mkdir(s.file("folder"))
    done = s.run("compact", "ingest", "empty", "good", "missing", "folder", "--json",
                 expect=code(s, "INVALID"))
    equal([json.loads(line)["path"] for line in done.stdout.splitlines()], ["good"])
    told = [json.loads(line) for line in done.stderr.splitlines()]
    equal(len(told), 3, told)
    equal([one["status"] for one in told[:2]], ["INVALID", "NOT_FOUND"])
    for one, name in zip(told, ("empty", "missing", "folder")):
        true(name in one["why"], one)
    equal(len(chunks(s)), 1)
    equal(s.out("store", "ls", "-r", "data/").count(b"\n"), 1)


@it("a file with a row that cannot be read is told and left, unless it may be rejected", DIR)
def _(s):
    create(s)
    s.write("bad", row("k", BEGIN) + row("l", "never"))
    s.write("local", row("k", BEGIN) + row("l", "2026-02-02 02:00:00"))
    true("1 of 2 rows" in fails(s, "INVALID", "compact", "ingest", "bad"), "how many")
    s.run("compact", "set", "-q", "--max-rejects", "any")
    s.run("compact", "ingest", "-q", "bad")
    text = fails(s, "INVALID", "compact", "ingest", "local")
    true("record 2 has a time without a zone" in text and len(chunks(s)) == 1, text)


@it("ingest waits while too many chunks do, then says how many, and goes on after a merge", DIR)
def _(s):
    create(s, "--backlog", "3")
    ingest(s, some_files(3))
    equal((status(s)["pressure"], status(s)["backlog"]), (100, {"chunks": 3, "most": 3}))
    s.write("more", row("more", BEGIN))
    text = fails(s, "UNAVAILABLE", "compact", "ingest", "more", "--wait", "100ms")
    true("3" in text, text)
    waiter = s.start("compact", "ingest", "-q", "more")
    run(s)
    equal((waiter.communicate(timeout=60), waiter.returncode), ((b"", b""), 0))
    equal(len(chunks(s)), 2)


# ---- Planning and merging -----------------------------------------------------------------------


@it("run does what plan has said: the same groups, bytes and requests", LOCAL)
def _(s):
    create(s, "--grace", "1h", "--ttl", "1h")
    ingest(s, some_files(3, tag="first"))
    run(s)  # the first one ever makes the lease table
    ingest(s, some_files(7) + some_files(2, hour=1) + some_files(3, hour=5))
    wanted = plan(s)
    equal((wanted["groups"], wanted["paused_why"], wanted["leased"]), (4, None, 0))
    equal(sorted(len(group["sources"]) for group in wanted["plan"]), [2, 3, 3, 3])
    events = run(s)
    ended = of_kind(events, "ended")
    equal({event["end"] for event in ended}, {"committed"})
    equal(sorted((e["level"], e["input_bytes"], e["rows"], e["sources"]) for e in ended),
          sorted((g["level"], g["input_bytes"], g["rows"], g["sources"]) for g in wanted["plan"]))
    done = of_kind(events, "done")[0]
    equal(done["totals"]["done_bytes"], wanted["input_bytes"])
    if s.url == "dir:objects":  # where each is a request of its own, as on the network
        equal(done["requests"], wanted["requests"], "requests")
    equal(plan(s)["groups"], 0)
    done = of_kind(run(s), "done")[0]
    equal(done["requests"], plan(s)["requests"], "requests of nothing")


@it("plan and run speak to people in lines, and to nobody when quiet", DIR)
def _(s):
    create(s, "--max-rejects", "any")
    equal(s.out("compact", "plan").decode().split(",")[0], "0 groups")
    ingest(s, some_files(4))
    lines = s.out("compact", "plan").decode().splitlines()
    true(re.match(r"L1  3 chunks  \d+ B  6 rows  from data/default/L0/", lines[0]), lines)
    true(re.match(r"1 group, 3 chunks, \d+ B, 6 rows, \d+ requests$", lines[1]), lines)
    lines = s.out("compact", "run").decode().splitlines()
    kinds = {line.split()[0] for line in lines}
    true({"planned", "started", "committed", "compacted"} <= kinds, lines)
    true(re.match(r"compacted 1 group, \d+ B in \S+, .*: 6 rows in, 4 out, 2 superseded", lines[-1]),
         lines)
    ingest(s, [row("k", BEGIN) + row("bad", "never")] + some_files(2, tag="b"))
    text = s.out("compact", "run").decode()
    true("never" in s.get(re.search(r"1 rejected, kept in (\S+)", text)[1]).decode(), text)
    ingest(s, [row("l", BEGIN) + row("bad", "never")] + some_files(2, tag="c"))
    true(of_kind(run(s), "ended")[0]["rejects"].endswith(".rejects"), "for programs")
    ingest(s, some_files(3, tag="d"))
    equal(s.out("compact", "run", "-q"), b"")


@it("the latest record of each key is kept, and what was merged is deleted after its grace", DIR)
def _(s):
    create(s)
    files = some_files(9) + some_files(9, tag="again")
    ingest(s, files)
    events = run(s, "--all", "--force")
    totals = of_kind(events, "done")[0]["totals"]
    equal((totals["rows_in"], totals["rows_out"] + totals["rows_superseded"]),
          (totals["rows_in"], totals["rows_in"]))
    figures = check_all(s, files)
    equal(len(keys(s)), 1, "one chunk of a catalog")
    equal((figures["rows in"], figures["rows out"]), (36, 18 + 1))
    clear_away(s)
    check_all(s, files, settled=True)
    equal(s.out("store", "ls", "-r", "data/").decode().split(), keys(s))
    told = status(s)
    equal((told["tombstones"]["chunks"], told["deleting"]), (0, {"retired": 0, "condemned": 0}))
    equal(s.out("store", "ls", "-r", "roster/"), b"")


@it("many workers at once commit each group once, and lose nothing", LOCAL)
def _(s):
    create(s, "--grace", "1h")
    files = [data for hour in range(10) for data in some_files(6, hour=hour)]
    ingest(s, files)
    workers = []
    for number in range(4):
        with open(s.file(f"events-{number}"), "wb") as out:
            workers.append(s.start("compact", "run", "--all", "--json", stdout=out))
    for worker in workers:
        equal((worker.communicate(timeout=120)[1], worker.returncode), (b"", 0))
    if s.url != "dir:objects":
        s.run("store", "cp", "-q", "--recursive", "--to", "dir:objects")
    figures = check_all(s, files, events=[s.file(f"events-{number}") for number in range(4)])
    equal((figures["groups committed"], figures["groups committed twice"]), (20, 0))
    equal((figures["bytes merged in vain"], plan(s)["groups"]), (0, 0))


@it("pause lets nobody begin and says why; resume lets them go on", LOCAL)
def _(s):
    create(s)
    ingest(s, some_files(3))
    equal(s.out("compact", "pause", "--why", "backup until noon"), b"paused default\n")
    told = plan(s)
    equal(told["groups"], 0)
    true("backup until noon" in told["paused_why"], told)
    true(b"backup until noon" in s.out("compact", "plan"), "for people")
    events = run(s, expect=code(s, "UNAVAILABLE"))
    true("backup until noon" in of_kind(events, "paused")[0]["why"], events)
    equal(of_kind(events, "started"), [])
    told = status(s)
    true(told["paused"] and "backup until noon" in told["paused_why"], told)
    equal(json.loads(s.out("compact", "resume", "--json")),
          {"partition": "default", "paused": False})
    s.run("compact", "resume", "-q")
    equal(len(of_kind(run(s), "ended")), 1)
    equal(status(s)["paused"], False)


@it("a merge that is under way when compaction is paused comes to its end", DIR)
def _(s):
    worker = worker_in_a_merge(s)
    s.run("compact", "pause", "-q", "--why", "test")
    os.unlink(s.file("held"))
    equal((worker.communicate(timeout=60), worker.returncode), ((b"", b""), 0))
    equal([chunk["level"] for chunk in chunks(s)], [1])
    ingest(s, some_files(3, hour=1))
    run(s, expect=code(s, "UNAVAILABLE"))
    equal(sorted(chunk["level"] for chunk in chunks(s)), [0, 0, 0, 1], "nothing new is begun")


@it("a worker that watches goes by settings that change with its next plan", DIR)
def _(s):
    create(s, "--grace", "1h", "--level0-count", "4")
    ingest(s, some_files(3))
    watcher = s.start("compact", "watch", "--poll", "50ms", "--beat", "1h", "--json")
    until(lambda: status(s)["members"], "it watches")
    equal(plan(s)["groups"], 0)
    s.run("compact", "set", "-q", "--level0-count", "3")
    until(lambda: [c["level"] for c in chunks(s)] == [1], "merged by the new number")
    watcher.send_signal(signal.SIGTERM)
    equal((watcher.communicate(timeout=60)[1], watcher.returncode), (b"", 0))


@it("the guide's worked example works as typed", DIR)
def _(s):
    guide = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "guide.md")
    with open(guide, encoding="utf-8") as source:
        section = source.read().split("\n## Compaction\n")[1].split("\n## ")[0]
    lines = re.findall(r"^    (holdfast compact .*)$", section, re.M)
    equal(len(lines), 8, lines)
    os.mkdir(s.file("new"))
    files = some_files(20)
    for number, data in enumerate(files):
        s.write(f"new/{number}.usv", data)
    said = []
    for line in lines:
        done = subprocess.run(["bash", "-c", line], cwd=s.path, env=s.env, capture_output=True,
                              check=False)
        equal((done.returncode, done.stderr), (0, b""), line)
        said.append(done.stdout)
    equal([c["level"] for c in chunks(s)].count(1), 1, "it was merged")
    true(all(key.encode() in said[-1] for key in keys(s)), "ls names what is data")
    check_all(s, files)


@it("watch merges what comes, and ends in order when it is told to", LOCAL)
def _(s):
    create(s, "--grace", "1h")
    watcher = s.start("compact", "watch", "--poll", "50ms", "--json")
    ingest(s, some_files(3))
    until(lambda: [c["level"] for c in chunks(s)] == [1], "merged")
    until(lambda: status(s)["under_way"] == [], "completed")
    equal(len(status(s)["members"]), 1)
    watcher.send_signal(signal.SIGTERM)
    out, errors = watcher.communicate(timeout=60)
    equal((watcher.returncode, errors), (0, b""))
    events = [json.loads(line) for line in out.splitlines()]
    equal([e["end"] for e in of_kind(events, "ended")], ["committed"])
    equal(events[-1]["event"], "done")
    equal((status(s)["members"], status(s)["under_way"]), ([], []))


@it("retention takes what is wholly past it, by the newest data there is", DIR)
def _(s):
    create(s, "--retention", "2h", "--level0-count", "100")
    old, new = ingest(s, some_files(1) + some_files(1, hour=5))
    until(lambda: run(s) and keys(s) == [new], "the old one retired")
    clear_away(s)
    equal(s.out("store", "ls", "-r", "data/").decode().split(), [new])
    true(old != new, "two")


# ---- By hand ------------------------------------------------------------------------------------


@it("a pinned chunk is merged like others, and its object stays until the pin is released", LOCAL)
def _(s):
    create(s)
    sources = ingest(s, some_files(3))
    lease = s.out("compact", "pin", sources[0], "--ttl", "10m").decode().strip()
    true(re.fullmatch(r"\d+:[0-9a-f]{32}-\d+:metadata/compaction-leases\.json", lease), lease)
    run(s)
    equal(status(s)["pins"], 1)
    until(lambda: run(s) and s.out("store", "ls", "-r", "data/").count(b"\n") == 2,
          "the others deleted")
    true(s.get(sources[0]), "it is still there")
    s.run("renew", "-q", lease)
    s.run("release", lease)
    clear_away(s)
    fails(s, "NOT_FOUND", "store", "get", sources[0])
    text = fails(s, "NOT_FOUND", "compact", "pin", sources[0])
    true(sources[0] in text, text)


@it("a chunk in quarantine is left out and its reason shown, until it is released", LOCAL)
def _(s):
    create(s)
    sources = ingest(s, some_files(3))
    equal(s.out("compact", "quarantine", sources[1], "--why", "looks odd").decode(),
          f"quarantined {sources[1]}\n")
    told = plan(s)
    equal((told["groups"], told["quarantined"]), (0, 1))
    equal([(c["key"], c["quarantine"]) for c in status(s)["quarantined"]],
          [(sources[1], "looks odd")])
    text = s.out("compact", "status").decode()
    true(f"  {sources[1]}: looks odd\n" in text, text)
    true("quarantined: looks odd" in s.out("compact", "ls").decode(), "in the list")
    equal(json.loads(s.out("compact", "quarantine", sources[1], "--release", "--json")),
          {"key": sources[1], "quarantine": None, "discarded": False})
    equal(plan(s)["groups"], 1)
    true("no catalog" in fails(s, "NOT_FOUND", "compact", "quarantine", "data/x"), "unknown")
    fails(s, "INVALID", "compact", "quarantine", sources[1], "--release", "--why", "x")


@it("undelete undoes a merge within its grace, and not what was merged further", LOCAL)
def _(s):
    create(s, "--grace", "1h")
    files = some_files(3)
    sources = ingest(s, files)
    run(s)
    target = keys(s)[0]
    equal(sorted(c["key"] for c in chunks(s, "--all") if c["state"] == "tombstone"),
          sorted(sources))
    equal({c["into"] for c in chunks(s, "--all") if c["state"] == "tombstone"}, {target})
    equal(s.out("compact", "undelete", sources[1]), b"brought back 3 chunks\n")
    equal(sorted(keys(s)), sorted(sources))
    fails(s, "NOT_FOUND", "compact", "undelete", sources[1])
    fails(s, "NOT_FOUND", "compact", "undelete", "data/x")
    run(s)
    ingest(s, some_files(3, hour=4))
    run(s, "--all", "--force")
    fails(s, "CONFLICT", "compact", "undelete", sources[0])


# ---- Looking ------------------------------------------------------------------------------------


@it("status tells levels, what is due, jobs of the last hour, tombstones and settings", LOCAL)
def _(s):
    create(s, "--grace", "1h")
    ingest(s, some_files(5))
    told = status(s)
    equal(sorted(told), ["backlog", "barred", "barred_why", "catalogs", "deleting", "dropping", "due",
                         "last_hour", "levels", "members", "needs_allow_exec", "partition", "paths",
                         "paused", "paused_why", "pins", "pressure", "quarantined",
                         "quarantined_count", "settings", "tombstones", "under_way", "unsettled"])
    equal([(one["level"], one["chunks"], one["rows"]) for one in told["levels"]], [(0, 5, 10)])
    equal(told["due"]["groups"], 1)
    run(s)
    told = status(s)
    equal([(one["level"], one["chunks"], one["rows"]) for one in told["levels"]],
          [(0, 2, 4), (1, 1, 4)])
    equal((told["due"]["groups"], told["tombstones"]["chunks"], told["last_hour"]["committed"]),
          (0, 3, 1))
    record = told["last_hour"]["records"][0]
    equal((record["end"], record["level"], record["sources"], record["rows_in"],
           record["rows_out"], record["rows_superseded"]), ("committed", 1, 3, 6, 4, 2))
    text = s.out("compact", "status").decode()
    for pattern in (r"^partition +default, in 1 catalog$", r"^settings +usv, policy levels, key 1",
                    r"^level 0 +2 chunks, \d+ B, 4 rows$", r"^level 1 +1 chunk, ",
                    r"^backlog +2 of 3000 at level 0, pressure 0 %$", r"^due +0 groups, 0 B$",
                    r"^under way +0$", r"^last hour +1 committed, 0 failed, 0 lost; \d+ B at ",
                    r"^quarantined +0$", r"^tombstones +3 chunks, ",
                    r"^deleting +0 retired, 0 condemned$", r"^members +0 present$"):
        true(re.search(pattern, text, re.M), (pattern, text))


@it("on a terminal no reason can send a control byte", DIR)
def _(s):
    create(s)
    key, = ingest(s, some_files(1))
    s.run("compact", "quarantine", "-q", key, "--why", "evil\x1b[2J")
    s.run("compact", "pause", "-q", "--why", "evil\x1b[2J")
    for args in ("status", "ls", "plan"):
        text = cli_test.on_terminal(s, "compact", args)
        true(b"evil" in text and b"\x1b" not in text, (args, text))


# ---- Bad input ----------------------------------------------------------------------------------


def overwrite(s, key, data):
    with open(os.path.join(s.file("objects"), key), "wb") as out:
        out.write(data)


def fails_alone(s, spoil, word):
    """One of three chunks is spoilt: its group fails and says why, it is quarantined, and the rest
    is merged all the same."""
    create(s, "--grace", "1h")
    files = some_files(3) + some_files(3, hour=5)
    sources = ingest(s, files)
    spoil(sources[1])
    done = s.run("compact", "run", "--jobs", "1", "--json",
                 expect=cli_test.code(s, word))
    ended = of_kind([json.loads(line) for line in done.stdout.splitlines()], "ended")
    equal(sorted(event["end"] for event in ended), ["committed", "failed"])
    failed = [event for event in ended if event["end"] == "failed"][0]
    equal((failed["status"], failed["blame"]), (word, "chunk"))
    true(sources[1] in failed["why"], failed)
    told = status(s)
    equal([chunk["key"] for chunk in told["quarantined"]], [sources[1]])
    equal(told["last_hour"]["failed"], 1)
    run(s, "--force")
    left = chunks(s)
    equal([c["key"] for c in left if c["level"] == 0], [sources[1]])
    return files, sources


@it("a chunk whose bytes were changed fails its group, is quarantined, and the rest goes on", DIR)
def _(s):
    fails_alone(s, lambda key: overwrite(s, key, row("evil", BEGIN)), "CORRUPT")
    text = s.run("compact", "fsck", "--json", expect=code(s, "CORRUPT")).stdout
    kinds = {json.loads(line).get("kind") for line in text.splitlines()}
    true(kinds & {"wrong-size", "wrong-checksum"}, kinds)


@it("a chunk whose object is gone fails its group, is quarantined, and the rest goes on", DIR)
def _(s):
    _, sources = fails_alone(s, lambda key: os.unlink(os.path.join(s.file("objects"), key)),
                             "NOT_FOUND")
    text = s.run("compact", "fsck", expect=code(s, "CORRUPT")).stdout.decode()
    true(f"missing-object    {sources[1]}: " in text, text)


@it("a catalog that is damaged stops its own partition only, and says so", DIR)
def _(s):
    create(s)
    create(s, "--partition", "other")
    ingest(s, some_files(3), "--partition", "other")
    overwrite(s, "metadata/catalog.json", b'{"format": "holdfast.catalog/1", "chunks": [')
    before = s.read("objects/metadata/catalog.json")
    s.write("file", row("a", BEGIN))
    for args in (["ls"], ["plan"], ["status"], ["ingest", "file"], ["set", "--ttl", "1m"],
                 ["quarantine", "k"], ["run"]):
        fails(s, "CORRUPT", "compact", *args)
    equal(s.read("objects/metadata/catalog.json"), before, "it is kept")
    s.run("compact", "pause", "-q")
    equal(len(of_kind(run(s, "--partition", "other"), "ended")), 1)
    done = s.run("compact", "fsck", expect=code(s, "CORRUPT"))
    true(b"bad-catalog" in done.stdout, done.stdout)
    s.run("compact", "fsck", "--partition", "other")


@it("a damaged lease table is named; a run replaces it, and says why nothing is granted", DIR)
def _(s):
    create(s)
    ingest(s, some_files(3))
    s.run("acquire", "--ttl", "1m", "chunk:a")
    overwrite(s, "metadata/compaction-leases.json", b"{")
    for words in (["plan"], ["status"]):
        done = s.run("compact", *words, "--json", expect=code(s, "CORRUPT"))
        true(b"metadata/compaction-leases.json" in done.stderr, done.stderr)
        equal(json.loads(done.stdout)["partition"], "default")
    events = run(s, expect=code(s, "UNAVAILABLE"))
    true("nothing is granted" in of_kind(events, "trouble")[0]["why"], events)
    true("nothing is granted" in plan(s)["paused_why"] and plan(s)["groups"] == 0, plan(s))
    told = status(s)
    true(told["barred"] and told["under_way"] == [], told)
    true(re.match(r"blocked: the table was damaged and replaced at \d\d:\d\d UTC; free again in ",
                  told["barred_why"]), told)
    true("blocked: the table was damaged" in s.out("compact", "status").decode(), "in words")


@it("fsck finds nothing on a good bucket, and an object that nobody knows on another", LOCAL)
def _(s):
    create(s, "--grace", "1h")
    ingest(s, some_files(4))
    run(s)
    text = s.out("compact", "fsck").decode()
    true(re.match(r"1 catalog, 2 chunks, 3 tombstones, 0 deleting, 5 objects, \d+ B read: "
                  r"0 found, 0 repaired\n", text), text)
    orphan = "data/default/L0/2026/02/" + "ab" * 16 + ".usv"
    s.put(orphan, b"x")
    equal(json.loads(s.out("compact", "fsck", "--json"))["young"], 1)
    done = s.run("compact", "fsck", "--older-than", "0", "--json", expect=code(s, "CORRUPT"))
    found = [json.loads(line) for line in done.stdout.splitlines()]
    equal([(one["kind"], one["key"], one["repaired"]) for one in found[:-1]],
          [("unreferenced", orphan, False)])
    equal((found[-1]["found_count"], found[-1]["repaired_count"]), (1, 0))
    equal(s.get(orphan), b"x", "looking changes nothing")
    s.run("compact", "fsck", "--older-than", "0", "--repair")
    until(lambda: run(s) and s.run("store", "ls", orphan).stdout == b"", "deleted")
    equal(len(keys(s)), 2)
    s.run("compact", "fsck", "--older-than", "0")


def command(s, script, *more):
    """A partition that is merged by a script of ours, which all workers here allow."""
    s.write("merge.sh", script)
    s.env["HOLDFAST_ALLOW_EXEC"] = "/bin/sh"
    create(s, "--format", "usv", "--key", "1", "--time", "3",
           "--command", f"sh {s.file('merge.sh')} {{output}} {{inputs}}",
           "--time-limit", "2s", "--grace", "1h", "--ttl", "1s", *more)


def worker_in_a_merge(s):
    """A worker that holds the lease of a merge, which ends when the file `held` is gone."""
    command(s, b'out=$1; shift; while test -e held; do sleep 0.05; done; cat "$@" > "$out"\n')
    s.run("compact", "set", "-q", "--time-limit", "1m", "--ttl", "10m")
    s.write("held", b"")
    ingest(s, some_files(3))
    worker = s.start("compact", "run", "-q")
    until(lambda: status(s)["under_way"], "it holds a lease")
    return worker


@it("a command that hangs is ended at its limit, and one that lies is not believed", DIR)
def _(s):
    command(s, b"sleep 60\n")
    s.run("compact", "set", "-q", "--ttl", "1m")  # a busy machine must not lose the lease
    sources = ingest(s, some_files(3))
    begun = time.monotonic()
    fails(s, "TIMEOUT", "compact", "run", "-q")
    true(time.monotonic() - begun < 20, "in time")
    for lie in (b"exit 0\n", b': > "$1"\n', b'out=$1; shift; cat "$@" "$@" > "$out"\n',
                b'rm "$2"; echo x > "$1"\n', b"exit 3\n"):
        s.write("merge.sh", lie)
        done = subprocess.run([PROGRAM, "compact", "run", "-q", "--force"], cwd=s.path, env=s.env,
                              capture_output=True, timeout=60, check=False)
        true(done.returncode in (code(s, "UNAVAILABLE"), code(s, "CORRUPT")), (lie, done))
        true(re.search(rb"groups? failed", done.stderr), (lie, done.stderr))
        for key in sources:
            s.run("compact", "quarantine", "-q", key, "--release")
    equal(sorted(keys(s)), sorted(sources))
    s.write("merge.sh", b'out=$1; shift; cat "$@" > "$out"\n')
    run(s, "--all", "--force")
    equal(b"".join(sorted(b"".join(s.get(key) for key in keys(s)).splitlines(True))),
          b"".join(sorted(b"".join(some_files(3)).splitlines(True))))


MERGES = b'out=$1; shift; touch ran; env > seen; cat "$@" > "$out"\n'


@it("a bucket's command runs only where --allow-exec names its program, and else is reported", DIR)
def _(s):
    command(s, MERGES)
    s.run("compact", "set", "-q", "--time-limit", "1m", "--ttl", "10m")  # whatever else runs here
    sources = ingest(s, some_files(3))
    del s.env["HOLDFAST_ALLOW_EXEC"]
    for args in ([], ["--force"], ["--all"], ["--allow-exec", "/bin/cat"]):
        text = fails(s, "DENIED", "compact", "run", "-q", *args)
        true("partition default: needs --allow-exec: " in text and "'sh'" in text, text)
    events = run(s, expect=code(s, "DENIED"))
    true("needs --allow-exec" in of_kind(events, "trouble")[0]["why"], events)
    equal(of_kind(events, "started"), [])
    true(status(s)["needs_allow_exec"], "status --json")
    true(re.search(r"^command +needs --allow-exec: ", s.out("compact", "status").decode(), re.M),
         "status")
    true("needs --allow-exec" in plan(s)["paused_why"], "plan --json")
    true(b"paused: needs --allow-exec" in s.out("compact", "plan"), "plan")
    true(not os.path.exists(s.file("ran")), "it ran")
    equal((sorted(keys(s)), {chunk["tries"] for chunk in chunks(s)}), (sorted(sources), {0}))
    watch = s.start("compact", "watch", "--json")
    first = [json.loads(watch.stdout.readline()) for _ in range(1)]
    true("needs --allow-exec" in first[0]["why"], first)
    watch.terminate()
    equal((watch.communicate(timeout=60)[1], watch.returncode), (b"", 0))
    allowed = ["--allow-exec", "/bin/cat", "--allow-exec", "/bin/sh"]
    equal(status(s, *allowed)["needs_allow_exec"], False)
    equal(plan(s, *allowed)["paused_why"], None)
    run(s, *allowed)
    true(os.path.exists(s.file("ran")) and len(keys(s)) == 1, "now it runs")


@it("what is allowed is named by absolute paths, as options or in the environment", DIR)
def _(s):
    command(s, MERGES)
    s.run("compact", "set", "-q", "--time-limit", "1m", "--ttl", "10m")  # whatever else runs here
    ingest(s, some_files(3))
    for given in ("sh", "bin/sh", ""):
        true("absolute path" in fails(s, "INVALID", "compact", "run", "--allow-exec", given), given)
    for given in ("sh", "/bin/cat:sh", "/bin/cat::/bin/sh"):
        s.env["HOLDFAST_ALLOW_EXEC"] = given
        true("HOLDFAST_ALLOW_EXEC" in fails(s, "INVALID", "compact", "run"), given)
    s.env["HOLDFAST_ALLOW_EXEC"] = "/bin/cat:/bin/sh"
    s.env.update(AWS_SECRET_ACCESS_KEY="hunter2", AWS_ACCESS_KEY_ID="access", LANG="C.UTF-8",
                 SECRET="hunter2")
    run(s)
    seen = dict(line.split("=", 1) for line in s.read("seen").decode().splitlines())
    equal(sorted(set(seen) - {"PWD", "OLDPWD", "SHLVL", "_"}), ["HOME", "LANG", "PATH", "TMPDIR"])


@it("chunks that kill their worker are quarantined after their tries, and the rest goes on", DIR)
def _(s):
    command(s, b'out=$1; shift; grep -q poison "$@" && kill -9 $PPID; cat "$@" > "$out"\n',
            "--level0-count", "6")
    files = [row("poison", BEGIN), row("poison", BEGIN + 1)] + some_files(4)
    sources = ingest(s, files)
    deaths = 0
    for _ in range(40):
        done = subprocess.run([PROGRAM, "compact", "run", "--all", "--force", "--jobs", "1", "-q"],
                              cwd=s.path, env=s.env, capture_output=True, timeout=60, check=False)
        deaths += done.returncode == -signal.SIGKILL
        if done.returncode == 0:
            break
    told = status(s)
    equal({chunk["key"] for chunk in told["quarantined"]}, set(sources[:2]), "the killers alone")
    true(any(chunk["level"] > 0 for chunk in chunks(s)), "the rest was merged")
    # Six, whose lease does not say that the merge had begun; six, three, and each of the two alone.
    equal(deaths, 5)
    rows = audit.records(b"".join(s.get(key) for key in keys(s)))
    equal(sorted(rows), sorted(audit.records(b"".join(files))), "nothing is lost")


def run_anyhow(s, *args):
    """The totals of a run whose groups may fail."""
    done = subprocess.run([PROGRAM, "compact", "run", "--jobs", "1", "--json", *args], cwd=s.path,
                          env=s.env, capture_output=True, timeout=120, check=False)
    return of_kind([json.loads(line) for line in done.stdout.splitlines()], "done")[0]["totals"]


def test_alone(s, count):
    """Chunks of which no two can be merged: five forced runs, and then all that is left."""
    command(s, b'out=$1; shift; test $# -eq 1 && cat "$@" > "$out"\n', "--level0-count", "6")
    s.run("compact", "set", "-q", "--time-limit", "1m", "--ttl", "10m")  # whatever else runs here
    ingest(s, [row(f"k{i}", BEGIN + i) for i in range(count)])
    before = sorted(keys(s))
    for args in 5 * [["--force"]] + [["--force", "--all"]]:
        totals = run_anyhow(s, *args)
        equal((totals["groups_committed"], totals["rows_in"]), (0, 0))
        equal((sorted(keys(s)), {chunk["level"] for chunk in chunks(s)}), (before, {0}))
    told = [chunk for chunk in chunks(s) if chunk["quarantine"]]
    true(len(told) >= count - 1, told)  # the last one has nobody to be merged with
    true(all("merges with other chunks keep failing" in chunk["quarantine"] for chunk in told), told)
    equal(plan(s, "--force")["groups"], 0)


@it("six chunks that can only be merged alone are tested, and never committed as copies", DIR)
def _(s):
    test_alone(s, 6)


@it("37 chunks that can only be merged alone are tested, and never committed as copies", DIR)
def _(s):
    test_alone(s, 37)


@it("a killed worker's merge is taken over, and its leftovers are removed", DIR)
def _(s):
    command(s, b'out=$1; shift; touch begun; while test -e held; do sleep 0.1; done; cat "$@" > "$out"\n')
    s.run("compact", "set", "-q", "--time-limit", "1m", "--grace", "0", "--ttl", "1s")
    s.write("held", b"")
    files = some_files(3)
    ingest(s, files)
    worker = s.start("compact", "run")
    until(lambda: status(s)["under_way"], "it holds a lease")
    told = status(s)["under_way"][0]
    equal((told["level"], told["chunks"]), (1, 3))
    true(str(worker.pid) in told["holder"] and told["expires_in_ms"] <= 1000, told)
    true(re.search(r"^under way +1\n  \S+: L1 of 3 chunks, for \S+; the lease expires in \S+ unless",
                   s.out("compact", "status").decode(), re.M), "for people")
    until(lambda: status(s)["under_way"][0].get("done_percent"), "a renewal says how much is done")
    told = status(s)["under_way"][0]
    true(told["done_percent"] in (45, 50) and told["eta_ms"] >= 0, told)  # read, but not merged
    true(re.search(r"for \S+, \d+% done, about \S+ left; the lease", s.out("compact", "status").decode()),
         "progress for people")
    worker.kill()
    worker.communicate()
    os.unlink(s.file("held"))
    totals = of_kind(run(s, "--all"), "done")[0]["totals"]
    equal((totals["groups_committed"], totals["takeovers"]), (1, 1))  # two; the third was tested
    clear_away(s)
    equal(s.out("store", "ls", "-r", "data/").decode().split(), sorted(keys(s)))
    hour = status(s)["last_hour"]
    equal((status(s)["unsettled"], hour["lost"]), (0, 1))
    lost, = [record for record in hour["records"] if record["end"] == "lost"]
    equal((lost["worker"], lost["level"], lost["sources"]), (told["holder"], 1, 3))
    true("died or lost its connection" in lost["why"] and lost["id"] == told["output"], lost)


@it("a watch that was killed leaves the list of members after its beats", LOCAL)
def _(s):
    create(s)
    watcher = s.start("compact", "watch", "-q")
    until(lambda: status(s)["members"], "it is a member")
    watcher.kill()
    watcher.communicate()
    calendar = calendar_kit.Calendar(s.file("clock"))
    s.env.update(calendar.environment())
    calendar.move(25)
    equal(len(status(s)["members"]), 1)
    calendar.move(60)
    equal(status(s)["members"], [])
    true("members      0 present" in s.out("compact", "status").decode(), "for people")


@it("Ctrl-C gives the lease back and leaves no trace; the chunks are free for the next", DIR)
def _(s):
    worker = worker_in_a_merge(s)
    worker.send_signal(signal.SIGINT)
    equal((worker.communicate(timeout=60), worker.returncode), ((b"", b""), -signal.SIGINT))
    equal((status(s)["under_way"], status(s)["members"]), ([], []))
    os.unlink(s.file("held"))
    equal([e["end"] for e in of_kind(run(s), "ended")], ["committed"])
    equal([chunk["tries"] for chunk in chunks(s)], [0])


def small_disk(s, mib=1):
    """Words before a command that give it `small`, a disk of 1 MiB or more; or None where that may
    not be."""
    os.mkdir(s.file("small"))
    words = ["unshare", "-rm", "sh", "-c",
             f'mount -t tmpfs -o size={mib}m none small && exec "$@"', "sh"]
    done = subprocess.run([*words, "true"], cwd=s.path, capture_output=True, check=False) \
        if shutil.which("unshare") else None
    return words if done and done.returncode == 0 else None


def stop_while_opening(s, *args):
    """Sends SIGTERM to a command that still waits for its store."""
    blocker = sqlite3.connect(s.file("objects.db"), isolation_level=None, timeout=30)
    blocker.execute("PRAGMA locking_mode=EXCLUSIVE")  # keeps readers away, too
    blocker.execute("BEGIN EXCLUSIVE")
    process = s.start(*args)
    until(lambda: catches(process.pid, signal.SIGTERM), "its signal handler")
    process.send_signal(signal.SIGTERM)
    until(lambda: not pending(process.pid, signal.SIGTERM), "the signal")
    blocker.execute("ROLLBACK")
    blocker.close()
    process.communicate(timeout=60)
    equal(process.returncode, -signal.SIGTERM, f"{args}")


def signals_of(pid, row):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(dict(line.split(":", 1) for line in file.read().splitlines())[row], 16)


def catches(pid, number):
    return signals_of(pid, "SigCgt") >> (number - 1) & 1


def pending(pid, number):
    return (signals_of(pid, "ShdPnd") | signals_of(pid, "SigPnd")) >> (number - 1) & 1


@it("a command that is stopped before its first file or path does not report success", ["sqlite"])
def _(s):
    create(s)
    s.write("in", row("a", BEGIN))
    stop_while_opening(s, "compact", "ingest", "in")
    stop_while_opening(s, "compact", "release", "raw/")
    equal(chunks(s), [])


@it("a disk that is too small fails the group, which is halved; with room it is merged", DIR)
def _(s):
    create(s, "--grace", "1h")
    files = [b"".join(row(f"{i}-{j:06}", BEGIN, "y" * 80) for j in range(6000)) for i in range(3)]
    ingest(s, files)
    words = small_disk(s)
    if words:
        done = subprocess.run([*words, PROGRAM, "compact", "run", "--scratch", "small", "--jobs",
                               "1", "--json"], cwd=s.path, env=s.env, capture_output=True,
                              timeout=60, check=False)
        equal(done.returncode, code(s, "UNAVAILABLE"), done.stderr)
        ended = of_kind([json.loads(line) for line in done.stdout.splitlines()], "ended")
        equal({(event["end"], event["blame"]) for event in ended}, {("failed", "group")})
        equal([chunk["tries"] for chunk in chunks(s)], [1, 1, 1])
        equal(os.listdir(s.file("small")), [])
    run(s)
    check_all(s, files)


@it("a command that finds the disk full is nobody's fault, one that fills it its group's", DIR)
def _(s):
    command(s, b'cat "$2" /dev/zero > "$1"\n')
    ingest(s, some_files(3))
    words = small_disk(s, mib=4)
    runs = ((3900000, b"nobody", [0, 0, 0]), (0, b"group", [1, 1, 1])) if words else ()
    for other, blame, tries in runs:
        line = f'head -c {other} /dev/zero > small/other; "$@" compact run --scratch small --json'
        done = subprocess.run([*words, "sh", "-c", line, "sh", PROGRAM], cwd=s.path, env=s.env,
                              capture_output=True, timeout=60, check=False)
        true(b'"blame":"' + blame in done.stdout.replace(b": ", b":"), done)
        equal([chunk["tries"] for chunk in chunks(s)], tries)


@it("numbers out of range are refused before anything is done", DIR)
def _(s):
    create(s)
    for args in (["--jobs", "0"], ["--jobs", "65"], ["--memory", "1MiB"], ["--threads", "0"]):
        fails(s, "INVALID", "compact", "run", *args)
    fails(s, "INVALID", "compact", "run", "--poll", "1s")
    for beat in ("0s", "99ms", "61m"):
        fails(s, "INVALID", "compact", "watch", "--beat", beat)
    fails(s, "INVALID", "compact", "ingest")
    s.write("in", row("a", BEGIN))
    fails(s, "INVALID", "compact", "ingest", "in", "--writer", "w" * 65)
    text = s.run("compact", "run", "--scratch", "not/there",
                 expect=code(s, "NOT_FOUND")).stderr.decode()
    true("not/there" in text, text)


@it("an output that nobody reads any more stops the work in order", DIR)
def _(s):
    create(s)
    ingest(s, some_files(3))
    ours, theirs = os.pipe()
    os.close(ours)
    process = s.start("compact", "watch", "--json", stdout=theirs)
    os.close(theirs)
    process.communicate(timeout=60)
    equal(process.returncode, -signal.SIGPIPE)
    equal((status(s)["under_way"], status(s)["members"]), ([], []))


@it("the audit itself notices what is lost, made up, doubled, damaged or left behind", DIR)
def _(s):
    create(s, "--grace", "1h")
    files = some_files(4)
    ingest(s, files)
    run(s)
    merged, = [chunk["key"] for chunk in chunks(s) if chunk["level"] == 1]
    path = os.path.join("objects", merged)
    whole = s.read(path)
    catalog = s.read("objects/metadata/catalog.json")

    def wrong(rows=None, **options):
        put = audit.records(b"".join(files if rows is None else rows))
        return {one.split(":")[0] for one in audit.audit(s.file("objects"), put, **options).wrong}

    equal(wrong(), set())
    equal(wrong(files + [row("other", BEGIN)]), {"keys lost"})
    equal(wrong(files[1:]), {"rows made up"})
    equal(wrong(files + [row("all", BEGIN + HOUR)]), {"keys with a wrong winner"})
    equal(wrong(settled=True), {"tombstone"})
    s.write(path, whole + row("all", BEGIN + 2, "2"))
    equal(wrong(), {"chunks damaged", "rows doubled"})
    os.unlink(s.file(path))
    true("chunks missing" in wrong(), wrong())
    s.write(path, whole)
    s.write(path[:-5] + "x.usv", b"x")
    equal(wrong(), {"orphans"})
    os.unlink(s.file(path[:-5] + "x.usv"))
    entry = json.loads(catalog)["chunks"][0]
    doubled = json.loads(catalog)
    doubled["chunks"].append(entry)
    s.write("objects/metadata/catalog.json", json.dumps(doubled).encode())
    true({"names that stand twice", "rows doubled"} <= wrong(), wrong())
    for number in range(2):
        s.write(f"events-{number}", json.dumps({"event": "ended", "end": "committed", "output": "x",
                                                "sources": ["a"], "input_bytes": 1}).encode() + b"\n")
    s.write("objects/metadata/catalog.json", catalog)
    equal(wrong(events=[s.file("events-0"), s.file("events-1")]), {"groups committed twice"})


def leak_nothing(s):
    """Few commands, since each takes seconds to look for leaks."""
    create(s)
    sources = ingest(s, some_files(3))
    s.find_leaks(True)
    s.run("compact", "plan", "--json")
    s.run("compact", "pin", sources[0], "--json")
    s.run("compact", "run", "--json")
    s.run("compact", "status", "--json")
    s.run("compact", "ls", "--all", "--json")
    s.run("compact", "set", "--ttl", "2s", "--json")
    s.run("compact", "fsck", "--json")
    s.run("compact", "quarantine", "data/x", expect=80)


if SANITIZED:
    it("no command leaks memory, whether it succeeds or fails", DIR)(leak_nothing)

if __name__ == "__main__":
    sys.exit(cases.main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compact_range_test.py: merges that are divided into ranges of keys: what comes of them, and what
is left of the work if a worker is killed or stopped, if several share one merge, and if somebody
changes its sources meanwhile.

Prints TAP. Scratch folders are those of cli_test.py.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time

import cases
from cli_test import LOCAL, PROGRAM, equal, it, true, until
from compact_cli_test import (BEGIN, DIR, check_all, chunks, clear_away, create, keys, of_kind, plan,
                              run, status)

cases.cases.clear()

KIB = 1024
OUTPUT_MAX = 64 * KIB


# ---- A large merge ------------------------------------------------------------------------------


def usv(key, value, when):
    return b"%s\x1f%s\x1f%d\n" % (key, value, when)


def ndjson(key, value, when):
    return json.dumps({"k": key.decode(), "v": value.decode(), "t": when}).encode() + b"\n"


def csv(key, value, when):
    return b"%s,%s,%d\n" % (key, value, when)


def some_rows(record, number, count=2000):
    """Rows in any order, of keys that other files have, too; no two of a key have the same time."""
    rng = random.Random(number)
    return b"".join(record(b"key-%06d" % key, b"%032x" % rng.getrandbits(128), BEGIN + number)
                    for key in rng.sample(range(3 * count), count))


def create_large(s, *more):
    """A partition whose merged chunks are merged only by force."""
    given = [*more]
    if "--format" not in given:
        given += ["--format", "usv", "--key", "1", "--time", "3"]
    if "--ttl" not in given:
        given += ["--ttl", "10m"]
    create(s, "--level0-count", "2", "--level1-size", "1GiB", "--output-max", str(OUTPUT_MAX),
           "--grace", "1h", *given)


def ingest_merged(s, record=usv, count=4):
    """So many merged chunks, and the files that they came from."""
    files = [some_rows(record, number) for number in range(2 * count)]
    for number, data in enumerate(files):
        s.write(f"file-{number}", data)
    s.run("compact", "ingest", "-q", *(f"file-{number}" for number in range(2 * count)))
    run(s)
    equal({chunk["level"] for chunk in chunks(s)}, {1})
    equal(len(keys(s)), count)
    return files


def start(s, *args, force=True):
    words = [PROGRAM, "compact", "run", "--jobs", "1", "--json", *args] + ["--force"] * force
    return subprocess.Popen(words, cwd=s.path, env=s.env, bufsize=0, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def read_until(worker, end, count):
    """Reads events until so many merges ended like this; all events so far."""
    events = []
    while sum(event.get("end") == end for event in events) < count:
        events.append(json.loads(worker.stdout.readline()))
    return events


def keys_of(data):
    return [line.split(b"\x1f")[0] for line in data.splitlines()]


def check_disjoint(s):
    """The chunks are sorted, and their keys ascend from one to the next."""
    last = b""
    for own in sorted(keys_of(s.get(key)) for key in keys(s)):
        true(own == sorted(own) and own[0] > last, (own[0], last))
        last = own[-1]


@it("a large merge is divided, and all its ranges are committed together", LOCAL)
def _(s):
    create_large(s)
    files = ingest_merged(s)
    size = sum(chunk["size_bytes"] for chunk in chunks(s))
    events = run(s, "--force")
    ends = [event["end"] for event in of_kind(events, "ended")]
    equal((ends[0], set(ends[1:-1]), ends[-1]), ("divided", {"range"}, "committed"))
    ranges = -(-size // OUTPUT_MAX)
    equal({event["ranges"] for event in of_kind(events, "ended")[1:]}, {ranges})
    equal(len(keys(s)), ranges)
    true(max(chunk["size_bytes"] for chunk in chunks(s)) < 1.5 * OUTPUT_MAX, chunks(s))
    totals = of_kind(events, "done")[0]["totals"]
    equal((totals["groups_committed"], totals["wasted_bytes"]), (1, 0))
    equal(totals["rows_in"], totals["rows_out"] + totals["rows_superseded"])
    equal(totals["done_bytes"], size)
    check_disjoint(s)
    latest = {}
    for data in files:  # in the order of their times
        latest.update(zip(keys_of(data), data.splitlines(True)))
    equal(b"".join(sorted(s.get(key) for key in keys(s))),
          b"".join(latest[key] for key in sorted(latest)))
    equal(json.loads(s.out("compact", "fsck", "--json").splitlines()[-1])["found_count"], 0)


@it("the chunks of a divided merge are one run, which is not merged with itself", DIR)
def _(s):
    create_large(s)
    files = ingest_merged(s)
    run(s, "--force", "--all")
    before = keys(s)
    true(len(before) > 2, before)
    equal(plan(s, "--force")["groups"], 0)
    s.run("compact", "set", "-q", "--level1-size", str(OUTPUT_MAX))
    equal(plan(s)["groups"], 0)
    s.run("compact", "set", "-q", "--level1-size", "1GiB")
    files += [some_rows(usv, number) for number in (20, 21)]
    for number in (20, 21):
        s.write(f"file-{number}", files[number - 12])
    s.run("compact", "ingest", "-q", "file-20", "file-21")
    run(s)
    equal([len(group["sources"]) for group in plan(s, "--force")["plan"]], [len(before) + 1])
    run(s, "--force", "--all")
    check_disjoint(s)
    check_all(s, files)


@it("ndjson is divided, too", DIR)
def _(s):
    create_large(s, "--format", "ndjson", "--key", "k", "--time", "t")
    ingest_merged(s, ndjson)
    equal([event["end"] for event in of_kind(run(s, "--force"), "ended")][0], "divided")
    last = ""
    for own in sorted([json.loads(line)["k"] for line in s.get(key).splitlines()] for key in keys(s)):
        true(own == sorted(own) and own[0] > last, (own[0], last))
        last = own[-1]


@it("what cannot be divided has one output: csv, compressed chunks, records without a key", DIR)
def _(s):
    for number, (record, more) in enumerate((
            (csv, ["--format", "csv", "--no-header", "--key", "1", "--time", "3"]),
            (usv, ["--compress", "gzip"]),
            (usv, ["--format", "usv", "--time", "3"]))):
        s.env["HOLDFAST_STORE"] = f"dir:objects-{number}"
        create_large(s, *more)
        ingest_merged(s, record)
        events = run(s, "--force")
        equal([event["end"] for event in of_kind(events, "ended")], ["committed"], more)
        equal(len(keys(s)), 1)


@it("keys that are nearly all the same make one range, or few", DIR)
def _(s):
    create_large(s, "--format", "usv", "--key", "1")
    for number in range(4):
        s.write(f"file-{number}", usv(b"same", b"x" * 100, BEGIN + number) * 2000)
    s.run("compact", "ingest", "-q", *(f"file-{number}" for number in range(4)))
    run(s)
    equal([event["end"] for event in of_kind(run(s, "--force"), "ended")], ["committed"])
    equal(b"".join(s.get(key) for key in keys(s)).count(b"\n"), 8000)


@it("a single run merges all groups of its plan, those that it divides and the others", DIR)
def _(s):
    create_large(s)
    files = ingest_merged(s, count=16)
    size = min(chunk["size_bytes"] for chunk in chunks(s))
    s.run("compact", "set", "-q", "--level1-size", str(2 * size))
    equal([len(group["sources"]) for group in plan(s)["plan"]], [2] * 8)
    worker = start(s, force=False)
    read_until(worker, "divided", 1)
    worker.send_signal(signal.SIGSTOP)  # until the next plan is due, which must not drop the rest
    time.sleep(0.5)
    worker.send_signal(signal.SIGCONT)
    told = worker.communicate()[0]
    ends = ["divided"] + [event["end"] for event in of_kind(map(json.loads, told.splitlines()), "ended")]
    equal((ends.count("divided"), ends.count("committed")), (8, 8), ends)
    equal({chunk["level"] for chunk in chunks(s)}, {2})
    check_all(s, files)


def deletion(key, when):
    return usv(key, b"", when)[:-1] + b"\x1ftrue\n"


@it("a divided merge drops deletion markers as any other does, and raises the floor", DIR)
def _(s):
    create_large(s, "--format", "usv", "--key", "1", "--time", "3", "--deleted-field", "4",
                 "--late-bound", "6s")
    gone = [b"key-%06d" % key for key in range(0, 6000, 7)]
    for number in range(4):
        s.write(f"file-{number}", some_rows(usv, number).replace(b"\n", b"\x1f\n"))
        s.write(f"gone-{number}", b"".join(deletion(key, BEGIN + 100 + number)
                                           for key in gone[number::4]))
    names = [f"{kind}-{number}" for number in range(4) for kind in ("file", "gone")]
    s.run("compact", "ingest", "-q", *names)
    run(s)
    equal(len(keys(s)), 4)
    true(b"true" in b"".join(s.get(key) for key in keys(s)), "the markers are young")
    time.sleep(13)
    events = run(s, "--force")
    ends = [event["end"] for event in of_kind(events, "ended")]
    equal((ends[0], ends[-1]), ("divided", "committed"))
    totals = of_kind(events, "done")[0]["totals"]
    equal(totals["rows_deleted"], len(gone))
    equal(totals["rows_in"],
          totals["rows_out"] + totals["rows_superseded"] + totals["rows_deleted"])
    left = b"".join(s.get(key) for key in keys(s))
    true(b"true" not in left and not any(key + b"\x1f" in left for key in gone), left[:200])
    check_disjoint(s)
    s.write("late", usv(gone[0], b"late", BEGIN + 50)[:-1] + b"\x1f\n")
    s.run("compact", "ingest", "late", expect=86)
    s.run("compact", "fsck")


# ---- Several workers, and their ends ------------------------------------------------------------


@it("if a worker is killed, only the range that it was merging is merged again", DIR)
def _(s):
    create_large(s, "--ttl", "3s")
    files = ingest_merged(s, count=6)
    size = sum(chunk["size_bytes"] for chunk in chunks(s))
    worker = start(s)
    done = of_kind(read_until(worker, "range", 4), "ended")
    worker.kill()
    worker.communicate()
    merged = sum(event["input_bytes"] for event in done if event["end"] == "range")
    events = run(s, "--force", "--all")
    ends = [event["end"] for event in of_kind(events, "ended")]
    equal((set(ends), ends.count("committed")), ({"range", "committed"}, 1))
    again = sum(event["merged_bytes"] for event in of_kind(events, "ended"))
    true(again <= size - merged + OUTPUT_MAX, (again, size, merged))
    check_disjoint(s)
    check_all(s, files)
    equal({chunk["tries"] for chunk in chunks(s)}, {0})
    s.run("compact", "set", "-q", "--grace", "0")
    clear_away(s)
    equal(s.out("store", "ls", "-r", "data/").decode().split(), sorted(keys(s)))


@it("a worker that is told to stop gives its range back at once", DIR)
def _(s):
    create_large(s)
    files = ingest_merged(s, count=6)
    worker = start(s)
    read_until(worker, "range", 2)
    worker.send_signal(signal.SIGINT)
    worker.communicate(timeout=60)
    started = time.monotonic()
    ends = [event["end"] for event in of_kind(run(s, "--force", "--all"), "ended")]
    true(time.monotonic() - started < 300, "the leases were for ten minutes")
    equal((set(ends), ends.count("committed")), ({"range", "committed"}, 1))
    check_all(s, files)


@it("two workers share the ranges of one merge, and none is merged twice", LOCAL)
def _(s):
    create_large(s)
    ingest_merged(s, count=8)
    size = sum(chunk["size_bytes"] for chunk in chunks(s))
    first = start(s, "--all")
    events = read_until(first, "divided", 1)
    second = start(s, "--all")
    texts = [worker.communicate(timeout=120)[0] for worker in (first, second)]
    equal((first.returncode, second.returncode), (0, 0))
    events += [json.loads(line) for text in texts for line in text.splitlines()]
    done = [event for event in of_kind(events, "ended") if event["end"] in ("range", "committed")]
    equal(len({event["range"] for event in done}), len(done), "each range once")
    equal(sum(event["input_bytes"] for event in done), size)
    equal(sum(event["end"] == "committed" for event in done), 1)
    true(all(b'"end":"range"' in text or b'"end":"committed"' in text for text in texts),
         "both had a part in it")


@it("status shows which range a worker is merging", DIR)
def _(s):
    create_large(s)
    ingest_merged(s, count=6)
    found = []
    while not found:  # the lease of a killed worker stays, unless its range was done by then
        worker = start(s)
        while not json.loads(worker.stdout.readline()).get("range"):
            pass
        worker.kill()
        worker.communicate()
        found = [job for job in status(s)["under_way"] if "range" in job]
    equal((found[0]["chunks"], found[0]["level"]), (6, 1))
    ranges = found[0]["ranges"]
    true(1 <= found[0]["range"] <= ranges and ranges == plan(s)["plan"][0]["ranges"], found)
    text = s.out("compact", "status").decode()
    true(f"L1 of 6 chunks, range {found[0]['range']} of {ranges}, for" in text, text)


# ---- What others do meanwhile -------------------------------------------------------------------


def divide_some(s, files=6):
    """A divided merge of which two ranges are done and the rest is not; its sources."""
    rows = ingest_merged(s, count=files)
    sources = keys(s)
    worker = start(s)
    read_until(worker, "range", 2)
    worker.send_signal(signal.SIGINT)
    worker.communicate(timeout=60)
    equal(sorted(keys(s)), sorted(sources))
    return rows, sources


@it("a merge whose source is quarantined is given up, and its outputs are deleted", DIR)
def _(s):
    create_large(s)
    files, sources = divide_some(s)
    s.run("compact", "quarantine", "-q", sources[0])
    s.run("compact", "set", "-q", "--grace", "0")
    clear_away(s)
    equal(s.out("store", "ls", "-r", "data/").decode().split(), sorted(keys(s)))
    s.run("compact", "set", "-q", "--late-bound", "1h")
    s.run("compact", "quarantine", "-q", "--release", sources[0])
    run(s, "--force", "--all")
    check_all(s, files)


@it("undelete brings back all sources of a divided merge", DIR)
def _(s):
    create_large(s)
    files = ingest_merged(s)
    sources = keys(s)
    run(s, "--force")
    targets = keys(s)
    s.run("compact", "undelete", "-q", sources[1])
    equal(sorted(keys(s)), sorted(sources))
    dead = [chunk["key"] for chunk in chunks(s, "--all") if chunk["state"] == "tombstone"]
    true(set(targets) <= set(dead), (targets, dead))
    check_all(s, files)


@it("fsck knows the outputs of ranges that are done, and finds nothing", DIR)
def _(s):
    create_large(s)
    divide_some(s)
    told = json.loads(s.out("compact", "fsck", "--json", "--repair").splitlines()[-1])
    equal(told["found_count"], 0)
    equal(status(s)["unsettled"], 0)
    run(s, "--force", "--all")
    check_disjoint(s)


@it("a source that was damaged while its merge was divided ends in quarantine, alone", DIR)
def _(s):
    create_large(s, "--ttl", "1s")
    _, sources = divide_some(s)
    path = s.file(os.path.join("objects", sources[2]))
    data = bytearray(s.get(sources[2]))
    for part in range(40):  # in every range, because any of them may be done
        data[data.index(b"\x1f", len(data) * part // 41) + 1] ^= 1
    os.chmod(path, 0o644)
    with open(path, "wb") as out:
        out.write(data)
    for _ in range(8):
        subprocess.run([PROGRAM, "compact", "run", "--force", "--all", "-q"], cwd=s.path, env=s.env,
                       capture_output=True, timeout=120, check=False)
    equal([chunk["key"] for chunk in chunks(s) if chunk["quarantine"]], [sources[2]])
    true(all(chunk["level"] > 1 or chunk["quarantine"] for chunk in chunks(s)), chunks(s))


if __name__ == "__main__":
    sys.exit(cases.main())

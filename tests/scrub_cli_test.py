#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scrub_cli_test.py: `store scrub`: it finds each damaged byte, names the object, changes nothing, and is not
disturbed by writers, signals and limits. `store upgrade`: it adds checksums and changes nothing else, whatever
happens meanwhile, and can be undone.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import contextlib
import json
import os
import re
import signal
import sqlite3
import sys
import time

import cases
from cli_test import LOCAL, code, equal, fails, it, objects, true, until

cases.cases.clear()

LARGE = bytes(range(256)) * 40  # neither a state nor a fenced object has room for it


def fill(s):
    """One object of each kind."""
    s.run("acquire", "deploy", "--ttl", "1h")
    s.write("large", LARGE)
    s.out("key", "update", "--take", "orders/42", "--from", "large")
    s.out("key", "update", "--take", "orders/43", stdin=b"small")
    txn = s.out("txn", "begin").decode().strip()
    s.run("txn", "rollback", txn)
    lease = s.out("acquire", "state", "--ttl", "1h").decode().strip()
    s.out("write", "small.txt", "-", "--lock", lease, stdin=b"small")
    s.out("write", "large.txt", "large", "--lock", lease)
    s.run("compact", "create", "--format", "usv", "--key", "1", "--time", "2")
    for i in range(3):
        s.write(f"part-{i}.usv", b"k%d\x1f2026-02-06T10:00:00Z\n" % i)
    s.run("compact", "ingest", "-q", *[f"part-{i}.usv" for i in range(3)])
    for index, more in (("domains", []), ("open", ["--plain"])):
        s.run("index", "create", index, "--fields", "domain,at", "--key", "domain", "--time", "at", *more)
        s.out("index", "put", index, "domain=a.com", "at=2026-02-06T10:00:00Z")
        s.run("index", "compile", index)
    s.run("sweep", "--once", "-q")
    s.put("plain.txt", b"not ours")


def scrub(s, *more, expect=0):
    """The findings, as (kind, key), and the totals."""
    lines = s.lines("store", "scrub", "--rate", "0", *more, expect=expect)
    return [(line["kind"], line["key"]) for line in lines[:-1]], lines[-1]


@it("a store without damage has no findings, and every document is compared", LOCAL)
def _(s):
    fill(s)
    before = s.everything()
    found, totals = scrub(s)
    equal(found, [])
    true(totals["complete"] and "position" not in totals, totals)
    equal(totals["unsealed"], 0)
    true(totals["checked"] >= 20, totals)
    true(totals["documents"] < totals["objects"], totals)
    text = s.out("store", "scrub").decode()
    true("0 damaged, 0 missing, 0 unreadable, 0 too new, 0 unknown\n" in text, text)
    only = scrub(s, "--documents")[1]
    true(only["objects"] < totals["objects"] and only["documents"] == totals["documents"], (only, totals))
    equal(s.everything(), before)


# Objects without a checksum: their bytes may be anything.
NO_CHECKSUM = re.compile(r"\.lease-index/|/state/|\.txn-decisions/e/|/inbox/|\.holdfast/sweep/|roster/|plain\.txt"
                         r"|\.holdfast/sight/|compaction-jobs\.json|indexes/open/shards/d6\.usv")


@it("a flipped bit in any object with a checksum is found, and its object is named", LOCAL)
def _(s):
    fill(s)
    keys = [key for key in objects(s, "") if not NO_CHECKSUM.search(key)]
    true(len(keys) >= 20, keys)
    for key in keys:
        good = s.get(key)
        for at in (len(good) // 2, len(good) - 2):
            s.put(key, good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
            found, totals = scrub(s, expect=None)
            true(("damaged", key) in found, (key, at, found))
            s.put(key, good)
    equal(scrub(s)[0], [])


@it("a plain shard whose bytes rot is found, and so is any row of a database", ["sqlite"])
def _(s):
    fill(s)
    for key in ("indexes/open/shards/d6.usv", objects(s, "data/")[0], "small.txt", "default/meta/state.json"):
        good = s.get(key)
        for body, wanted in ((good[:9] + bytes([good[9] ^ 4]) + good[10:], [("damaged", key)]), (good, [])):
            with contextlib.closing(sqlite3.connect(s.file("objects.db"))) as database:
                database.execute("UPDATE objects SET body = ? WHERE key = ?", (body, key.encode()))
                database.commit()
            equal(scrub(s, expect=None)[0], wanted)


@it("the sweeper scrubs a slice after each run, over and over, and tells what is damaged", LOCAL)
def _(s):
    fill(s)
    s.put("default/meta/deploy.json", s.get("default/meta/deploy.json").replace(b"named:deploy", b"named:deplox"))
    with open(s.file("told"), "wb") as told:
        sweep = s.start("sweep", "--json", "--idle-grace", "20ms", "--op-delay", "0ms", "--scrub", "8KiB", stderr=told)
        # The second time, it has come round.
        until(lambda: s.read("told").count(b"deploy.json") >= 2, "the damage is told again")
        sweep.send_signal(signal.SIGINT)
        sweep.communicate(timeout=60)
    for line in s.read("told").decode().splitlines():
        told = json.loads(line)
        true("damaged" in told["why"] and "deploy.json" in line, line)
    fails(s, "INVALID", "sweep", "--once", "--scrub", "1MiB")


@it("a sweeper that is started again continues the scrub where another one was killed", LOCAL)
def _(s):
    note = ".holdfast/sweep/.scrub.json"
    fill(s)
    damaged = s.get("default/meta/deploy.json").replace(b"named:deploy", b"named:deplox")
    s.put("default/meta/first.json", damaged)
    s.put("zz/meta/last.json", damaged)
    s.put(note, b'{"format":"holdfast.sweep/1","scrub_after":"zz/a","later":7}')
    with open(s.file("told"), "wb") as told:
        sweep = s.start("sweep", "--json", "--idle-grace", "20ms", "--op-delay", "0ms", "--scrub", "8KiB", stderr=told)
        until(lambda: b"first.json" in s.read("told"), "it begins at the first object again")
        sweep.kill()
        sweep.communicate(timeout=60)
    true(b"last.json" in s.read("told").splitlines()[0], s.read("told"))
    kept = json.loads(s.get(note))
    true(kept["later"] == 7 and kept["at_ms"] > 0 and kept["scrub_after"] < "zz", kept)
    equal(len(scrub(s, expect=None)[0]), 2)


@it("a sweeper whose note of the scrub cannot be read says so once, and goes on", ["dir"])
def _(s):
    fill(s)
    damaged = s.get("default/meta/deploy.json").replace(b"named:deploy", b"named:deplox")
    s.put("default/meta/first.json", damaged)
    s.put("zz/meta/last.json", damaged)
    os.symlink("nowhere", s.file("objects/.holdfast/sweep/.scrub.json"))
    with open(s.file("told"), "wb") as told:
        sweep = s.start("sweep", "--idle-grace", "20ms", "--op-delay", "0ms", "--scrub", "8KiB", stderr=told)
        until(lambda: s.read("told").count(b"last.json") >= 2, "it comes round")
        sweep.send_signal(signal.SIGINT)
        sweep.communicate(timeout=60)
    told = s.read("told")
    true(told.count(b"first.json") >= 2, told)
    equal(told.count(b"holdfast: sweep: INVALID: read the position in .holdfast/sweep/.scrub.json: "), 1, told)
    equal(told.count(b".scrub.json"), 1, told)


@it("damage is CORRUPT, in words, and the objects are not changed", LOCAL)
def _(s):
    fill(s)
    s.put("default/meta/deploy.json", s.get("default/meta/deploy.json").replace(b"named:deploy", b"named:deplox"))
    s.run("store", "rm", "--force", [key for key in objects(s, "large.txt.hf/")][0])
    before = s.everything()
    done = s.run("store", "scrub", expect=code(s, "CORRUPT"))
    text = done.stdout.decode()
    true("damaged     default/meta/deploy.json: " in text, text)
    true("its checksum does not match its bytes\n" in text, text)
    true("missing     large.txt.hf/" in text, text)
    true("2 objects are damaged, missing or unreadable" in done.stderr.decode(), done.stderr)
    equal(s.everything(), before)


@it("cut, emptied and foreign documents are found", LOCAL)
def _(s):
    fill(s)
    for key in ("metadata/catalog.json", ".holdfast/epoch/default.json", "default/meta/deploy.json",
                "indexes/domains/index.json", "indexes/open/manifest.json"):
        good = s.get(key)
        for bad in (b"", good[:len(good) // 2], b"\0" * len(good), b"[]", b"x" * 9_000_000):
            s.put(key, bad)
            found = scrub(s, expect=None)[0]
            true(("damaged", key) in found, (key, bad[:20], found))
        s.put(key, good)


@it("what a later version wrote is too new, and what nobody knows is unknown: UNSUPPORTED", LOCAL)
def _(s):
    fill(s)
    for key, old, new in (("metadata/catalog.json", b"holdfast.catalog/1", b"holdfast.catalog/9"),
                          ("default/meta/deploy.json", b"holdfast.leases/1", b"holdfast.leases/9"),
                          ("small.txt", b"holdfast.fenced/2", b"holdfast.fenced/9"),
                          (".holdfast/sweep/.all.json", b"holdfast.sweep/1", b"holdfast.sweep/9")):
        text = cases.unsealed(s.get(key))
        true(old in text, (key, text))
        s.put(key, text.replace(old, new))
    s.put(".holdfast/news/x", b"")
    s.put("metadata/what.json", b"{}")
    found = scrub(s, expect=code(s, "UNSUPPORTED"))[0]
    equal(sorted(found), sorted([("too-new", "metadata/catalog.json"), ("too-new", "default/meta/deploy.json"),
                                 ("too-new", "small.txt"), ("too-new", ".holdfast/sweep/.all.json"),
                                 ("unknown", ".holdfast/news/x"), ("unknown", "metadata/what.json")]))
    s.put("default/meta/deploy.json", b"")
    scrub(s, expect=code(s, "CORRUPT"))


@it("objects of other programs are not taken for damaged tables", LOCAL)
def _(s):
    fill(s)
    s.put("site/meta/info.json", b'{"title": "x"}')
    s.put("site/paths.json", b"")
    equal(scrub(s)[0], [])


@it("documents without a checksum are counted, not refused", LOCAL)
def _(s):
    fill(s)
    s.put("default/meta/deploy.json", cases.unsealed(s.get("default/meta/deploy.json")))
    s.put("metadata/catalog.json", cases.unsealed(s.get("metadata/catalog.json")))
    found, totals = scrub(s)
    equal((found, totals["unsealed"]), ([], 2))
    text = s.out("store", "scrub").decode()
    true("2 documents have no checksum: an earlier version wrote them\n" in text, text)


@it("slices that continue each other read every object once, also within a catalog", LOCAL)
def _(s):
    fill(s)
    whole = scrub(s)[1]
    chunk = objects(s, "data/")[-1]
    s.put(chunk, b"?" + s.get(chunk)[1:])
    read, position, found = 0, [], []
    for _ in range(500):
        more, totals = scrub(s, "--max-bytes", "20KiB", *position, expect=None)
        found += more
        read += totals["objects"]
        if totals["complete"]:
            break
        position = ["--after", totals["position"]]
    true(totals["complete"], totals)
    equal((read, found), (whole["objects"], [("damaged", chunk)]))
    positions, position = [], "metadata/catalog.json#"
    for _ in range(3):  # the catalog alone is larger than the slice
        position = scrub(s, "--max-bytes", "30", "--after", position, expect=None)[1]["position"]
        positions.append(position.partition("#")[2])
    equal((positions, position), (objects(s, "data/")[:-1] + [""], "metadata/catalog.json"))
    equal(scrub(s, "--max-bytes", "1", "--after", "metadata/catalog.json#", expect=None)[1]["skipped"], 1)


@it("a prefix restricts the scrub, and bad options are refused", ["dir"])
def _(s):
    fill(s)
    equal(scrub(s, "default/")[1]["objects"] < scrub(s)[1]["objects"], True)
    fails(s, "INVALID", "store", "scrub", "--rate", "fast")
    fails(s, "INVALID", "store", "scrub", "--after", "x" * 3000)


@it("the rate is kept, Ctrl-C ends it, and it says how to continue", LOCAL)
def _(s):
    fill(s)
    s.put("zeros", b"\0" * 3_000_000)
    began = time.monotonic()
    s.run("store", "scrub", "--rate", "10MiB", "zeros")
    true(0.2 < time.monotonic() - began < 10, "3 MB at 10 MiB/s")
    process = s.start("store", "scrub", "--rate", "100KiB")
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    equal(process.returncode in (-signal.SIGINT, 130, code(s, "CANCELLED")), True, str(process.returncode))
    true(b"continue with: --after '" in out, out)
    position = out.decode().split("--after '")[1].split("'")[0]
    equal(scrub(s, "--after", position)[0], [])


@it("workers that write meanwhile cause no finding, and lose nothing", LOCAL)
def _(s):
    fill(s)
    s.run("store", "rm", "-q", "--force", "default/meta/deploy.json")
    script = ("for i in $(seq 6); do lease=$(holdfast acquire busy --ttl 1h); "
              "holdfast write -q busy.txt large --lock $lease; holdfast release -q $lease; "
              "holdfast key update -q --take orders/42 --from large; done")
    process = s.start("run", "other", "--", "sh", "-ec", script)
    while process.poll() is None:
        equal(scrub(s)[0], [])
    equal(process.wait(), 0, process.stderr.read().decode())


@it("a store that cannot be written can be scrubbed, and one that is not there cannot", ["dir"])
def _(s):
    fill(s)
    for folder, folders, files in os.walk(s.file("objects")):
        os.chmod(folder, 0o555)
    found = scrub(s)[0]
    for folder, folders, files in os.walk(s.file("objects")):
        os.chmod(folder, 0o755)
    equal(found, [])
    fails(s, "NOT_FOUND", "store", "scrub", "--store", "dir:nowhere")


# ---- store upgrade ------------------------------------------------------------------------------

SEALED = re.compile(rb'"write": ?"[0-9a-f]{32}(~[0-9a-f]{8})"')


def meaning(text):
    """The members of a document except `write`, and the bytes of a small fenced object."""
    line, _, rest = text.partition(b"\n") if b"holdfast.fenced/" in text[:60] else (text, b"", b"")
    members = json.loads(line)
    members.pop("write", None)
    return members, rest


def unseal(s):
    """All documents as an earlier version wrote them."""
    keys = [key for key in objects(s, "") if SEALED.search(s.get(key)[:200])]
    for key in keys:
        text = cases.unsealed(s.get(key))
        if key.startswith(".txn-decisions/m/"):  # the earliest versions wrote the member last
            members = json.loads(text)
            members["write"] = members.pop("write")
            text = json.dumps(members).encode()
        s.put(key, text)
    return keys


def upgrade(s, *more, expect=0):
    lines = s.lines("store", "upgrade", *more, expect=expect)
    return [line["key"] for line in lines[:-1]], lines[-1]


def features(s):
    return json.loads(s.get(".holdfast/format.json"))["features"]


@it("an upgrade adds checksums, changes nothing else, and is done once", LOCAL)
def _(s):
    fill(s)
    lease = s.out("acquire", "held", "--ttl", "1h").decode().strip()
    keys = unseal(s)
    true(len(keys) >= 12, keys)
    before, texts = s.everything(), {key: s.get(key) for key in keys}
    would, totals = upgrade(s, "--dry-run")
    equal((sorted(would), totals["was_on"], totals["is_on"], totals["left"]), (sorted(keys), False, True, 0))
    equal(s.everything(), before)
    done, totals = upgrade(s)
    equal((done, totals["was_on"], totals["is_on"], totals["sealed"]), (would, False, True, len(keys)))
    equal(features(s)["read_only"], ["checksums"])  # older versions only read: bucket_cli_test.py
    for key, text in texts.items():
        now = s.get(key)
        true(SEALED.search(now[:250]), (key, now[:250]))
        equal(meaning(now), meaning(text), key)
    equal(upgrade(s)[0], [])
    found, totals = scrub(s)
    equal((found, totals["unsealed"]), ([], 0))
    s.run("renew", lease)
    s.run("release", lease)
    equal(s.out("key", "get", "orders/42"), LARGE)
    equal(s.out("read", "large.txt", "-"), LARGE)
    s.run("compact", "fsck")


@it("an upgrade can be undone, and keeps all else in the format document", LOCAL)
def _(s):
    s.run("namespace", "create", "many", "--placement", "pages:4")
    s.run("store", "probe")
    document = json.loads(s.get(".holdfast/format.json"))
    document["later"] = {"x": 1}
    document["write"] = document["write"][:32]
    s.put(".holdfast/format.json", json.dumps(document).encode())
    s.run("store", "upgrade", "-q")
    upgraded = json.loads(s.get(".holdfast/format.json"))
    equal(upgraded["features"], {"compatible": [], "read_only": ["checksums"], "incompatible": ["path-pages"]})
    before = s.everything()
    text = s.out("store", "upgrade", "--undo", "--dry-run").decode()
    equal(text, "feature 'checksums': was on, would be off\n")
    equal(s.everything(), before)
    equal(s.out("store", "upgrade", "--undo").decode(), "feature 'checksums': was on, is now off\n")
    now = json.loads(s.get(".holdfast/format.json"))
    for one in (document, upgraded, now):
        del one["write"]
    equal(now, document)
    del upgraded["features"], now["features"]
    equal(upgraded, now)
    equal(upgrade(s, "--undo")[1]["was_on"], False)


@it("damaged, newer and foreign documents are left alone, and counted", LOCAL)
def _(s):
    fill(s)
    unseal(s)
    bad = {"metadata/catalog.json": b"{", "default/meta/state.json": b"\0" * 50,
           "default/meta/deploy.json": s.get("default/meta/deploy.json").replace(b"leases/1", b"leases/9"),
           "default/meta/orders/43.json": b'{"leases": {}}', "plain.txt": b'{"write": "' + b"0" * 32 + b'"}'}
    for key, text in bad.items():
        s.put(key, text)
    totals = upgrade(s)[1]
    equal(totals["left"], 4)
    for key, text in bad.items():
        equal(s.get(key), text, key)


@it("after an upgrade, a document without a checksum is a finding", LOCAL)
def _(s):
    fill(s)
    s.run("store", "upgrade", "-q")
    s.put("default/meta/deploy.json", cases.unsealed(s.get("default/meta/deploy.json")))
    done = s.run("store", "scrub", expect=code(s, "CORRUPT"))
    true(b"unsealed    default/meta/deploy.json: it has no checksum" in done.stdout, done.stdout)
    true(b"1 document has no checksum; 'holdfast store upgrade' adds it" in done.stderr, done.stderr)
    s.run("locks", "show", "deploy")  # it is still used
    equal(upgrade(s)[0], ["default/meta/deploy.json"])
    equal(scrub(s)[0], [])


@it("documents of other programs are neither changed by an upgrade nor findings after it", LOCAL)
def _(s):
    s.run("key", "update", "--take", "orders/42", "--from", "-", stdin=b"small")
    theirs = {"site/meta/info.json": b'{"format": 1, "write": [7], "title": "x"}',
              "site/meta/picture.json": b'{"format":"image\\/png","write":"mine"}',
              "site/meta/page.json": b'{"title": "x"}'}
    for key, text in theirs.items():
        s.put(key, text)
    totals = upgrade(s)[1]
    equal(totals["left"], 0)
    for key, text in theirs.items():
        equal(s.get(key), text, key)
    found, totals = scrub(s)
    equal((found, totals["unsealed"]), ([], 0))


@it("killed at any time and started again, with workers that write meanwhile, it ends well", LOCAL)
def _(s):
    fill(s)
    keys = unseal(s)
    script = ("for i in $(seq 8); do holdfast key update -q --take orders/42 --from large; "
              "holdfast run -q busy true; done")
    worker = s.start("run", "other", "--", "sh", "-ec", script)
    for i in range(6):
        process = s.start("store", "upgrade", "-q")
        time.sleep(0.002 * 2 ** i)
        process.kill()
        process.communicate()
    equal(worker.wait(), 0, worker.stderr.read().decode())
    s.run("store", "upgrade", "-q")
    found, totals = scrub(s)
    equal((found, totals["unsealed"]), ([], 0))
    true(all(SEALED.search(s.get(key)[:250]) for key in keys if key in objects(s, key)), "all are sealed")
    equal(s.out("key", "get", "orders/42"), LARGE)


@it("a store that must not be written is not upgraded", ["dir"])
def _(s):
    fill(s)
    unseal(s)
    before = s.everything()
    s.put(".holdfast/format.json", b'{"format": "holdfast.bucket/1", "features": {"compatible": [], "read_only": ["x"], '
                                   b'"incompatible": []}}')
    after = s.everything()
    fails(s, "UNSUPPORTED", "store", "upgrade")
    equal(s.everything(), after)
    true(before != after, "the mark is there")


if __name__ == "__main__":
    sys.exit(cases.main())

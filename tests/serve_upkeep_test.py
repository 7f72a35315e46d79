#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_upkeep_test.py: what a server does besides serving: it sweeps while it is idle, merges partitions,
compiles indexes, and is a member of a group.

    serve_upkeep_test.py STORE      STORE is sqlite or dir

Prints TAP. Entries of the expiry index whose tables do not exist are what there is to sweep.
"""

import os
import re
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import chaos_kit
from chaos_kit import tell
from serve_kit import BUSY_SECONDS, Daemon, Link

PAST = "2026010100"  # an hour that is over
GRACE = ("--idle-grace-ms=300", "--op-delay-ms=0")


class Server:
    """A server on a store of its own."""

    def __init__(self, site, name, *options):
        self.bucket = site.bucket(name)
        self.site, self.name, self.options = site, name, options
        self.daemon = self.link = None

    def start(self, *more):
        self.daemon = Daemon(self.bucket.url, self.bucket.environment,
                             os.path.join(self.site.folder, self.name + ".sock"), *self.options, *more)
        self.link = Link(self.daemon.path)
        return self

    def enter(self, count, ns="default"):
        for number in range(count):
            self.bucket.must("store", "put", "--force", "-q",
                             f"{ns}/.lease-index/{PAST}/meta/gone-{number:03}.json", "-", stdin=b"{}")

    def entries(self, ns="default"):
        return len(self.bucket.listing(f"{ns}/.lease-index/{PAST}/", "--recursive"))

    def metric(self, name):
        page = self.link.get("/metrics").body.decode()
        found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found else None

    def runs(self, result):
        return self.metric(f'holdfast_sweep_runs_total{{result="{result}"}}')

    def stop(self):
        begun = time.monotonic()
        status = self.daemon.stop()
        return status == 0 and time.monotonic() - begun < 20


def until(condition, seconds=BUSY_SECONDS):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


class Traffic:
    """A client that sends a request every 50 ms, until the end of the block."""

    def __init__(self, server):
        self.link = Link(server.daemon.path)
        self.ended = threading.Event()
        self.widest = 0.0  # the longest pause, on a machine that may be busy
        self.thread = threading.Thread(target=self.send)

    def send(self):
        last = time.monotonic()
        while not self.ended.wait(0.05):
            self.link.get("/v1/get?key=none&public=1")
            now = time.monotonic()
            self.widest, last = max(self.widest, now - last), now

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


# ---- Sweeping -----------------------------------------------------------------------------------


def sweeps_when_idle(site):
    server = Server(site, "idle", *GRACE)
    server.enter(5)
    server.bucket.must("run", "--ns", "other", "lock", "true")
    server.enter(5, ns="other")
    server.start()
    swept = until(lambda: server.entries() + server.entries("other") == 0)
    tell(swept, "an idle server sweeps all namespaces")
    tell(until(lambda: (server.metric("holdfast_sweep_index_entries_deleted_total") or 0) >= 10),
         "the metrics show what was removed")
    runs = server.runs("done")
    tell(until(lambda: server.link.get("/v1/locks").status == 200 and server.runs("done") > runs),
         "somebody who only looks does not keep it from being idle")
    tell(server.stop(), "the server ends with status 0")


def requests_delay_a_sweep(site):
    server = Server(site, "busy", "--idle-grace-ms=2000", "--op-delay-ms=0")
    server.enter(3)
    server.start()
    with Traffic(server) as traffic:
        time.sleep(5)
        started = sum(server.runs(result) for result in ("done", "activity", "other_process"))
        quiet = traffic.widest < 1.5
    tell(started == 0 or not quiet, "no sweep starts while clients send requests", f"{started} runs")
    tell(until(lambda: server.entries() == 0), "but it does when they have stopped")
    server.stop()


def a_request_stops_a_sweep(site):
    server = Server(site, "yields", "--idle-grace-ms=500", "--op-delay-ms=200")
    server.enter(60)
    server.start()
    tell(until(lambda: server.entries() < 60), "a sweep starts")
    begun = time.monotonic()
    tell(server.link.get("/v1/get?key=none&public=1").status == 204 and time.monotonic() - begun < 5,
         "a request is answered during a sweep")
    tell(until(lambda: server.metric("holdfast_sweep_aborts_total") >= 1), "and stops it")
    tell(server.entries() > 0, "before it has removed everything")
    tell(server.stop(), "a server ends in time in the middle of a sweep")


def a_sweep_is_limited(site):
    server = Server(site, "limit", *GRACE, "--max-ops=4")
    server.enter(10)
    server.start()
    tell(until(lambda: server.runs("max_ops") >= 1), "a sweep ends at its limit on entries")
    tell(until(lambda: server.entries() == 0), "and the next ones continue")
    server.stop()


def sweeping_can_be_switched_off(site):
    server = Server(site, "off", *GRACE)
    server.enter(3)
    server.start("--no-sweep")
    time.sleep(3)
    tell(server.entries() == 3, "with --no-sweep, nothing is swept")
    server.stop()


def scrubs_when_asked(site):
    server = Server(site, "scrub", *GRACE, "--scrub=65536")
    server.bucket.must("acquire", "lock", "--ttl", "1h")
    text = server.bucket.must("store", "get", "default/meta/lock.json").replace(b"named:lock", b"named:lick")
    server.bucket.must("store", "put", "--force", "-q", "default/meta/lost.json", "-", stdin=text)
    server.start()
    tell(until(lambda: (server.metric("holdfast_scrub_rounds_total") or 0) >= 1), "an idle server scrubs the store")
    tell(server.metric("holdfast_scrub_findings_total") >= 1 and server.metric("holdfast_scrub_objects_total") > 1,
         "the metrics show what was found")
    tell(server.bucket.must("store", "get", ".holdfast/sweep/.scrub.json").startswith(b'{"format":"holdfast.sweep/1"'),
         "the position is in the store")
    tell(server.stop(), "a server that scrubs ends in time")


def findings_are_printed(site):
    server = Server(site, "findings", *GRACE, "--scrub=65536")
    long_key = ".holdfast/" + 1000 * "x"
    for key in (".holdfast/\x1b[2Jgone\nholdfast serve: \\", long_key):
        server.bucket.must("store", "put", "--force", "-q", key, "-")
    server.start()
    tell(until(lambda: any(long_key in line for line in server.daemon.log)), "findings are printed")
    reason = ": unknown: it is in a folder of Holdfast, but not a known object"
    tell(f"holdfast serve: object '{long_key}'{reason}" in server.daemon.log, "with their whole reason, however long the key")
    tell(rf"holdfast serve: object '.holdfast/\x1b[2Jgone\nholdfast serve: \\'{reason}" in server.daemon.log,
         "a key cannot control the terminal or imitate a line", "\n".join(server.daemon.log))
    server.stop()


def scrubs_without_its_note(site):
    server = Server(site, "note", *GRACE, "--scrub=10")
    folder = os.path.join(site.folder, "note-objects")
    server.bucket = chaos_kit.Bucket(f"dir:{folder}", server.bucket.environment)
    for key in (".holdfast/sweep/.all.json", "zz"):
        server.bucket.must("store", "put", "--force", "-q", key, "-")
    os.symlink("nowhere", os.path.join(folder, ".holdfast/sweep/.scrub.json"))
    server.start()
    tell(until(lambda: (server.metric("holdfast_scrub_rounds_total") or 0) >= 2),
         "a scrub whose note cannot be read reaches the end of the store")
    told = [line for line in server.daemon.log if ".scrub.json" in line]
    tell(len(told) == 1 and told[0].startswith("holdfast serve: scrub: ") and told[0].endswith("; trying again"),
         "the failure is said once", "\n".join(server.daemon.log))
    server.stop()


def wrong_options(site):
    for word, *options in (("idle", "--idle-grace-ms=1"), ("ops", "--max-ops=0"), ("group name", "--elect=A B"),
                           ("x", "--max-runtime-ms=x"), ("x", "--scrub=x"),
                           ("--scrub cannot be used with --no-sweep", "--scrub=4096", "--no-sweep")):
        server = Server(site, "wrong")
        try:
            server.start(*options)
            server.stop()
            tell(False, f"{' '.join(options)} is refused with a sentence")
        except RuntimeError as why:
            tell(word in str(why), f"{' '.join(options)} is refused with a sentence", str(why))


# ---- Workers ------------------------------------------------------------------------------------


def merges_and_compiles(site):
    server = Server(site, "work", "--no-sweep", "--compact=events", "--compact=absent", "--index=domains",
                    "--elect=servers")
    run = server.bucket.must
    run("compact", "create", "--partition", "events", "--format", "usv", "--key", "1", "--time", "2",
        "--level0-count", "3")
    run("index", "create", "domains", "--fields", "domain,owner,updated_at", "--key", "domain", "--time",
        "updated_at")
    server.start()
    for number in range(4):
        path = os.path.join(site.folder, f"{number}.usv")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"k{number}\x1f{1700000000 + number}\n")
        run("compact", "ingest", "-q", "--partition", "events", path)
    run("index", "put", "domains", "domain=example.org", "owner=ada", "updated_at=2026-11-15T10:00:00Z")

    def merged():
        return any(chunk.get("level", 0) > 0 for chunk in
                   server.bucket.json("compact", "ls", "--partition", "events"))

    def compiled():
        return server.bucket.json("index", "status", "domains")[0]["inbox"]["entries"] == 0

    tell(until(merged), "the server merges a partition")
    tell(until(compiled), "and compiles an index")
    missing = [line for line in server.daemon.log if "'absent'" in line]
    tell(len(missing) == 1 and "no partition" in missing[0], "a partition that does not exist is said once",
         "\n".join(server.daemon.log))
    tell(until(lambda: server.metric("holdfast_compaction_due_groups") == 0 and
               server.metric("holdfast_index_backlog_entries") == 0),
         "the metrics show that nothing is left to do")
    members = server.bucket.json("elect", "ls", "servers")
    tell(len(members) == 1, "the server is a member of its group", str(members))
    tell(server.stop(), "a server with workers ends in time")
    tell(server.bucket.json("elect", "ls", "servers") == [], "and leaves its group")


def story(site):
    for part in (sweeps_when_idle, requests_delay_a_sweep, a_request_stops_a_sweep, a_sweep_is_limited,
                 scrubs_when_asked, findings_are_printed, scrubs_without_its_note, sweeping_can_be_switched_off, wrong_options, merges_and_compiles):
        part(site)


if __name__ == "__main__":
    sys.exit(chaos_kit.play(story, sys.argv[1]))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_trouble_test.py: a server whose store is in trouble, under load.

    serve_trouble_test.py disk     the disk of an `sqlite:` store is full
    serve_trouble_test.py busy     another process keeps an `sqlite:` store locked
    serve_trouble_test.py hung     a bucket on Ceph does not answer

Meanwhile requests are refused with 503 or 504 and a time to try again, what does not need the store is
served, and when the trouble is over, the same server works as before. The audit of
serve_chaos_test.py judges everything that the clients were told.
"""

import os
import re
import socket
import sqlite3
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import ceph_kit
import chaos_kit
from chaos_kit import say, tell
from serve_chaos_test import last_words, report
from serve_kit import BUSY_SECONDS, Crew, Daemon, Link

CLIENTS = 6
TTL = 2.0
GRANTS = 8
DISK_BYTES = 4 << 20
TROUBLE = 3.0        # seconds
STORE_TIMEOUT = 2.0  # of the bucket that hangs
CROWD = 150          # requests at once, more than there are workers
STATES = 4
STATE_BYTES = 1 << 20
REPLY_MAX = 30.0     # seconds, on a loaded machine
HUNG_REPLY_MAX = 18.0  # 5 s until a call begins or is refused, 10 s for a call, and some for the machine
PROMPT_SECONDS = 5.0  # the same: what is told at once


def outcomes(replies):
    """What they were answered, for a remark."""
    words = sorted({f"{reply.status} {reply.word}" for reply in replies})
    return ", ".join(words)


def check_refusals(what, replies):
    """Each is answered 503 or 504, with a sentence and a time to try again."""
    wrong = [reply for reply in replies if reply.status not in (503, 504) or not reply.said.get("detail") or
             int(reply.headers.get("retry-after", 0)) < 1]
    tell(not wrong, f"{what}: refused with 503 or 504, a sentence and Retry-After",
         "\n".join(f"{reply.status} {reply.headers} {reply.body}" for reply in wrong[:5]))


def tell_health(what, link):
    reply = link.get("/healthz")
    took = reply.got - reply.sent
    tell(reply.status == 200 and took < 5, f"{what}: /healthz is answered at once", f"{reply.status} {took:.1f} s")


def recovers(link):
    """Whether a new key can be acquired, and released, before long."""
    end = time.monotonic() + BUSY_SECONDS
    while time.monotonic() < end:
        reply = link.post("/v1/acquire", key="recovered", ttl_ms=5000, block_seconds=-1)
        if reply.status == 200:
            return link.post("/v1/release", key="recovered", lease_id=reply.said["lease_id"]).status == 200
        time.sleep(0.1)
    return False


def tell_recovery(what, daemon, link, crew):
    good = recovers(link) and crew.wait_for_grants(GRANTS) and daemon.starts == 1
    good = good and daemon.process.poll() is None
    tell(good, f"{what}: afterwards the same server grants again", last_words(good, daemon))
    tell(link.get("/readyz").status == 200, f"{what}: and is ready")


def abandon(daemon, count, *head, body=b""):
    """Sends so many requests, and does not wait for the replies."""
    for _ in range(count):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(daemon.path)
            client.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)


def figure(link, name):
    page = link.get("/metrics").body.decode()
    return int(float(re.search(rf"^{name} (\S+)", page, re.M).group(1)))


def memory_becomes(link, condition):
    """Whether the memory for requests becomes so, and how much it is."""
    end = time.monotonic() + BUSY_SECONDS
    while time.monotonic() < end:
        found = figure(link, "holdfast_http_buffered_bytes")
        if condition(found):
            return True, found
        time.sleep(0.05)
    return False, found


def end(daemon, crew, expected):
    events = crew.stop()
    ended = daemon.stop() == 0
    tell(ended, "the server ends with status 0", last_words(ended, daemon))
    report(events, expected)


def held_key(link):
    """A lease of a key that has a state."""
    lease = link.post("/v1/acquire", key="probe", ttl_ms=600_000, block_seconds=-1).said["lease_id"]
    assert link.update("probe", lease, b"state").status == 200
    return lease


# ---- A full disk --------------------------------------------------------------------------------

# The disk is mounted in a mount namespace of the server's own, which has the server's process id.
ON_SMALL_DISK = f'mount -t tmpfs -o size={DISK_BYTES} none "$0" || exit 99; exec "$@"'


def start_on_small_disk(folder):
    """None where nothing can be mounted."""
    disk = os.path.join(folder, "disk")
    os.mkdir(disk)
    spaces = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "-r", "--mount"]
    try:
        return Daemon(f"sqlite:{disk}/locks.db", dict(os.environ), os.path.join(folder, "serve.sock"),
                      within=[*spaces, "sh", "-c", ON_SMALL_DISK, disk])
    except RuntimeError as why:
        if "mount" in str(why) or "unshare" in str(why):
            say("skipped: needs root, or namespaces for users")
            return None
        raise


def fill(daemon, folder):
    """Fills the disk. Returns the path of the file that does."""
    path = f"/proc/{daemon.process.pid}/root{folder}/disk/filler"
    size = 1 << 16
    with open(path, "wb", buffering=0) as file:
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
    return path


def write_until_refused(link, lease):
    """The replies. What is written first may still fit into what is allocated."""
    replies, end = [], time.monotonic() + BUSY_SECONDS
    while not replies or replies[-1].status == 200 and time.monotonic() < end:
        replies.append(link.update("probe", lease, b"x" * 3500))
    return replies


def full_disk(site):
    daemon = start_on_small_disk(site.folder)
    if not daemon:
        tell(True, "a full disk: skipped")
        return
    link = Link(daemon.path, REPLY_MAX)
    lease = held_key(link)
    crew = Crew([daemon], CLIENTS, TTL, seed=1, timeout=REPLY_MAX)
    crew.wait_for_grants(GRANTS)
    path = fill(daemon, site.folder)
    replies = write_until_refused(link, lease)
    say(f"updates: {len(replies)}, {outcomes(replies)}; {replies[-1].said}")
    tell(replies[-1].status != 200, "a full disk: updates are refused")
    time.sleep(TROUBLE / 2)
    large = link.update("probe", lease, bytes(100_000))
    refused = [reply for reply in replies if reply.status != 200]
    refused += [large, link.post("/v1/acquire", key="new", block_seconds=-1)]
    check_refusals("a full disk", refused)
    slowest = max(reply.got - reply.sent for reply in refused)
    told = [reply.status == 503 and b"no space left on" in reply.body.lower() for reply in refused]
    tell(all(told) and slowest < PROMPT_SECONDS, "a full disk: it is told at once, and why",
         f"{slowest:.1f} s: {[(reply.status, reply.body[:120]) for reply in refused]}")
    tell_health("a full disk", link)
    read = link.get("/v1/get?key=probe&public=1")
    tell(read.status == 200, "a full disk: states are read", f"{read.status} {read.body[:200]}")
    os.unlink(path)
    tell_recovery("a full disk", daemon, link, crew)
    kept = link.post("/v1/keepalive", key="probe", lease_id=lease)
    tell(kept.status == 200, "a full disk: the lease that was held is still held", str(kept.body))
    end(daemon, crew, ["acquire 200", "update 200", "release 200"])


# ---- A locked store -----------------------------------------------------------------------------


def locked_store(site):
    bucket = site.bucket("busy")
    daemon = Daemon(bucket.url, bucket.environment, os.path.join(site.folder, "serve.sock"))
    link = Link(daemon.path, REPLY_MAX)
    lease = held_key(link)
    crew = Crew([daemon], CLIENTS, TTL, seed=2, timeout=REPLY_MAX)
    crew.wait_for_grants(GRANTS)
    other = sqlite3.connect(bucket.place.removeprefix("sqlite:"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    tell_health("a locked store", link)
    read = link.get("/v1/get?key=probe&public=1")
    tell(read.status == 200, "a locked store: states are read", f"{read.status} {read.body[:200]}")
    impatient = Link(daemon.path, TROUBLE)
    reply = impatient.update("probe", lease, b"later")
    say(f"an update while it is locked: {reply.status} {reply.word}")
    tell(reply.status != 200, "a locked store: nothing is acknowledged")
    abandon(daemon, STATES, "POST /v1/update?key=probe HTTP/1.1", "Host: localhost", f"X-Lease-ID: {lease}",
            f"Content-Length: {STATE_BYTES}", body=bytes(STATE_BYTES))
    counted, found = memory_becomes(link, lambda size: size >= STATES * STATE_BYTES)
    tell(counted, "a locked store: states that wait to be written count as memory of requests", f"{found} bytes")
    time.sleep(max(0, begun + TROUBLE - time.monotonic()))
    other.execute("ROLLBACK")
    other.close()
    tell_recovery("a locked store", daemon, link, crew)
    freed, found = memory_becomes(link, lambda size: size < STATE_BYTES)
    tell(freed, "a locked store: and no longer when they are written", f"{found} bytes")
    end(daemon, crew, ["acquire 200", "update 200", "release 200"])


# ---- A store that does not answer ---------------------------------------------------------------


def ask_in_threads(daemon, count):
    """The replies to so many requests at once."""
    replies = []

    def ask(number):
        link = Link(daemon.path, REPLY_MAX)
        replies.append(link.post("/v1/acquire", key=f"crowd-{number}", ttl_ms=3000, block_seconds=-1)
                       if number % 2 else link.get(f"/v1/get?key=crowd-{number}&public=1"))
        link.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return replies


def hung_store(site):
    scratch = site.folder
    with ceph_kit.shared_or_own(scratch) as ceph:
        relay = ceph_kit.Relay("127.0.0.1", ceph.endpoint())
        url = ceph.bucket("hung").url_at(relay.endpoint, "serve", f"etag=bare&timeout={STORE_TIMEOUT:.0f}s")
        daemon = Daemon(url, ceph.environment, os.path.join(scratch, "serve.sock"))
        link = Link(daemon.path, REPLY_MAX)
        crew = Crew([daemon], CLIENTS, TTL, seed=3, timeout=REPLY_MAX)
        crew.wait_for_grants(GRANTS)
        relay.hold()
        time.sleep(0.2)
        before = figure(link, "holdfast_retries_total")
        abandon(daemon, CROWD, "GET /readyz HTTP/1.1", "Host: localhost")
        calls, retries = figure(link, "holdfast_calls_under_way"), figure(link, "holdfast_retries_total") - before
        tell(calls <= CLIENTS + 2 and retries == 0,
             "a hung store: all who ask whether the server is ready share one call", f"{calls} calls, {retries} retries")
        begun = time.monotonic()
        health = threading.Thread(target=tell_health, args=("a hung store", Link(daemon.path, REPLY_MAX)))
        later = threading.Timer(0.5, health.start)
        later.start()
        replies = ask_in_threads(daemon, CROWD)
        took = time.monotonic() - begun
        say(f"{CROWD} requests in {took:.1f} s: {outcomes(replies)}")
        check_refusals("a hung store", replies)
        tell(took < HUNG_REPLY_MAX, "a hung store: every request is answered in time", f"{took:.1f} s")
        ready = link.get("/readyz")
        tell(ready.status == 503, "a hung store: the server is not ready", f"{ready.status}")
        later.join()
        health.join()
        relay.resume()
        tell_recovery("a hung store", daemon, link, crew)
        end(daemon, crew, ["acquire 200", "update 200", "release 200"])


STORIES = {"disk": full_disk, "busy": locked_store, "hung": hung_store}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in STORIES:
        sys.exit("usage: serve_trouble_test.py disk|busy|hung")
    return chaos_kit.play(STORIES[sys.argv[1]], "sqlite")


if __name__ == "__main__":
    sys.exit(main())

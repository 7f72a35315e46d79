#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_load_test.py: a server under mixed load, and among clients that mean no good.

    serve_load_test.py [--seconds N]

Clients acquire, renew, update, release and read (tests/serve_kit.py); others wait and hang up, send the
same request twice, list, scrape, connect and leave, send slowly, or send what no server accepts.
Memory, descriptors and threads must not grow, every well-behaved client is served, and the audit of
serve_chaos_test.py judges what it was told. Prints TAP, and figures behind '#'.
"""

import argparse
import os
import random
import socket
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import chaos_kit
from chaos_kit import say, tell
from serve_chaos_test import report
from serve_kit import Crew, Daemon, Link

CLIENTS = 6
TTL = 3.0
GROWTH_MAX = 6 << 20    # bytes, between the two halves of the time ...
RESULT_BYTES = 1500     # ... and this for each result that is remembered for a retry
BODY_BYTES = 1 << 30    # announced, and refused before it is read
LINES = 100_000         # of headers
LATENCY_MAX = 10.0      # seconds, for a client among the others, on a loaded machine


class Odd(threading.Thread):
    """A client that does one odd thing again and again. `done` counts, `wrong` are sentences."""

    def __init__(self, daemon, act):
        super().__init__(daemon=True)
        self.path, self.act = daemon.path, act
        self.random = random.Random(act.__name__)
        self.ended, self.done, self.wrong = threading.Event(), 0, []

    def run(self):
        while not self.ended.is_set():
            sentence = self.act(self)
            self.done += 1
            if sentence and len(self.wrong) < 5:
                self.wrong.append(f"{self.act.__name__}: {sentence}")
            time.sleep(0.02)

    def connect(self, timeout=30.0):
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(timeout)
        link.connect(self.path)
        return link


def status_of(link):
    """The status of the reply, or None if the server has closed the connection."""
    try:
        head = link.recv(4096)
    except OSError:
        return None
    return int(head.split(b" ")[1]) if head.startswith(b"HTTP/1.1 ") else None


def send(link, data):
    """The server may close before it has read all of it."""
    try:
        link.sendall(data)
    except OSError:
        pass


def wait_and_hang_up(odd):
    body = b'{"key":"held","block_seconds":30,"ttl_ms":1000}'
    with odd.connect() as link:
        send(link, b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        time.sleep(odd.random.random() * 0.05)
        if odd.random.random() < 0.5:
            link.shutdown(socket.SHUT_WR)


def repeat_a_request(odd):
    link = Link(odd.path, 30)
    name = f"{odd.random.getrandbits(64):x}"
    asked = {"key": f"twice-{odd.done % 50}", "request_id": name, "ttl_ms": 1000, "block_seconds": 20}
    first, second = (link.post("/v1/acquire", **asked) for _ in range(2))
    if first.status == 200:
        link.post("/v1/release", key=asked["key"], lease_id=first.said["lease_id"])
    link.close()
    if first.status == 200 and second.said.get("lease_id") != first.said["lease_id"]:
        return f"a retry got {second.status} {second.body[:200]}"
    return None


def list_and_scrape(odd):
    link = Link(odd.path, 30)
    statuses = [link.get(target).status for target in ("/v1/locks?limit=100", "/metrics", "/healthz", "/nothing")]
    link.close()
    return None if statuses == [200, 200, 200, 404] else str(statuses)


def connect_and_leave(odd):
    odd.connect().close()


def send_slowly(odd):
    with odd.connect() as link:
        for byte in b"GET /healthz HTTP/1.1\r\nHo":
            send(link, bytes([byte]))
            time.sleep(0.01)


def announce_much(odd):
    with odd.connect() as link:
        send(link, b"POST /v1/update?key=big HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
             % BODY_BYTES)
        status = status_of(link)
    return None if status == 413 else f"1 GiB was answered with {status}"


def send_many_headers(odd):
    with odd.connect() as link:
        send(link, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X-A: b\r\n" * LINES + b"\r\n")
        status = status_of(link)
    return None if status in (431, None) else f"{LINES} headers were answered with {status}"


def send_two_lengths(odd):
    with odd.connect() as link:
        send(link, b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
             b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        status = status_of(link)
    return None if status == 400 else f"both lengths were answered with {status}"


def send_wrong_json(odd):
    link = Link(odd.path, 30)
    statuses = [link.ask("POST", "/v1/acquire", body, {"Content-Type": "application/json"}).status
                for body in (b'{"key":1}', b'{"key":"a","key":"b"}', b'{"key":"\xff"}', b"[" * 5000, b"")]
    link.close()
    return None if set(statuses) == {400} else str(statuses)


ODD = (wait_and_hang_up, repeat_a_request, list_and_scrape, connect_and_leave, send_slowly, announce_much,
       send_many_headers, send_two_lengths, send_wrong_json)


class Watch(threading.Thread):
    """Samples memory, descriptors and threads; and how long a client waits for a reply."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.daemon_process, self.ended = daemon, threading.Event()
        self.samples, self.slowest = [], 0.0

    def run(self):
        link = Link(self.daemon_process.path, 60)
        while not self.ended.wait(0.25):
            reply = link.get("/v1/get?key=a-0&public=1")
            self.slowest = max(self.slowest, reply.got - reply.sent if reply.status else 60)
            process = self.daemon_process
            self.samples.append((process.memory(), process.descriptors(), process.threads()))

    def halves(self):
        """The largest figures of the second and of the last quarter; of the threads of the last one the
        fewest, because some come and go with the load."""
        quarter = len(self.samples) // 4
        parts = self.samples[quarter:2 * quarter], self.samples[-quarter:]
        early, late = [[max(figures) for figures in zip(*part)] for part in parts]
        return early, [*late[:2], min(threads for _, _, threads in parts[1])]


def under_load(site, options):
    bucket = site.bucket("load")
    daemon = Daemon(bucket.url, bucket.environment, os.path.join(site.folder, "load.sock"))
    held = Link(daemon.path).post("/v1/acquire", key="held", ttl_ms=3_600_000, block_seconds=-1)
    crew = Crew([daemon], CLIENTS, TTL, seed=4, timeout=60)
    odd = [Odd(daemon, act) for act in ODD]
    watch = Watch(daemon)
    for thread in [*odd, watch]:
        thread.start()
    begun, round_seconds, rounds = time.monotonic(), 10, 0
    while time.monotonic() < begun + options.seconds:
        time.sleep(min(round_seconds, max(0, begun + options.seconds - time.monotonic())))
        rounds += 1
        crew.use_new_keys(rounds)
    for thread in [watch, *odd]:
        thread.ended.set()
    for thread in [watch, *odd]:
        thread.join()
    events = crew.stop()
    say(", ".join(f"{one.act.__name__}: {one.done}" for one in odd))
    early, late = watch.halves()
    say(f"memory {early[0] / 1e6:.1f} MB, then {late[0] / 1e6:.1f} MB; descriptors {early[1]}, then {late[1]}; "
        f"threads {early[2]}, then {late[2]}; slowest read {watch.slowest:.2f} s")
    tell(all(one.done > 0 for one in odd), "every kind of client gets its turn")
    wrong = [sentence for one in odd for sentence in one.wrong]
    tell(not wrong, "odd requests are answered as documented", "\n".join(wrong))
    results = sum(one.done for one in odd if one.act is repeat_a_request) + crew.grants()
    tell(late[0] - early[0] < GROWTH_MAX + RESULT_BYTES * results, "memory does not grow",
         f"{early[0]} bytes, then {late[0]}")
    tell(late[1] <= early[1] + 8, "descriptors do not accumulate", f"{early[1]}, then {late[1]}")
    tell(late[2] <= early[2], "nor do threads", f"{early[2]}, then {late[2]}")
    tell(watch.slowest < LATENCY_MAX, "other clients are served meanwhile", f"{watch.slowest:.2f} s")
    link = Link(daemon.path)
    kept = link.post("/v1/keepalive", key="held", lease_id=held.said["lease_id"])
    tell(kept.status == 200, "nobody who hung up has got the lock that was held", str(kept.body))
    link.post("/v1/release", key="held", lease_id=held.said["lease_id"])
    free = link.post("/v1/acquire", key="held", ttl_ms=1000, block_seconds=20)
    tell(free.status == 200, "and none of them stands in its line", str(free.body))
    link.close()
    tell(daemon.stop() == 0, "the server ends with status 0")
    report(events, ["acquire 200", "update 200", "keepalive 200", "release 200", "read 200"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=12)
    options = parser.parse_args()
    return chaos_kit.play(lambda site: under_load(site, options), "sqlite")


if __name__ == "__main__":
    sys.exit(main())

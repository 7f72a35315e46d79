#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_counts.py: how many instructions the server executes for a request, outside of the kernel.

    bench/serve_counts.py BUILD/src/serve/holdfast-serve [keepalives|pairs|paths|handover]

Unlike the time, this is the same on a loaded machine. Needs valgrind.

    keepalives  20 connections send one keepalive each, all at once, as in `bench_serve memory`
    pairs       16 connections acquire a key each, all at once, and then release it
    paths       the same with locks on paths, which share one document
    handover    16 connections pass one lock on

With OUT=FILE in the environment, the profile is kept for callgrind_annotate.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

CONNECTIONS, LEASES, ROUNDS, WARM = 20, 400, 30, 5
PAIRS = 16


def send(connection, path, **members):
    body = json.dumps(members).encode()
    head = (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n")
    connection.sendall(head.encode() + body)


def receive(connection):
    text = b""
    while b"\r\n\r\n" not in text:
        text += connection.recv(65536)
    head, _, body = text.partition(b"\r\n\r\n")
    size = int(re.search(rb"(?i)content-length: *(\d+)", head)[1])
    while len(body) < size:
        body += connection.recv(65536)
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise SystemExit(f"refused: {body}")
    return json.loads(body)


def start(program, folder):
    """The process, and its port."""
    process = subprocess.Popen(
        ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out",
         program, "--store", f"sqlite:{folder}/locks.db?sync=off", "--listen", "127.0.0.1:0"],
        stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
        if found:
            return process, int(found[1])
    raise SystemExit("the server did not start")


def control(process, *words):
    subprocess.run(["callgrind_control", *words, str(process.pid)], check=True, capture_output=True)


class Keepalives:
    connections, each = CONNECTIONS, CONNECTIONS

    def prepare(self, connections):
        self.ids = []
        for first in range(0, LEASES, CONNECTIONS):
            for i, connection in enumerate(connections):
                send(connection, "/v1/acquire", key=f"k{first + i}", owner="bench", ttl_ms=300_000)
            self.ids += [receive(connection)["lease_id"] for connection in connections]

    def run(self, connections, number):
        for i, connection in enumerate(connections):
            at = (number * CONNECTIONS + i) % LEASES
            send(connection, "/v1/keepalive", key=f"k{at}", lease_id=self.ids[at])
        for connection in connections:
            receive(connection)


class Pairs:
    connections, each = PAIRS, PAIRS
    member, start = "key", "k"

    def prepare(self, connections):
        pass

    def run(self, connections, _number):
        names = [{self.member: f"{self.start}{i}"} for i in range(len(connections))]
        for connection, name in zip(connections, names):
            send(connection, "/v1/acquire", owner="b", ttl_seconds=30, block_seconds=-1, **name)
        ids = [receive(connection)["lease_id"] for connection in connections]
        for connection, name, lease in zip(connections, names, ids):
            send(connection, "/v1/release", lease_id=lease, **name)
        for connection in connections:
            receive(connection)


class Paths(Pairs):
    member, start = "scope", "path:/k"


class Handover:
    connections, each = PAIRS, PAIRS

    def prepare(self, connections):
        for connection in connections:
            self.acquire(connection)

    def acquire(self, connection):
        send(connection, "/v1/acquire", key="k", owner="b", ttl_seconds=30, block_seconds=0)

    def run(self, connections, _number):
        for connection in connections:
            lease = receive(connection)["lease_id"]
            send(connection, "/v1/release", key="k", lease_id=lease)
            receive(connection)
            self.acquire(connection)


KINDS = {"keepalives": (Keepalives, "keepalive"), "pairs": (Pairs, "pair of acquire and release"),
         "paths": (Paths, "pair of acquire and release of a path"), "handover": (Handover, "hand-over")}


def main(program, kind="keepalives"):
    work, what = KINDS[kind][0](), KINDS[kind][1]
    with tempfile.TemporaryDirectory() as folder:
        process, port = start(program, folder)
        connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(work.connections)]
        work.prepare(connections)
        for number in range(WARM + ROUNDS):
            if number == WARM:
                control(process, "-i", "on")
            work.run(connections, number)
        control(process, "-d")
        process.terminate()
        process.wait(60)
        profile = os.path.join(folder, "out.1")
        if os.environ.get("OUT"):
            shutil.copy(profile, os.environ["OUT"])
        with open(profile, encoding="utf-8") as file:
            total = int(re.search(r"(?m)^totals: (\d+)", file.read())[1])
        print(f"{total / (ROUNDS * work.each):,.0f} instructions for a {what}")


if __name__ == "__main__":
    main(*sys.argv[1:])

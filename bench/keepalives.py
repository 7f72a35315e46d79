#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""keepalives.py: how many instructions the server executes for a keepalive, outside of the kernel.

    bench/keepalives.py BUILD/src/serve/holdfast-serve

Unlike the time, this is the same on a loaded machine. Needs valgrind. 20 connections send one
keepalive each, all at once, as in `bench_serve memory`.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile

CONNECTIONS, LEASES, ROUNDS, WARM = 20, 400, 30, 5


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


def main(program):
    with tempfile.TemporaryDirectory() as folder:
        process, port = start(program, folder)
        connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
        ids = []
        for first in range(0, LEASES, CONNECTIONS):
            for i, connection in enumerate(connections):
                send(connection, "/v1/acquire", key=f"k{first + i}", owner="bench", ttl_ms=300_000)
            ids += [receive(connection)["lease_id"] for connection in connections]
        for number in range(WARM + ROUNDS):
            if number == WARM:
                control(process, "-i", "on")
            for i, connection in enumerate(connections):
                at = (number * CONNECTIONS + i) % LEASES
                send(connection, "/v1/keepalive", key=f"k{at}", lease_id=ids[at])
            for connection in connections:
                receive(connection)
        control(process, "-d")
        process.terminate()
        process.wait(60)
        with open(os.path.join(folder, "out.1"), encoding="utf-8") as file:
            total = int(re.search(r"(?m)^totals: (\d+)", file.read())[1])
        print(f"{total / (ROUNDS * CONNECTIONS):,.0f} instructions for a keepalive")


if __name__ == "__main__":
    main(sys.argv[1])

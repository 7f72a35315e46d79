# SPDX-License-Identifier: Apache-2.0
"""serve_http_kit.py: starts tests/serve_http_server.c, and talks to it with plain sockets."""

import os
import json
import resource
import signal
import socket
import struct
import subprocess
import threading
import time

PROGRAM = os.path.join(os.environ["HOLDFAST_TEST_PROGRAMS"], "serve_http_server")
SECONDS_MAX = 20


class Server:
    """A server process. `control` is a Unix socket of its own, so questions about its state do not
    depend on the port under attack."""

    def __init__(self, folder, *arguments, addresses=("127.0.0.1:0",), descriptors=None, exists=False):
        self.path = os.path.join(folder, "control.sock")
        if not exists and os.path.exists(self.path):
            os.unlink(self.path)

        def limit():
            if descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        self.process = subprocess.Popen(
            [PROGRAM, *arguments, *addresses, "unix:" + self.path], stdout=subprocess.PIPE,
            text=True, preexec_fn=limit)
        self.addresses, self.lines, self.changed = [], [], threading.Condition()
        for line in self.process.stdout:
            if line.strip() == "ready":
                break
            self.addresses.append(line.strip())
        else:
            raise RuntimeError("the server did not start")
        self.port = int(self.addresses[0].rpartition(":")[2])
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.split())
                self.changed.notify_all()

    def hang_up_of(self, name, seconds=SECONDS_MAX):
        """When the server noticed that this client left, in microseconds; None if it did not."""
        end = time.monotonic() + seconds
        with self.changed:
            while True:
                for line in self.lines:
                    if line[:2] == ["hang_up", name]:
                        return int(line[2])
                if time.monotonic() >= end:
                    return None
                self.changed.wait(end - time.monotonic())

    def connect(self, index=0):
        address = self.addresses[index]
        if address.startswith("unix:"):
            link = socket.socket(socket.AF_UNIX)
            link.settimeout(SECONDS_MAX)
            link.connect(address[5:])
            return link
        host, _, port = address.rpartition(":")
        link = socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS_MAX)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return link

    def ask(self, target, index=-1):
        with self.connect(index) as link:
            link.sendall(get(target, "Connection: close"))
            return Reply.read(link)

    def figures(self):
        return json.loads(self.ask("/figures").body)

    def until(self, condition, seconds=SECONDS_MAX):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition(self.figures()):
                return True
            time.sleep(0.02)
        return False

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    def cpu(self):
        """Seconds of processor time."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        """The exit status after SIGTERM."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "killed"


def get(target, *headers, verb="GET", version="HTTP/1.1", body=b""):
    lines = [f"{verb} {target} {version}", "Host: localhost", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Reply:
    """One reply, or status None if the connection ended first."""

    def __init__(self):
        self.status, self.headers, self.body, self.rest = None, {}, b"", b""

    @staticmethod
    def read(link, rest=b"", head_only=False):
        reply = Reply()
        data = rest
        while b"\r\n\r\n" not in data:
            piece = receive(link)
            if not piece:
                reply.rest = data
                return reply
            data += piece
        head, _, data = data.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        reply.status = int(lines[0].split()[1])
        for line in lines[1:]:
            name, _, value = line.partition(": ")
            reply.headers[name.lower()] = value
        length = 0 if head_only else int(reply.headers.get("content-length", 0))
        parts, size = [data], len(data)
        while size < length:
            piece = receive(link)
            if not piece:
                break
            parts.append(piece)
            size += len(piece)
        data = b"".join(parts)
        reply.body, reply.rest = data[:length], data[length:]
        return reply

    @property
    def text(self):
        return self.body.decode()


def receive(link, size=65536):
    try:
        return link.recv(size)
    except (ConnectionError, socket.timeout):
        return b""


def read_all(link):
    """Everything until the server closes."""
    data = bytearray()
    while True:
        piece = receive(link)
        if not piece:
            return bytes(data)
        data += piece


def reset(link):
    """Closes with RST instead of FIN."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()

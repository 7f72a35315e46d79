# SPDX-License-Identifier: Apache-2.0
"""serve_kit.py: `holdfast serve` for test scripts: server processes that are killed, stopped and started
again, clients in threads, and the journal in which each client notes what it sent, when, and what it
was told. tests/serve_audit.py judges the journal.
"""

import atexit
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
import urllib.parse

from serve_audit import Event

PROGRAM = os.environ.get("HOLDFAST_SERVE", "holdfast-serve")
START_SECONDS = 60.0
BUSY_SECONDS = 60.0  # how long a test waits for progress on a loaded machine


# ---- Servers ------------------------------------------------------------------------------------


class Daemon:
    """A server on a store, which listens on a Unix socket, so that it is at the same address after a
    restart."""

    def __init__(self, url, environment, path, *options, within=()):
        self.url, self.environment, self.path, self.options = url, environment, path, options
        self.within = within  # a command that starts the server
        self.log = []         # lines of standard error
        self.starts = 0
        self.process = None
        atexit.register(self.end)  # whatever becomes of the test
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [*self.within, PROGRAM, "--store", self.url, "--listen", f"unix:{self.path}", *self.options],
            env=self.environment, stderr=subprocess.PIPE, text=True)
        self.starts += 1
        self.listens, said = False, threading.Event()
        threading.Thread(target=self.read, args=(self.process, said), daemon=True).start()
        said.wait(START_SECONDS)
        if not self.listens:
            self.kill()
            raise RuntimeError(f"the server did not start: {' '.join(self.log[-3:])}")

    def read(self, process, said):
        for line in process.stderr:
            self.log.append(line.rstrip())
            if "listening on" in line:
                self.listens = True
                said.set()
        said.set()

    def send(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        if self.process and self.process.poll() is None:
            self.kill()

    def stop(self, seconds=30):
        """The exit status after SIGTERM, or None if it had to be killed."""
        if self.process.poll() is None:
            self.send(signal.SIGCONT)
            self.send(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self):
        """Resident bytes."""
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))


# ---- Requests -----------------------------------------------------------------------------------


class Connection(http.client.HTTPConnection):
    """HTTP to a Unix socket."""

    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Reply:
    """The reply to a request; status None if there was none."""

    def __init__(self, sent, status=None, headers=(), body=b""):
        self.sent, self.got = sent, time.monotonic()
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers}
        try:
            self.said = json.loads(body) if body[:1] == b"{" else {}
        except ValueError:
            self.said = {}

    @property
    def word(self):
        return self.said.get("error")


class Link:
    """One client's connection, which is opened again when it is broken."""

    def __init__(self, path, timeout=10.0):
        self.path, self.timeout = path, timeout
        self.connection = None

    def ask(self, verb, target, body=None, headers=None):
        """A request that gets no reply is not repeated."""
        sent = time.monotonic()
        try:
            self.connection = self.connection or Connection(self.path, self.timeout)
            self.connection.request(verb, target, body, headers or {})
            reply = self.connection.getresponse()
            return Reply(sent, reply.status, reply.getheaders(), reply.read())
        except (OSError, http.client.HTTPException):
            self.close()
            return Reply(sent)

    def get(self, target, **headers):
        return self.ask("GET", target, headers=headers)

    def post(self, route, **members):
        return self.ask("POST", route, json.dumps(members), {"Content-Type": "application/json"})

    def update(self, key, lease, value, **query):
        query = urllib.parse.urlencode({"key": key, **query})
        return self.ask("POST", f"/v1/update?{query}", value, {"X-Lease-ID": lease})

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None


# ---- Clients ------------------------------------------------------------------------------------


class Crew:
    """Clients that work on the same keys until they are told to stop."""

    def __init__(self, daemons, size, ttl, seed, timeout=10.0):
        self.paths = [daemon.path for daemon in daemons]
        self.ttl, self.timeout = ttl, timeout
        self.keys = []
        self.use_new_keys(0)
        self.ended = threading.Event()
        self.clients = [Client(self, number, seed) for number in range(size)]
        for client in self.clients:
            client.start()

    def use_new_keys(self, number):
        """The history of a key is easier to judge if it is short."""
        self.keys = [f"{name}-{number}" for name in "abcde"]

    def grants(self):
        return sum(client.grants for client in self.clients)

    def wait_for_grants(self, count):
        """False if so many more do not come in time."""
        wanted, end = self.grants() + count, time.monotonic() + BUSY_SECONDS
        while self.grants() < wanted and time.monotonic() < end:
            time.sleep(0.005)
        return self.grants() >= wanted

    def stop(self):
        """Ends the clients, and reads every key once more. Returns the journal."""
        self.ended.set()
        for client in self.clients:
            client.join()
        last = Client(self, len(self.clients), 0)
        events = [event for client in self.clients for event in client.journal]
        for key in sorted({event.key for event in events}):
            end = time.monotonic() + BUSY_SECONDS
            while last.read(key) not in (200, 204) and time.monotonic() < end:
                time.sleep(0.05)
        return events + last.journal


class Client(threading.Thread):
    """Acquires keys, changes their states, renews and releases, or lets leases expire. It follows the
    rules for clients in docs/serve.md, and notes everything in its journal."""

    def __init__(self, crew, number, seed):
        super().__init__(daemon=True)
        self.crew, self.number = crew, number
        self.random = random.Random(seed * 1000 + number)
        self.links = [Link(path, crew.timeout) for path in crew.paths]
        self.at = number % len(self.links)
        self.journal = []
        self.grants = self.values = 0

    def run(self):
        while not self.crew.ended.is_set():
            key = self.random.choice(self.crew.keys)
            if self.random.random() < 0.2:
                self.read(key)
            else:
                self.hold(key)

    def note(self, kind, key, reply, **more):
        """Notes an exchange. Without a reply, another server is asked next."""
        self.journal.append(Event(self.number, kind, key, reply.sent, reply.got, reply.status,
                                  reply.word, said=reply.said, **more))
        if reply.status is None or reply.status >= 500 or self.random.random() < 0.1:
            self.at = self.random.randrange(len(self.links))
        if reply.status is None or reply.status >= 500:
            time.sleep(0.05)
        return reply

    @property
    def link(self):
        return self.links[self.at]

    def acquire(self, key):
        """The lease, or None. A request without a reply is sent again once, with the same id."""
        body = {"key": key, "owner": f"client-{self.number}", "ttl_ms": int(1000 * self.crew.ttl),
                "block_seconds": self.random.choice((-1, 1, 3)),
                "request_id": f"{self.random.getrandbits(128):032x}"}
        for _ in range(2):
            reply = self.note("acquire", key, self.link.post("/v1/acquire", **body))
            if reply.status is not None or self.crew.ended.is_set():
                break
        if reply.status != 200:
            return None
        self.grants += 1
        return reply.said["lease_id"]

    def hold(self, key):
        lease = self.acquire(key)
        if not lease:
            return
        uses, pause = self.random.randrange(12), 0
        if self.random.random() < 0.15:  # longer than the ttl, so that it depends on renewals
            uses, pause = 6, self.crew.ttl / 4
        for _ in range(uses):
            time.sleep(pause)
            if not self.use(key, lease, renews=pause > 0 or self.random.random() < 0.4):
                return
        if self.random.random() < 0.95:
            reply = self.link.post("/v1/release", key=key, lease_id=lease)
            self.note("release", key, reply, lease=lease)

    def use(self, key, lease, renews):
        """False if the lease is over."""
        if renews:
            reply = self.link.post("/v1/keepalive", key=key, lease_id=lease)
            self.note("keepalive", key, reply, lease=lease)
        else:
            self.values += 1
            value = f"{self.number}.{self.values}"
            self.note("update", key, self.link.update(key, lease, value), lease=lease, value=value)
        return self.journal[-1].status != 403

    def read(self, key):
        reply = self.link.get(f"/v1/get?key={key}&public=1")
        reply.said = {"version": int(reply.headers.get("x-key-version", 0))}
        self.note("read", key, reply, value=reply.body.decode() if reply.status == 200 else None)
        return reply.status


class Keeper(threading.Thread):
    """Holds one lease and renews it, whatever happens to the servers. `lost` says how it ended, if it
    did before its time."""

    def __init__(self, daemons, ttl):
        super().__init__(daemon=True)
        self.links = [Link(daemon.path, timeout=ttl / 4) for daemon in daemons]
        self.ttl, self.ended = ttl, threading.Event()
        self.renewals, self.lost = 0, None
        reply = self.links[0].post("/v1/acquire", key="keeper", ttl_ms=int(1000 * ttl),
                                   block_seconds=-1)
        if reply.status != 200:
            raise RuntimeError(f"the keeper got no lease: {reply.status} {reply.body}")
        self.lease, self.token = reply.said["lease_id"], reply.said["fencing_token"]
        self.until = reply.sent + reply.said["remaining_ms"] / 1000
        self.start()

    def run(self):
        turn = 0
        while not self.ended.wait(0.05) and not self.lost:
            turn += 1
            link = self.links[turn % len(self.links)]
            reply = link.post("/v1/keepalive", key="keeper", lease_id=self.lease)
            if reply.status == 200:
                self.renewals += 1
                self.until = reply.sent + reply.said["remaining_ms"] / 1000
            elif reply.status == 403 and reply.got < self.until:
                self.lost = f"{reply.body.decode()}, with {self.until - reply.got:.1f} s left"
            elif reply.status == 403:
                self.lost = "its time was over: the machine was too slow for it"

    def stop(self):
        """Whether the lease was kept to the end, and nobody else got it."""
        self.ended.set()
        self.join()
        for link in self.links:
            reply = link.post("/v1/release", key="keeper", lease_id=self.lease)
            if reply.status == 200:
                return not self.lost
        self.lost = self.lost or f"its release: {reply.status} {reply.body.decode()}"
        return False

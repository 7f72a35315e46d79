# SPDX-License-Identifier: Apache-2.0
"""serve_operator_kit.py: `holdfast serve` as its operator runs it: a process with a port of its own, what
it prints, and plain requests. The log is kept whole, because tests search all of it for secrets."""

import hashlib
import http.client
import json
import os
import re
import signal
import subprocess
import threading
import time

PROGRAM = os.environ["HOLDFAST_SERVE"]
SECONDS_MAX = 60

# A sanitizer keeps memory that was freed, so the size of such a process says nothing.
with open(PROGRAM, "rb") as program:
    SANITIZED = b"__asan_init" in program.read()


class Server:
    def __init__(self, folder, *options, store=None, quiet=False):
        self.store = store or "sqlite:" + os.path.join(folder, "store.db")
        self.log, self.changed = [], threading.Condition()
        self.process = subprocess.Popen(
            [PROGRAM, "--store", self.store, "--listen", "127.0.0.1:0", *options],
            stderr=subprocess.PIPE, text=True)
        threading.Thread(target=self.read, daemon=True).start()
        line = self.wait_for(r"listening on https?://127\.0\.0\.1:(\d+)")
        self.port = int(line.group(1))

    def read(self):
        for line in self.process.stderr:
            with self.changed:
                self.log.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.log.append("(ended)")
            self.changed.notify_all()

    def wait_for(self, pattern, seconds=SECONDS_MAX):
        """The first line of the log that matches."""
        end, seen = time.monotonic() + seconds, 0
        with self.changed:
            while True:
                for line in self.log[seen:]:
                    found = re.search(pattern, line)
                    if found:
                        return found
                seen = len(self.log)
                if self.log and self.log[-1] == "(ended)" or time.monotonic() > end:
                    raise RuntimeError(f"no line '{pattern}' in: {self.log[-5:]}")
                self.changed.wait(1)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.stop()

    # ---- Requests ----------------------------------------------------------------------------

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS_MAX)

    def ask(self, verb, target, body=None, headers=None):
        """One request: (status, headers in lower case, body as text)."""
        link = self.connection()
        try:
            link.request(verb, target, body, headers or {})
            reply = link.getresponse()
            text = reply.read().decode()
            return reply.status, {name.lower(): value for name, value in reply.getheaders()}, text
        finally:
            link.close()

    def get(self, target, **headers):
        return self.ask("GET", target, headers={k.replace("_", "-"): v for k, v in headers.items()})

    def post(self, target, headers=None, **members):
        status, _, text = self.ask("POST", target, json.dumps(members),
                                   {"Content-Type": "application/json", **(headers or {})})
        return status, json.loads(text)

    def metrics(self, **headers):
        """The figures, by name and labels as they are written."""
        page = self.get("/metrics", **headers)[2]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
                for line in page.splitlines() if line and line[0] != "#"}


def write_tokens(folder, **tokens):
    """A token file; each value is (token, rights, namespaces)."""
    path = os.path.join(folder, "tokens")
    with open(path, "w", encoding="utf-8") as file:
        for name, (token, rights, spaces) in tokens.items():
            file.write(f"{name} {hashlib.sha256(token.encode()).hexdigest()} {rights} {spaces}\n")
    os.chmod(path, 0o600)
    return path

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""http_examples_test.py: the examples in other languages (examples/http) at a server: several of them at the
same time count visits under one lock, so none may be lost; and one that is told that its lease has ended.

    http_examples_test.py node|go

Prints TAP.
"""

import hashlib
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import tap_kit

SERVER = os.environ["HOLDFAST_SERVE"]
PROGRAM = os.environ["HOLDFAST_PROGRAM"]
EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples", "http")
PATIENCE = 100  # seconds
TOKEN = "the token of the examples"
CLIENTS = 6


def tell(good, sentence, detail=""):
    tap_kit.tell(good, sentence, "" if good else detail)


def go_environment(folder):
    return dict(os.environ, GOCACHE=os.path.join(folder, "cache"), GO111MODULE="off", GOPATH=folder)


def build_go(source, folder):
    program = os.path.join(folder, os.path.basename(source).removesuffix(".go"))
    built = subprocess.run(["go", "build", "-o", program, source], env=go_environment(folder), capture_output=True,
                           text=True, check=False)
    tell(built.returncode == 0, "the example is built", built.stderr)
    return program


def example(language, folder):
    """The command that runs the example."""
    if language == "node":
        return ["node", os.path.join(EXAMPLES, "lock.mjs")]
    source = os.path.join(EXAMPLES, "lock.go")
    program = build_go(source, folder)
    checked = subprocess.run(["go", "vet", source], env=go_environment(folder), capture_output=True, text=True, check=False)
    tell(checked.returncode == 0, "go vet has nothing to say", checked.stderr)
    shape = subprocess.run(["gofmt", "-l", EXAMPLES], capture_output=True, text=True, check=False)
    tell(shape.stdout == "", "it is as gofmt would have it", shape.stdout)
    return [program]


def start_server(folder):
    tokens = os.path.join(folder, "tokens")
    with open(tokens, "w", encoding="utf-8") as file:
        file.write(f"examples {hashlib.sha256(TOKEN.encode()).hexdigest()} lock,write,read *\n")
    os.chmod(tokens, 0o600)
    process = subprocess.Popen([SERVER, "--store", f"sqlite:{folder}/store.db", "--listen", "127.0.0.1:0", "--tokens", tokens],
                               stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        found = re.search(r"listening on (http://\S+)", line)
        if found:
            return process, found[1]
    raise RuntimeError("the server did not start")


def check(command, url, folder):
    environment = dict(os.environ, HOLDFAST_SERVER_TOKEN=TOKEN)
    clients = [subprocess.Popen([*command, url], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for _ in range(CLIENTS)]
    said = [client.communicate(timeout=PATIENCE) for client in clients]
    tell(all(client.returncode == 0 for client in clients), "all of several at the same time succeed", str(said))
    visits = sorted(tuple(map(int, re.findall(r"\d+", out))) for out, _ in said)
    tell(visits == [(number, number) for number in range(1, CLIENTS + 1)], "no visit is lost, and tokens rise", str(visits))
    state = subprocess.run([PROGRAM, "--store", f"sqlite:{folder}/store.db", "key", "get", "visits"], capture_output=True,
                           text=True, check=False)
    tell(state.stdout == str(CLIENTS), "the state is in the store", str(state))
    locks = subprocess.run([PROGRAM, "--store", f"sqlite:{folder}/store.db", "locks", "ls"], capture_output=True, text=True,
                           check=False)
    tell(locks.returncode == 0 and locks.stdout == "", "nothing is held afterwards", str(locks))
    refused = subprocess.run([*command, url], env=dict(environment, HOLDFAST_SERVER_TOKEN="wrong"), capture_output=True, text=True,
                             timeout=PATIENCE, check=False)
    tell(refused.returncode != 0 and "unauthorized" in refused.stderr, "a refusal is reported", str(refused))


class LostLease(http.server.BaseHTTPRequestHandler):
    """A server that grants a lease for long, but refuses to renew it. A read takes until then."""

    def reply(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.server.refused.wait(PATIENCE)
        time.sleep(0.5)  # the refusal reaches the example before this reply
        self.reply(200, 7)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.routes.append(self.path.partition("?")[0])
        if self.path == "/v1/keepalive":
            self.reply(403, {"error": "lease_expired"})
            self.server.refused.set()
        else:
            self.reply(200, {"lease_id": "x", "fencing_token": 1, "waited_ms": 0, "remaining_ms": 60000})

    def log_message(self, *_arguments):
        pass


def check_loss(language, folder):
    """The example with a short ttl, so that it renews soon."""
    ends, long_ttl, short_ttl = {"node": (".mjs", "TTL_MS = 30000", "TTL_MS = 300"),
                                 "go": (".go", "30 * time.Second", "300 * time.Millisecond")}[language]
    with open(os.path.join(EXAMPLES, "lock" + ends), encoding="utf-8") as file:
        text = file.read()
    path = os.path.join(folder, "short" + ends)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(long_ttl, short_ttl))
    command = ["node", path] if language == "node" else [build_go(path, folder)]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), LostLease) as server:
        server.routes, server.refused = [], threading.Event()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = subprocess.run([*command, f"http://127.0.0.1:{server.server_port}"], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        server.shutdown()
    tell(long_ttl in text and "/v1/keepalive" in server.routes and "/v1/update" not in server.routes and done.returncode != 0,
         "nothing is written once a renewal was refused", f"{server.routes} {done}")


def main(language):
    folder = tempfile.mkdtemp(prefix="holdfast-examples-")
    process = None
    try:
        command = example(language, folder)
        process, url = start_server(folder)
        check(command, url, folder)
        check_loss(language, folder)
    finally:
        if process:
            process.terminate()
            process.communicate(timeout=PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)
    return tap_kit.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""http_examples_test.py: the examples in other languages (examples/http) at a server: several of them at the
same time count visits under one lock, so none may be lost.

    http_examples_test.py node|go

Prints TAP.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

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


def example(language, folder):
    """The command that runs the example."""
    if language == "node":
        return ["node", os.path.join(EXAMPLES, "lock.mjs")]
    program = os.path.join(folder, "lock")
    environment = dict(os.environ, GOCACHE=os.path.join(folder, "cache"), GO111MODULE="off", GOPATH=folder)
    built = subprocess.run(["go", "build", "-o", program, os.path.join(EXAMPLES, "lock.go")], env=environment,
                           capture_output=True, text=True, check=False)
    tell(built.returncode == 0, "the example is built", built.stderr)
    checked = subprocess.run(["go", "vet", os.path.join(EXAMPLES, "lock.go")], env=environment, capture_output=True,
                             text=True, check=False)
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


def main(language):
    folder = tempfile.mkdtemp(prefix="holdfast-examples-")
    process = None
    try:
        command = example(language, folder)
        process, url = start_server(folder)
        check(command, url, folder)
    finally:
        if process:
            process.terminate()
            process.communicate(timeout=PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)
    return tap_kit.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

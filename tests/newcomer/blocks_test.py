#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""blocks_test.py: every block of commands in the documents is run by a test, or says here why not.

RUN_BY names the pages whose blocks another test runs. The short blocks of other pages are run here, with the changes
that every reader makes: addresses and paths. The rest is in NOT_RUN, each with its reason. What is in a table
and in no page is a failure, and so is a block that is in no table. Examples in JSON are parsed, and every target
of make and every benchmark that a block names must exist. Prints TAP.
"""

import glob
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # nothing of ours in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from newcomer.readme_test import blocks_of
from tap_kit import end
from tap_kit import tell as tell_always

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(os.environ["HOLDFAST_PROGRAM"])
PATIENCE = 60
COMMAND = re.compile(r"(\$ )?([A-Z_]+=\S+ )*(holdfast|holdfast-sim|make|curl|export|tests/\S+|tools/\S+|build-\S+|ninja|pip|spin|apt-get|"
                     r"podman|git|UPDATE)(?=\s|$)")

# Which test runs the blocks of a page.
RUN_BY = {
    "README.md": "newcomer/readme_test.py",
    "docs/guide.md": "newcomer/readme_test.py",
    "docs/start/*.md": "newcomer/readme_test.py",
    "docs/recovery.md": "recovery_test.py",
    "docs/python.md": "python_test.py",
    "bindings/python/README.md": "python_test.py",
    "model/README.md": "model_test.py",
}
# The first words of a block, and why no test runs it as it stands.
NOT_RUN = {
    "CONTRIBUTING.md: git clone URL": "the targets are what runs this test; that they exist is checked",
    "CONTRIBUTING.md: ninja -C build-gcc": "sim_cli_test.py runs these options, with fewer seeds",
    "docs/bench.md: make ab": "an hour on an idle machine; ab_test.py runs tools/ab.py",
    "docs/bench.md: build-bench/bench/bench_compact --dir": "minutes, and 11 GiB of disk; make bench runs it",
    "docs/bench.md: build-bench/bench/bench_locks run": "make bench runs it",
    "docs/bench.md: build-bench/bench/bench_compact claims": "minutes, and a cluster of its own",
    "docs/bench.md: build-bench/bench/bench_locks --dir": "minutes, and a cluster of its own",
    "docs/bench.md: build-bench/bench/bench_locks ceph-crowds": "a cluster of its own",
    "docs/bench.md: build-bench/bench/bench_processes": "make bench runs it",
    "docs/bench.md: build-bench/bench/bench_key speed": "make bench runs it",
    "docs/bench.md: build-bench/bench/bench_index peers": "make bench runs it",
    "docs/bench.md: build-bench/bench/bench_serve": "make bench runs it",
    "docs/bench.md: make soak": "an hour; soak.py is a test of two minutes",
    "docs/packages.md: apt-get install": "package_test.py installs the packages, on a system of their own",
    "docs/packages.md: make deb": "package_test.py runs make deb; nothing here runs podman",
    "sim/README.md: ninja -C build": "sim_cli_test.py runs these options, with fewer seeds",
    "sim/README.md: holdfast-sim scale": "make sizing runs it",
    "sim/README.md: tests/sim_replay.py": "it writes what sim_replay.py compares",
    "sim/README.md: holdfast-sim --mutant": "make mutants runs it for each rule",
}


def tell(good, sentence, detail=""):
    tell_always(good, sentence, "" if good else detail)


class Place:
    """A scratch folder with a store, and what a block changes: each word, and what a reader writes instead."""

    def __init__(self, folder):
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        os.mkdir(os.path.join(folder, "bin"))
        os.symlink(PROGRAM, os.path.join(folder, "bin", "holdfast"))
        self.environment = {"HOME": folder, "PATH": os.path.join(folder, "bin") + ":" + os.environ["PATH"], "LC_ALL": "C.UTF-8",
                            "HOLDFAST_STORE": f"sqlite:{folder}/locks.db", "HOLDFAST_CONFIG": "", "no_proxy": "*",
                            "HOLDFAST_SERVE": os.environ["HOLDFAST_SERVE"]}
        self.words = {"/var/lib/holdfast": folder, "127.0.0.1:9341": f"127.0.0.1:{self.port}",
                      "https://locks.example.com:9341": f"http://127.0.0.1:{self.port}", "~/": folder + "/"}

    def change(self, text):
        for word, instead in self.words.items():
            text = text.replace(word, instead)
        return text

    def run(self, text):
        return subprocess.run(["sh", "-c", self.change(text)], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)

    def write(self, name, text, mode=0o600):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path


def typed(block):
    """[command, what the page says that it prints], of a block with prompts."""
    steps = []
    for line in block:
        if line.startswith("$ "):
            steps.append([line[2:], ""])
        elif steps and steps[-1][0].endswith("\\"):
            steps[-1][0] += "\n" + line
        elif steps:
            steps[-1][1] += line + "\n"
    return steps


# ---- Blocks that are run here -------------------------------------------------------------------


class Server:
    """Started by a command of a page; ends with the block."""

    def __init__(self, place, command):
        self.process = subprocess.Popen(["sh", "-c", "exec " + place.change(command)], cwd=place.folder, env=place.environment,
                                        stderr=subprocess.PIPE, text=True)
        self.said = self.process.stderr.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE)


def run_serve(place, block):
    (serve, announced), (ask, answer) = typed(block)
    with Server(place, f"{serve} --listen 127.0.0.1:{place.port}") as server:
        tell(server.said == place.change(announced).splitlines()[0] + "\n", "docs/serve.md: the server starts as shown", server.said)
        done = place.run(ask)
        shown = json.loads(answer.replace("…", ""))
        tell(done.returncode == 0 and json.loads(done.stdout).keys() == shown.keys() and '"fencing_token":1,' in done.stdout,
             "and a client acquires a lease, and gets the members that are shown", done.stdout)


def run_tokens(place, block):
    (make, _), (digest, _) = typed(block)
    row = next(line for line in block if line.startswith("ci "))
    done = place.run(f'{make}; {digest}; printf %s "$token" > token')
    tell(done.returncode == 0 and re.match(r"[0-9a-f]{64}\b", done.stdout) is not None, "docs/serve.md: a token is made", done.stdout)
    if done.returncode == 0:
        place.write("tokens", re.sub(r"[0-9a-f]{64}", done.stdout[:64], row).replace("jobs,", "jobs,default,") + "\n")


def run_client(place, block):
    """With the token of the block before. Another store: the lease of the first block is still held."""
    shutil.move(os.path.join(place.folder, "token"), os.path.join(place.folder, ".holdfast-token"))
    os.chmod(os.path.join(place.folder, ".holdfast-token"), 0o600)
    place.write("deploy.sh", "#!/bin/sh\necho deployed\n", 0o700)
    with Server(place, f"holdfast serve --store sqlite:other.db --tokens tokens --listen 127.0.0.1:{place.port}"):
        done = place.run("\n".join(command for command, _ in typed(block)))
    tell(done.returncode == 0 and "deployed" in done.stdout, "docs/serve.md: the program is a client of the server", done.stdout)


def run_monitoring(place, block):
    place.run("holdfast compact create --format csv --key id")
    done = place.run("\n".join(block))
    tell(done.returncode == 0 and done.stdout == "", "docs/operate/monitoring.md: the check of quarantined chunks passes", done.stdout)


def run_update(_, block):
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE reports (id, body, token)")
    database.execute("INSERT INTO reports VALUES (1, 'of 5', 5)")
    changed = [database.execute(block[0], {"id": 1, "body": f"of {token}", "token": token}).rowcount for token in (4, 5, 6, 5)]
    tell(changed == [0, 1, 1, 0], "docs/concepts/tokens.md: the update refuses a stale token", str(changed))


RUN_HERE = {
    "docs/serve.md: $ holdfast serve": run_serve,
    "docs/serve.md: # name": run_tokens,
    "docs/serve.md: $ export HOLDFAST_STORE": run_client,
    "docs/operate/monitoring.md: holdfast compact status": run_monitoring,
    "docs/concepts/tokens.md: UPDATE": run_update,
}


# ---- All pages ----------------------------------------------------------------------------------


def read_pages():
    names = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "sim/README.md", "model/README.md", "bindings/python/README.md",
             *(os.path.relpath(path, ROOT) for path in glob.glob(os.path.join(ROOT, "docs/**/*.md"), recursive=True))]
    for name in sorted(names):
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            yield name, list(blocks_of(file.read()))


def has_command(block):
    return any(COMMAND.match(line) for line in block)


def missing_targets(block, targets):
    text = "\n".join(block)
    return [target for target in re.findall(r"(?m)^(?:\$ )?make ([a-z][a-z0-9-]*)", text) if target not in targets] + [
        program for program in re.findall(r"\bbench/(bench_\w+)", text) if not os.path.exists(os.path.join(ROOT, "bench", program + ".c"))]


def check_json(block):
    """Of fragments, ids that are cut short, and several documents after each other."""
    text = re.sub(r"[␟␞␝].*|…", "", "\n".join(block)).strip()
    while text:
        text = text if text[0] in "{[" else "{" + text + "}"
        try:
            _, length = json.JSONDecoder().raw_decode(text)
        except ValueError as error:
            return f"{error} in {text[:200]}"
        text = text[length:].strip()
        if text and text[0] not in "{[":  # what follows a document is no JSON
            break
    return ""


def main():
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
        targets = set(re.findall(r"(?m)^([a-z0-9-]+):", file.read()))
    with open(os.path.join(ROOT, "tests/meson.build"), encoding="utf-8") as file:
        tests = file.read()
    tell(all(f"'{test}'" in tests for test in RUN_BY.values()), "the tests that run a page are in the table of tests")
    used, wrong, missing, count = set(), [], [], 0
    with tempfile.TemporaryDirectory(prefix="holdfast-blocks-") as folder:
        place = Place(folder)
        for name, blocks in read_pages():
            pages = [page for page in RUN_BY if glob.fnmatch.fnmatch(name, page)]
            used.update(pages)
            for language, block in blocks:
                missing += [f"{name}: {word}" for word in missing_targets(block, targets)]
                if language == "json":
                    count += 1
                    wrong += [f"{name}: {reason}" for reason in [check_json(block)] if reason]
                known = [key for key in (*NOT_RUN, *RUN_HERE) if f"{name}: {block[0]}".startswith(key)]
                used.update(known)
                if known and known[0] in RUN_HERE:
                    RUN_HERE[known[0]](place, block)
                elif has_command(block) and not pages and not known:
                    tell(False, f"{name}: no test runs the block that begins '{block[0]}'")
    tell(not missing, "every target of make and every benchmark that a page names exists", str(missing))
    tell(count > 20 and not wrong, f"{count} examples of documents are JSON", "\n".join(wrong))
    stale = {*RUN_BY, *NOT_RUN, *RUN_HERE} - used
    tell(not stale, "the tables name only what the pages have", str(stale or ""))
    return end()


if __name__ == "__main__":
    sys.exit(main())

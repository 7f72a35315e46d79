#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""two_hosts_test.py: two hosts that share one Ceph bucket follow README's first section, and exclude
each other.

A host is a network namespace and a host name of its own, with a home folder and nothing else: its only
way out is a port of its loopback, which a process in it passes on, by way of a Unix socket, to the
gateway. The lines are README's, read from the file; the bucket stands for s3://bucket/prefix.

    two_hosts_test.py inside SOCKET NAME    is how it starts the process in a host

Prints TAP.
"""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.parse

sys.dont_write_bytecode = True  # nothing of ours in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import ceph_kit
from tap_kit import end, tell

PROGRAM = os.path.abspath(os.environ["HOLDFAST_PROGRAM"])
README = os.path.join(os.path.dirname(os.path.abspath(os.environ["HOLDFAST_TESTS"])), "README.md")
PORT = 7480
DEPLOYS = 4  # by each host
PATIENCE = 60
HELD, ALREADY = 89, 96  # exit statuses

# It says when it began and ended, with its token; the first with `slow` waits for the second look.
DEPLOY = """#!/bin/sh
echo "begin $(hostname) $HOLDFAST_TOKEN" >> {journal}
while [ -e {folder}/slow ]; do sleep 0.05; done
sleep 0.1
echo "end $(hostname) $HOLDFAST_TOKEN" >> {journal}
"""
BACKUP = """#!/bin/sh
echo "$(hostname)" >> {folder}/backups
"""


# ---- In a host ----------------------------------------------------------------------------------


async def pipe(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def passing_on(connect):
    """What to do with a connection: pass it on to another that `connect` makes."""
    async def serve(reader, writer):
        try:
            far_reader, far_writer = await connect()
        except OSError:
            writer.close()
            return
        await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))
    return serve


async def serve_inside(path):
    serve = passing_on(lambda: asyncio.open_unix_connection(path))
    await asyncio.start_server(serve, "127.0.0.1", PORT)
    print("ready", flush=True)
    # Until our input ends, which is when whoever started us does.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def be_inside(path, name):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=30)
    subprocess.run(["hostname", name], check=True, timeout=30)
    asyncio.run(serve_inside(path))
    os._exit(0)  # connections that are open do not keep us


# ---- Hosts --------------------------------------------------------------------------------------


class Host:
    def __init__(self, name, folder, way, store):
        self.name = name
        self.home = os.path.join(folder, name)
        os.mkdir(self.home)
        as_root = os.geteuid() == 0
        self.inside = subprocess.Popen(
            ["unshare", "-nu" if as_root else "-rnu", sys.executable, os.path.abspath(__file__),
             "inside", way, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.inside.stdout.readline() != "ready\n":
            raise RuntimeError("a network namespace cannot be made")
        self.enter = ["nsenter", "-n", "-u", *([] if as_root else ["-U", "--preserve-credentials"]),
                      "-t", str(self.inside.pid)]
        self.env = {"PATH": os.path.dirname(PROGRAM) + ":" + os.environ["PATH"], "HOME": self.home,
                    "AWS_ACCESS_KEY_ID": ceph_kit.ACCESS_KEY,
                    "AWS_SECRET_ACCESS_KEY": ceph_kit.SECRET_KEY,
                    "AWS_EC2_METADATA_DISABLED": "true"}
        self.export = line_of_readme("export HOLDFAST_STORE=").replace(
            "s3://bucket/prefix", f"'{store}'")
        for file, text in (("deploy.sh", DEPLOY), ("backup", BACKUP)):
            path = os.path.join(self.home, file)
            with open(path, "w", encoding="utf-8") as out:
                out.write(text.format(journal=os.path.join(folder, "journal"), folder=folder))
            os.chmod(path, 0o755)

    def start(self, *lines):
        """A shell of this host in which README's export was typed, and then these lines."""
        return subprocess.Popen([*self.enter, "sh", "-c", "\n".join([self.export, *lines])],
                                cwd=self.home, env=self.env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *lines):
        return finish(self.start(*lines))

    def close(self):
        self.inside.stdin.close()
        self.inside.wait(timeout=PATIENCE)


def finish(process):
    """(exit status, stdout, stderr)"""
    out, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, out, errors


def line_of_readme(start):
    with open(README, encoding="utf-8") as file:
        return next(line.strip() for line in file if line.startswith("    " + start))


def read_lines(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [line.split() for line in file]


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("in vain")
        time.sleep(0.05)


# ---- README's first section ---------------------------------------------------------------------


# A gateway on a busy machine answers 500 now and then; who waits then says so, and waits.
WAITS_FOR_STORE = re.compile(r"^holdfast: run deploy: UNSURE: waiting for the store: .*answered 5.*\n",
                             re.M)


def check_run(hosts, folder):
    line = line_of_readme("holdfast run deploy -- ./deploy.sh")
    done = [finish(process) for process in [host.start(*[line] * DEPLOYS) for host in hosts]]
    done = [(status, out, WAITS_FOR_STORE.sub("", errors)) for status, out, errors in done]
    tell(all(result == (0, "", "") for result in done), "both hosts deploy, and say nothing",
         "".join(map(str, done)) if any(map(any, done)) else "")
    journal = read_lines(os.path.join(folder, "journal"))
    pairs = list(zip(journal[::2], journal[1::2]))
    alone = all(begin[0] == "begin" and ended == ["end", *begin[1:]] for begin, ended in pairs)
    tell(len(pairs) == 2 * DEPLOYS and alone and len(journal) % 2 == 0,
         "run deploy: one at a time, on however many machines share the store", f"{journal}")
    tell({begin[1] for begin, _ in pairs} == {host.name for host in hosts}, "each host had its turns")
    tokens = [int(begin[2]) for begin, _ in pairs]
    tell(tokens == sorted(set(tokens)), "tokens rise from host to host", f"{tokens}")


def check_look(hosts, folder):
    """While one host deploys, the other sees it, and does not."""
    one, two = hosts
    slow = os.path.join(folder, "slow")
    journal = os.path.join(folder, "journal")
    before = len(read_lines(journal))
    with open(slow, "w", encoding="utf-8"):
        pass
    deploying = one.start(line_of_readme("holdfast run deploy -- ./deploy.sh"))
    try:
        until(lambda: len(read_lines(journal)) > before)
        status, out, errors = two.run(line_of_readme("holdfast locks ls"))
        tell(status == 0 and re.search(rf"^deploy .*\b{one.name}-\d+ ", out, re.M),
             "locks ls: the other host sees who holds what", out + errors)
        status, out, errors = two.run("holdfast run --no-wait deploy -- ./deploy.sh")
        tell(status == HELD and f"deploy has been held by {one.name}-" in errors,
             "a host that does not want to wait is told which host holds it", out + errors)
        tell(len(read_lines(journal)) == before + 1, "and has not deployed")
    finally:
        os.remove(slow)
        result = finish(deploying)
    tell(result == (0, "", ""), "the first host ends well", str(result))


def check_once_per(hosts, folder):
    line = line_of_readme("holdfast run --once-per 1h backup -- ./backup")
    done = [finish(process) for process in [host.start(line) for host in hosts]]
    backups = read_lines(os.path.join(folder, "backups"))
    tell(len(backups) == 1, "run --once-per 1h: cron on both hosts, one of them does it",
         f"{backups}, {done}")
    tell(sorted(status for status, _, _ in done) == [0, ALREADY] and
         any(re.search(rf"ALREADY: already run just now by {backups[0][0]}-\d+; the next run", errors)
             for _, _, errors in done),
         "and the other is told by whom, and when again", f"{done}")
    again = [host.run(line)[0] for host in hosts]
    tell(again == [ALREADY] * 2 and read_lines(os.path.join(folder, "backups")) == backups,
         "nor does either do it again within the hour", f"{again}")


def check_hosts(ceph, folder):
    gateway = urllib.parse.urlsplit(ceph.endpoint())
    url = ceph.bucket("two-hosts").url_at(f"http://127.0.0.1:{PORT}", "prefix", "region=us-east-1")
    way = os.path.join(folder, "way")

    async def serve():
        relay = passing_on(lambda: asyncio.open_connection(gateway.hostname, gateway.port))
        async with await asyncio.start_unix_server(relay, way):
            await asyncio.get_running_loop().run_in_executor(None, follow_readme, folder, way, url)

    asyncio.run(serve())


def follow_readme(folder, way, url):
    hosts = []
    try:
        for name in ("one", "two"):
            hosts.append(Host(name, folder, way, url))
        check_run(hosts, folder)
        check_look(hosts, folder)
        check_once_per(hosts, folder)
    finally:
        for host in hosts:
            host.close()


def main():
    folder = tempfile.mkdtemp(prefix="holdfast-two-hosts-")
    try:
        with ceph_kit.shared_or_own(folder) as ceph:
            check_hosts(ceph, folder)
    except Exception:  # whatever goes wrong is a failure, and the servers must be stopped
        tell(False, "the servers start and the programs end in time", traceback.format_exc())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        be_inside(*sys.argv[2:])
    sys.exit(main())

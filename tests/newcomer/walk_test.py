#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""walk_test.py: README followed literally, from a bare system to a lock that two machines share on Ceph in five
minutes, and to a compaction in ten.

debootstrap makes a system that has nothing (tools/chroot.sh; $HOLDFAST_BARE names a folder with one). The clock starts
then. README's first block is typed there, in a clone of the last commit. The second machine is a copy of the first
one, because two machines install at the same time, and these share one processor.

Each machine is then in a network namespace of its own, with an address on a bridge, which is in a third
namespace with the gateway of a real Ceph. README's second block is typed on both machines, and docs/start/compaction.md
on the first one; the second one reads the result. The only words that are changed are those that every reader changes:
the address of the repository and of the store.

    walk_test.py inside SOCKET    is how it starts the process next to the gateway

Needs root, and the mirror that apt uses. Prints TAP, and the times.
"""

import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse

sys.dont_write_bytecode = True  # nothing of ours in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import ceph_kit
from newcomer.readme_test import blocks_of
from tap_kit import end, say
from tap_kit import tell as tell_always

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHROOT = os.path.join(ROOT, "tools/chroot.sh")
LOCK_SECONDS_MAX, COMPACTION_SECONDS_MAX = 300, 600
PATIENCE = 1800
GATEWAY, PORT = "10.77.0.1", 7480
DEPLOY = """#!/bin/sh
read up idle </proc/uptime
echo "begin $up $HOLDFAST_TOKEN" >>journal
sleep 1
read up idle </proc/uptime
echo "end $up $HOLDFAST_TOKEN" >>journal
"""
BACKUP = "#!/bin/sh\necho backed up\n"


def tell(good, sentence, detail=""):
    tell_always(good, sentence, "" if good else detail)


def read_blocks(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return list(blocks_of(file.read()))


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL,
                          timeout=PATIENCE, **options)


# ---- The network --------------------------------------------------------------------------------


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
    async def serve(reader, writer):
        try:
            far_reader, far_writer = await connect()
        except OSError:
            writer.close()
            return
        await asyncio.gather(pipe(reader, far_writer), pipe(far_reader, writer))
    return serve


async def serve_inside(path):
    await asyncio.start_server(passing_on(lambda: asyncio.open_unix_connection(path)), GATEWAY, PORT)
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until whoever started us ends


class Namespace:
    """A network namespace and a host name, held by a process until its input ends."""

    def __init__(self, name):
        self.process = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c", 'hostname "$0"; ip link set lo up; '
                                         "echo ready; exec cat", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("a network namespace cannot be made")
        self.pid = str(self.process.pid)
        self.enter = ["nsenter", "--net", "--uts", "--target", self.pid]

    def ip(self, words):
        subprocess.run([*self.enter, "ip", *words.split()], check=True, timeout=60)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


class Network:
    """A bridge, with the gateway at its own address; `way` is a Unix socket that leads to the gateway."""

    def __init__(self, endpoint, folder):
        self.way = os.path.join(folder, "way")
        self.members = []
        self.center = Namespace("center")
        self.center.ip("link add bridge type bridge")
        self.center.ip(f"addr add {GATEWAY}/24 dev bridge")
        self.center.ip("link set bridge up")
        gateway = urllib.parse.urlsplit(endpoint)
        self.loop = asyncio.new_event_loop()
        relay = passing_on(lambda: asyncio.open_connection(gateway.hostname, gateway.port))
        self.loop.run_until_complete(asyncio.start_unix_server(relay, self.way))
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.inside = subprocess.Popen([*self.center.enter, sys.executable, os.path.abspath(__file__), "inside", self.way],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.inside.stdout.readline() != "ready\n":
            raise RuntimeError("nothing listens at the address of the gateway")

    def add(self, name):
        member = Namespace(name)
        self.members.append(member)
        self.center.ip(f"link add port{len(self.members)} type veth peer name eth0 netns {member.pid}")
        self.center.ip(f"link set port{len(self.members)} master bridge up")
        member.ip(f"addr add 10.77.0.{len(self.members) + 1}/24 dev eth0")
        member.ip("link set eth0 up")
        return member

    def close(self):
        self.inside.stdin.close()
        self.inside.wait(timeout=60)
        for member in [*self.members, self.center]:
            member.close()


# ---- Machines -----------------------------------------------------------------------------------


class Machine:
    """A root folder, and later a place in the network."""

    def __init__(self, root):
        self.root, self.enter, self.settings = root, [], []

    def start(self, lines):
        script = "\n".join(["cd /root", *self.settings, *lines])
        return subprocess.Popen([*self.enter, "sh", CHROOT, "run", self.root, script], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def type(self, lines):
        process = self.start(lines)
        output = process.communicate(timeout=PATIENCE)[0]
        return process.returncode, output

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.root, "root", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    def journal(self):
        path = os.path.join(self.root, "root/journal")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return [line.split() for line in file]


def copy_root(source, target):
    subprocess.run(["cp", "-a", source, target], check=True, timeout=PATIENCE)


def make_bare(folder):
    bare = os.environ.get("HOLDFAST_BARE")
    root = os.path.join(folder, "one")
    if bare:
        copy_root(bare, root)
    else:
        done = run("sh", CHROOT, "make", root)
        tell(done.returncode == 0, "debootstrap makes a bare system", done.stdout[-2000:])
    run("git", "clone", "-q", "--bare", "--no-local", ROOT, os.path.join(root, "source.git"), check=True)
    return Machine(root)


# ---- The walk -----------------------------------------------------------------------------------


def check_install(machine):
    """README's first block. It is typed in the source tree, which docs/start/install.md says how to get."""
    block = next(block for _, block in read_blocks("README.md"))
    clone = next(line for _, lines in read_blocks("docs/start/install.md") for line in lines if line.startswith("git clone URL"))
    first, rest = block[0], block[1:]
    tell(first.startswith("apt-get install -y git make") and any(line.startswith("make install") for line in rest),
         "README's first block says how to install", str(block))
    for line in (first, clone.replace("URL", "/source.git"), *rest):
        begun = time.monotonic()
        inside = line.startswith("make")
        status, output = machine.type([*(["cd holdfast"] if inside else []), line])
        say(f"{time.monotonic() - begun:6.1f} s  $ {line}")
        tell(status == 0, f"it is typed: {line.partition(' #')[0].strip()}", output[-3000:])


def check_lock(machines, url):
    export, *lines = next(block for _, block in read_blocks("README.md") if block[0].startswith("export HOLDFAST_STORE="))
    lines = [line.partition(" #")[0].strip() for line in lines]
    for machine in machines:
        machine.settings = [f"export AWS_ACCESS_KEY_ID={ceph_kit.ACCESS_KEY} AWS_SECRET_ACCESS_KEY={ceph_kit.SECRET_KEY}",
                            export.partition(" #")[0].strip().replace("s3://bucket/prefix", shlex.quote(url))]
        machine.write("deploy.sh", DEPLOY, 0o755)
        machine.write("backup", BACKUP, 0o755)
    done = [process.communicate(timeout=PATIENCE)[0] for process in [machine.start(lines[:1] * 2) for machine in machines]]
    journal = sorted((float(row[1]), row) for machine in machines for row in machine.journal())
    words = [row[0] for _, row in journal]
    tokens = [int(row[2]) for _, row in journal if row[0] == "begin"]
    tell(words == ["begin", "end"] * 4 and all(len(machine.journal()) == 4 for machine in machines),
         f"two machines, {lines[0]}: one at a time", f"{journal}\n" + "".join(done))
    tell(len(set(tokens)) == 4 and tokens == sorted(tokens), "the tokens rise from machine to machine", str(tokens))
    return lines


def check_others(machines, lines):
    """The rest of README's second block."""
    done = [machine.type([line + " || echo status $?" for line in lines[1:]]) for machine in machines]
    tell("backed up" in done[0][1] and "backed up" not in done[1][1] and "status 96" in done[1][1],
         f"{lines[1]}: one of them does it", "".join(output for _, output in done))


def check_compaction(machines, url):
    one, two = machines
    blocks = read_blocks("docs/start/compaction.md")
    lines = [line.replace("s3://bucket/prefix", shlex.quote(url)) for language, block in blocks if language == "sh"
             for line in block if line != "holdfast compact watch"]
    wanted = [line for language, block in blocks if language == "text" for line in block]
    status, output = one.type(lines)
    missing = [line for line in wanted if line not in output]
    tell(status == 0 and not missing and len(lines) > 8, "docs/start/compaction.md is typed on one machine", output)
    status, output = two.type(["holdfast compact cat"])
    tell(status == 0 and output.splitlines()[-3:] == wanted[:3], "the other one reads the same records", output)


def walk(folder):
    one = make_bare(folder)
    begun = time.monotonic()
    check_install(one)
    pause = time.monotonic()
    two = Machine(os.path.join(folder, "two"))
    copy_root(one.root, two.root)
    with ceph_kit.shared_or_own(folder) as ceph:
        bucket = ceph.bucket("walk")
        url = f"s3://{bucket.name}/prefix?endpoint=http://{GATEWAY}:{PORT}"
        network = Network(ceph.endpoint(), folder)
        try:
            one.enter, two.enter = (network.add(name).enter for name in ("one", "two"))
            begun += time.monotonic() - pause  # a reader has two machines and a bucket
            lines = check_lock((one, two), url)
            seconds = time.monotonic() - begun
            tell(seconds < LOCK_SECONDS_MAX, f"from a bare system to a lock that two machines share: {seconds:.0f} s")
            check_others((one, two), lines)
            check_compaction((one, two), url)
            seconds = time.monotonic() - begun
            tell(seconds < COMPACTION_SECONDS_MAX, f"and to a compaction: {seconds:.0f} s")
        finally:
            network.close()


def main():
    if os.geteuid() != 0:
        print("1..0 # skip debootstrap needs root")
        return 0
    folder = tempfile.mkdtemp(prefix="holdfast-walk-")
    try:
        walk(folder)
    except Exception:  # whatever goes wrong is a failure
        tell(False, "the machines can be made, and the programs end in time", traceback.format_exc())
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", folder], check=False)
    return end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        asyncio.run(serve_inside(sys.argv[2]))
        os._exit(0)
    sys.exit(main())

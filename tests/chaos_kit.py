# SPDX-License-Identifier: Apache-2.0
"""chaos_kit.py: shared by the tests that kill processes while they work on one store: the program on a
store, processes that are read from and killed, and the stores themselves.
"""

import collections
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time

import azurite_kit
import ceph_kit
import json_kit
import tap_kit
from tap_kit import say, tell

PROGRAM = os.environ.get("HOLDFAST_PROGRAM", "holdfast")
US = "\x1f"
PATIENCE = 150.0


class Bucket:
    """One store, and runs of the program on it."""

    def __init__(self, url, environment):
        self.url = url
        self.place = url.partition("?")[0]  # of a local store
        self.local = url.startswith(("dir:", "sqlite:"))
        self.environment = dict(environment, HOLDFAST_STORE=url)

    def run(self, *words, stdin=b""):
        done = subprocess.run([PROGRAM, *words], env=self.environment, capture_output=True,
                              input=stdin, timeout=PATIENCE)
        json_kit.check(words, done.stdout, done.stderr)
        return done

    def must(self, *words, stdin=b""):
        done = self.run(*words, stdin=stdin)
        if done.returncode != 0:
            raise SystemExit(f"Bail out! {' '.join(words)[:200]}: {done.stderr.decode().strip()}")
        return done.stdout

    def json(self, *words):
        return [json.loads(line) for line in self.must("--json", *words).splitlines()]

    def listing(self, prefix, *options):
        """The objects below a prefix: (key, size)."""
        rows = self.json("store", "ls", *options, prefix)
        return [(row["key"], row["size_bytes"]) for row in rows if "key" in row]


# ---- Processes ----------------------------------------------------------------------------------


class Child:
    """A process, whose lines a thread passes to hear() with the time at which it read them."""

    program = PROGRAM

    def __init__(self, bucket, *words, stderr):
        self.killed_at = None
        self.process = subprocess.Popen([self.program, *words], env=bucket.environment,
                                        stdout=subprocess.PIPE, stderr=stderr, text=True,
                                        errors="replace")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.hear(time.monotonic(), line)

    def runs(self):
        return self.process.poll() is None

    def kill(self):
        self.killed_at = time.monotonic()
        self.process.kill()
        self.wait()

    def wait(self):
        self.process.wait(PATIENCE)
        self.reader.join(30)


class Crew:
    """Children, each created by a function of its number. A killed child is replaced."""

    def __init__(self, size, make):
        self.make = make
        self.size = size
        self.all, self.alive = [], []
        for _ in range(size):
            self.start()

    def start(self):
        child = self.make(len(self.all))
        self.all.append(child)
        self.alive.append(child)

    def running(self):
        return [child for child in self.alive if child.runs()]

    def choose(self, running, draw):
        return draw.choice(running)

    def kill_one(self, draw):
        running = self.running()
        if running:
            victim = self.choose(running, draw)
            victim.kill()
            self.alive.remove(victim)
            self.start()
        return bool(running)

    def drain(self):
        """Waits for all children that were not killed. Returns those that failed."""
        for child in self.alive:
            child.wait()
        return [child for child in self.alive if child.process.returncode != 0]


# ---- Stores -------------------------------------------------------------------------------------

# Where a test works: a scratch folder; a function that returns a Bucket for a name; and, if there
# is a gateway, a function that returns a Bucket behind a proxy, and the proxy. The caller passes a
# function that creates the proxy from the gateway's endpoint.
Site = collections.namedtuple("Site", "folder bucket behind")


def on_server(story, place, server, ours):
    """On a bucket or a container of a server."""
    def behind(name, make_proxy):
        proxy = make_proxy(server.endpoint())
        return Bucket(ours.url_at(proxy.endpoint, name), server.environment), proxy

    story(Site(place, lambda name: Bucket(ours.url(name), server.environment), behind))


def on_ceph(story, place):
    begun = time.monotonic()
    with ceph_kit.shared_or_own(place) as ceph:
        say(f"the cluster is up after {time.monotonic() - begun:.1f} s")
        on_server(story, place, ceph, ceph.bucket("chaos"))


def on_azurite(story, place):
    with azurite_kit.shared_or_own(place) as azurite:
        on_server(story, place, azurite, azurite.container("chaos"))


def on_disk(story, place, store):
    environment = {name: value for name, value in os.environ.items() if name != "HOLDFAST_STORE"}
    kind, _, without = store.partition("-without-")
    ending = "-bucket" + (f"?{without}=off" if without else "")
    story(Site(place, lambda name: Bucket(f"{kind}:{place}/{name}{ending}", environment), None))


def play(story, store):
    """Runs a test function on a Site of a kind. Returns the exit status."""
    place = tempfile.mkdtemp(prefix="holdfast-chaos-")
    try:
        if store == "ceph":
            on_ceph(story, place)
        elif store == "azurite":
            on_azurite(story, place)
        else:
            on_disk(story, place, store)
    except (azurite_kit.CannotStart, ceph_kit.CannotStart) as why:
        tell(False, "the server starts", str(why))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return tap_kit.end()

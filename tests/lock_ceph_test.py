#!/usr/bin/env python3
"""lock_ceph_test.py: locks on a real Ceph RADOS gateway, whose clock we know only by the dates of
its replies, and which stops, dies and is cut off.

    lock_ceph_test.py            what locks cost there and do there, and 20 trials of each accident
    lock_ceph_test.py trials N   N trials of each accident

Prints TAP. Starts one cluster with three gateways in a scratch folder and stops it by pid. All of
it happens in a network namespace of its own, which needs no privilege; for the partition there is
a second one behind a link, and in that the holders live.
"""

import asyncio
import concurrent.futures
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import run_trials
from run_trials import DAY, LOST, PROGRAM, Wrong, until

TESTS = os.path.dirname(os.path.abspath(__file__))
SERVERS = os.path.join(TESTS, "servers")
PROGRAMS = os.environ["HOLDFAST_TEST_PROGRAMS"]

AT_ONCE = 20        # trials of a kind side by side
OUTAGE = 6.0        # seconds, three times the ttl of the trials
PARTITION = 30.0
SKEW = 30.0         # what a store that is not known is allowed, by default
NEAR, FAR = "192.0.2.1", "192.0.2.2"  # the two ends of the link


# ---- What is told -------------------------------------------------------------------------------

count = 0
failures = 0
telling = threading.Lock()


def tell(good, sentence, detail=""):
    global count, failures
    with telling:
        count += 1
        failures += not good
        print(f"{'ok' if good else 'not ok'} {count} - {sentence}", flush=True)
        for line in detail.splitlines():
            print(f"# {line}", flush=True)


def took(what, begun):
    print(f"# {what}: {time.monotonic() - begun:.1f} s", flush=True)


def run_program(name, ceph, label, seconds):
    """Runs a test program on the gateway and passes its lines on under numbers of our own."""
    begun = time.monotonic()
    environment = dict(ceph.environment, HOLDFAST_TEST_URL=ceph.url(1, name))
    result = subprocess.run([os.path.join(PROGRAMS, name), "url"], env=environment,
                            capture_output=True, text=True, timeout=seconds)
    good = 0
    for line in (result.stdout + result.stderr).splitlines():
        match = re.match(r"(not )?ok \d+ - (.*)", line)
        if match:
            good += not match[1]
            tell(not match[1], f"{label}: {match[2]}")
        elif not line.startswith("1.."):
            print("# " + line.lstrip("# "), flush=True)
    if good == 0 or result.returncode != 0:
        tell(False, f"{label} runs to its end", f"exit status {result.returncode}")
    took(label, begun)


# ---- The cluster --------------------------------------------------------------------------------


class Ceph:
    """A cluster with gateways 1, 2 and 3."""

    DAEMONS = ["mon.a", "osd.0", "client.rgw-1", "client.rgw-2", "client.rgw-3"]

    def __init__(self, scratch):
        self.folder = os.path.join(scratch, "ceph")
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("AWS_", "HOLDFAST_STORE"))}
        self.environment.update(AWS_ACCESS_KEY_ID="holdfast-access", HOME=scratch,
                                AWS_SECRET_ACCESS_KEY="holdfast-secret",
                                AWS_EC2_METADATA_DISABLED="true", CMOCKA_MESSAGE_OUTPUT="TAP")

    def up(self):
        """Also starts a gateway again that died."""
        subprocess.run([os.path.join(SERVERS, "ceph-up"), self.folder, "3"], check=True,
                       timeout=120)

    def down(self):
        if os.path.isdir(self.folder):
            subprocess.run([os.path.join(SERVERS, "ceph-down"), self.folder], timeout=60)

    def endpoint(self, number):
        with open(os.path.join(self.folder, f"endpoint-{number}"), encoding="utf-8") as file:
            return file.read().strip()

    def url(self, number, prefix):
        return self.url_at(self.endpoint(number), prefix)

    @staticmethod
    def url_at(endpoint, prefix):
        return f"s3://holdfast-test/{prefix}?endpoint={endpoint}&etag=bare"

    def send(self, number, daemons):
        for daemon in daemons:
            with open(os.path.join(self.folder, "run", f"{daemon}.pid"), encoding="utf-8") as file:
                os.kill(int(file.read()), number)

    def stop_for(self, seconds, daemons):
        self.send(signal.SIGSTOP, daemons)
        self.later(seconds, lambda: self.send(signal.SIGCONT, daemons))

    def kill_for(self, seconds, daemon):
        self.send(signal.SIGKILL, [daemon])
        self.later(seconds, self.up)

    @staticmethod
    def later(seconds, action):
        threading.Timer(seconds, action).start()


class Relay:
    """Passes connections on to a gateway from another address, and counts the requests."""

    def __init__(self, address, endpoint):
        host, _, port = endpoint.rpartition("//")[2].partition(":")
        self.target = (host, int(port))
        self.requests = 0
        self.loop = asyncio.new_event_loop()
        server = self.loop.run_until_complete(asyncio.start_server(self.serve, address, 0))
        self.endpoint = "http://%s:%d" % server.sockets[0].getsockname()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    async def serve(self, reader, writer):
        try:
            gateway_reader, gateway_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self.pass_on(reader, gateway_writer, counted=True),
                             self.pass_on(gateway_reader, writer, counted=False))

    async def pass_on(self, reader, writer, counted):
        try:
            while data := await reader.read(65536):
                self.requests += data.count(b" HTTP/1.1\r\n") if counted else 0
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()


class Link:
    """A network namespace behind a link that can be cut, with a way to the gateway."""

    def __init__(self, endpoint):
        # It lives as long as this process, and dies with us, when its input ends.
        self.inside = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE)
        ours = os.readlink("/proc/self/ns/net")
        until(lambda: os.readlink(f"/proc/{self.inside.pid}/ns/net") != ours, "a namespace")
        self.enter = ["nsenter", "-n", "-t", str(self.inside.pid)]
        self.ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns",
                str(self.inside.pid))
        self.ip("addr", "add", f"{NEAR}/24", "dev", "near")
        self.ip("link", "set", "near", "up")
        self.ip("addr", "add", f"{FAR}/24", "dev", "far", inside=True)
        self.ip("link", "set", "far", "up", inside=True)
        self.relay = Relay(NEAR, endpoint)

    def ip(self, *words, inside=False):
        subprocess.run([*(self.enter if inside else []), "ip", *words], check=True, timeout=30)

    def cut_for(self, seconds):
        self.ip("link", "set", "near", "down")
        Ceph.later(seconds, lambda: self.ip("link", "set", "near", "up"))

    def close(self):
        self.inside.stdin.close()
        self.inside.wait()


# ---- Accidents ----------------------------------------------------------------------------------


class GatewayTrial(run_trials.Trial):
    """A trial whose sides may reach the store by different ways."""

    def __init__(self, name, environment, holder, waiter):
        super().__init__(waiter, name, environment)
        self.programs = {"holder": holder, "waiter": [PROGRAM, "--store", waiter]}

    def program(self, side):
        return self.programs[side]

    def expect_calm(self):
        """Nobody runs any more, the lock is free, and what landed late did no harm."""
        until(lambda: not left_running(self.folder), "the end of all processes", 20)
        last = int(self.lines("notes", "note")[0][2])
        words = [*self.program("waiter"), "run", "--no-wait", self.name, "--",
                 run_trials.BEAT, "note", self.path("after")]
        done = subprocess.run(words, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Wrong(f"afterwards the lock is not free: {done.stderr.strip()}")
        token = int(self.lines("after", "note")[0][2])
        if token <= last:
            raise Wrong(f"afterwards token {token} after {last}")


def left_running(folder):
    """The processes that have a trial's folder in their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if folder.encode() in file.read():
                    found.append(int(pid))
        except OSError:
            pass  # it ended meanwhile
    return found


def together(accident, deed):
    """An accident that happens to all trials at once: the last one that is ready does the deed."""
    barrier = threading.Barrier(AT_ONCE, action=deed, timeout=run_trials.PATIENCE)

    def both(trial):
        try:
            barrier.wait()
        except threading.BrokenBarrierError:
            raise Wrong("another trial of this round did not come so far") from None
        accident(trial)

    both.give_up = barrier.abort
    return both


def survive(trial):
    trial.expect_order()
    trial.expect_end(LOST)
    trial.expect_calm()


def survive_partition(trial):
    """The lock is taken over while the holder is cut off; then the link is mended."""
    mended = time.monotonic() + PARTITION
    trial.expect_order()
    if time.monotonic() > mended - 5:
        raise Wrong("the lock was taken over only when the link was mended")
    time.sleep(mended + 1 - time.monotonic())  # what was on its way may arrive now
    trial.expect_end(LOST)
    trial.expect_calm()


def refused_clock(seconds):
    """The holder's calendar jumps, and the gateway refuses what is signed with another day."""

    def accident(trial):
        trial.move_clock("holder", seconds)
        survive(trial)

    accident.side = "holder"
    return accident


def kinds(ceph, link):
    """Name, the gateways of holder and waiter (0: across the link), and the accident. Those of a
    row happen side by side."""
    return [
        [("holdfast is killed", 1, 1, lambda: run_trials.kill_holdfast),
         ("holdfast is stopped past the ttl", 1, 1, lambda: run_trials.stop_holdfast),
         ("holdfast and the command are stopped past the ttl", 1, 1,
          lambda: run_trials.stop_both)],
        [("the holder's clock goes a day forward", 1, 1, lambda: refused_clock(DAY)),
         ("the holder's clock goes a day back", 1, 1, lambda: refused_clock(-DAY))],
        [("the holder's gateway is stopped", 2, 1,
          lambda: together(survive, lambda: ceph.stop_for(OUTAGE, ["client.rgw-2"]))),
         ("the only gateway is killed and started again", 3, 3,
          lambda: together(survive, lambda: ceph.kill_for(OUTAGE, "client.rgw-3")))],
        [("all of Ceph stands still", 1, 1,
          lambda: together(survive, lambda: ceph.stop_for(OUTAGE, Ceph.DAEMONS)))],
        [("the holder is cut off for 30 s", 0, 1,
          lambda: together(survive_partition, lambda: link.cut_for(PARTITION)))],
    ]


class Accidents:
    """Rounds of AT_ONCE trials of a kind."""

    def __init__(self, ceph, link):
        self.ceph, self.link = ceph, link
        self.numbers = itertools.count(1)

    def holder(self, gateway, prefix):
        if gateway:
            return [PROGRAM, "--store", self.ceph.url(gateway, prefix)]
        url = Ceph.url_at(self.link.relay.endpoint, prefix)
        return [*self.link.enter, PROGRAM, "--store", url]

    def one_round(self, kind):
        """What went wrong."""
        _, gateway, waits_at, make = kind
        accident = make()
        prefix = f"trials-{next(self.numbers)}"
        holder, waiter = self.holder(gateway, prefix), self.ceph.url(waits_at, prefix)

        def one(number):
            trial = GatewayTrial(f"trial/{number}", self.ceph.environment, holder, waiter)
            wrong = run_trials.conduct(trial, accident)
            if wrong and hasattr(accident, "give_up"):
                accident.give_up()
            return wrong

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            return [wrong for wrong in pool.map(one, range(AT_ONCE)) if wrong]

    def run(self, row, rounds):
        """All kinds of a row side by side, one round after the other."""
        begun = time.monotonic()
        wrong = {kind[0]: [] for kind in row}
        for _ in range(rounds):
            with concurrent.futures.ThreadPoolExecutor(len(row)) as pool:
                for kind, found in zip(row, pool.map(self.one_round, row)):
                    wrong[kind[0]] += found
        for name, found in wrong.items():
            trials = rounds * AT_ONCE
            tell(not found, f"when {name} the command is dead before the next one starts "
                 f"({trials} trials)", f"{len(found)} of {trials}: " + "; ".join(found[:5])
                 if found else "")
        took(" and ".join(wrong), begun)


# ---- A lease that is dead since long ------------------------------------------------------------


class LongDead:
    """A holder that is killed now, and whose lease is taken over much later."""

    def __init__(self, ceph):
        self.ceph = ceph
        words = [PROGRAM, "run", "--store", ceph.url(1, "dead"), "--ttl", "2s", "dead", "--",
                 "sh", "-c", "echo held; exec sleep 1000"]
        with subprocess.Popen(words, env=ceph.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as holder:
            self.held = holder.stdout.readline() == b"held\n"
            holder.kill()
        self.killed = time.monotonic()

    def take_over(self):
        """By one who never saw it before: the dates of the store's replies are its only proof."""
        wait = self.killed + 2 + SKEW + 4 - time.monotonic()
        if wait > 0:
            time.sleep(wait)  # time has to pass: it is what is tested
        relay = Relay("127.0.0.1", self.ceph.endpoint(1))
        words = [PROGRAM, "run", "--store", Ceph.url_at(relay.endpoint, "dead"), "--no-wait",
                 "dead", "--", "sh", "-c", "echo held; read x"]
        with subprocess.Popen(words, env=self.ceph.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.PIPE) as newcomer:
            line = newcomer.stdout.readline()
            requests = relay.requests
            _, errors = newcomer.communicate(timeout=60)
        tell(self.held and line == b"held\n" and 0 < requests <= 3,
             "a newcomer takes over a lease that is long dead within 3 round trips",
             f"{requests} requests {errors.decode(errors='replace')}")


# ---- A lease that is as short as can be ---------------------------------------------------------


def check_short(ceph):
    """The dates of replies are cut to the second; that must not cost a healthy lease its life."""
    words = [PROGRAM, "run", "--store", ceph.url(1, "short"), "--ttl", "1s"]
    many = [subprocess.Popen([*words, f"short/{number}", "--", "sleep", "3"],
                             env=ceph.environment, stdin=subprocess.DEVNULL,
                             stderr=subprocess.PIPE) for number in range(AT_ONCE)]
    ends = [(process.communicate(timeout=60)[1], process.returncode) for process in many]
    tell(all(code == 0 for _, code in ends), "a lease of one second is kept on a healthy store",
         "\n".join(sorted({text.decode(errors="replace").strip() for text, _ in ends} - {""})))


# ---- Fenced objects -----------------------------------------------------------------------------


def check_fenced(ceph, scratch):
    """Equal bytes have equal ETags here, so a fence cannot be in the object's metadata."""
    environment = dict(ceph.environment, HOLDFAST_STORE=ceph.url(1, "fenced"))

    def run(*words, data=b""):
        return subprocess.run([PROGRAM, *words], env=environment, cwd=scratch, input=data,
                              capture_output=True, timeout=60)

    def acquire():
        return run("acquire", "--no-wait", "writer").stdout.decode().strip()

    old = acquire()
    first = run("write", "--lock", old, "object", "-", data=b"the same bytes")
    run("locks", "break", "writer", "--reason", "a test")
    new = acquire()
    second = run("write", "--lock", new, "object", "-", data=b"other bytes")
    third = run("write", "--lock", new, "object", "-", data=b"the same bytes")
    late = run("write", "--lock", old, "object", "-", data=b"late bytes")
    codes = [done.returncode for done in (first, second, third, late)]
    found = run("read", "object").stdout
    tell(codes[:3] == [0, 0, 0] and codes[3] != 0 and found == b"the same bytes",
         "an object refuses a holder whose lock is lost, also where equal bytes look equal",
         f"{codes} {found} {late.stderr.decode(errors='replace')}")


# ---- All of it ----------------------------------------------------------------------------------


def run_all(ceph, link, scratch):
    """The partition takes its time, in which everything else happens."""
    accidents = Accidents(ceph, link)
    *rows, partition = kinds(ceph, link)
    dead = LongDead(ceph)
    cut_off = threading.Thread(target=accidents.run, args=(partition, 1))
    run_program("lock_request_test", ceph, "requests", 60)
    run_program("lock_test", ceph, "locks", 60)
    check_fenced(ceph, scratch)
    check_short(ceph)
    for row in rows[:-1]:
        accidents.run(row, 1)
    cut_off.start()
    run_program("lock_wait_test", ceph, "waiting", 120)
    cut_off.join()
    accidents.run(rows[-1], 1)
    dead.take_over()


def run_trials_only(ceph, link, trials):
    accidents = Accidents(ceph, link)
    for row in kinds(ceph, link):
        accidents.run(row, (trials + AT_ONCE - 1) // AT_ONCE)


def in_own_network():
    """Whether we are in a network namespace of our own; enters one if not."""
    if "HOLDFAST_OWN_NETWORK" in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=30)
        return True
    unshare = ["unshare", "-n" if os.geteuid() == 0 else "-rn"]
    possible = subprocess.run([*unshare, "ip", "link", "set", "lo", "up"], capture_output=True,
                              text=True)
    if possible.returncode != 0:
        tell(False, "a network namespace can be made", possible.stderr)
        return False
    os.environ["HOLDFAST_OWN_NETWORK"] = "yes"
    os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


def main(arguments):
    scratch = tempfile.mkdtemp(prefix="holdfast-lock-ceph-")
    ceph, link = Ceph(scratch), None
    begun = time.monotonic()
    try:
        ceph.up()
        took("Ceph is up", begun)
        link = Link(ceph.endpoint(1))
        if arguments[:1] == ["trials"]:
            run_trials_only(ceph, link, int(arguments[1]))
        else:
            run_all(ceph, link, scratch)
    except Exception:  # whatever goes wrong is a failure, and the servers must be stopped
        tell(False, "the servers start and the programs end in time", traceback.format_exc())
    finally:
        if link:
            link.close()
        ceph.down()
        shutil.rmtree(scratch, ignore_errors=True)
    took("all of it", begun)


if __name__ == "__main__":
    if in_own_network():
        main(sys.argv[1:])
    print(f"1..{count}")
    sys.exit(1 if failures else 0)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""history_test.py: histories of real processes, checked for linearizability.

    history_test.py STORE [--calls N] [--seed N]

STORE is sqlite, dir or ceph; ceph is behind a proxy that loses replies, lands writes late and answers
500 after the fact. Threads call the program, and note when each call began and ended and what it
said; one call of ten is killed. Then tests/linear.py, which knows nothing of Holdfast, looks for an
order that explains all answers:
    keys      updates, conditional updates, reads and transactions of three keys
    fenced    writes under leases, some of them stale, and reads of one fenced object
    locks     the times during which somebody held the lock of that object
Prints TAP, and figures behind '#'.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import chaos_kit
import linear
from chaos_kit import PROGRAM, say, tell
from hostile_proxy import Proxy

THREADS = 5
SECONDS_MAX = 15  # for each part, once enough happened; four times as long at most
KNOWN_MIN = 25    # calls with an answer
GRANTS_MIN = 5  # of a lock, else the history shows little
ROUNDS_MAX = 4
KEYS = ("red", "green", "blue")
TTL = 1.5            # of every lease, in seconds
DRIFT, MARGIN = 0.0002, 0.05  # how much earlier a holder regards its lease as over
SPAN = f"{1000 * TTL:.0f}ms"
KILLED = 0.1         # of all calls that change something
NOT_DONE = ("HELD", "TIMEOUT", "EXPIRED", "LOST", "UNAVAILABLE", "MISMATCH", "CONFLICT", "NOT_FOUND")


class Outcome:
    """What one run of the program said, and when."""

    def __init__(self, begin, end, status, said, stdout):
        self.begin, self.end, self.status, self.said, self.stdout = begin, end, status, said, stdout

    @property
    def unknown(self):
        return self.status in ("KILLED", "UNSURE")


class Client:
    """One thread's calls."""

    def __init__(self, bucket, folder, number, seed):
        self.bucket, self.number = bucket, number
        self.random = random.Random(seed * 1000 + number)
        self.file = os.path.join(folder, f"read-{number}")
        self.values = 0
        self.history, self.held = [], []
        self.unexpected = []

    def value(self):
        self.values += 1
        return f"{self.number}.{self.values}"

    def call(self, *words, stdin="", may_kill=True):
        begin = time.monotonic()
        process = subprocess.Popen([PROGRAM, "--json", *words], env=self.bucket.environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        kill = may_kill and self.random.random() < KILLED
        timer = threading.Timer(0.08 * self.random.random() ** 3, process.kill) if kill else None
        if timer:
            timer.start()
        out, err = process.communicate(stdin, timeout=chaos_kit.PATIENCE)
        end = time.monotonic()
        if timer:
            timer.cancel()
        if process.returncode == 0:
            status, said = "OK", json.loads(out) if out.startswith("{") else None
        elif process.returncode == -9:
            status, said = "KILLED", None
        else:
            said = json.loads(err.splitlines()[-1])
            status = said["status"]
            if status not in NOT_DONE + ("UNSURE", "FENCED"):
                self.unexpected.append(f"{' '.join(words)}: {err}")
        return Outcome(begin, end, status, said, out)

    # ---- Keys -----------------------------------------------------------------------------------

    def read_key(self, key):
        got = self.call("key", "get", "-o", self.file, KEYS[key], may_kill=False)
        if got.status == "NOT_FOUND":
            answer = (0, None)
        elif got.status == "OK":
            with open(self.file, encoding="ascii") as file:
                answer = (got.said["version"], file.read())
        else:
            return
        self.history.append(linear.Call(got.begin, got.end, ("read", key), answer))

    def note_write(self, done, asked, answer):
        if done.status == "OK":
            self.history.append(linear.Call(done.begin, done.end, asked, answer))
        elif done.unknown:
            self.history.append(linear.unknown(done.begin, asked))

    def write_key(self, key):
        value = self.value()
        done = self.call("key", "update", KEYS[key], "--take", "--ttl", SPAN, "--wait", "4s",
                         stdin=value)
        version = ((key, done.said["version"]),) if done.status == "OK" else ()
        self.note_write(done, ("write", ((key, value),)), version)

    def write_key_if(self, key):
        seen = self.call("key", "get", "--info", KEYS[key], may_kill=False)
        version = seen.said["version"] if seen.status == "OK" else 0
        value = self.value()
        done = self.call("key", "update", KEYS[key], "--take", "--ttl", SPAN, "--wait", "4s",
                         "--if-version", str(version), stdin=value)
        asked = ("write if", key, value, version)
        if done.status in ("CONFLICT", "MISMATCH") and done.said.get("outcome") == "version_conflict":
            self.history.append(linear.Call(done.begin, done.end, asked, "conflict"))
        else:
            self.note_write(done, asked, done.said["version"] if done.status == "OK" else None)

    def transact(self):
        begun = self.call("txn", "begin")
        if begun.status != "OK":
            return
        txn, changes = begun.said["txn"], []
        for key in sorted(self.random.sample(range(len(KEYS)), 2), key=lambda key: KEYS[key]):
            value = self.value()
            took = self.call("key", "acquire", KEYS[key], "--txn", txn, "--ttl", SPAN, "--wait", "2s")
            if took.status != "OK":
                break
            staged = self.call("key", "update", KEYS[key], "--txn", txn, "--lease", took.said["lease"],
                               stdin=value)
            if staged.status != "OK":
                break
            changes.append((key, value))
        if len(changes) == 2 and self.random.random() < 0.8:
            done = self.call("txn", "commit", txn)
            self.note_write(done, ("write", tuple(sorted(changes))), ())
        else:
            self.call("txn", "rollback", txn)

    def use_keys(self, is_over):
        while not is_over():
            draw, key = self.random.random(), self.random.randrange(len(KEYS))
            if draw < 0.45:
                self.read_key(key)
            elif draw < 0.7:
                self.write_key(key)
            elif draw < 0.85:
                self.write_key_if(key)
            else:
                self.transact()

    # ---- A fenced object and its lock -----------------------------------------------------------

    def read_fenced(self):
        got = self.call("read", "object", self.file, may_kill=False)
        if got.status == "NOT_FOUND":
            answer = linear.FENCED_START
        elif got.status == "OK":
            with open(self.file, encoding="ascii") as file:
                answer = (got.said["token"], file.read())
        else:
            return
        self.history.append(linear.Call(got.begin, got.end, ("read",), answer))

    def write_fenced(self):
        took = self.call("acquire", "guard", "--ttl", SPAN, "--wait", "4s")
        if took.status != "OK":
            return
        lease, token = took.said["lease"], took.said["token"]
        for _ in range(self.random.randrange(1, 4)):
            if self.random.random() < 0.06:
                time.sleep(TTL * self.random.uniform(0.7, 1.3))  # the lease may be over by then
            value = self.value()
            done = self.call("write", "--lock", lease, "object", "-", stdin=value)
            asked = ("write", token, value)
            if done.status == "FENCED":
                self.history.append(linear.Call(done.begin, done.end, asked, "fenced"))
            else:
                self.note_write(done, asked, "done")
        until = min(time.monotonic(), took.begin + TTL * (1 - DRIFT) - MARGIN)
        self.held.append(linear.Held(took.begin, took.end, until, token))
        if self.random.random() < 0.9:
            self.call("release", lease)

    def use_fenced(self, is_over):
        while not is_over():
            if self.random.random() < 0.5:
                self.read_fenced()
            else:
                self.write_fenced()


def play(clients, part, calls):
    begun = time.monotonic()

    def is_over():
        done = sum(len(client.history) for client in clients)
        known = sum(call.known for call in all_of(clients, "history"))
        enough = known >= KNOWN_MIN and known < done
        took = time.monotonic() - begun
        return enough and (done >= calls or took > SECONDS_MAX) or took > 4 * SECONDS_MAX

    threads = [threading.Thread(target=getattr(client, part), args=[is_over]) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def all_of(clients, what):
    return [entry for client in clients for entry in getattr(client, what)]


def spoil_read(history):
    """The history in which the last read saw something that nobody wrote."""
    last = max((call for call in history if call.asked[0] == "read"), key=lambda call: call.begin)
    return [call._replace(answer=(call.answer[0], "nobody's")) if call is last else call
            for call in history]


def judge(sentence, history, model, start):
    known = sum(call.known for call in history)
    say(f"{len(history)} calls, of {len(history) - known} the effect is unknown")
    tell(known >= KNOWN_MIN and known < len(history), f"{sentence}: enough happened to tell")
    begun = time.monotonic()
    try:
        why = linear.check(history, model, start)
        tell(why is None, sentence, why or "")
        tell(linear.check(spoil_read(history), model, start) is not None,
             f"{sentence}; with one wrong answer they have none")
    except linear.Undecided as why:
        tell(False, sentence, str(why))
    say(f"checked in {time.monotonic() - begun:.2f} s")


def check_keys(clients, options):
    play(clients, "use_keys", options.calls)
    options.calm()
    for key in range(len(KEYS)):
        clients[0].read_key(key)
    history = linear.narrow(all_of(clients, "history"))
    judge("reads, updates and transactions of keys have one order", history, linear.keys,
          linear.keys_start(len(KEYS)))


def check_fenced(clients, options):
    for _ in range(ROUNDS_MAX):  # on a slow store most tries time out
        play(clients, "use_fenced", len(all_of(clients, "history")) + options.calls)
        if len(all_of(clients, "held")) >= GRANTS_MIN:
            break
    options.calm()
    clients[0].read_fenced()
    judge("writes and reads of a fenced object have one order", all_of(clients, "history"), linear.fenced,
          linear.FENCED_START)
    held = all_of(clients, "held")
    why = linear.check_held(held)
    tell(len(held) >= GRANTS_MIN and why is None, "nobody holds a lock beside somebody else, and tokens rise", why or "")
    say(f"{len(held)} grants")


def story_of(options):
    def story(site):
        for name, check in (("keys", check_keys), ("fenced", check_fenced)):
            bucket, proxy = site.bucket(name), None
            if options.store == "ceph":
                bucket, proxy = site.behind(name, lambda endpoint: Proxy(endpoint, options.seed))
                # A store is probed once in a while: here before the trouble begins.
                proxy.hostile = False
                bucket.must("-q", "locks", "ls")
                proxy.hostile = True
            options.calm = proxy.calm if proxy else lambda: None
            clients = [Client(bucket, site.folder, number, options.seed) for number in range(THREADS)]
            check(clients, options)
            wrong = all_of(clients, "unexpected")
            tell(not wrong, f"{name}: every refusal is one that a caller can expect", "\n".join(wrong[:5]))
            if proxy:
                say(", ".join(f"{fate}: {count}" for fate, count in sorted(proxy.fates.items())))
                proxy.close()
    return story


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=["sqlite", "dir", "ceph"])
    parser.add_argument("--calls", type=int, default=120, help="to be noted in each part")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return chaos_kit.play(story_of(options), options.store)


if __name__ == "__main__":
    sys.exit(main())

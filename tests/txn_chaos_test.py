#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""txn_chaos_test.py: many processes move money between the accounts of a bank, by transactions, and
one of them is killed every now and then.

    txn_chaos_test.py STORE [--workers N] [--transfers N] [--accounts N] [--kill-every N] [--ttl S]
        [--quick]

STORE is sqlite, dir, dir-without-sync (a kill is no power loss; so it takes the time of the machine, not
that of its disk), ceph or azurite. Prints TAP, and figures behind '#'. The workers are tests/txn_worker.c; what
they wrote is all that is known of what should be there. Afterwards tools/txn_audit.py, which shares no
code with us, compares: once as the dead have left it, once when every account was taken again and
`holdfast sweep --full` has run, and once when records were purged as if D had passed.

Kills are counted by transfers, not by seconds: so a slow machine sees as many, and not only workers
that wait for the keys of the dead.
"""

import argparse
import copy
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))

import chaos_kit
import txn_audit
from bucket import Folder, open_store
from chaos_kit import PATIENCE, Child, say, tell

WORKER = os.path.join(os.environ.get("HOLDFAST_TEST_PROGRAMS", "build/tests"), "txn_worker")
BALANCE = 1000
SHARES = 8     # of txn_worker
LATE_MS = 100  # D, for the last sweep: nobody is left who could be late
FOLDERS = ("default/", ".txn-decisions/")


class Worker(Child):
    """A process, and what it wrote."""

    program = WORKER

    def __init__(self, bucket, options, number):
        self.lines = []
        self.told = 0  # transactions; changes of one key alone come on top
        self.amid = self.by_txn = False
        self.began = threading.Event()
        super().__init__(bucket, "work", str(options.accounts), f"{1000 * options.ttl:.0f}", str(number + 1),
                         stderr=subprocess.STDOUT)

    def hear(self, when, line):
        self.lines.append(line)
        if line == "began\n":
            self.began.set()
        if line.startswith("try "):
            self.amid, self.by_txn = True, line.split(" ")[2] != "-"
        elif line.startswith("told "):
            self.amid = False
            self.told += self.by_txn

    def last_words(self):
        return "".join(self.lines[-5:])


class Crew(chaos_kit.Crew):
    def __init__(self, bucket, options):
        super().__init__(options.workers, lambda number: Worker(bucket, options, number))

    def told(self):
        return sum(worker.told for worker in self.all)

    def choose(self, running, draw):
        """Of three that are killed two are amid a transfer: most of the time goes by with taking keys."""
        aimed, amid, until = draw.random() < 2 / 3, [], time.monotonic() + 0.2
        while aimed and not amid and time.monotonic() < until:
            amid = [worker for worker in running if worker.amid]
            time.sleep(0 if amid else 0.001)
        return draw.choice(amid or running)

    def dead(self):
        """Those that ended though nobody ended them."""
        return [worker for worker in self.alive if not worker.runs()]

    def dismiss(self):
        """Tells all to end, once they listen; those that did not end well."""
        for worker in self.alive:
            worker.began.wait(PATIENCE)
            worker.process.terminate()
        return self.drain()

    def story(self):
        story = txn_audit.Story()
        for worker in self.all:
            for line in worker.lines:
                story.add(line)
        return story


def tellers(bucket, way, options, number, shares):
    """Runs of the worker, at once, one for each share, that must succeed; what they wrote."""
    words = [way, str(options.accounts), f"{number:.0f}"]
    running = [subprocess.Popen([WORKER, *words, str(share)], env=bucket.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for share in range(shares)]
    lines = []
    for one in running:
        written, _ = one.communicate(timeout=PATIENCE)
        if one.returncode != 0:
            raise SystemExit(f"Bail out! txn_worker {' '.join(words)}: {written[-500:]}")
        lines += written.splitlines(keepends=True)
    return lines


def chaos(crew, options):
    """Kills until so many transfers were told; returns how many, and how long it took."""
    draw, kills, begun, mark = random.Random(9), 0, time.monotonic(), 0
    while crew.told() < options.transfers and not crew.dead() and time.monotonic() - begun < 4 * PATIENCE:
        time.sleep(draw.uniform(0, 0.02))
        if crew.told() >= mark:
            mark = crew.told() + draw.uniform(0.5, 1.5) * options.kill_every
            kills += crew.kill_one(draw)
    took = time.monotonic() - begun
    tell(crew.told() >= options.transfers, f"{options.transfers} transactions come to an end")
    died = crew.dead()
    tell(not died, "no worker ends by itself", "".join(worker.last_words() for worker in died))
    wrong = crew.dismiss()
    tell(not wrong, "told to end, workers end with status 0",
         "".join(worker.last_words() for worker in wrong))
    return kills, took


def local_copy(bucket, folder):
    """The bucket as a folder of its own, for whoever cannot read it where it is, or wants to break it."""
    shutil.rmtree(folder, ignore_errors=True)
    for prefix in FOLDERS:
        bucket.must("-q", "store", "cp", "--recursive", "--to", f"dir:{folder}?sync=off", prefix)
    return Folder(folder)


def audit(bucket, place, story, when, **judged):
    store = open_store(bucket.place) if bucket.local else local_copy(bucket, f"{place}/copy")
    result = txn_audit.audit(store, story, balance=BALANCE, **judged)
    say(f"{when}: " + ", ".join(f"{name} {figure}" for name, figure in result.figures.items() if figure))
    return result


def settle(bucket, options, story):
    """Every account is read and taken once more, and then everything is swept."""
    begun = time.monotonic()
    for line in tellers(bucket, "settle", options, 1000 * options.ttl, SHARES):
        story.add(line)
    taken = time.monotonic()
    report = bucket.json("sweep", "--full")
    say(f"settled in {taken - begun:.1f} s, swept in {time.monotonic() - taken:.1f} s: "
        + json.dumps(report[-1] if report else {}))


# ---- Is the audit worth anything? ---------------------------------------------------------------


def rewrite(path, change):
    with open(path, "r+", encoding="utf-8") as file:
        document = json.load(file)
        change(document)
        file.seek(0)
        file.truncate()
        json.dump(document, file)


def stage_of_nobody(document):
    document["state"]["stage"] = {"txn": 32 * "e", "token": 1}


def enrich(document):
    now = document["state"]["now"]
    now["text"] = "+" + now["text"][1:].replace("0", "9", 1)


def choose_half(story, plain, changed):
    """A committed transfer that will be half done when one account without a body has the state of
    another that was changed, and has no part in it: its name, and the two accounts."""
    for name, tried in story.tries.items():
        ours = [account for account in tried.parts if account in plain]
        others = [account for account in plain if account in changed and account not in tried.parts]
        if story.outcome(name) == "commit" and tried.txn != "-" and len(tried.parts) > 1 and ours and others:
            return name, ours[0], others[0]
    raise SystemExit("Bail out! there is no committed transfer")


def expect_noticed(bucket, place, story):
    """It must find what is wrong: in a copy that we break, and in stories that are not true."""
    folder = f"{place}/broken"
    store = local_copy(bucket, folder)
    whole = txn_audit.audit(store, story, balance=BALANCE)
    accounts = sorted(whole.accounts)
    filled = next(name for name in accounts if txn_audit.has_body(whole.accounts[name].now))
    plain = [name for name in accounts if not txn_audit.has_body(whole.accounts[name].now)]
    changed = {name for name in accounts if whole.accounts[name].now["version"] > 1}
    half, robbed, other = choose_half(story, plain, changed)
    staged, rich = [name for name in plain if name not in (robbed, other)][:2]
    lying = copy.deepcopy(story)
    del lying.told[half]
    lying.seen.append((1 << 62, max(whole.accounts, key=lambda name: whole.accounts[name].now["version"]), 1))

    stray = max(key for key in store.objects("default/state/") if f"/{filled}/" in key)
    shutil.copyfile(f"{folder}/{stray}", f"{folder}/" + re.sub("[^/]*$", "1-" + 32 * "e", stray))
    os.unlink(f"{folder}/{stray}")
    meta = f"{folder}/default/meta"
    rewrite(f"{meta}/{robbed}.json", lambda it: it["state"].update(now=whole.accounts[other].now))
    rewrite(f"{meta}/{staged}.json", stage_of_nobody)
    rewrite(f"{meta}/{rich}.json", enrich)
    record = next(tried.txn for name, tried in story.tries.items()
                  if name != half and story.outcome(name) == "commit" and tried.txn != "-")
    rewrite(f"{folder}/.txn-decisions/m/{record}", lambda document: document.update(state="pending"))

    found = txn_audit.audit(Folder(folder), lying, balance=BALANCE, settled=True, purged=True)
    expected = ("told as committed, and lost", "half done", "accounts that cannot be read", "bodies missing",
                "accounts whose balance is not that of their changes", "bodies left after a full sweep",
                "bodies that nothing names, of somebody who did not die", "changes that nobody tried",
                "records that say something else than was told", "records left after a purge", "stages left",
                "reads that showed less than was told before")
    missed = [name for name in expected if not found.figures[name]]
    missed += [] if any(sentence.startswith("the sum is") for sentence in found.wrong) else ["the sum"]
    tell(not missed, "the audit notices a body that is gone, one that is left, a state of another account, "
         "a wrong balance, a half transfer, a stage, a record that lies, a read that is stale",
         f"missed: {missed}" if missed else "")


# ---- The story ----------------------------------------------------------------------------------


def story_on(bucket, options, place):
    tellers(bucket, "open", options, BALANCE, SHARES)
    crew = Crew(bucket, options)
    kills, took = chaos(crew, options)
    story = crew.story()
    say(f"{crew.told()} transactions told ({crew.told() / took:.0f} a second), {options.workers} workers, "
        f"{options.accounts} accounts, {kills} kills in {took:.1f} s; calls that did not succeed: "
        + (", ".join(f"{what} {number}" for what, number in story.left.most_common()) or "none"))
    left = audit(bucket, place, story, "as left")
    tell(not left.wrong, "as the dead have left it: what was told is true, and nothing is half done",
         "\n".join(left.wrong))
    tell(left.figures["tried, untold"] > 0 or kills < 10, "kills hit workers amid a transfer")
    settle(bucket, options, story)
    done = audit(bucket, place, story, "settled", settled=True)
    tell(not done.wrong, "settled and swept: the same, and no stage, lease or body is left over",
         "\n".join(done.wrong))
    pending = done.figures.get("records, pending", 0)
    tell(pending <= kills, "nobody who lived has left a record undecided",
         f"{pending} are, {kills} were killed")
    expect_noticed(bucket, place, story)
    say("; ".join(line.strip() for line in tellers(bucket, "purge", options, LATE_MS, 1)))
    purged = audit(bucket, place, story, "purged", settled=True, purged=True)
    tell(not purged.wrong, "D later: every record is decided and gone, and nothing else has changed",
         "\n".join(purged.wrong))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=["sqlite", "dir", "dir-without-sync", "ceph", "azurite"])
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--transfers", type=int, default=2000, help="until so many were told")
    parser.add_argument("--accounts", type=int, default=100)
    parser.add_argument("--kill-every", type=float, default=16, help="transfers, on average")
    parser.add_argument("--ttl", type=float, default=1, help="of the leases, in seconds")
    parser.add_argument("--quick", action="store_true", help="240 transfers (ceph: 160) by 6, a ttl of 0.5 s")
    options = parser.parse_args()
    if options.quick:
        options.transfers = 160 if options.store in ("ceph", "azurite") else 240
        options.workers, options.ttl = 6, 0.5
    return chaos_kit.play(lambda site: story_on(site.bucket("chaos"), options, site.folder), options.store)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""txn_audit.py: audits a bank whose accounts are keys, and the transactions that moved money
between them: was anything lost, duplicated, half done or left behind?

    txn_audit.py STORE LOG... [--balance N] [--ns NAME] [--settled] [--purged] [--json]

STORE is dir:FOLDER or sqlite:FILE; copy another store first (holdfast store cp --recursive --to
dir:FOLDER). A LOG is the output of one worker (tests/txn_worker.c), which may be cut off: what it
tried, the results it was given, and what it read. --settled: all workers have ended, every account
was acquired once more and a full sweep has run, so no stage, lease or body may be left. --purged: D
has passed since, and another sweep has run, so no record may be left either.

It shares no code with Holdfast: it reads documents, records and bodies itself, and needs only the
standard library. The value of an account is the published state in its document, or its stage if
the record of that transaction says commit. Exit status 0: no failure was found.
"""

import argparse
import base64
import collections
import json
import sys
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import bucket
from bucket import open_store

RECORDS = ".txn-decisions/m/"
ENTRIES = ".txn-decisions/e/"
STATES = ("pending", "commit", "rollback")

# The states that a record may have after its worker was given this result; a missing record means
# rolled back.
EXPECTED = {"commit": ("commit",), "rollback": ("rollback", "absent")}


# ---- Logs of workers ----------------------------------------------------------------------------

# An attempt: its transaction ("-": none), and for each account its token, the change and the
# resulting version.
Try = collections.namedtuple("Try", "txn parts")
Part = collections.namedtuple("Part", "token change version")


class Story:
    """The logs of all workers together."""

    def __init__(self):
        self.tries = {}              # name -> Try
        self.told = {}               # name -> (commit, rollback or unsure; when)
        self.seen = []               # (when the read began, account, version)
        self.wrong = []
        self.left = collections.Counter()

    def add(self, line):
        """One line. The last one of a worker that was killed may be cut off."""
        if not line.endswith("\n"):
            return
        kind, _, rest = line[:-1].partition(" ")
        words = rest.split(" ")
        if kind == "try":
            self.tries[words[0]] = Try(words[1], dict(map(self.part, words[2:])))
        elif kind == "told":
            self.told[words[0]] = (words[1], int(words[2]))
        elif kind == "saw":
            self.seen.append((int(words[0]), words[1], int(words[2])))
        elif kind == "left":
            self.left[f"{words[0]} {words[1].rstrip(':')}"] += 1
        elif kind == "wrong":
            self.wrong.append(rest)

    @staticmethod
    def part(word):
        account, token, change, version = word.split(":")
        return account, Part(int(token), int(change), int(version))

    def outcome(self, name):
        return self.told.get(name, ("untold", 0))[0]


def read_story(paths):
    story = Story()
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as source:
            for line in source:
                story.add(line)
    return story


# ---- Keys ---------------------------------------------------------------------------------------


class Account:
    """A key as stored in its document: versions, stage, bodies."""

    def __init__(self, name, document):
        self.name, self.document = name, document
        state = document.get("state", {})
        self.now = state.get("now")
        self.stage = state.get("stage")
        self.old = set(state.get("old", []))
        self.lost = bool(state.get("lost"))

    def versions(self):
        staged = self.stage.get("next") if self.stage else None
        return [version for version in (self.now, staged) if version]

    def active(self):
        return [lease for lease in self.document.get("leases", {}).values()
                if lease.get("status") == "active"]

    def shown(self, records):
        """The version that a reader must get, and its number."""
        staged = self.stage.get("next") if self.stage else None
        number = self.now["version"] if self.now else 0
        if staged and records.get(self.stage.get("txn"), {}).get("state") == "commit":
            return staged, number + 1
        return self.now, number


def has_body(version):
    return version.get("body") is True


def body_name(version):
    return f"{version['token']}-{version['etag']}"


class Statement:
    """The bytes of an account: its balance, and all its changes in order."""

    def __init__(self, data):
        balance, _, *rows = data.decode().removesuffix("\n").split("\n")
        self.balance = int(balance)
        self.changes = [(name, int(change)) for name, change in (row.split(" ") for row in rows)]


# ---- The audit ----------------------------------------------------------------------------------


class Audit(bucket.Audit):
    def __init__(self, store, story, ns, balance):
        super().__init__()
        self.store, self.story, self.balance = store, story, balance
        self.meta, self.states = f"{ns}/meta/", f"{ns}/state/"
        self.bodies = store.objects(self.states)
        self.ns = ns
        self.records, damaged = {}, []
        for key, way in store.objects(RECORDS).items():
            self.load(key, way, damaged, self.records, key.removeprefix(RECORDS))
        documents = {}
        for key, way in store.objects(self.meta).items():
            self.load(key, way, damaged, documents, key.removeprefix(self.meta).removesuffix(".json"))
        self.accounts = {name: Account(name, document) for name, document in documents.items()}
        self.statements = {}
        self.none(damaged, "documents damaged")

    def load(self, key, way, damaged, into, name):
        try:
            into[name] = json.loads(self.store.read(way))
        except (ValueError, TypeError) as why:
            damaged.append(f"{key}: {why}")

    def bytes_of(self, account, version):
        if "text" in version:
            return version["text"].encode()
        if not has_body(version):
            return base64.b64decode(version["base64"], validate=True)
        way = self.bodies.get(f"{self.states}{account.name}/{body_name(version)}")
        return None if way is None else self.store.read(way)

    def read_statements(self):
        """The versions that readers get. Each account must be consistent."""
        unreadable, crooked, doubled, miscounted = [], [], [], []
        for name, account in self.accounts.items():
            version, number = account.shown(self.records)
            try:
                data = self.bytes_of(account, version)
                statement = Statement(data)
                good = len(data) == version["size"] and not account.lost
            except (ValueError, AttributeError, TypeError, KeyError) as why:
                good = repr(why)
            if good is not True:
                unreadable.append(f"{name}: {good}")
                continue
            self.statements[name] = statement
            if statement.balance != self.balance + sum(change for _, change in statement.changes):
                crooked.append(name)
            if len(dict(statement.changes)) != len(statement.changes):
                doubled.append(name)
            if number != 1 + len(statement.changes):
                miscounted.append(f"{name}: version {number} of {len(statement.changes)} changes")
        self.none(unreadable, "accounts that cannot be read")
        self.none(crooked, "accounts whose balance is not that of their changes")
        self.none(doubled, "accounts with a change twice")
        self.none(miscounted, "accounts with a version that is not that of their changes")

    def judge_sum(self):
        total = sum(statement.balance for statement in self.statements.values())
        expected = self.balance * len(self.accounts)
        self.figures.update({"accounts": len(self.accounts), "sum": total})
        self.expect(total == expected, f"the sum is {total}, not {expected}")

    def judge_tries(self):
        """The results given to workers are true, and nothing is half done or invented."""
        there = {(name, account): (place + 2, change)
                 for account, statement in self.statements.items()
                 for place, (name, change) in enumerate(statement.changes)}
        lost, undead, half, counts = [], [], [], collections.Counter()
        for name, tried in self.story.tries.items():
            found = [there.pop((name, account), None) == (part.version, part.change)
                     for account, part in tried.parts.items()]
            outcome = self.story.outcome(name)
            counts[outcome] += 1
            if outcome == "commit" and not all(found):
                lost.append(name)
            elif outcome == "rollback" and any(found):
                undead.append(name)
            elif any(found) != all(found):
                half.append(name)
        for what in ("commit", "rollback", "unsure", "untold"):
            self.figures[f"tried, {what}"] = counts[what]
        self.none(lost, "told as committed, and lost")
        self.none(undead, "told as rolled back, and there")
        self.none(half, "half done")
        self.none(sorted(there), "changes that nobody tried")

    def judge_reads(self):
        """A read that begins after a commit was reported returns it, or a later version."""
        told = collections.defaultdict(list)
        for name, (outcome, when) in self.story.told.items():
            if outcome == "commit":
                for account, part in self.story.tries[name].parts.items():
                    told[account].append((when, part.version))
        reads = collections.defaultdict(list)
        for when, account, version in self.story.seen:
            reads[account].append((when, version))
        stale = []
        for account, seen in reads.items():
            commits, at, floor = sorted(told[account]), 0, 1
            for when, version in sorted(seen):
                while at < len(commits) and commits[at][0] < when:
                    floor, at = max(floor, commits[at][1]), at + 1
                if version < floor:
                    stale.append(f"{account}: {version} though {floor} was told before")
        self.figures["reads"] = len(self.story.seen)
        self.none(stale, "reads that showed less than was told before")
        self.none(self.story.wrong, "things that workers found wrong")

    def judge_bodies(self, settled):
        """Every body that a document names exists. Any other body is listed as old, or was left by
        a worker that died before its document named the body."""
        named, old = set(), set()
        for name, account in self.accounts.items():
            named |= {f"{self.states}{name}/{body_name(version)}" for version in account.versions()
                      if has_body(version)}
            old |= {f"{self.states}{name}/{body}" for body in account.old}
        litter = set(self.bodies) - named - old
        excused = {f"{self.states}{account}/{part.token}-"
                   for name, tried in self.story.tries.items()
                   if self.story.outcome(name) in ("untold", "unsure")
                   for account, part in tried.parts.items()}
        strange = [key for key in litter if key.rpartition("-")[0] + "-" not in excused]
        self.figures.update({"bodies": len(self.bodies), "bodies named as old, and there":
                             len(old & set(self.bodies)), "bodies left by the dead": len(litter)})
        self.none(sorted(named - set(self.bodies)), "bodies missing")
        self.none(sorted(named & old), "bodies named as old, and still in use")
        self.none(strange, "bodies that nothing names, of somebody who did not die")
        if settled:
            self.none(sorted(litter), "bodies left after a full sweep")

    def judge_stages(self, settled):
        staged = [name for name, account in self.accounts.items() if account.stage]
        active = [name for name, account in self.accounts.items() if account.active()]
        self.figures.update({"stages": len(staged), "active leases": len(active)})
        if settled:
            self.none(staged, "stages left")
            self.none(active, "leases left")

    def judge_records(self, purged):
        """Each reported result matches the record. No result was reported for a pending one. The
        record of a commit must exist, unless it was purged."""
        contrary, incomplete, counts = [], [], collections.Counter()
        for record in self.records.values():
            counts[record.get("state")] += 1
        for name, tried in self.story.tries.items():
            if tried.txn == "-":
                continue
            record = self.records.get(tried.txn, {"state": "absent"})
            outcome, state = self.story.outcome(name), record.get("state")
            if outcome in EXPECTED and state not in EXPECTED[outcome] and not (purged and state == "absent"):
                contrary.append(f"{name}: told {outcome}, {tried.txn} says {state}")
            keys = {f"{self.ns}/{account}" for account in tried.parts}
            if state == "commit" and not keys <= set(record.get("keys", ())):
                incomplete.append(tried.txn)
        self.figures.update({f"records, {state}": number for state, number in sorted(counts.items())})
        self.none(contrary, "records that say something else than was told")
        self.none(incomplete, "commits that do not name all keys")
        self.none(sorted(set(counts) - set(STATES)), "records in a state that there is not")
        if purged:
            self.none(sorted(self.records), "records left after a purge")

    def judge_entries(self):
        """Each record is in the expiry index, under an hour that is not over: D has not passed."""
        hours = collections.defaultdict(list)
        for key in self.store.objects(ENTRIES):
            hour, _, name = key.removeprefix(ENTRIES).partition("/")
            hours[name].append(hour)
        now = time.strftime("%Y%m%d%H", time.gmtime())
        self.figures["entries"] = len(hours)
        self.none(sorted(set(self.records) - set(hours)), "records without an entry")
        self.none([name for name, when in hours.items() if max(when) <= now], "entries before their time")


def audit(store, story, ns="default", balance=1000, settled=False, purged=False):
    """Runs the whole audit. The result has `figures` and `wrong`."""
    result = Audit(store, story, ns, balance)
    result.read_statements()
    result.judge_sum()
    result.judge_tries()
    result.judge_reads()
    result.judge_bodies(settled)
    result.judge_stages(settled)
    result.judge_records(purged)
    result.judge_entries()
    return result


def main():
    parser = argparse.ArgumentParser(description="audit a bank of keys")
    parser.add_argument("store")
    parser.add_argument("logs", nargs="+")
    parser.add_argument("--balance", type=int, default=1000, help="of every account, in the beginning")
    parser.add_argument("--ns", default="default", help="the namespace")
    parser.add_argument("--settled", action="store_true", help="no stage, lease or body may be left")
    parser.add_argument("--purged", action="store_true", help="no record may be left")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = audit(open_store(options.store), read_story(options.logs), options.ns, options.balance,
                   options.settled, options.purged)
    sys.exit(result.tell(options.json))


if __name__ == "__main__":
    main()

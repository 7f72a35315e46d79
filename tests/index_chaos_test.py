#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""index_chaos_test.py: many compiler processes fold one index while writers write and one compiler is
killed every half second or so.

    index_chaos_test.py STORE [--compilers N] [--entries N] [--keys N] [--seconds S]
        [--kill-every S] [--ttl S] [--quick]

STORE is sqlite, dir, dir-without-sync (a kill is no power loss; so it takes the time of the machine, not
that of its disk), ceph or azurite. Prints TAP, and figures behind '#'. Writers put records whose times are not
in the order in which they come; some entries are another program's, flat under <key>.usv. Readers
read all the time: what was acknowledged must be seen. What was put in is known to this script alone;
afterwards tools/index_audit.py, which shares no code with us, reads the shards and compares.

That no shard is written by two tokens at once is seen twice: in the traces of all compilers, whose
conditional writes of a shard make one chain, along which tokens never fall; and, on local stores, by
reading the shards' first lines again and again while they are written.
"""

import argparse
import collections
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))

import ceph_kit
import chaos_kit
import index_audit
from bucket import Folder, open_store, winners
from chaos_kit import PATIENCE, US, Child, say, tell

NAME = "domains"
FIELDS = ["domain", "value", "updated_at"]
WRITERS = 4
# One read and its part of a delete; Azure deletes one object a request.
REQUESTS_AN_ENTRY = dict.fromkeys(["sqlite", "dir", "dir-without-sync", "ceph"], 1.1) | {"azurite": 2.1}
FOREIGN_PART = 50   # one record of so many is another program's
START = 1_770_000_000


# ---- What is put in -----------------------------------------------------------------------------


def escaped(value):
    return "".join("\x1b" + chr(ord(c) + 0x40) if c in "\x1b\x1c\x1d\x1e\x1f\n\0" else c for c in value)


def spelt(seconds, draw):
    """One moment, spelt in one of several ways; numbers, and zones."""
    way = draw.randrange(4)
    if way == 0:
        return str(seconds)
    if way == 1:
        return f"{seconds}000"
    hours = draw.randrange(-11, 12)
    if way == 2:
        hours = 0
    local = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds + 3600 * hours))
    return local + ("Z" if way == 2 else f"{hours:+03}:00")


def key_name(number):
    """Most keys are plain, some are not."""
    if number % 100 == 7:
        return f"shop {number}/ä&b~c"
    return f"host-{number:06}.example.com"


def make_records(entries, keys):
    """(key, record): each key at least once, some far more often; two kinds, ours and others'."""
    draw = random.Random(20260206)
    numbers = list(range(keys))
    numbers += [int(keys * draw.random() ** 2) for _ in range(entries - keys)]
    draw.shuffle(numbers)
    ours, others, latest = [], [], {}
    for place, number in enumerate(numbers):
        key = key_name(number)
        when = START + draw.randrange(100000)
        foreign = place % FOREIGN_PART == 0
        if foreign:  # it writes its entry anew, so its times must rise
            when = latest[key] = max(when, latest.get(key, 0) + 1)
        value = f"value {draw.getrandbits(48):012x}" + ("\nof two lines" if place % 60 == 1 else "")
        record = US.join([escaped(key), escaped(value), spelt(when, draw)]).encode()
        (others if foreign else ours).append((key, record))
    return ours, others


class Acknowledged:
    """Of each key, the latest record that a writer was told to be there."""

    fields = index_audit.Fields(0, 2)

    def __init__(self):
        self.lock = threading.Lock()
        self.best = {}
        self.keys = []

    def add(self, rows):
        ranked = [(key, self.fields.rank(record)) for key, record in rows]
        with self.lock:
            for key, rank in ranked:
                if key not in self.best:
                    self.keys.append(key)
                if key not in self.best or rank > self.best[key]:
                    self.best[key] = rank

    def some(self, draw, number):
        with self.lock:
            keys = draw.sample(self.keys, min(number, len(self.keys)))
            return {key: self.best[key] for key in keys}


# ---- Writers and readers ------------------------------------------------------------------------


class Crowd:
    """Threads that work until their work is done or they are told to stop."""

    def __init__(self):
        self.stop = threading.Event()
        self.threads = []
        self.trouble = []

    def start(self, work, *arguments):
        def guarded():
            try:
                work(*arguments)
            except (Exception, SystemExit) as why:  # told by the main thread
                self.trouble.append(repr(why))
        thread = threading.Thread(target=guarded, daemon=True)
        self.threads.append(thread)
        thread.start()

    def join(self, timeout):
        until = time.monotonic() + timeout
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self.threads)


def pace(begun, seconds, done, total, stop):
    """Waits so that the whole takes about so many seconds."""
    stop.wait(max(0.0, begun + seconds * done / total - time.monotonic()))


def write_ours(bucket, rows, acknowledged, seconds, crowd):
    begun, batch = time.monotonic(), max(20, len(rows) // 40)
    for at in range(0, len(rows), batch):
        part = rows[at:at + batch]
        text = b"".join(record + b"\n" for _, record in part)
        for _ in range(20):  # to put it again does no harm
            done = bucket.run("-q", "index", "put", NAME, "--from", "-", "--format", "usv", stdin=text)
            if done.returncode == 0:
                break
        else:
            raise RuntimeError(f"put: {done.stderr.decode()[:300]}")
        acknowledged.add(part)
        pace(begun, seconds, at + len(part), len(rows), crowd.stop)


def foreign_key(key, number):
    """Where another program puts the entry of a key: one of three places."""
    plain = re.sub(rb"[^A-Za-z0-9._-]", lambda m: b"%%%02X" % m[0][0], key.encode()).decode()
    shard = hashlib.sha256(key.encode()).hexdigest()[:2]
    return f"indexes/{NAME}/" + (f"{plain}.usv", f"inbox/{plain}.usv",
                                 f"inbox/{shard}/{plain}.usv")[number % 3]


def put_foreign(bucket, key, body, first):
    """Into a folder as any program would put a new file: written beside, renamed. Else, and to write one
    anew, which only the store can do while others may clear it away, by a plain put."""
    folder = bucket.place.removeprefix("dir:")
    if not first or folder == bucket.place or "%" in key:
        bucket.must("-q", "store", "put", key, "-", stdin=body)
        return
    path = os.path.join(folder, key)
    with open(folder + ".foreign", "wb") as file:
        file.write(body)
    for _ in range(1000):  # an empty folder may be cleared away under our hands
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.rename(file.name, path)
            return
        except FileNotFoundError:
            continue
    raise RuntimeError(f"{path} cannot be written")


def write_others(bucket, rows, acknowledged, seconds, crowd):
    begun, written = time.monotonic(), set()
    for at, (key, record) in enumerate(rows):
        place = foreign_key(key, at // 7)
        put_foreign(bucket, place, record + b"\n", place not in written)
        written.add(place)
        acknowledged.add([(key, record)])
        pace(begun, seconds, at + 1, len(rows), crowd.stop)


class Reader:
    """Reads some keys again and again: what was acknowledged before is seen, or something later."""

    def __init__(self, bucket, acknowledged, crowd):
        self.bucket, self.acknowledged, self.crowd = bucket, acknowledged, crowd
        self.reads, self.stale = 0, []

    def work(self):
        draw = random.Random(3)
        while not self.crowd.stop.wait(0.05):
            expected = self.acknowledged.some(draw, 4)
            if expected:
                self.read(expected)

    def read(self, expected):
        done = self.bucket.run("--json", "index", "get", NAME, "--", *expected)
        seen = {}
        for line in done.stdout.splitlines():
            row = json.loads(line)
            record = US.join(escaped(row[field]) for field in FIELDS).encode()
            seen[row[FIELDS[0]]] = Acknowledged.fields.rank(record)
        self.reads += len(expected)
        for key, rank in expected.items():
            if key not in seen or seen[key] < rank:
                self.stale.append(f"{key}: {seen.get(key)} but {rank} was there; "
                                  f"exit {done.returncode} {done.stderr.decode()[:200]}")


# ---- Compilers ----------------------------------------------------------------------------------

Write = collections.namedtuple("Write", "before after told")  # told: [token], once it is known


class Compiler(Child):
    """A process, what it told, and its writes, as its trace shows them."""

    def __init__(self, bucket, ttl, writes):
        self.writes = writes        # shard -> [Write], of all compilers
        self.requests = collections.Counter()
        self.reports = []           # (when, JSON)
        self.last_words = collections.deque(maxlen=20)
        self.locked = (None, 0)     # the shard whose lock was written last, and how often
        self.open = {}              # shard -> writes whose token is not told yet
        super().__init__(bucket, "--json", "--trace", "index", "compile", NAME, "--watch", "--ttl",
                         f"{ttl:g}s", stderr=subprocess.STDOUT)

    def hear(self, when, line):
        self.last_words.append(line)
        try:
            told = json.loads(line)
        except ValueError:
            return  # cut off by a kill
        if "call" in told:
            self.note(told)
        else:
            self.report(when, told)

    def note(self, call):
        """A line of the trace."""
        self.requests[call["call"]] += 1
        key, shards = call.get("key", ""), f"indexes/{NAME}/shards/"
        if not key.startswith(shards) or not call["call"].startswith("put") or call["status"] != "OK":
            return
        shard, _, what = key.removeprefix(shards).partition(".")
        if what == "lock":
            self.locked = (shard, self.locked[1] + 1 if self.locked[0] == shard else 1)
        elif what == "usv":
            write = Write(call.get("if_match"), call["etag"], [])
            self.writes[shard].append(write)
            self.open.setdefault(shard, []).append(write)

    def report(self, when, report):
        self.reports.append((when, report))
        shard = report.get("shard")
        if report.get("token"):
            for write in self.open.pop(shard, []):
                write.told.append(report["token"])
            self.locked = (None, 0)

    def held(self):
        """The shard whose lock it had, as far as we can tell: taken, and not given back."""
        return self.locked[0] if self.locked[1] % 2 else None


class Crew(chaos_kit.Crew):
    def __init__(self, bucket, size, ttl):
        self.writes = collections.defaultdict(list)
        super().__init__(size, lambda _: Compiler(bucket, ttl, self.writes))

    def dead(self):
        """Those that ended though nobody ended them."""
        return [one for one in self.alive if not one.runs()]

    def dismiss(self):
        """Tells all to end; those that did not end well."""
        for one in self.alive:
            one.process.terminate()
        return self.drain()

    def requests(self):
        return sum((one.requests for one in self.all), collections.Counter())

    def total(self, field):
        return sum(report.get(field, 0) for one in self.all for _, report in one.reports
                   if "token" in report)

    def takeovers(self):
        """For each lock that died with its compiler: how long until somebody else had done the shard."""
        done = collections.defaultdict(list)
        for one in self.all:
            for when, report in one.reports:
                if report.get("token"):
                    done[report["shard"]].append(when)
        times = []
        for one in self.all:
            if one.killed_at and one.held():
                later = [when for when in done[one.held()] if when > one.killed_at]
                times += [min(later) - one.killed_at] if later else []
        return sorted(times)


# ---- One token at a time ------------------------------------------------------------------------


def judge_chain(shard, writes):
    """Conditional writes of one shard, each from a version to the next: in order, where they fork,
    and how many gaps there are, where a compiler was killed before it could tell."""
    wrong = []
    successor = {}
    for write in writes:
        if write.before in successor:
            wrong.append(f"{shard}: two writes replaced {write.before}")
        successor[write.before] = write
    made = {write.after for write in writes}
    heads = [write for write in writes if write.before not in made]
    for head in heads:
        write, last = head, 0
        while write:
            token = write.told[0] if write.told else 0
            if token and token < last:
                wrong.append(f"{shard}: token {token} wrote after {last}")
            last = token or last
            write = successor.get(write.after)
    return wrong, len(heads) - 1


def judge_chains(crew):
    wrong, gaps, writes, untold = [], 0, 0, 0
    for shard, chain in crew.writes.items():
        found, missing = judge_chain(shard, chain)
        wrong += found
        gaps += missing
        writes += len(chain)
        untold += sum(not write.told for write in chain)
    kills = sum(one.killed_at is not None for one in crew.all)
    say(f"{writes} writes of {len(crew.writes)} shards in the traces, {gaps} gaps, "
        f"{untold} by compilers that were killed before they told their token")
    tell(writes > 0 and not wrong,
         "no version of a shard was replaced twice, and along them tokens never fall",
         "\n".join(wrong))
    tell(gaps <= kills, "the traces show every write of a shard but those cut off by a kill",
         f"{gaps} gaps, {kills} kills")


class Watcher:
    """Reads the first lines of all shards again and again."""

    HEAD = re.compile(rb'"nonce":"([^"]+)","token":(\d+)')

    def __init__(self, bucket, crowd):
        self.bucket, self.crowd = bucket, crowd
        self.writes = []

    def work(self):
        store = open_store(self.bucket.place)
        prefix = f"indexes/{NAME}/shards/"
        while not self.crowd.stop.wait(0.02):
            for key, way in store.objects(prefix).items():
                head = self.HEAD.search(self.first_bytes(store, way)) if key.endswith(".usv") else None
                if head:
                    shard = key.removeprefix(prefix).removesuffix(".usv")
                    self.writes.append((shard, int(head[2]), head[1].decode()))

    @staticmethod
    def first_bytes(store, way):
        try:
            return (store.read(way) or b"")[:400]
        except FileNotFoundError:
            return b""


# ---- The story ----------------------------------------------------------------------------------


def entries_left(bucket):
    """Entries that are not folded yet: all but markers, which are empty."""
    inbox = bucket.listing(f"indexes/{NAME}/inbox/", "--recursive")
    flat = bucket.listing(f"indexes/{NAME}/")
    return [key for key, size in inbox + flat if size and key.endswith(".usv")]


def wait_for_calm(bucket, crew):
    begun, left = time.monotonic(), entries_left(bucket)
    first = len(left)
    while left and not crew.dead() and time.monotonic() - begun < PATIENCE:
        time.sleep(0.2)
        left = entries_left(bucket)
    say(f"calm: {time.monotonic() - begun:.1f} s until the {first} entries that were left were folded")
    return left


def chaos(bucket, options, ours, others, acknowledged, crew):
    """Writers, readers and kills; returns how long it took, how many kills, and what was seen."""
    writers, watchers = Crowd(), Crowd()
    reader, watcher = Reader(bucket, acknowledged, watchers), Watcher(bucket, watchers)
    watchers.start(reader.work)
    if bucket.local:
        watchers.start(watcher.work)
    for number in range(WRITERS):
        writers.start(write_ours, bucket, ours[number::WRITERS], acknowledged, options.seconds, writers)
    writers.start(write_others, bucket, others, acknowledged, options.seconds, writers)
    draw, kills, begun = random.Random(11), 0, time.monotonic()
    while any(one.is_alive() for one in writers.threads) and time.monotonic() - begun < 600:
        time.sleep(options.kill_every)
        kills += crew.kill_one(draw)
    took = time.monotonic() - begun
    finished = writers.join(10)
    tell(finished and not writers.trouble, "all writers come to their end",
         "\n".join(writers.trouble))
    left = wait_for_calm(bucket, crew)
    watchers.stop.set()
    watchers.join(30)
    tell(not left, "in calm all entries are folded", "\n".join(left))
    tell(not watchers.trouble, "readers come to their end", "\n".join(watchers.trouble))
    tell(reader.reads > 0 and not reader.stale,
         "readers see every record that was acknowledged, or a later one", "\n".join(reader.stale))
    return took, kills, reader, watcher


def audit(bucket, rows, watcher, place):
    url = bucket.place
    if not bucket.local:
        url = f"dir:{place}/copy"
        bucket.must("-q", "store", "cp", "--recursive", "--to", url + "?sync=off", f"indexes/{NAME}/")
    result = index_audit.audit(open_store(url), NAME, rows, writes=watcher.writes)
    say("audit: " + ", ".join(f"{name} {figure}" for name, figure in result.figures.items()))
    tell(not result.wrong, "the audit finds every key with its newest record, and nothing else",
         "\n".join(result.wrong))
    if watcher.writes:
        tell(result.figures["versions of shards seen"] > 0 and not result.figures["tokens that fell"],
             "whoever reads the shards meanwhile sees tokens that never fall")


def expect_noticed(bucket, rows, place):
    """The audit is worth something only if it finds what is wrong: in a copy that we break."""
    folder = f"{place}/copy"
    if not os.path.isdir(folder):
        bucket.must("-q", "store", "cp", "--recursive", "--to", f"dir:{folder}?sync=off",
                    f"indexes/{NAME}/")
    first, second = sorted(name for name in os.listdir(f"{folder}/indexes/{NAME}/shards")
                           if name.endswith(".usv"))[:2]
    with open(f"{folder}/indexes/{NAME}/shards/{first}", "r+b") as file:
        data = file.read()
        file.seek(len(data) - 3)
        file.write(bytes([data[-3] ^ 1]))
    os.unlink(f"{folder}/indexes/{NAME}/shards/{second}")
    with open(f"{folder}/indexes/{NAME}/a.example.usv", "wb") as file:
        file.write(rows[0])
    key = next(record for record in rows if hashlib.sha256(
        Acknowledged.fields.key_of(record)).hexdigest()[:2] not in (first[:2], second[:2])).split(b"\x1f")[0]
    later = rows + [US.encode().join([key, b"later", b"1999999999"])]
    found = index_audit.audit(Folder(folder), NAME, later,
                              writes=[("00", 2, "b"), ("00", 1, "a")]).figures
    wrong = {name: found[name] for name in ("shards damaged", "keys with a wrong winner",
                                            "entries of others left", "tokens that fell")}
    tell(set(wrong.values()) == {1} and found["keys lost"] > 1,
         "the audit notices a flipped byte, a lost shard, a stale record, an entry left, a token that fell",
         repr(found))


def read_all(bucket, rows):
    wanted = winners(rows, Acknowledged.fields)
    export = bucket.must("-q", "index", "export", NAME, "--format", "usv")
    tell(sorted(line for line in export.split(b"\n") if line) == sorted(wanted.values()),
         "export shows exactly the newest record of each key")
    told = bucket.must("-q", "index", "count", NAME).split()
    tell(told and told[0] == str(len(wanted)).encode(), f"count says {len(wanted)}", repr(told))


def story(bucket, options, place):
    ours, others = make_records(options.entries, options.keys)
    rows = [record for _, record in ours + others]
    bucket.must("-q", "index", "create", NAME, "--fields", ",".join(FIELDS), "--key", FIELDS[0],
                "--time", FIELDS[2])
    crew = Crew(bucket, options.compilers, options.ttl)
    took, kills, reader, watcher = chaos(bucket, options, ours, others, Acknowledged(), crew)
    died = crew.dead()
    tell(not died, "no compiler ends by itself", "".join("".join(one.last_words) for one in died))
    wrong = crew.dismiss()
    tell(not wrong, "told to end, compilers end with status 0", "".join("".join(one.last_words) for one in wrong))
    say(f"{len(rows)} entries ({len(others)} of another program) of {options.keys} keys, "
        f"{options.compilers} compilers, {WRITERS} writers, {kills} kills in {took:.1f} s, "
        f"{reader.reads} keys read")
    requests, folded = crew.requests(), crew.total("entries")
    say(f"entries read by compilers {folded}, requests an entry "
        f"{sum(requests.values()) / max(folded, 1):.2f} (looking for work too): "
        + ", ".join(f"{kind} {number}" for kind, number in requests.most_common()))
    times = crew.takeovers()
    say(f"takeovers of locks of the dead: {len(times)}" +
        (f", {times[0]:.1f} to {times[-1]:.1f} s, median {times[len(times) // 2]:.1f} s" if times else ""))
    tell(len(times) > 0 or kills < 20, "kills hit compilers that had a lock, and others took over")
    judge_chains(crew)
    audit(bucket, rows, watcher, place)
    expect_noticed(bucket, rows, place)
    read_all(bucket, rows)


def count_requests(bucket, relayed, relay, counts):
    """What the gateway itself is asked when one shard with so many entries is compiled by a process that
    knows nothing yet."""
    bucket.must("-q", "index", "create", NAME, "--fields", ",".join(FIELDS), "--key", FIELDS[0],
                "--time", FIELDS[2], "--no-foreign")
    relayed.must("-q", "index", "status", NAME)  # the first who comes that way probes the store
    bucket.must("release", bucket.must("acquire", "--no-wait", "first").decode().strip())  # makes the epoch
    mates = (key for key in map(key_name, range(10**9))
             if hashlib.sha256(key.encode()).hexdigest().startswith("a3"))
    for entries in (200, 1000):
        rows = [US.join([next(mates), "value", str(START)]) + "\n" for _ in range(entries)]
        bucket.must("-q", "index", "put", NAME, "--from", "-", "--format", "usv",
                    stdin="".join(rows).encode())
        before = relay.requests
        relayed.must("-q", "index", "compile", NAME, "--shard", "a3")
        counts[entries] = relay.requests - before


def judge_counts(counts, bound):
    for entries, requests in counts.items():
        each = requests / entries
        say(f"{entries} entries of one shard: {requests} requests, {each:.3f} a record")
        tell(each <= bound, f"{entries} entries of a shard take at most {bound} requests each")


def on_site(site, options):
    """The story; where requests can be counted, that is done beside it, in its long waits."""
    counters, counts = Crowd(), {}
    if site.behind:
        relayed, relay = site.behind("count", lambda endpoint: ceph_kit.Relay("127.0.0.1", endpoint))
        counters.start(count_requests, site.bucket("count"), relayed, relay, counts)
    story(site.bucket("chaos"), options, site.folder)
    if site.behind:
        finished = counters.join(PATIENCE)
        tell(finished and not counters.trouble, "all requests are counted", "\n".join(counters.trouble))
        judge_counts(counts, REQUESTS_AN_ENTRY[options.store])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=["sqlite", "dir", "dir-without-sync", "ceph", "azurite"])
    parser.add_argument("--compilers", type=int, default=8)
    parser.add_argument("--entries", type=int, default=50000)
    parser.add_argument("--keys", type=int, default=20000)
    parser.add_argument("--seconds", type=float, default=20, help="for so long writers write, at least")
    parser.add_argument("--kill-every", type=float, default=0.5, help="seconds")
    parser.add_argument("--ttl", type=float, default=3, help="of the compilers' locks, in seconds")
    parser.add_argument("--quick", action="store_true",
                        help="2,500 entries, on a server 1,000; 4 s, a kill every 0.4 s, a ttl of 1 s")
    options = parser.parse_args()
    if options.quick:
        options.entries, options.keys = (1000, 400) if options.store in ("ceph", "azurite") else (2500, 1000)
        options.seconds, options.kill_every, options.ttl = 4, 0.4, 1
    return chaos_kit.play(lambda site: on_site(site, options), options.store)


if __name__ == "__main__":
    sys.exit(main())

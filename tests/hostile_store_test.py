#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hostile_store_test.py: a store that lies: about conditions, about what it holds, about time, or in
how it answers. docs/security.md says against which lies there is no help; here is what holds all the
same: a command ends in time, never says OK of what was not done, and loses nothing that was there.

    hostile_store_test.py [full]

In full each strange answer is tried on more commands. Prints TAP. The store is that of hostile_kit.py.
"""

import concurrent.futures
import datetime
import gzip
import hashlib
import itertools
import json
import os
import sys
import time

import cases
import s3_fake
from cli_test import equal, true
from hostile_kit import FORMAT, Answer, Bucket, Lab

cases.cases.clear()
cases.SIDE_BY_SIDE = 16  # they wait, mostly
FULL = sys.argv[1:] == ["full"]

TABLE = "default/meta/job.json"


def it(sentence):
    def register(function):
        cases.add("a store that lies: " + sentence, function, Lab)
        return function

    return register


def without(request, *names):
    """The same request as if these conditions were not in it."""
    for name in names:
        request.headers.pop(name, None)


def etag_of(data):
    return f'"{hashlib.md5(data).hexdigest()}"'


def lying(which, answer):
    """A lie about the requests that `which` is true of: `answer` gets what is true, to change it."""
    def lie(connection, request):
        if not which(request):
            return False
        found = Answer(request)
        answer(found, request)
        found.send(connection)
        return True

    return lie


def at_once(function, rows):
    """Calls it for each row, all at the same time; raises what any of them did."""
    with concurrent.futures.ThreadPoolExecutor(len(rows)) as pool:
        list(pool.map(lambda row: function(*row), rows))


def reads_of(pattern):
    return lambda request: request.method == "GET" and request.key != "" and pattern in request.key


# ---- Conditions -----------------------------------------------------------------------------------


def ignores(*names, of=lambda request: True):
    def lie(connection, request):
        if request.method in ("PUT", "DELETE", "POST") and of(request):
            without(request, *names)
        return False

    return lie


def every_second():
    count = itertools.count()
    return lambda request: next(count) % 2 == 1


@it("one that ignores conditions, or one kind of them, or every second one, is refused, and nothing starts")
def _(s):
    for lie in (ignores("if-match", "if-none-match"), ignores("if-match"), ignores("if-none-match"),
                ignores("if-match", "if-none-match", of=every_second())):
        s.bucket.restore({})
        s.bucket.lie = lie
        status, _, said = s.attempt("run", "--no-wait", "job", "--", "touch", "started")
        equal(status, "UNSUPPORTED", said)
        true(not os.path.exists(s.file("started")), "nothing was started")
        equal(s.bucket.keys("default/"), [], "nothing was written")


@it("one that acknowledges writes and drops them is refused")
def _(s):
    s.bucket.lie = lambda connection, request: request.method == "PUT" and (
        connection.reply(200, headers={"ETag": etag_of(request.body)}) or True)
    true(s.attempt("run", "--no-wait", "job", "--", "touch", "started")[0] != "OK", "it passed")
    true(not os.path.exists(s.file("started")), "nothing was started")


@it("one that begins to ignore conditions once it was found good is found out by the next probe")
def _(s):
    s.run("run", "job", "--", "true")
    s.bucket.lie = ignores("if-match", "if-none-match")
    equal(s.attempt("store", "probe")[0], "UNSUPPORTED")
    equal(s.attempt("run", "job", "--", "touch", "started")[0], "UNSUPPORTED")
    verdict = json.loads(cases.unsealed(s.bucket.object(FORMAT)))
    verdict["verdicts"][0].update(usable=True, expires_at="2020-01-01T00:00:00.000Z")
    s.bucket.put(FORMAT, json.dumps(verdict).encode())
    equal(s.attempt("run", "job", "--", "touch", "started")[0], "UNSUPPORTED", "when it has expired")
    true(not os.path.exists(s.file("started")), "nothing was started")


@it("one that ignores conditions only where nobody probes still refuses a stale token, and shows a whole version")
def _(s):
    s.run("store", "probe", "-q")
    s.bucket.lie = ignores("if-match", "if-none-match", of=lambda r: ".holdfast" not in r.key)
    old = s.out("acquire", "--ttl", "1m", "writer").decode().strip()
    s.run("write", "-q", "--lock", old, "o", "-", stdin=b"first")
    s.run("locks", "break", "-q", "writer", "--reason", "test")
    s.run("write", "-q", "--wait", "20s", "--lock", "writer", "o", "-", stdin=b"later")
    status, _, said = s.attempt("write", "--lock", old, "o", "-", stdin=b"stale")
    true(status in ("FENCED", "LOST", "EXPIRED"), f"{status}: {said}")
    equal(s.out("read", "o"), b"later")


@it("if the store acknowledges a grant and drops it, the command is ended at the next renewal: LOST")
def _(s):
    s.run("run", "job", "--", "true")
    dropped = []

    def lie(connection, request):
        if request.method != "PUT" or request.key != TABLE or dropped:
            return False
        dropped.append(request.body)
        connection.reply(200, headers={"ETag": etag_of(request.body)})
        return True

    s.bucket.lie = lie
    status, _, said = s.attempt("run", "--no-wait", "--ttl", "3s", "job", "--", "sleep", "20")
    equal((status, len(dropped)), ("LOST", 1), said)


# ---- What it holds --------------------------------------------------------------------------------


@it("an old version of a table, however often it is sent, lets nobody in beside the holder")
def _(s):
    s.run("run", "job", "--", "true")
    old = s.bucket.object(TABLE)
    s.run("acquire", "--ttl", "1m", "job")
    held = s.bucket.object(TABLE)

    def stale(found, request):
        found.status, found.body = 200, old
        found.headers["ETag"] = etag_of(old)

    s.bucket.lie = lying(reads_of(TABLE), stale)
    status, _, said = s.attempt("run", "--no-wait", "job", "--", "touch", "started")
    true(status not in ("OK", "HELD"), f"{status}: {said}")
    true(not os.path.exists(s.file("started")), "nothing was started")
    equal(s.bucket.object(TABLE), held, "the table")
    turns = itertools.count()
    s.bucket.lie = lying(lambda r: reads_of(TABLE)(r) and next(turns) == 0, stale)
    equal(s.attempt("run", "--no-wait", "job", "--", "touch", "started")[0], "HELD")


@it("a table that comes cut, empty, packed or as an error lets nobody in beside the holder")
def _(s):
    for change in (lambda body: body[:len(body) // 2], lambda body: b"",
                   lambda body: gzip.compress(body),
                   lambda body: s3_fake.error("InternalError").encode()):
        s.bucket.lie = None
        s.run("acquire", "--ttl", "1m", "job")

        def damage(found, request, change=change):
            found.body = change(found.body) if found.status == 200 else found.body

        s.bucket.lie = lying(reads_of(TABLE), damage)
        status, _, said = s.attempt("run", "--no-wait", "job", "--", "touch", "started")
        true(status != "OK", f"{status}: {said}")
        true(not os.path.exists(s.file("started")), "nothing was started")
        for key in s.bucket.keys("default/meta/job"):
            s3_fake.OBJECTS.pop((s.bucket.name, key))


LIES = {"cut": lambda body: body[:len(body) // 2], "longer": lambda body: body + b"more",
        "empty": lambda body: b"", "of another object": lambda body: b"z" * len(body)}


def holds_no_lie(s, words, truth, pattern, what, lies=tuple(LIES)):
    """A reader is told the truth or an error, whatever body it gets under the right ETag."""
    for name in lies:
        change = LIES[name]

        def damage(found, request, change=change):
            found.body = change(found.body) if found.status in (200, 206) else found.body

        s.bucket.lie = lying(reads_of(pattern), damage)
        status, out, said = s.attempt(*words)
        if status == "OK":
            equal(out, truth, f"{what}, {name}")
        else:
            true(status in ("CORRUPT", "UNAVAILABLE"), f"{what}, {name}: {status} {said}")
    s.bucket.lie = None
    equal(s.attempt(*words)[1], truth, "without a lie")


@it("a large state that comes cut or longer, and a fenced body or shard that is another, is an error, not data")
def _(s):
    large = b"x" * 10000
    s.run("key", "update", "-q", "--take", "k", stdin=large)
    s.run("write", "-q", "--lock", "writer", "o", "-", stdin=large)
    s.run("index", "create", "-q", "i", "--fields", "k,v,t", "--key", "k", "--time", "t")
    s.run("index", "put", "-q", "i", "k=a", "v=1", "t=1")
    s.run("index", "compile", "-q", "i")
    holds_no_lie(s, ["key", "get", "k"], large, "/state/", "a state", ("cut", "longer", "empty"))
    holds_no_lie(s, ["read", "o"], large, "o.hf/", "a fenced body")
    row = s.out("index", "get", "i", "a")
    holds_no_lie(s, ["index", "get", "i", "a"], row, "/shards/", "a shard")


@it("chunks that come cut or as others lose no row: their group fails, and is merged when they are right")
def _(s):
    s.run("compact", "create", "-q", "--format", "usv", "--key", "1", "--level0-count", "2", "--step",
          "0", "--ttl", "1s", "--skew", "0", "--tries", "100")
    for name in ("x", "y"):
        s.write(name, f"{name}\x1f1\n".encode())
    s.run("compact", "ingest", "-q", "x", "y")
    for change in (lambda body: body[:1], lambda body: b"z\x1f1\n"):
        def damage(found, request, change=change):
            found.body = change(found.body) if found.status in (200, 206) else found.body

        s.bucket.lie = lying(reads_of("data/"), damage)
        s.attempt("compact", "run", "-q")
        s.bucket.lie = None
        rows = [s.get(json.loads(line)["key"]) for line in s.out("compact", "ls", "--json").splitlines()]
        equal(sorted(b"".join(rows).splitlines()), [b"x\x1f1", b"y\x1f1"], "rows")


@it("an ETag that is another one at each look, or weak, is no reason to believe anything or to go on for ever")
def _(s):
    count = itertools.count()

    def restless(found, request):
        if "ETag" in found.headers:
            found.headers["ETag"] = f'"{next(count)}"'

    def weak(found, request):
        if "ETag" in found.headers:
            found.headers["ETag"] = "W/" + found.headers["ETag"]

    def case(name, answer, known):
        bucket, started = Bucket(f"{s.bucket.name}-{name}"), s.file(name)
        if known:  # it begins to lie once it was found good
            equal(s.attempt("run", "job", "--", "true", bucket=bucket)[0], "OK")
        bucket.lie = lying(lambda r: r.method in ("GET", "PUT") and not (known and FORMAT in r.key),
                           answer)
        status, _, said = s.attempt("run", "--no-wait", "job", "--", "touch", started, bucket=bucket)
        true(status != "OK" and not os.path.exists(started), f"{name}: {status}: {said}")
        true(known or status == "UNSUPPORTED", f"{name}: {status}: {said}")

    at_once(case, [("restless", restless, False), ("weak", weak, False),
                   ("later-restless", restless, True), ("later-weak", weak, True)])


# ---- Listings -------------------------------------------------------------------------------------


def furnish(s):
    s.run("acquire", "--ttl", "1h", "job")
    s.run("key", "update", "-q", "--take", "k", stdin=b"y" * 10000)
    s.run("write", "-q", "--lock", "writer", "o", "-", stdin=b"y" * 10000)
    s.run("compact", "create", "-q", "--format", "usv", "--key", "1", "--level0-count", "2",
          "--step", "0")
    for name in ("x", "y"):
        s.write(name, f"{name}\x1f1\n".encode())
    s.run("compact", "ingest", "-q", "x", "y")
    s.run("index", "create", "-q", "i", "--fields", "k,v,t", "--key", "k", "--time", "t")
    for key in ("a", "b"):
        s.run("index", "put", "-q", "i", f"k={key}", "v=1", "t=1")
    s.bucket.put("outside/precious", b"ours")


def data_of(s):
    return (s.out("key", "get", "k"), s.out("read", "o"), s.out("index", "query", "i"),
            [json.loads(line)["key"] for line in s.out("compact", "ls", "--json").splitlines()],
            s.bucket.keys("data/"), s.bucket.object("outside/precious"),
            s.attempt("acquire", "--no-wait", "job")[0])


def listed(*keys, more=False):
    rows = "".join(f"<Contents><Key>{key}</Key><Size>1</Size><ETag>x</ETag>"
                   "<LastModified>2020-01-01T00:00:00.000Z</LastModified></Contents>" for key in keys)
    return (f"<ListBucketResult><IsTruncated>{'true' if more else 'false'}</IsTruncated>"
            "<NextContinuationToken>same</NextContinuationToken>" + rows + "</ListBucketResult>")


LISTINGS = {
    "with nothing in it": lambda request: listed(),
    "with a key outside of what was asked for": lambda request: listed("outside/precious"),
    "with a key twice": lambda request: listed(*[request.query["prefix"][0] + "x"] * 2),
    "out of order": lambda request: listed(*[request.query["prefix"][0] + x for x in "ba"]),
    "that never ends": lambda request: listed(request.query["prefix"][0] + "x", more=True),
    "of empty pages": lambda request: listed(more=True),
    "that is an error": lambda request: s3_fake.error("InternalError"),
    "that is no XML": lambda request: "a" * 5000,
}
LISTERS = ["locks ls", "key ls", "txn ls", "store ls -r", "store ls", "sweep --full", "sweep --once",
           "compact run", "compact fsck", "compact fsck --repair", "compact status", "index query i",
           "index compile --wait 0 i", "index status i", "elect ls g", "store restored",
           "store cp -r -q outside/ copy/"]


@it("no listing, whatever it leaves out, repeats or makes up, has a command delete what is data")
def _(s):
    furnish(s)
    before, objects = data_of(s), s.bucket.everything()
    for name, make in LISTINGS.items():
        s.bucket.restore(objects)
        for line in LISTERS:
            s.bucket.lie = lambda connection, request, make=make: "list-type" in request.query and (
                request.query.setdefault("prefix", [""]),
                connection.reply(200, make(request))) and True
            s.attempt(*line.split())
            s.bucket.lie = None
            if line.startswith("compact run"):  # merged: the keys are others
                s.bucket.restore({**objects})
        now = data_of(s)
        equal(now, before, f"a listing {name}")


# ---- Time -----------------------------------------------------------------------------------------


def dated(shift):
    """Replies that carry another date: `shift` in seconds, a function of the request's number."""
    def lie(connection, request):
        connection.shift = datetime.timedelta(seconds=shift(request.number))
        return False

    return lie


@it("dates that are wrong by years, or go back, let nobody in beside the holder")
def _(s):
    s.run("store", "probe", "-q")
    day = 86400
    for name, shift in (("years ago", lambda n: -9000 * day), ("years ahead", lambda n: 9000 * day),
                        ("back, ever further", lambda n: -n * 100)):
        s.bucket.lie = dated(shift)
        lease = s.out("acquire", "--no-wait", "--ttl", "1m", "job").decode().strip()
        equal(s.attempt("acquire", "--no-wait", "job")[0], "HELD", name)
        equal(s.attempt("run", "--wait", "1s", "job", "--", "true")[0], "TIMEOUT", name)
        s.run("release", "-q", lease)
        s.run("run", "--no-wait", "--ttl", "5s", "job", "--", "true")


# ---- How it answers -------------------------------------------------------------------------------


def raw(*pieces, pause=0.0):
    """Sends these bytes, whatever was asked."""
    def lie(connection, request):
        for piece in pieces:
            connection.send(piece)
            time.sleep(pause)
        raise s3_fake.Gone

    return lie


def endless_headers(connection, request):
    connection.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.send(b"X-Filler: " + b"x" * 8000 + b"\r\n")


def slow_body(connection, request):
    """A byte at a time, of a body that is announced as large."""
    connection.send(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 5000000\r\n\r\n')
    while True:
        connection.send(b"x")
        time.sleep(0.2)


def goes_in_circles(connection, request):
    connection.reply(307, headers={"Location": request.path})
    return True


ANSWERS = {
    "headers without an end": endless_headers,
    "a body that comes a byte at a time": slow_body,
    "a redirect to itself": goes_in_circles,
    "a header of a megabyte": raw(b'HTTP/1.1 200 OK\r\nETag: "' + b"x" * 1000000 + b'"\r\n\r\n'),
    "an ETag of 10,000 bytes": raw(b'HTTP/1.1 200 OK\r\nETag: "' + b"x" * 10000 +
                                   b'"\r\nContent-Length: 2\r\n\r\n{}'),
    "two lengths": raw(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 2\r\n'
                       b"Content-Length: 5\r\n\r\n{}"),
    "a length that is negative": raw(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: -1\r\n\r\n{}'),
    "a length and chunks": raw(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 90\r\n'
                               b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
    "HTTP/0.9": raw(b"{}"),
    "another protocol": raw(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "continue, again and again": raw(*[b"HTTP/1.1 100 Continue\r\n\r\n"] * 100),
    "a status of 99": raw(b"HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n"),
    "bytes that a terminal obeys": raw(b"HTTP/1.1 403 \x1b[2J\r\nContent-Length: 40\r\n\r\n"
                                       b"<Error><Message>\x1b]0;x\x07\x1b[2J</Message></"),
    "200 and an error": lambda connection, request: connection.reply(
        200, s3_fake.error("InternalError"), {"ETag": '"x"'}) or True,
    "200 and nothing": lambda connection, request: connection.reply(200) or True,
}
WORK = ["run --no-wait job -- touch started", "locks ls", "key get k", "store put k -", "store get k",
        "write --no-wait --lock l o -"]
MORE = ["acquire --no-wait job", "compact status", "index put i k=a", "sweep --once"]
ACKNOWLEDGED = ["a length and chunks"]  # a put that is answered so was accepted, as far as it tells
HARMLESS = ["locks ls", "store get k", "key get k", "sweep --once"]  # may find nothing, or what they get


def answer_case(name, lie):
    def case(s):
        s.run("store", "probe", "-q")
        good = s.bucket.everything()

        def attempt(line, first):
            bucket = s.bucket.twin(f"{s.bucket.name}-{line.split()[0]}-{line.split()[1].strip('-')}-{first}")
            bucket.lie = lambda connection, request: (
                request.number >= first and lie(connection, request))
            status, _, said = s.attempt(*line.split(), bucket=bucket, timeout="1s")
            believed = line in HARMLESS or (name in ACKNOWLEDGED and line.startswith("store put"))
            true(status != "OK" or believed, f"{line}: {said}")
            equal(bucket.keys(), list(good), "nothing was written")

        at_once(attempt, [(line, first) for first in (1, 2) for line in WORK + (MORE if FULL else [])
                          if FULL or first == 2 or line in WORK[:3]])
        true(not os.path.exists(s.file("started")), "nothing was started")

    cases.add(f"a store that lies: an answer that is {name} is an error, in time, and starts nothing",
              case, Lab)


for name_, lie_ in ANSWERS.items():
    answer_case(name_, lie_)


if __name__ == "__main__":
    sys.exit(cases.main())

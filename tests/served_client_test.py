#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""served_client_test.py: the program as a client of a server: queues, restarts of the server, tokens,
certificates, local sockets, and servers that send what no server sends.

Prints TAP. served_cli_test.py runs the cases of other programs on a server.
"""

import concurrent.futures
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import cases
import cli_test
import served_kit
from cli_test import PROGRAM, SANITIZED, code, equal, true, until

cases.cases.clear()
cases.SIDE_BY_SIDE *= 3  # they wait most of the time: the whole program needs 2 s of a processor

PATIENCE = 0.8  # seconds after Ctrl-C: a program that has not ended by then is ended by a timer
TTL = 6 if not SANITIZED else 12  # seconds: long enough for a loaded machine to renew


class Scratch(cli_test.Scratch):
    """A folder, and servers that are stopped with it."""

    def __init__(self):
        super().__init__(None)
        self.started, self.servers = [], []

    def serve(self, *options, **more):
        env = dict(self.env, **more.pop("env", {}))
        server = served_kit.Server("sqlite:" + self.file("store.db"), *options, env=env, **more)
        self.servers.append(server)
        self.env["HOLDFAST_STORE"] = server.url
        return server

    def wait(self, number, *args, **options):
        """A run that is the `number`th to wait at the server."""
        process = self.begin("run", "--wait", "2m", *args, **options)
        self.until_waiting(number)
        return process

    def until_waiting(self, number):
        until(lambda: metric(self.servers[-1], "holdfast_waiters") == number, f"{number} wait")

    def begin(self, *args, **options):
        process = self.start(*args, **options)
        self.started.append(process)
        return process

    def hold(self, *args):
        """A run that has the lock until it reads a line."""
        process = self.begin("run", *args, "--", "sh", "-c", "echo held; read -r x; exit 0",
                             stdin=subprocess.PIPE)
        equal(process.stdout.readline(), b"held\n", "the holder")
        return process

    def let_go(self, process, expect=0):
        process.stdin.write(b"\n")
        process.stdin.flush()
        equal(process.wait(60), expect, "the holder's exit status")

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
            if process.stdin and process.stdin.closed:
                process.stdin = None
            process.communicate()
        for server in self.servers:
            server.close()
        super().close()


def it(sentence):
    def register(function):
        cases.add(sentence, function, Scratch)
        return function

    return register


def metric(server, name):
    with urllib.request.urlopen(server.url + "/metrics", timeout=30) as reply:
        return int(re.search(rf"^{name} (\d+)$", reply.read().decode(), re.MULTILINE)[1])


def fails(s, status, *args, **options):
    done = s.run(*args, expect=code(s, status), **options)
    text = done.stderr.decode()
    true(re.match(r"holdfast: [^\n]*\b%s: [^\n]+\n$" % status, text), f"one sentence: {text!r}")
    return text


# ---- Waiting ------------------------------------------------------------------------------------


@it("those who wait at one server are served in the order in which they came")
def _(s):
    s.serve()
    holder = s.hold("x")
    waiters = [s.wait(number + 1, "x", "--", "sh", "-c", f"echo {number} $HOLDFAST_TOKEN >>order")
               for number in range(4)]
    s.let_go(holder)
    for waiter in waiters:
        equal(waiter.wait(60), 0)
    rows = [line.split() for line in s.read("order").decode().splitlines()]
    equal([int(number) for number, _ in rows], [0, 1, 2, 3])
    tokens = [int(token) for _, token in rows]
    equal(tokens, sorted(set(tokens)), "rising tokens")


@it("a signal ends a wait at a server, and whoever waits behind is not held up")
def _(s):
    s.serve()
    holder = s.hold("x")
    for number in (signal.SIGINT, signal.SIGTERM):
        waiter = s.wait(1, "x", "touch", "ran")
        second = s.wait(2, "x", "touch", f"second-{number}")
        waiter.send_signal(number)
        equal(waiter.wait(30), -number)
        s.let_go(holder)
        equal(second.wait(30), 0)
        holder = s.hold("x")
    s.let_go(holder)
    true(not os.path.exists(s.file("ran")), "the command was not started")
    s.run("run", "--no-wait", "x", "true")  # nothing is left behind


@it("a waiter that is interrupted has left the queue when its command ends, also over TLS")
def _(s):
    s.serve()
    over_tls = s.serve(*tls_options(s))
    s.env["HOLDFAST_CA_FILE"] = s.file("ca.pem")
    lease = s.out("acquire", "--ttl", "10m", "x").decode().strip()
    in_time = 0
    for server in s.servers * 3:
        s.env["HOLDFAST_STORE"] = server.url
        waiter = s.begin("acquire", "--wait", "2m", "x")
        until(lambda: waiters(s) == 1, "it waits")
        interrupted = time.monotonic()
        waiter.send_signal(signal.SIGINT)
        equal(waiter.wait(30), -signal.SIGINT)
        if time.monotonic() - interrupted < PATIENCE:
            equal(waiters(s), 0, f"waiters at {server.url}")
            in_time += 1
        until(lambda: waiters(s) == 0, "it has left")
    s.run("release", lease)
    true(over_tls.url.startswith("https:"), over_tls.url)
    true(in_time > 0, "the machine is too slow for this test")
    # Each wait was answered, once its place was given up, before its connection was closed.
    true(metric(s.servers[0], "holdfast_http_hang_ups_total") <= 6 - in_time, "hang-ups")


def waiters(s):
    return json.loads(s.out("locks", "ls", "--json"))["waiters"]


def seconds_of_wait(s):
    begun = time.monotonic()
    fails(s, "TIMEOUT", "run", "--wait", "300ms", "x", "true")
    return time.monotonic() - begun


@it("a wait is as long as it was asked to be")
def _(s):
    s.serve()
    lease = s.out("acquire", "--ttl", "10m", "x").decode().strip()
    # The machine may be busy, so the shortest of several runs counts.
    took = min(seconds_of_wait(s) for _ in range(5))
    true(0.3 <= took and (SANITIZED or took < 1.3), f"{took} s")
    fails(s, "HELD", "run", "--no-wait", "x", "true")
    s.run("release", lease)
    s.run("run", "--no-wait", "x", "true")


# ---- Restarts -----------------------------------------------------------------------------------


def renewals(s):
    return json.loads(s.out("locks", "ls", "--json"))["renewals"]


@it("a run goes on if its server is killed and is back before the lease ends")
def _(s):
    server = s.serve()
    holder = s.hold("--ttl", f"{TTL}s", "x")
    for _ in range(2):
        server.kill()
        server.start()
        before = renewals(s)
        until(lambda: renewals(s) > before, "the lease is renewed", 60)
        equal(holder.poll(), None, "it goes on")
    fails(s, "HELD", "run", "--no-wait", "x", "true")
    s.let_go(holder)
    s.run("run", "--no-wait", "x", "true")


@it("a run whose server stays away ends its command before the lease ends, and is LOST")
def _(s):
    server = s.serve()
    process = s.begin("run", "--ttl", "3s", "x", "--", "sh", "-c",
                      "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.02; done")
    equal(process.stdout.readline(), b"ready\n")
    begun = time.monotonic()
    server.kill()
    equal(process.stdout.readline(), b"asked\n")
    true(SANITIZED or time.monotonic() - begun < 3.2, "within the lease")
    equal(process.wait(60), code(s, "LOST"))
    server.start()
    s.run("run", "--wait", "60s", "x", "true")


@it("a wait goes on if the server is killed and is back, and so does one that finds none at first")
def _(s):
    server = s.serve()
    holder = s.hold("--ttl", f"{2 * TTL}s", "x")
    waiter = s.wait(1, "x", "touch", "ran")
    server.kill()
    late = s.begin("run", "--wait", "2m", "y", "--", "touch", "late")
    time.sleep(1)  # it finds no server
    equal(late.poll(), None, "it waits for a server")
    server.start()
    s.until_waiting(1)
    equal(waiter.poll(), None, "it still waits")
    s.let_go(holder)
    equal(waiter.wait(60), 0)
    equal(late.wait(60), 0)
    true(os.path.exists(s.file("ran")) and os.path.exists(s.file("late")), "both ran")


@it("a server that is not there is UNAVAILABLE, soon and in one sentence")
def _(s):
    with socket.socket() as nobody:  # bound, so that no other server gets the port, but not listening
        nobody.bind(("127.0.0.1", 0))
        s.env["HOLDFAST_STORE"] = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        begun = time.monotonic()
        text = fails(s, "UNAVAILABLE", "run", "--no-wait", "x", "true")
        true(time.monotonic() - begun < 30, "soon")
    true("connect" in text.lower(), text)


# ---- Who may ------------------------------------------------------------------------------------


def token_file(s, *lines):
    text = ""
    for name, token, rights in lines:
        digest = subprocess.run(["sha256sum"], input=token.encode(), stdout=subprocess.PIPE,
                                check=True).stdout.decode().split()[0]
        text += f"{name} {digest} {rights} *\n"
    s.write("tokens", text.encode())
    os.chmod(s.file("tokens"), 0o600)
    return "--tokens", s.file("tokens")


@it("a token comes from a file or a variable, and without the right one it is DENIED")
def _(s):
    secret, reader = "s3cret-" * 6, "reader-" * 6
    s.serve(*token_file(s, ("ci", secret, "lock,write"), ("eye", reader, "read")))
    url = s.env["HOLDFAST_STORE"]
    fails(s, "DENIED", "run", "x", "true")
    s.write("token", (secret + "\n").encode())
    s.run("run", "--store", f"{url}?token={s.file('token')}", "x", "true")
    s.env["HOLDFAST_SERVER_TOKEN"] = reader
    fails(s, "DENIED", "run", "x", "true")
    s.env["HOLDFAST_SERVER_TOKEN_FILE"] = s.file("token")  # before the variable
    s.run("run", "x", "true")
    del s.env["HOLDFAST_SERVER_TOKEN_FILE"]
    s.env["HOLDFAST_SERVER_TOKEN"] = secret
    s.run("run", "x", "true")
    s.run("run", "x", "--", PROGRAM, "run", "y", "true")  # whose fencing token is another variable
    for bad in ("two words", "line\nline", "x" * 2000):
        s.env["HOLDFAST_SERVER_TOKEN"] = bad
        text = fails(s, "INVALID", "run", "x", "true")
        true(bad[:8] not in text or bad == "x" * 2000, text)
    s.env["HOLDFAST_SERVER_TOKEN_FILE"] = s.file("nowhere")
    text = fails(s, "NOT_FOUND", "run", "x", "true")
    true("nowhere" in text, text)


@it("a server on another machine that is not encrypted is told of")
def _(s):
    for url, told in (("http://192.0.2.1:1", True), ("http://127.0.0.1:1", False),
                      ("http://localhost:1", False), ("https://192.0.2.1:1", False)):
        s.env["HOLDFAST_STORE"] = url
        process = s.begin("run", "--wait", "100ms", "x", "true")
        text = process.communicate()[1].decode()
        equal("is not encrypted" in text, told, f"{url}: {text}")


@it("a token stands in no argument, no message and no trace")
def _(s):
    secret = "s3cret-" * 6
    server = s.serve(*token_file(s, ("ci", secret, "lock,write,read")))
    s.env["HOLDFAST_SERVER_TOKEN"] = secret
    holder = s.begin("run", "--trace", "x", "--", "sh", "-c",
                     "echo held; read -r x", stdin=subprocess.PIPE)
    equal(holder.stdout.readline(), b"held\n")
    for pid in os.listdir("/proc"):
        if pid.isdigit() and int(pid) != os.getpid():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as words:
                    true(secret.encode() not in words.read(), f"process {pid}")
            except OSError:
                pass
    server.kill()
    holder.stdin.close()
    time.sleep(1)  # the release finds no server at first
    server.start()
    trace = holder.stderr.read().decode()
    true(secret not in trace, "the trace")
    true(re.search(r"^holdfast: put /v1/acquire -> OK \d+ bytes \S+, depth 1$", trace, re.MULTILINE), trace)
    true("put /v1/release -> " in trace, trace)


def certificates(s):
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=s.path, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for name in ("ca", "other"):
        openssl("req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2",
                "-subj", f"/CN={name}")
    for name in ("server", "client"):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        s.write("san", b"subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-out", f"{name}.pem", "-days", "2", "-extfile", "san")


def tls_options(s):
    certificates(s)
    return ["--tls-cert", s.file("server.pem"), "--tls-key", s.file("server.key")]


@it("over TLS the server must be the right one")
def _(s):
    s.serve(*tls_options(s))
    url = s.env["HOLDFAST_STORE"]
    true(url.startswith("https://"), url)
    fails(s, "UNAVAILABLE", "run", "--no-wait", "x", "true")
    fails(s, "UNAVAILABLE", "run", "--no-wait", "--store", f"{url}?ca={s.file('other.pem')}", "x", "true")
    s.run("run", "--store", f"{url}?ca={s.file('ca.pem')}", "x", "true")
    s.env["HOLDFAST_CA_FILE"] = s.file("ca.pem")
    s.run("run", "x", "true")


@it("over TLS a server may ask for a certificate of the client")
def _(s):
    s.serve(*tls_options(s), "--tls-client-ca", s.file("ca.pem"))
    s.env["HOLDFAST_CA_FILE"] = s.file("ca.pem")
    true(s.run("run", "--no-wait", "x", "true", expect=None).returncode != 0, "no certificate")
    s.env["HOLDFAST_CERT_FILE"] = s.file("client.pem")
    fails(s, "INVALID", "run", "x", "true")
    s.env["HOLDFAST_KEY_FILE"] = s.file("client.key")
    s.run("run", "x", "true")


def loads_libcurl(s, url):
    s.env["LD_DEBUG"] = "files"
    done = s.run("run", "--store", url, "x", "true", expect=None)
    text = done.stderr.decode(errors="replace")
    del s.env["LD_DEBUG"]
    equal(done.returncode, 0, text)
    true("libc.so" in text, "it tells what is loaded")
    return "libcurl" in text


@it("a local socket is as good as an address, and neither needs libcurl, which takes long to load")
def _(s):
    s.serve(*tls_options(s))
    equal(loads_libcurl(s, f"{s.env['HOLDFAST_STORE']}?ca={s.file('ca.pem')}"), True, "TLS")
    s.serve()
    equal(loads_libcurl(s, s.env["HOLDFAST_STORE"]), False, "an address")
    s.serve(listen="unix:" + s.file("sock"))
    s.env["HOLDFAST_STORE"] = "unix:" + s.file("sock")
    equal(loads_libcurl(s, s.env["HOLDFAST_STORE"]), False, "a local socket")
    lease = s.out("acquire", "x").decode().strip()
    fails(s, "HELD", "run", "--no-wait", "x", "true")
    s.run("release", lease)


# ---- Leases and keys ----------------------------------------------------------------------------


@it("the timeline of a lock is the server's: it knows what was released, by whom, and when")
def _(s):
    s.serve()
    for owner in ("one", "two"):
        lease = s.run("acquire", "--holder", owner, "deploy").stdout.split()[0].decode()
        s.run("release", lease)
    holder = s.hold("--holder", "three", "deploy")
    lines = s.run("locks", "timeline", "--json", "deploy").stdout.splitlines()
    holds = [json.loads(line) for line in lines]
    equal([(hold["token"], hold["owner"], hold["began"], hold.get("ended")) for hold in holds],
          [(1, "one", "grant", "release"), (2, "two", "grant", "release"), (3, "three", "grant", None)],
          "the holds")
    true("expires_at" in holds[2] and "ended_within_ms" not in holds[0], f"the times: {holds}")
    true(b"<svg" in s.run("locks", "timeline", "--svg", "deploy").stdout, "a picture")
    s.let_go(holder)
    told = s.run("locks", "timeline", "other").stdout
    true(b"its server lists no hold" in told, f"a lock that nobody had: {told}")
    fails(s, "INVALID", "locks", "timeline", "path:nowhere")


@it("a watch of a timeline shows what it read before its server was gone")
def _(s):
    server = s.serve()
    holder = s.hold("--holder", "one", "deploy")
    watch = s.begin("locks", "timeline", "--json", "--trace", "--for", "60s", "--interval", "50ms", "deploy")

    def told():
        return json.loads(watch.stderr.readline())

    for _ in range(3):
        equal(told()["status"], "OK")
    server.kill()
    until(lambda: "outcome" in told(), "the error is reported")
    watch.send_signal(signal.SIGINT)
    out = watch.communicate(timeout=60)[0]
    equal(watch.returncode, -signal.SIGINT)
    equal([json.loads(line)["owner"] for line in out.splitlines()], ["one"])
    holder.kill()


@it("a run within a run whose lease was broken at the server starts nothing, in every mode")
def _(s):
    s.serve()
    for mode in ([], ["--mode", "shared"], ["--slots", "2"]):
        again = " ".join(mode)
        done = s.run("run", "--ttl", "60s", *mode, "x", "sh", "-c",
                     '"$0" locks break -q x --reason test; '
                     f'"$0" run {again} x touch ran; echo $? > status; exit 5', PROGRAM, expect=code(s, "LOST"))
        equal((s.read("status"), os.path.exists(s.file("ran"))), (f"{code(s, 'LOST')}\n".encode(), False), again)
        true(b"the lease of the run around this one (token" in done.stderr, done.stderr)


@it("the lease of a server is no lease of a store, and the other way round")
def _(s):
    s.serve()
    store = "sqlite:" + s.file("store.db")
    path = s.out("acquire", "--ttl", "10m", "path:/a").decode().strip()
    true(re.fullmatch(r"\d+:[0-9a-f]{32}:default/scope/path:/a", path), path)
    fails(s, "MISMATCH", "release", path, "--store", store)
    name = s.out("acquire", "--ttl", "10m", "n").decode().strip()
    fails(s, "LOST", "release", name, "--store", store)
    own = s.out("acquire", "--ttl", "10m", "other", "--store", store).decode().strip()
    fails(s, "LOST", "renew", own)
    fails(s, "HELD", "run", "--no-wait", "other", "true")  # the same locks all the same
    fails(s, "HELD", "run", "--no-wait", "--store", store, "n", "true")
    s.run("release", path)
    s.run("release", name)
    s.run("release", own, "--store", store)


STRANGE_PATHS = ("/srv/my file", "/up/$(touch ran).csv", "/a;touch ran", "/a`touch ran`", "/it's", "/a\"b",
                 "/a\nb", "/a\\b", "/a\\\\nb", "/50%", "/a%20b", "/*", "/~&|<>(){}[]!#?", "/\x1b[2J", "/\u0085",
                 "/\u00e9\u65e5")


@it("the lease of any path is one word, which a shell and a terminal leave alone")
def _(s):
    s.serve()
    for path in STRANGE_PATHS:
        lease = s.out("acquire", f"path:{path}").decode()
        true(re.fullmatch(r"\d+:\w+:default/scope/[\w:/.%-]+\n", lease), lease)
        for command in ('holdfast renew -q $1', 'echo $1 | holdfast renew -q -', 'HOLDFAST_LEASE=$1 holdfast release'):
            subprocess.run(["sh", "-c", command, "sh", lease.strip()], cwd=s.path, env=s.env, check=True)
    equal(s.out("run", "path:/a b", "--", "holdfast", "run", "--no-wait", "path:/a b", "echo", "ran"), b"ran\n")


@it("what hold prints is one lease for a shell, whatever the path is, and runs nothing")
def _(s):
    s.serve()
    for path in STRANGE_PATHS:
        holder = s.begin("hold", f"path:{path}", stdin=subprocess.PIPE)
        lines = holder.stdout.read()
        done = subprocess.run(["sh", "-c", 'eval "$1"; exec holdfast renew -q "$HOLDFAST_LEASE"', "sh", lines],
                              cwd=s.path, env=s.env, stderr=subprocess.PIPE, check=False)
        equal((done.returncode, done.stderr), (0, b""), path)
        holder.stdin.close()
        equal(holder.wait(30), 0, path)
    true(not os.path.exists(s.file("ran")), "nothing ran")


@it("the form of a server's log comes from an option, a variable or the file, and a file is refused")
def _(s):
    s.env["HOLDFAST_STORE"] = "sqlite:store.db"
    serve = ("serve", "--listen", "127.0.0.1:0", "--for", "100ms")

    def log_of(*args):
        done = s.run(*serve, *args, expect=None)
        equal(done.returncode, 0, done.stderr)
        return [line.startswith(b"{") for line in done.stderr.splitlines()]

    true(not any(log_of()), "text by default")
    s.write("holdfast.conf", b"[defaults]\nlog = json\n")
    s.env["HOLDFAST_CONFIG"] = s.file("holdfast.conf")
    true(all(log_of()) and log_of(), "by the file")
    s.env["HOLDFAST_LOG"] = "text"
    true(not any(log_of()) and all(log_of("--log", "json")), "by the variable and the option")
    for name in ("text:log", "json:log"):
        s.env["HOLDFAST_LOG"] = name
        true("redirect stderr" in fails(s, "INVALID", *serve), name)
    s.env["HOLDFAST_LOG"] = ""
    true("redirect stderr" in fails(s, "INVALID", *serve, "--log", "json:log"), "as an option")
    s.write("holdfast.conf", b"[defaults]\nlog = text:" + s.file("log").encode() + b"\n")
    true("redirect stderr" in fails(s, "INVALID", *serve), "in the file")
    true(not os.path.exists(s.file("log")), "no log was created")


@it("the transactions of a server are listed by labels, because their ids are secret")
def _(s):
    s.serve()
    txn = json.loads(s.out("txn", "begin", "--json"))["txn"]
    listed = [json.loads(line) for line in s.out("txn", "ls", "--json").splitlines()]
    equal([(one["state"], one["txn"] == txn) for one in listed], [("pending", False)], "the list")
    true(txn.encode() not in s.out("txn", "ls", "--json"), "the id is nowhere")
    equal(s.out("txn", "ls", "--state", "commit", "--json"), b"", "those of another state")
    s.run("txn", "rollback", txn)
    equal(s.out("txn", "ls", "--state", "pending", "--json"), b"", "none is pending")


@it("what needs the bucket itself says so, and changes nothing")
def _(s):
    s.serve()
    for words in (["store", "ls"], ["store", "put", "k", "-"], ["sweep"],
                  ["acquire", "chunk:data/x"], ["acquire", "chunk:data/x", "chunk:data/y"],
                  ["compact", "status"], ["store", "probe"],
                  ["read", "k"], ["elect", "ls", "g"]):
        done = s.run(*words, expect=None)
        text = done.stderr.decode()
        equal(done.returncode, code(s, "UNSUPPORTED"), f"{words}: {text}")
        true("server" in text and "bucket itself" in text, f"{words}: {text}")


@it("a state of any size up to 64 MiB goes to a server and comes back, and a larger one is refused")
def _(s):
    s.serve()
    for size in (0, 1, 4096, 4097, 3 << 20):
        data = os.urandom(size)
        told = json.loads(s.out("key", "update", "--take", "--json", "k", stdin=data))
        equal(s.out("key", "get", "k"), data)
        info = json.loads(s.out("key", "get", "--info", "--json", "k"))
        equal((info["version"], info["etag"], info["size_bytes"]),
              (told["version"], told["etag"], size))
    s.run("key", "rm", "--take", "-q", "k")
    fails(s, "NOT_FOUND", "key", "get", "k")
    if not SANITIZED:
        with open(s.file("large"), "wb") as large:
            large.truncate((64 << 20) + 1)
        with open(s.file("large"), "rb") as large:
            done = subprocess.run([PROGRAM, "key", "update", "--take", "k"], stdin=large,
                                  cwd=s.path, env=s.env, stderr=subprocess.PIPE)
        equal(done.returncode, code(s, "INVALID"), done.stderr)


# ---- Servers that are none ----------------------------------------------------------------------


GOOD = {"namespace": "default", "key": "x", "owner": "o", "lease_id": "0123456789abcdef" * 2,
        "fencing_token": 7, "version": 0, "state_etag": "", "ttl_ms": 30000, "remaining_ms": 29000,
        "waited_ms": 0, "expires_at_unix": 1}


class StandIn:
    """A server that sends the same bytes to everybody, and counts the releases."""

    def __init__(self, reply):
        stand_in = self
        self.paths = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                stand_in.paths.append(self.path)
                self.wfile.write(reply(self.path))
                self.wfile.flush()
                self.close_connection = True

            def log_message(self, *ignored):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *ignored: None  # clients that hang up
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def http_reply(body, status="200 OK", length=None):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = len(body) if length is None else length
    return (f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\nConnection: close\r\n\r\n").encode() + body


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"

HOSTILE = [
    ("nothing", b""),
    ("no HTTP", b"hello\n"),
    ("half a head", b"HTTP/1.1 200 OK\r\nContent-"),
    ("half a body", http_reply(GOOD, length=4000)),
    ("no JSON", http_reply(b"<html>")),
    ("an array", http_reply(b"[]")),
    ("half of JSON", http_reply(json.dumps(GOOD).encode()[:-9])),
    ("no lease", http_reply({})),
    ("no lease id", http_reply({**GOOD, "lease_id": ""})),
    ("a long lease id", http_reply({**GOOD, "lease_id": "a" * 4000})),
    ("a lease id that ends a header", http_reply({**GOOD, "lease_id": "a\r\n" + "b" * 29})),
    ("a lease id of another type", http_reply({**GOOD, "lease_id": 7})),
    ("no token", http_reply({**GOOD, "fencing_token": 0})),
    ("a token below nothing", http_reply({**GOOD, "fencing_token": -1})),
    ("a token that is too large", http_reply(json.dumps(GOOD).replace(": 7", ": 99999999999999999999"
                                                                    ).encode())),
    ("a fraction", http_reply({**GOOD, "remaining_ms": 1.5})),
    ("less than nothing left", http_reply({**GOOD, "remaining_ms": -1})),
    ("a lease for ever", http_reply({**GOOD, "remaining_ms": 1 << 62})),
    ("a wait below nothing", http_reply({**GOOD, "waited_ms": -5})),
    ("a time after the last", http_reply({**GOOD, "expires_at_unix": 1 << 62})),
    ("a time before the first", http_reply({**GOOD, "updated_at_unix": -(1 << 62)})),
    ("deep JSON", http_reply(b'{"x":' * 5000 + b"1" + b"}" * 5000)),
    ("a flood", http_reply(b" " * (8 << 20))),
    ("an unknown refusal", http_reply({"error": "why"}, "500 Oops")),
    ("another web server", http_reply(b"<html>", "404 Not Found")),
    ("a head without end", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20000),
    ("a line without end", b"HTTP/1.1 200 OK\r\nA: " + b"b" * 200000),
    ("two lengths", http_reply(GOOD).replace(b"Content-Type", b"Content-Length: 9\r\nContent-Type")),
    ("a length and chunks", http_reply(GOOD).replace(b"Connection", b"Transfer-Encoding: chunked\r\nConnection")),
    ("no length", b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(GOOD).encode()),
    ("half a chunk", CHUNKED + b"FFF\r\n" + json.dumps(GOOD).encode()),
    ("a chunk of another size", CHUNKED + b"3\r\n" + json.dumps(GOOD).encode() + b"\r\n0\r\n\r\n"),
    ("chunks without end", CHUNKED + b"5\r\n     \r\n" * 100000),
    ("only interim replies", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    ("a redirect", b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
]


@it("no reply of a server that is none is taken for a lease, and the command is not started")
def _(s):
    known = [code(s, status) for status in ("UNSURE", "UNAVAILABLE", "UNSUPPORTED")]

    def ask(number):
        name, reply = HOSTILE[number]
        stand_in = StandIn(lambda path: reply)
        done = s.run("run", "--no-wait", "--store", stand_in.url, "x", "touch", f"ran-{number}", expect=None)
        stand_in.close()
        text = done.stderr.decode()
        true(done.returncode in known, f"{name}: {done.returncode} {text}")
        true(re.match(r"holdfast: run x: [A-Z]+: [^\n]+\n$", text), f"{name}: {text!r}")
        true(not os.path.exists(s.file(f"ran-{number}")), f"{name}: the command was not started")

    # They wait between attempts, most of the time.
    with concurrent.futures.ThreadPoolExecutor(len(HOSTILE)) as pool:
        list(pool.map(ask, range(len(HOSTILE))))


@it("a server cannot make a lease last longer than what was asked for")
def _(s):
    # The ttl is 4 s; the server says that an hour is left, and that it waited for another.
    stand_in = StandIn(lambda path: http_reply(
        {**GOOD, "ttl_ms": 3600000, "remaining_ms": 3600000, "waited_ms": 3600000}
        if path == "/v1/acquire" else {"error": "unavailable", "detail": "no"},
        "200 OK" if path == "/v1/acquire" else "503 Unavailable"))
    s.env["HOLDFAST_STORE"] = stand_in.url
    begun = time.monotonic()
    process = s.begin("run", "--ttl", "4s", "x", "--", "sh", "-c",
                      "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.02; done")
    equal(process.stdout.readline(), b"ready\n")
    equal(process.stdout.readline(), b"asked\n")
    true(SANITIZED or time.monotonic() - begun < 4.5, "it ended with the lease")
    equal(process.wait(60), code(s, "LOST"))
    stand_in.close()


@it("a release that got no reply, and is refused when it is repeated, is UNSURE and not LOST")
def _(s):
    releases = []

    def reply(path):
        if path != "/v1/release":
            return http_reply(GOOD)
        releases.append(path)
        # The server was started again, and does not know that it has released the lease.
        return b"" if len(releases) == 1 else http_reply({"error": "lease_expired"}, "403 Forbidden")

    stand_in = StandIn(reply)
    # A release may remain in doubt, because the lease expires on its own. A success must be recorded.
    for options, status in (([], 0), (["--once-per", "1h"], code(s, "UNSURE"))):
        releases.clear()
        done = s.run("run", "--store", stand_in.url, *options, "x", "true", expect=None)
        equal(done.returncode, status, options)
        true(b" UNSURE: " in done.stderr, done.stderr)
        equal(len(releases), 3, "with the one that was made in the background")
    stand_in.close()


if __name__ == "__main__":
    sys.exit(cases.main())

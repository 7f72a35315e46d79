#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_operator_test.py: what the operator of `holdfast serve` sees.

    serve_operator_test.py events|logs|metrics
"""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from serve_operator_kit import PROGRAM, SANITIZED, SECONDS_MAX, Server, write_tokens
from tap_kit import end, tell

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def expect(good, sentence, detail=""):
    tell(good, sentence, "" if good else detail)


# ---- Metrics ------------------------------------------------------------------------------------


def use(server, key, namespace="default"):
    """Acquires, renews and releases once; returns the lease id."""
    _, lease = server.post("/v1/acquire", key=key, namespace=namespace, owner="an-owner", ttl_seconds=30)
    for route in ("/v1/keepalive", "/v1/release"):
        server.post(route, key=key, namespace=namespace, lease_id=lease["lease_id"])
    return lease["lease_id"]


# The families of a page, by the parsers of Prometheus's own library, which belongs to Debian's Python.
FAMILIES = """
import json, sys
from prometheus_client import parser
from prometheus_client.openmetrics import parser as open_parser
pages = json.load(sys.stdin)
json.dump([sorted(family.name for family in reader.text_string_to_metric_families(page))
           for reader, page in zip((parser, open_parser), pages)], sys.stdout)
"""


def families_of(text, open_text):
    done = subprocess.run(["/usr/bin/python3", "-c", FAMILIES], input=json.dumps([text, open_text]),
                          capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else ([], done.stderr)


def test_formats(server):
    status, headers, text = server.get("/metrics")
    expect(status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4"),
         "without a wish, the metrics are in the Prometheus text format", text[:500])
    found = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True,
                           check=False)
    expect(found.returncode == 0 and not found.stderr, "promtool finds nothing to say about them",
         found.stdout + found.stderr)
    status, headers, open_text = server.get("/metrics", Accept=OPEN_METRICS)
    expect(headers["content-type"].startswith("application/openmetrics-text; version=1.0.0"),
         "a scraper that asks for OpenMetrics gets it")
    one, other = families_of(text, open_text)
    expect(one == other and len(one) > 40, "both formats have the same families", str(other))
    expect(server.ask("HEAD", "/metrics")[0] == 200 and server.ask("POST", "/metrics", "{}")[0] == 405,
         "the metrics can only be read")


def test_figures(server):
    before = server.metrics()
    use(server, "figures")
    status, refused = server.post("/v1/keepalive", key="figures", lease_id="0" * 32)
    server.post("/v1/acquire", key="twice-asked", request_id="once", block_seconds=-1)
    server.post("/v1/acquire", key="twice-asked", request_id="once", block_seconds=-1)
    server.get("/nowhere")
    now = server.metrics()

    def more(name):
        return now.get(name, 0) - before.get(name, 0)

    expected = {
        'holdfast_http_requests_total{route="acquire",code="200"}': 3,
        'holdfast_http_requests_total{route="keepalive",code="403"}': 1,
        'holdfast_http_requests_total{route="none",code="404"}': 1,
        'holdfast_http_request_duration_seconds_count{route="release",result="ok"}': 1,
        'holdfast_leases_granted_total': 2,
        'holdfast_lease_renewals_total': 1,
        'holdfast_leases_released_total': 1,
        'holdfast_leases_lost_total': 1,
        'holdfast_retries_total': 1,
    }
    for name, count in expected.items():
        expect(more(name) == count, f"{name} counts what was done", f"{more(name)} instead of {count}")
    expect(status == 403 and refused["error"] == "lease_expired", "a lease that ended is refused")
    puts = 'holdfast_store_requests_total{call="put",result="ok"}'
    expect(more(puts) >= 4, "requests to the store are counted by call and result", str(more(puts)))
    expect(now["holdfast_clock_interval_seconds"] == 0 if "holdfast_clock_interval_seconds" in now else False,
         "the clock of a local store is known exactly")
    expect(now["process_resident_memory_bytes"] > 1e6 and now["process_open_fds"] > 5 and
         now["process_cpu_seconds_total"] > 0 and now["process_max_fds"] >= 256,
         "the process shows its memory, descriptors and processor time")


def test_waiters(server):
    _, lease = server.post("/v1/acquire", key="crowd", ttl_seconds=60)
    waiting = [threading.Thread(target=server.post, args=("/v1/acquire",),
                                kwargs={"key": "crowd", "block_seconds": 30, "ttl_ms": 1000})
               for _ in range(3)]
    for one in waiting:
        one.start()
    seen = 0
    while seen < 3:
        seen = server.metrics()["holdfast_waiters"]
    expect(server.metrics()["holdfast_waited_for"] == 1, "waiters are shown while they wait")
    server.post("/v1/release", key="crowd", lease_id=lease["lease_id"])
    for one in waiting:
        one.join()
    expect(server.metrics()["holdfast_waiters"] == 0, "and not afterwards")


def test_labels(server):
    """Names that clients choose must not appear anywhere."""
    secrets = ["figures", "an-owner", "twice-asked", "crowd", "team-x", "nowhere", use(server, "k", namespace="team-x")]
    text = server.get("/metrics")[2]
    expect(not [name for name in secrets if name in text], "no label holds a name, an owner or an id",
         str([name for name in secrets if name in text]))
    values = set(re.findall(r'[{,](\w+)="([^"]*)"', text))
    odd = [value for value in values if value[0] not in ("le", "version") and not re.fullmatch(r"\w+", value[1])]
    expect(not odd, "every label is a plain word", str(odd))
    lines = len(text.splitlines())
    for number in range(300):
        server.get(f"/v1/get?key=many-{number}&public=1")
        server.get(f"/path-{number}")
    grown = len(server.get("/metrics")[2].splitlines()) - lines
    expect(grown < 60, "hundreds of keys and paths add no series", f"{grown} lines")


def test_timelines(server):
    """A timeline that cannot be read is not kept."""
    def ask(count, first):
        link = server.connection()
        statuses = set()
        for number in range(first, first + count):
            link.request("GET", f"/v1/timeline?scope=nonsense:{number:01000}")
            reply = link.getresponse()
            reply.read()
            statuses.add(reply.status)
        link.close()
        return statuses

    statuses = ask(1000, 0)
    before = server.metrics()["process_resident_memory_bytes"]
    statuses |= ask(8000, 1000)
    grown = server.metrics()["process_resident_memory_bytes"] - before
    expect(statuses == {400} and (grown < 4e6 or SANITIZED),
           "timelines of scopes that cannot be read cost no memory", f"{statuses}, {grown} bytes")


def test_many_namespaces(folder):
    """More namespaces than the server uses at the same time, while some are in use."""
    with Server(folder, store="sqlite:" + os.path.join(folder, "spaces.db")) as server:
        _, held = server.post("/v1/acquire", namespace="waits", key="k", ttl_seconds=60)
        _, kept = server.post("/v1/acquire", namespace="held", key="k", ttl_seconds=60)
        replies = []
        waiting = threading.Thread(target=lambda: replies.append(server.post(
            "/v1/acquire", namespace="waits", key="k", block_seconds=60, ttl_seconds=60)))
        waiting.start()
        reader = Reader(server, "?namespace=streams&kinds=granted")
        reader.next()
        while server.metrics()["holdfast_waiters"] == 0:
            time.sleep(0.01)
        granted = server.metrics()["holdfast_leases_granted_total"]
        statuses = {server.get(f"/v1/keys?namespace=ci-{number}")[0] for number in range(200)}
        statuses |= {server.get(f"/readyz?namespace=x-{number}")[0] for number in range(5)}
        names = json.loads(server.get("/v1/whoami")[2])["namespaces"]
        expect("default" in names and not any(name.startswith("x-") for name in names),
               "a request that needs no right chooses no namespace", f"{names}")
        figures = server.metrics()
        expect(statuses == {200} and figures["holdfast_namespaces"] == 64,
               "a namespace that nobody uses makes room for another one", f"{statuses}")
        expect(figures["holdfast_leases_granted_total"] == granted, "and its figures stay")
        expect(server.post("/v1/keepalive", namespace="held", key="k", lease_id=kept["lease_id"])[0] == 200,
               "and so do its leases")
        use(server, "shown", namespace="streams")
        expect(reader.next()[1] == "granted", "a namespace whose events are read stays")
        reader.close()
        server.post("/v1/release", namespace="waits", key="k", lease_id=held["lease_id"])
        waiting.join()
        expect(replies[0][0] == 200, "and so does one in which somebody waits")
        expect(server.stop() == 0, "and the server stops in order")


def test_many_waits(folder):
    """Waits in as many namespaces as the server uses, while somebody holds a lease in another one."""
    with Server(folder, store="sqlite:" + os.path.join(folder, "waits.db")) as server:
        _, kept = server.post("/v1/acquire", namespace="held", key="k", ttl_seconds=60)
        names = [f"ci-{number}" for number in range(64)]
        for name in names:
            server.post("/v1/acquire", namespace=name, key="k", ttl_seconds=60)
        readers = [Reader(server, f"?namespace={name}&kinds=granted") for name in names]
        for reader in readers:
            reader.next()
        statuses = [server.get("/v1/keys?namespace=other")[0],
                    server.post("/v1/keepalive", namespace="held", key="k", lease_id=kept["lease_id"])[0],
                    server.get("/readyz")[0],
                    server.post("/v1/release", namespace="held", key="k", lease_id=kept["lease_id"])[0]]
        expect(statuses == [503, 200, 200, 200], "whoever holds a lease can keep and release it, although the namespaces "
               "of others are all that a server uses", f"{statuses}")
        for reader in readers:
            reader.close()


def requests_of_store(server):
    return sum(value for name, value in server.metrics().items() if name.startswith("holdfast_store_requests_total"))


def test_abandoned_listings(folder):
    """Clients that ask for listings of many keys, and do not wait for them."""
    count = 300
    with Server(folder, store="sqlite:" + os.path.join(folder, "abandoned.db")) as server:
        link = server.connection()
        for number in range(300):
            link.request("POST", "/v1/acquire", json.dumps({"key": f"k{number}", "ttl_seconds": 600}),
                         {"Content-Type": "application/json"})
            link.getresponse().read()
        link.close()
        before = requests_of_store(server)
        server.get("/v1/keys?after=~")
        each, before = requests_of_store(server) - before, requests_of_store(server)
        for _ in range(count):
            link = server.connection()
            link.request("GET", "/v1/keys?after=~")
            link.close()
        while server.metrics()["holdfast_calls_under_way"] > 0:
            time.sleep(0.01)
        made = (requests_of_store(server) - before) / each
        expect(made < count / 2, "listings are not made for clients that have left", f"{made:.1f} of {count}")
        expect(server.stop() == 0, "and do not keep the server from stopping")


# ---- Rules and board ---------------------------------------------------------------------------


def exported_names():
    """The names of all samples that the server can export, with what the formats add to them."""
    with open(os.path.join(ROOT, "src", "serve", "metrics", "page.c"), encoding="utf-8") as file:
        source = file.read()
    found = set(re.findall(r'"((?:holdfast|process)_\w+)"', source))
    found |= {name + end for name in found for end in ("_total", "_bucket", "_sum", "_count")}
    return found


def samples_of(text):
    """Metrics in an expression, or in the samples of a page."""
    return set(re.findall(r"\b(?:holdfast|process)_\w+", text))


def as_rules(expressions):
    """A file of rules, because promtool checks no other expressions."""
    rules = [{"record": f"r:{i}", "expr": text.replace("$instance", ".*")} for i, text in enumerate(expressions)]
    return json.dumps({"groups": [{"name": "board", "rules": rules}]})


# Two servers with a label of their own, as from a target's configuration. One has many conflicts, and its store's
# time is not known.
SERIES = """
rule_files: [{rules}]
tests:
  - interval: 1m
    input_series:
      - {{series: 'up{{job="holdfast", instance="a", zone="x"}}', values: "1x60"}}
      - {{series: 'holdfast_conflicts_total{{job="holdfast", instance="a", zone="x"}}', values: "0+60x60"}}
      - {{series: 'holdfast_store_requests_total{{job="holdfast", instance="a", zone="x", call="put", result="ok"}}',
         values: "0+60x60"}}
      - {{series: 'up{{job="holdfast", instance="b", zone="x"}}', values: "1x60"}}
      - {{series: 'holdfast_conflicts_total{{job="holdfast", instance="b", zone="x"}}', values: "0+6x60"}}
      - {{series: 'holdfast_store_requests_total{{job="holdfast", instance="b", zone="x", call="put", result="ok"}}',
         values: "0+60x60"}}
      - {{series: 'holdfast_clock_interval_seconds{{job="holdfast", instance="b", zone="x"}}', values: "0.1x60"}}
    promql_expr_test:
      - {{expr: 'count by (alertname, instance) (ALERTS{{alertstate="firing"}})', eval_time: 50m, exp_samples: [
         {{labels: '{{alertname="HoldfastConflicts", instance="a"}}', value: 1}},
         {{labels: '{{alertname="HoldfastClockUncertain", instance="a"}}', value: 1}}]}}
"""


def test_alerts(folder, rules):
    path = os.path.join(folder, "alerts_test.yml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(SERIES.format(rules=rules))
    done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)
    expect(done.returncode == 0, "conflicts, and a store whose time is not known, raise an alert", done.stdout + done.stderr)


def test_rules(folder, server):
    rules, board = (os.path.join(ROOT, "docs", name) for name in ("alerts.yml", "grafana.json"))
    done = subprocess.run(["promtool", "check", "rules", rules], capture_output=True, text=True, check=False)
    expect(done.returncode == 0, "promtool accepts the alert rules", done.stdout + done.stderr)
    names, live = exported_names(), samples_of(server.get("/metrics")[2])
    expect(len(live) > 50 and not live - names, "every metric of a server is known by its name", str(live - names))
    with open(rules, encoding="utf-8") as file:
        used = samples_of(file.read())
    expect(len(used) > 10 and not used - names, "every metric of the alert rules is exported", str(used - names))
    with open(board, encoding="utf-8") as file:
        text = file.read()
    targets = [target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]]
    used = samples_of(text)
    expect(len(used) > 20 and not used - names, "and so is every metric of the board", str(used - names))
    test_alerts(folder, rules)
    path = os.path.join(folder, "board.yml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(as_rules(targets))
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, check=False)
    expect(done.returncode == 0, "promtool accepts the expressions of the board", done.stdout + done.stderr)


def test_rights(folder):
    tokens = write_tokens(folder, reader=("r" * 20, "read", "one"))
    with Server(folder, "--tokens", tokens) as server:
        expect(server.get("/metrics")[0] == 401, "with a token file, the metrics need a token")
        expect(server.get("/metrics", Authorization="Bearer " + "r" * 20)[0] == 200,
             "which may be one that may only read")


def test_metrics(folder):
    with Server(folder) as server:
        test_figures(server)
        test_formats(server)
        test_waiters(server)
        test_timelines(server)
        test_labels(server)
        test_rules(folder, server)
    test_rights(folder)
    test_many_namespaces(folder)
    test_many_waits(folder)
    test_abandoned_listings(folder)


# ---- Events -------------------------------------------------------------------------------------


class Reader:
    """Server-sent events over a plain socket. Each event is (id, kind, data)."""

    def __init__(self, server, query="", receive_bytes=None, **headers):
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", server.port))
        lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
        self.socket.sendall(f"GET /v1/events{query} HTTP/1.1\r\nHost: localhost\r\n"
                            f"{''.join(lines)}\r\n".encode())
        self.raw = self.socket.makefile("rb")
        self.status = int(self.raw.readline().split()[1])
        while self.raw.readline().strip():
            pass
        self.rest, self.comments = b"", 0

    def next(self):
        """The next event, or None at the end of the stream."""
        while True:
            while b"\n\n" not in self.rest:
                size = self.raw.readline().strip()
                if size in (b"", b"0"):
                    return None
                self.rest += self.raw.read(int(size, 16))
                self.raw.read(2)
            block, _, self.rest = self.rest.partition(b"\n\n")
            fields = dict(line.split(": ", 1) for line in block.decode().splitlines()
                          if not line.startswith(":"))
            if fields:
                return fields.get("id"), fields["event"], json.loads(fields["data"])
            self.comments += 1

    def until(self, kind):
        """All events up to and including one of this kind."""
        found = []
        while not found or found[-1][1] != kind:
            event = self.next()
            if event is None:
                raise RuntimeError(f"the stream ended before '{kind}': {found}")
            found.append(event)
        return found

    def close(self):
        self.raw.close()
        self.socket.close()


def test_event_kinds(server):
    reader = Reader(server)
    expect(reader.next()[1] == "open", "a stream begins with an event of its own")
    _, first = server.post("/v1/acquire", key="seen", owner="one", ttl_seconds=30)
    waiter = threading.Thread(target=server.post, args=("/v1/acquire",), kwargs={
        "key": "seen", "owner": "two", "block_seconds": 30, "ttl_ms": 1000})
    waiter.start()
    found = reader.until("wait_began")
    server.post("/v1/keepalive", key="seen", lease_id=first["lease_id"])
    server.post("/v1/release", key="seen", lease_id=first["lease_id"])
    waiter.join()
    found += reader.until("wait_ended")
    _, third = server.post("/v1/acquire", key="seen", owner="three", ttl_seconds=30, block_seconds=30)
    server.post("/v1/locks/break", key="seen", fencing_token=third["fencing_token"], reason="it must end")
    server.post("/v1/keepalive", key="seen", lease_id=third["lease_id"])
    found += reader.until("lease_lost")
    kinds = [kind for _, kind, _ in found]
    for kind in ("granted", "renewed", "released", "taken_over", "broken", "wait_began", "wait_ended"):
        expect(kind in kinds, f"'{kind}' is shown", str(found))
    data = {kind: data for _, kind, data in reversed(found)}
    expect(data["granted"]["scope"] == "named:seen" and data["granted"]["fencing_token"] == 1,
           "with the scope and the token", str(data["granted"]))
    for kind in ("granted", "renewed"):
        expect(data[kind]["owner"] == "one" and data[kind]["ttl_ms"] == 30000,
               f"the owner and the ttl of what was {kind}", str(data[kind]))
    expect(data["released"]["owner"] == "one" and data["released"]["scope"] == "named:seen",
           "the owner and the scope of what was released", str(data["released"]))
    expect(data["wait_ended"]["result"] == "granted" and data["wait_ended"]["owner"] == "two",
           "and the owner of a wait, and how it ended", str(data["wait_ended"]))
    secrets = [first["lease_id"], third["lease_id"]]
    expect(not [one for one in secrets if one in str(found)], "no event holds a lease id")
    numbers = [int(number.split("-")[1]) for number, _, _ in found]
    expect(numbers == sorted(set(numbers)), "the ids increase", str(numbers))
    reader.close()


def test_filter(server):
    granted, other = Reader(server, "?kinds=granted,broken"), Reader(server, "?namespace=other")
    use(server, "filtered")
    use(server, "elsewhere", namespace="other")
    use(server, "filtered-2")
    found = [granted.next() for _ in range(3)]
    expect([kind for _, kind, _ in found] == ["open", "granted", "granted"],
           "a reader can choose kinds", str(found))
    found = other.until("released")
    expect({data.get("namespace", "other") for _, _, data in found} == {"other"},
           "and gets only the events of its namespace", str(found))
    for one in (granted, other):
        one.close()
    status, _, text = server.get("/v1/events?kinds=granted,nonsense")
    expect(status == 400 and "nonsense" in text, "a kind that does not exist is refused", text)
    expect(server.get("/v1/events?kinds=request")[0] == 400, "and so is one that is never shown")
    expect(server.ask("HEAD", "/v1/events")[0] == 200, "HEAD begins no stream")


def test_resume(server):
    reader = Reader(server)
    last = reader.next()[0]
    use(server, "resumed")
    last = reader.until("granted")[-1][0]
    reader.close()
    use(server, "missed")
    again = Reader(server, Last_Event_ID=last)
    kinds = [kind for _, kind, _ in again.until("released") + again.until("released")]
    expect(kinds == ["open", "renewed", "released", "granted", "renewed", "released"],
           "a reader that comes again gets what it missed, and nothing twice", str(kinds))
    again.close()
    again = Reader(server, Last_Event_ID="00000000-5")
    found = again.next(), again.next()
    expect(found[1][1:] == ("lost", {"count": None}),
           "after a restart it is told that it may have missed something", str(found))
    again.close()


def flood(server, count):
    """So many events of more than a kilobyte, which need no write to the store."""
    link = server.connection()
    body = json.dumps({"key": "k" * 100, "owner": "o" * 1000, "lease_id": "0" * 32})
    for _ in range(count):
        link.request("POST", "/v1/keepalive", body, {"Content-Type": "application/json"})
        link.getresponse().read()
    link.close()


def test_slow_reader(server):
    count = 4000
    before = server.metrics()["process_resident_memory_bytes"]
    quick, slow = Reader(server, "?kinds=lease_lost"), Reader(server, "?kinds=lease_lost,broken", 4096)
    seen = []
    watch = threading.Thread(target=lambda: [seen.append(quick.next()) for _ in range(count + 1)])
    watch.start()
    flood(server, count)
    watch.join()
    lost = [data for _, kind, data in seen if kind == "lost"]
    expect(not lost and len(seen) == count + 1, "a reader that keeps up loses nothing", str(lost))
    grown = server.metrics()["process_resident_memory_bytes"] - before
    expect(grown < 16e6 or SANITIZED, "one that does not read costs a bounded amount of memory", f"{grown} bytes")
    _, lease = server.post("/v1/acquire", key="last")
    server.post("/v1/locks/break", key="last", fencing_token=lease["fencing_token"], reason="the end")
    found = slow.until("broken")
    got = sum(kind == "lease_lost" for _, kind, _ in found)
    lost = sum(data["count"] for _, kind, data in found if kind == "lost")
    expect(lost > 0 and got + lost == count, "and is told exactly how many events it lost",
           f"{got} received, {lost} lost, {count} in all")
    for one in (quick, slow):
        one.close()


def test_slow_reader_of_busy_server(server):
    """Turns of the loop that follow each other quickly, and have no events."""
    count, told, done = 4000, 0, threading.Event()
    slow = Reader(server, "?kinds=lease_lost", 4096)
    slow.next()
    flood(server, count)

    def keep_busy():
        link = server.connection()
        while not done.wait(0.01):
            link.request("GET", "/healthz")
            link.getresponse().read()
        link.close()

    busy = threading.Thread(target=keep_busy)
    busy.start()
    begun = time.monotonic()
    while told < count:
        _, kind, data = slow.next()
        told += data["count"] if kind == "lost" else 1
    took = time.monotonic() - begun
    done.set()
    busy.join()
    slow.close()
    expect(took < 12, "a slow reader of a busy server does not wait for the next heartbeat", f"{took:.1f} s")


def test_stream_limits(folder):
    tokens = write_tokens(folder, one=("1" * 20, "read", "one"), two=("2" * 20, "lock,admin", "two"))
    with Server(folder, "--tokens", tokens) as server:
        for token, space, expected in (("1", "one", 200), ("1", "two", 403), ("2", "two", 200), ("3", "one", 401)):
            reader = Reader(server, f"?namespace={space}", Authorization="Bearer " + token * 20)
            expect(reader.status == expected, f"token {token} gets {expected} for namespace {space}",
                   str(reader.status))
            reader.close()
        reader = Reader(server, "?namespace=one", Authorization="Bearer " + "1" * 20)
        reader.next()
        write_tokens(folder, two=("2" * 20, "lock,admin", "two"))
        server.process.send_signal(signal.SIGHUP)
        expect(reader.next()[1] == "reload" and reader.next() is None,
               "new tokens end all streams, so that their readers are checked again")
        reader.close()
        many = [Reader(server, "?namespace=two", Authorization="Bearer " + "2" * 20) for _ in range(65)]
        expect([one.status for one in many] == [200] * 64 + [503], "at most 64 clients read events")
        for one in many:
            one.close()
        reader = Reader(server, "?namespace=two", Authorization="Bearer " + "2" * 20)
        reader.next()
        expect(server.stop() == 0 and reader.next()[1] == "stopping" and reader.next() is None,
               "a stop ends streams, and does not wait for them")
        reader.close()


def test_events(folder):
    with Server(folder) as server:
        test_event_kinds(server)
        test_filter(server)
        test_resume(server)
        test_slow_reader(server)
        test_slow_reader_of_busy_server(server)
    test_stream_limits(folder)


# ---- Logs ---------------------------------------------------------------------------------------

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_formats_of_log(folder):
    with Server(folder, "--log", "json", "--log-requests", "all") as server:
        use(server, "logged")
        server.get("/nowhere?lease=secret")
        server.stop()
    lines = [json.loads(line) for line in server.log if line != "(ended)"]
    routes = [line["route"] for line in lines if line["message"] == "request"]
    expect(routes == ["acquire", "keepalive", "release", "none"], "each request is one line of JSON", str(lines))
    expect(all(line["at"].endswith("Z") for line in lines), "and so is everything else that the server says")
    with Server(folder, "--log-requests", "failed") as server:
        use(server, "logged")
        server.get("/nowhere")
        server.stop()
    found = [line for line in server.log if " ms" in line]
    expect(len(found) == 1 and "404 not_found" in found[0], "only failed requests, if that is wanted", str(server.log))
    with Server(folder) as server:
        use(server, "logged")
        server.get("/nowhere")
        server.stop()
    expect(not [line for line in server.log if " ms" in line], "and none by default", str(server.log))


def test_trace(folder):
    with Server(folder, "--log", "json", "--log-requests", "all") as server:
        headers = server.get("/v1/locks", traceparent=TRACE)[1]
        expect(headers.get("traceparent") == TRACE, "a trace context is sent back", str(headers))
        headers = server.get("/v1/locks", traceparent=TRACE.upper())[1]
        expect("traceparent" not in headers, "but not one that is not valid", str(headers))
        link = server.connection()
        link.putrequest("GET", "/v1/locks")
        for _ in range(2):
            link.putheader("traceparent", TRACE)
        link.endheaders()
        expect(link.getresponse().status == 400, "and two of them are refused")
        server.stop()
    ids = [json.loads(line).get("trace_id") for line in server.log if '"request"' in line]
    expect(ids == [TRACE.split("-")[1], None], "a valid one is in the log", str(ids))


def test_audit(folder):
    path = os.path.join(folder, "audit.log")
    tokens = write_tokens(folder, ci=("c" * 20, "lock,write", "jobs"), boss=("b" * 20, "admin", "*"))
    ci, boss = {"Authorization": "Bearer " + "c" * 20}, {"Authorization": "Bearer " + "b" * 20}
    with Server(folder, "--tokens", tokens, "--audit", path) as server:
        _, lease = server.post("/v1/acquire", ci, namespace="jobs", key="db", owner="nightly", ttl_seconds=30)
        server.post("/v1/acquire", ci, namespace="jobs", key="db", block_seconds=-1)
        server.post("/v1/keepalive", ci, namespace="jobs", key="db", lease_id=lease["lease_id"])
        server.ask("POST", "/v1/update?namespace=jobs&key=db", "a secret state",
                   {**ci, "X-Lease-ID": lease["lease_id"]})
        server.get("/v1/describe?namespace=jobs&key=db", **ci)
        server.post("/v1/release", ci, namespace="jobs", key="db", lease_id=lease["lease_id"])
        server.post("/v1/acquire", ci, namespace="others", key="db")
        server.post("/v1/acquire", namespace="jobs", key="db")
        os.rename(path, path + ".1")
        server.process.send_signal(signal.SIGHUP)
        while not os.path.exists(path):
            time.sleep(0.01)
        _, lease = server.post("/v1/acquire", ci, namespace="jobs", key="db", ttl_seconds=30)
        server.post("/v1/locks/break", boss, namespace="jobs", key="db", reason="stuck",
                    fencing_token=lease["fencing_token"])
        figures = server.metrics(**boss)
    first, second = lines_of(path + ".1"), lines_of(path)
    found = [(line["route"], line.get("who"), line["result"], line["namespace"]) for line in first]
    expect(found == [("acquire", "ci", "ok", "jobs"), ("update", "ci", "ok", "jobs"), ("release", "ci", "ok", "jobs"),
                     ("acquire", "ci", "forbidden", "others"), ("acquire", None, "unauthorized", "jobs")],
           "the audit log has grants, changes, releases and what clients may not do", str(first))
    expect(first[0]["owner"] == "nightly" and first[0]["scope"] == "named:db" and first[0]["fencing_token"] == 1,
           "with the owner, the scope and the token", str(first[0]))
    found = [(line["route"], line["who"], line.get("reason"), line["fencing_token"]) for line in second]
    expect(found == [("acquire", "ci", None, 2), ("locks_break", "boss", "stuck", 2)],
           "SIGHUP opens the file again", str(second))
    expect(figures["holdfast_audit_failures_total"] == 0, "all lines were written")


def test_audit_of_long_names(folder):
    path = os.path.join(folder, "long-names.log")
    tokens = write_tokens(folder, ci=("c" * 20, "lock,write", "jobs"), boss=("b" * 20, "admin", "*"))
    ci, boss = {"Authorization": "Bearer " + "c" * 20}, {"Authorization": "Bearer " + "b" * 20}
    text = "\1" * 1024
    with Server(folder, "--tokens", tokens, "--audit", path) as server:
        _, begun = server.post("/v1/txn/begin", ci, namespace="jobs")
        long_names = {"scope": "path:/" + "\1" * 1018, "owner": text, "reason": text}
        server.post("/v1/txn/commit", ci, namespace="jobs", txn_id=begun["txn_id"], **long_names)
        server.post("/v1/txn/commit", ci, namespace=text, txn_id=begun["txn_id"], **long_names)
        figures = server.metrics(**boss)
    found = [(line["route"], line["result"]) for line in lines_of(path)]
    expect(found == [("txn_begin", "ok"), ("txn_commit", "ok"), ("txn_commit", "forbidden")] and
           figures["holdfast_audit_failures_total"] == 0, "no names are too long for the audit log", str(found))


def send_and_leave(server, target, body, headers):
    """A client that does not wait for its reply."""
    link = server.connection()
    link.request("POST", target, body, headers)
    link.close()


def test_audit_of_hang_ups(folder):
    path = os.path.join(folder, "hung-up.log")
    tokens = write_tokens(folder, ci=("c" * 20, "lock,write", "*"), boss=("b" * 20, "admin", "*"))
    ci, boss = {"Authorization": "Bearer " + "c" * 20}, {"Authorization": "Bearer " + "b" * 20}
    with Server(folder, "--tokens", tokens, "--audit", path) as server:
        _, held = server.post("/v1/acquire", ci, key="held", ttl_seconds=60)
        _, state = server.post("/v1/acquire", ci, key="state", ttl_seconds=60)
        _, begun = server.post("/v1/txn/begin", ci)
        wishes = [("locks_break", "held", boss, {"fencing_token": held["fencing_token"], "reason": "stuck"}),
                  ("release", "state", ci, {"lease_id": state["lease_id"]}),
                  ("txn_commit", None, ci, {"txn_id": begun["txn_id"]}),
                  ("acquire", "held", ci, {"block_seconds": 60}),
                  ("keepalive", "state", ci, {"lease_id": state["lease_id"]})]
        before = len(lines_of(path))
        reader = Reader(server, "?kinds=broken", **ci)
        reader.next()
        store = sqlite3.connect(server.store.partition(":")[2], isolation_level=None)
        store.execute("BEGIN IMMEDIATE")  # nothing is written until its end
        for route, key, who, members in wishes:
            body = json.dumps({**members, **({"key": key} if key else {})})
            send_and_leave(server, f"/v1/{route.replace('_', '/')}", body, {**who, "Content-Type": "application/json"})
            name = f'holdfast_http_request_duration_seconds_count{{route="{route}",result="hung_up"}}'
            while not server.metrics(**ci).get(name):
                time.sleep(0.01)
        store.execute("ROLLBACK")
        store.close()
        while server.post("/v1/keepalive", ci, key="held", lease_id=held["lease_id"])[0] == 200:
            time.sleep(0.01)
        broken = reader.next()
        reader.close()
        ends = [json.loads(server.get(f"/v1/timeline?key={key}", **ci)[2])["holds"][0]["ended"]
                for key in ("held", "state")]
    found = [(line["route"], line["who"], line["result"]) for line in lines_of(path)[before:]]
    expect(found == [("locks_break", "boss", "hung_up"), ("release", "ci", "hung_up"), ("txn_commit", "ci", "hung_up")],
           "a change is in the audit log even if its client does not wait for the reply; a grant is given back",
           str(found))
    expect(broken[1] == "broken" and broken[2]["reason"] == "stuck" and ends == ["break", "release"],
           "and in the events and the timeline", f"{broken} {ends}")


def attack(server, secrets):
    """Uses the secrets in all places where a client sends them, right and wrong."""
    good = {"Authorization": "Bearer " + secrets["token"], "traceparent": TRACE}
    bad = {"Authorization": "Bearer " + secrets["wrong_token"], "Cookie": secrets["cookie"]}
    _, lease = server.post("/v1/acquire", good, key="k", owner="o", ttl_seconds=60, request_id=secrets["request"])
    secrets["lease"] = lease["lease_id"]
    held = {**good, "X-Lease-ID": secrets["lease"], "X-Request-ID": secrets["request"] + "2"}
    server.ask("POST", "/v1/update?key=k", secrets["state"], held)
    server.ask("GET", "/v1/get?key=k", headers=held)
    server.ask("GET", "/v1/get?key=k", headers={**held, "X-Fencing-Token": "99"})
    server.ask("POST", "/v1/update?key=k", secrets["state"], {**held, "X-If-Version": "77", "X-Request-ID": ""})
    server.ask("POST", "/v1/update?key=k", secrets["state"], {**bad, "X-Lease-ID": secrets["lease"]})
    server.post("/v1/acquire", bad, key="k", request_id=secrets["request"])
    server.post("/v1/acquire", good, key="other", request_id=secrets["request"])
    server.ask("POST", "/v1/acquire", '{"key":"k","lease_id":"' + secrets["lease"] + '", broken', good)
    server.ask("POST", "/v1/keepalive", secrets["state"], {**good, "Content-Type": "application/json"})
    server.ask("GET", f"/v1/get?key=k&token={secrets['query']}&lease_id={secrets['lease']}", headers=good)
    server.ask("GET", f"/{secrets['query']}", headers=good)
    for route in ("/v1/keepalive", "/v1/release"):
        server.post(route, good, key="k", lease_id=secrets["lease"])
        server.post(route, good, key="k", lease_id=secrets["lease"], fencing_token=99)
    _, begun = server.post("/v1/txn/begin", good)
    if "txn_id" in begun:
        secrets["txn"] = begun["txn_id"]
        server.post("/v1/acquire", good, key="in-txn", txn_id=begun["txn_id"], ttl_seconds=60)
        server.post("/v1/txn/commit", good, txn_id=begun["txn_id"])
        server.post("/v1/txn/commit", bad, txn_id=begun["txn_id"])
    raw = socket.create_connection(("127.0.0.1", server.port))
    raw.sendall(f"GET / HTTP/1.1\r\nAuthorization: Bearer {secrets['token']}\r\n\r\n".encode())
    raw.recv(4096)
    raw.close()


def test_secrets(folder):
    """Nothing that the server writes holds a secret, whatever clients send and however it ends."""
    secrets = {name: f"secret{name.replace('_', '')}" + os.urandom(12).hex() for name in
               ("token", "wrong_token", "cookie", "request", "state", "query")}
    tokens = write_tokens(folder, all=(secrets["token"], "admin", "*"))
    path = os.path.join(folder, "secrets.log")
    written = ""
    for style in ("json", "text"):
        options = ("--tokens", tokens, "--audit", path, "--log", style, "--log-requests", "all")
        with Server(folder, *options) as server:
            good = {"Authorization": "Bearer " + secrets["token"]}
            reader = Reader(server, **good)
            attack(server, secrets)
            written += server.get("/metrics", **good)[2]
            reader.socket.settimeout(5)
            server.stop()
            while event := reader.next():
                written += str(event)
            reader.close()
        written += "\n".join(server.log)
        if style == "json":
            leases = [secrets.pop("lease"), secrets.pop("txn", None)]
    with open(path, encoding="utf-8") as file:
        written += file.read()
    expect(len(written) > 20000 and "acquire" in written, "a run leaves logs, metrics, events and an audit log")
    hidden = [*secrets.values(), *filter(None, leases)]
    found = [secret for secret in hidden if secret in written]
    expect(len(hidden) > 6 and not found, "none of them holds a secret", str(found))


def test_rate(folder):
    tokens = write_tokens(folder, one=("1" * 20, "lock,write", "*"), two=("2" * 20, "lock", "*"))
    one, two = ({"Authorization": "Bearer " + number * 20} for number in "12")
    with Server(folder, "--rate", "1:8", "--tokens", tokens) as server:
        _, lease = server.post("/v1/acquire", one, key="k", ttl_seconds=60)
        replies = [server.get("/v1/locks", **one) for _ in range(30)]
        refused = [reply for reply in replies if reply[0] == 429]
        expect(len(refused) >= 15, "a client that sends too many requests gets 429",
               str([reply[0] for reply in replies]))
        expect(int(refused[0][1]["retry-after"]) >= 1 and json.loads(refused[0][2])["error"] == "too_many",
               "with Retry-After", str(refused[0]))
        expect(server.post("/v1/keepalive", one, key="k", lease_id=lease["lease_id"])[0] == 200 and
               server.post("/v1/release", one, key="k", lease_id=lease["lease_id"])[0] == 200,
               "but it can still renew and release what it holds")
        expect(server.get("/v1/locks", **two)[0] == 200, "and another client is not affected")
        statuses = [server.get("/v1/locks", Authorization="Bearer " + f"{n:020}")[0] for n in range(20)]
        expect(statuses[:5] == [401] * 5 and 429 in statuses, "nobody can try many tokens", str(statuses))
        expect(all(server.get("/healthz")[0] == 200 for _ in range(20)), "health checks have no limit")


def begin_body(server, target, size, headers=None, body=b""):
    """The reply to the head of a POST, and as much of its body as this: (status, word), or None."""
    lines = [f"POST {target} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {size}",
             *(f"{name}: {value}" for name, value in (headers or {}).items())]
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS_MAX) as link:
        link.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        if size > len(body):
            link.settimeout(5)
        data = b""
        try:
            while b"}" not in data.partition(b"\r\n\r\n")[2]:
                data += link.recv(10000) or b"}}\r\n\r\n}"
        except TimeoutError:
            return None
    head, _, text = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(text).get("error", "ok")


def test_bodies(folder):
    mib = 1 << 20
    path = os.path.join(folder, "bodies.log")
    tokens = write_tokens(folder, jobs=("j" * 20, "lock,write", "jobs"), all=("a" * 20, "write", "*"))
    jobs, all_spaces = ({"Authorization": "Bearer " + letter * 20} for letter in "ja")
    with Server(folder, "--tokens", tokens, "--audit", path) as server:
        cases = [
            ("/v1/update?key=k", 64 * mib, {}, (401, "unauthorized")),
            ("/v1/update?key=k", 64 * mib, jobs, (403, "forbidden")),
            ("/v1/update?namespace=jobs&key=shard:i/0", 64 * mib, jobs, (403, "forbidden")),
            ("/v1/update?namespace=jobs&key=k", 64 * mib + 1, jobs, (413, "too_large")),
            ("/v1/update?namespace=jobs&key=k", 64 * mib, jobs, None),
            ("/v1/acquire", mib, {}, (401, "unauthorized")),
            ("/v1/acquire", mib, jobs, None),
            ("/v1/acquire", mib + 1, jobs, (413, "too_large")),
            ("/v1/locks/break", mib, jobs, (403, "forbidden")),
            ("/v1/index/put", mib, jobs, (403, "forbidden")),
            ("/v1/index/put", 8 * mib, all_spaces, None),
            ("/v1/index/put", 8 * mib + 1, all_spaces, (413, "too_large")),
            ("/healthz", mib, {}, (405, "wrong_method")),
            ("/nothing", mib, jobs, (404, "not_found")),
        ]
        with ThreadPoolExecutor(len(cases)) as pool:
            found = list(pool.map(lambda case: begin_body(server, *case[:3]), cases))
        wrong = [(case[0], case[1], reply) for case, reply in zip(cases, found) if reply != case[3]]
        expect(not wrong, "a large body is read only from a client that may send it, and to what needs it", str(wrong))
        figures = server.metrics(**jobs)
        count = figures['holdfast_http_requests_total{route="update",code="401"}']
        routes = [(line["route"], line["result"]) for line in lines_of(path)]
        expect(count == 1 and ("update", "unauthorized") in routes and ("index_put", "forbidden") in routes,
               "a refusal is counted, and in the audit log", f"{count} {routes}")
        state = os.urandom(2 * mib)
        _, lease = server.post("/v1/acquire", jobs, namespace="jobs", key="k", ttl_seconds=600)
        own = {**jobs, "X-Lease-ID": lease["lease_id"]}
        done = server.ask("POST", "/v1/update?namespace=jobs&key=k", state, own)[0]
        long = "\u00e4" * 170  # six bytes each, as JSON
        scopes = [f"path:/{i}/{long}" for i in range(64)]
        many = server.post("/v1/acquire", jobs, namespace="jobs", scopes=scopes)
        expect(done == 200 and many[0] == 200, "such bodies arrive", f"{done} {many}")
    with Server(folder, "--rate", "1:8", "--tokens", tokens) as server:
        guesses = [begin_body(server, "/v1/update?key=k", mib, {"Authorization": f"Bearer {n:020}"}) for n in range(20)]
        expect(guesses[:5] == [(401, "unauthorized")] * 5 and (429, "too_many") in guesses,
               "nobody can try many tokens with large bodies", str(guesses))
        replies = [begin_body(server, "/v1/txn/commit", 100000, all_spaces, b"{".ljust(100000))[0]
                   for _ in range(8)]
        expect(replies == [400] * 8, "a request with a large body counts once", str(replies))


def test_options(folder):
    for options, word in ((("--log", "xml"), "--log"), (("--log-requests", "some"), "--log-requests"),
                          (("--rate", "many"), "not a rate"), (("--audit", "/nowhere/audit"), "/nowhere/audit")):
        done = subprocess.run([PROGRAM, "--store", "mem:", "--listen", "127.0.0.1:0", *options],
                              capture_output=True, text=True, timeout=60, check=False)
        expect(done.returncode != 0 and word in done.stderr, f"{' '.join(options)} is refused", done.stderr)


def test_logs(folder):
    test_formats_of_log(folder)
    test_trace(folder)
    test_audit(folder)
    test_audit_of_long_names(folder)
    test_audit_of_hang_ups(folder)
    test_secrets(folder)
    test_rate(folder)
    test_bodies(folder)
    test_options(folder)


def main():
    tests = {"events": test_events, "logs": test_logs, "metrics": test_metrics}
    with tempfile.TemporaryDirectory() as folder:
        tests[sys.argv[1]](folder)
    return end()


if __name__ == "__main__":
    sys.exit(main())

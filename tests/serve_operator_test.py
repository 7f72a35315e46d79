#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_operator_test.py: what the operator of `holdfast serve` sees.

    serve_operator_test.py metrics
"""

import json
import re
import subprocess
import sys
import tempfile
import threading

from serve_operator_kit import Server, write_tokens
from tap_kit import end, tell

OPEN_METRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def expect(good, sentence, detail=""):
    tell(good, sentence, "" if good else detail)


# ---- Metrics ------------------------------------------------------------------------------------


def use(server, key, **members):
    """Acquires, renews and releases once; returns the lease id."""
    _, lease = server.post("/v1/acquire", key=key, owner="an-owner", ttl_seconds=30, **members)
    server.post("/v1/keepalive", key=key, lease_id=lease["lease_id"])
    server.post("/v1/release", key=key, lease_id=lease["lease_id"])
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
        test_labels(server)
    test_rights(folder)


def main():
    tests = {"metrics": test_metrics}
    with tempfile.TemporaryDirectory() as folder:
        tests[sys.argv[1]](folder)
    return end()


if __name__ == "__main__":
    sys.exit(main())

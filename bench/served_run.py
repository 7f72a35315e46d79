#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""served_run.py: how long one command under a lock takes, through a server: `holdfast run x true`
beside `etcdctl lock x true`, both durable on the same disk, in interleaved rounds of one run.

    served_run.py [--rounds N] [--build FOLDER]

Prints the median of each round, and the ratio of the two with its spread. The bar is a quarter of etcd.
etcd and etcdctl are Debian's (etcd-server, etcd-client).
"""

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

RUNS = 15  # per round and program


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_etcd(folder):
    client, peer = free_port(), free_port()
    url, peer_url = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    process = subprocess.Popen(
        ["etcd", "--data-dir", os.path.join(folder, "etcd"), "--listen-client-urls", url,
         "--advertise-client-urls", url, "--listen-peer-urls", peer_url,
         "--initial-advertise-peer-urls", peer_url, "--initial-cluster", f"default={peer_url}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=dict(os.environ, ETCD_UNSUPPORTED_ARCH="arm64"))
    environment = dict(os.environ, ETCDCTL_API="3", ETCDCTL_ENDPOINTS=url)
    for _ in range(300):
        if subprocess.run(["etcdctl", "endpoint", "health"], env=environment,
                          capture_output=True).returncode == 0:
            return process, environment
        time.sleep(0.1)
    raise SystemExit("etcd did not start")


def start_server(folder, program):
    process = subprocess.Popen([program, "--store", "sqlite:" + os.path.join(folder, "locks.db"),
                                "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE)
    line = process.stderr.readline().decode()
    return process, dict(os.environ, HOLDFAST_STORE=line.split()[-1])


def median_ms(command, environment):
    times = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--build", default="build-bench")
    given = options.parse_args()
    for program in ("etcd", "etcdctl"):
        if not shutil.which(program):
            raise SystemExit(f"{program} is missing: install Debian's etcd-server and etcd-client")
    holdfast = os.path.join(given.build, "src/cli/holdfast")
    serve = os.path.join(given.build, "src/serve/holdfast-serve")
    folder = tempfile.mkdtemp(prefix="holdfast-bench-")
    started = []
    try:
        etcd, etcd_environment = start_etcd(folder)
        started.append(etcd)
        server, our_environment = start_server(folder, serve)
        started.append(server)
        ours = [holdfast, "run", "x", "true"]
        theirs = ["etcdctl", "lock", "x", "true"]
        median_ms(ours, our_environment), median_ms(theirs, etcd_environment)  # warm up
        ratios = []
        for number in range(given.rounds):
            mine, other = median_ms(ours, our_environment), median_ms(theirs, etcd_environment)
            ratios.append(mine / other)
            print(f"round {number + 1}: holdfast run {mine:.1f} ms, etcdctl lock {other:.1f} ms, "
                  f"ratio {mine / other:.2f}", flush=True)
        print(f"ratio: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to "
              f"{max(ratios):.2f} (bar: 0.25)")
    finally:
        for process in started:
            process.terminate()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

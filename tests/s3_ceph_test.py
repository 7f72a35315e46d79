#!/usr/bin/env python3
"""s3_ceph_test.py: the s3 store on a real Ceph RADOS gateway, and on a server that only looks
like S3.

Prints TAP. Starts a cluster with two gateways and s3rver on loopback in a scratch folder, runs
against them the contract of all stores, the race of processes, the faults of s3_trouble_test and
the probe, and stops them by pid. Where a server cannot be started that is a failure.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TESTS = os.path.dirname(os.path.abspath(__file__))
SERVERS = os.path.join(TESTS, "servers")
PROGRAMS = os.environ["HOLDFAST_TEST_PROGRAMS"]
HOLDFAST = os.environ["HOLDFAST_PROGRAM"]

count = 0
failures = 0


def tell(good, sentence, detail=""):
    global count, failures
    count += 1
    failures += not good
    print(f"{'ok' if good else 'not ok'} {count} - {sentence}", flush=True)
    for line in detail.splitlines():
        print(f"# {line}", flush=True)


def run_program(name, arguments, env, label, seconds):
    """Runs a test program and passes its lines on under numbers of our own."""
    command = [os.path.join(PROGRAMS, name)] + arguments
    start = time.monotonic()
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds)
    seen = 0
    for line in (result.stdout + result.stderr).splitlines():
        match = re.match(r"(not )?ok \d+ - (.*)", line)
        if match:
            seen += 1
            tell(not match[1], f"{label}: {match[2]}")
        elif not line.startswith("1.."):
            print("# " + line.lstrip("# "), flush=True)
    print(f"# {label} took {time.monotonic() - start:.1f} s", flush=True)
    if seen == 0 or (result.returncode != 0 and failures == 0):
        tell(False, f"{label} runs to its end", f"exit status {result.returncode}")


def probe(env, url):
    return subprocess.run([HOLDFAST, "store", "probe", "--store", url], env=env,
                          capture_output=True, text=True, timeout=60)


def check_probes(env, ceph, s3rver):
    result = probe(env, f"s3://holdfast-test/probe?endpoint={ceph}")
    output = result.stdout + result.stderr
    tell(result.returncode == 0 and "bare, without quotes" in output,
         "the probe accepts Ceph and finds out how it wants ETags", output)
    env = dict(env, AWS_ACCESS_KEY_ID="S3RVER", AWS_SECRET_ACCESS_KEY="S3RVER")
    result = probe(env, f"s3://holdfast-test/probe?endpoint={s3rver}")
    output = result.stdout + result.stderr
    tell(result.returncode == 87 and "put if absent" in output,
         "the probe refuses a store that ignores conditions, and names what failed", output)


def check_versioning(env, ceph):
    """Where a bucket keeps versions, this Ceph ignores conditions: refused, with the reason."""
    body = ("<VersioningConfiguration xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
            "<Status>Enabled</Status></VersioningConfiguration>")
    for path, text in [("/versioned", ""), ("/versioned?versioning=", body)]:
        subprocess.run(["curl", "-sf", "--noproxy", "*", "-X", "PUT", "--data", text,
                        "-H", "Content-Type: application/xml",
                        "-H", "x-amz-content-sha256: " + hashlib.sha256(text.encode()).hexdigest(),
                        "--user", "holdfast-access:holdfast-secret",
                        "--aws-sigv4", "aws:amz:us-east-1:s3", ceph + path],
                       check=True, timeout=30)
    result = probe(env, f"s3://versioned?endpoint={ceph}")
    output = result.stdout + result.stderr
    tell(result.returncode == 87 and "put if absent" in output and "version" in output,
         "the probe refuses a bucket that keeps versions and so ignores conditions", output)


def check_copy(env, ceph, scratch):
    """From plain files to the gateway, on to SQLite, and back into plain files: the same."""
    stores = [f"dir:{scratch}/from", f"s3://holdfast-test/copies?endpoint={ceph}",
              f"sqlite:{scratch}/copy.db", f"dir:{scratch}/back"]
    for i in range(40):
        folder = os.path.join(scratch, "from", f"f{i % 4}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"o{i}"), "wb") as file:
            file.write(os.urandom(1 + i * 5000))

    def copy(source, target):
        result = subprocess.run([HOLDFAST, "--json", "store", "cp", "-r", "--from", source,
                                 "--to", target], env=env, capture_output=True, text=True,
                                timeout=60)
        last = (result.stdout.splitlines() or ["{}"])[-1]
        return result.returncode, json.loads(last), result.stderr

    outcomes = [copy(a, b) for a, b in zip(stores, stores[1:])]
    same = subprocess.run(["diff", "-r", "-x", "%*", f"{scratch}/from", f"{scratch}/back"],
                          capture_output=True, text=True)
    tell(all(o[0] == 0 and o[1].get("objects_copied") == 40 for o in outcomes) and
         same.returncode == 0, "a copy from files to Ceph to SQLite and back is the same",
         str(outcomes) + same.stdout)
    subprocess.run([HOLDFAST, "--store", stores[1], "store", "rm", "f0/o0", "f1/o1"], env=env,
                   check=True, timeout=60)
    code, totals, why = copy(stores[0], stores[1])
    tell(code == 0 and totals.get("objects_copied") == 2 and totals.get("objects_equal") == 38,
         "a copy to Ceph that was broken off goes on where it was", f"{totals} {why}")


def main():
    scratch = tempfile.mkdtemp(prefix="holdfast-ceph-")
    ceph, s3rver = os.path.join(scratch, "ceph"), os.path.join(scratch, "s3rver")
    env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    env.update(AWS_ACCESS_KEY_ID="holdfast-access", AWS_SECRET_ACCESS_KEY="holdfast-secret",
               AWS_EC2_METADATA_DISABLED="true", HOME=scratch, HOLDFAST_CEPH=ceph,
               HOLDFAST_TESTS=TESTS, CMOCKA_MESSAGE_OUTPUT="TAP")
    try:
        subprocess.run([os.path.join(SERVERS, "ceph-up"), ceph, "2"], check=True, timeout=120)
        subprocess.run([os.path.join(SERVERS, "s3rver-up"), s3rver], check=True, timeout=60)
        first = open(os.path.join(ceph, "endpoint-1")).read().strip()
        other = open(os.path.join(s3rver, "endpoint")).read().strip()
        env["HOLDFAST_TEST_URL"] = f"s3://holdfast-test?endpoint={first}&connections=64"
        check_probes(env, first, other)
        check_versioning(env, first)
        check_copy(env, first, scratch)
        run_program("store_test", ["url"], env, "contract", 120)
        run_program("process_race_test", ["url"], env, "processes", 120)
        env.setdefault("HOLDFAST_TEST_ROUNDS", "20")
        run_program("s3_trouble_test", [], env, "trouble", 120)
    except (OSError, subprocess.SubprocessError) as problem:
        tell(False, "the servers start and the programs end in time", str(problem))
    finally:
        pid_file = os.path.join(s3rver, "pid")
        if os.path.exists(pid_file):
            os.kill(int(open(pid_file).read()), signal.SIGTERM)
        if os.path.isdir(ceph):
            subprocess.run([os.path.join(SERVERS, "ceph-down"), ceph], timeout=60)
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"1..{count}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

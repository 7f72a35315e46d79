#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""s3_ceph_test.py: the s3 store on a real Ceph RADOS gateway, and on a server that only looks
like S3.

    s3_ceph_test.py calm        the probe, copies, the contract of all stores, the race of processes
    s3_ceph_test.py calm long   the same with 200 rounds of each race, not 50
    s3_ceph_test.py trouble     s3_trouble_test, which stops and kills daemons

Prints TAP. `calm` uses the cluster of this test run, or starts one (ceph_kit.py), and starts s3rver
on loopback in a scratch folder; `trouble` starts a cluster with two gateways of its own. Where a
server cannot be started that is a failure.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import ceph_kit
import tap_kit
from tap_kit import run_program, tell

TESTS = os.path.dirname(os.path.abspath(__file__))
HOLDFAST = os.environ["HOLDFAST_PROGRAM"]


def probe(env, url):
    return subprocess.run([HOLDFAST, "store", "probe", "--store", url], env=env,
                          capture_output=True, text=True, timeout=60)


def check_probes(bucket, s3rver):
    result = probe(bucket.environment, bucket.url("probe", parameters=""))
    output = result.stdout + result.stderr
    tell(result.returncode == 0 and "bare, without quotes" in output and
         "conditional upload in parts   not honoured" in output,
         "the probe accepts Ceph, finds out how it wants ETags, and that it completes uploads in any case",
         output)
    env = dict(bucket.environment, AWS_ACCESS_KEY_ID="S3RVER", AWS_SECRET_ACCESS_KEY="S3RVER")
    result = probe(env, f"s3://holdfast-test/probe?endpoint={s3rver}")
    output = result.stdout + result.stderr
    tell(result.returncode == 87 and "put if absent" in output,
         "the probe refuses a store that ignores conditions, and names what failed", output)


def keep_versions(ceph, bucket):
    ceph.put(f"/{bucket.name}?versioning=",
             "<VersioningConfiguration xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
             "<Status>Enabled</Status></VersioningConfiguration>")


def check_versioning(ceph):
    """Where a bucket keeps versions, this Ceph ignores conditions: refused, with the reason."""
    bucket = ceph.bucket("versioned")
    keep_versions(ceph, bucket)
    result = probe(ceph.environment, bucket.url(parameters=""))
    output = result.stdout + result.stderr
    tell(result.returncode == 87 and "put if absent" in output and "version" in output,
         "the probe refuses a bucket that keeps versions and so ignores conditions", output)
    result = subprocess.run([HOLDFAST, "--trace", "run", "job", "--store", bucket.url(parameters=""),
                             "--", "false"], env=ceph.environment, capture_output=True, text=True,
                            timeout=60)
    asked = [line for line in result.stderr.splitlines() if "->" in line]
    tell(result.returncode == 87 and len(asked) == 1 and "get .holdfast/format.json" in asked[0],
         "so does every command, by one get", result.stderr)


def check_versioning_of_a_held_lock(ceph, scratch):
    """From then on this Ceph refuses each put with If-Match, so the lock cannot be released."""
    bucket, go = ceph.bucket("held"), os.path.join(scratch, "go")
    run = subprocess.Popen([HOLDFAST, "--trace", "run", "job", "--store", bucket.url(parameters=""), "--",
                            "sh", "-c", f"echo held; while [ ! -e {go} ]; do sleep 0.1; done; exit 3"],
                           env=ceph.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        run.stdout.readline()
        keep_versions(ceph, bucket)
        open(go, "w", encoding="utf-8").close()
        errors = run.communicate(timeout=60)[1]
    finally:
        run.kill()
        run.wait()
    refused = sum("put default/meta/job.json" in line and "CONFLICT" in line for line in errors.splitlines())
    tell(run.returncode == 3 and "UNSURE" in errors and "the bucket keeps versions now" in errors and
         1 <= refused <= 8,
         "a run whose bucket begins to keep versions says so when it releases, after a few requests",
         f"exit {run.returncode}, {refused} refused\n{errors[-3000:]}")


def check_late_versioning(ceph):
    """The document with the verdict is older than the versions of the bucket, so it has none."""
    bucket = ceph.bucket("late")
    results = []
    for name in ("before", "after"):
        results.append(subprocess.run([HOLDFAST, "run", name, "--store", bucket.url(parameters=""), "--", "true"],
                                      env=ceph.environment, capture_output=True, text=True, timeout=60))
        keep_versions(ceph, bucket)
    tell([result.returncode for result in results] == [0, 87] and "put if absent" in results[1].stderr,
         "a bucket that keeps versions from now on is refused, in spite of the verdict from before", str(results))


def check_copy(bucket, scratch):
    """From plain files to the gateway, on to SQLite, and back into plain files: the same."""
    env = bucket.environment
    stores = [f"dir:{scratch}/from", bucket.url("copies", parameters=""),
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


def start_s3rver(folder):
    """Its URL."""
    subprocess.run([os.path.join(ceph_kit.SERVERS, "s3rver-up"), folder], check=True, timeout=60)
    with open(os.path.join(folder, "endpoint"), encoding="utf-8") as file:
        return file.read().strip()


def stop_s3rver(folder):
    pid_file = os.path.join(folder, "pid")
    if os.path.exists(pid_file):
        with open(pid_file, encoding="utf-8") as file:
            os.kill(int(file.read()), signal.SIGTERM)


def run_calm(scratch, rounds):
    s3rver = os.path.join(scratch, "s3rver")
    try:
        other = start_s3rver(s3rver)
        with ceph_kit.shared_or_own(scratch) as ceph:
            bucket = ceph.bucket("s3")
            check_probes(bucket, other)
            check_versioning(ceph)
            check_late_versioning(ceph)
            check_versioning_of_a_held_lock(ceph, scratch)
            check_copy(bucket, scratch)
            env = dict(ceph.environment, HOLDFAST_TEST_URL=bucket.url(parameters="connections=64"))
            env.setdefault("HOLDFAST_TEST_ROUNDS", str(rounds))
            run_program("store_test", ["url"], env, "contract", 120)
            run_program("process_race_test", ["url"], env, "processes", 120)
    finally:
        stop_s3rver(s3rver)


def run_trouble(scratch):
    with ceph_kit.own(scratch, gateways=2) as ceph:
        env = dict(ceph.environment, HOLDFAST_CEPH=ceph.folder, HOLDFAST_TESTS=TESTS)
        env.setdefault("HOLDFAST_TEST_ROUNDS", "20")
        run_program("s3_trouble_test", [], env, "trouble", 120)


MODES = {
    ("calm",): lambda scratch: run_calm(scratch, 50),
    ("calm", "long"): lambda scratch: run_calm(scratch, 200),
    ("trouble",): run_trouble,
}


def main(words):
    if tuple(words) not in MODES:
        sys.exit("usage: s3_ceph_test.py calm [long] | trouble")
    scratch = tempfile.mkdtemp(prefix="holdfast-ceph-")
    try:
        MODES[tuple(words)](scratch)
    except (OSError, subprocess.SubprocessError, ceph_kit.CannotStart) as problem:
        tell(False, "the servers start and the programs end in time", str(problem))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return tap_kit.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

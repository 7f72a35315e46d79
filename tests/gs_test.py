#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gs_test.py: the gs store on a stand-in for Google Cloud Storage (gs_fake.py), never on Google.

    gs_test.py store    the probe, credentials, mistakes, copies, the contract of all stores, and the
                        race of processes
    gs_test.py locks    the tests of locks and their requests

Prints TAP.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import gs_fake
import tap_kit
from tap_kit import run_program, tell

TESTS = os.path.dirname(os.path.abspath(__file__))
HOLDFAST = os.environ["HOLDFAST_PROGRAM"]
SECONDS = 120  # a command may take this long on a busy machine


class Store:
    """The stand-in, and the environment of its clients."""

    def __init__(self, port, scratch):
        self.endpoint, self.scratch = f"http://127.0.0.1:{port}", scratch
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("AWS_", "GS_", "HOLDFAST_STORE"))}
        # Keys of AWS are never sent to Google.
        self.environment.update(GS_ACCESS_KEY_ID=gs_fake.ACCESS, GS_SECRET_ACCESS_KEY=gs_fake.SECRET,
                                AWS_ACCESS_KEY_ID="AKIAOTHER", AWS_SECRET_ACCESS_KEY="other-secret",
                                HOME=scratch)

    def url(self, prefix="", bucket="bucket", parameters=""):
        return f"gs://{bucket}/{prefix}?endpoint={self.endpoint}{parameters}"

    def run(self, url, *words, env=None, **options):
        return subprocess.run([HOLDFAST, "--store", url, *words], env=env or self.environment,
                              capture_output=True, text=True, timeout=SECONDS, **options)


@contextlib.contextmanager
def server(scratch):
    with subprocess.Popen([sys.executable, os.path.join(TESTS, "gs_fake.py")],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Store(int(process.stdout.readline().split()[1]), scratch)
        finally:
            process.stdin.close()  # it ends


def check_probe(store):
    result = store.run(store.url("probe"), "store", "probe")
    output = result.stdout + result.stderr
    tell(result.returncode == 0 and "conditional delete            honoured" in output and
         "generation numbers" in output and "equal bytes written again get a new ETag" in output,
         "the probe accepts a store with generations and conditional deletes", output)
    result = store.run(store.url("probe", "lax"), "store", "probe")
    output = result.stdout + result.stderr
    tell(result.returncode == 87 and "put if absent" in output,
         "the probe refuses a store that ignores generations", output)
    result = store.run(store.url("probe", "rules"), "store", "probe")
    tell(result.returncode == 0 and "rules that delete objects" in result.stdout,
         "the probe warns of lifecycle rules", result.stdout + result.stderr)


def check_commands(store):
    url = store.url("commands", parameters="&style=path&region=auto")
    with open(os.path.join(store.scratch, "credentials"), "w", encoding="utf-8") as file:
        file.write(f"[google]\naws_access_key_id = {gs_fake.ACCESS}\n"
                   f"aws_secret_access_key = {gs_fake.SECRET}\n")
    env = {name: value for name, value in store.environment.items() if not name.startswith("GS_")}
    env["AWS_SHARED_CREDENTIALS_FILE"] = os.path.join(store.scratch, "credentials")
    done = [store.run(url, "store", "put", "some key/a+b%", "-", input="hello"),
            store.run(url + "&profile=google", "store", "get", "some key/a+b%", env=env),
            store.run(url, "run", "job", "--", "echo", "ran"),
            store.run(url, "key", "acquire", "color"),
            store.run(store.url("x", "limited"), "run", "job", "--", "echo", "ran"),
            store.run(url, "store", "rm", "some key/a+b%")]
    tell(all(result.returncode == 0 for result in done) and done[1].stdout == "hello" and
         done[2].stdout == "ran\n" and done[4].stdout == "ran\n",
         "objects, locks and keys work, with keys from the environment or a profile, and where Google "
         "answers 429 at first", "\n".join(result.stdout + result.stderr for result in done))


def check_mistakes(store):
    env, url = store.environment, store.url()
    bare = {name: value for name, value in env.items() if not name.startswith("GS_")}
    cases = [
        ("a URL without a bucket", env, "gs:", "the URL names no bucket: use gs://BUCKET/PREFIX"),
        ("a name that no bucket has", env, "gs://a_b!", "is not a bucket name: use gs://BUCKET"),
        ("an option of s3", env, url + "&etag=bare", "etag"),
        ("keys of AWS alone", bare, url, "set GS_ACCESS_KEY_ID and GS_SECRET_ACCESS_KEY"),
        ("half of a key", dict(bare, GS_ACCESS_KEY_ID="x"), url,
         "GS_ACCESS_KEY_ID is set but GS_SECRET_ACCESS_KEY is not"),
        ("a profile that does not exist", env, url + "&profile=none", "there is no profile 'none'"),
        ("an unknown key", dict(env, GS_ACCESS_KEY_ID="GOOGother"), url,
         "does not know this HMAC key"),
        ("a wrong secret", dict(env, GS_SECRET_ACCESS_KEY="a-wrong-secret"), url,
         "the secret key is wrong"),
        ("a bucket that does not exist", env, store.url(bucket="missing"),
         "there is no bucket 'missing'"),
        ("a key that Google cannot store", env, url, "no line breaks in keys"),
    ]
    for name, variables, place, expected in cases:
        key = "a\nb" if "cannot store" in name else "key"
        result = store.run(place, "store", "put", key, "-", input="hello", env=variables)
        told = [text for text in (gs_fake.SECRET, "a-wrong-secret", "other-secret")
                if text in result.stderr]
        tell(result.returncode != 0 and expected in result.stderr and not told and
             len(result.stderr.splitlines()) == 1,
             f"{name} is told in one sentence", f"{result.returncode} {told}\n{result.stderr}")


def check_copy(store):
    """From plain files to the stand-in, on to another prefix there, to SQLite, and back."""
    scratch = store.scratch
    stores = [f"dir:{scratch}/from", store.url("copies"), store.url("again"),
              f"sqlite:{scratch}/copy.db", f"dir:{scratch}/back"]
    for i in range(60):
        place = os.path.join(scratch, "from", f"f{i % 4}")
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, f"o{i}"), "wb") as file:
            file.write(os.urandom(1 + i * 2000))
    copied = []
    for source, target in zip(stores, stores[1:]):
        result = subprocess.run([HOLDFAST, "--json", "store", "cp", "-r", "--from", source, "--to",
                                 target], env=store.environment, capture_output=True, text=True,
                                timeout=SECONDS)
        last = json.loads((result.stdout.splitlines() or ["{}"])[-1])
        copied.append((result.returncode, last.get("objects_copied"), result.stderr))
    same = subprocess.run(["diff", "-r", "-x", "%*", f"{scratch}/from", f"{scratch}/back"],
                          capture_output=True, text=True)
    tell(all(c[:2] == (0, 60) for c in copied) and same.returncode == 0,
         "a copy from files to gs to SQLite and back is the same", str(copied) + same.stdout)
    result = store.run(store.url(), "store", "rm", "-r", "again/")
    rest = store.run(store.url("again"), "store", "ls", "-r")
    tell(result.returncode == 0 and "o1" not in rest.stdout, "all objects below a prefix are removed",
         result.stderr + rest.stdout)


def check_large(store):
    """A file of more than 64 MiB is put in parts, and by condition as one object."""
    path, back = os.path.join(store.scratch, "large"), os.path.join(store.scratch, "back-large")
    with open(path, "wb") as file:
        file.write(os.urandom(1 << 20) * 65)
    url = store.url("large")
    done = [store.run(url, "store", "put", "parts", path),
            store.run(url, "store", "put", "--if-absent", "whole", path)]
    again = store.run(url, "store", "put", "--if-absent", "whole", path)
    get = store.run(url, "store", "get", "parts", back)
    same = subprocess.run(["cmp", path, back], capture_output=True, text=True)
    tell(all(result.returncode == 0 for result in [*done, get]) and again.returncode != 0 and
         "already exists" in again.stderr and same.returncode == 0,
         "a file of 65 MiB is put in parts, and if absent as a whole, once",
         "\n".join(result.stderr for result in [*done, again, get]) + same.stdout)


def run_store(scratch):
    with server(scratch) as store:
        check_probe(store)
        check_commands(store)
        check_mistakes(store)
        check_copy(store)
        check_large(store)
        env = dict(store.environment, HOLDFAST_TEST_URL=store.url(parameters="&connections=64"))
        env.setdefault("HOLDFAST_TEST_ROUNDS", "2")
        run_program("store_test", ["url"], env, "contract", SECONDS)
        run_program("process_race_test", ["url"], env, "processes", SECONDS)


def run_locks(scratch):
    with server(scratch) as store:
        for name in ("lock_request_test", "lock_test"):
            env = dict(store.environment, HOLDFAST_TEST_URL=store.url(name, parameters="&connections=64"))
            run_program(name, ["url"], env, name, SECONDS)


MODES = {"store": run_store, "locks": run_locks}


def main(words):
    if len(words) != 1 or words[0] not in MODES:
        sys.exit("usage: gs_test.py store | locks")
    scratch = tempfile.mkdtemp(prefix="holdfast-gs-")
    try:
        MODES[words[0]](scratch)
    except (OSError, subprocess.SubprocessError) as problem:
        tell(False, "the programs end in time", str(problem))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return tap_kit.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

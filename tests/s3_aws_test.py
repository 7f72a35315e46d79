#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""s3_aws_test.py: the s3 store on a stand-in for S3 as AWS documents it (s3_aws_fake.py), never on AWS.

    s3_aws_test.py parts      uploads in parts with conditions
    s3_aws_test.py directory  a directory bucket: sessions, its endpoint, listings, the probe, the contract of
                              all stores, and the race of processes
    s3_aws_test.py locks      the tests of locks and their requests, in a directory bucket

Prints TAP.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import s3_aws_fake
import tap_kit
from tap_kit import run_program, tell

TESTS = os.path.dirname(os.path.abspath(__file__))
HOLDFAST = os.environ["HOLDFAST_PROGRAM"]
SECONDS = 120  # a command may take this long on a busy machine
CONFLICT = 82


class Store:
    """The stand-in, and the environment of its clients."""

    def __init__(self, process, scratch):
        self.process, self.scratch = process, scratch
        self.address = f"http://127.0.0.1:{int(process.stdout.readline().split()[1])}"
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("AWS_", "HOLDFAST_STORE"))}
        self.environment.update(AWS_ACCESS_KEY_ID=s3_aws_fake.ACCESS, HOME=scratch,
                                AWS_SECRET_ACCESS_KEY=s3_aws_fake.SECRET)

    def url(self, prefix="", bucket="bucket", parameters=""):
        return f"s3://{bucket}/{prefix}?endpoint={self.address}{parameters}"

    def run(self, url, *words, env=None, **options):
        return subprocess.run([HOLDFAST, "--store", url, *words], env=env or self.environment,
                              capture_output=True, text=True, timeout=SECONDS, **options)

    def seen(self):
        """How many sessions were created, and how many requests there were."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [int(word) for word in self.process.stdout.readline().split()]


@contextlib.contextmanager
def server(scratch, *words):
    with subprocess.Popen([sys.executable, os.path.join(TESTS, "s3_aws_fake.py"), *words],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Store(process, scratch)
        finally:
            process.stdin.close()  # it ends


# ---- Uploads in parts -------------------------------------------------------------------------


def check_parts_probe(store):
    result = store.run(store.url("parts"), "store", "probe")
    output = result.stdout + result.stderr
    tell(result.returncode == 0 and "conditional upload in parts   honoured" in output,
         "the probe finds that uploads in parts obey conditions", output)
    result = store.run(store.url("parts", "lax-parts"), "store", "probe")
    output = result.stdout + result.stderr
    tell(result.returncode == 0 and "conditional upload in parts   not honoured" in output,
         "the probe does not trust a store that ignores the condition of a completion", output)


def check_conditional_parts(store):
    """A file of 65 MiB, with its condition, in parts; the outcome of the completion is told."""
    path = os.path.join(store.scratch, "large")
    with open(path, "wb") as file:
        file.truncate(65 << 20)
    url = store.url("parts")

    def put(name, *words, where=url):
        before = store.seen()[1]
        result = store.run(where, "store", "put", *words, name, path)
        return result, store.seen()[1] - before

    first, sent = put("file", "--if-absent")
    tell(first.returncode == 0 and sent >= 7, "a large file is put in parts if absent",
         f"{sent} requests\n{first.stderr}")
    again, _ = put("file", "--if-absent")
    tell(again.returncode == CONFLICT and "already exists" in again.stderr,
         "the store refuses the completion (412) where the object exists", again.stderr)
    etag = store.run(url, "--json", "store", "ls").stdout
    etag = etag[etag.index('"etag"'):].split('"')[3]
    match, sent_match = put("file", "--if-match", etag)
    wrong, _ = put("file", "--if-match", "0" + etag[1:] if etag[0] != "0" else "1" + etag[1:])
    tell(match.returncode == 0 and sent_match >= 7 and wrong.returncode == CONFLICT,
         "a large file replaces the version that it names, and no other",
         f"{match.stderr}{wrong.stderr}")
    busy, sent = put("busy", "--if-absent")
    tell(busy.returncode == 0 and sent >= 14,
         "all parts are sent again where another write was in progress (409)",
         f"{sent} requests\n{busy.stderr}")
    twice, _ = put("twice", "--if-absent")
    tell(twice.returncode == 0,
         "a completion that a proxy sent twice is known by the mark of the object", twice.stderr)
    lax = store.url("parts", "lax-parts")
    first, sent = put("file", "--if-absent", where=lax)
    again, _ = put("file", "--if-absent", where=lax)
    tell(first.returncode == 0 and sent < 4 and again.returncode == CONFLICT,
         "where conditions of completions are ignored, a conditional put is one request",
         f"{sent} requests\n{first.stderr}{again.stderr}")
    left = store.run(url, "store", "ls", "-r").stdout
    tell("scratch" not in left, "the probe leaves nothing behind", left)


# ---- Directory buckets ------------------------------------------------------------------------

DIRECTORY, HOST = s3_aws_fake.DIRECTORY, f"s3express-{s3_aws_fake.ZONE}.{s3_aws_fake.REGION}"


def directory_url(prefix="", parameters=""):
    """Its host exists only for the proxy, which is the stand-in."""
    return f"s3://{DIRECTORY}/{prefix}?endpoint=http://{HOST}.invalid{parameters}"


@contextlib.contextmanager
def directory_server(scratch):
    certificate = os.path.join(scratch, "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "30", "-keyout", certificate + ".key", "-out", certificate,
                    "-subj", "/CN=test", "-addext", f"subjectAltName=DNS:*.{HOST}.amazonaws.com"],
                   check=True, capture_output=True)
    with open(certificate, "a", encoding="utf-8") as file, \
         open(certificate + ".key", encoding="utf-8") as key:
        file.write(key.read())
    with server(scratch, "62", certificate) as store:  # a session ends 62 seconds after its begin
        store.environment.update(http_proxy=store.address, HTTPS_PROXY=store.address, NO_PROXY="",
                                 no_proxy="")
        store.certificate = certificate
        yield store


def check_zone(store):
    """By the name of its bucket alone."""
    url = f"s3://{DIRECTORY}/zone?ca={store.certificate}"
    done = [store.run(url, "store", "put", "some key/a+b%", "-", input="hello"),
            store.run(url, "store", "get", "some key/a+b%")]
    tell(all(result.returncode == 0 for result in done) and done[1].stdout == "hello",
         "a directory bucket is found at the endpoint of its zone, over TLS",
         "\n".join(result.stderr for result in done))


def check_directory_probe(store):
    result = store.run(directory_url("probe"), "store", "probe")
    output = result.stdout + result.stderr
    expected = ("conditional delete            honoured", "conditional upload in parts   honoured",
                "equal bytes written again get a new ETag", "it lists in no order")
    tell(result.returncode == 0 and all(text in output for text in expected),
         "the probe accepts a directory bucket, and says how it lists", output)


def check_sessions(store):
    """A session of 62 seconds is renewed from its second second on, 5 seconds apart."""
    before = store.seen()
    result = store.run(directory_url("sessions"), "run", "job", "--ttl", "3s", "--", "sleep", "7")
    after = store.seen()
    tell(result.returncode == 0 and after[0] - before[0] == 2 and after[1] - before[1] > 8,
         "a session serves many requests, and is renewed before it ends",
         f"{before} {after}\n{result.stderr}")
    wrong = dict(store.environment, AWS_SECRET_ACCESS_KEY="a-wrong-secret")
    refused = store.run(directory_url("x"), "store", "ls", env=wrong)
    tell(refused.returncode == 85 and "s3express:CreateSession" in refused.stderr and
         "a-wrong-secret" not in refused.stderr, "a session that is refused is told in a sentence",
         refused.stderr)
    style = store.run(directory_url("x", "&style=path"), "store", "ls")
    tell(style.returncode != 0 and "style=path cannot be used" in style.stderr,
         "a directory bucket has no place in the path", style.stderr)


def check_listings(store):
    """As in a folder of plain files: the same names, in the same order."""
    source = os.path.join(store.scratch, "names")
    for i in range(130):
        path = os.path.join(source, "abc"[i % 3] * (1 + i % 2), f"n{i * 7 % 130}")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(i))
    copy = subprocess.run([HOLDFAST, "store", "cp", "-r", "--from", f"dir:{source}", "--to",
                           directory_url("names")], env=store.environment, capture_output=True,
                          text=True, timeout=SECONDS)
    different = []
    for words in (["-r"], [], ["-r", "a/"], ["a/"], ["-r", "a/n1"], ["b"], ["-r", "aa/n"]):
        lists = [store.run(url, "store", "ls", *words)
                 for url in (f"dir:{source}", directory_url("names"))]
        names = [[line.split()[-1] for line in result.stdout.splitlines()
                  if ".holdfast" not in line] for result in lists]
        if names[0] != names[1] or not names[0]:
            different.append(f"{words} {names} {lists[1].stderr}")
    tell(copy.returncode == 0 and not different, "listings are sorted, whatever the prefix",
         copy.stderr + "\n".join(different))


def check_pages(store):
    """A listing of several pages reads its folder once; another listing sees what is new."""
    url = directory_url("pages")
    put = store.run(url, "store", "put", "x/many", "-", input="x")
    before = store.seen()[1]
    result = store.run(url, "store", "ls", "-r", "x/")
    sent = store.seen()[1] - before
    names = [line.split()[-1] for line in result.stdout.splitlines()]
    expected = ["x/many"] + [f"x/many-{i:04}" for i in range(2500)]
    tell(put.returncode == 0 and names == expected and sent < 60,
         "a listing of three pages is complete, sorted, and reads the folder once",
         f"{sent} requests, {len(names)} names {put.stderr}{result.stderr}")
    result = store.run(url, "store", "rm", "-r", "x/")
    rest = store.run(url, "store", "ls", "-r", "x/")
    tell(result.returncode == 0 and rest.stdout == "", "all objects below a prefix are removed",
         result.stderr + rest.stdout)


def check_listing_ends(store):
    """A folder without an end, read with a timeout of 300 ms per request, and so 6 s in all."""
    before, began = store.seen()[1], time.monotonic()
    result = store.run(directory_url("x", "&timeout=300ms"), "store", "ls", "-r", "endless/")
    seconds, sent = time.monotonic() - began, store.seen()[1] - before
    tell(result.returncode == 84 and seconds < SECONDS / 2 and sent > 10,
         "a listing of a directory bucket that does not end is given up",
         f"{sent} requests, {seconds:.1f} s, status {result.returncode} {result.stderr}")


def run_directory(scratch):
    with directory_server(scratch) as store:
        check_zone(store)
        check_directory_probe(store)
        check_sessions(store)
        check_listings(store)
        check_pages(store)
        check_listing_ends(store)
        env = dict(store.environment, HOLDFAST_TEST_URL=directory_url(parameters="&connections=64"))
        env.setdefault("HOLDFAST_TEST_ROUNDS", "2")
        run_program("store_test", ["url"], env, "contract", SECONDS)
        run_program("process_race_test", ["url"], env, "processes", SECONDS)


def run_locks(scratch):
    with directory_server(scratch) as store:
        for name in ("lock_request_test", "lock_test"):
            env = dict(store.environment, HOLDFAST_TEST_URL=directory_url(name, "&connections=64"))
            run_program(name, ["url"], env, name, SECONDS)


def run_parts(scratch):
    with server(scratch) as store:
        check_parts_probe(store)
        check_conditional_parts(store)


MODES = {"parts": run_parts, "directory": run_directory, "locks": run_locks}


def main(words):
    if len(words) != 1 or words[0] not in MODES:
        sys.exit(f"usage: s3_aws_test.py {' | '.join(MODES)}")
    scratch = tempfile.mkdtemp(prefix="holdfast-s3-aws-")
    try:
        MODES[words[0]](scratch)
    except (OSError, subprocess.SubprocessError) as problem:
        tell(False, "the programs end in time", str(problem))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return tap_kit.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

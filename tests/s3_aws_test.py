#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""s3_aws_test.py: the s3 store on a stand-in for S3 as AWS documents it (s3_aws_fake.py), never on AWS.

    s3_aws_test.py parts      uploads in parts with conditions

Prints TAP.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import s3_aws_fake
import tap_kit
from tap_kit import tell

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


def run_parts(scratch):
    with server(scratch) as store:
        check_parts_probe(store)
        check_conditional_parts(store)


MODES = {"parts": run_parts}


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

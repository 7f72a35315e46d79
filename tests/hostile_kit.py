# SPDX-License-Identifier: Apache-2.0
"""hostile_kit.py: a fake S3 server in the process of the test, whose buckets give wrong or incomplete
replies as a case requires. By default it behaves as `plain` of s3_fake.py.
"""

import os
import re
import subprocess
import threading
import time

import cases
import s3_fake
from cli_test import PROGRAM, Scratch, true

SECONDS_MAX = 30  # no command may take longer, whatever the store or the network does
FORMAT = ".holdfast/format.json"


class Answer:
    """The reply of a well-behaved store, before it is sent."""

    def __init__(self, request):
        self.status, self.body, self.headers, self.length = None, b"", {}, None
        s3_fake.plain(self, request)

    def reply(self, status, body=b"", headers=None, length=None):
        self.status = status
        self.body = body.encode() if isinstance(body, str) else body
        self.headers, self.length = dict(headers or {}), length

    def send(self, connection):
        connection.reply(self.status, self.body, self.headers, self.length)


class Bucket:
    """A bucket. `lie` is a function of a connection and a request, and returns whether it has replied."""

    def __init__(self, name):
        self.name, self.lie = name, None
        self.lock, self.count, self.log = threading.Lock(), 0, []
        s3_fake.BEHAVIOURS[name] = self.serve

    def serve(self, connection, request):
        with self.lock:
            self.count += 1
            request.number = self.count
            self.log.append(f"{request.method} {request.key or request.query}")
        lie = self.lie
        if not lie or not lie(connection, request):
            Answer(request).send(connection)

    def object(self, key):
        return s3_fake.OBJECTS.get((self.name, key))

    def put(self, key, data):
        s3_fake.OBJECTS[(self.name, key)] = data

    def keys(self, pattern=""):
        return sorted(key for bucket, key in list(s3_fake.OBJECTS)
                      if bucket == self.name and re.match(pattern, key))

    def restore(self, objects):
        for key in self.keys():
            s3_fake.OBJECTS.pop((self.name, key), None)
        for key, data in objects.items():
            self.put(key, data)

    def everything(self):
        return {key: self.object(key) for key in self.keys()}

    def twin(self, name):
        """Another bucket with the same objects. A verdict counts for one bucket only: this one."""
        other = Bucket(name)
        for key, data in self.everything().items():
            if key == FORMAT:
                data = cases.unsealed(data).replace(self.name.encode(), name.encode())
            other.put(key, data)
        return other


class Lab(Scratch):
    """A scratch folder with a fake server and one bucket."""

    def __init__(self):
        super().__init__(None)
        self.endpoint = f"http://127.0.0.1:{s3_fake.listen()}"
        self.env.update(AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="secret-of-a")
        self.bucket = Bucket(f"case-{os.getpid()}-{time.monotonic_ns()}")
        self.env["HOLDFAST_STORE"] = self.url_of(self.bucket)

    def url_of(self, bucket, **options):
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"s3://{bucket.name}?endpoint={self.endpoint}{more}"

    def close(self):
        self.bucket.lie = None
        until_nobody_is_left(self.path)
        super().close()

    def attempt(self, *args, stdin=b"", bucket=None, cwd=None, seconds=SECONDS_MAX, **options):
        """Runs a command, which must end in time with a documented status and, unless that is 0,
        one sentence. Returns the status and the output."""
        env = dict(self.env)
        if bucket or options:
            env["HOLDFAST_STORE"] = self.url_of(bucket or self.bucket, **options)
        begun = time.monotonic()
        try:
            done = subprocess.run([PROGRAM, *args], cwd=cwd or self.path, env=env, input=stdin,
                                  capture_output=True, timeout=2 * seconds, check=False)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{args}: it did not end") from None
        took, said = time.monotonic() - begun, done.stderr.decode(errors="strict")
        true(took < seconds, f"{args}: it took {took:.1f} s: {said}")
        status = self.name_of(done.returncode)
        true(status, f"{args}: exit status {done.returncode}: {said}")
        true(not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", said), f"{args}: {said!r}")
        sentence = r"holdfast: [^\n]+\n"
        if "--json" in args:
            sentence = r'\{"status":"[A-Z_]+","outcome":"[a-z_]+","why":"[^\n]+\}\n'
        true(status == "OK" or re.match(sentence, said), f"{args}: {status} {said!r}")
        return status, done.stdout, said

    def name_of(self, exit_status):
        if not STATUSES:
            STATUSES.update({s["exit_code"]: s["status"] for s in self.table()["statuses"]})
        return STATUSES.get(exit_status)


STATUSES = {}  # names by exit status


def until_nobody_is_left(folder, seconds=15):
    """Checks that no process that was started in a folder, or below it, is alive after some seconds."""
    end = time.monotonic() + seconds
    while alive := processes_in(folder):
        true(time.monotonic() < end, f"left behind: {alive}")
        time.sleep(0.05)


def processes_in(folder):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if (os.readlink(f"/proc/{pid}/cwd") + "/").startswith(folder + "/"):
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    found.append((int(pid), file.read()))
        except OSError:
            pass  # it ended meanwhile, or is not ours
    return found

# SPDX-License-Identifier: Apache-2.0
"""ceph_kit.py: a Ceph cluster for test scripts, buckets on it, and a relay in front of it.

A test that only uses the store calls shared_or_own(). $HOLDFAST_SHARED_CEPH names the data folder of
a cluster that many tests of a run share. Without it the test starts a cluster in its scratch
folder. Tests on the shared cluster do not interfere, because each creates its own buckets, and none
stops a daemon. A test that stops or kills daemons calls own().
"""

import asyncio
import base64
import contextlib
import email.utils
import hashlib
import hmac
import http.client
import os
import secrets
import signal
import subprocess
import threading
import time

SERVERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "servers")
ACCESS_KEY, SECRET_KEY = "holdfast-access", "holdfast-secret"
START_SECONDS = 120.0  # a cluster may take this long to start


class CannotStart(Exception):
    """Raised, with the reason, if no cluster can be started."""


# ---- The cluster --------------------------------------------------------------------------------


class Ceph:
    """A cluster in a folder that ceph-up has filled. Gateways are numbered from 1. `home` is a scratch
    folder for its clients."""

    def __init__(self, folder, home, gateways=1):
        self.folder, self.gateways = folder, gateways
        self.repairs = []      # threads that continue or restart daemons
        self.standstills = []  # times (begun, ended) at which the OSD is stopped
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("AWS_", "HOLDFAST_STORE"))}
        self.environment.update(AWS_ACCESS_KEY_ID=ACCESS_KEY, AWS_SECRET_ACCESS_KEY=SECRET_KEY,
                                AWS_EC2_METADATA_DISABLED="true", HOME=home)

    def up(self):
        """Starts the cluster, or those of its gateways that died."""
        done = subprocess.run([os.path.join(SERVERS, "ceph-up"), self.folder, str(self.gateways)],
                              stderr=subprocess.PIPE, text=True, timeout=START_SECONDS)
        if done.returncode != 0:
            raise CannotStart(done.stderr.strip())

    def down(self):
        self.wait_for_repairs()
        if os.path.isdir(self.folder):
            subprocess.run([os.path.join(SERVERS, "ceph-down"), self.folder], timeout=60)

    def wait_until_ready(self):
        """Waits for a cluster that another process is starting."""
        end = time.monotonic() + START_SECONDS
        failed = os.path.join(self.folder, "failed")
        while not os.path.exists(os.path.join(self.folder, "ready")):
            if os.path.exists(failed):
                with open(failed, encoding="utf-8", errors="replace") as file:
                    raise CannotStart(f"the shared cluster did not start: {file.read().strip()}")
            if time.monotonic() > end:
                raise CannotStart(f"the shared cluster in '{self.folder}' did not start within "
                                  f"{START_SECONDS:.0f} s")
            time.sleep(0.1)

    def endpoint(self, gateway=1):
        with open(os.path.join(self.folder, f"endpoint-{gateway}"), encoding="utf-8") as file:
            return file.read().strip()

    def put(self, path, body=""):
        """Sends a signed PUT, for requests that holdfast itself never makes."""
        subprocess.run(["curl", "-sSf", "--noproxy", "*", "-X", "PUT", "--data", body,
                        "-H", "Content-Type: application/xml",
                        "-H", "x-amz-content-sha256: " + hashlib.sha256(body.encode()).hexdigest(),
                        "--user", f"{ACCESS_KEY}:{SECRET_KEY}", "--aws-sigv4",
                        "aws:amz:us-east-1:s3", self.endpoint() + path],
                       check=True, timeout=60)

    def bucket(self, name):
        """Creates a bucket that no other test and no other run uses."""
        unique = f"{name}-{os.getpid()}-{secrets.token_hex(4)}"
        self.put("/" + unique)
        return CephBucket(self, unique)

    # ---- Faults, only for a cluster from own() --------------------------------------------------

    def daemons(self):
        return ["mon.a", "osd.0"] + [f"client.rgw-{number + 1}" for number in range(self.gateways)]

    def send(self, number, daemons):
        for daemon in daemons:
            with open(os.path.join(self.folder, "run", f"{daemon}.pid"), encoding="utf-8") as file:
                os.kill(int(file.read()), number)

    def stop_for(self, seconds, daemons):
        if "osd.0" in daemons:
            self.standstills.append((time.monotonic(), time.monotonic() + seconds + 1))
        self.send(signal.SIGSTOP, daemons)
        self.repairs.append(later(seconds, lambda: self.send(signal.SIGCONT, daemons)))

    def kill_for(self, seconds, daemon):
        self.send(signal.SIGKILL, [daemon])
        self.repairs.append(later(seconds, self.up))

    def wait_for_repairs(self):
        while self.repairs:
            self.repairs.pop().join()


def later(seconds, action):
    """Returns the thread that will act."""
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


class CephBucket:
    """A bucket, and the URLs of stores in it."""

    def __init__(self, ceph, name):
        self.ceph, self.name = ceph, name
        self.environment = ceph.environment

    def url(self, prefix="", gateway=1, parameters="etag=bare"):
        return self.url_at(self.ceph.endpoint(gateway), prefix, parameters)

    def url_at(self, endpoint, prefix="", parameters="etag=bare"):
        """The URL through another address than the gateway's own, such as a relay."""
        place = f"{self.name}/{prefix}" if prefix else self.name
        return f"s3://{place}?endpoint={endpoint}" + (f"&{parameters}" if parameters else "")


@contextlib.contextmanager
def own(scratch, gateways=1):
    """A cluster in a scratch folder, stopped at the end."""
    ceph = Ceph(os.path.join(scratch, "ceph"), scratch, gateways)
    try:
        ceph.up()
        yield ceph
    finally:
        ceph.down()


@contextlib.contextmanager
def shared_or_own(scratch):
    """The shared cluster of this test run, or else one in a scratch folder, with one gateway."""
    folder = os.environ.get("HOLDFAST_SHARED_CEPH")
    if folder:
        ceph = Ceph(folder, scratch)
        ceph.wait_until_ready()
        yield ceph
    else:
        with own(scratch) as ceph:
            yield ceph


# ---- How fast it is -----------------------------------------------------------------------------


class Pulse:
    """Puts a small object repeatedly, and records slow puts: at those times the machine was too
    busy for short leases."""

    EVERY, LONG = 0.1, 0.5  # seconds

    def __init__(self, bucket):
        self.path = f"/{bucket.name}/pulse"
        self.address = bucket.ceph.endpoint().removeprefix("http://")
        self.stalls = []  # (begun, ended)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.beat, daemon=True)
        self.thread.start()

    def beat(self):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        begun = time.monotonic()
        while not self.ended.wait(self.EVERY):
            try:
                connection.request("PUT", self.path, b"", self.headers())
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                connection.close()
            now = time.monotonic()
            if now - begun > self.EVERY + self.LONG:
                self.stalls.append((begun, now))
            begun = now

    def headers(self):
        date = email.utils.formatdate(usegmt=True)
        signature = hmac.digest(SECRET_KEY.encode(), f"PUT\n\n\n{date}\n{self.path}".encode(), "sha1")
        return {"Date": date,
                "Authorization": f"AWS {ACCESS_KEY}:{base64.b64encode(signature).decode()}"}

    def longest(self, since, apart_from=()):
        """The longest stall since then, in seconds, or 0. Ignores stalls that overlap one of the
        intervals (begun, ended) in which the store was stopped."""
        return max((ended - begun for begun, ended in self.stalls if ended > since and not any(
            begun < stop[1] and ended > stop[0] for stop in apart_from)), default=0)

    def close(self):
        self.ended.set()
        self.thread.join()


# ---- A relay ------------------------------------------------------------------------------------


class Relay:
    """Forwards connections from another address to a gateway, and counts the requests. While it is
    held, it forwards nothing, and closes nothing."""

    def __init__(self, address, endpoint):
        host, _, port = endpoint.rpartition("//")[2].partition(":")
        self.target = (host, int(port))
        self.requests = 0
        self.loop = asyncio.new_event_loop()
        self.flows = asyncio.Event()
        self.flows.set()
        server = self.loop.run_until_complete(asyncio.start_server(self.serve, address, 0))
        self.endpoint = "http://%s:%d" % server.sockets[0].getsockname()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def hold(self):
        self.loop.call_soon_threadsafe(self.flows.clear)

    def resume(self):
        self.loop.call_soon_threadsafe(self.flows.set)

    async def serve(self, reader, writer):
        try:
            gateway_reader, gateway_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self.pass_on(reader, gateway_writer, counted=True),
                             self.pass_on(gateway_reader, writer, counted=False))

    async def pass_on(self, reader, writer, counted):
        try:
            while data := await reader.read(65536):
                await self.flows.wait()
                self.requests += data.count(b" HTTP/1.1\r\n") if counted else 0
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()

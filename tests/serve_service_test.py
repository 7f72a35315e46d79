#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_service_test.py: the server as a service: what it tells systemd, what SIGHUP changes while clients
send requests, and the unit that starts it.

Prints TAP. No systemd runs here: messages go to a socket of ours, and the unit is read by
systemd-analyze, where it is installed.
"""

import errno
import hashlib
import os
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import chaos_kit
from chaos_kit import PROGRAM, say, tell
from serve_kit import BUSY_SECONDS, Connection, Daemon, Link

EXPOSURE_MAX = 2.0  # of 10, by systemd-analyze
TOKENS = {name: f"token-{name}-0123456789abcdef" for name in ("kept", "old", "new", "wrong")}
UNIT = os.path.join(os.environ.get("HOLDFAST_BUILD", "build"), "src/serve/holdfast-serve.service")


# ---- Messages -----------------------------------------------------------------------------------


def tells_systemd(site):
    bucket = site.bucket("notify")
    path = os.path.join(site.folder, "notify.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inbox:
        inbox.bind(path)
        inbox.settimeout(BUSY_SECONDS)
        daemon = Daemon(bucket.url, dict(bucket.environment, NOTIFY_SOCKET=path),
                        os.path.join(site.folder, "notify-serve.sock"))
        tell(inbox.recv(1000) == b"READY=1", "a server that listens says that it is ready")
        before = time.monotonic()
        daemon.send(signal.SIGHUP)
        message = inbox.recv(1000).decode()
        found = re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", message)
        tell(bool(found) and before - 1 < int(found[1]) / 1e6 < time.monotonic() + 1,
             "SIGHUP: it says that it reloads, and when", message)
        tell(inbox.recv(1000) == b"READY=1", "and that it is ready again")
        daemon.send(signal.SIGTERM)
        tell(inbox.recv(1000) == b"STOPPING=1", "SIGTERM: it says that it stops")
        tell(daemon.process.wait(BUSY_SECONDS) == 0, "and ends with status 0")


# ---- SIGHUP -------------------------------------------------------------------------------------


class TokenLink(Link):
    """A link that sends a token."""

    def __init__(self, path, token):
        super().__init__(path)
        self.token = token

    def ask(self, verb, target, body=None, headers=None):
        return super().ask(verb, target, body, {**(headers or {}), "Authorization": f"Bearer {self.token}"})


class Load:
    """Clients that send requests with one token until the end of the block, and note the replies."""

    def __init__(self, make_link, size=4):
        self.ended, self.statuses = threading.Event(), []
        self.threads = [threading.Thread(target=self.send, args=(make_link(),)) for _ in range(size)]

    def send(self, link):
        while not self.ended.is_set():
            self.statuses.append(link.get("/v1/locks").status)

    def wait_for(self, count):
        wanted, end = len(self.statuses) + count, time.monotonic() + BUSY_SECONDS
        while len(self.statuses) < wanted and time.monotonic() < end:
            time.sleep(0.01)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()


def write_tokens(path, names, tail=""):
    lines = [f"{name} {hashlib.sha256(TOKENS[name].encode()).hexdigest()} admin *\n" for name in names]
    with open(path + ".new", "w", encoding="ascii", opener=lambda at, flags: os.open(at, flags, 0o600)) as file:
        file.write("".join(lines) + tail)
    os.replace(path + ".new", path)


def until(condition):
    end = time.monotonic() + BUSY_SECONDS
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def reloads_tokens(site):
    bucket, path = site.bucket("tokens"), os.path.join(site.folder, "tokens")
    write_tokens(path, ["kept", "old"])
    daemon = Daemon(bucket.url, bucket.environment, os.path.join(site.folder, "tokens.sock"),
                    f"--tokens={path}")
    old, new = TokenLink(daemon.path, TOKENS["old"]), TokenLink(daemon.path, TOKENS["new"])
    with Load(lambda: TokenLink(daemon.path, TOKENS["kept"])) as load:
        load.wait_for(20)
        tell((old.get("/v1/locks").status, new.get("/v1/locks").status) == (200, 401),
             "before: the old token passes, the new one does not")
        write_tokens(path, ["kept", "new"])
        daemon.send(signal.SIGHUP)
        tell(until(lambda: new.get("/v1/locks").status == 200), "after SIGHUP, the new token passes")
        tell(old.get("/v1/locks").status == 401, "and the old one does not")
        write_tokens(path, ["wrong"], tail="not a line of tokens\n")
        daemon.send(signal.SIGHUP)
        tell(until(lambda: any("old tokens stay" in line for line in daemon.log)),
             "a file that is wrong is reported")
        tell(new.get("/v1/locks").status == 200, "and changes nothing")
        for _ in range(20):
            daemon.send(signal.SIGHUP)
            load.wait_for(5)
    tell(set(load.statuses) == {200}, "no request of another client fails meanwhile", str(set(load.statuses)))
    tell(not any("token-" in line for line in daemon.log), "no token is written to the log")
    tell(daemon.stop() == 0, "the server ends with status 0")


def make_certificate(folder, name):
    key, certificate = (os.path.join(folder, f"{name}.{end}") for end in ("key", "pem"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return key, certificate


def served_certificate(port):
    return ssl.get_server_certificate(("127.0.0.1", port))


class TlsLink(Link):
    """A link over TLS, whoever the server is."""

    def __init__(self, port):
        super().__init__("")
        self.port = port

    def ask(self, verb, target, body=None, headers=None):
        if not self.connection:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            link = context.wrap_socket(socket.create_connection(("127.0.0.1", self.port), timeout=30))
            self.connection = Connection("", 30)
            self.connection.sock = link
        return super().ask(verb, target, body, headers)


def reloads_certificates(site):
    bucket, folder = site.bucket("tls"), site.folder
    used = os.path.join(folder, "used.key"), os.path.join(folder, "used.pem")
    made = [make_certificate(folder, name) for name in ("first", "second")]

    def use(pair):
        for source, target in zip(pair, used):
            shutil.copy(source, target + ".new")
            os.replace(target + ".new", target)

    use(made[0])
    daemon = Daemon(bucket.url, bucket.environment, os.path.join(folder, "tls.sock"),
                    "--listen=127.0.0.1:0", f"--tls-key={used[0]}", f"--tls-cert={used[1]}")
    until(lambda: any("https://" in line for line in daemon.log))
    port = int(next(re.search(r"https://127\.0\.0\.1:(\d+)", line)[1] for line in daemon.log if "https://" in line))
    first = served_certificate(port)
    with Load(lambda: TlsLink(port), size=3) as load:
        load.wait_for(20)
        use(made[1])
        daemon.send(signal.SIGHUP)
        tell(until(lambda: served_certificate(port) != first), "after SIGHUP, new connections get the new certificate")
        with open(used[1], "w", encoding="ascii") as file:
            file.write("not a certificate\n")
        daemon.send(signal.SIGHUP)
        tell(until(lambda: any("old TLS files stay" in line for line in daemon.log)),
             "a certificate that is wrong is reported")
        tell(served_certificate(port) != first, "and the last one stays in use")
        load.wait_for(20)
    tell(set(load.statuses) == {200}, "connections from before go on", str(set(load.statuses)))
    tell(daemon.stop() == 0, "the server ends with status 0")


# ---- The unit -----------------------------------------------------------------------------------


def unit_for_here(folder):
    """The unit with the program of this build."""
    with open(UNIT, encoding="utf-8") as file:
        text = re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={PROGRAM}", file.read())
    path = os.path.join(folder, "holdfast-serve.service")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path, text


def allowed_calls(text):
    """The system calls that the unit allows."""
    allowed = set()
    for line in re.findall(r"(?m)^SystemCallFilter=(.*)$", text):
        names = set()
        for group in line.lstrip("~").split():
            listed = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", group], check=True,
                                    capture_output=True, text=True).stdout
            names |= expand(listed)
        allowed = allowed - names if line.startswith("~") else allowed | names
    return allowed


def expand(listing):
    names = set()
    for word in re.findall(r"(?m)^ +(@?[a-z0-9_-]+)$", listing):
        if word.startswith("@"):
            listed = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", word], check=True,
                                    capture_output=True, text=True).stdout
            names |= expand(listed)
        else:
            names.add(word)
    return names


def check_unit(site):
    path, text = unit_for_here(site.folder)
    if not shutil.which("systemd-analyze"):
        say("skipped: systemd-analyze is not installed")
        return
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if "holdfast-serve" in line]
    tell(done.returncode == 0 and not complaints, "systemd-analyze finds nothing wrong in the unit",
         done.stderr)
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", path],
                          capture_output=True, text=True)
    found = re.search(r"exposure level.*: ([\d.]+)", done.stdout)
    tell(bool(found) and float(found[1]) <= EXPOSURE_MAX, "its exposure is low", found[0] if found else done.stderr)
    check_calls(site, text)


def check_calls(site, text):
    """A server that has served everything it can needs only system calls that the unit allows."""
    if not shutil.which("strace"):
        say("skipped: strace is not installed")
        return
    log = os.path.join(site.folder, "calls")
    bucket = site.bucket("calls")
    daemon = Daemon(bucket.url, bucket.environment, os.path.join(site.folder, "calls.sock"),
                    "--idle-grace-ms=100", "--op-delay-ms=0",
                    within=["strace", "-f", "-qq", "-e", "signal=none", "-o", log])
    link = Link(daemon.path, BUSY_SECONDS)
    lease = link.post("/v1/acquire", key="k", block_seconds=-1).said["lease_id"]
    for size in (10, 100_000):
        link.update("k", lease, b"x" * size)
    link.post("/v1/acquire", key="k", block_seconds=1)
    for target in ("/v1/get?key=k&public=1", "/v1/locks", "/metrics", "/readyz"):
        link.get(target)
    link.post("/v1/release", key="k", lease_id=lease)
    time.sleep(1)
    child = int(subprocess.run(["pgrep", "-P", str(daemon.process.pid)], capture_output=True, text=True).stdout)
    os.kill(child, signal.SIGHUP)
    os.kill(child, signal.SIGTERM)
    daemon.process.wait(BUSY_SECONDS)
    with open(log, encoding="utf-8", errors="replace") as file:
        used = set(re.findall(r"(?m)^\d+ +([a-z0-9_]+)\(", file.read()))
    # Only for root does SQLite call fchown; strace itself calls execve.
    beyond = used - allowed_calls(text) - {"execve", "fchown"}
    tell(len(used) > 20 and not beyond, "the server makes only system calls that the unit allows",
         f"of {len(used)}: {sorted(beyond)}")


def call_numbers():
    """The numbers of the system calls of this machine, by their names."""
    done = subprocess.run(["cc", "-E", "-dM", "-include", "asm/unistd.h", "-x", "c", "/dev/null"], check=True,
                          capture_output=True, text=True)
    macros = dict(re.findall(r"(?m)^#define (__NR\w+) (\w+)$", done.stdout))
    numbers = {}
    for name, value in macros.items():
        value = macros.get(value, value)
        if name.startswith("__NR_") and value.isdigit():
            numbers[name[len("__NR_"):]] = int(value)
    return numbers


def filter_program(numbers):
    """A filter as systemd makes it: these calls are allowed, and all others fail with EPERM."""
    load, equal, end = 0x20, 0x15, 0x06
    lines = [(load, 0, 0, 0)]
    for number in sorted(numbers):
        lines += [(equal, 0, 1, number), (end, 0, 0, 0x7fff0000)]
    lines.append((end, 0, 0, 0x00050000 | errno.EPERM))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


# Applies the filter in the file to itself, and becomes the command.
UNDER_FILTER = """
import ctypes, os, sys
class Program(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("lines", ctypes.c_void_p)]
data = open(sys.argv[1], "rb").read()
lines = ctypes.create_string_buffer(data, len(data))
program = Program(len(data) // 8, ctypes.addressof(lines))
libc = ctypes.CDLL(None)
if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(program), 0, 0) != 0:
    sys.exit("no filter")
os.execv(sys.argv[2], sys.argv[2:])
"""


def check_filter(site):
    """The server works under the filter of the unit."""
    if not shutil.which("systemd-analyze") or not shutil.which("cc"):
        say("skipped: systemd-analyze or cc is not installed")
        return
    numbers = call_numbers()
    allowed = {numbers[name] for name in allowed_calls(unit_for_here(site.folder)[1]) if name in numbers}
    path = os.path.join(site.folder, "filter")
    with open(path, "wb") as file:
        file.write(filter_program(allowed))
    refused = subprocess.run([sys.executable, "-c", UNDER_FILTER, path, sys.executable, "-c",
                              "import os; os.chroot('/')"], capture_output=True, text=True)
    if "no filter" in refused.stderr:
        say("skipped: no filter can be set here")
        return
    tell("Operation not permitted" in refused.stderr, "the filter refuses what it does not allow", refused.stderr)
    bucket = site.bucket("filter")
    daemon = Daemon(bucket.url, bucket.environment, os.path.join(site.folder, "filter.sock"),
                    "--idle-grace-ms=100", "--op-delay-ms=0", within=[sys.executable, "-c", UNDER_FILTER, path])
    link = Link(daemon.path, BUSY_SECONDS)
    held = link.post("/v1/acquire", key="k", block_seconds=-1)
    lease = held.said["lease_id"]
    replies = [held, link.update("k", lease, b"x"), link.update("k", lease, b"x" * 100_000),
               link.post("/v1/keepalive", key="k", lease_id=lease), link.get("/v1/get?key=k&public=1"),
               link.get("/v1/locks"), link.get("/metrics"), link.get("/readyz"),
               link.post("/v1/release", key="k", lease_id=lease)]
    os.kill(daemon.process.pid, signal.SIGHUP)
    time.sleep(0.5)  # it sweeps
    replies.append(link.get("/readyz"))
    statuses = [reply.status for reply in replies]
    tell(set(statuses) == {200}, "the server works under the filter of the unit", str(statuses))
    tell(daemon.stop() == 0, "and stops in order")


def story(site):
    for part in (tells_systemd, reloads_tokens, reloads_certificates, check_unit, check_filter):
        part(site)


if __name__ == "__main__":
    sys.exit(chaos_kit.play(story, "sqlite"))

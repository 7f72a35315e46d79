#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tarball_test.py: the program of `make tarball` needs nothing but an old C library.

    tarball_test.py [ARCHITECTURE]...    default: it builds all that tools/tarball.sh builds, first

It looks for symbols that glibc 2.31 does not have. Then it runs the program of this machine's
architecture in a folder that holds the C library of Debian 11 and nothing else, and one of another
architecture in the same way under qemu, if that is installed. Prints TAP.
"""

import glob
import http.server
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True  # nothing of ours in the source tree

from tap_kit import end, say, tell

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(ROOT, "build-tarball")
GLIBC_MAX = (2, 31)
C_LIBRARY = {"libc", "libdl", "libm", "libpthread", "librt", "ld-linux-aarch64", "ld-linux-x86-64"}
MACHINES = {"arm64": "aarch64", "amd64": "x86_64"}
PROGRAMS = ["bin/holdfast", "libexec/holdfast/holdfast-serve", "libexec/holdfast/holdfast-top"]


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, timeout=1500, **options)


def check_symbols(folder, architecture):
    for program in PROGRAMS:
        path = os.path.join(folder, program)
        needed = {name.split(".so")[0] for name in re.findall(r"NEEDED +(\S+)", run("objdump", "-p", path).stdout)}
        tell(needed and needed <= C_LIBRARY, f"{architecture}: {program} needs only the C library", str(sorted(needed)))
        versions = {tuple(map(int, version.split("."))) for version in
                    re.findall(r"GLIBC_(\d[\d.]*)", run("objdump", "-T", path).stdout)}
        tell(versions and max(versions) <= GLIBC_MAX, f"{architecture}: {program} needs no symbol after glibc 2.31",
             str(sorted(versions)[-2:]))


class TlsServer:
    """Refuses every request, over TLS, with a certificate of its own."""

    def __init__(self, folder):
        self.certificate, key = os.path.join(folder, "tls.crt"), os.path.join(folder, "tls.key")
        run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test", "-addext",
            "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", self.certificate)
        self.requests = 0
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, key)
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests += 1
                self.send_response(403)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def make_bare(scratch, folder, architecture):
    """A root with the C library of Debian 11, and the program."""
    bare = os.path.join(scratch, architecture)
    os.makedirs(bare)
    package, = glob.glob(os.path.join(WORK, architecture, "old/apt/archives/libc6_*.deb"))
    run("dpkg-deb", "-x", package, bare)
    shutil.copytree(folder, os.path.join(bare, "opt/holdfast"))
    os.makedirs(os.path.join(bare, "scratch"))
    for name in ("lib64", "tmp"):
        os.makedirs(os.path.join(bare, name), exist_ok=True)
    return bare


def check_bare(scratch, folder, architecture):
    bare, native = make_bare(scratch, folder, architecture), os.uname().machine == MACHINES[architecture]
    emulator = shutil.which(f"qemu-{MACHINES[architecture]}-static")
    if not native and not emulator:
        say(f"skipped: no qemu for {architecture}")
        return
    if not native:
        shutil.copy(emulator, os.path.join(bare, "qemu"))

    def holdfast(*words, **variables):
        """In a chroot without /proc, /dev and shells."""
        return run("/usr/sbin/chroot", bare, *([] if native else ["/qemu"]), "/opt/holdfast/bin/holdfast", *words,
                   env={"HOME": "/scratch", "HOLDFAST_STORE": "sqlite:/scratch/a.db", **variables})

    def check(sentence, done, wanted="", status=0):
        tell(done.returncode == status and re.search(wanted, done.stdout) is not None, f"{architecture}: {sentence}",
             "" if done.returncode == status else f"status {done.returncode}\n{done.stdout[-1500:]}")

    check("it runs with glibc 2.31 and nothing else", holdfast("version"), r"holdfast \d")
    check("it acquires a lock in SQLite", holdfast("acquire", "deploy"), "deploy")
    check("and shows it", holdfast("locks", "ls"), "deploy")
    with open(os.path.join(bare, "scratch/rows.csv"), "w", encoding="ascii") as file:
        file.write("id,t,v\n1,2,new\n1,1,old\n")
    for end_of in ("gz", "zst"):
        check(f"it writes .{end_of} files", holdfast("merge", "--format", "csv", "--key", "id", "--time", "t", "-o",
                                                   f"/scratch/out.csv.{end_of}", "/scratch/rows.csv"))
    with TlsServer(scratch) as server:
        def ask():
            return holdfast("--store", "s3://bucket/x", "locks", "ls", AWS_ACCESS_KEY_ID="a",
                            AWS_SECRET_ACCESS_KEY="b", AWS_ENDPOINT_URL=server.url).stdout
        said, seen = ask(), server.requests
        tell("certificate" in said.lower() and seen == 0, f"{architecture}: it trusts no server without roots", said[-500:])
        os.makedirs(os.path.join(bare, "etc/ssl/certs"))
        shutil.copy(server.certificate, os.path.join(bare, "etc/ssl/certs/ca-certificates.crt"))
        said = ask()
        tell("DENIED" in said and server.requests > 0, f"{architecture}: it finds the roots of the system", said[-500:])



def main():
    wanted = sys.argv[1:]
    if not wanted:
        done = run("sh", os.path.join(ROOT, "tools/tarball.sh"))
        tell(done.returncode == 0, "the tarballs are built", "" if done.returncode == 0 else done.stdout[-3000:])
        wanted = list(MACHINES)
    if os.geteuid() != 0:
        say("a chroot needs root: the programs are not run")
    scratch = tempfile.mkdtemp(prefix="holdfast-tarball-")
    try:
        for architecture in wanted:
            archives = glob.glob(os.path.join(WORK, f"holdfast-*-linux-{architecture}.tar.gz"))
            tell(len(archives) == 1, f"{architecture}: there is a tarball")
            run("tar", "-xf", archives[0], "-C", scratch)
            folder = os.path.join(scratch, os.path.basename(archives[0]).removesuffix(".tar.gz"))
            check_symbols(folder, architecture)
            if os.geteuid() == 0:
                check_bare(scratch, folder, architecture)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return end()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bucket_cli_test.py: what a bucket says of itself counts for every command and for the library.

    bucket_cli_test.py           features, and damaged format documents, on local stores
    bucket_cli_test.py s3rver    a store that lies: a server that accepts conditions and ignores them

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import ctypes
import glob
import json
import os
import signal
import subprocess
import sys

import cases
from cli_test import LOCAL, PROGRAM, Scratch, code, equal, it, true

cases.cases.clear()

TESTS = os.path.dirname(os.path.abspath(__file__))
FORMAT = ".holdfast/format.json"
LEASE = "1:00000000000000000000000000000000-1:default/meta/job.json"
TXN = "0123456789abcdef0123456789abcdef"
CHUNK = "data/default/L0/2026/01/0123456789abcdef0123456789abcdef.usv"

# A line for each command. What touches no store is named below; what handles objects by hand comes
# last.
WORK = [
    "run job -- touch started", "acquire job", "hold job", f"renew {LEASE}", f"release {LEASE}", "locks ls",
    "locks show job", "locks break job --reason x", "locks watch --for 1s", "locks timeline job", "top", "write o file --lock job",
    "read o", "namespace create many --placement pages:4", "namespace show many", "store restored",
    "store restored --yes", "store repair epoch", "store upgrade", "key acquire k", f"key renew --lease {LEASE}",
    "key get k", "key update k --take", "key rm k --take", "key show k",
    f"key release --lease {LEASE}", "key ls", "key watch k --for 100ms", "txn begin", f"txn show {TXN}", f"txn commit {TXN}",
    f"txn rollback {TXN}", "txn ls", "compact create --format usv --key 1 --time 3",
    "compact set --grace 1m", "compact ingest file", "compact adopt raw/", "compact plan", "compact run",
    "compact cat", "compact export -o out.csv", "compact drop default", "compact release raw/",
    "compact watch", "compact status", "compact ls", "compact pause", "compact resume",
    "compact fsck", f"compact pin {CHUNK}", f"compact quarantine {CHUNK} --why x",
    f"compact undelete {CHUNK}", "elect join crew --for 1s", "elect ls crew",
    "elect run crew --step 0s -- touch started",
    "elect rank crew 1 w=1", "index create i --fields a,b,c --key a --time c",
    "index put i a=1 c=1", "index get i 1", "index query i", "index export i -o out.csv",
    "index rm i 1", "index count i", "index compile i", "index status i", "index drop i", "sweep --once", "sweep status",
    "serve --listen 127.0.0.1:0 --for 100ms",
]
OBJECTS = ["store ls", "store get o", "store put o file", "store rm o", "store cp o p", "store mv o p",
           "store sync STORE dir:elsewhere", "clock",
           "store probe", "store scrub"]
NO_STORE = ["help", "version", "merge", "config check", "config show"] + \
    [f"completion {what}" for what in ("bash", "zsh", "fish", "words")]


def commands(s):
    return {c["command"] for c in s.table()["commands"]}


def command_of(line, known):
    words = line.split()
    return next(" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in known)


def write_format(s, text):
    """Puts the document where it belongs, whatever it says."""
    s.write("format", text if isinstance(text, bytes) else json.dumps(text).encode())
    s.run("store", "put", "--force", FORMAT, "format")


def features(**lists):
    empty = {"compatible": [], "read_only": [], "incompatible": []}
    return {"format": "holdfast.bucket/1", "features": {**empty, **lists}}


def tree(s):
    """Every file of the scratch folder and its bytes."""
    found = {}
    for folder, _, names in os.walk(s.path):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                found[os.path.relpath(os.path.join(folder, name), s.path)] = file.read()
    return found


def try_line(s, line, **options):
    line = line.replace("STORE", s.env["HOLDFAST_STORE"])
    return subprocess.run([PROGRAM, *line.split()], cwd=s.path, env=s.env, input=b"1\x1fa\x1f1\n",
                          capture_output=True, timeout=120, **options)


def unsupported(s, line, said):
    done = try_line(s, line)
    why = done.stderr.decode()
    equal(done.returncode, code(s, "UNSUPPORTED"), f"{line}: {why}{done.stdout.decode()}")
    true(said in why, f"{line}: {why}")


def library():
    build = os.environ["HOLDFAST_BUILD"]
    found = glob.glob(f"{build}/src/libholdfast.so") or glob.glob(f"{build}/**/libholdfast.so*",
                                                                recursive=True)
    return ctypes.CDLL(found[0])


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("why", ctypes.c_char * 240)]


def open_client(url):
    """The status of hf_client_open, and its reason."""
    lib, client, error = library(), ctypes.c_void_p(), Error()
    status = lib.hf_client_open(url.encode(), None, ctypes.byref(client), ctypes.byref(error))
    if status == 0:
        lib.hf_client_close(client)
    lib.hf_status_name.restype = ctypes.c_char_p
    return lib.hf_status_name(status).decode(), error.why.decode()


# ---- Features -----------------------------------------------------------------------------------


@it("every command has a line here")
def _(s):
    known = commands(s)
    equal({command_of(line, known) for line in WORK + OBJECTS + NO_STORE}, known)


def touches_nothing(s, lines, said):
    s.write("file", b"1\x1fa\x1f1\n")
    before = tree(s)
    for line in lines:
        unsupported(s, line, said)
        equal(tree(s), before, f"{line}: nothing is touched")


@it("a feature that is not known and incompatible refuses every command, and nothing is touched")
def _(s):
    s.env["HOLDFAST_STORE"] = "dir:objects"
    write_format(s, features(incompatible=["sealed-tables"]))
    touches_nothing(s, WORK + OBJECTS, "sealed-tables")


@it("and every call of the library", LOCAL)
def _(s):
    os.chdir(s.path)
    equal(open_client(s.url), ("OK", ""))
    write_format(s, features(incompatible=["sealed-tables"]))
    status, why = open_client(s.url)
    equal(status, "UNSUPPORTED")
    true("sealed-tables" in why, why)


@it("so does a format of a later version, and a list of features of another kind", LOCAL)
def _(s):
    for document in ({"format": "holdfast.bucket/2"},
                     {"format": "holdfast.bucket/1", "features": {"peculiar": ["x"]}}):
        write_format(s, document)
        unsupported(s, "run job -- touch started", "upgrade")
        unsupported(s, "store ls", "upgrade")
        true(not os.path.exists(s.file("started")), "nothing was started")
        os.remove(s.file("objects/.holdfast/format.json")) if "dir:" in s.url else \
            os.remove(s.file("objects.db"))


@it("with an unknown feature that is read_only reads are right, and every write is refused", LOCAL)
def _(s):
    s.put("o", b"1")
    s.run("key", "update", "k", "--take", stdin=b"v")
    write_format(s, features(read_only=["counted-leases"]))
    equal(s.get("o"), b"1")
    equal(s.out("key", "get", "k"), b"v")
    s.run("locks", "ls")
    s.run("key", "ls")
    for line in ("run job -- touch started", "acquire job", "key update k --take", "store rm o",
                 "store put o file", "store probe", "index create i --fields a,c --key a --time c",
                 "compact create --format usv --key 1 --time 3", "elect join crew --for 1s"):
        s.write("file", b"1")
        unsupported(s, line, "counted-leases")
    true(not os.path.exists(s.file("started")), "nothing was started")


@it("an unknown feature that is compatible is no obstacle, and a probe keeps it", LOCAL)
def _(s):
    document = features(compatible=["notes"])
    document["later"] = {"deep": [1, {"x": None}], "text": "a \"b\""}
    write_format(s, document)
    s.run("run", "job", "--", "true")
    s.run("store", "probe")
    kept = json.loads(s.get(FORMAT))
    equal({name: kept[name] for name in document}, document)
    equal(kept["verdicts"][0]["usable"], True)


@it("a damaged format document is told in a sentence, and can be removed", LOCAL)
def _(s):
    for text in (b"", b"\x00garbage", b"[]", b"{}", b'{"format":7}', b'{"format":"else/1"}',
                 b'{"format":"holdfast.bucket/1"}', b'{"format":"holdfast.bucket/1","features":[]}',
                 b'{"format":"holdfast.bucket/1","features":{"compatible":"x"}}',
                 b'{"format":"holdfast.bucket/1","features":{"compatible":[7]}}',
                 b'{"format":"holdfast.bucket/1","features":{},"features":{}}',
                 b'{"format":"holdfast.bucket/1","features":{},"verdicts":{}}',
                 b'{"format":"holdfast.bucket/1","features":{}', b"[" * 100000,
                 b'{"format":"holdfast.bucket/1","features":{}}' + b" " * 300000):
        write_format(s, text)
        done = try_line(s, "run job -- touch started")
        why = done.stderr.decode()
        equal(done.returncode, code(s, "CORRUPT"), f"{text[:60]}: {why}")
        true(FORMAT in why and "damaged" in why and len(why.splitlines()) == 1, why)
        true(not os.path.exists(s.file("started")), "nothing was started")
        s.run("store", "rm", "--force", FORMAT)
        s.run("run", "job", "--", "true")


@it("every command says in a sentence that the format document is damaged")
def _(s):
    s.env["HOLDFAST_STORE"] = "dir:objects"
    s.write("file", b"1\x1fa\x1f1\n")
    write_format(s, b"{")
    for line in WORK:
        done = try_line(s, line)
        equal(done.returncode, code(s, "CORRUPT"), f"{line}: {done.stderr}")
        true(FORMAT.encode() in done.stderr, f"{line}: {done.stderr}")


@it("what says that it is 1 GiB is not read")
def _(s):
    s.env["HOLDFAST_STORE"] = "dir:objects"
    s.run("store", "put", "o", "-", stdin=b"1")
    os.makedirs(s.file("objects/.holdfast"))
    with open(s.file("objects/.holdfast/format.json"), "wb") as file:
        file.truncate(1 << 30)
    done = try_line(s, "run job -- touch started")
    equal(done.returncode, code(s, "CORRUPT"), done.stderr)
    true(b"1073741824 bytes" in done.stderr, done.stderr)


@it("a bucket of before, with probe.json, works as it did", LOCAL)
def _(s):
    s.write("probe", b'{"format":"holdfast.probe/1","traits":{"delete_conditional":false}}')
    s.run("store", "put", "--force", ".holdfast/probe.json", "probe")
    s.run("run", "job", "--", "touch", "started")
    true(os.path.exists(s.file("started")), "it ran")
    equal(s.get(".holdfast/probe.json"), s.read("probe"))


@it("a local store is not probed: one get tells it all, and nothing is written", LOCAL)
def _(s):
    s.make_store()
    done = s.run("locks", "ls", "--trace")
    asked = [line for line in done.stderr.decode().splitlines() if FORMAT in line]
    equal(len(asked), 1, done.stderr)
    true("get" in asked[0] and "NOT_FOUND" in asked[0], asked)
    equal(s.out("store", "ls", "-r"), b"")


# ---- A store that lies --------------------------------------------------------------------------


class LyingScratch(Scratch):
    """With s3rver in its folder."""

    def __init__(self):
        super().__init__(None)
        self.folder = self.file("server")
        subprocess.run([os.path.join(TESTS, "servers", "s3rver-up"), self.folder], check=True,
                       timeout=60)
        with open(os.path.join(self.folder, "endpoint"), encoding="utf-8") as file:
            self.url = f"s3://holdfast-test/p?endpoint={file.read().strip()}"
        self.env.update(AWS_ACCESS_KEY_ID="S3RVER", AWS_SECRET_ACCESS_KEY="S3RVER",
                        AWS_REGION="us-east-1", HOLDFAST_STORE=self.url)
        os.makedirs(self.file("work"))
        self.server_path, self.path = self.path, self.file("work")

    def close(self):
        with open(os.path.join(self.folder, "pid"), encoding="utf-8") as file:
            os.kill(int(file.read()), signal.SIGTERM)
        self.path = self.server_path
        super().close()


def it_lies(sentence):
    def register(function):
        if "s3rver" in sys.argv[1:]:
            cases.add(sentence, function, LyingScratch)
        return function
    return register


@it_lies("on a store that lies nothing is started, by however many at once")
def _(s):
    runs = [s.start("run", "--wait", "20s", "job", "--", "touch", f"started-{i}") for i in range(6)]
    for run in runs:
        _, why = run.communicate(timeout=60)
        equal(run.returncode, code(s, "UNSUPPORTED"), why)
        true(b"absent" in why, why)
    equal(os.listdir(s.path), [], "nothing was started")


@it_lies("it is refused by every command but those that handle objects by hand")
def _(s):
    s.write("file", b"1\x1fa\x1f1\n")
    for line in WORK:
        unsupported(s, line, "absent")
    equal(os.listdir(s.path), ["file"])
    equal(s.out("store", "ls", "-r"), FORMAT.encode() + b"\n", "all that was written")
    s.run("store", "put", "o", "file")
    equal(s.get("o"), s.read("file"))
    s.run("store", "cp", "o", "p", "-q")
    s.run("store", "rm", "o", "p")
    s.run("clock")


@it_lies("and by the library")
def _(s):
    os.environ.update(s.env)
    status, why = open_client(s.url)
    equal(status, "UNSUPPORTED")
    true("absent" in why, why)


@it_lies("the refusal is kept: the next one needs one get, and a probe makes it anew")
def _(s):
    unsupported(s, "run job -- touch started", "absent")
    verdict = json.loads(s.get(FORMAT))["verdicts"][0]
    equal(verdict["usable"], False)
    done = try_line(s, "--trace run job -- touch started")
    requests = [line for line in done.stderr.decode().splitlines() if "->" in line]
    equal(len(requests), 1, done.stderr)
    true(f"get {FORMAT} -> OK" in requests[0], requests)
    s.run("store", "probe", expect=code(s, "UNSUPPORTED"))
    true(json.loads(s.get(FORMAT))["verdicts"][0]["probed_at"] >= verdict["probed_at"], "anew")


if "s3rver" in sys.argv[1:]:
    cases.cases[:] = [c for c in cases.cases if c[2] is LyingScratch]

if __name__ == "__main__":
    sys.exit(cases.main())

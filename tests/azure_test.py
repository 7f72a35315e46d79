#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""azure_test.py: the azure store on Azurite.

    azure_test.py store    the probe, credentials, mistakes, copies, the contract of all stores, and
                           the race of processes
    azure_test.py locks    the tests of locks, their requests and their waits
    azure_test.py copies   copies between files, SQLite, Ceph and Azurite, in all twelve directions

Prints TAP. Uses the Azurite of this test run, or starts one (azurite_kit.py). Where the server cannot
be started that is a failure.
"""

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import azurite_kit
import ceph_kit
import tap_kit
from tap_kit import run_program, tell

HOLDFAST = os.environ["HOLDFAST_PROGRAM"]
SECONDS = 120  # a command may take this long on a busy machine


def holdfast(env, url, *words, **options):
    return subprocess.run([HOLDFAST, *words, "--store", url], env=env, capture_output=True,
                          text=True, timeout=SECONDS, **options)


def without_key(container, **variables):
    env = {name: value for name, value in container.environment.items()
           if name != "AZURE_STORAGE_KEY"}
    env.update(variables)
    return env


# ---- The probe and credentials ------------------------------------------------------------------


def check_probe(container):
    result = holdfast(container.environment, container.url("probe"), "store", "probe")
    output = result.stdout + result.stderr
    tell(result.returncode == 0 and "conditional delete            honoured" in output and
         "conditional block list        honoured" in output,
         "the probe accepts Azurite, with conditional deletes and block lists", output)


def round_trip(env, url, key):
    """Whether an object can be put, read, listed and deleted."""
    done = [holdfast(env, url, "store", "put", key, "-", input="hello"),
            holdfast(env, url, "store", "get", key),
            holdfast(env, url, "store", "ls", "-r"),
            holdfast(env, url, "store", "rm", key)]
    good = all(result.returncode == 0 for result in done) and done[1].stdout == "hello" and \
        key in done[2].stdout
    return good, "\n".join(result.stdout + result.stderr for result in done)


def check_credentials(container):
    url, sas = container.url("credentials"), container.sas()
    ways = [
        ("a SAS", {"AZURE_STORAGE_SAS_TOKEN": sas}, url),
        ("a SAS with a question mark", {"AZURE_STORAGE_SAS_TOKEN": "?" + sas}, url),
        ("a connection string", {"AZURE_STORAGE_CONNECTION_STRING":
                                 f"AccountName={azurite_kit.ACCOUNT};AccountKey={azurite_kit.KEY};"
                                 f"BlobEndpoint={container.azurite.endpoint()}/{azurite_kit.ACCOUNT};"},
         f"azure://{azurite_kit.ACCOUNT}/{container.name}/credentials"),
    ]
    for name, variables, place in ways:
        good, output = round_trip(without_key(container, **variables), place, "some key/a+b%")
        tell(good, f"requests are authorized by {name}", output)


class Identity(http.server.BaseHTTPRequestHandler):
    """A stand-in for the endpoint that gives tokens to a machine, and for a store that accepts
    nothing but these. `tokens` is how many were given; each is valid for `valid` seconds."""

    tokens, valid, asked, objects = 0, 3600, [], []

    def do_GET(self):
        if self.path.startswith("/metadata/identity/oauth2/token?"):
            Identity.tokens += 1
            Identity.asked.append((self.path, self.headers.get("Metadata")))
            self.answer(200, json.dumps({"access_token": f"secret-token-{Identity.tokens}",
                                         "expires_in": str(Identity.valid),
                                         "token_type": "Bearer"}))
            return
        Identity.objects.append(self.headers.get("Authorization"))
        if self.headers.get("Authorization") != f"Bearer secret-token-{Identity.tokens}":
            self.answer(401, "<?xml version='1.0'?><Error><Code>InvalidAuthenticationInfo</Code>"
                             f"<Message>not {self.headers.get('Authorization')}</Message></Error>")
        else:
            self.answer(200, "hello", ETag='"0x1"')

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *words):
        pass


def check_managed_identity(container):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Identity)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = "http://127.0.0.1:%d" % server.server_address[1]
    env = without_key(container, AZURE_POD_IDENTITY_AUTHORITY_HOST=endpoint, AZURE_CLIENT_ID="me")
    url = f"azure://someaccount/some?endpoint={endpoint}"
    result = holdfast(env, url, "store", "get", "key")
    path, metadata = Identity.asked[0] if Identity.asked else ("", "")
    tell(result.returncode == 0 and result.stdout == "hello" and metadata == "true" and
         "client_id=me" in path and "resource=https%3A%2F%2Fstorage.azure.com%2F" in path,
         "requests are authorized by a managed identity (a stand-in)",
         f"{result.stdout}{result.stderr}{Identity.asked}")
    result = holdfast(dict(env, AZURE_POD_IDENTITY_AUTHORITY_HOST="http://127.0.0.1:1",
                           AZURE_STORAGE_SAS_TOKEN="sv=1&sig=a-secret-signature"),
                      url, "store", "get", "key")
    tell(result.returncode != 0 and "a-secret-signature" not in result.stderr,
         "a refusal does not show the SAS", result.stderr)
    server.shutdown()
    server.server_close()


def lower_escapes(text):
    return re.sub("%[0-9A-F]{2}", lambda match: match.group().lower(), text)


class Echo(http.server.BaseHTTPRequestHandler):
    """Repeats in a refusal what it was sent: as it was, decoded, and encoded in other ways."""

    status = 403

    def repeat(self):
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        signature = urllib.parse.parse_qs(self.path.partition("?")[2])["sig"][0]
        encoded = urllib.parse.quote(signature, safe="")
        forms = [self.path, signature, encoded, urllib.parse.quote(signature), lower_escapes(encoded),
                 "".join(f"&#{ord(c)};" if c in "+/=" else c for c in signature)]
        body = ("<?xml version='1.0'?><Error><Code>AuthenticationFailed</Code><Message>"
                f"{' '.join(forms[Echo.turn:] + forms[:Echo.turn]).replace('&s', '&amp;s')}"
                "</Message></Error>")
        Echo.turn = (Echo.turn + 1) % len(forms)  # a message is cut, so each form comes first once
        self.send_response(Echo.status, signature)
        self.send_header("Location", f"http://127.0.0.1:1{self.path}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_GET = do_PUT = do_DELETE = repeat
    turn = 0

    def log_message(self, *words):
        pass


def check_no_echo(container):
    """A SAS appears in no message, trace or error, whatever a server answers, and not if it was put
    into the URL by mistake."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = "http://127.0.0.1:%d" % server.server_address[1]
    secret = "c2VjcmV0K3NpZ25hdHVyZS9vZithK1NBUw=="  # with '+', '/' and '=' once decoded
    secret = secret[:12] + "+/" + secret[14:]
    forms = [secret, urllib.parse.quote(secret, safe=""), urllib.parse.quote(secret),
             lower_escapes(urllib.parse.quote(secret, safe=""))]
    sas = "sv=2021-12-02&sp=rwdl&sig=" + urllib.parse.quote(secret, safe="")
    env = without_key(container, AZURE_STORAGE_SAS_TOKEN=sas)
    url = f"azure://someaccount/some?endpoint={endpoint}"
    shown = []
    for status in (301, 400, 403, 404, 409, 412):
        Echo.status = status
        for words in (["get", "k"], ["put", "k", "-"], ["rm", "k"], ["ls"], ["probe"]):
            result = holdfast(env, url, "--trace", "--json", "store", *words, input="x")
            shown += [(status, words, result.returncode, form) for form in forms
                      if form in result.stdout + result.stderr]
    for place in (url + "&" + sas, f"azure://someaccount/some?{sas}"):
        result = holdfast(env, place, "store", "get", "k")
        shown += [(place, form) for form in forms
                  if form in result.stdout + result.stderr or result.returncode == 0]
    tell(not shown, "no message, trace or error shows a SAS, whatever a server repeats",
         "\n".join(map(str, shown)))
    server.shutdown()
    server.server_close()


# ---- Mistakes -----------------------------------------------------------------------------------


def check_mistakes(container):
    env, url = container.environment, container.url()
    endpoint, account = container.azurite.endpoint(), azurite_kit.ACCOUNT
    wrong_key = "d3Jvbmcga2V5IHdyb25nIGtleSB3cm9uZyBrZXk="
    cases = [
        ("a URL without a container", env, f"azure://{account}", "names no container"),
        ("a URL without an account", env, "azure:", "azure://ACCOUNT/CONTAINER"),
        ("a name that no account has", env, "azure://My_Account/data", "is not an account name"),
        ("a name that no container has", env, f"azure://{account}/My_Data",
         "is not a container name"),
        ("an unknown option", env, url + "&region=eu", "region"),
        ("a wrong endpoint", env, f"azure://{account}/data?endpoint=ftp://x", "is not an endpoint"),
        ("a password in the endpoint", env, f"azure://{account}/data?endpoint=https://me:pw@x",
         "must not contain a user name"),
        ("no credentials", without_key(container), url, "no credentials were found"),
        ("a key that is not base64", without_key(container, AZURE_STORAGE_KEY="oops!secret"), url,
         "AZURE_STORAGE_KEY: the account key is not base64"),
        ("a SAS without a signature", without_key(container, AZURE_STORAGE_SAS_TOKEN="sv=1"), url,
         "has no signature"),
        ("a key for another account", dict(env, AZURE_STORAGE_ACCOUNT="other"), url,
         "is for the account 'other', but the URL names the account"),
        ("a wrong key", without_key(container, AZURE_STORAGE_KEY=wrong_key), url,
         "check the account key"),
        ("a SAS that may only read", without_key(container,
                                                 AZURE_STORAGE_SAS_TOKEN=container.sas("r")), url,
         "may not do this"),
        ("a SAS that has expired", without_key(container,
                                               AZURE_STORAGE_SAS_TOKEN=container.sas(seconds=-60)),
         url, "check the account key or the SAS"),
        ("a container that does not exist", env, f"azure://{account}/missing?endpoint={endpoint}",
         "there is no container 'missing' in the account"),
        ("an account that does not exist", env, f"azure://nobody/data?endpoint={endpoint}",
         "there is no account 'nobody'"),
        ("a server that does not answer", env,
         f"azure://{account}/data?endpoint=http://127.0.0.1:1&timeout=1s", "cannot reach"),
        ("a key that Azure cannot store", env, url, "no '.' at the end of a key"),
    ]
    hidden = [azurite_kit.KEY, wrong_key, "oops!secret", "me:pw", "sig="]
    for name, variables, place, expected in cases:
        key = "a./b" if "cannot store" in name else "key"
        result = holdfast(variables, place, "store", "put", key, "-", input="hello")
        lines = result.stderr.splitlines()
        told = [text for text in hidden if text in result.stderr.replace("'sig='", "")]
        tell(result.returncode != 0 and expected in result.stderr and len(lines) == 1 and not told,
             f"{name} is told in one sentence", f"{result.returncode} {told}\n{result.stderr}")


# ---- Objects ------------------------------------------------------------------------------------


def copy(env, source, target):
    result = subprocess.run([HOLDFAST, "--json", "store", "cp", "-r", "--from", source, "--to",
                             target], env=env, capture_output=True, text=True, timeout=SECONDS)
    last = (result.stdout.splitlines() or ["{}"])[-1]
    return result.returncode, json.loads(last), result.stderr


def fill_folder(folder):
    for i in range(40):
        place = os.path.join(folder, f"f{i % 4}")
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, f"o{i}"), "wb") as file:
            file.write(os.urandom(1 + i * 5000))


def check_copy(container, scratch):
    """From plain files to Azurite, on to another prefix there, to SQLite, and back into files."""
    stores = [f"dir:{scratch}/from", container.url("copies"), container.url("again"),
              f"sqlite:{scratch}/copy.db", f"dir:{scratch}/back"]
    fill_folder(f"{scratch}/from")
    outcomes = [copy(container.environment, a, b) for a, b in zip(stores, stores[1:])]
    same = subprocess.run(["diff", "-r", "-x", "%*", f"{scratch}/from", f"{scratch}/back"],
                          capture_output=True, text=True)
    tell(all(o[0] == 0 and o[1].get("objects_copied") == 40 for o in outcomes) and
         same.returncode == 0, "a copy from files to Azurite to SQLite and back is the same",
         str(outcomes) + same.stdout)


def check_blocks(container, scratch):
    """A file of more than 64 MiB is put in blocks, by condition too."""
    path, back = os.path.join(scratch, "large"), os.path.join(scratch, "back-large")
    with open(path, "wb") as file:
        file.write(os.urandom(1 << 20) * 65)
    url, env = container.url("blocks"), container.environment
    put = holdfast(env, url, "--trace", "store", "put", "--if-absent", "large", path)
    again = holdfast(env, url, "store", "put", "--if-absent", "large", path)
    get = holdfast(env, url, "store", "get", "large", back)
    same = subprocess.run(["cmp", path, back], capture_output=True, text=True)
    tell(put.returncode == 0 and again.returncode != 0 and "already exists" in again.stderr and
         get.returncode == 0 and same.returncode == 0,
         "a file of 65 MiB is put in blocks, if absent, once",
         put.stderr + again.stderr + get.stderr + same.stdout)


def check_commands(container, scratch):
    """A lock, a key, compaction and an index, as on every store."""
    env = dict(container.environment, HOLDFAST_STORE=container.url("commands"))
    for i in range(12):
        with open(os.path.join(scratch, f"new-{i}.usv"), "w", encoding="utf-8") as file:
            file.write(f"a\x1f{i}\x1f{i}\nb{i}\x1fx\x1f{i}\n")
    script = """set -eu
        holdfast() { "$HOLDFAST_PROGRAM" -q "$@"; }
        holdfast run job -- true
        lease=$(holdfast key acquire color)
        holdfast key show color >&2
        holdfast compact create --format usv --key 1 --time 3
        holdfast compact ingest new-*.usv
        holdfast compact run --all
        holdfast compact cat | wc -l
        holdfast compact fsck >&2
        holdfast index create domains --fields domain,owner,updated_at --key domain --time updated_at
        holdfast index put domains domain=example.com owner=ada
        holdfast index compile domains
        holdfast index get domains example.com
        """
    done = subprocess.run(["sh", "-c", script], env=env, cwd=scratch, capture_output=True, text=True,
                          timeout=2 * SECONDS)
    tell(done.returncode == 0 and done.stdout.startswith("13\n") and "ada" in done.stdout,
         "locks, keys, compaction and indexes work", done.stdout + done.stderr)


def listing(env, url):
    """The keys and sizes of a store."""
    result = holdfast(env, url, "--json", "store", "ls", "-r")
    return [(row["key"], row["size_bytes"]) for row in map(json.loads, result.stdout.splitlines())
            if not row["key"].startswith(".holdfast/")]


def run_copies(scratch):
    with azurite_kit.shared_or_own(scratch) as azurite, ceph_kit.shared_or_own(scratch) as ceph:
        container, bucket = azurite.container("copies"), ceph.bucket("copies")
        env = {**ceph.environment, **azurite.environment}
        kinds = {"files": lambda name: f"dir:{scratch}/{name}",
                 "SQLite": lambda name: f"sqlite:{scratch}/{name}.db",
                 "Ceph": bucket.url, "Azurite": container.url}
        fill_folder(f"{scratch}/from")
        wanted = listing(env, f"dir:{scratch}/from")
        for kind, place in kinds.items():
            copy(env, f"dir:{scratch}/from", place("source"))
        for source in kinds:
            for target in kinds:
                if source == target:
                    continue
                there = kinds[target](f"from-{source}".lower())
                done = copy(env, kinds[source]("source"), there)
                back = f"{scratch}/back-{source}-{target}"
                copy(env, there, f"dir:{back}")
                same = subprocess.run(["diff", "-r", "-x", "%*", f"{scratch}/from", back],
                                      capture_output=True, text=True)
                tell(done[0] == 0 and done[1].get("objects_copied") == 40 and len(wanted) == 40 and
                     listing(env, there) == wanted and same.returncode == 0,
                     f"a copy from {source} to {target} is the same", f"{done} {same.stdout}")
        for source, target in (("files", "Ceph"), ("Ceph", "Azurite"), ("Azurite", "SQLite")):
            check_sync(env, kinds[source]("source"), kinds[target](f"from-{source}".lower()), wanted,
                       f"from {source} to {target}", deletes=target != "Ceph")
        there = container.url("from-ceph")
        moved = holdfast(env, there, "--json", "store", "mv", "-r", "f1/", "moved/")
        tell(moved.returncode == 0 and len(listing(env, there)) == 40, "objects of Azurite are moved", moved.stderr)
        there = container.url("never-probed")
        etag = holdfast(env, there, "store", "put", "k", "-", input="x").stdout.strip()
        removed = [holdfast(env, there, "store", "rm", "--if-match", tag, "k") for tag in ("0x0", etag)]
        tell([one.returncode != 0 for one in removed] == [True, False] and listing(env, there) == [],
             "an object of Azurite is deleted only if it has the ETag", f"{etag} {removed}")


def sync(env, *words):
    done = subprocess.run([HOLDFAST, "--json", "store", "sync", *words], env=env, capture_output=True, text=True,
                          timeout=SECONDS)
    return [json.loads(line) for line in (done.stdout + done.stderr).splitlines()]


def check_sync(env, source, target, wanted, way, deletes):
    """The target is a copy that nobody has probed. One of its objects becomes another of the same size, and one
    comes on top."""
    key, size = wanted[-1]
    for name in (key, "extra"):
        holdfast(env, target, "store", "put", "-q", "--force", name, "-", input="x" * size)
    if not deletes:
        told = sync(env, "--delete", source, target)
        tell([line.get("outcome") for line in told] == ["unsupported"] and "nothing was changed" in told[0]["why"],
             f"a sync {way} that deletes is refused before anything is copied", str(told))
        holdfast(env, target, "store", "rm", "extra")
    option, gone = (["--delete"], ["extra"]) if deletes else ([], [])
    told = [sync(env, *option, source, target) for _ in range(2)]
    tell([line.get("to") for line in told[0]] == [key, *gone, None] and told[0][-1]["objects_equal"] == len(wanted) - 1 and
         [line.get("objects_equal") for line in told[1]] == [len(wanted)] and listing(env, target) == wanted,
         f"a sync {way} does what differs, and the second does nothing", str(told))


def run_locks(scratch):
    with azurite_kit.shared_or_own(scratch) as azurite:
        for name, seconds in (("lock_request_test", 60), ("lock_test", 90), ("lock_wait_test", 240)):
            url = azurite.container("locks").url(parameters="connections=64")
            run_program(name, ["url"], dict(azurite.environment, HOLDFAST_TEST_URL=url), name,
                        seconds)


def run_store(scratch):
    with azurite_kit.shared_or_own(scratch) as azurite:
        container = azurite.container("azure")
        check_probe(container)
        check_credentials(container)
        check_managed_identity(container)
        check_no_echo(container)
        check_mistakes(container)
        check_copy(container, scratch)
        check_blocks(container, scratch)
        check_commands(container, scratch)
        env = dict(azurite.environment, HOLDFAST_TEST_URL=container.url(parameters="connections=64"))
        env.setdefault("HOLDFAST_TEST_ROUNDS", "5")
        run_program("store_test", ["url"], env, "contract", SECONDS)
        run_program("process_race_test", ["url"], env, "processes", SECONDS)


MODES = {"store": run_store, "locks": run_locks, "copies": run_copies}


def main(words):
    if len(words) != 1 or words[0] not in MODES:
        sys.exit("usage: azure_test.py store | locks | copies")
    scratch = tempfile.mkdtemp(prefix="holdfast-azure-")
    try:
        MODES[words[0]](scratch)
    except (OSError, subprocess.SubprocessError, azurite_kit.CannotStart,
            ceph_kit.CannotStart) as problem:
        tell(False, "the servers start and the programs end in time", str(problem))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return tap_kit.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

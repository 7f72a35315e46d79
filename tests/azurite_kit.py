# SPDX-License-Identifier: Apache-2.0
"""azurite_kit.py: Azurite, Microsoft's emulator of Azure's storage, for test scripts, and containers
in it.

$HOLDFAST_SHARED_AZURITE names the data folder of a server that many tests of a run share. Without it
the test starts one in its scratch folder. Tests on the shared server do not interfere, because each
creates its own containers.
"""

import base64
import contextlib
import email.utils
import hmac
import http.client
import os
import secrets
import subprocess
import time
import urllib.parse

SERVERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "servers")
ACCOUNT = "devstoreaccount1"
# The key of the emulator's account is public: it is part of Azure's documentation.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2021-12-02"
START_SECONDS = 60.0


class CannotStart(Exception):
    """Raised, with the reason, if Azurite cannot be started."""


def sign(text):
    return base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), "sha256")).decode()


class Azurite:
    """A server in a folder that azurite-up has filled. `home` is a scratch folder for its clients."""

    def __init__(self, folder, home):
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("AZURE_", "IDENTITY_", "HOLDFAST_STORE"))}
        # Nobody answers there, so the search for a managed identity ends at once.
        self.environment.update(AZURE_STORAGE_KEY=KEY, HOME=home,
                                AZURE_POD_IDENTITY_AUTHORITY_HOST="http://127.0.0.1:1")

    def up(self):
        done = subprocess.run([os.path.join(SERVERS, "azurite-up"), self.folder],
                              stderr=subprocess.PIPE, text=True, timeout=START_SECONDS)
        if done.returncode != 0:
            raise CannotStart(done.stderr.strip())

    def down(self):
        if os.path.isdir(self.folder):
            subprocess.run([os.path.join(SERVERS, "azurite-down"), self.folder], timeout=60)

    def wait_until_ready(self):
        """Waits for a server that another process is starting."""
        end = time.monotonic() + START_SECONDS
        failed = os.path.join(self.folder, "failed")
        while not os.path.exists(os.path.join(self.folder, "ready")):
            if os.path.exists(failed):
                with open(failed, encoding="utf-8", errors="replace") as file:
                    raise CannotStart(file.read().strip())
            if time.monotonic() > end:
                raise CannotStart(f"Azurite in '{self.folder}' did not start within "
                                  f"{START_SECONDS:.0f} s")
            time.sleep(0.1)

    def endpoint(self):
        with open(os.path.join(self.folder, "endpoint"), encoding="utf-8") as file:
            return file.read().strip()

    def container(self, name):
        """Creates a container that no other test and no other run uses."""
        unique = f"{name}-{os.getpid()}-{secrets.token_hex(4)}"
        date = email.utils.formatdate(usegmt=True)
        text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{VERSION}\n" \
            f"/{ACCOUNT}/{ACCOUNT}/{unique}\nrestype:container"
        connection = http.client.HTTPConnection(self.endpoint().removeprefix("http://"), timeout=60)
        connection.request("PUT", f"/{ACCOUNT}/{unique}?restype=container", headers={
            "x-ms-date": date, "x-ms-version": VERSION, "Content-Length": "0",
            "Authorization": f"SharedKey {ACCOUNT}:{sign(text)}"})
        reply = connection.getresponse()
        if reply.status != 201:
            raise CannotStart(f"cannot create a container: {reply.status} {reply.read()[:300]}")
        connection.close()
        return Container(self, unique)


class Container:
    """A container, and the URLs of stores in it."""

    def __init__(self, azurite, name):
        self.azurite, self.name = azurite, name
        self.environment = azurite.environment

    def url(self, prefix="", parameters=""):
        return self.url_at(self.azurite.endpoint(), prefix, parameters)

    def url_at(self, endpoint, prefix="", parameters=""):
        """The URL through another address than the server's own, such as a relay."""
        place = f"{self.name}/{prefix}" if prefix else self.name
        return f"azure://{ACCOUNT}/{place}?endpoint={endpoint}" + \
            (f"&{parameters}" if parameters else "")

    def sas(self, permissions="racwdl", seconds=3600):
        """A signature for this container and its objects."""
        expiry = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
        text = "\n".join([permissions, "", expiry, f"/blob/{ACCOUNT}/{self.name}", "", "", "",
                          VERSION, "c", "", "", "", "", "", "", ""])
        return urllib.parse.urlencode({"sp": permissions, "se": expiry, "sv": VERSION, "sr": "c",
                                       "sig": sign(text)})


@contextlib.contextmanager
def own(scratch):
    """A server in a scratch folder, stopped at the end."""
    azurite = Azurite(os.path.join(scratch, "azurite"), scratch)
    try:
        azurite.up()
        yield azurite
    finally:
        azurite.down()


@contextlib.contextmanager
def shared_or_own(scratch):
    """The shared server of this test run, or else one in a scratch folder."""
    folder = os.environ.get("HOLDFAST_SHARED_AZURITE")
    if folder:
        azurite = Azurite(folder, scratch)
        azurite.wait_until_ready()
        yield azurite
    else:
        with own(scratch) as azurite:
            yield azurite

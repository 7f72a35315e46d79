# SPDX-License-Identifier: Apache-2.0
"""served_kit.py: a server on a store of its own, for tests of its clients.

The program's path comes in $HOLDFAST_SERVE.
"""

import os
import re
import signal
import subprocess

PROGRAM = os.environ.get("HOLDFAST_SERVE", "")


class Server:
    """A server that is stopped, killed and started again at the same place."""

    def __init__(self, store, *options, env=None, listen="127.0.0.1:0", log="/dev/null"):
        self.store, self.options, self.env, self.log = store, options, env, log
        self.listen, self.process, self.url = listen, None, None
        self.start()

    def start(self):
        errors, self.errors = os.pipe()
        self.process = subprocess.Popen(
            [PROGRAM, "--store", self.store, "--listen", self.listen, *self.options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors,
            env=self.env)
        os.close(self.errors)
        text = b""
        while b"listening on" not in text or not text.endswith(b"\n"):
            piece = os.read(errors, 4096)
            if not piece:
                raise AssertionError(f"the server did not start: {text.decode()}")
            text += piece
        self.errors = errors  # stays open, so that the server can write to it
        where = re.search(r"listening on (\S+)", text.decode())[1]
        self.url = where
        if where.startswith("http"):
            self.listen = where.split("//")[1]  # the same port again

    def kill(self):
        self.process.kill()
        self.process.wait()
        os.close(self.errors)

    def stop(self):
        """The exit status."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(30)
        os.close(self.errors)
        return status

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self):
        if self.process and self.process.poll() is None:
            self.resume()
            self.kill()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples_test.py TRANSACTION: what the example of a transaction, the program TRANSACTION, makes of an account
that it cannot read. Prints TAP.
"""

import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import tap_kit

PROGRAM = os.environ["HOLDFAST_PROGRAM"]
SECONDS = 60


def run(*command, text=""):
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
    return done.returncode, done.stdout, done.stderr


def check_transaction(example, url):
    status, out, error = run(example, url)
    tap_kit.tell((status, out) == (0, "ann has 90, joe 110\n"), "a new account has 100", f"{status} {out}{error}")
    longer = "7" * 40  # than the example reads
    run(PROGRAM, "--store", url, "key", "update", "--take", "accounts/joe", text=longer)
    status, out, error = run(example, url)
    tap_kit.tell(status != 0 and out == "", "an account that cannot be read ends the transaction", f"{status} {out}{error}")
    found = [run(PROGRAM, "--store", url, "key", "get", f"accounts/{name}")[1] for name in ("ann", "joe")]
    tap_kit.tell(found == ["90", longer], "and both accounts stay as they are", str(found))


def main(example):
    with tempfile.TemporaryDirectory(prefix="holdfast-examples-") as folder:
        check_transaction(example, f"sqlite:{folder}/bank.db")
    return tap_kit.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

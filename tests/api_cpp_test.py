#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""api_cpp_test.py sqlite|ceph: tests/api_user.cc, compiled as C++17 by each compiler that is there, with include/ and
the shared library and nothing else, does its work on such a store.
"""

import os
import shutil
import subprocess
import sys
import tempfile

from api_kit import store_of
from tap_kit import end, tell

TESTS = os.environ["HOLDFAST_TESTS"]
LIBRARY = os.path.join(os.environ["HOLDFAST_BUILD"], "src")
FLAGS = ["-std=c++17", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I" + os.path.join(TESTS, "../include"),
         "-L" + LIBRARY, "-Wl,-rpath," + LIBRARY]


def run(*command, environment=None):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


def use(compiler, url, environment):
    with tempfile.TemporaryDirectory(prefix="holdfast-cpp-") as folder:
        program = os.path.join(folder, "user")
        done = run(compiler, *FLAGS, "-o", program, os.path.join(TESTS, "api_user.cc"), "-lholdfast")
        tell(done.returncode == 0, f"{compiler} compiles it without a warning", done.stderr)
        if done.returncode == 0:
            done = run(program, url, environment=environment)
            for line in done.stdout.splitlines():
                if line.startswith(("ok ", "not ok ")):
                    tell(line.startswith("ok "), f"{compiler}, {line.split(' - ', 1)[1]}", done.stdout * line.startswith("not"))
            tell(done.returncode == 0, f"what {compiler} made ends well", done.stderr)


def main(arguments):
    compilers = [name for name in ("g++", "clang++") if shutil.which(name)]
    tell(compilers, "there is a C++ compiler")
    with store_of(arguments[0]) as (url, environment):
        for compiler in compilers:
            use(compiler, url, environment)
    return end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

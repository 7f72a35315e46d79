#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python_test.py local|package|ceph: runs the tests of bindings/python by Debian's Python and pytest,
and prints a TAP line for each.

    local      all but the next, on an SQLite file and in a folder
    package    the wheel and the source distribution, and the types
    ceph       what concerns stores, on Ceph
"""

import os
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

from api_kit import store_of
from tap_kit import end, say, tell

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../bindings/python")
PYTHON = "/usr/bin/python3"
FILES = {"local": ["abi", "compact", "docs", "index", "key", "life", "lock"], "package": ["package"],
         "ceph": ["compact", "index", "key", "lock"]}


def sentence(case):
    """test_a_lock_is_held_alone[sqlite] of tests.test_lock: "lock: a lock is held alone (sqlite)"."""
    name, _bracket, store = case.get("name").removeprefix("test_").partition("[")
    part = case.get("classname").rpartition("test_")[2]
    return f"{part}: {name.replace('_', ' ')}" + (f" ({store[:-1]})" if store else "")


def run(part, environment):
    with tempfile.TemporaryDirectory(prefix="holdfast-python-") as folder:
        report = os.path.join(folder, "report.xml")
        environment = dict(environment, PYTHONDONTWRITEBYTECODE="1", TMPDIR=folder,
                           HOLDFAST_LIBRARY=os.path.join(os.environ["HOLDFAST_BUILD"], "src/libholdfast.so.0"))
        environment.pop("PYTHONPATH", None)
        tests = [os.path.join(ROOT, f"tests/test_{name}.py") for name in FILES[part]]
        done = subprocess.run([PYTHON, "-X", "faulthandler", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ROOT,
                               "--junitxml", report, *tests], env=environment, capture_output=True, text=True)
        cases = list(ElementTree.parse(report).iter("testcase")) if os.path.exists(report) else []
    for case in cases:
        problems = [problem for kind in ("failure", "error") for problem in case.iter(kind)]
        tell(not problems, sentence(case), "\n".join(problem.text or "" for problem in problems))
        for skipped in case.iter("skipped"):
            say(f"skipped: {skipped.get('message')}")
    if not cases or done.returncode not in (0, 1):
        tell(False, "pytest runs to its end", f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}")


def main(arguments):
    part = arguments[0]
    if part == "ceph":
        with store_of("ceph") as (url, environment):
            run(part, dict(environment, HOLDFAST_TEST_STORES=url))
    else:
        run(part, os.environ)
    return end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

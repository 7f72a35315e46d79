# SPDX-License-Identifier: Apache-2.0
"""tap_kit.py: the output of a test script: a TAP line per case, remarks after '#', and the plan at
the end.
"""

import os
import re
import subprocess
import threading
import time

DETAIL_LINES_MAX = 60

count = failures = 0
lock = threading.Lock()  # guards the two numbers, and keeps a case and its details together


def tell(good, sentence, detail=""):
    global count, failures
    with lock:
        count += 1
        failures += not good
        print(f"{'ok' if good else 'not ok'} {count} - {sentence}", flush=True)
        for line in detail.splitlines()[:DETAIL_LINES_MAX]:
            print(f"# {line}", flush=True)


def say(text):
    with lock:
        print(f"# {text}", flush=True)


def took(what, begun):
    say(f"{what}: {time.monotonic() - begun:.1f} s")


def run_program(name, arguments, environment, label, seconds):
    """Runs a test program and prints its TAP lines with the numbers of this script."""
    begun = time.monotonic()
    command = [os.path.join(os.environ["HOLDFAST_TEST_PROGRAMS"], name), *arguments]
    result = subprocess.run(command, env=dict(environment, CMOCKA_MESSAGE_OUTPUT="TAP"),
                            capture_output=True, text=True, timeout=seconds)
    good = bad = 0
    for line in (result.stdout + result.stderr).splitlines():
        match = re.match(r"(not )?ok \d+ - (.*)", line)
        if match:
            good, bad = good + (not match[1]), bad + bool(match[1])
            tell(not match[1], f"{label}: {match[2]}")
        elif not line.startswith("1.."):
            say(line.lstrip("# "))
    if good == 0 or (result.returncode != 0 and bad == 0):
        tell(False, f"{label} runs to its end", f"exit status {result.returncode}")
    took(label, begun)


def end():
    """Prints the plan and returns the exit status."""
    print(f"1..{count}", flush=True)
    return 1 if failures else 0

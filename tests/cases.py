"""cases.py: runs the cases of a test program side by side, each in a process that has nothing else to
do meanwhile, and prints TAP in the order in which they are written.

A case is a sentence and a function, which gets a scratch object of its own, with a close().
"""

import concurrent.futures
import contextlib
import io
import multiprocessing
import os
import sys
import time
import traceback

# Most cases wait for processes that wait for time to pass: more of them than there are cores.
SIDE_BY_SIDE = int(os.environ.get("HOLDFAST_SIDE_BY_SIDE", "3"))

cases = []  # (sentence, function, how to make its scratch object)


def add(sentence, function, make_scratch):
    cases.append((sentence, function, make_scratch))


def equal(got, wanted, what=""):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r:.400}, wanted {wanted!r:.400}")


def true(condition, what):
    if not condition:
        raise AssertionError(what)


def run_case(number):
    """In a process of its own: whether the case is good, what it printed, and the seconds it took."""
    _, function, make_scratch = cases[number]
    begun = time.monotonic()
    text = io.StringIO()
    good = False
    with contextlib.redirect_stdout(text):
        scratch = make_scratch()
        try:
            function(scratch)
            good = True
        except Exception:  # whatever goes wrong is this case's failure
            print("# " + traceback.format_exc().replace("\n", "\n# "))
        scratch.close()
    return good, text.getvalue(), time.monotonic() - begun


def main():
    """The exit status."""
    print(f"1..{len(cases)}", flush=True)
    failed = 0
    with concurrent.futures.ProcessPoolExecutor(
            SIDE_BY_SIDE, multiprocessing.get_context("fork")) as pool:
        outcomes = pool.map(run_case, range(len(cases)))
        for number, (good, text, seconds) in enumerate(outcomes, 1):
            failed += not good
            sys.stdout.write(text)
            print(f"{'ok' if good else 'not ok'} {number} - {cases[number - 1][0]}")
            print(f"# {seconds:.2f} s", flush=True)
    return 1 if failed else 0

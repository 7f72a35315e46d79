# SPDX-License-Identifier: Apache-2.0
"""cases.py: runs the cases of a test program side by side, each in a process that has nothing else to
do meanwhile, and prints TAP in the order in which they are written.

A case is a sentence and a function, which gets a scratch object of its own, with a close(). With
HOLDFAST_CASES=timed only those run that involve time (`make flakes`).
"""

import concurrent.futures
import contextlib
import io
import multiprocessing
import os
import re
import resource
import sys
import time
import traceback
import types

# Most cases wait for processes that wait for time to pass: more of them than there are cores.
SIDE_BY_SIDE = int(os.environ.get("HOLDFAST_SIDE_BY_SIDE", "3"))

cases = []  # (sentence, function, how to make its scratch object)


def add(sentence, function, make_scratch):
    cases.append((sentence, function, make_scratch))


def unsealed(document):
    """A document without its checksum, as earlier versions wrote it, and as whoever edits it leaves it."""
    return re.sub(rb'("write": ?"[0-9a-f]{32})~[0-9a-f]{8}"', rb'\1"', document)


def equal(got, wanted, what=""):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r:.400}, wanted {wanted!r:.400}")


def true(condition, what):
    if not condition:
        raise AssertionError(what)


def until(condition, what, seconds=30):
    """Waits until a condition is true. A look that runs a program costs much, so after each of them it
    waits for three times as long as the look took."""
    end = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if condition():
            return
        looked = time.monotonic()
        true(looked < end, f"in vain: {what}")
        time.sleep(max(0.01, 3 * (looked - began)))


# A case that uses none of these names and gives a program no seconds runs programs one after the
# other and looks at what they did.
NAMES_OF_TIME = {"Popen", "kill", "monotonic", "send_signal", "sleep", "start", "terminate",
                 "Thread", "until"}
SECONDS = re.compile(r"\d+(ms|s)")


def words_of(constants):
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple):
            yield from words_of(constant)


def involves_time(function, seen=()):
    """Whether it, or a function of its module that it calls, has to do with time."""
    codes, names, words = [function.__code__], set(), set()
    for code in codes:
        names.update(code.co_names)
        words.update(words_of(code.co_consts))
        codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
    if names & NAMES_OF_TIME or any(map(SECONDS.fullmatch, words)):
        return True
    called = [function.__globals__.get(name) for name in names]
    return any(involves_time(one, (*seen, function)) for one in called
               if isinstance(one, types.FunctionType) and one not in seen)


def processor_time():
    """Seconds of this process and of its children that have ended: user, system."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime for usage in usages), sum(usage.ru_stime for usage in usages)


def run_case(number):
    """In a process of its own: whether the case is good, what it printed, and the seconds it took:
    real, user and system."""
    _, function, make_scratch = cases[number]
    begun, (user, system) = time.monotonic(), processor_time()
    text = io.StringIO()
    good = False
    with contextlib.redirect_stdout(text):
        scratch = make_scratch()
        try:
            function(scratch)
            good = True
        except Exception as wrong:  # whatever it is, this case has failed
            print(f"# {wrong!r}\n# " + traceback.format_exc().strip().replace("\n", "\n# "))
        scratch.close()
    user_after, system_after = processor_time()
    return good, text.getvalue(), (time.monotonic() - begun, user_after - user, system_after - system)


def main():
    """The exit status."""
    if os.environ.get("HOLDFAST_CASES") == "timed":
        cases[:] = [case for case in cases if involves_time(case[1])]
    print(f"1..{len(cases)}", flush=True)
    failed = 0
    with concurrent.futures.ProcessPoolExecutor(
            SIDE_BY_SIDE, multiprocessing.get_context("fork")) as pool:
        outcomes = pool.map(run_case, range(len(cases)))
        for number, (good, text, seconds) in enumerate(outcomes, 1):
            failed += not good
            print(f"{'ok' if good else 'not ok'} {number} - {cases[number - 1][0]}")
            sys.stdout.write(text)
            print("# %.2f s, CPU %.2f user %.2f system" % seconds, flush=True)
    return 1 if failed else 0

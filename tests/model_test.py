#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""model_test.py: a model (model/takeover.pml, model/pins.pml or model/txn.pml) holds in every state
that it can reach, and each of its wrong rules is found out.

    model_test.py takeover          in a few seconds
    model_test.py takeover long     with more grants
    model_test.py pins [long]       the same for pins; long: with two readers
    model_test.py txn [long]        the same for transactions; long: with more clients

A search counts only if it was exhaustive, if it was not suspiciously small, and if everything that
the model calls a story was seen to happen in it. Needs spin and gcc; prints TAP.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model")

# All assertions; or, with the calm, what must happen in the end, if every process gets its turns.
SAFETY = (["-DSAFETY"], [])
LIVENESS = (["-DNFAIR=3"], ["-a", "-f"])

# What holds, how it is searched, the least number of states, definitions, whether all stories are
# told.
TAKEOVER_SHORT = [
    ("one holder, rising tokens, a fence that never goes back", SAFETY, 300000,
     ["GRANTS=2"], True),
    ("after the calm all are served", LIVENESS, 100000,
     ["GRANTS=2", "WITHOUT_FENCE", "CALM"], False),
]
TAKEOVER_LONG = [
    ("one holder, rising tokens, a fence that never goes back", SAFETY, 1000000,
     ["GRANTS=3"], True),
    ("the same of more grants, without the fence", SAFETY, 300000,
     ["GRANTS=6", "WITHOUT_FENCE"], False),
    ("after the calm all are served", LIVENESS, 200000,
     ["GRANTS=3", "WITHOUT_FENCE", "CALM"], False),
]

# Each wrong rule of the model, how it is searched for, more definitions, what must be said of it.
BROKEN = "assertion violated"
TAKEOVER_MUTANTS = [
    ("VALIDITY_FROM_REPLY", SAFETY, ["WITHOUT_FENCE"], BROKEN),
    ("NO_NONCE_RECOGNITION", SAFETY, ["WITHOUT_FENCE"], BROKEN),
    ("TAKEOVER_EARLY", SAFETY, ["WITHOUT_FENCE"], BROKEN),
    ("HOLDER_WITHOUT_MARGIN", SAFETY, ["WITHOUT_FENCE"], BROKEN),
    ("WATCH_IGNORES_NONCE", SAFETY, ["WITHOUT_FENCE"], BROKEN),
    ("CANCEL_WITHOUT_WRITE", SAFETY, ["WITHOUT_FENCE"], BROKEN),
    ("RELEASE_WITHOUT_TOKEN", SAFETY, ["WITHOUT_FENCE"], BROKEN),
    ("PUT_WITHOUT_CONDITION", SAFETY, ["WITHOUT_FENCE"], BROKEN),
    ("FENCE_WITHOUT_CONDITION", SAFETY, [], BROKEN),
    ("WATCH_STARTS_ANEW", LIVENESS, ["WITHOUT_FENCE", "CALM"], "acceptance cycle"),
]

PINS_SHORT = [
    ("no object of a snapshot is deleted", SAFETY, 15000, ["READERS=1"], True),
    ("overlapping readers do not stop deletion", LIVENESS, 10000, ["CALM", "CHUNKS=1"], False),
]
PINS_LONG = [
    ("no object of a snapshot is deleted", SAFETY, 3000000, ["READERS=2"], True),
    ("overlapping readers do not stop deletion", LIVENESS, 100000, ["CALM"], False),
]
PINS_MUTANTS = [
    ("SNAPSHOTS_OVERLOOKED", SAFETY, ["READERS=1"], BROKEN),
    ("COMPARED_THE_WRONG_WAY", SAFETY, ["READERS=1"], BROKEN),
    ("UNKNOWN_COUNTS_AS_ZERO", SAFETY, ["READERS=1"], BROKEN),
    ("MOVE_AT_THE_SAME_GENERATION", SAFETY, ["READERS=1"], BROKEN),
    ("SPLIT_AT_THE_SAME_GENERATION", SAFETY, ["READERS=1"], BROKEN),
    ("PINS_ABOVE_OVERLOOKED", SAFETY, ["READERS=1"], BROKEN),
    ("CHILD_NOT_PINNED", SAFETY, ["READERS=1"], BROKEN),
    ("CATALOG_BEFORE_PIN", SAFETY, ["READERS=1"], BROKEN),
    ("PINS_BEFORE_THE_MOVE", SAFETY, ["READERS=1"], BROKEN),
    ("EVERY_PIN_HOLDS", LIVENESS, ["CALM", "CHUNKS=1"], "acceptance cycle"),
]

TXN_SHORT = [
    ("a transaction is committed to all of its keys or to none", SAFETY, 40000, ["WANTED=1"], True),
]
TXN_LONG = [
    ("a transaction is committed to all of its keys or to none", SAFETY, 1000000, ["WANTED=2"], True),
    ("a reader sees it so", SAFETY, 1000000, ["WANTED=1", "READER"], True),
]
TXN_MUTANTS = [
    ("COMMIT_BEFORE_STAGED", SAFETY, [], BROKEN),
    ("COMMIT_WITHOUT_CONDITION", SAFETY, [], BROKEN),
    ("UNSURE_IS_COMMIT", SAFETY, [], BROKEN),
    ("UNSURE_IS_ROLLBACK", SAFETY, [], BROKEN),
    ("DISCARD_WITHOUT_RECORD", SAFETY, [], BROKEN),
    ("PROMOTE_PENDING", SAFETY, [], BROKEN),
    ("APPLIED_ALTHOUGH_LOST", SAFETY, [], BROKEN),
    ("PURGED_UNSETTLED", SAFETY, [], BROKEN),
    ("ABSENT_IS_ROLLBACK", SAFETY, ["READER"], BROKEN),
]

SUITES = {
    "takeover": {"short": TAKEOVER_SHORT, "long": TAKEOVER_LONG, "mutants": TAKEOVER_MUTANTS,
                 "always": ["GRANTS=2"]},
    "pins": {"short": PINS_SHORT, "long": PINS_LONG, "mutants": PINS_MUTANTS, "always": []},
    "txn": {"short": TXN_SHORT, "long": TXN_LONG, "mutants": TXN_MUTANTS, "always": ["WANTED=1"]},
}

# What goes wrong within a few steps is found sooner when longer ways are not tried first.
DEPTH_MAX = 1000000
DEPTH_SHALLOW = 300
SECONDS_MAX = {"short": 50, "long": 280}
SIGNS_OF_A_PART = ("max search depth too small", "Search not completed", "out of memory")

CCACHE = ["ccache"] if shutil.which("ccache") else []


def run(command, folder, seconds):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stdout}{done.stderr}")
    return done.stdout


def path_of(model):
    return os.path.join(MODELS, model + ".pml")


def make_verifier(model, how, definitions, optimise, folder, seconds):
    shutil.copy(path_of(model), folder)
    run(["spin"] + ["-D" + name for name in definitions] + ["-a", model + ".pml"], folder, seconds)
    # Half of the time is the compiler's, for the same text in every run.
    run(CCACHE + ["gcc", optimise, "-w", "-DNOREDUCE"] + how[0] + ["-c", "pan.c"], folder, seconds)
    run(["gcc", "-o", "pan", "pan.o"], folder, seconds)


def search(model, how, definitions, optimise, depths, seconds):
    """What the verifier says of the model with these definitions, within the first of the depths
    at which it finds anything; or why it could not be run."""
    report = "not searched"
    with tempfile.TemporaryDirectory(prefix="holdfast-model-") as folder:
        try:
            make_verifier(model, how, definitions, optimise, folder, seconds)
            for depth in depths:
                report = run(["./pan", f"-m{depth}"] + how[1], folder, seconds)
                if "pan:1:" in report:
                    break
        except (OSError, RuntimeError, subprocess.TimeoutExpired) as failure:
            report = f"failed: {failure}"
    return report


def stories(model):
    with open(path_of(model), encoding="utf-8") as text:
        return re.findall(r'story\("([^"]+)"\)', text.read())


def states_of(report):
    found = re.search(r"^ *(\d+) states, stored", report, re.MULTILINE)
    return int(found.group(1)) if found else 0


def judge_search(model, report, states_min, all_stories):
    """What is wrong with a search that should have found nothing."""
    wrong = [sign for sign in SIGNS_OF_A_PART if sign in report]
    if "errors: 0" not in report:
        wrong.append("it does not hold, or was not searched: " + report[:600])
    if states_of(report) < states_min:
        wrong.append(f"only {states_of(report)} states, where {states_min} or more were expected")
    if all_stories:
        told = re.findall(r"^story: (.*)$", report, re.MULTILINE)
        wrong += [f"never happened: {story}" for story in stories(model) if story not in told]
    return wrong


def judge_mutant(report, sign):
    found = re.search(r"^pan:1: (.*)$", report, re.MULTILINE)
    if found and sign in found.group(1) and "errors: 1" in report:
        return []
    return [f"nobody noticed: {report[:600]}"]


def say(number, wrong, words):
    print(f"{'not ok' if wrong else 'ok'} {number} - {words}")
    for line in "\n".join(wrong).splitlines():
        print(f"# {line}")
    return bool(wrong)


def main():
    arguments = sys.argv[1:]
    if not arguments or arguments[0] not in SUITES or arguments[1:] not in ([], ["long"]):
        sys.exit(__doc__)
    model, size = arguments[0], "long" if arguments[1:] else "short"
    if not shutil.which("spin"):
        print("1..1")
        return say(1, ["install it: apt-get install spin"], "spin is there to search the model")
    suite = SUITES[model]
    searches, mutants = suite[size], suite["mutants"]
    seconds = SECONDS_MAX[size]
    print(f"1..{len(searches) + len(mutants)}")
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        held = [pool.submit(search, model, how, names, "-O1", [DEPTH_MAX], seconds)
                for _, how, _, names, _ in searches]
        broken = [pool.submit(search, model, how, [rule] + suite["always"] + names, "-O0",
                              [DEPTH_MAX] if how is LIVENESS else [DEPTH_SHALLOW, DEPTH_MAX],
                              seconds)
                  for rule, how, names, _ in mutants]
    failures = 0
    for i, (words, _, states_min, _, all_stories) in enumerate(searches):
        report = held[i].result()
        failures += say(i + 1, judge_search(model, report, states_min, all_stories),
                        f"{words}: the model holds in all {states_of(report):,} states")
    for i, (rule, _, _, sign) in enumerate(mutants):
        report = broken[i].result()
        failures += say(len(searches) + i + 1, judge_mutant(report, sign),
                        f"{rule} is found out, after {states_of(report):,} states")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())

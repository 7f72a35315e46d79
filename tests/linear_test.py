#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""linear_test.py: the checker of tests/linear.py, on histories made by hand.

Prints TAP. Each case gives a history and whether it is linearizable; so a checker that says yes, or no,
to everything fails.
"""

import random
import sys

sys.dont_write_bytecode = True

from linear import (FENCED_START, Call, Held, Undecided, check, check_held, fenced, keys, keys_start, narrow,
                    unknown)
from tap_kit import end, tell


def write(begin, end, value, version, key=0):
    return Call(begin, end, ("write", ((key, value),)), ((key, version),))


def read(begin, end, version, value, key=0):
    return Call(begin, end, ("read", key), (version, value))


def lost_write(begin, value, key=0):
    return unknown(begin, ("write", ((key, value),)))


def judge(good, sentence, history, model=keys, start=keys_start(3)):
    if model is keys:
        history = narrow(history)
    orders = [history, history[::-1]] if len(history) < 100 else [history]
    found = [check(order, model, start) for order in orders]
    right = all((why is None) == good for why in found)
    tell(right, sentence, "" if right else "\n".join(why or "linearizable" for why in found))


# ---- Registers ----------------------------------------------------------------------------------

judge(True, "an empty history is linearizable", [])
judge(True, "a read after a write sees it", [write(0, 1, "a", 1), read(2, 3, 1, "a")])
judge(False, "a read after a write that sees what was before is refused",
      [write(0, 1, "a", 1), read(2, 3, 0, None)])
judge(True, "a read during a write may see either",
      [write(0, 5, "a", 1), read(1, 2, 0, None), read(3, 4, 1, "a")])
judge(False, "once a read has seen a write under way, a later read does not go back",
      [write(0, 5, "a", 1), read(1, 2, 1, "a"), read(3, 4, 0, None)])
judge(False, "a value that nobody wrote is refused", [write(0, 1, "a", 1), read(2, 3, 1, "b")])
judge(True, "two writes at once have either order",
      [write(0, 3, "a", 2), write(0, 3, "b", 1), read(4, 5, 2, "a")])
judge(False, "two writes with the same version are refused",
      [write(0, 3, "a", 1), write(0, 3, "b", 1)])
judge(False, "a lost update is refused: a version is missing",
      [write(0, 1, "a", 1), write(2, 3, "b", 2), read(4, 5, 1, "b")])
judge(False, "calls that touch only at one instant are at once, but not beyond it",
      [write(0, 1, "a", 1), read(1.5, 2, 0, None)])
judge(True, "calls that touch at one instant are at once", [write(0, 1, "a", 1), read(1, 2, 0, None)])

# ---- Unknown calls ------------------------------------------------------------------------------

judge(True, "a write without an answer may never have happened",
      [lost_write(0, "a"), read(1, 2, 0, None), read(3, 4, 0, None)])
judge(True, "a write without an answer may land late",
      [lost_write(0, "a"), read(1, 2, 0, None), read(8, 9, 1, "a")])
judge(False, "a write without an answer does not land and go away again",
      [lost_write(0, "a"), read(1, 2, 1, "a"), read(3, 4, 0, None)])
judge(False, "a write without an answer does not land twice",
      [lost_write(0, "a"), read(1, 2, 1, "a"), write(3, 4, "b", 2), read(5, 6, 3, "a")])
judge(False, "a write without an answer does not land before it began",
      [read(0, 1, 1, "a"), lost_write(2, "a")])
judge(True, "of several writes without an answer those land that are needed",
      [lost_write(0, "a"), lost_write(0, "b"), lost_write(0, "c"), read(1, 2, 1, "b"),
       read(3, 4, 2, "c"), read(5, 6, 2, "c")])
judge(False, "a write that was refused, and is left out, but shows is found",
      [write(0, 1, "a", 1), read(4, 5, 2, "refused")])
judge(True, "thirty writes without an answer that nobody saw cost no time",
      [lost_write(i / 100, f"v{i}") for i in range(30)]
      + [write(2 * i + 1, 2 * i + 2, f"w{i}", i + 1) for i in range(30)])

# ---- Conditions ---------------------------------------------------------------------------------

judge(True, "of two writes on one condition one is refused",
      [Call(0, 3, ("write if", 0, "a", 0), 1), Call(0, 3, ("write if", 0, "b", 0), "conflict")])
judge(False, "two winners of one condition are refused",
      [Call(0, 3, ("write if", 0, "a", 0), 1), Call(0, 3, ("write if", 0, "b", 0), 1)])
judge(False, "a conflict that nobody caused is refused", [Call(0, 3, ("write if", 0, "b", 0), "conflict")])
judge(True, "a conflict may be caused by a write without an answer",
      [unknown(0, ("write if", 0, "a", 0)), Call(1, 3, ("write if", 0, "b", 0), "conflict"),
       read(4, 5, 1, "a")])
judge(False, "a condition that did not hold lets no write without an answer land",
      [write(0, 1, "a", 1), unknown(2, ("write if", 0, "b", 0)), read(3, 4, 2, "b")])

# ---- Transactions -------------------------------------------------------------------------------


def commit(begin, end, changes):
    return Call(begin, end, ("write", tuple(changes.items())), ())


BOTH = {0: "x", 1: "y"}
judge(True, "a transaction under way may be seen, if its other key is seen too",
      [commit(0, 9, BOTH), read(1, 2, 1, "x"), read(3, 4, 1, "y", key=1)])
judge(False, "half a transaction is refused",
      [commit(0, 9, BOTH), read(1, 2, 1, "x"), read(3, 4, 0, None, key=1)])
judge(False, "half a transaction without an answer is refused",
      [unknown(0, ("write", tuple(BOTH.items()))), read(1, 2, 1, "x"), read(3, 4, 0, None, key=1)])
judge(False, "a transaction that was rolled back and shows is found",
      [commit(0, 1, {2: "z"}), read(2, 3, 1, "x")])
judge(False, "two transactions in opposite orders on two keys are refused",
      [commit(0, 9, {0: "a", 1: "a"}), commit(0, 9, {0: "b", 1: "b"}),
       read(10, 11, 2, "a"), read(10, 11, 2, "b", key=1)])

# ---- Fenced objects -----------------------------------------------------------------------------


def fence(good, sentence, *history):
    judge(good, sentence, list(history), fenced, FENCED_START)


def put(begin, end, token, value, answer="done"):
    return Call(begin, end, ("write", token, value), answer)


def see(begin, end, token, value):
    return Call(begin, end, ("read",), (token, value))


fence(True, "a later token writes over an earlier one",
      put(0, 1, 1, "a"), put(2, 3, 2, "b"), see(4, 5, 2, "b"))
fence(False, "a stale write that is told as done is refused", put(0, 1, 2, "a"), put(2, 3, 1, "b"))
fence(True, "a stale write is fenced", put(0, 1, 2, "a"), put(2, 3, 1, "b", "fenced"), see(4, 5, 2, "a"))
fence(False, "fenced by nobody is refused", put(0, 1, 1, "a"), put(2, 3, 1, "b", "fenced"))
fence(False, "FENCED of a write that a reader saw is refused",
      put(0, 9, 1, "a", "fenced"), see(1, 2, 1, "a"), put(3, 4, 2, "b"))
fence(True, "UNSURE of a write that a reader saw is right",
      unknown(0, ("write", 1, "a")), see(1, 2, 1, "a"), put(3, 4, 2, "b"))
fence(False, "a stale write without an answer does not land over a later token",
      unknown(0, ("write", 1, "a")), put(1, 2, 2, "b"), see(3, 4, 1, "a"))

# ---- Locks --------------------------------------------------------------------------------------


def intervals(good, sentence, *held):
    found = [check_held(list(order)) for order in (held, held[::-1])]
    right = all((why is None) == good for why in found)
    tell(right, sentence, "" if right else "\n".join(str(why) for why in found))


intervals(True, "no intervals are fine")
intervals(True, "one after the other, with rising tokens",
          Held(0, 1, 2, 1), Held(0, 2, 3, 2), Held(2.5, 3.5, 4, 7))
intervals(False, "two at once are refused", Held(0, 1, 3, 1), Held(0, 2, 4, 2))
intervals(False, "one within a longer one is refused", Held(0, 1, 9, 1), Held(0, 2, 3, 2), Held(0, 9, 10, 3))
intervals(False, "one token for two is refused", Held(0, 1, 2, 1), Held(3, 4, 5, 1))
intervals(False, "a token that falls is refused", Held(0, 1, 2, 2), Held(3, 4, 5, 1))
intervals(True, "a grant that was over before it was known overlaps with nobody",
          Held(0, 5, 4, 1), Held(1, 4.5, 6, 2))
intervals(False, "a token that falls is refused even if its grant was over at once",
          Held(0, 1, 2, 5), Held(3, 4, 3, 2))

# ---- Bounds -------------------------------------------------------------------------------------

try:
    check([write(0, 9, f"v{i}", i + 1) for i in range(12)] + [read(10, 11, 12, "v0")], keys, keys_start(1),
          steps_max=10)
    tell(False, "a search that takes too many steps says so")
except Undecided as why:
    tell(True, "a search that takes too many steps says so", str(why))


def random_history(draw, calls):
    """Of a register that really is one: a linearizable history by construction."""
    state, history, clock = (0, None), [], 0.0
    for number in range(calls):
        clock += draw.random()
        begin, finish = clock - 3 * draw.random(), clock + 3 * draw.random()
        if draw.random() < 0.5:
            history.append(read(begin, finish, *state))
        else:
            value = f"v{number}"
            lands = draw.random() < 0.8
            if lands:
                state = (state[0] + 1, value)
            if lands and draw.random() < 0.7:
                history.append(write(begin, finish, value, state[0]))
            else:
                history.append(lost_write(begin, value))
    return history


def spoil(draw, history):
    """One read gets an answer that no order explains: the value of a write that follows it."""
    reads = [number for number, call in enumerate(history) if call.asked[0] == "read"]
    number = draw.choice(reads)
    version, value = history[number].answer
    spoilt = list(history)
    spoilt[number] = history[number]._replace(answer=(version + 1, value))
    return spoilt


for seed in range(20):
    draw = random.Random(seed)
    history = random_history(draw, 200)
    judge(True, f"random history {seed} of a real register is linearizable", history, start=keys_start(1))
    judge(False, f"random history {seed} with one wrong answer is refused", spoil(draw, history),
          start=keys_start(1))

sys.exit(end())

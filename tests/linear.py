# SPDX-License-Identifier: Apache-2.0
"""linear.py: decides whether a history of concurrent calls is linearizable.

A history is a list of Calls: when each began and ended, what it asked for, and what it was answered.
It is linearizable if every call can be given one instant between its begin and its end such that a
model, called in the order of these instants, gives the same answers.

A call whose effect is unknown (it was killed, or answered UNSURE) has no answer: it may take effect
at any time after its begin, also long after its end, or never. A call that was answered "not done" is
left out of the history: if its effect shows all the same, no other call explains it.

The search is that of Wing and Gong: try every call that may be next, depth first, and remember
the (known calls placed, state) pairs that led nowhere. An unknown call that was not needed is still
available, so a pair that used fewer of them covers one that used more; and of unknown calls that ask
for the same only the first is tried (see `narrow`).
"""

import collections
import math

Call = collections.namedtuple("Call", "begin end asked answer known", defaults=(True,))

STEPS_MAX = 2_000_000  # positions to try before the search gives up


class Undecided(Exception):
    """The history is too tangled for STEPS_MAX steps."""


def unknown(begin, asked, answer=None):
    """A call whose effect is unknown; if it had one, it was this answer (None: any)."""
    return Call(begin, math.inf, asked, answer, known=False)


def check(history, model, start, steps_max=STEPS_MAX):
    """None if the history is linearizable from the state `start`; else a text that says how far it is.

    `model(state, asked, answer)` returns the state after the call, or None if the call cannot have
    this answer in this state. For an unknown call the state is the one after its effect. States,
    and what was asked and answered, are hashable.
    """
    calls = sorted(history, key=lambda call: call.begin)
    must = sum(1 << number for number, call in enumerate(calls) if call.known)
    failed = collections.defaultdict(list)  # (known calls placed, state): sets of unknown calls used
    stack = [(0, 0, start)]
    farthest, steps = (0, start), 0
    while stack:
        placed, used, state = stack.pop()
        if placed == must:
            return None
        before = failed[placed, state]
        if any(known_used & ~used == 0 for known_used in before):
            continue
        before.append(used)
        steps += 1
        if steps > steps_max:
            raise Undecided(f"{len(calls)} calls are not decided after {steps_max} steps")
        if placed.bit_count() > farthest[0].bit_count():
            farthest = (placed, state)
        stack.extend(following(calls, model, placed, used, state))
    return explain(calls, *farthest, must)


def following(calls, model, placed, used, state):
    """The positions after one more call; those after known calls last, so that they are tried first."""
    after_known, after_unknown = [], []
    waiting = [(1 << number, call) for number, call in enumerate(calls)
               if not (placed | used) >> number & 1]
    first_end = min(call.end for _, call in waiting)
    tried = set()
    for bit, call in waiting:
        if call.begin > first_end:
            break
        if not call.known:
            if (call.asked, call.answer) in tried:
                continue
            tried.add((call.asked, call.answer))
        then = model(state, call.asked, call.answer)
        if then is None:
            continue
        if call.known and then == state:  # whatever can follow now can follow after it
            return [(placed | bit, used, then)]
        if call.known:
            after_known.append((placed | bit, used, then))
        elif then != state:
            after_unknown.append((placed, used | bit, then))
    return after_unknown + after_known


def explain(calls, placed, state, must):
    left = [call for number, call in enumerate(calls) if must & ~placed & (1 << number)]
    lines = [f"{placed.bit_count()} of {must.bit_count()} calls have an order that explains their answers.",
             f"The state is then {state!r}, and none of these can be next:"]
    lines += [f"  [{call.begin:.6f}, {call.end:.6f}] {call.asked!r} answered {call.answer!r}"
              for call in left[:8]]
    return "\n".join(lines)


# ---- Models -------------------------------------------------------------------------------------
#
# Keys: the state has for each key (version, value), in the order of the keys' numbers; version 0 and
# None where there is nothing. What is asked is one of
#     ("read", key)                       answered (version, value)
#     ("write", ((key, value), ...))      answered ((key, version), ...) as far as versions were told;
#                                         several keys are one transaction
#     ("write if", key, value, version)   answered the new version, or "conflict"
# Every write has a value of its own.


def keys_start(count):
    return ((0, None),) * count


def keys_write(state, changes, versions):
    then = list(state)
    for key, value in changes:
        then[key] = (state[key][0] + 1, value)
    return tuple(then) if all(then[key][0] == version for key, version in versions) else None


def keys(state, asked, answer):
    if asked[0] == "read":
        return state if answer == state[asked[1]] else None
    if asked[0] == "write":
        return keys_write(state, asked[1], answer or ())
    _, key, value, version = asked
    if answer == "conflict":
        return state if state[key][0] != version else None
    if state[key][0] != version:
        return None
    return keys_write(state, ((key, value),), () if answer is None else ((key, answer),))


UNSEEN = "a value that no read shows"


def narrow(history):
    """The same history of keys, in which unknown writes are told all that reads say of them: with which
    version their value was seen, or that it never was. Without it the search would try every choice
    of unknown writes that nobody saw."""
    seen = {}  # (key, value): version
    for call in history:
        if call.asked[0] == "read":
            seen.setdefault((call.asked[1], call.answer[1]), call.answer[0])
    return [call if call.known or call.asked[0] != "write" else narrow_write(call, seen)
            for call in history]


def narrow_write(call, seen):
    changes = call.asked[1]
    versions = tuple((key, seen[key, value]) for key, value in changes if (key, value) in seen)
    if not versions:
        changes = tuple((key, UNSEEN) for key, _ in changes)
    return unknown(call.begin, ("write", changes), versions)


# Fenced objects: the state is (token, value). Asked is
#     ("read",)                answered (token, value)
#     ("write", token, value)  answered "done" or "fenced"

FENCED_START = (0, None)


def fenced(state, asked, answer):
    if asked[0] == "read":
        return state if answer == state else None
    _, token, value = asked
    if answer == "fenced":
        return state if state[0] > token else None
    return (token, value) if token >= state[0] else None


# ---- Intervals of locks -------------------------------------------------------------------------

# Somebody asked for an exclusive lock at `asked`, certainly held it from `since` to `until`, with a token.
Held = collections.namedtuple("Held", "asked since until token")


def check_held(intervals):
    """None if no two overlap and tokens rise with time; else a text that names two that do not."""
    return check_overlaps(intervals) or check_tokens(intervals)


def check_overlaps(intervals):
    last = None  # the one that ends last so far
    for held in sorted(intervals, key=lambda held: held.since):
        if held.until <= held.since:
            continue
        if last and held.since < last.until:
            return f"two held it at once:\n  {last}\n  {held}"
        last = held
    return None


def check_tokens(intervals):
    """Tokens are unique, and whoever asks after somebody was granted the lock gets a higher one."""
    by_token = sorted(intervals, key=lambda held: held.token)
    for lower, higher in zip(by_token, by_token[1:]):
        if lower.token == higher.token:
            return f"two have the same token:\n  {lower}\n  {higher}"
    granted = sorted(intervals, key=lambda held: held.since)
    highest, count = None, 0  # of those granted before the next one asked
    for held in sorted(intervals, key=lambda held: held.asked):
        while granted[count].since < held.asked:
            highest = max(highest or granted[count], granted[count], key=lambda held: held.token)
            count += 1
        if highest and highest.token > held.token:
            return f"a later grant has a lower token:\n  {highest}\n  {held}"
    return None

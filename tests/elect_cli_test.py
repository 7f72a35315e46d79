#!/usr/bin/env python3
"""elect_cli_test.py: members of a group and their order, as a person or a script would ask.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import json
import signal
import sys

import cases
from cli_test import LOCAL, SANITIZED, code, equal, it, true, until

cases.cases.clear()

BEAT = ("--beat", "100ms")


class Member:
    """`elect join`, running; its lines are read as they come."""

    def __init__(self, s, name, group="crew"):
        self.process = s.start("elect", "join", group, "--as", name, "--json", *BEAT)
        self.wait_for("joined", name)

    def wait_for(self, event, member):
        """Reads on until it tells of this."""
        for line in self.process.stdout:
            told = json.loads(line)
            if (told["event"], told["member"]) == (event, member):
                return
        true(False, f"ended without telling: {event} {member}")

    def end(self, number=signal.SIGTERM):
        """Returns what it told in the end, and how it ended."""
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=60)
        events = [json.loads(line)["event"] for line in out.splitlines()]
        return events[-1], self.process.returncode


def names(s, group="crew"):
    return [line["member"] for line in s.lines("elect", "ls", group, *BEAT) if line["present"]]


@it("members see each other come and go, and leave in order on a signal", LOCAL)
def _(s):
    anna = Member(s, "anna")
    bob = Member(s, "bob")
    bob.wait_for("present", "anna")
    anna.wait_for("present", "bob")
    equal(names(s), ["anna", "bob"])
    equal(bob.end(signal.SIGINT), ("left", -signal.SIGINT))
    anna.wait_for("gone", "bob")
    equal(names(s), ["anna"])
    equal(anna.end(), ("left", -signal.SIGTERM))
    equal(s.lines("elect", "ls", "crew"), [])


@it("the last member that is killed is gone after three beats, though nobody is left to tell", LOCAL)
def _(s):
    anna = Member(s, "anna")
    equal(names(s), ["anna"])
    anna.process.kill()
    anna.process.communicate()
    until(lambda: names(s) == [], "she is gone")
    equal([row["present"] for row in s.lines("elect", "ls", "crew", *BEAT)], [False])


@it("who is killed leaves an object, and is gone after three beats", LOCAL)
def _(s):
    anna = Member(s, "anna")
    bob = Member(s, "bob")
    anna.wait_for("present", "bob")
    bob.process.kill()
    bob.process.communicate()
    anna.wait_for("gone", "bob")
    anna.end()


@it("a member without a name gets one, and leaves when its time is over")
def _(s):
    told = s.lines("elect", "join", "crew", "--for", "100ms")
    equal([line["event"] for line in told], ["joined", "present", "left"])
    true(len({line["member"] for line in told}) == 1 and len(told[0]["member"]) == 32, told)
    equal(names(s), [])


@it("rank shows the order of those present, the same for who asks twice")
def _(s):
    for name in ("a", "b", "c", "d"):
        s.put(f"roster/crew/{name}", b"{}")
    s.put("roster/crew/Not A Name", b"{}")
    leaders = set()
    for sequence in range(40):
        told = s.lines("elect", "rank", "crew", "1", f"w={sequence}", "x=y=3", "--base", "1")
        equal([line["rank"] for line in told], [0, 1, 2, 3])
        equal(sorted(line["member"] for line in told), ["a", "b", "c", "d"])
        scores = [line["score"] for line in told]
        equal(scores, sorted(scores, reverse=True))
        leaders.add(told[0]["member"])
    equal(leaders, {"a", "b", "c", "d"})
    text = s.out("elect", "rank", "crew", "1", "w=19")
    equal(text, s.out("elect", "rank", "crew", "1", "w=0"), "steps of 20")
    true(text != s.out("elect", "rank", "crew", "1", "w=20"), "the next step")
    equal(len(text.splitlines()), 4)


@it("what makes no sense is refused in a sentence")
def _(s):
    for args, wanted in (
        (["elect", "join", "A"], "a group"),
        (["elect", "join", "crew", "--as", "a/b"], "a member"),
        (["elect", "join", "crew", "--as", ""], "--as takes a name"),
        (["elect", "join", "crew", "--beat", "1ms"], "100ms to 1h"),
        (["elect", "ls", "a b"], "a group"),
        (["elect", "rank", "crew", "high"], "whole number"),
        (["elect", "rank", "crew", "1", "w1"], "WRITER=SEQUENCE"),
        (["elect", "rank", "crew", "1", "=4"], "WRITER=SEQUENCE"),
        (["elect", "rank", "crew", "1", "w=x"], "whole number"),
        (["elect", "rank", "crew", "1", "--base", "0"], "--base"),
    ):
        text = s.run(*args, expect=code(s, "INVALID")).stderr.decode()
        true(wanted in text and text.count("\n") == 1, f"{args}: {text}")
    equal(s.out("store", "ls", "-r"), b"", "nothing was written")


def leak_nothing(s):
    """Few commands, since each takes seconds to look for leaks."""
    s.put("roster/crew/a", b"{}")
    s.find_leaks(True)
    s.run("elect", "join", "crew", "--for", "300ms", "--json", *BEAT)
    s.run("elect", "ls", "crew", "--json")
    s.run("elect", "rank", "crew", "1", "w=1")
    s.run("elect", "rank", "crew", "1", "w", expect=code(s, "INVALID"))


if SANITIZED:
    it("no command leaks memory, whether it succeeds or fails")(leak_nothing)

if __name__ == "__main__":
    sys.exit(cases.main())

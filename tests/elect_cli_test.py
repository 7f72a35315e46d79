#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""elect_cli_test.py: members of a group and their order, as a person or a script would ask.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import itertools
import json
import select
import signal
import sys
import time

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


@it("rank does not depend on the order of its arguments, and takes each writer once")
def _(s):
    for name in ("a", "b", "c", "d"):
        s.put(f"roster/crew/{name}", b"{}")
    for base in range(10):
        told = {s.out("elect", "rank", "crew", "1", "--base", "1", *order)
                for order in itertools.permutations((f"w={base}", "x=y=3", "a=7"))}
        equal(len(told), 1)
    text = s.run("elect", "rank", "crew", "1", "w=1", "x=1", "w=2", expect=code(s, "INVALID")).stderr
    true(b"'w' is given twice" in text, text)


@it("rank tells when each may start, and HELD to one for whom it is too early")
def _(s):
    for name in ("a", "b", "c"):
        s.put(f"roster/crew/{name}", b"{}")
    told = s.lines("elect", "rank", "crew", "0", "--step", "20s")
    equal([line["starts_in_ms"] for line in told], [0, 20000, 40000])
    first, second, third = (line["member"] for line in told)
    due = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 25))
    told = s.lines("elect", "rank", "crew", "0", "--step", "20s", "--due", due)
    equal([line["starts_in_ms"] for line in told][:2], [0, 0])
    true(5000 < told[2]["starts_in_ms"] < 16000, told)
    asked = ("elect", "rank", "crew", "0", "--step", "20s", "--due", due, "--as")
    for member in (first, second):
        line, = s.lines(*asked, member)
        equal((line["member"], line["starts_in_ms"]), (member, 0))
    refused = s.run("--json", *asked, third, expect=code(s, "HELD"))
    why = json.loads(refused.stderr)
    true(5000 < why["retry_after_ms"] < 16000 and why["why"].startswith("2 members come first"), why)


# ---- elect run ----------------------------------------------------------------------------------


class Candidate:
    """`elect run`, whose command says that it leads and then goes on for long."""

    def __init__(self, s, name, *options, step="300ms"):
        self.process = s.start("elect", "run", "chief", "--as", name, "--ttl", "5s", "--step", step,
                               *BEAT, *options, "--", "sh", "-c", "echo leads; exec sleep 60")

    def leads(self, seconds):
        """Whether it says so within this time."""
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        return bool(ready) and self.process.stdout.readline() == b"leads\n"

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode


def waiters(s):
    return len(s.lines("locks", "show", "chief")[0]["queue"])


@it("elect run: of a fleet one leads, and when it is killed the next takes over at once", LOCAL)
def _(s):
    anna = Candidate(s, "anna")
    true(anna.leads(20), "nobody leads")
    standby = [Candidate(s, "bob"), Candidate(s, "cleo")]
    until(lambda: names(s, "chief") == ["anna", "bob", "cleo"], "all are there")
    until(lambda: waiters(s) == 2, "both stand by")
    true(not standby[0].leads(1) and not standby[1].leads(0), "two lead")
    begun = time.monotonic()
    anna.process.kill()  # holdfast itself; the guard ends the command and gives the lock back
    until(lambda: any(member.leads(0.05) for member in standby), "another leads")
    true(time.monotonic() - begun < 4, "it took the whole ttl")
    for member in standby:
        equal(member.end(), -signal.SIGTERM)
    anna.process.communicate(timeout=60)
    until(lambda: names(s, "chief") == [], "all are gone")


@it("elect run: those that start together get in line in the order of the ladder")
def _(s):
    s.run("acquire", "chief", "--ttl", "2s")
    crew = {name: Candidate(s, name, "--holder", name) for name in ("anna", "bob", "cleo", "dora")}
    until(lambda: waiters(s) == 4, "all stand by")
    line = [waiter["holder"] for waiter in s.lines("locks", "show", "chief")[0]["queue"]]
    equal(line, [told["member"] for told in s.lines("elect", "rank", "chief", "0", "--base", "1", *BEAT)])
    true(crew[line[0]].leads(20), line)
    for member in crew.values():
        equal(member.end(), -signal.SIGTERM)


@it("elect run ends as its command does, and Ctrl-C ends one that stands by")
def _(s):
    done = s.start("elect", "run", "chief", "--step", "100ms", *BEAT, "--", "sh", "-c", "exit 7")
    done.communicate(timeout=60)
    equal(done.returncode, 7)
    anna = Candidate(s, "anna")
    true(anna.leads(20), "nobody leads")
    bob = Candidate(s, "bob", step="1h")  # waits for its turn
    until(lambda: names(s, "chief") == ["anna", "bob"], "bob is there")
    equal(bob.end(signal.SIGINT), -signal.SIGINT)
    cleo = Candidate(s, "cleo")  # waits in line
    until(lambda: waiters(s) == 1, "cleo stands by")
    equal(cleo.end(signal.SIGINT), -signal.SIGINT)
    equal(names(s, "chief"), ["anna"])
    begun = time.monotonic()
    for step in ("100ms", "1h"):  # in line, and before its turn
        s.run("elect", "run", "chief", "--wait", "200ms", "--step", step, *BEAT, "--", "true",
              expect=code(s, "TIMEOUT"))
    true(time.monotonic() - begun < 60, "--wait is for all of it")
    equal(anna.end(), -signal.SIGTERM)


@it("what makes no sense is refused in a sentence")
def _(s):
    for args, wanted in (
        (["elect", "join", "A"], "a group"),
        (["elect", "join", "crew", "--as", "a/b"], "a member"),
        (["elect", "join", "crew", "--as", ""], "--as must not be empty"),
        (["elect", "join", "crew", "--beat", "1ms"], "between 100ms and 1h"),
        (["elect", "ls", "a b"], "a group"),
        (["elect", "rank", "crew", "high"], "whole number"),
        (["elect", "rank", "crew", "1", "w1"], "WRITER=SEQUENCE"),
        (["elect", "rank", "crew", "1", "=4"], "WRITER=SEQUENCE"),
        (["elect", "rank", "crew", "1", "w=x"], "whole number"),
        (["elect", "rank", "crew", "1", "--base", "0"], "--base"),
        (["elect", "rank", "crew", "1", "--due", "noon"], "noon"),
        (["elect", "run", "A", "--step", "0s", "--", "true"], "lower case"),
        (["elect", "run", "a/b", "--step", "0s", "--", "true"], "a group"),
        (["elect", "run", "crew", "--as", "", "--", "true"], "--as must not be empty"),
        (["elect", "run", "crew", "--ttl", "10ms", "--", "true"], "1s"),
        (["elect", "run", "x" * 200, "--", "true"], "must not exceed 128 bytes"),
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

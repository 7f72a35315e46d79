#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""picture_cli_test.py: `locks timeline`, and the pictures that the program draws, which an XML parser
reads.

Prints TAP. Scratch folders, and how the program is run in them, are those of cli_test.py.
"""

import json
import signal
import sys
import xml.etree.ElementTree as ElementTree

import cases
from cli_test import code, equal, it, true

cases.cases.clear()

STORE = ["sqlite"]
SVG = "{http://www.w3.org/2000/svg}"
MARKUP = "<script>alert('&')</script> \"q\""


def picture(text):
    """The elements of a picture by name; fails unless it is well-formed, and refers to nothing."""
    root = ElementTree.fromstring(text)
    equal(root.tag, SVG + "svg")
    names = {element.tag.removeprefix(SVG) for element in root.iter()}
    equal(names - {"svg", "title", "style", "rect", "text", "line"}, set())
    true("http" not in text.replace("http://www.w3.org/2000/svg", "") and "@import" not in text, text)
    return root


def words(s, *args):
    return s.out(*args).decode()


def bars(root, name):
    return [one for one in root.iter(SVG + "rect") if one.get("class") == name and one.find(SVG + "title") is not None]


def texts(root):
    return [one.text for one in root.iter(SVG + "text")]


def holds(text):
    return [json.loads(line) for line in text.splitlines()]


# ---- Timelines ----------------------------------------------------------------------------------


@it("a timeline lists who holds a lock, and what its table still knows", STORE)
def _(s):
    s.out("acquire", "x", "--holder", "ada", "-q")
    true("ada" in words(s, "locks", "timeline", "x") and "holds until" in words(s, "locks", "timeline", "x"), "held")
    s.out("locks", "break", "x", "--reason", "stuck & gone", "-q")
    s.out("acquire", "x", "--holder", MARKUP, "-q")
    one, other = holds(words(s, "locks", "timeline", "x", "--json"))
    equal((one["owner"], one["ended"], one["reason"], one["token"]), ("ada", "break", "stuck & gone", 1))
    equal((other["owner"], other.get("ended"), other["token"]), (MARKUP, None, 2))
    true(one["began_at"] <= one["ended_at"] <= other["began_at"] < other["expires_at"], (one, other))
    root = picture(words(s, "locks", "timeline", "x", "--svg"))
    equal((len(bars(root, "break")), len(bars(root, "held"))), (1, 1))
    true(any(text.startswith("<script>alert") for text in texts(root)), "markup is shown as text")
    true("<script" not in words(s, "locks", "timeline", "x", "--svg"), "and is none")


@it("control bytes and bytes that are no UTF-8 leave a picture well-formed", STORE)
def _(s):
    for number, holder in enumerate((b"\x01\x1b[31m\x7f", "\ufffe ]]> é 🔒".encode(), b"'\"&amp;")):
        s.run("acquire", f"k{number}", "--holder", holder, "-q")
        picture(words(s, "locks", "timeline", f"k{number}", "--svg"))


@it("a watch sees holds that come and go, and how exactly", STORE)
def _(s):
    s.out("run", "x", "true")
    equal(words(s, "locks", "timeline", "x", "--json"), "")
    true("nobody holds named:x" in words(s, "locks", "timeline", "x"), "it says so")
    picture(words(s, "locks", "timeline", "x", "--svg"))
    watcher = s.start("locks", "timeline", "x", "--json", "--trace", "--for", "60s", "--interval", "50ms")

    def reads():
        """The table has been read since: two requests began."""
        for _ in range(3):
            watcher.stderr.readline()

    reads()
    lease = words(s, "acquire", "x", "--holder", "ada", "-q").strip()
    reads()
    s.out("release", lease, "-q")
    s.out("acquire", "x", "--holder", "bob", "-q")
    reads()
    watcher.send_signal(signal.SIGINT)
    seen = holds(watcher.communicate()[0].decode())
    equal(watcher.returncode, -signal.SIGINT)
    equal([(hold["owner"], hold.get("ended")) for hold in seen], [("ada", "unknown"), ("bob", None)])
    true(seen[0]["ended_within_ms"] > 0, seen)


@it("a picture is not JSON, and a watch has a pace", STORE)
def _(s):
    s.make_store()
    for command in (("locks", "timeline", "x", "--svg", "--json"), ("compact", "status", "--svg", "--json"),
                  ("locks", "timeline", "x", "--interval", "1ms"), ("locks", "timeline", "a:b:c:d")):
        s.run(*command, expect=code(s, "INVALID"))


# ---- Levels -------------------------------------------------------------------------------------


@it("the levels of a partition are drawn, each chunk by its size and time", STORE)
def _(s):
    s.out("compact", "create", "--format", "csv", "--key", "id", "--time", "at", "-q")
    picture(words(s, "compact", "status", "--svg"))
    for day in (1, 2, 3):
        rows = "".join(f"k{i},2026-01-0{day}T0{i}:00:00Z\n" for i in range(10 ** (day - 1) % 9 + 1))
        with open(s.file("chunk.csv"), "w", encoding="utf-8") as file:
            file.write("id,at\n" + rows * 10 ** day)
        s.out("compact", "ingest", s.file("chunk.csv"), "-q")
    root = picture(words(s, "compact", "status", "--svg"))
    chunks = bars(root, "chunk")
    equal(len(chunks), 3)
    at = sorted((float(one.get("x")), float(one.get("height"))) for one in chunks)
    true(at[0][0] < at[1][0] < at[2][0] and at[0][1] < at[1][1] < at[2][1], at)
    true("3 chunks" in " ".join(texts(root)) and "backlog: 3 of 3000 chunks" in " ".join(texts(root)), texts(root))
    key = json.loads(words(s, "compact", "ls", "--json").splitlines()[0])["key"]
    s.out("compact", "quarantine", key, "--why", "odd", "-q")
    equal(len(bars(picture(words(s, "compact", "status", "--svg")), "bad")), 1)
    s.out("compact", "run", "--force", "-q")
    root = picture(words(s, "compact", "status", "--svg"))
    true("level 1" in texts(root), texts(root))


if __name__ == "__main__":
    sys.exit(cases.main())

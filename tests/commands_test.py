#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""commands_test.py: tools/commands.py, on texts with one mistake each: every one is found, and named
with its file and line. Prints TAP."""

import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True

from tap_kit import end, tell

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "commands.py")

PROGRAM = """# Lines 1 to 7: what every text here starts with.
program a program
option -q, --quiet: say less
shared ns
option --ns NAME (namespace): the namespace
group Things
topic Words
"""

# What follows it, from line 8 on; the line that is named; what is said about it.
GOOD = """command thing show (only_reads): show a thing
use ns
"""
MISTAKES = [
    ("an unknown word", GOOD + "optoin --all: all\n", 10, "unknown word 'optoin'"),
    ("a word that does not belong there", GOOD + "term one: two\n", 10, "'term' does not belong here"),
    ("a row before any block", None, 1, "'option' does not belong here"),
    ("a command without a summary", GOOD + "command thing rm\n", 10, "'command thing rm' has no text"),
    ("a command with an empty summary", GOOD + "command thing rm:\n", 10, "has no text after ':'"),
    ("an option without a summary", GOOD + "option --all\n", 10, "'option --all' has no text"),
    ("an option without its dashes", GOOD + "option all: all\n", 10, "'all' is not an option"),
    ("an option that stands twice", GOOD + "option --all: a\noption --all: b\n", 11, "a second --all in 'thing"),
    ("an option that a shared row has", GOOD + "option --ns X: a\n", 10, "a second --ns in 'thing show"),
    ("an option that every command has", GOOD + "option --quiet: a\n", 10, "a second --quiet"),
    ("a letter that stands twice", GOOD + "option -q, --calm: a\n", 10, "a second -q"),
    ("an unknown attribute", GOOD + "option --at X (moment): a\n", 10, "unknown attribute 'moment'"),
    ("two types of one option", GOOD + "option --at X (span, count): a\n", 10, "a second type: 'count'"),
    ("a type of a flag", GOOD + "option --at (span): a\n", 10, "--at has no value"),
    ("a choice of one", GOOD + "option --at (choice 1): a\n", 10, "no other option of choice 1"),
    ("an unknown completion", GOOD + "argument NAME (moon): a\n", 10, "unknown completion 'moon'"),
    ("an argument that is not written as one", GOOD + "argument name: a\n", 10, "'name' is not an argument"),
    ("an argument too many", GOOD + "argument A...: a\nargument B: b\n", 11, "one argument too many"),
    ("a shared row that is not there", GOOD + "use nms\n", 10, "no 'shared nms' before this line"),
    ("a shared row that stands below", GOOD + "use late\nshared late\njson x\n", 10, "no 'shared late'"),
    ("a shared row that uses itself", GOOD + "shared loop\nuse loop\n", 11, "no 'shared loop' before"),
    ("a shared row that nobody uses", GOOD + "shared idle\njson x\n", 10, "'shared idle' is not used"),
    ("two shared rows of one name", GOOD + "shared ns\njson x\n", 10, "'shared ns' is defined twice"),
    ("a command that stands twice", GOOD + GOOD, 10, "a second command 'thing show'"),
    ("an alias that is a command", GOOD + "alias thing show\n", 10, "a second command 'thing show'"),
    ("an unknown flag", GOOD + "command thing rm (fast): a\n", 10, "'thing rm (fast)' is not a command"),
    ("a script that is not there", GOOD + "script a.sh\n", 10, "there is no file 'a.sh'"),
    ("a second json", GOOD + "json a\njson b\n", 11, "a second json"),
    ("an example that does not say what it does", GOOD + "example holdfast x\n", 10, "no text after '#'"),
    ("a paragraph where there is one line", GOOD + "json a\n\n    b\n", 10, "several paragraphs"),
    ("an indented line that continues nothing", None, 2, "an indented line must continue another line"),
    ("a line that is too wide", GOOD + "json " + 96 * "x" + "\n", 10, "wider than 100 columns"),
]
WHOLE = {"a row before any block": "option --all: a\n",
         "an indented line that continues nothing": "# a comment\n    a line\n"}


def run(folder, text):
    path = os.path.join(folder, "a.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    outputs = [os.path.join(folder, "table.c"), os.path.join(folder, "table.h")]
    for output in outputs:
        if os.path.exists(output):
            os.remove(output)
    done = subprocess.run([sys.executable, TOOL, *outputs, path], stderr=subprocess.PIPE, text=True)
    return done, outputs


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    with tempfile.TemporaryDirectory() as folder:
        done, outputs = run(folder, PROGRAM + GOOD + 'json a "word" and \\n,\n    and more\n')
        source, header = map(read, outputs) if done.returncode == 0 else ("", "")
        tell(".json = \"a \\\"word\\\" and \\\\n, and more\"" in source and "enum hf_status run_thing_show(" in header
             and "#define OPTIONS_MAX 1\n" in header, "a text without a mistake is made into a table", done.stderr)
        for sentence, text, line, why in MISTAKES:
            text = WHOLE[sentence] if text is None else PROGRAM + text
            done, outputs = run(folder, text)
            tell(done.returncode == 1 and f"a.txt:{line}: " in done.stderr and why in done.stderr and
                 not any(map(os.path.exists, outputs)), f"{sentence} is found in its line, and nothing is made",
                 f"{done.returncode}: {done.stderr}")
    end()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""json_kit.py: checks the --json output of a command against the schema of that command,
docs/json/<command>.json, which describes one line. The scripts that run the program call
check() for every run, so each case tests this too.

The schemas of stderr with --json are error.json, warning.json, trace.json and log.json, for all
commands.
"""

import functools
import json
import os
import re
import subprocess

import jsonschema

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "json")
OF_STDERR = ("error", "warning", "trace", "log")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

# Their stdout may be the bytes of an object, a help page, or the output of another program.
NOT_ALWAYS_JSON = {"key-get": b'"key', "read": b'"key', "store-get": b'"key', "help": b'"commands"',
                   "merge": b'"took_ms"'}
# Their result goes to stderr if stdout is used for something else.
RESULT_ON_STDERR = {"merge"}


@functools.lru_cache(maxsize=None)
def validator(name):
    with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as file:
        return jsonschema.Draft202012Validator(json.load(file), format_checker=FORMATS)


FORMATS = jsonschema.FormatChecker(formats=())


@FORMATS.checks("date-time")
def is_time(value):
    """RFC 3339, always in UTC and to the millisecond."""
    return not isinstance(value, str) or MOMENT.fullmatch(value) is not None


@functools.lru_cache(maxsize=None)
def names():
    """Of all schemas; every command of every case asks for them."""
    return sorted(name[:-5] for name in os.listdir(FOLDER) if name.endswith(".json"))


def command_of(arguments):
    """The schema of a command line, or None; and whether it requests JSON."""
    words, asks, skip = [], False, False
    for word in map(os.fsdecode, arguments):
        if skip:
            skip = False
        elif word == "--":
            break
        elif word.startswith("-"):
            asks = asks or word == "--json"
            skip = word == "--store"
        else:
            words.append(word)
    for count in (3, 2, 1):
        name = "-".join(words[:count])
        if len(words) >= count and name in names():
            return name, asks
    return None, asks


def fit(name, line):
    """Why a line does not fit the schema, or None."""
    try:
        value = json.loads(line)
    except ValueError:
        return f"{name}: this is no JSON: {line[:300]!r}"
    best = jsonschema.exceptions.best_match(validator(name).iter_errors(value))
    if best is None:
        return None
    at = "/".join(str(step) for step in best.absolute_path)
    return f"docs/json/{name}.json: {at or 'the whole'}: {best.message[:600]}; in {line[:600]!r}"


def whole_lines(data):
    """The lines of an output, without an incomplete last one."""
    return [line for line in data[:data.rfind(b"\n") + 1].split(b"\n") if line]


def check(arguments, stdout, stderr):
    name, asks = command_of(arguments)
    if not asks or "--help" in arguments or "-h" in arguments:
        return
    for line in whole_lines(stdout or b"") if name and name not in ("run", "elect-run") else []:
        if NOT_ALWAYS_JSON.get(name, b"") not in line:
            continue
        wrong = fit(name, line)
        if wrong:
            raise AssertionError(wrong)
    for line in whole_lines(stderr or b""):
        if line.startswith(b"holdfast: "):
            raise AssertionError(f"{arguments}: not as JSON: {line!r}")
        kinds = [*OF_STDERR, *RESULT_ON_STDERR.intersection([name])]
        if line.startswith(b"{") and all(fit(kind, line) for kind in kinds):
            raise AssertionError(fit("error", line))


class Popen(subprocess.Popen):
    """A Popen that checks the output when communicate() has read all of it."""

    def communicate(self, *args, **options):
        stdout, stderr = super().communicate(*args, **options)
        check(self.args[1:], stdout, stderr)
        return stdout, stderr

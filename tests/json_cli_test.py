#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""json_cli_test.py: --json as an interface: each command has a schema in docs/json, what it writes
fits it, the names of members tell their units, and errors and traces are objects too.

The other scripts hold every output with --json to its schema as well (json_kit.py).
"""

import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import cases
import cli_test
import json_kit
from cli_test import LOCAL, PROGRAM, Scratch, code, equal, it, true

cases.cases.clear()  # those of cli_test.py

# A line of these goes to a file of its own, with the words of the command line.
SHIM = """#!/bin/sh
here=$(mktemp -d "$SHIM/XXXXXX")
for word in "$@"; do printf '%s\\n' "$word" >> "$here/words"; done
"$PROGRAM" --json "$@" > "$here/stdout" 2> "$here/stderr"
status=$?
cat "$here/stderr" >&2
# What follows in an example wants what the command prints for people.
grep -o '"\\(lease\\|txn\\|etag\\)": *"[^"]*"' "$here/stdout" | head -n 1 | cut -d '"' -f 4
exit $status
"""


def commands(s):
    return {command["command"].replace(" ", "-"): command
            for command in s.table()["commands"] if command["json"]}


# ---- Schemas ------------------------------------------------------------------------------------


@it("each command with --json has a schema, and each schema belongs to a command")
def _(s):
    equal([name for name in json_kit.names() if name not in json_kit.OF_STDERR],
          sorted(commands(s)))


def members(schema):
    """All members that a schema names, with what it says of them."""
    for name, value in schema.get("properties", {}).items():
        yield name, value
    for value in schema.values():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                yield from members(part)


def types_of(value):
    kinds = value.get("type", [])
    return set(kinds if isinstance(kinds, list) else [kinds]) - {"null"}


def misnamed(name, value):
    """Why this is no name for such a member, or None."""
    kinds = types_of(value)
    if (value.get("format") == "date-time") != (name == "at" or name.endswith("_at")):
        return "a time is named ..._at and is RFC 3339"
    if name.endswith(("_ms", "_bytes")) and not kinds <= {"integer", "number"}:
        return "a number"
    if re.search(r"_(us|ns|s|sec|seconds)$|^(seconds|duration|age|modified|min|max)$", name):
        return "spans are ..._ms, times ..._at"
    if re.search(r"^(size|bytes)$|^bytes_(?!per_second)", name) and kinds & {"integer", "number"}:
        return "amounts of bytes are ..._bytes"
    if re.search(r"crc32c|sha\d|checksum", name) and kinds == {"integer"}:
        return "checksums are hexadecimal text"
    return None


@it("the names of members tell their units")
def _(_s):
    wrong = [f"{file}: {name}: {misnamed(name, value)}" for file in json_kit.names()
             for name, value in members(json_kit.validator(file).schema)
             if isinstance(value, dict) and "-" not in name and misnamed(name, value)]
    equal(wrong, [])


@it("a member that no schema lists is noticed, as is one that is missing or has another type")
def _(s):
    line = s.out("version", "--json")
    equal(json_kit.fit("version", line), None)
    for changed in ({"version": "1", "more": 1}, {}, {"version": 1}):
        true(json_kit.fit("version", json.dumps(changed)), changed)
    for name in json_kit.names():
        schema = json_kit.validator(name).schema
        json_kit.validator(name).check_schema(schema)
        for part in [schema, *schema.get("oneOf", [])]:
            true("properties" not in part or part["additionalProperties"] is False, name)


# ---- Records ------------------------------------------------------------------------------------


sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import records  # pylint: disable=wrong-import-position

TEXTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "cli", "records")
TABLES = records.parse([os.path.join(TEXTS, name) for name in sorted(os.listdir(TEXTS))
                        if name.endswith(".txt")])[0]
OF_KIND = {"text": "string", "words": "string", "key": "string", "name": "string", "json": None,
           "bool": "boolean", "not": "boolean", "time": "string", "crc32c": "string",
           "fraction": "number", "texts": "array", "list": "array", "object": "object"}


def rows_of(table, always=True):
    """The rows of a table that are in JSON, with those of its parts in their place."""
    for row in TABLES[table][2]:
        needed = always and not row["attributes"].keys() & {"optional", "needs"}
        if row["kind"] == "part":
            yield from rows_of(row["of"], needed)
        elif "hidden" not in row["attributes"] and row["kind"] not in ("hint", "ago"):
            yield dict(row, always=needed and row["kind"] != "key")


def names_of(row):
    """A name that is no UTF-8 stands in hexadecimal."""
    return [row["name"], row["name"] + "_hex"] if row["kind"] == "key" else [row["name"]]


def in_place(schema, whole):
    """A part of a schema where it stands, also if it is only named."""
    while "$ref" in schema:
        part = whole
        for step in schema["$ref"].lstrip("#/").split("/"):
            part = part[step]
        schema = part
    return schema


def objects_of(schema):
    """The objects that a line may be: one, or one of several."""
    choices = schema.get("oneOf") or schema.get("anyOf") or [schema]
    parts = [in_place(one, schema) for one in choices]
    return [one for one in parts if "properties" in one]


def fits(table, one):
    """Whether a table may make such an object: what it always tells is always there, and all that
    may be there is told."""
    rows, listed = list(rows_of(table)), set(one["properties"])
    always = {row["name"] for row in rows if row["always"]}
    told = {name for row in rows for name in names_of(row)}
    return always <= listed & set(one.get("required", [])) and listed <= told


def note_uses(uses, at, tables, objects, whole):
    """Notes which objects of the schema each table makes, also inside of them."""
    for table in tables:
        made = [one for one in objects if fits(table, one)]
        uses.setdefault(table, []).extend(made)
        for row in rows_of(table):
            inside = [in_place(one["properties"][row["name"]], whole) for one in made
                      if row["name"] in one["properties"]]
            parts = [in_place(value.get("items", value), whole) for value in inside]
            if row["of"]:
                note_uses(uses, f"{at}/{row['name']}", [row["of"]], parts, whole)
    for one in objects:
        true(any(fits(table, one) for table in tables),
             f"{at}: no record makes the object with {sorted(one['properties'])}")


def differences(name, table, objects, whole):
    """What a table and all objects of a schema that it makes disagree on."""
    for row in rows_of(table):
        for member in names_of(row):
            if not any(member in one["properties"] for one in objects):
                yield f"{name}: {member} is not in the schema"
        found = [one["properties"][row["name"]] for one in objects
                 if row["name"] in one["properties"]]
        if not found:
            continue
        wanted = OF_KIND.get(row["kind"], "integer")
        kinds = {kind for value in found for kind in types_of(in_place(value, whole))}
        if wanted and kinds - {wanted}:
            yield f"{name}: {row['name']} is {wanted}, not {sorted(kinds)}"
        if "null unless" in row["attributes"] and not any("null" in value.get("type", [])
                                                          for value in found):
            yield f"{name}: {row['name']} may be null"
        if {value.get("description") for value in found} - {None} != {row["description"]} - {None}:
            yield f"{name}: {row['name']} is described otherwise"


# What a table could tell and these commands never come to: a lease that is watched has not ended,
# and one that is broken was held.
NEVER = ["locks-break: place is not in the schema", "locks-break: ended_at is not in the schema",
         "locks-watch: ended_at is not in the schema"]


@it("the schemas have the members of the records that lines are made of, and no others")
def _(s):
    tables, wrong = {}, []
    for table, (_, schemas, _) in TABLES.items():
        for name in schemas:
            tables.setdefault(name, []).append(table)
    for name, of_schema in sorted(tables.items()):
        schema, uses = json_kit.validator(name).schema, {}
        note_uses(uses, name, of_schema, objects_of(schema), schema)
        for table, objects in uses.items():
            wrong += differences(name, table, objects, schema)
    equal(wrong, NEVER)
    equal(sorted(set(commands(s)) - set(tables)),
          ["compact-cat", "elect-run", "help", "index-get", "index-query", "run", "version"],
          "commands that tell something else")


# ---- Examples -----------------------------------------------------------------------------------


def outputs(folder):
    for name in sorted(os.listdir(folder)):
        here = os.path.join(folder, name)
        if not os.path.isdir(here):
            continue
        parts = []
        for part in ("words", "stdout", "stderr"):
            with open(os.path.join(here, part), "rb") as file:
                parts.append(file.read())
        yield parts[0].decode().splitlines(), parts[1], parts[2]


def run_examples(name, command):
    """What the command's examples write with --json: (words, stdout, stderr) of each run."""
    fresh = Scratch(None)
    shim = fresh.file("shim")
    os.mkdir(shim)
    fresh.write("shim/holdfast", SHIM.encode())
    os.chmod(fresh.file("shim/holdfast"), 0o755)
    cli_test.make_scene(fresh, command["command"])
    fresh.run("txn", "begin", "-q")
    for group in ("builders", "compact-default"):
        fresh.put(f"roster/{group}/anna", b"{}")  # as if she had just written it
    for example in command["examples"]:
        cli_test.make_example_files(fresh)
        env = dict(fresh.env, PATH=f"{shim}:{fresh.env['PATH']}", SHIM=shim, PROGRAM=PROGRAM)
        subprocess.run(["bash", "-c", example["line"]], cwd=fresh.path, env=env,
                       capture_output=True, check=False, timeout=120)
    told = [one for one in outputs(shim)
            if json_kit.command_of([*one[0], "--json"])[0] == name]
    fresh.close()
    return told


@it("what the examples of each command write with --json fits its schema")
def _(s):
    silent = []
    for name, command in commands(s).items():
        told = run_examples(name, command)
        for words, stdout, stderr in told:
            json_kit.check([*words, "--json"], stdout, stderr)
        if name != "elect-run" and not any(stdout for _, stdout, _ in told):  # its command's output
            silent.append(name)
    equal(silent, [], "no example of these wrote anything")


# ---- Errors and traces --------------------------------------------------------------------------


def refusal(s, *args):
    done = s.run("--json", *args, expect=code(s, "HELD"))
    return json.loads(done.stderr)


@it("whoever is refused a lock is told who holds it, what of it, and when to try again", LOCAL)
def _(s):
    s.run("acquire", "--ttl", "1m", "--holder", "ann", "deploy")
    s.run("key", "acquire", "--ttl", "1m", "--holder", "ann", "k")
    for scope, args in (("named:deploy", ["acquire", "--no-wait", "deploy"]),
                        ("named:deploy", ["run", "--no-wait", "deploy", "--", "true"]),
                        ("named:k", ["key", "acquire", "--no-wait", "k"])):
        told = refusal(s, *args)
        equal((told["holder"], told["scope"]), ("ann", scope), args)
        true(50000 < told["expires_in_ms"] <= 60000 <= told["retry_after_ms"] + 10000, told)
        equal(told["outcome"], "waiting" if args[0] == "key" else "held")


@it("who asks once a period is told who did it, and when it may be done again", LOCAL)
def _(s):
    s.run("run", "--once-per", "1h", "nightly", "--", "true")
    for args in (["run", "--once-per", "1h", "nightly", "--", "true"],
                 ["acquire", "--once-per", "1h", "nightly"]):
        told = json.loads(s.run("--json", *args, expect=code(s, "ALREADY")).stderr)
        equal((told["outcome"], told["scope"]), ("already", "named:nightly"))
        true(told["holder"] and 53 * 60000 < told["retry_after_ms"] <= 54 * 60000, told)


@it("chunks that are leased already are all listed, with who has each", LOCAL)
def _(s):
    chunks = [f"chunk:data/{letter}" for letter in "abcd"]
    s.run("acquire", "--ttl", "1m", "--holder", "ann", *chunks[:2])
    s.run("acquire", "--ttl", "2m", "--holder", "joe", chunks[3])
    told = refusal(s, "acquire", "--no-wait", *chunks)
    equal(told["outcome"], "chunks_already_leased")
    equal([(one["scope"], one["holder"]) for one in told["leased"]],
          [(chunks[0], "ann"), (chunks[1], "ann"), (chunks[3], "joe")])
    true(told["expires_in_ms"] <= 60000 < 110000 < told["retry_after_ms"], told)
    true("3 of the 4 requested scopes are held" in told["why"], told["why"])


@it("with --trace --json each request is a line of JSON on stderr", LOCAL)
def _(s):
    done = s.run("store", "put", "k", "-", "--trace", "--json", stdin=b"abc")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    equal([(one["call"], one["key"], one["status"], one["sent_bytes"]) for one in lines
           if one["key"] == "k"], [("put_file", "k", "OK", 3)])
    done = s.run("store", "get", "none", "--trace", "--json", expect=code(s, "NOT_FOUND"))
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    equal([one["status"] for one in lines if one.get("key") == "none"], ["NOT_FOUND"])
    equal(lines[-1]["command"], "store get none", "the error is the last")


if __name__ == "__main__":
    sys.exit(cases.main())

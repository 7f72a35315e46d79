#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""records.py: generates the tables of fields (src/cli/output/record.h) from the texts in src/cli/records.

    records.py TABLE.h FILE...

A line that starts in the first column is one of these; a line that starts with # is a comment.

    record NAME of STRUCT[: SCHEMA ...]   a table of fields of that struct, as NAME_RECORD; each
                                          docs/json/SCHEMA.json describes its JSON lines
    text NAME[ of RECORD]                 a text for people, as NAME_TEXT, which refers to members
                                          of that record (default: the record NAME)

The rows of a record are indented. A line that is indented further continues a description:

    MEMBER KIND[ at PATH][ of RECORD][ by FUNCTION][ count PATH][, ATTRIBUTE ...][: DESCRIPTION]

MEMBER is the name in JSON and in texts, or - for a part. KIND is one of enum field_kind. PATH is
the member of the struct (default: MEMBER); an object or a part without a PATH is the same struct as
another record. FUNCTION returns the names of an enum's values, or appends a hint. DESCRIPTION must
equal the description of the member in its schemas: a test compares them. An ATTRIBUTE is `optional`
(omitted when it is zero or empty), `hidden` (for texts and conditions, not in JSON), `pointed` (the
struct has a pointer to it), `needs MEMBER` or `needs !MEMBER` (omitted unless that member is set,
or is not set), or `null unless MEMBER`.

The lines of a text are indented by four spaces, which do not belong to it. A line that ends with a
backslash is joined with the next, and \\n is a newline.
"""

import re
import sys

KINDS = ("hint ago text words key name json bool not count bytes span length micros fraction time "
         "crc32c texts object part list").split()
RECORD = re.compile(r"record (\w+) of (\w+)(?:: ([\w -]+))?$")
TEXT = re.compile(r"text (\w+)(?: of (\w+))?$")
NAME = re.compile(r"\{([\w.-]+)[^}]*\}")
ROW = re.compile(r"    (\S+) +(\w+)(?: at (\S+?))?(?: of (\w+))?(?: by (\w+))?(?: count (\S+?))?"
                 r"((?:, (?:optional|hidden|pointed|(?:needs|null unless) !?\w+))*)(?:: (.+))?$")


class Fault(Exception):
    pass


def parse_row(line):
    found = ROW.match(line)
    if not found or found[2] not in KINDS:
        raise Fault("this is not a row of a record")
    row = dict(zip(("name", "kind", "at", "of", "by", "count"), found.groups()))
    row["description"] = found[8]
    row["attributes"] = {}
    for attribute in found[7].split(", ")[1:]:
        key, _, value = attribute.rpartition(" ")
        row["attributes"][key or value] = value
    return row


def parse_line(line, records, texts, block):
    """Adds one line to the block that it belongs to, and returns that block."""
    head = RECORD.match(line)
    if head:
        return records.setdefault(head[1], (head[2], (head[3] or "").split(), []))[2]
    head = TEXT.match(line)
    if head:
        return texts.setdefault(head[1], (head[2] or head[1], []))[1]
    if line.startswith("    ") and any(block is lines for _, lines in texts.values()):
        block.append(line[4:])
    elif line.startswith("     ") and block and block[-1]["description"]:
        block[-1]["description"] += " " + line.strip()
    elif line.startswith("    ") and block is not None:
        block.append(parse_row(line))
    elif line and not line.startswith("#"):
        raise Fault("this is neither a record nor a text")
    return block


def parse(paths):
    """The records, each with its struct, schemas and rows; and the texts, each with its record and
    its lines."""
    records, texts, block = {}, {}, None
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file.read().splitlines(), 1):
                try:
                    block = parse_line(line, records, texts, block)
                except Fault as fault:
                    sys.exit(f"{path}:{number}: {fault}: {line}")
    return records, texts


def has_member(records, record, name):
    """Whether a record has this member; totals.rows_in is the member rows_in of totals."""
    first, _, rest = name.partition(".")
    for row in records[record][2]:
        if row["kind"] == "part" and has_member(records, row["of"], name):
            return True
        if row["name"] == first:
            return has_member(records, row["of"], rest) if rest else True
    return False


def check_text(records, name, record, lines):
    if record not in records:
        sys.exit(f"text {name}: there is no record {record}")
    for member in NAME.findall("".join(lines)):
        if not has_member(records, record, member):
            sys.exit(f"text {name}: the record {record} has no member {member}")


def c_row(row, struct):
    kind, attributes = row["kind"], row["attributes"]
    inside = row["at"] or (None if row["of"] and kind != "list" or row["by"] and kind == "hint"
                           else row["name"])
    name = "" if row["name"] == "-" else row["name"]
    parts = [f'"{name}"', f"AT({kind.upper()}, {struct}, {inside})" if inside
             else f"SELF({kind.upper()})"]
    if row["of"]:
        parts.append(f".of = {row['of']}_record")
    if row["by"]:
        parts.append(f".append = APPENDS({row['by']})" if kind == "hint"
                     else f".name_of = NAMES({row['by']})")
    if row["count"]:
        parts.append(f".count = offsetof(struct {struct}, {row['count']})")
    for key, value in attributes.items():
        parts.append(f'.{key.replace(" ", "_")} = ' + ("true" if key == value else f'"{value}"'))
    return "{ " + ", ".join(parts) + " }, \\\n"


def c_text(lines):
    whole = "".join(line[:-1] if line.endswith("\\") else line + "\\n" for line in lines)
    return '"' + whole.replace('"', '\\"') + '"'


def main():
    records, texts = parse(sys.argv[2:])
    with open(sys.argv[1], "w", encoding="utf-8") as table:
        table.write("/* Made by tools/records.py from src/cli/records. */\n")
        for name, (struct, _, rows) in records.items():
            table.write(f"#define {name.upper()}_RECORD {{ \\\n"
                        + "".join(c_row(row, struct) for row in rows) + "{ .name = NULL } }\n")
        for name, (record, lines) in texts.items():
            check_text(records, name, record, lines)
            table.write(f"#define {name.upper()}_TEXT {c_text(lines)}\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""api-docs.py: generates the reference of the library from its headers.

    api-docs.py                       writes docs/api.md (`make api-docs`)
    api-docs.py --check               fails unless docs/api.md is up to date
    api-docs.py --man-pages FOLDER    writes manual pages of section 3: one per header, and one per
                                      call that refers to the page of its header

docs/api-commands.txt lists the calls that correspond to each command of the program.
"""

import os
import re
import sys

sys.dont_write_bytecode = True
from api_headers import read_headers  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "docs/api.md")
COMMANDS = os.path.join(ROOT, "docs/api-commands.txt")
INTRODUCTION = """\
# The public interface

Made from the headers in `include/` by `tools/api-docs.py`: change a header, then type `make api-docs`. The same text is in
manual pages of section 3, one per header (`man 3 holdfast-lock`, or `man hf_lock_acquire`).

Include `holdfast.h`, or only the headers whose calls you use. Build with `cc app.c $(pkg-config --cflags --libs holdfast)`.
The shared library exports what is listed here and nothing else, under the symbol version `HOLDFAST_0`; a test holds every
change against the recorded interface (`tests/abi_test.py`).
"""


def read_commands():
    """(command, calls, note) of each line `command: call call ... (note)`."""
    rows = []
    with open(COMMANDS, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                command, rest = line.strip().split(":", 1)
                note = re.search(r"\((.*)\)", rest)
                rows.append((command, re.findall(r"\bhf_\w+", rest.split("(")[0]), note.group(1) if note else ""))
    return rows


def blocks(text):
    """('text' | 'code', lines) of a comment: indented lines are code and shown unchanged."""
    found = []
    for line in text.split("\n"):
        kind = "code" if line.startswith("  ") or (not line and found and found[-1][0] == "code") else "text"
        if not line and kind == "text":
            found.append(("text", []))
        elif found and found[-1][0] == kind:
            found[-1][1].append(line)
        else:
            found.append((kind, [line]))
    for kind, lines in found:
        while lines and not lines[-1]:
            lines.pop()
        if lines:
            indent = min(len(line) - len(line.lstrip()) for line in lines if line)
            yield kind, [line[indent:] for line in lines]


def initial(text):
    return text[:1].upper() + text[1:]


# ---- Markdown ---------------------------------------------------------------------------------


def escape(line):
    return line.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*")


def markdown(text):
    for kind, lines in blocks(text):
        if kind == "code":
            yield "```text" if not re.search(r"[;{]$", "\n".join(lines), re.M) else "```c"
            yield from lines
            yield "```"
        else:
            yield from (escape(line) for line in lines)
        yield ""


def declarations_of(group):
    """The declarations of a group, without HF_API."""
    prototypes = iter(group.calls())
    return [next(prototypes)[1] if text.startswith("HF_API ") else text for text in group.declarations]


def header_in_markdown(header):
    yield f"## {header.name}"
    yield ""
    yield from markdown(without_name(header))
    section = ""
    for group in header.groups:
        if group.section != section:
            section = group.section
            yield f"### {section}"
            yield ""
        names = [name for name, _ in group.calls()]
        if names:
            yield "#### " + ", ".join(f"`{name}`" for name in names)
            yield ""
        if group.declarations:
            yield "```c"
            yield from declarations_of(group)
            yield "```"
            yield ""
        yield from markdown(group.comment)


def without_name(header):
    """The opening without "lock.h: "."""
    return initial(header.opening.split(": ", 1)[1])


def commands_in_markdown():
    yield "## Commands"
    yield ""
    yield "What each command of the program is made of: whatever it does, a program in C can do by these calls."
    yield ""
    yield "| command | calls |"
    yield "|---|---|"
    for command, calls, note in read_commands():
        shown = [f"`{name}`" for name in calls]
        yield f"| `{command}` | {', '.join(shown)}{' ' if shown and note else ''}{note} |"
    yield ""


def page():
    headers = read_headers(ROOT)
    lines = [INTRODUCTION, "| header | what it is for | calls |", "|---|---|---|"]
    for header in headers:
        anchor = re.sub(r"[^a-z0-9-]", "", header.name)
        lines.append(f"| [`{header.name}`](#{anchor}) | {escape(header.title())} | {len(header.calls()) or ''} |")
    lines += ["", *commands_in_markdown()]
    for header in headers:
        lines += header_in_markdown(header)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


# ---- Manual pages -----------------------------------------------------------------------------


def roff(line):
    """Escapes a line so that roff shows it unchanged: it is no request, and no dash is a hyphen."""
    for plain, shown in (("\\", "\\(rs"), ("-", "\\-"), ("'", "\\(aq"), ("`", "\\(ga"), ("^", "\\(ha"), ("~", "\\(ti")):
        line = line.replace(plain, shown)
    return "\\&" + line if line.startswith((".", "\\(aq")) else line


def code_in_roff(lines):
    return [".PP", ".in +2n", ".nf", *(roff(line) for line in lines), ".fi", ".in"]


def text_in_roff(text):
    for kind, lines in blocks(text):
        yield from code_in_roff(lines) if kind == "code" else [".PP", *(roff(line) for line in lines)]


def version():
    with open(os.path.join(ROOT, "include/holdfast/base.h"), encoding="utf-8") as file:
        return ".".join(re.findall(r"HF_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", file.read()))


def page_name(header):
    return "holdfast" if header.part == "holdfast" else "holdfast-" + header.part


def header_in_roff(header, others):
    names = [name for name, _ in header.calls()]
    yield f'.TH {page_name(header).upper()} 3 "" "holdfast {version()}" "Library Functions"'
    yield ".SH NAME"
    yield roff(f"{', '.join([page_name(header), *names])} - {header.title()}")
    yield ".SH SYNOPSIS"
    yield from code_in_roff([f"#include <{header.name}>", "", "cc app.c $(pkg-config --cflags --libs holdfast)"])
    yield ".SH DESCRIPTION"
    yield from text_in_roff(without_name(header))
    section = None
    for group in header.groups:
        if group.section != section:
            section = group.section
            yield ".SH " + roff((section or "Declarations").upper())
        calls = [name for name, _ in group.calls()]
        if calls:
            yield ".SS " + roff(", ".join(calls))
        if group.declarations:
            yield from code_in_roff("\n".join(declarations_of(group)).split("\n"))
        yield from text_in_roff(group.comment)
    yield ".SH SEE ALSO"
    yield from (f".BR {roff(page_name(other))} (3)," for other in others)
    yield ".BR holdfast (1)"


def write_pages(folder):
    headers = read_headers(ROOT)
    for header in headers:
        own = page_name(header)
        others = [other for other in headers if other is not header]
        text = "\n".join(header_in_roff(header, others)) + "\n"
        with open(os.path.join(folder, own + ".3"), "w", encoding="utf-8") as file:
            file.write(text)
        for name, _ in header.calls():
            with open(os.path.join(folder, name + ".3"), "w", encoding="utf-8") as file:
                file.write(f".so man3/{own}.3\n")


def main(arguments):
    if arguments[:1] == ["--man-pages"] and len(arguments) == 2:
        write_pages(arguments[1])
    elif arguments == ["--check"]:
        with open(PAGE, encoding="utf-8") as file:
            if file.read() != page():
                sys.stderr.write("docs/api.md does not match the headers: run 'make api-docs'\n")
                return 1
    elif not arguments:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page())
    else:
        sys.stderr.write(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

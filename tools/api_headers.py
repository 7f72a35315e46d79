# SPDX-License-Identifier: Apache-2.0
"""api_headers.py: reads the public headers as text: their opening comments, sections, and groups of
declarations with the comment above each. It parses only the layout used in include/holdfast.
"""

import os
import re

INTERNAL_MACRO = re.compile(r"#(undef\b|define (?:HF_API\b|\w+_\b(?!\w))|define HOLDFAST_\w+_H$)")
SECTION = re.compile(r"^-{4} (.*?) -{4,}$")


class Group:
    """Declarations that share a comment. A group without declarations is a comment of its own."""

    def __init__(self, section, comment, declarations):
        self.section = section
        self.comment = comment
        self.declarations = declarations

    def calls(self):
        """(name, prototype without HF_API) of each function."""
        for text in self.declarations:
            if text.startswith("HF_API "):
                prototype = shift_left(text, len("HF_API "))
                yield re.search(r"\b(hf_\w+)\s*\(", prototype).group(1), prototype


class Header:
    def __init__(self, folder, name):
        self.name = name  # "holdfast/lock.h"
        self.part = os.path.basename(name)[:-2]
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read()
        _license, opening, rest = text.split("*/", 2)
        self.opening = bare_comment(opening)
        self.groups = list(read_groups(rest))

    def title(self):
        """The purpose: the opening up to its first full stop or the end of its paragraph."""
        first = " ".join(self.opening.split("\n\n")[0].split())
        return re.split(r"\.(?: |$)", first.split(": ", 1)[1])[0]

    def calls(self):
        return [call for group in self.groups for call in group.calls()]


def read_headers(root):
    """The header that includes all others, then the parts, base.h first."""
    folder = os.path.join(root, "include")
    parts = sorted(name for name in os.listdir(os.path.join(folder, "holdfast"))
                   if name.endswith(".h"))
    parts.sort(key=lambda name: name != "base.h")
    return [Header(folder, name) for name in ["holdfast.h"] + ["holdfast/" + name for name in parts]]


def shift_left(text, columns):
    """Removes the first columns of a declaration, and keeps its lines aligned."""
    lines = text[columns:].split("\n")
    return "\n".join(lines[:1] + [line[columns:] if line[:columns].isspace() else line
                                  for line in lines[1:]])


def bare_comment(text):
    """The words of a comment without its marks."""
    lines = text.strip().removeprefix("/*").removesuffix("*/").split("\n")
    return "\n".join([lines[0].strip()] + [re.sub(r"^ \* ?", "", line).rstrip()
                                           for line in lines[1:]]).strip()


def read_pieces(text):
    """('blank' | 'comment' | 'declaration', text) of each piece at the outermost level."""
    lines = iter(text.split("\n"))
    for line in lines:
        if not line.strip():
            yield "blank", ""
        elif line.startswith("/*"):
            while "*/" not in line:
                line += "\n" + next(lines)
            yield "comment", line
        elif line.startswith("#"):
            while line.endswith("\\"):
                line += "\n" + next(lines)
            yield "declaration", line
        else:
            while not is_complete(line):
                line += "\n" + next(lines)
            yield "declaration", line


def is_complete(text):
    code = re.sub(r"/\*.*?(\*/|\Z)", "", text, flags=re.S)
    return code.count("{") == code.count("}") and code.rstrip().endswith(";")


def without_language_guards(text):
    text = re.sub(r"#ifdef __cplusplus\n(extern \"C\" \{|\})\n#endif\n", "", text)
    text = re.sub(r"^#ifndef HOLDFAST_\w+\n#define HOLDFAST_\w+\n", "", text.lstrip())
    return re.sub(r"#endif\s*$", "", text)


def read_groups(text):
    section, comment, declarations = "", "", []

    def end():
        nonlocal comment, declarations
        if comment or declarations:
            yield Group(section, comment, declarations)
        comment, declarations = "", []

    skipping = 0
    for kind, piece in read_pieces(without_language_guards(text)):
        if kind == "declaration" and piece.startswith("#if"):
            skipping += 1  # code that depends on the compiler is not documented
            comment = ""
        elif kind == "declaration" and piece.startswith("#endif"):
            skipping -= 1
        elif skipping or piece.startswith("#include"):
            continue
        elif kind == "blank":
            yield from end()
        elif kind == "comment":
            yield from end()
            comment = bare_comment(piece)
            match = SECTION.match(comment)
            if match:
                section, comment = match.group(1), ""
        elif not INTERNAL_MACRO.match(piece):
            declarations.append(piece)
    yield from end()

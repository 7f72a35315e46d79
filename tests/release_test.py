#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""release_test.py: the product contains no mutant.

    release_test.py symbols    neither the library nor the program names a rule or a mutant
    release_test.py code       each file with a rule compiles to the same machine code as the same
                               file without any trace of rules and mutants

A rule may only be a guard, RULE(X) && condition (lint checks this), and a mutant only a call,
MUTANT(...). In the product the first is the constant true, and the second is nothing. Prints TAP.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

from tap_kit import end, tell

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TRACE = re.compile(r"\b(?:RULE|MUTANT)\(")
NAMES = re.compile(r"\b(rule_broken|rule_names?|mutant_\w+)\b")


def without_mutants(text):
    """The same lines, so that assertions keep their line numbers."""
    out, at = [], 0
    for match in re.finditer(r"\bMUTANT\(", text):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        out += [text[at:match.start()], "(void)0", "\n" * text.count("\n", match.start(), end)]
        at = end
    return "".join(out + [text[at:]])


def without_rules(text):
    return re.sub(r"\bRULE\(\w+\)", "true", text)


def compile_commands(build):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for row in json.load(file):
            path = os.path.normpath(os.path.join(row["directory"], row["file"]))
            inside = os.path.relpath(path, ROOT)
            if inside.startswith("src/") and "libholdfast" in row["output"]:
                yield inside, path, row


def machine_code(row, path, text, folder):
    """The instructions of a file that is compiled as the product is, but from this text."""
    words = [word for word in shlex.split(row["command"])
             if word not in ("-Werror", "ccache", "-MD", "-g", "-O2", "-O0")]
    while "-MQ" in words or "-MF" in words:
        at = next(i for i, word in enumerate(words) if word in ("-MQ", "-MF"))
        del words[at:at + 2]
    at = words.index("-o")
    words = words[:at] + words[at + 2:]
    at = words.index("-c")
    output = os.path.join(folder, "code.o")
    words = words[:at] + ["-O2", "-g0", "-o", output, "-x", "c", "-c", "-"]
    source = '# 1 "%s"\n%s' % (path, text)
    done = subprocess.run(words, cwd=row["directory"], input=source, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        return "does not compile: " + done.stdout[-600:]
    code = subprocess.run(["objdump", "-drs", "-j", ".text", "-j", ".rodata", "-j", ".text.unlikely",
                           output], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=False).stdout
    return code or "no code"


def check_code(build):
    seen = set()
    with tempfile.TemporaryDirectory(prefix="holdfast-release-") as folder:
        for inside, path, row in sorted(compile_commands(build), key=lambda entry: entry[0]):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            if inside in seen or not TRACE.search(text):
                continue
            seen.add(inside)
            bare = without_rules(without_mutants(text))
            product = machine_code(row, path, text, folder)
            pure = machine_code(row, path, bare, folder)
            tell(product == pure and "\n" in product and not TRACE.search(bare),
                 "%s has the code of a file without rules" % inside,
                 product[:200] if product != pure else "")
    tell(len(seen) > 40, "%d files have rules" % len(seen))


def check_symbols(build):
    for name in ("src/libholdfast.so", "src/cli/holdfast"):
        path = os.path.join(build, name)
        symbols = subprocess.run(["nm", path], stdout=subprocess.PIPE, text=True, check=True).stdout
        found = sorted(set(NAMES.findall(symbols)))
        tell(len(symbols) > 1000 and not found, "%s names no mutant" % name, " ".join(found))
        with open(path, "rb") as file:
            image = file.read()
        with open(os.path.join(ROOT, "src/base/rule.h"), encoding="utf-8") as file:
            texts = re.findall(r'ROW\(\w+, "\w+",\s*\\?\s*"([^"]+)"\)', file.read())
        told = [text for text in texts if text.encode() in image]
        tell(len(texts) > 140 and not told, "%s contains no text of a mutant" % name,
             "; ".join(told[:3]))


def main():
    build, what = os.environ["HOLDFAST_BUILD"], sys.argv[1]
    {"code": check_code, "symbols": check_symbols}[what](os.path.abspath(build))
    sys.exit(end())


if __name__ == "__main__":
    main()

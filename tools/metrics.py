#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""metrics.py [TREE...]: the figures by which we judge how the sources read.

For each checkout one column: lines, functions and their lengths, static functions with one caller,
names that several functions share, loops that hide a condition, long parameter lists, RULE() that
replaces behaviour, comment density, files per folder. Run it before and after a change.
"""

import collections
import os
import re
import statistics
import sys

FUNCTION = re.compile(r"^(?:[a-z_][\w ]*[ *])(\w+)\(([^;{}]*)\)\n\{\n(.*?)^\}", re.M | re.S)
STATIC = re.compile(r"^static [^;={}()]*?(\w+)\([^;{}]*\)\n\{", re.M)
FOR = re.compile(r"\bfor \(([^;]*);([^;]*);")
WORD = re.compile(r"\w+")


def sources(tree, ending):
    for folder, _, names in sorted(os.walk(os.path.join(tree, "src"))):
        for name in sorted(names):
            if name.endswith(ending):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    text = file.read().removeprefix("/* SPDX-License-Identifier: Apache-2.0 */\n")
                    yield os.path.relpath(os.path.join(folder, name), tree), text


def comment_lines(text):
    """Lines that are comments, or end in one."""
    count, inside = 0, False
    for line in text.splitlines():
        plain = re.sub(r'"(?:\\.|[^"\\])*"', '""', line)
        count += inside or "/*" in plain or "//" in plain
        inside = "*/" not in plain.rpartition("/*")[2] if "/*" in plain else inside and "*/" not in plain
    return count


def parameters(text):
    return 0 if text.strip() in ("", "void") else len(re.sub(r"\([^()]*\)", "", text).split(","))


def measure(tree):
    c_files, headers = dict(sources(tree, ".c")), dict(sources(tree, ".h"))
    lengths, long_lists, names, alone, statics = [], 0, collections.defaultdict(set), 0, 0
    for path, text in c_files.items():
        used = collections.Counter(WORD.findall(re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)))
        for match in FUNCTION.finditer(text):
            lengths.append(match[3].count("\n"))
            long_lists += parameters(match[2]) > 6
            names[match[1]].add(path)
        for name in STATIC.findall(text):
            declared = len(re.findall(rf"^static [^;={{}}()]*?\b{name}\([^;{{}}]*\);", text, re.M))
            statics += 1
            alone += used[name] - 1 - declared == 1
    loops = [match[2] for text in c_files.values() for match in FOR.finditer(text)]
    rules = "\n".join(text for path, text in {**c_files, **headers}.items() if not path.endswith("rule.h"))
    folders = collections.Counter(os.path.dirname(path) for path in {**c_files, **headers})
    lines = sum(text.count("\n") for text in c_files.values())
    widest = folders.most_common(1)[0]
    yield "lines of .c and .h", lines + sum(text.count("\n") for text in headers.values())
    yield "lines of src/cli", sum(text.count("\n") for path, text in {**c_files, **headers}.items()
                                  if path.startswith("src/cli/"))
    yield "functions", len(lengths)
    yield "lines of a function, median", statistics.median(lengths)
    yield "lines of a function, p90", statistics.quantiles(lengths, n=10)[-1]
    yield "static functions", statics
    yield "  with one caller", alone
    yield "functions that share a name", sum(len(paths) for paths in names.values() if len(paths) > 1)
    yield "  names", sum(len(paths) > 1 for paths in names.values())
    yield "functions with more than 6 parameters", long_lists
    yield "for loops", len(loops)
    yield "  with && or || in the head", sum("&&" in head or "||" in head for head in loops)
    yield "RULE(", rules.count("RULE(")
    yield "  !RULE(", rules.count("!RULE(")
    yield "comment density of .c", round(sum(map(comment_lines, c_files.values())) / lines, 3)
    yield "  files without an opening comment", sum(
        not text.lstrip().startswith(("/*", "//")) for text in c_files.values())
    yield "files in the fullest folder", f"{widest[1]} ({widest[0]})"
    with open(os.path.join(tree, "README.md"), encoding="utf-8") as file:
        yield "lines of README.md", sum(1 for _ in file)


def main():
    trees = sys.argv[1:] or ["."]
    columns = [list(measure(tree)) for tree in trees]
    for row in zip(*columns):
        print(f"{row[0][0]:40}" + "".join(f"{str(value):>24}" for _, value in row))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sentences.py [--seed N] [--count N] [--control HEADER]: print random sentences that a user or a
developer can read.

The sentences come from the README, the documents, the comments of headers and sources, the help,
and the error messages, about the same share from each. Each stands between >> and << in its
paragraph. Give the list to somebody who does not know the code, and ask which sentences do not
read like the manuals of SQLite, PostgreSQL or curl.

With --control, a quarter as many sentences of another project's header are mixed in, and the
numbers of these are printed to standard error: the share of them that the reader marks says how
strict the reader is.
"""

import argparse
import os
import random
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHORTEST = 4    # words
AROUND = 400    # characters of the paragraph before a sentence
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])")
COMMENT = re.compile(r"/\*(.*?)\*/", re.S)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
ERROR = re.compile(r"\b\w*(?:fail|refuse|invalid|report|error)\w*\(((?:[^;{}]|\n)*?)\);")

# Name, share of the sample, and the files of each kind of text.
KINDS = [
    ("README", 2, r"(^|/)README\.md$|^CONTRIBUTING\.md$|^SECURITY\.md$"),
    ("documents", 3, r"^docs/(design|formats|security|promises|architecture|glossary|bench|guide|comparison|when-not)\.md$|^docs/(start|concepts|operate)/.*\.md$"),
    ("stories", 2, r"^docs/found\.md$|^docs/decisions/|^CHANGELOG\.md$"),
    ("help", 3, r"^src/cli/commands/.*\.txt$"),
    ("headers", 3, r"^include/.*\.h$"),
    ("comments", 5, r"^(src|sim)/.*\.[ch]$"),
    ("errors", 2, r"^src/.*\.c$"),
]


def files_of(pattern):
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                           check=True).stdout.split()
    return [name for name in names if re.search(pattern, name)]


def sentences_of(text):
    flat = re.sub(r"\s+", " ", text).strip()
    return [one for one in END.split(flat) if len(re.findall(r"[A-Za-z]{2,}", one)) >= SHORTEST]


def paragraphs_of_markdown(text):
    text = re.sub(r"```.*?```", "", text, flags=re.S)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.) )", text):
        if not block.lstrip().startswith(("|", "#")):
            yield re.sub(r"^\s*(?:[-*]|\d+\.) ", "", block)


def paragraphs_of_comments(text):
    for comment in COMMENT.findall(text):
        if "----" not in comment and "SPDX" not in comment:
            plain = re.sub(r"\n\s*\*", "\n", comment)
            for block in re.split(r"\n\s*\n", plain):
                if not re.search(r"\n {5,}\S", block):  # an example
                    yield block


def paragraphs_of_errors(text):
    for arguments in ERROR.findall(text):
        whole = re.sub(r'"\s*"', "", arguments)  # the compiler joins neighbours, too
        yield from STRING.findall(whole)


def paragraphs_of_help(text):
    for block in re.split(r"\n(?=\S)|\n\s*\n", text):
        kind, _, words = block.strip().partition(" ")
        if kind in ("option", "term", "argument", "command", "example"):
            yield words
        elif kind not in ("json", "calls"):
            yield block


def read_kind(name, pattern):
    reader = {"help": paragraphs_of_help, "headers": paragraphs_of_comments,
              "comments": paragraphs_of_comments, "errors": paragraphs_of_errors}.get(
                  name, paragraphs_of_markdown)
    found = []
    for path in files_of(pattern):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            for paragraph in reader(file.read()):
                found += [(path, one, paragraph) for one in sentences_of(paragraph)]
    return found


def in_paragraph(sentence, paragraph):
    """The sentence between >> and <<, with what stands around it in its paragraph."""
    before, _, after = re.sub(r"\s+", " ", paragraph).strip().partition(sentence)
    return "%s>> %s <<%s" % (before[-AROUND:], sentence, after[:AROUND // 2])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--control", metavar="HEADER")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    shares = sum(share for _, share, _ in KINDS)
    sample = []
    for name, share, pattern in KINDS:
        found = read_kind(name, pattern)
        wanted = min(len(found), round(options.count * share / shares))
        sample += draw.sample(found, wanted)
    if options.control:
        with open(options.control, encoding="utf-8", errors="replace") as file:
            found = [("another project", one, paragraph)
                     for paragraph in paragraphs_of_comments(file.read())
                     for one in sentences_of(paragraph)]
        sample = draw.sample(sample + draw.sample(found, len(sample) // 4), len(sample) * 5 // 4)
    for number, (path, sentence, paragraph) in enumerate(sample, 1):
        place = "" if options.control else "[%s] " % path
        print("%d. %s%s" % (number, place, in_paragraph(sentence, paragraph)))
    controls = [n for n, (path, _, _) in enumerate(sample, 1) if path == "another project"]
    if options.control:
        print("sentences of %s: %s" % (options.control, " ".join(map(str, controls))),
              file=sys.stderr)


if __name__ == "__main__":
    main()

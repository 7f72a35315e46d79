#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""abi_test.py: a program that was linked with an earlier library of the same version still runs. The
public headers are held against the interface recorded in tests/abi/holdfast.abi by abidiff.

    abi_test.py            compares; then shows that it finds what it must find
    abi_test.py record     records anew (`make abi`), for a change made on purpose

What is recorded is a library with the interface of the headers and nothing in it: the handles are
opaque there, which abidw cannot be told of a library that has them. The compiler holds the real one
to the headers, and here its symbols are compared. The record names no architecture, and serves all
whose types have the sizes of LP64.

Programs notice when a function goes, or a function, a struct or an enumeration is no longer what it
was. They do not when a function is added, a member at the end of a struct that begins with
struct_size, or an enumerator before the one that counts them.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools"))
sys.dont_write_bytecode = True
from api_headers import read_headers  # noqa: E402
from tap_kit import end, tell  # noqa: E402

INCLUDE = os.path.join(ROOT, "include")
RECORD = os.path.join(ROOT, "tests/abi/holdfast.abi")
ANYWHERE = ["--no-architecture", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed",
            "--drop-undefined-syms", "--no-parameter-names"]
STUB_FLAGS = ["-shared", "-fPIC", "-g", "-w", "-Wl,-soname,libholdfast.so.0",
              "-Wl,--version-script=" + os.path.join(ROOT, "src/holdfast.map")]

# A doctored copy of the headers: what is replaced by what in which header, and whether programs notice.
DOCTORED = [
    ("nothing is changed", "lock.h", "", "", False),
    ("a function is removed", "lock.h", r"HF_API uint64_t hf_lock_token\([^;]*;", "", True),
    ("a parameter is added", "lock.h", r"(hf_lock_renew\(struct hf_lock \*lock,)", r"\1 int how,", True),
    ("a parameter gets another type", "lock.h", r"(hf_lock_acquire\(struct hf_lock \*lock,) int64_t",
     r"\1 int32_t", True),
    ("a function returns another type", "lock.h", r"int64_t (hf_lock_remaining_ms)", r"int32_t \1", True),
    ("a member gets another type", "lock.h", r"int64_t (ttl_ms;)", r"int32_t \1", True),
    ("a member is removed", "key.h", r"uint64_t token; ", "", True),
    ("two members change places", "lock.h", r"(int64_t ttl_ms;)(\s*)(enum hf_mode mode;)", r"\3\2\1", True),
    ("two members of one type change places", "lock.h", r"once_per_ms;(.*?)once_slack_ms;",
     r"once_slack_ms;\1once_per_ms;", True),
    ("a member comes before others", "lock.h", r"(int64_t ttl_ms;)", r"int64_t more; \1", True),
    ("a struct without a size grows", "base.h", r"(char why\[HF_WHY_MAX\];)", r"\1 int more;", True),
    ("a member is added at the end, and another changed", "key.h",
     r"uint64_t (token;.*?)(char txn\[HF_TXN_ID_SIZE \+ 1\];)", r"uint32_t \1\2 int64_t more;", True),
    ("an enumerator comes before others", "lock.h", r"(HF_EXCLUSIVE,)", r"HF_MORE, \1", True),
    ("a status changes places", "base.h", r"(ROW\(NOT_FOUND, [^\n]*\n\s*)(ROW\(NOT_MODIFIED, [^\n]*\n\s*)",
     r"\2\1", True),
    ("a member is added at the end", "key.h", r"(char txn\[HF_TXN_ID_SIZE \+ 1\];)", r"\1 int64_t more;", False),
    ("a function is added", "lock.h", r"(HF_API uint64_t hf_lock_token)",
     r"HF_API int hf_lock_more(struct hf_lock *lock);\n\1", False),
    ("a status is added at the end", "base.h", r'(ROW\(UNREPORTED, [^\n]*)', r'\1 \\\n    ROW(MORE, 98, "more")', False),
]


def run(*command, folder=None):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def growing_names(root):
    """Structs that begin with their size, and enumerators that count the others."""
    text = "\n".join(declaration for header in read_headers(root) for group in header.groups
                     for declaration in group.declarations)
    structs = re.findall(r"^struct (hf_\w+) \{\s*size_t struct_size;", text, re.M)
    counts = re.findall(r"\b(HF_\w+_COUNT)\b", text)
    return sorted(set(structs)), sorted(set(counts))


def leave_out_growth(now, root):
    """Takes out of an interface what it has more than the recorded one where that may grow."""
    structs, counts = growing_names(root)
    before = ElementTree.parse(RECORD).getroot()
    tree = ElementTree.parse(now)
    for kind, member in (("class-decl", "data-member"), ("enum-decl", "enumerator")):
        recorded_types = {node.get("name"): node for node in before.iter(kind)}
        for node in tree.getroot().iter(kind):
            old = recorded_types.get(node.get("name"))
            if old is None:
                continue
            members, known = node.findall(member), len(old.findall(member))
            if kind == "class-decl" and node.get("name") in structs and len(members) > known:
                for extra in members[known:]:
                    node.remove(extra)
                node.set("size-in-bits", old.get("size-in-bits"))
            if kind == "enum-decl" and members[-1].get("name") in counts and len(members) > known:
                for extra in members[known - 1:-1]:
                    node.remove(extra)
                members[-1].set("value", old.findall(member)[-1].get("value"))
    tree.write(now)


def write_interface(include, path, scratch):
    """What abidw has to say of some headers; what went wrong."""
    library, trouble = build_stub(include, scratch)
    if trouble:
        return trouble
    done = run("abidw", *ANYWHERE, "--out-file", path, library)
    return done.stderr if done.returncode else ""


def compare(include, scratch):
    """What abidiff has to say against some headers; empty when they may take the recorded ones' place;
    and what went wrong."""
    now = os.path.join(scratch, "now.abi")
    trouble = write_interface(include, now, scratch)
    if trouble:
        return "", trouble
    leave_out_growth(now, ROOT)
    done = run("abidiff", "--no-default-suppression", "--no-added-syms", "--harmless", RECORD, now)
    if done.returncode & 3:
        return "", done.stdout + done.stderr
    return (done.stdout if done.returncode else ""), ""


def exported(library):
    listing = run("nm", "-D", "--defined-only", library).stdout
    return {line.split()[-1] for line in listing.splitlines() if line.split()[-2] != "A"}


def recorded():
    with open(RECORD, encoding="utf-8") as file:
        return set(re.findall(r"<elf-symbol name='(\w+)'", file.read()))


def build_stub(include, scratch):
    """A library with the interface of some headers, and nothing in it."""
    library = os.path.join(scratch, "libstub.so")
    prototypes = [prototype for header in read_headers(os.path.dirname(include))
                  for _, prototype in header.calls()]
    with open(os.path.join(scratch, "stub.c"), "w", encoding="utf-8") as file:
        file.write('#include "holdfast.h"\n')
        for prototype in prototypes:
            file.write(prototype.rstrip(";") + " { __builtin_trap(); }\n")
    done = run("cc", *STUB_FLAGS, "-I" + os.path.abspath(include), "-o", library, "stub.c", folder=scratch)
    return library, done.stderr if done.returncode else ""


def try_doctored(what, name, old, new, noticed):
    with tempfile.TemporaryDirectory(prefix="holdfast-abi-") as scratch:
        include = os.path.join(scratch, "include")
        shutil.copytree(INCLUDE, include)
        path = os.path.join(include, "holdfast", name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        changed, count = re.subn(old, new, text, count=1, flags=re.S) if old else (text, 1)
        with open(path, "w", encoding="utf-8") as file:
            file.write(changed)
        difference, trouble = compare(include, scratch)
    good = count == 1 and not trouble and bool(difference) == noticed
    tell(good, f"{'is found' if noticed else 'may be'}: {what}", "" if good else trouble + difference)


def main(arguments):
    with tempfile.TemporaryDirectory(prefix="holdfast-abi-") as scratch:
        if arguments == ["record"]:
            trouble = write_interface(INCLUDE, RECORD, scratch)
            sys.stderr.write(trouble)
            return 1 if trouble else 0
        difference, trouble = compare(INCLUDE, scratch)
    tell(not difference and not trouble, "the library can take the place of the recorded one", trouble + difference)
    names = exported(os.path.join(os.environ["HOLDFAST_BUILD"], "src", "libholdfast.so"))
    others = sorted(name for name in names if not re.fullmatch(r"hf_\w+@@HOLDFAST_0", name))
    tell(names and not others, "it exports hf_..., all of version HOLDFAST_0, and nothing else", "\n".join(others))
    names, known = {name.split("@")[0] for name in names}, recorded()
    tell(known <= names, "it exports every function that is recorded", "\n".join(sorted(known - names)))
    tell(names <= known, "every function that it exports is recorded: `make abi` adds what is new",
         "\n".join(sorted(names - known)))
    for row in DOCTORED:
        try_doctored(*row)
    return end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

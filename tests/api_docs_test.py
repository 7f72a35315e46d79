#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""api_docs_test.py: docs/api.md and the manual pages of section 3 are what the headers say, leave out nothing that
the library exports, and name for every command of the program the calls that it stands for. And the fuzzer of
the public calls leaves none out. Structs can grow.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tools"))
sys.dont_write_bytecode = True
from api_headers import read_headers  # noqa: E402
from tap_kit import end, tell  # noqa: E402


def load_tool():
    spec = importlib.util.spec_from_file_location("api_docs", os.path.join(ROOT, "tools/api-docs.py"))
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def check_page(headers):
    done = run(os.path.join(ROOT, "tools/api-docs.py"), "--check")
    tell(done.returncode == 0, "docs/api.md is what the headers say: `make api-docs` writes it", done.stderr)
    page = read("docs/api.md")
    listing = run("nm", "-D", "--defined-only", os.path.join(os.environ["HOLDFAST_BUILD"], "src/libholdfast.so"))
    exported = set(re.findall(r"\b(hf_\w+)@@", listing.stdout))
    missing = sorted(name for name in exported if not re.search(r"^#### .*`%s`" % name, page, re.M))
    tell(exported and not missing, "it has a heading for every symbol that the library exports", "\n".join(missing))
    words = re.sub(r"\W", "", page.replace("&lt;", "<"))
    lost = [line.strip(" *") for header in headers for line in header.opening.split("\n")
            if line.strip() and re.sub(r"\W", "", line) not in words]
    lost = [line for line in lost if not re.match(r"\w+\.h: ", line)]
    tell(not lost, "and all that each header opens with", "\n".join(lost))
    short = [header.name for header in headers if len(header.opening) < 300]
    tell(not short, "every header opens with what it promises", "\n".join(short))


def check_commands(headers, rows):
    declared = {name for header in headers for name, _ in header.calls()}
    help_text = run(os.environ["HOLDFAST_PROGRAM"], "help", "--json")
    commands = [row["command"] for row in json.loads(help_text.stdout)["commands"]]
    named = [command for command, _, _ in rows]
    tell(named == commands, "docs/api-commands.txt has every command of the program, in its order",
         "\n".join(sorted(set(named) ^ set(commands))))
    empty = [command for command, calls, note in rows if not calls and not note]
    tell(not empty, "each is mapped to calls, or says why not", "\n".join(empty))
    unknown = {name for _, calls, _ in rows for name in calls} - declared
    tell(not unknown, "each call that it names is declared", "\n".join(sorted(unknown)))


def check_manual_pages(tool, headers):
    with tempfile.TemporaryDirectory(prefix="holdfast-pages-") as root:
        folder = os.path.join(root, "man3")
        os.mkdir(folder)
        tool.write_pages(folder)
        for header in headers:
            name = tool.page_name(header) + ".3"
            path = os.path.join(folder, name)
            done = run("groff", "-man", "-Tutf8", "-ww", "-z", path)
            trouble = done.stdout + done.stderr
            if shutil.which("mandoc"):
                trouble += run("mandoc", "-T", "lint", "-W", "error", path).stdout
            if shutil.which("man"):
                trouble += run("man", "--warnings", "-l", path, env=dict(os.environ, MANPAGER="cat", LC_ALL="C.UTF-8")).stderr
            tell(done.returncode == 0 and not trouble, f"{name} is good roff", trouble)
        shown = run("groff", "-man", "-Tutf8", "-P-cbou", "-rLL=200n", os.path.join(folder, "holdfast-lock.3")).stdout
        good = "int64_t hf_lock_remaining_ms(struct hf_lock *lock);" in shown and "`options` may be NULL. Local." in shown
        tell(good, "a manual page shows calls and comments as they stand", "" if good else shown)
        calls = [name for header in headers for name, _ in header.calls()]
        tell(all(os.path.exists(os.path.join(folder, name + ".3")) for name in calls), "each call can be asked for by its name")


def check_structs():
    """Structs begin with struct_size, or stand in the list of those that never change."""
    base = read("include/holdfast/base.h")
    fixed = set(re.findall(r"\bhf_\w+", base[base.index("Structs without struct_size"):base.index("THREADS.")]))
    found = {}
    for name in os.listdir(os.path.join(ROOT, "include/holdfast")):
        found.update(re.findall(r"^struct (hf_\w+) \{\s+([^;]*);", read("include/holdfast/" + name), re.M))
    without = {name for name, first in found.items() if first != "size_t struct_size"}
    tell(without == fixed, "every struct begins with struct_size, or base.h says that it never changes",
         "\n".join(sorted(without ^ fixed)))


def check_fuzzer(headers):
    rows = set(re.findall(r"\bROW\((hf_\w+)", read("fuzz/api_calls.h")))
    for header in headers:
        names = {name for name, _ in header.calls()}
        tell(names <= rows, f"fuzz/api_calls.h has every call of {header.name}", "\n".join(sorted(names - rows)))


def main():
    headers = read_headers(ROOT)
    tool = load_tool()
    check_page(headers)
    check_commands(headers, tool.read_commands())
    check_manual_pages(tool, headers)
    check_structs()
    check_fuzzer(headers)
    return end()


if __name__ == "__main__":
    sys.exit(main())

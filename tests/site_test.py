#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""site_test.py: the documents as a site (tools/site.py): every page is there and in the navigation, every
link and anchor leads somewhere, and no page asks another host for anything. The links of all other
Markdown files of the source tree are checked, too.

Prints TAP.
"""

import importlib.util
import os
import re
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True  # nothing of ours in the source tree

from tap_kit import end, tell

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# A page that is wrong in each of these ways must be noticed.
WRONG = {
    "a link to a page that is not there": '<a href="nowhere.html">x</a>',
    "a link to a heading that is not there": '<a href="#nowhere">x</a>',
    "a link to a heading of another page that is not there": '<a href="other.html#nowhere">x</a>',
    "a picture that is not there": '<img src="nowhere.svg">',
    "a picture of another host": '<img alt="" src="https://example.org/x.png">',
    "a style sheet of another host": '<link rel="stylesheet" href="//example.org/x.css">',
    "a font of another host": '<style>@font-face { src: url(https://example.org/x.woff) }</style>',
    "a style sheet that is imported": '<style>@import "x.css";</style>',
    "a script": '<script src="x.js"></script>',
}


def load_site():
    spec = importlib.util.spec_from_file_location("site_tool", os.path.join(ROOT, "tools", "site.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def check_the_checker(site, folder):
    write(folder, "other.html", '<h1 id="here">x</h1>')
    write(folder, "page.html", '<a href="other.html#here">x</a> <a href="https://example.org/">x</a>')
    found = list(site.complaints(folder))
    tell(not found, "a page with good links is not complained about, nor is a link to another host", "\n".join(found))
    for name, text in WRONG.items():
        write(folder, "page.html", text)
        tell(bool(list(site.complaints(folder))), f"{name} is noticed")


def check_site(site, folder):
    maker = site.Site(os.environ["HOLDFAST_PROGRAM"], folder)
    try:
        maker.make()
        error = ""
    except site.SiteError as wrong:
        error = str(wrong)
    tell(not error, "the site is written", error)
    found = list(site.complaints(folder))
    tell(not found, "every link and anchor leads somewhere, and no page asks another host", "\n".join(found))
    missing = [page for page in site.documents() if page not in maker.pages]
    tell(not missing, "every document is a page", "\n".join(missing))
    names = {page for _part, pages in maker.parts for page, _title in pages}
    for name in ("commands", "exit-codes", "json-fields", "http"):
        with open(os.path.join(folder, name + ".html"), encoding="utf-8") as file:
            text = file.read()
        tell(name in names and text.count("<h2 id=") + text.count("<tr>") > 15, f"the page '{name}' is generated")


def markdown_files():
    for base, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if not name.startswith("build") and name not in ("node_modules", ".git")]
        yield from (os.path.join(base, name) for name in names if name.endswith(".md"))


def check_markdown(site):
    """As GitHub shows them: a link leads to a file or folder, and to a heading of a Markdown file."""
    files = {path: site.render(open(path, encoding="utf-8").read()) for path in markdown_files()}
    wrong = []
    for path, (body, headings) in files.items():
        for target in re.findall(r'(?:href|src)="([^"]*)"', body):
            if re.match(r"[a-z]+:", target):
                continue
            name, _mark, heading = target.partition("#")
            full = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            there = files.get(full, (None, headings if not name else []))[1]
            if not os.path.exists(full) or (heading and heading not in {one[1] for one in there}):
                wrong.append(f"{os.path.relpath(path, ROOT)}: {target}")
    tell(not wrong, "every link of a Markdown file leads to a file or heading", "\n".join(wrong))


def check_readme():
    """What a reader sees first is what it is and how to use it, not where to go."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        text = file.read()
    first = re.search(r"(?<!!)\[[^\]]*\]\(", text)
    lines = text[:first.start()].count("\n")
    tell(lines >= 40, "a screen of README comes before its first link", f"{lines} lines")


def main():
    site = load_site()
    folder = tempfile.mkdtemp(prefix="holdfast-site-")
    try:
        os.mkdir(os.path.join(folder, "checker"))
        check_the_checker(site, os.path.join(folder, "checker"))
        check_site(site, os.path.join(folder, "site"))
        check_markdown(site)
        check_readme()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return end()


if __name__ == "__main__":
    sys.exit(main())

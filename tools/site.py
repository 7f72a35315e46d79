#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""site.py: the documents as a static site.

    site.py PROGRAM FOLDER      writes the site; PROGRAM is the holdfast whose help becomes a page

cmark-gfm renders the Markdown, as GitHub does. This script adds what a site needs: a navigation, an
anchor per heading, links between pages, and the pages that are generated: commands, exit codes, JSON
fields and HTTP requests. The site consists of the pages in PARTS, of all other documents, and of every
file of the repository that these link to. A page loads nothing but site.css and pictures of its own,
and runs no script. A link that leads nowhere is an error.
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# The navigation: parts, and their pages with the title in the list. A page is a path below docs/, or
# the name of a function below that generates it.
PARTS = [
    ("Start", [
        ("start/install.md", "Install"),
        ("start/cron.md", "Cron on three hosts"),
        ("start/c.md", "A lock in C"),
        ("start/python.md", "A lock in Python"),
        ("start/compaction.md", "Compact a bucket"),
        ("start/indexes.md", "An index"),
        ("guide.md", "The guide"),
    ]),
    ("Concepts", [
        ("concepts/lease.md", "What a lease promises"),
        ("concepts/tokens.md", "Fencing tokens"),
        ("concepts/pictures.md", "Acquire, takeover, fenced write"),
        ("glossary.md", "Glossary"),
        ("architecture.md", "Architecture"),
    ]),
    ("Operate", [
        ("operate/ttl.md", "Choosing a ttl"),
        ("sizing.md", "Sizing and cost"),
        ("serve.md", "The server"),
        ("operate/monitoring.md", "Monitoring and alerts"),
        ("recovery.md", "Recovery"),
        ("security.md", "Security"),
        ("packages.md", "Packages"),
    ]),
    ("Reference", [
        ("commands", "Commands"),
        ("exit-codes", "Exit codes"),
        ("json-fields", "JSON fields"),
        ("http", "HTTP"),
        ("api.md", "C"),
        ("python.md", "Python"),
        ("formats.md", "Formats"),
    ]),
    ("Why", [
        ("promises.md", "Promises and their proofs"),
        ("comparison.md", "Comparison"),
        ("when-not.md", "When not to use Holdfast"),
        ("bench.md", "Benchmarks"),
        ("design.md", "The protocol"),
        ("decisions", "Decisions"),
        ("found.md", "Bugs found"),
    ]),
]
COPIED = (".svg", ".png", ".json", ".yml")


class SiteError(Exception):
    """A document or a link in it is wrong."""


# ---- Pages that are generated, as Markdown -------------------------------------------------------


def ask(program, *words):
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
    return subprocess.run([program, *words], env=environment, check=True, capture_output=True, text=True).stdout


def cell(text):
    return str(text).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def commands_page(program):
    commands = json.loads(ask(program, "help", "--json"))["commands"]
    yield "# Commands\n\nGenerated from `holdfast COMMAND --help`.\n\n| command | what it does |\n|---|---|"
    for command in commands:
        name = command["command"]
        yield f"| [`{name}`](#{anchor('holdfast ' + name)}) | {cell(command['summary'])} |"
    for command in commands:
        text = ask(program, *command["command"].split(), "--help")
        yield f"\n## holdfast {command['command']}\n\n````\n{text}````"


def exit_codes_page(program):
    yield ("# Exit codes\n\nGenerated from `holdfast help --json`. `holdfast run` exits with the status of its command.\n\n"
           "| code | status | meaning |\n|---|---|---|")
    for row in json.loads(ask(program, "help", "--json"))["statuses"]:
        yield f"| {row['exit_code']} | `{row['status']}` | {cell(row['text'])} |"
    yield "\nA program that a signal ends has 128 plus the number of the signal, as in shells."


def kind_of(schema):
    """The type of a member, in a word or two."""
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[1]
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    kind = schema.get("type", "any")
    kind = " or ".join(kind) if isinstance(kind, list) else kind
    if kind == "array" and isinstance(schema.get("items"), dict):
        return "array of " + kind_of(schema["items"])
    return "string, a time" if schema.get("format") == "date-time" else kind


def member_rows(schema, prefix=""):
    """(name, type, meaning) of all members, with those of members."""
    for branch in schema.get("oneOf", []) + schema.get("anyOf", []) + schema.get("allOf", []):
        yield from member_rows(branch, prefix)
    for name, member in schema.get("properties", {}).items():
        inner = member.get("items", {}) if member.get("type") == "array" else member
        yield prefix + name, kind_of(member), member.get("description", "")
        if isinstance(inner, dict):
            yield from member_rows(inner, prefix + name + ("[]." if inner is not member else "."))


def member_table(schema):
    seen = {}  # of several forms of an object, the first one that has the member describes it
    for name, kind, meaning in member_rows(schema):
        seen.setdefault(name, (kind, meaning))
    if not seen:
        return
    yield "\n| member | type | meaning |\n|---|---|---|"
    for name, (kind, meaning) in seen.items():
        yield f"| `{name}` | {cell(kind)} | {cell(meaning)} |"


def json_fields_page(_program):
    folder = os.path.join(ROOT, "docs", "json")
    yield ("# JSON fields\n\nWhat the commands write with `--json`. Generated from the JSON Schemas in `docs/json`, which the "
           "tests hold against the output. Later versions may add members.\n")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            schema = json.load(file)
        title = schema["title"].partition(":")[0].replace("holdfast ", "").replace(" --json", "")
        yield f"\n## {title}\n\n{schema['title']} ([schema](json/{name}))."
        yield from member_table(schema)


def resolve(document, thing):
    """The thing that a $ref of an OpenAPI document names."""
    while "$ref" in thing:
        step = document
        for word in thing["$ref"].removeprefix("#/").split("/"):
            step = step[word]
        thing = step
    return thing


def http_request(document, method, path, call):
    yield f"\n## {method.upper()} {path}\n\n{call['summary']}. {call.get('description', '')}"
    parameters = [resolve(document, one) for one in call.get("parameters", [])]
    if parameters:
        yield "\n| parameter | in | meaning |\n|---|---|---|"
        for one in parameters:
            needed = ", required" if one.get("required") else ""
            yield f"| `{one['name']}` | {one['in']}{needed} | {cell(one.get('description', ''))} |"
    body = call.get("requestBody", {}).get("content", {})
    for kind, content in body.items():
        yield f"\nBody (`{kind}`):"
        yield from member_table(resolve(document, content.get("schema", {})))
    for status, reply in call["responses"].items():
        reply = resolve(document, reply)
        if status.startswith("2"):
            yield f"\nReply {status}: {reply['description']}."
            for content in reply.get("content", {}).values():
                yield from member_table(resolve(document, content.get("schema", {})))
    refused = [status for status in call["responses"] if not status.startswith("2")]
    if refused:
        yield f"\nErrors: {', '.join(refused)}; see [Errors](serve.md#errors)."


def http_page(_program):
    with open(os.path.join(ROOT, "docs", "openapi.json"), encoding="utf-8") as file:
        document = json.load(file)
    yield ("# HTTP\n\nThe requests that `holdfast serve` answers. Generated from [openapi.json](openapi.json) (OpenAPI "
           f"{document['openapi']}); [The server](serve.md) explains them.\n\n| request | what it does |\n|---|---|")
    calls = [(method, path, call) for path, methods in document["paths"].items() for method, call in methods.items()]
    for method, path, call in calls:
        title = f"{method.upper()} {path}"
        yield f"| [`{title}`](#{anchor(title)}) | {cell(call['summary'])} |"
    for method, path, call in calls:
        yield from http_request(document, method, path, call)


def decisions_page(_program):
    yield "# Decisions\n\nOne page per decision: the question, what was decided, and why.\n"
    folder = os.path.join(ROOT, "docs", "decisions")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            yield f"- [{file.readline().lstrip('# ').strip()}](decisions/{name})"


GENERATED = {"commands": commands_page, "exit-codes": exit_codes_page, "json-fields": json_fields_page, "http": http_page,
             "decisions": decisions_page}


# ---- Rendering -----------------------------------------------------------------------------------


def anchor(title):
    """The id of a heading, as on GitHub."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def plain(text):
    return html.unescape(re.sub(r"<[^>]+>", "", text))


def render(markdown):
    """(HTML with an id per heading, [(level, id, title)])"""
    words = ["cmark-gfm", "--validate-utf8", "-e", "table", "-e", "strikethrough", "-e", "autolink"]
    body = subprocess.run(words, input=markdown, check=True, capture_output=True, text=True).stdout
    headings, used = [], {}

    def number(match):
        level, inner = int(match[1]), match[2]
        name = anchor(plain(inner))
        used[name] = used.get(name, -1) + 1
        name += f"-{used[name]}" if used[name] else ""
        headings.append((level, name, plain(inner)))
        return f'<h{level} id="{name}">{inner}<a class="here" href="#{name}" aria-label="link to this heading">#</a></h{level}>'

    body = re.sub(r"<h([1-6])>(.*?)</h\1>", number, body, flags=re.S)
    # A wide table scrolls by itself, not with the page.
    body = body.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    return body, headings


class Site:
    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.pages = {}  # source path below the repository, or the name of a generated page -> path in the site
        self.queue = []

    def place(self, source):
        """Where a source is in the site. A page that is met for the first time will be written."""
        if source not in self.pages:
            below = source.removeprefix("docs/") if source.startswith("docs/") else "tree/" + source
            if source in GENERATED:
                self.pages[source] = source + ".html"
            elif source == "docs/README.md":
                self.pages[source] = "index.html"
            elif source.endswith(".md"):
                self.pages[source] = below[:-len(".md")] + ".html"
            else:
                self.pages[source] = below
            self.queue.append(source)
        return self.pages[source]

    def link(self, source, target):
        """A link in a source, as a link between the pages."""
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return target
        path, mark, name = urllib.parse.unquote(target).partition("#")
        base = "docs" if source in GENERATED else os.path.dirname(source)
        full = os.path.normpath(os.path.join(base, path))
        if full.startswith("docs/") and full[len("docs/"):] in GENERATED:
            full = full[len("docs/"):]
        elif not os.path.isfile(os.path.join(ROOT, full)):
            raise SiteError(f"{source}: the link to '{target}' leads nowhere")
        elif not full.endswith((".md", *COPIED)):
            raise SiteError(f"{source}: '{target}' is neither a page nor a picture; name it without a link")
        place = os.path.relpath(self.place(full), os.path.dirname(self.pages[source]) or ".")
        return place + mark + name

    def navigation(self, source):
        here = os.path.dirname(self.pages[source]) or "."
        lines = []
        for part, pages in self.parts:
            lines.append(f"<h2>{part}</h2><ul>")
            for page, title in pages:
                current = ' aria-current="page"' if page == source else ""
                place = os.path.relpath(self.place(page), here)
                lines.append(f'<li><a href="{place}"{current}>{html.escape(title)}</a></li>')
            lines.append("</ul>")
        return "\n".join(lines)

    def write(self, source):
        place = os.path.join(self.folder, self.pages[source])
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if source not in GENERATED and not source.endswith(".md"):
            shutil.copyfile(os.path.join(ROOT, source), place)
            return
        if source in GENERATED:
            markdown = "\n".join(GENERATED[source](self.program)) + "\n"
        else:
            with open(os.path.join(ROOT, source), encoding="utf-8") as file:
                markdown = file.read()
        body, headings = render(markdown)
        body = re.sub(r'(href|src)="([^"]*)"',
                      lambda match: f'{match[1]}="{html.escape(self.link(source, html.unescape(match[2])))}"', body)
        contents = "".join(f'<li><a href="#{name}">{html.escape(title)}</a></li>' for level, name, title in headings if level == 2)
        if contents:
            contents = f'<aside aria-label="On this page"><div><h2>On this page</h2><ul>{contents}</ul></div></aside>'
        with open(os.path.join(ROOT, "tools", "site.html"), encoding="utf-8") as file:
            page = file.read()
        up = os.path.relpath(".", os.path.dirname(self.pages[source]) or ".")
        for name, text in (("TITLE", html.escape(headings[0][2] if headings else source)), ("UP", up),
                           ("NAVIGATION", self.navigation(source)), ("CONTENTS", contents), ("BODY", body)):
            page = page.replace(f"@{name}@", text)
        with open(place, "w", encoding="utf-8") as file:
            file.write(page)

    def make(self):
        self.parts = [(part, [(page if page in GENERATED else "docs/" + page, title) for page, title in pages])
                      for part, pages in PARTS]
        named = {page for _part, pages in self.parts for page, _title in pages}
        more = sorted(page for page in documents() if page not in named and page != "docs/README.md"
                      and not page.startswith("docs/decisions/"))
        if more:
            self.parts.append(("More", [(page, title_of(page)) for page in more]))
        os.makedirs(self.folder, exist_ok=True)
        shutil.copyfile(os.path.join(ROOT, "tools", "site.css"), os.path.join(self.folder, "site.css"))
        self.place("docs/README.md")
        while self.queue:
            self.write(self.queue.pop())


def documents():
    for folder, _folders, names in os.walk(os.path.join(ROOT, "docs")):
        for name in names:
            if name.endswith(".md"):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def title_of(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.readline().lstrip("# ").strip()


# ---- Checking ------------------------------------------------------------------------------------

LOADS = re.compile(r"""<(?:script|iframe|object|embed|link|img|image|source|video|audio|use|form|input)\b[^>]*?"""
                   r"""\b(?:src|href|data|action|srcset)\s*=\s*["']?\s*(?:[a-z]+:)?//[^"'>\s]*"""
                   r"""|url\(\s*["']?\s*(?:[a-z]+:)?//[^)]*\)|@import[^;]*|<script\b[^>]*>|http-equiv=["']?refresh[^>]*""", re.I)


def complaints(folder):
    """What is wrong with a site: links and anchors that lead nowhere, and requests to other hosts."""
    pages = {}
    for base, _folders, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            text = ""
            if name.endswith((".html", ".css", ".svg")):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
            pages[path] = text
    ids = {path: set(re.findall(r'\bid="([^"]*)"', text)) for path, text in pages.items()}
    for path, text in sorted(pages.items()):
        shown = os.path.relpath(path, folder)
        for match in LOADS.finditer(text):
            yield f"{shown}: asks another host, or runs a script: {match[0]}"
        if not path.endswith(".html"):
            continue
        for target in re.findall(r'\b(?:href|src)="([^"]*)"', text):
            target = urllib.parse.unquote(html.unescape(target))
            if re.match(r"(https?|mailto):", target):
                continue
            file, _mark, name = target.partition("#")
            full = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            if full not in pages:
                yield f"{shown}: '{target}' leads nowhere"
            elif name and full.endswith(".html") and name not in ids[full]:
                yield f"{shown}: '{target}' has no such heading"


def main(arguments):
    if len(arguments) != 2:
        print("usage: site.py PROGRAM FOLDER", file=sys.stderr)
        return 2
    program, folder = arguments
    try:
        shutil.rmtree(folder, ignore_errors=True)
        Site(program, folder).make()
    except SiteError as error:
        print(f"site.py: {error}", file=sys.stderr)
        return 1
    wrong = list(complaints(folder))
    for line in wrong:
        print(f"site.py: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""commands.py: generates the table of commands from the texts in src/cli/commands.

    commands.py TABLE.c TABLE.h FILE...

A line in the first column starts with one of the words below. Indented lines continue it; in
`details`, a blank line separates paragraphs. A line that starts with # is a comment. ": " separates
a head from its text.

    program SUMMARY                      the program; its options are those of every command
    group TITLE                          a heading of the overview, for the commands that follow
    command PATH [(FLAG, ...)]: SUMMARY  `store get` is run by the function run_store_get
    topic TITLE                          a list of terms about the whole program
    shared NAME                          rows of several commands, for `use` further down

The rows that follow such a line belong to it:

    use NAME ...                         the rows of `shared NAME`
    details                              paragraphs, in the indented lines
    json TEXT                            the output with --json
    argument ARGUMENT [(COMPLETION)]: SUMMARY
                                         NAME, [NAME], NAME..., [NAME...], or -- NAME... for the
                                         command line of another program
    option [-L, ]--NAME[ VALUE][ (ATTRIBUTE, ...)]: SUMMARY
                                         without a VALUE it is a flag
    example LINE  # WHAT                 works exactly as written: a test runs it
    script FILE                          a file beside the text, which the command prints; it has
                                         no function
    alias PATH                           another name of the command
    hint PATH, ...: TEXT                 advice to a user who types a command of another program
    term TERM: TEXT                      a term of a topic

FLAG is one of only_reads, ends_in_order, no_config, or what main opens before it runs the command (see OPENS).
An ATTRIBUTE is the type of the value (count, limit, size, span, wait, exit_code; default:
text), what a shell
completes (see COMPLETIONS), all values as one|two, `required`, `many` (may be given more than
once; a flag is then counted), or `choice N`: options with the same number exclude each other.
"""

import os
import re
import sys

COLUMNS_MAX = 100

BLOCKS = {  # and the rows that each may have
    "program": "use details option example hint",
    "group": "",
    "command": "use details json argument option example alias script",
    "topic": "details term",
    "shared": "use details json argument option",
}
FLAGS = ["only_reads", "ends_in_order", "no_config"]
OPENS = ["objects", "store", "client", "partition", "index"]
TYPES = ["count", "limit", "size", "span", "wait", "exit_code"]
COMPLETIONS = ["file", "url", "command", "program", "profile", "lock", "object", "partition",
               "index", "txn", "group", "namespace"]
NAME = r"([A-Z][A-Z=]*)"
ARGUMENTS = [(NAME, "ONE"), (r"\[" + NAME + r"\]", "OPTIONAL"), (NAME + r"\.\.\.", "MANY"),
             (r"\[" + NAME + r"\.\.\.\]", "ANY"), ("-- " + NAME + r"\.\.\.", "COMMAND")]


class Fault(Exception):
    def __init__(self, item, why):
        super().__init__("%s: %s" % (item.place, why))


class Item:
    """A word of the first column with its text. A word that starts a block also has rows."""

    def __init__(self, place, word, text):
        self.place, self.word, self.rows = place, word, []
        self.paragraphs = [text] if text else []

    def text(self):
        if len(self.paragraphs) != 1:
            raise Fault(self, "'%s' has %s" % (self.word, "several paragraphs" if self.paragraphs
                                               else "no text"))
        return self.paragraphs[0]

    def halves(self, separator=": "):
        head, found, text = self.text().partition(separator)
        if not found or not text.strip():
            raise Fault(self, "'%s %s' has no text after '%s'" % (self.word, head.strip(":"),
                                                                  separator.strip()))
        return head.strip(), text.strip()

    def all(self, word):
        return [row for row in self.rows if row.word == word]


# ---- Reading ------------------------------------------------------------------------------------

def read_items(path):
    item, after_blank = None, False
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            continue
        text = line.strip()
        here = Item("%s:%d" % (path, number), *(line.split(None, 1) + ["", ""])[:2])
        if len(line) > COLUMNS_MAX:
            raise Fault(here, "wider than %d columns" % COLUMNS_MAX)
        if text and line[0] != " ":
            if item:
                yield item
            item = here
        elif text and not item:
            raise Fault(here, "an indented line must continue another line")
        elif text and (after_blank or not item.paragraphs):
            item.paragraphs.append(text)
        elif text:
            item.paragraphs[-1] += " " + text
        after_blank = not text
    if item:
        yield item


def read_blocks(paths):
    """All blocks, with each `use` replaced by the rows it names."""
    blocks, shared, used = [], {}, set()
    for path in paths:
        block = None
        for item in read_items(path):
            if item.word in BLOCKS:
                block = item
                blocks.append(block)
                if item.word == "shared" and shared.setdefault(item.text(), item) is not item:
                    raise Fault(item, "'shared %s' is defined twice" % item.text())
            elif not any(item.word in rows.split() for rows in BLOCKS.values()):
                raise Fault(item, "unknown word '%s'" % item.word)
            elif not block or item.word not in BLOCKS[block.word].split():
                raise Fault(item, "'%s' does not belong here" % item.word)
            elif item.word == "use":
                for name in item.text().split():
                    if name not in shared or shared[name] is block:
                        raise Fault(item, "no 'shared %s' before this line" % name)
                    used.add(name)
                    block.rows += shared[name].rows
            else:
                block.rows.append(item)
    for name, item in shared.items():
        if name not in used:
            raise Fault(item, "'shared %s' is not used" % name)
    return blocks


# ---- One row in C -------------------------------------------------------------------------------

def quote(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def array(kind, rows, end):
    return "(const %s[]){\n%s    %s\n}" % (kind, "".join("    %s,\n" % row for row in rows), end)


def fields(**values):
    return "{ %s }" % ", ".join(".%s = %s" % pair for pair in values.items() if pair[1])


def split_attributes(head):
    match = re.fullmatch(r"(.*?)(?: \((.*)\))?", head)
    return match.group(1), match.group(2).split(", ") if match.group(2) else []


def argument_in_c(item):
    head, summary = item.halves()
    form, attributes = split_attributes(head)
    forms = [(re.fullmatch(pattern, form), count) for pattern, count in ARGUMENTS]
    found = [(match.group(1), count) for match, count in forms if match]
    if not found:
        raise Fault(item, "'%s' is not an argument" % form)
    if len(attributes) > 1 or not set(attributes) <= set(COMPLETIONS):
        raise Fault(item, "unknown completion '%s'" % ", ".join(attributes))
    name, count = found[0]
    completion = attributes[0] if attributes else "nothing"
    return count, fields(name=quote(name), count="ARGUMENT_" + count, summary=quote(summary),
                         completion="COMPLETE_" + completion.upper())


def attribute_in_c(item, attribute):
    """The field that an attribute of an option sets, and its value."""
    if attribute in TYPES:
        return "type", "OPTION_" + attribute.upper()
    if attribute in COMPLETIONS:
        return "completion", "COMPLETE_" + attribute.upper()
    if attribute == "required":
        return "needed", "true"
    if attribute == "many":
        return "many", "true"
    if re.fullmatch(r"choice [1-9]", attribute):
        return "choice", attribute[-1]
    if re.fullmatch(r"[a-z]+(\|[a-z]+)+", attribute):
        return "values", quote(attribute.replace("|", " "))
    raise Fault(item, "unknown attribute '%s'" % attribute)


def option_in_c(item):
    """The name, letter and choice of an option, and its row."""
    head, summary = item.halves()
    form, attributes = split_attributes(head)
    match = re.fullmatch(r"(?:-([A-Za-z0-9]), )?--([a-z][a-z0-9-]*)(?: (\S+))?", form)
    if not match:
        raise Fault(item, "'%s' is not an option" % form)
    letter, name, value = match.groups()
    row = {"name": quote(name), "letter": letter and "'%s'" % letter,
           "value": value and quote(value), "summary": quote(summary)}
    for attribute in attributes:
        field, text = attribute_in_c(item, attribute)
        if row.setdefault(field, text) is not text:
            raise Fault(item, "a second %s: '%s'" % (field, attribute))
    if value:
        row.setdefault("type", "OPTION_TEXT")
    elif {"type", "completion", "values"} & set(row):
        raise Fault(item, "--%s has no value" % name)
    return name, letter, row.get("choice"), fields(**row)


# ---- A command in C -----------------------------------------------------------------------------

def options_in_c(block, taken):
    """The rows of all options. `taken` are names and letters that are already in use."""
    rows, taken, choices = [], set(taken), {}
    for item in block.all("option"):
        name, letter, choice, row = option_in_c(item)
        for word in filter(None, ["--" + name, letter and "-" + letter]):
            if word in taken:
                raise Fault(item, "a second %s in '%s'" % (word, block.text().partition(":")[0]))
            taken.add(word)
        choices.setdefault(choice, []).append(item)
        rows.append(row)
    for choice, items in choices.items():
        if choice and len(items) == 1:
            raise Fault(items[0], "there is no other option of choice %s" % choice)
    return rows, taken


def arguments_in_c(block):
    rows, last = [], "ONE"
    for item in block.all("argument"):
        if last not in ("ONE", "OPTIONAL"):
            raise Fault(item, "one argument too many: the one before takes all the rest")
        last, row = argument_in_c(item)
        rows.append(row)
    return rows


def example_in_c(item):
    line, what = item.halves(" # ")
    return "{ %s, %s }" % (quote(line), quote(what))


def row_in_c(block, options, **more):
    """The fields that the program and a command have in common."""
    json = block.all("json")
    if len(json) > 1:
        raise Fault(json[1], "a second json")
    details = [quote(text) for item in block.all("details") for text in item.paragraphs]
    return fields(
        arguments=array("struct argument_spec", arguments_in_c(block), "{ .name = NULL }"),
        options=array("struct option_spec", options, "{ .name = NULL }"),
        details=array("char *const", details, "NULL"),
        json=json and quote(json[0].text()),
        examples=array("struct example", map(example_in_c, block.all("example")),
                       "{ NULL, NULL }"),
        aliases=array("char *const", [quote(item.text()) for item in block.all("alias")], "NULL"),
        **more)


def command_in_c(block, group, taken):
    """The path of a command, its number of options, its function and its row."""
    head, summary = block.halves()
    path, flags = split_attributes(head)
    if not re.fullmatch(r"[a-z]+( [a-z]+)*", path) or not set(flags) <= set(FLAGS + OPENS):
        raise Fault(block, "'%s' is not a command" % head)
    if not group:
        raise Fault(block, "there is no group before this command")
    options, _ = options_in_c(block, taken)
    script = script_of(block)
    function = "print_script" if script else "run_" + path.replace(" ", "_")
    return path, len(options), function, row_in_c(
        block, options, group=quote(group), path=quote(path), summary=quote(summary),
        script=script, run=function,
        **{flag: "true" for flag in flags if flag in FLAGS},
        opens=next(("OPENS_" + flag.upper() for flag in flags if flag in OPENS), None))


def script_of(block):
    for item in block.all("script"):
        path = os.path.join(os.path.dirname(item.place), item.text())
        if not os.path.exists(path):
            raise Fault(item, "there is no file '%s'" % item.text())
        with open(path, encoding="utf-8") as file:
            return quote(file.read())
    return None


def topic_in_c(block):
    intro = [text for item in block.all("details") for text in item.paragraphs]
    rows = ["{ %s, %s }" % tuple(map(quote, item.halves())) for item in block.all("term")]
    return fields(title=quote(block.text()), intro=quote(" ".join(intro)) if intro else None,
                  rows=array("struct term", rows, "{ NULL, NULL }"))


def hints_in_c(block):
    for item in block.all("hint"):
        heads, text = item.halves()
        for path in heads.split(", "):
            yield "{ %s, %s }" % (quote(path), quote(text))


# ---- All of it ----------------------------------------------------------------------------------

class Table:
    """The blocks of all files as rows of C."""

    def __init__(self, blocks):
        programs = [block for block in blocks if block.word == "program"]
        if len(programs) != 1:
            raise SystemExit("commands.py: there must be one 'program', not %d" % len(programs))
        options, taken = options_in_c(programs[0], set())
        self.global_count, self.option_count = len(options), 0
        self.program = row_in_c(programs[0], options, summary=quote(programs[0].text()))
        self.hints = list(hints_in_c(programs[0]))
        self.topics = [topic_in_c(block) for block in blocks if block.word == "topic"]
        self.commands, self.paths, self.functions, group = [], set(), set(), None
        for block in blocks:
            if block.word == "group":
                group = block.text()
            elif block.word == "command":
                self.add_command(block, group, taken)

    def add_command(self, block, group, taken):
        path, option_count, function, row = command_in_c(block, group, taken)
        for name, item in [(path, block)] + [(a.text(), a) for a in block.all("alias")]:
            if name in self.paths:
                raise Fault(item, "a second command '%s'" % name)
            self.paths.add(name)
        self.option_count = max(self.option_count, option_count)
        self.functions.add(function)
        self.commands.append(row)

    def source(self):
        return "\n".join([
            '#include "cli/cli.h"', "",
            "const struct command program_row = %s;" % self.program,
            listing("struct command command_table", self.commands, "{ .path = NULL }"),
            listing("struct topic topics", self.topics, "{ .title = NULL }"),
            listing("struct term command_hints", self.hints, "{ NULL, NULL }"), ""])

    def header(self):
        words = max(len(path.split()) for path in self.paths)
        return "\n".join(
            ["#define OPTIONS_MAX %d" % self.option_count,
             "#define GLOBAL_OPTIONS_MAX %d" % self.global_count,
             "#define PATH_WORDS_MAX %d" % words, "struct cli;"] +
            ["enum hf_status %s(struct cli *cli);" % name for name in sorted(self.functions)] + [""])


def listing(head, rows, end):
    return "const %s[] = {\n%s%s\n};" % (head, "".join(row + ",\n" for row in rows), end)


def write_changed(path, text):
    """Writes the file only if its content changes: most of the program includes the header, and
    would be compiled again."""
    text = "/* Made by tools/commands.py; edit src/cli/commands instead. */\n" + text
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main(source, header, *paths):
    try:
        table = Table(read_blocks(paths))
    except Fault as fault:
        print("commands.py: %s" % fault, file=sys.stderr)
        return 1
    write_changed(source, table.source())
    write_changed(header, table.header())
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit("usage: commands.py TABLE.c TABLE.h FILE...")
    sys.exit(main(*sys.argv[1:]))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lint_test.py: a lint that cannot fail is worth nothing.

A small scratch tree that keeps every rule must pass; then each violation of the table below is
put into it alone, and exactly the rule it breaks must find it. Prints TAP.
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import lint  # noqa: E402

GOOD = {
    ".clang-format": "BasedOnStyle: LLVM\nIndentWidth: 4\nColumnLimit: 96\n"
                     "BreakBeforeBraces: Linux\n",
    "include/holdfast.h": "/* holdfast.h: public. */\n",
    "src/meson.build": "files('base/good.c', 'env/good.c', 'store/good.c', 'cli/good.c')\n",
    "src/base/good.h": "/* good.h: a header. */\n#include <stddef.h>\n",
    "src/base/good.c": '/* good.c: a source. */\n#include "base/good.h"\n',
    "src/env/good.c": '/* good.c: the world. */\n#include "base/good.h"\n#include <time.h>\n',
    "src/store/good.c": '/* good.c: a store; docs/design.md section 1. */\n'
                        '#include "base/good.h"\n#include <sqlite3.h>\n',
    "src/cli/good.c": "/* good.c: strcpy(), sleep(1) and goto in comments are no calls. */\n"
                      '#include "base/good.h"\n\n'
                      "const char *text(void);\n\n"
                      "const char *text(void)\n{\n"
                      "    return \"strcpy(a, b); /* \\\" sleep(1)\"; // rand()\n}\n",
    "sim/good.c": '/* good.c: simulated. */\n#include "base/good.h"\n',
    "tests/good_test.c": "/* good_test.c: a test. */\n#include <time.h>\n"
                         'const char *sentence = "a case "\n'
                         '                       "on two lines";\n',
    "tests/good_test.py": '@it(f"a case of {number}")\n',
    "src/base/rule.h": "/* rule.h: GOOD_RULE. */\n",
    "docs/promises.md": "`good_test: a case on two lines`, `good_test.py: a case of …`, `GOOD_RULE`\n",
    "docs/design.md": "# Design\n\n## 1. The one idea\n",
    "docs/formats.md": "## Frozen formats\n\n`holdfast.good/1`\n\n- not `holdfast.bad/1`\n\n## Objects\n",
    "docs/comparison.md": "| | locks |\n|---|---|\n| **Holdfast** | [yes](design.md) |\n| **other** | yes [[1]] |\n\n"
                          "## Sources\n\n1. Other: <https://other.invalid/>, read 2026-11-18\n\n"
                          "[1]: https://other.invalid/\n",
    "tools/setup.sh": "build='libc6-dev libjansson-dev'\n",
    "meson.build": "jansson = dependency('jansson')\n",
}

COMPARISON = GOOD["docs/comparison.md"]


def function(statement, head="void f(void)"):
    return "/* x.c: for the test. */\n%s;\n\n%s\n{\n    %s\n}\n" % (head, head, statement)


def include(name):
    return "/* x.c: for the test. */\n#include %s\n" % name


LONG_FUNCTION = function("\n    ".join("f();" for _ in range(70)))
LONG_FILE = "/* x.c: long. */\n" + "int f(void);\n" * 800
BACKWARDS = "/* x.c: loops. */\nvoid f(void);\n\nvoid f(void)\n{\nagain:\n    f();\n    goto again;\n}\n"

# What is written where, and the rule that must find it.
BAD = [
    ("src/strange/x.c", "/* x.c: nowhere. */\n", lint.check_layers_known),
    ("src/base/x.c", include('"env/env.h"'), lint.check_layering),
    ("src/base/x.c", include('"store/store.h"'), lint.check_layering),
    ("src/env/x.c", include('"store/store.h"'), lint.check_layering),
    ("src/lease/x.c", include('"env/env.h"'), lint.check_layering),
    ("src/store/x.c", include('"sim/world/world.h"'), lint.check_layering),
    ("src/merge/x.c", include('"store/store.h"'), lint.check_layering),
    ("src/sweep/x.c", include('"key/txn_inside.h"'), lint.check_inside),
    ("src/key/x.c", include('"lock/client_inside.h"'), lint.check_inside),
    ("src/lock/x.h", include('"lock/client_inside.h"'), lint.check_inside),
    ("src/lock/x.h", include('"client_inside.h"'), lint.check_inside),
    ("src/key/x.h", "/* x.h: a copy. */\nstruct hf_client {\n    int env;\n};\n", lint.check_inside),
    ("src/lock/client.h", "/* client.h: leaks. */\nstruct hf_client {\n    int env;\n};\n",
     lint.check_inside),
    ("src/cli/x.c", include('"store/store.h"'), lint.check_outside),
    ("src/cli/x.c", include('"base/layout.h"'), lint.check_outside),
    ("src/base/good.c", function("f();", "const char *text(void)"), lint.check_shared_names),
    ("src/base/good.c", function("if (!RULE(GOOD))\n        f();"), lint.check_rules),
    ("src/base/good.c", function("f(RULE(GOOD) ? 1 : 2);"), lint.check_rules),
    ("src/cli/good.c", '/* good.c: own words. */\nstatic const char *const words[][2] = {\n'
     '    { "nobody says", "so" },\n};\n', lint.check_own_words),
    ("bench/x.c", include('"lock/client.h"'), lint.check_outside),
    ("bench/x.c", include('"tests/x.h"'), lint.check_outside),
    ("examples/x.c", include('"base/good.h"'), lint.check_outside),
    ("include/holdfast.h", include("<stdlib.h>"), lint.check_public_header),
    ("src/base/x.c", include("<pthread.h>"), lint.check_system_headers),
    ("src/store/x.c", include("<time.h>"), lint.check_system_headers),
    ("src/store/x.c", include("<sys/random.h>"), lint.check_system_headers),
    ("src/cli/x.c", include("<sqlite3.h>"), lint.check_system_headers),
    ("src/lock/x.c", include("<curl/curl.h>"), lint.check_system_headers),
    ("src/base/x.c", include("<sys/socket.h>"), lint.check_system_headers),
    ("src/store/x.c", function("clock_gettime(0, 0);"), lint.check_banned_calls),
    ("src/store/x.c", function("time (0);"), lint.check_banned_calls),
    ("src/cli/x.c", function("sleep(1);"), lint.check_banned_calls),
    ("tests/x_test.c", function("usleep(1000);"), lint.check_banned_calls),
    ("src/store/x.c", function("getrandom(0, 0, 0);"), lint.check_banned_calls),
    ("src/base/x.c", function("rand();"), lint.check_banned_calls),
    ("src/store/x.c", function("pthread_create(0, 0, 0, 0);"), lint.check_banned_calls),
    ("src/store/x.c", function("thrd_yield();"), lint.check_banned_calls),
    ("src/store/x.c", function("env_real();"), lint.check_banned_calls),
    ("sim/x.c", function("env_real();"), lint.check_banned_calls),
    ("src/cli/x.c", function("strcpy(a, b);"), lint.check_banned_calls),
    ("src/cli/x.c", function("sprintf(a, b);"), lint.check_banned_calls),
    ("tests/x_test.c", function("strcat(a, b);"), lint.check_banned_calls),
    ("src/cli/x.c", function("atoi(a);"), lint.check_banned_calls),
    ("src/base/x.c", function("strtok(a, b);"), lint.check_banned_calls),
    ("src/base/x.c", function("strtoul(a, 0, 10);"), lint.check_banned_calls),
    ("src/store/x.c", function("signal(2, 0);"), lint.check_banned_calls),
    ("src/store/x.c", function("sigaction(2, 0, 0);"), lint.check_banned_calls),
    ("src/store/x.c", function("exit(1);"), lint.check_banned_calls),
    ("src/store/x.c", function("abort();"), lint.check_banned_calls),
    ("src/store/x.c", function("fprintf(stderr, a);"), lint.check_banned_calls),
    ("src/base/x.c", function("longjmp(a, 1);"), lint.check_banned_calls),
    ("src/doc/x.c", function("open(a, 0);"), lint.check_banned_calls),
    ("src/env/x.c", function("rename(a, b);"), lint.check_banned_calls),
    ("src/base/x.c", function("fsync(1);"), lint.check_banned_calls),
    ("src/store/x.c", function("fork();"), lint.check_banned_calls),
    ("src/cli/x.c", function("socket(1, 2, 3);"), lint.check_banned_calls),
    ("src/base/x.c", function("if (a > rand())\n        f();"), lint.check_banned_calls),
    ("src/base/x.c", "/* x.c: state. */\nstatic _Thread_local int last;\n",
     lint.check_banned_words),
    ("src/store/x.c", "/* x.c: state. */\nstatic __thread int last;\n", lint.check_banned_words),
    ("src/base/x.c", BACKWARDS, lint.check_goto),
    ("src/base/x.c", LONG_FILE, lint.check_file_length),
    ("src/base/x.c", LONG_FUNCTION, lint.check_function_length),
    ("src/base/x.c", "/* x.c: wide. */\n/* %s */\n" % ("x" * 100), lint.check_columns),
    ("docs/x.md", "white space \n", lint.check_whitespace),
    ("docs/x.md", "no newline", lint.check_whitespace),
    ("src/base/x.c", "/* x.c: odd. */\nint  x;\n", lint.check_format),
    ("src/base/x.c", "/* x.c: state. */\nint x;\n", lint.check_license),
    ("tools/x.sh", "#!/bin/sh\n", lint.check_license),
    ("src/base/x.c", "int x;\n", lint.check_first_comment),
    ("src/base/x.h", "int x;\n", lint.check_first_comment),
    ("src/base/x.c", "/* x.c: forgotten. */\n", lint.check_compiled),
    ("docs/x.md", "see ../" + "shared/x\n", lint.check_paths),
    ("tools/x.sh", "cd /" + "work/main\n", lint.check_paths),
    ("README.md", "in /home" + "/me/x\n", lint.check_paths),
    ("src/base/x.h", "/* x.h: see docs/design.md section 99. */\n", lint.check_citations),
    ("src/base/x.h", "/* x.h: see docs/design.md\n * section 99. */\n", lint.check_citations),
    ("docs/promises.md", "`good_test: a case`\n", lint.check_promises),
    ("docs/promises.md", "`no_test: a case on two lines`\n", lint.check_promises),
    ("docs/promises.md", "`good_test.py: a case of 3`\n", lint.check_promises),
    ("docs/promises.md", "`BAD_RULE`\n", lint.check_promises),
    ("src/base/x.h", '/* x.h: a format. */\n#define X_FORMAT "holdfast.bad/1"\n', lint.check_formats),
    ("docs/comparison.md", COMPARISON.replace("yes [[1]]", "[[1]] | yes"), lint.check_comparison),
    ("docs/comparison.md", COMPARISON.replace("[yes](design.md)", "yes"), lint.check_comparison),
    ("docs/comparison.md", COMPARISON.replace(", read 2026-11-18", ""), lint.check_comparison),
    ("docs/comparison.md", COMPARISON.replace("yes [[1]]", "yes [[2]]"), lint.check_comparison),
    ("docs/comparison.md", COMPARISON.replace("[1]: https://other", "[1]: https://another"), lint.check_comparison),
    ("meson.build", "x = dependency('sqlite3')\n", lint.check_packages),
    ("meson.build", "x = dependency('nobody-knows')\n", lint.check_packages),
]

# A scratch file that breaks one rule may break these as well: it is in nobody's meson.build, and
# it is not always pretty.
BESIDES = {lint.check_compiled, lint.check_format}


def licensed(path, text):
    if path.endswith((".c", ".h")):
        return "/* %s */\n%s" % (lint.LICENSE, text)
    return "# %s\n%s" % (lint.LICENSE, text) if path.endswith((".py", ".sh", ".build")) else text


def write(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def finds(root):
    """The rules that find something, with what they find."""
    tree = lint.Tree(root)
    found = {}
    for _, rule in lint.RULES:
        try:
            violations = list(rule(tree))
        except lint.Skip:
            continue
        if violations:
            found[rule] = violations
    return found


class Cases:
    def __init__(self):
        self.number = 0
        self.failed = 0

    def add(self, good, sentence, details=()):
        self.number += 1
        self.failed += not good
        print("%s %d - %s" % ("ok" if good else "not ok", self.number, sentence))
        for detail in details if not good else ():
            print("# %s" % detail)


def check_good_tree(cases):
    with tempfile.TemporaryDirectory(prefix="holdfast-lint-") as root:
        write(root, {name: licensed(name, good) for name, good in GOOD.items()})
        found = finds(root)
        cases.add(not found, "a tree that keeps the rules passes", sum(found.values(), []))


def check_bad_trees(cases):
    for path, text, rule in BAD:
        with tempfile.TemporaryDirectory(prefix="holdfast-lint-") as root:
            write(root, {name: licensed(name, good) for name, good in GOOD.items()})
            write(root, {path: text if rule == lint.check_license else licensed(path, text)})
            found = finds(root)
            others = set(found) - {rule} - BESIDES
            first = text.strip().split("\n")[-1 if "{" not in text else -2].strip()[:40]
            shown = "%s in %s is found" % (first.replace("#", "").strip(), path)
            cases.add(rule in found and not others, shown,
                      ["found: %s" % sorted(one.__name__ for one in found)])


def check_every_rule_is_broken(cases):
    broken = {rule for _, _, rule in BAD} | {lint.check_exports, lint.check_kit_names}
    missing = [sentence for sentence, rule in lint.RULES if rule not in broken]
    cases.add(not missing, "every rule of the lint is broken once here", missing)


def check_exports(cases):
    header = "HF_API int hf_a(int x);\nHF_API const char *hf_b(void);\n"
    good = "0000 A HOLDFAST_0\n0001 T hf_a@@HOLDFAST_0\n0002 T hf_b@@HOLDFAST_0\n"
    cases.add(not list(lint.judge_exports(header, good)),
              "a library that exports its header passes")
    cases.add(len(list(lint.judge_exports(header, good + "0003 T buffer_append\n"))) == 1,
              "an exported symbol that is not public is found")
    cases.add(len(list(lint.judge_exports(header, good + "0003 T hf_c\n"))) == 1,
              "an exported call that no header declares is found")
    cases.add(len(list(lint.judge_exports(header, "0001 T hf_a\n"))) == 1,
              "a public function that is not exported is found")


def check_kit_names(cases):
    cases.add(not list(lint.judge_kit_names({"lock_held"}, {"fdatasync"})),
              "a test kit with names of its own passes")
    cases.add(len(list(lint.judge_kit_names({"lock_held", "fdatasync"}, {"fdatasync"}))) == 1,
              "a test kit that replaces a function of a library is found")


def main():
    os.environ.pop("HOLDFAST_BUILD", None)  # the scratch trees have no build
    cases = Cases()
    check_good_tree(cases)
    check_bad_trees(cases)
    check_every_rule_is_broken(cases)
    check_exports(cases)
    check_kit_names(cases)
    print("1..%d" % cases.number)
    return 1 if cases.failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bundle.py: writes the table of functions that a program contains instead of loading them.

    bundle.py OUTPUT.c FILE.c...

Each FILE names a library and the functions that it calls (src/file/library.h). Functions in REPLACED
are those of tools/bundle/roots.c.
"""

import re
import sys

REPLACED = {"curl_easy_init": "init_with_roots", "curl_easy_reset": "reset_with_roots"}


def read(path):
    """The name of the library, and its functions."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    symbols = re.search(r"symbols\[\] = \{(.*?)\};", text, re.S)
    library = re.search(r'struct library library = \{\s*"([^"]+)"', text)
    if not symbols or not library:
        raise SystemExit(f"bundle.py: {path} names no library")
    return library[1], re.findall(r'"(\w+)"', symbols[1])


def main(output, *paths):
    rows, names = [], []
    for path in paths:
        library, symbols = read(path)
        for symbol in symbols:
            name = REPLACED.get(symbol, symbol)
            names.append(name)
            rows.append(f'    {{ "{library}", "{symbol}", {name} }},\n')
    with open(output, "w", encoding="utf-8") as file:
        file.write("/* Made by tools/bundle.py. */\n#include <stddef.h>\n"
                   + "".join(f"extern void {name}(void);\n" for name in names)
                   + "struct bundled_function { const char *file, *symbol; void (*function)(void); };\n"
                   + "const struct bundled_function bundled_functions[] = {\n" + "".join(rows)
                   + "    { NULL, NULL, NULL },\n};\n")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit("usage: bundle.py OUTPUT.c FILE.c...")
    main(*sys.argv[1:])

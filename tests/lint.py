#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lint.py: the rules of this tree that a program can check, one TAP line for each.

    lint.py [ROOT]

The tables on top are the rules; what follows reads the C just well enough to apply them. A new
folder, header or call is added to a table here, on purpose. tests/lint_test.py breaks every rule
once in a scratch tree and sees it found.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys

# ---- The rules, as tables ---------------------------------------------------------------------

# docs/design.md section 2: what a folder of src/ may include, besides itself and whatever those
# may include.
MAY_USE = {
    "base": [],
    "env": ["base"],
    "file": ["env"],
    "store": ["file"],
    "doc": ["store"],
    "lease": ["base"],
    "lock": ["doc", "lease"],
    "elect": ["doc", "lease"],
    "key": ["lock"],
    "merge": ["file"],
    "parquet": ["merge"],
    "compact": ["lock", "elect", "merge"],
    "index": ["lock", "merge"],
    "scrub": ["key", "compact", "index"],
    "sweep": ["scrub"],
    "client": ["key"],
    "api": ["sweep", "client"],
    "serve": ["api"],
    "top": ["api"],
    "cli": ["serve"],  # and of those only what OUTSIDE says
    "sim": ["serve"],
}

# Layers of the library, which returns instead of printing, exiting or catching signals.
PROGRAM_LAYERS = {"cli", "parquet", "sim", "top"}

# Test code: free of layers, and allowed to read clocks or start processes. Only a benchmark,
# which proves nothing, or an example, which stands for work, may also sleep.
TEST_FOLDERS = {"tests", "fuzz", "bench", "examples"}

# What stands outside of the library includes public headers, its own, and of the layers only those named
# here: the common code of library and programs. The linker holds the program and the benchmarks to it too
# (outside_lib in src/meson.build).
COMMON = {"base", "env", "file"}
OUTSIDE = {"src/cli/": COMMON, "src/serve/": COMMON, "src/top/": COMMON, "bench/": COMMON, "examples/": set()}

# Headers of src/base that know of stores, leases or documents: for the library, tests and the simulator.
LIBRARY_ONLY = {"base/" + name + ".h" for name in "evidence layout options rule stamp url".split()}

# Structures that a folder keeps to itself, and where they are defined: others call its functions.
OPAQUE = {"hf_client": "src/lock/client_inside.h"}

# System headers that any layer may include, and those that belong to some.
PLAIN_HEADERS = set("""assert ctype errno inttypes limits stdalign stdarg stdatomic stdbool stddef
    stdint stdio stdlib string sys/queue""".split())
FILE_HEADERS = """dirent fcntl ftw sys/file sys/inotify sys/ioctl sys/mman sys/param sys/stat
    sys/statfs sys/statvfs sys/syscall sys/types sys/uio sys/vfs sys/xattr unistd linux/fs
    linux/magic linux/openat2""".split()
# Of a program that starts others and looks after them.
PROCESS_HEADERS = """poll sched signal sys/eventfd sys/pidfd sys/prctl sys/signalfd sys/socket
    sys/timerfd sys/wait""".split()
NETWORK_HEADERS = "arpa/inet netdb netinet/in netinet/tcp poll sys/socket sys/un".split()
HEADERS = {
    "base": ["arm_neon", "asm/hwcap", "cpuid", "sys/auxv", "xxhash"],
    "env": ["fcntl", "pthread", "sys/mman", "sys/random", "time", "unistd"],
    "file": FILE_HEADERS,
    "store": FILE_HEADERS + NETWORK_HEADERS + [
        "curl/curl", "expat", "libgen", "openssl/crypto", "openssl/evp",
        "openssl/hmac", "sqlite3", "strings"],
    "merge": FILE_HEADERS + PROCESS_HEADERS + ["arm_neon", "emmintrin", "sys/resource", "zlib", "zstd", "zstd_errors"],
    "parquet": FILE_HEADERS + ["sys/resource"],
    "api": ["unistd"],
    "compact": FILE_HEADERS,
    "scrub": ["unistd"],
    "serve": NETWORK_HEADERS + ["malloc", "openssl/err", "openssl/ssl", "sys/resource", "sys/stat",
                                "sys/timerfd", "sys/types", "unistd", "uv"],
    "index": FILE_HEADERS + ["poll"],
    "top": ["curses", "getopt", "locale", "signal", "unistd"],
    "cli": FILE_HEADERS + PROCESS_HEADERS + ["fnmatch", "getopt", "jansson", "malloc", "pwd", "strings", "termios"],
    "sim": FILE_HEADERS + ["dlfcn", "getopt", "setjmp", "signal", "ucontext",
                           "sanitizer/asan_interface", "sanitizer/common_interface_defs",
                           "sanitizer/tsan_interface"],
}

# Calls and where they may stand.
BANNED = [
    # (why, names or prefixes ending in *, layers that may, test folders may)
    ("reads a clock; use env_now or env_wall",
     "clock_gettime gettimeofday time clock timespec_get localtime localtime_r gmtime gmtime_r "
     "mktime timegm", {"env"}, True),
    ("sleeps; use env_sleep or env_cond_wait_until",
     "sleep usleep nanosleep clock_nanosleep", {"env", "bench", "examples"}, False),
    ("draws randomness; use env_random",
     "rand srand rand_r random srandom random_r drand48 lrand48 getrandom getentropy "
     "arc4random arc4random_buf arc4random_uniform RAND_bytes RAND_priv_bytes sqlite3_randomness",
     {"env"}, False),
    ("is a thread or a lock of its own; use env_task_start, env_mutex, env_cond",
     "pthread_* thrd_* mtx_* cnd_* sem_init sem_wait sem_post", {"env"}, True),
    ("goes around the seam; take the env that was handed down",
     "env_real", {"env", "cli", "top"}, True),
    ("has no bound or no way to report an error",
     "strcpy strcat sprintf vsprintf gets strncpy strncat stpcpy atoi atol atoll atof strtok "
     "strtok_r alloca tmpnam mktemp asctime ctime", set(), False),
    ("takes less strict text than base/parse.h",
     "strtol strtoul strtoll strtoull strtod strtof strtold sscanf fscanf scanf", set(), True),
    ("shares its answer between threads; use strerror_r",
     "strerror", {"cli", "sim"}, True),
    ("changes what the caller's program does with signals",
     "signal sigaction sigprocmask sigaltstack", {"cli", "sim", "top"}, True),
    ("jumps between functions", "setjmp longjmp _setjmp _longjmp sigsetjmp siglongjmp",
     {"sim"}, True),
    ("ends or speaks for the program; return a status",
     "exit _exit _Exit quick_exit atexit abort printf vprintf fprintf vfprintf dprintf puts "
     "fputs putchar putc fputc perror syslog err errx warn warnx",
     PROGRAM_LAYERS, True),
    ("touches files; only stores and the program do",
     "open open64 openat creat fopen fdopen freopen unlink unlinkat rename renameat renameat2 "
     "link linkat symlink symlinkat remove mkdir mkdirat rmdir truncate ftruncate fsync "
     "fdatasync syncfs sync opendir fdopendir mkstemp mkostemp mkdtemp",
     {"file", "store", "cli", "sim", "merge", "parquet", "compact", "index"}, True),
    ("starts a process", "fork vfork system popen posix_spawn posix_spawnp execv execve execvp "
     "execvpe execl execlp execle", {"cli", "merge", "sim"}, True),
    ("opens a socket", "socket connect bind listen accept accept4 getaddrinfo",
     {"store", "serve"}, True),
]
BANNED_WORDS = [
    ("is thread-local state, which two fibers of one thread would share",
     ["_Thread_local", "thread_local", "__thread"]),
]

# A file that is the one place for something.
EXCEPTIONS = {
    "src/base/check.c": {"fprintf", "abort"},
    "src/env/real.c": {"open"},
    "tools/bundle/old_libc.c": {"arc4random_buf", "getrandom"},  # what expat calls
    "src/serve/http/listener.c": {"unlink"},  # the file of a Unix socket
    "src/serve/guard/guard.c": {"open", "fcntl.h", "strings.h"},  # the token file
    "src/serve/log/audit.c": {"open", "fcntl.h", "fdatasync"},  # the audit log
    # the program itself
    "src/serve/main.c": {"signal", "signal.h", "_exit", "fputs", "fprintf", "vfprintf", "fputc",
                         "env_real", "getopt.h"},
    "src/file/library.c": {"dlfcn.h"},
    "src/store/sqlite/queue.c": {"linux/futex.h"},  # processes, not tasks, wait for each other there
    "src/parquet/duckdb.c": {"dlfcn.h"},
    # credential_process of a profile
    "src/store/s3/process.c": {"posix_spawn", "spawn.h", "signal.h", "sys/pidfd.h", "sys/wait.h"},
    "src/api/merge.c": {"env_real"},  # a merge has no client, whose world it could take
    "src/api/open.c": {"env_real", "unistd.h"},  # the library's door to the real world
    # what a forked child does before it is another program
    "src/merge/command.c": {"_exit", "signal", "sigprocmask"},
    # how fast it was, told at the end; and a first seed that nobody has run yet
    "sim/main.c": {"clock_gettime", "time.h", "getrandom", "sys/random.h"},
}

LINES_OF_FILE_MAX = 800  # without the license
LICENSE = "SPDX-License-Identifier: Apache-2.0"
CODE_ENDINGS = (".c", ".h", ".cc", ".py", ".sh", ".mjs", ".bash", ".fish", ".zsh", ".pml", ".yml")
LINES_OF_FUNCTION_MAX = 70
COLUMNS_MAX = 100  # clang-format keeps to 96 where it can

CLANG_FORMAT_MAJOR = "14"

# Packages of tools/setup.sh that bring a dependency of meson.build.
PACKAGE_OF = {
    "threads": "libc6-dev", "jansson": "libjansson-dev", "libxxhash": "libxxhash-dev",
    "libcrypto": "libssl-dev", "openssl": "libssl-dev", "sqlite3": "libsqlite3-dev",
    "libcurl": "libcurl4-openssl-dev", "expat": "libexpat1-dev", "cmocka": "libcmocka-dev",
    "zlib": "zlib1g-dev", "libzstd": "libzstd-dev", "libuv": "libuv1-dev", "ncursesw": "libncurses-dev", "dl": "libc6-dev", "rt": "libc6-dev",
}

# ---- Reading the tree ---------------------------------------------------------------------------

SKIPPED_FOLDERS = {"node_modules", "__pycache__", "corpus", ".git", "seeds", "evidence"}
TEXT_FOLDERS = ["include", "src", "sim", "tests", "fuzz", "bench", "bindings", "examples", "tools", "docs", ".ci",
                "packaging", "man"]
TEXT_ENDINGS = (".c", ".h", ".py", ".sh", ".md", ".build", ".txt", ".yml", ".json", ".in", ".pml", ".js", ".mjs", ".css",
                ".html")


# A comment, a string or a character constant. One that does not end ends with its line.
COMMENT_OR_TEXT = re.compile(
    r"""/\*.*?(?:\*/|\Z)|//(?:\\\n|[^\n])*|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?""", re.S)


def blanks(text):
    return "\n".join(" " * len(line) for line in text.split("\n"))


def strip_c(text):
    """The text with comments, strings and character constants blanked, positions kept."""

    def blank(match):
        found = match.group()
        if found[0] == "/":
            return blanks(found)
        closed = len(found) > 1 and found[-1] == found[0]
        return found[0] + blanks(found[1:-1] if closed else found[1:]) + (found[0] if closed else "")

    return COMMENT_OR_TEXT.sub(blank, text)


def blank_directives(code):
    """Stripped code without preprocessor lines: their braces need not match."""
    lines, inside = [], False
    for line in code.split("\n"):
        directive = inside or line.lstrip().startswith("#")
        inside = directive and line.endswith("\\")
        lines.append(" " * len(line) if directive else line)
    return "\n".join(lines)


class CFile:
    def __init__(self, root, path):
        self.path = path
        with open(os.path.join(root, path), encoding="utf-8") as file:
            self.text = file.read()
        self.code = strip_c(self.text)
        self.statements = blank_directives(self.code)
        parts = path.split("/")
        self.top = parts[0]
        self.layer = parts[1] if parts[0] == "src" and len(parts) > 2 else parts[0]

    def line_of(self, position):
        return self.text.count("\n", 0, position) + 1

    def at(self, position, message):
        return "%s:%d: %s" % (self.path, self.line_of(position), message)

    def includes(self):
        for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', self.text,
                                 re.M):
            if self.code[match.start():match.end()].lstrip().startswith("#"):
                yield match.start(), match.group(1) == "<", match.group(2)

    def functions(self):
        """(name, start, end) of each function body with its head, by matching braces."""
        code = self.statements
        depth, head, body = 0, 0, None
        for match in re.finditer(r"[{};]", code):
            mark, position = match.group(), match.start()
            if mark == "{":
                if depth == 0 and code[head:position].rstrip().endswith(")"):
                    body = head
                depth += 1
            elif mark == "}":
                depth -= 1
                if depth == 0 and body is not None:
                    text = code[body:position]
                    start = body + len(text) - len(text.lstrip())
                    name = re.search(r"(\w+)\s*\(", code[start:position])
                    yield name.group(1), start, position + 1
                    body = None
            if depth == 0:
                head = position + 1


class Tree:
    def __init__(self, root):
        self.root = root
        self.texts = {}
        self.paths = sorted(self.walk())
        self.c_files = [CFile(root, path) for path in self.paths
                        if path.endswith((".c", ".h")) and not path.startswith("docs/")]

    def walk(self):
        for name in os.listdir(self.root):
            if os.path.isfile(os.path.join(self.root, name)) and name != ".git":  # of a worktree
                yield name
        for top in TEXT_FOLDERS:
            for folder, folders, names in os.walk(os.path.join(self.root, top)):
                folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
                for name in names:
                    yield os.path.relpath(os.path.join(folder, name), self.root)

    def layers(self):
        return [file for file in self.c_files if file.top in ("src", "sim")]

    def text_files(self):
        for path in self.paths:
            name = os.path.basename(path)
            if name.endswith(TEXT_ENDINGS) or "." not in name.lstrip("."):
                try:
                    yield path, self.read(path)
                except UnicodeDecodeError:
                    pass

    def read(self, path):
        if path not in self.texts:
            with open(os.path.join(self.root, path), encoding="utf-8") as file:
                self.texts[path] = file.read()
        return self.texts[path]

    def has(self, path):
        return os.path.exists(os.path.join(self.root, path))


class Skip(Exception):
    pass


# ---- The checks: each yields one line for each violation ----------------------------------------

def reachable(layer):
    seen, todo = set(), [layer]
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo += MAY_USE[one]
    return seen


def check_layers_known(tree):
    for file in tree.layers():
        if file.layer not in MAY_USE:
            yield "%s: '%s' is not in the table of layers" % (file.path, file.layer)


def check_layering(tree):
    for file in tree.layers():
        if file.layer not in MAY_USE:
            continue
        allowed = reachable(file.layer)
        for position, is_system, name in file.includes():
            if is_system or name == "holdfast.h" or name.startswith("holdfast/"):
                continue
            folder = name.split("/")[0] if "/" in name else file.layer
            if file.path == "src/base/mutant.h":  # of a simulator with mutants only
                continue
            if folder not in allowed or (folder == "sim" and file.layer != "sim"):
                yield file.at(position, 'src/%s may not use "%s"' % (file.layer, name))


def check_inside(tree):
    """What is in an _inside.h is its folder's alone: no other folder of src includes it, and no header
    that others include hands it on; nor is an opaque structure defined where others see it."""
    for file in tree.c_files:
        if file.top != "src":
            continue
        for position, _, name in file.includes():
            if name.endswith("_inside.h") and (
                    os.path.dirname(name) not in ("", os.path.dirname(file.path)[len("src/"):]) or
                    (file.path.endswith(".h") and not file.path.endswith("_inside.h"))):
                yield file.at(position, '"%s" is for the files of its folder' % name)
        for match in re.finditer(r"\bstruct\s+(\w+)\s*\{", file.code):
            if OPAQUE.get(match.group(1), file.path) != file.path:
                yield file.at(match.start(), "struct %s is defined in %s" %
                              (match.group(1), OPAQUE[match.group(1)]))


def check_outside(tree):
    for file in tree.c_files:
        common = [layers for path, layers in OUTSIDE.items() if file.path.startswith(path)]
        for position, is_system, name in file.includes() if common else []:
            folder = name.split("/")[0] if "/" in name else file.layer
            if is_system or name == "holdfast.h" or folder in ("holdfast", file.layer):
                continue
            # The simulator breaks the rules of the server too.
            is_rule = name == "base/rule.h" and file.layer == "serve"
            if folder not in common[0] or (name in LIBRARY_ONLY and not is_rule):
                yield file.at(position, 'stands outside: "%s" is not a public header' % name)


def check_public_header(tree):
    for file in tree.c_files:
        if file.top == "include":
            for position, _, name in file.includes():
                if name not in ("stdbool.h", "stddef.h", "stdint.h") and not name.startswith("holdfast/"):
                    yield file.at(position, "public headers stand alone, without <%s>" % name)


def check_system_headers(tree):
    for file in tree.layers():
        allowed = PLAIN_HEADERS | set(HEADERS.get(file.layer, []))
        excepted = EXCEPTIONS.get(file.path, set())
        for position, is_system, name in file.includes():
            if is_system and name[:-2] not in allowed and name not in excepted:
                yield file.at(position, "src/%s may not include <%s>" % (file.layer, name))


CALL = re.compile(r"\b(\w+)\b(?=\s*\()")


def is_member(code, position):
    """Whether what is called there is a member of a structure."""
    return code[position - 1:position] == "." or code[position - 2:position] == "->"


def banned_calls():
    """The rules by name of a call; and (prefix, rule) of those that are given by a prefix."""
    names, prefixes = {}, []
    for why, words, layers, tests_may in BANNED:
        for word in words.split():
            if word.endswith("*"):
                prefixes.append((word[:-1], (why, layers, tests_may)))
            else:
                names.setdefault(word, []).append((why, layers, tests_may))
    return names, prefixes


def check_banned_calls(tree):
    names, prefixes = banned_calls()
    rules_of = {}
    for file in tree.c_files:
        excepted = EXCEPTIONS.get(file.path, set())
        for match in CALL.finditer(file.statements):
            name = match.group(1)
            if name not in rules_of:
                rules_of[name] = names.get(name, []) + [rule for prefix, rule in prefixes
                                                        if name.startswith(prefix) and name != prefix]
            if rules_of[name] and is_member(file.statements, match.start()):
                continue
            for why, layers, tests_may in rules_of[name]:
                may = file.layer in layers or (file.top in TEST_FOLDERS and tests_may)
                if not may and name not in excepted:
                    yield file.at(match.start(), "%s() %s" % (name, why))


def check_banned_words(tree):
    for file in tree.c_files:
        for why, words in BANNED_WORDS:
            for match in re.finditer(r"\b(?:%s)\b" % "|".join(words), file.code):
                yield file.at(match.start(), "%s %s" % (match.group(), why))


def check_goto(tree):
    for file in tree.c_files:
        if "goto" not in file.code:
            continue
        for _, start, end in file.functions():
            body = file.code[start:end]
            labels = {match.group(1): match.start()
                      for match in re.finditer(r"(?:^|[;{}])\s*(\w+)\s*:(?!:)", body, re.M)}
            for match in re.finditer(r"\bgoto\s+(\w+)", body):
                if labels.get(match.group(1), len(body)) < match.start():
                    yield file.at(start + match.start(), "goto %s goes back" % match.group(1))


def check_file_length(tree):
    for file in tree.c_files:
        lines = file.text.count("\n") - file.text.count(LICENSE)
        if lines > LINES_OF_FILE_MAX:
            yield "%s: %d lines" % (file.path, lines)


def check_function_length(tree):
    for file in tree.c_files:
        for name, start, end in file.functions():
            lines = file.text.count("\n", start, end) + 1
            is_table = name == "main" and file.top in TEST_FOLDERS
            if lines > LINES_OF_FUNCTION_MAX and not is_table:
                yield file.at(start, "%s has %d lines" % (name, lines))


def check_columns(tree):
    for file in tree.c_files:
        for number, line in enumerate(file.text.split("\n"), 1):
            if len(line) > COLUMNS_MAX:
                yield "%s:%d: %d columns" % (file.path, number, len(line))


def check_whitespace(tree):
    for path, text in tree.text_files():
        if text and not text.endswith("\n"):
            yield "%s: no newline at the end" % path
        for number, line in enumerate(text.split("\n"), 1):
            if line != line.rstrip():
                yield "%s:%d: white space at the end" % (path, number)


def check_format(tree):
    if not shutil.which("clang-format"):
        raise Skip("there is no clang-format")
    version = subprocess.run(["clang-format", "--version"], stdout=subprocess.PIPE, text=True)
    major = re.search(r"version (\d+)", version.stdout).group(1)
    if major != CLANG_FORMAT_MAJOR:
        raise Skip("clang-format %s formats otherwise than %s" % (major, CLANG_FORMAT_MAJOR))
    known = KnownFiles(os.path.join(tree.root, ".clang-format"), version.stdout)
    names = [file.path for file in tree.c_files if not known.has(file.text)]
    if not names:
        return
    run = subprocess.run(["clang-format", "--dry-run", "--style=file"] + names,
                         cwd=tree.root, stderr=subprocess.PIPE, text=True)
    seen = set()
    for line in run.stderr.splitlines():
        match = re.match(r"(\S+?):(\d+):\d+: (?:warning|error):", line)
        if match and match.group(1) not in seen:
            seen.add(match.group(1))
            yield "%s:%s: not as clang-format would have it" % match.groups()
    if run.returncode and not seen:
        yield "clang-format failed: %s" % run.stderr.strip()[:200]
    elif not seen:
        known.keep(file.text for file in tree.c_files)


class KnownFiles:
    """Texts that this clang-format, with these settings, has found well-formed before: it takes
    longer than all other rules together. Kept in the build folder, if there is one."""

    def __init__(self, settings, version):
        build = os.environ.get("HOLDFAST_BUILD")
        self.path = build and os.path.join(build, "well-formed.txt")
        self.salt = version
        if os.path.exists(settings):
            with open(settings, encoding="utf-8") as file:
                self.salt += file.read()
        self.known = set()
        if self.path and os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                self.known = set(file.read().split())

    def digest(self, text):
        return hashlib.sha256((self.salt + text).encode()).hexdigest()

    def has(self, text):
        return self.digest(text) in self.known

    def keep(self, texts):
        if not self.path:
            return
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write("".join(self.digest(text) + "\n" for text in texts))
        os.rename(self.path + ".new", self.path)


def check_license(tree):
    for path, text in tree.text_files():
        is_code = path.endswith(CODE_ENDINGS) or text.startswith("#!") or \
            os.path.basename(path) in ("Makefile", "meson.build", "meson_options.txt")
        if is_code and LICENSE not in "".join(text.splitlines(True)[:2]):
            yield "%s: one of its first two lines should be '%s'" % (path, LICENSE)


def check_first_comment(tree):
    for file in tree.c_files:
        if not file.text.removeprefix("/* %s */\n" % LICENSE).startswith("/*"):
            yield "%s: its first comment should say what it is for" % file.path


def check_compiled(tree):
    if not tree.has("src/meson.build"):
        return
    listed = tree.read("src/meson.build")
    for file in tree.c_files:
        if file.top == "src" and file.path.endswith(".c"):
            inside = file.path[len("src/"):]
            own = "src/%s/meson.build" % file.layer
            named = inside in listed or (tree.has(own) and
                                         os.path.basename(inside) in tree.read(own))
            if not named:
                yield "%s: compiled by nobody" % file.path


def check_paths(tree):
    places = ["/work/", "/home/", "/root/", "/Users/", "../" + "shared"]
    pattern = re.compile(r"(?<![\w.~}\"*-])/(?:work|home|root|Users)/|\.\./" + "shared")
    for path, text in tree.text_files():
        if os.path.basename(path) in ("lint.py", "lint_test.py") or not any(place in text for place in places):
            continue
        for match in pattern.finditer(text):
            yield "%s:%d: names a place of one machine: %s" % (path, text.count("\n", 0, match.start()) + 1,
                                                               match.group())


def check_citations(tree):
    design = tree.read("docs/design.md") if tree.has("docs/design.md") else ""
    sections = set(re.findall(r"^## (\d+)\.", design, re.M))
    for path, text in tree.text_files():
        if os.path.basename(path) in ("lint.py", "lint_test.py"):
            continue
        joined = re.sub(r"\n[ \t]*(?:\*|#|//)?[ \t]*", " ", text)
        for number in re.findall(r"design\.md,? section (\d+)", joined):
            if number not in sections:
                yield "%s: cites docs/design.md section %s, which is not there" % (path, number)


def sentences(text):
    """All string constants of a test, neighbours joined; what Python puts in shows as "…"."""
    one = r'f?"(?:[^"\\\n]|\\.)*"'
    for match in re.finditer(r"%s(?:\s*%s)*" % (one, one), text):
        joined = "".join(part[part.index('"') + 1:-1] for part in re.findall(one, match.group()))
        yield re.sub(r"\{[^{}]*\}", "…", joined)


def python_cases(tree):
    """The cases that tests/python_test.py tells, from the names of functions: "lock: a lock is held alone"."""
    for path in tree.paths:
        part = re.fullmatch(r"bindings/python/tests/test_(\w+)\.py", path)
        if part:
            for name in re.findall(r"^def test_(\w+)\(", tree.read(path), re.M):
                yield "%s: %s" % (part.group(1), name.replace("_", " "))


def check_promises(tree):
    """docs/promises.md cites tests as `program: case`, and rules of src/base/rule.h and the model by
    their names."""
    if not tree.has("docs/promises.md"):
        return
    promises = tree.read("docs/promises.md")
    known = {}
    for program, case in re.findall(r"`(\w+(?:\.py)?): ([^`\n]+)`", promises):
        path = "tests/" + (program if program.endswith(".py") else program + ".c")
        if path not in known:
            known[path] = set(sentences(tree.read(path))) if tree.has(path) else set()
            if program == "python_test.py":
                known[path] = set(python_cases(tree))
        if case not in known[path]:
            yield "docs/promises.md: there is no case '%s' in %s" % (case, path)
    rules = " ".join(tree.read(path) for path in ("src/base/rule.h", "model/takeover.pml")
                     if tree.has(path))
    for name in re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", promises):
        if not re.search(r"\b%s\b" % name, rules):
            yield "docs/promises.md: there is no rule %s" % name


FUNCTION = re.compile(r"^[a-z_][\w ]*[ *](\w+)\([^;{}]*\)\n\{", re.M)


def check_shared_names(tree):
    """A name that two files give to two functions sends a reader to the wrong one."""
    known = {}
    for file in tree.c_files:
        if file.top == "src" and file.path.endswith(".c"):
            for match in FUNCTION.finditer(file.code):
                first = known.setdefault(match[1], file.path)
                if first != file.path and match[1] != "main":
                    yield file.at(match.start(1), "%s is a function of %s too" % (match[1], first))


def check_rules(tree):
    """A rule is a guard whose removal is the mutant; what else a mutant does is in sim/mutants."""
    for file in tree.c_files:
        if file.top == "src" and "RULE(" in file.code:
            for match in re.finditer(r"!RULE\(|\bRULE\(\w+\)\s*\?|\bfor \([^;]*;[^;]*\bRULE\(", file.code):
                yield file.at(match.start(), "a rule may only be a guard: RULE(X) && condition")


def check_own_words(tree):
    """What the program rewrites in the library's sentences must be said there, as it is written."""
    said = "".join(re.sub(r'"\s+"', "", file.text) for file in tree.c_files
                   if file.top == "src" and file.layer != "cli")
    for file in tree.c_files:
        if "own words" in file.text.partition("*/\n/*")[2].partition("\n")[0]:
            for match in re.finditer(r'^ +\{ "([^"]+)", "', file.text, re.M):
                if match[1] not in said:
                    yield file.at(match.start(), "the library nowhere says '%s'" % match[1])


def check_packages(tree):
    if not tree.has("tools/setup.sh"):
        return
    setup = set(re.findall(r"[\w.+-]+", tree.read("tools/setup.sh")))
    for path in tree.paths:
        if os.path.basename(path) != "meson.build":
            continue
        for name in re.findall(r"\bdependency\('([^']+)'", tree.read(path)):
            package = PACKAGE_OF.get(name)
            if package is None:
                yield "%s: no package is known for dependency('%s')" % (path, name)
            elif package not in setup:
                yield "tools/setup.sh: %s is missing, for dependency('%s')" % (package, name)


def check_exports(tree):
    """Of the static library too: it is what the program is linked with."""
    build = os.environ.get("HOLDFAST_BUILD")
    if not build:
        raise Skip("run outside of a build")
    if not tree.has("src/meson.build") or "shared_library" not in tree.read("src/meson.build"):
        return
    headers = "\n".join(file.text for file in tree.c_files if file.top == "include")
    for library, kind in (("libholdfast.so", "-D"), ("libholdfast.a", "-g")):
        path = os.path.join(build, "src", library)
        if not os.path.exists(path):
            yield "%s was not built" % library
            continue
        nm = subprocess.run(["nm", kind, "--defined-only", path], stdout=subprocess.PIPE,
                            text=True, check=True)
        symbols = [line for line in nm.stdout.splitlines() if len(line.split()) == 3]
        yield from judge_exports(headers, "\n".join(symbols), library)


def judge_exports(header, listing, library="libholdfast.so"):
    exported = {line.split()[-1].split("@")[0] for line in listing.splitlines()
                if line.strip() and " A " not in line}  # A: the name of a version, not of anything
    declared = set(re.findall(r"\b(hf_\w+)\s*\(", " ".join(
        re.findall(r"HF_API[^;]*;", strip_c(header)))))
    for name in sorted(exported):
        if not name.startswith("hf_"):
            yield "%s exports %s" % (library, name)
    for name in sorted(exported - declared):
        if name.startswith("hf_"):
            yield "no public header declares %s" % name
    for name in sorted(declared - exported):
        yield "%s does not export %s" % (library, name)


def defined_names(*words):
    nm = subprocess.run(["nm", "--defined-only", *words], stdout=subprocess.PIPE, text=True,
                        check=True)
    return {line.split()[-1].split("@")[0] for line in nm.stdout.splitlines()
            if len(line.split()) == 3}


def check_kit_names(tree):
    """The linker takes a name from the library of test kits before it looks further, so a kit must not
    define what our library or the C library does: a test would run on the kit's function."""
    build = os.environ.get("HOLDFAST_BUILD", "")
    kits = os.path.join(build, "tests", "libtest-kits.a")
    core = os.path.join(build, "src", "libholdfast-core.a")
    if not build or not os.path.exists(kits) or not os.path.exists(core):
        return
    libc = subprocess.run(["cc", "-print-file-name=libc.so.6"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout.strip()
    yield from judge_kit_names(defined_names("-g", kits),
                               defined_names("-g", core) | defined_names("-D", libc))


def judge_kit_names(kits, libraries):
    for name in sorted(kits & libraries):
        yield "a test kit defines %s, which a library does too" % name


def check_comparison(tree):
    """Of other projects, every statement has a source that is listed with a date; of Holdfast, a link."""
    path = "docs/comparison.md"
    if not tree.has(path):
        return
    text, _, sources = tree.read(path).partition("## Sources\n")
    listed = dict(re.findall(r"^(\d+)\. .+: <([^>]+)>, read \d{4}-\d\d-\d\d$", sources, re.M))
    defined = dict(re.findall(r"^\[(\d+)\]: (\S+)$", sources, re.M))
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("| **"):
            continue
        for cell in cells[1:]:
            wanted = r"\]\([\w./#-]+\)" if cells[0] == "**Holdfast**" else r"\[\[\d+\]\]"
            if not re.search(wanted, cell):
                yield "%s: %s: no source for '%s'" % (path, cells[0], cell)
    cited = set(re.findall(r"\[\[(\d+)\]\]", text))
    for number in sorted(cited ^ set(listed), key=int):
        yield "%s: source %s is %s" % (path, number, "not listed with its date" if number in cited else "not cited")
    for number in sorted(set(listed) | set(defined), key=int):
        if listed.get(number) != defined.get(number):
            yield "%s: source %s has two addresses" % (path, number)


def check_formats(tree):
    if not tree.has("docs/formats.md"):
        return
    frozen = tree.read("docs/formats.md").partition("## Frozen formats")[2].partition("\n## ")[0]
    frozen = set(re.findall(r"`(holdfast\.[a-z]+/\d+)`", frozen.partition("\n- ")[0]))
    for file in tree.c_files:
        if file.top == "src":
            for match in re.finditer(r'"[^"\n]*(holdfast\.[a-z]+/\d+)', file.text):
                if match[1] not in frozen:
                    yield file.at(match.start(), "%s is not among the formats of docs/formats.md" % match[1])


RULES = [
    ("every folder of src is a layer of the table", check_layers_known),
    ("a layer includes only what lies below it", check_layering),
    ("what a folder keeps to itself is used by no other", check_inside),
    ("the program, benchmarks and examples include nothing of the library but its public headers", check_outside),
    ("public headers include nothing but each other", check_public_header),
    ("a layer includes only the system headers that are its business", check_system_headers),
    ("no layer calls what belongs to another, and nobody what is unsafe", check_banned_calls),
    ("there is no thread-local state", check_banned_words),
    ("goto only goes forward", check_goto),
    ("no file is longer than %d lines" % LINES_OF_FILE_MAX, check_file_length),
    ("no function is longer than %d lines" % LINES_OF_FUNCTION_MAX, check_function_length),
    ("no line is wider than %d columns" % COLUMNS_MAX, check_columns),
    ("no line ends in white space, every file ends in a newline", check_whitespace),
    ("all C is as clang-format would have it", check_format),
    ("every file of code names its license", check_license),
    ("every file begins by saying what it is for", check_first_comment),
    ("no test kit replaces a function of a library", check_kit_names),
    ("every C file of src is compiled", check_compiled),
    ("no file names a place of one machine", check_paths),
    ("every section that is cited exists", check_citations),
    ("every test and rule that docs/promises.md cites exists", check_promises),
    ("every statement of docs/comparison.md has a source, with a date", check_comparison),
    ("every format that is written is listed in docs/formats.md", check_formats),
    ("no two functions of src share a name", check_shared_names),
    ("a rule is a guard, and nothing is wrong on purpose", check_rules),
    ("the program rewrites only what the library says", check_own_words),
    ("setup installs the package of every dependency", check_packages),
    ("the libraries export the public headers and nothing else", check_exports),
]


def main(arguments):
    root = arguments[0] if arguments else os.path.join(os.path.dirname(__file__), "..")
    tree = Tree(os.path.abspath(root))
    if not tree.c_files:
        print("Bail out! there is no C file under %s" % root)
        return 1
    print("1..%d" % len(RULES))
    failed = False
    for number, (sentence, rule) in enumerate(RULES, 1):
        try:
            violations = list(rule(tree))
        except Skip as reason:
            print("ok %d - %s # SKIP %s" % (number, sentence, reason))
            continue
        failed = failed or bool(violations)
        print("%s %d - %s" % ("not ok" if violations else "ok", number, sentence))
        for violation in violations:
            print("# " + violation)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

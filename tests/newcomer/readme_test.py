#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""readme_test.py: README.md, docs/guide.md and the pages of docs/start typed into a terminal, from top to bottom, as they
stand.

Every shell block is read from the file and typed, line by line, into a bash in a tmux of a fixed size, in
a fresh home folder without credentials: one for README and the guide, and one for docs/start. What the
screen shows after each line must be what tests/newcomer/readme.screens keeps of it; --write keeps what it
shows now. On a page of docs/start, a block of C or Python is saved under the name in its first line, a
crontab is run as cron would do it, and each line of a block of text must have been on a screen of the
block before it. The lines that are not typed, or not as they stand, are in the tables below, each with
its reason; a line there that no page has any more is a failure too.

Prints TAP, a case a line.
"""

import concurrent.futures
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from tap_kit import end, tell

BUILD = os.environ["HOLDFAST_BUILD"]
SOURCE = os.path.dirname(os.path.abspath(os.environ["HOLDFAST_TESTS"]))
SCREENS = os.path.join(SOURCE, "tests", "newcomer", "readme.screens")
COLUMNS, ROWS = 100, 40
PATIENCE = 60  # seconds for a line

START = ["install", "cron", "c", "python", "compaction", "indexes"]  # the pages, in the order of the site

# What is not typed, by its first words, and why.
NOT_TYPED = {
    "apt-get install": "a test installs no packages on the machine that runs it",
    "make setup": "the same",
    "git clone": "the source tree is there",
    "make demo": "takes minutes and installs packages; tests/compact_chaos_test.py does the same",
    "struct hf_client": "C, all of the block: install_test.py and examples/ compile and run it",
    "import holdfast": "Python, all of the block: bindings/python/tests/test_docs.py runs it",
}
# What is typed instead.
INSTEAD = {
    # Of what is built already, within seconds, and not over the machine's own.
    "make install": f"DESTDIR=~ meson install -C {BUILD} --no-rebuild > install.log",
    # The terminal is not in the source tree.
    "export PYTHONPATH": f"export PYTHONPATH={SOURCE}/bindings/python PYTHONDONTWRITEBYTECODE=1",
}
# There is no bucket: two hosts with a real one are in two_hosts_test.py. All pages use one store, as a reader
# does who tries one after the other.
SUBSTITUTES = {"s3://bucket/prefix": "sqlite:~/jobs.db", "sqlite:/srv/jobs.db": "sqlite:~/jobs.db",
               "/usr/local/bin/holdfast": "~/usr/local/bin/holdfast"}
# What goes on until it is stopped: Ctrl-C is typed once the screen shows this, or a line of this command's.
UNTIL = {"guide: holdfast compact watch": "waiting until it exists",
         "guide: holdfast elect run": "scheduling",
         "compaction: holdfast compact watch": ("holdfast compact status", "1 present")}

# What a newcomer has before: README's own names.
FILES = {
    "deploy.sh": "#!/bin/sh\necho deployed with token $HOLDFAST_TOKEN\n",
    "backup": "#!/bin/sh\necho backed up\n",
    "scheduler": "#!/bin/sh\necho scheduling\nexec sleep 60\n",
    "january.csv": "id,name,updated\n1,ann,2026-01-01T00:00:00Z\n2,joe,2026-01-02T00:00:00Z\n",
    "february.csv": "id,name,updated\n1,anna,2026-02-01T00:00:00Z\n",
    **{f"new/{i:02}.usv": f"key-{i % 4}\x1fvalue {i}\x1f2026-02-06T10:00:{i:02}Z\x1e"
       for i in range(16)},
}


def blocks_of(text):
    """(language, lines) of each block: indented ones, without the indent, and fenced ones."""
    block, language = [], None
    for line in text.splitlines() + ["end"]:
        if language is not None and line != "```":
            block.append(line)
        elif line.startswith("```") and (block or language is None):
            if block:
                yield language or "sh", block
            block, language = [], line[3:] if language is None else None
        elif line.startswith("    "):
            block.append(line[4:])
        elif line or not block:
            if block:
                yield "sh", block
            block = []


class Page:
    """README, the guide, or a page of docs/start: what to do, step by step."""

    def __init__(self, name):
        self.name = name
        self.path = {"README": "README.md", "guide": "docs/guide.md"}.get(name, f"docs/start/{name}.md")
        self.steps = []  # ("type", key of the screen, line, text to stop at), ("save", file, text), ("expect", lines)
        self.used = set()  # of the tables
        with open(os.path.join(SOURCE, self.path), encoding="utf-8") as file:
            for language, block in blocks_of(file.read()):
                self.add(language, block)

    def add(self, language, block):
        first = next((name for name in ("struct hf_client", "import holdfast") if block[0].startswith(name)), None)
        if first:
            self.used.add(first)
        elif language == "sh":
            for line in block:
                self.add_line(line)
        elif language in ("c", "python"):
            name = re.match(r"(?:/\*|#) (\S+)", block[0])[1]
            self.steps.append(("save", name, "\n".join(block) + "\n"))
        elif language == "crontab":
            self.add_crontab(block)
        elif language == "text":
            self.steps.append(("expect", block))
        elif language != "ini":  # config_cli_test.py checks that one
            raise ValueError(f"{self.path}: what is a block of '{language}'?")

    def substitute(self, line):
        for word, instead in SUBSTITUTES.items():
            if word in line:
                self.used.add(word)
                line = line.replace(word, instead)
        return line

    def add_line(self, line):
        known = [name for name in (*NOT_TYPED, *INSTEAD) if line.startswith(name)]
        until = [name for name in UNTIL if f"{self.name}: {line}".startswith(name)]
        self.used.update(known, until)
        if any(name in NOT_TYPED for name in known):
            return
        typed = INSTEAD[known[0]] if known else self.substitute(line)
        key = line if self.name == "README" else f"{self.name}: {line}"
        keys = [step[1] for step in self.steps if step[0] == "type"]
        times = sum(other.partition(" (again")[0] == key for other in keys)
        self.steps.append(("type", key + (f" (again, {times})" if times else ""), typed, UNTIL[until[0]] if until else None))

    def add_crontab(self, block):
        """As cron does: with its own environment and sh, and the command after five fields."""
        settings = " ".join(self.substitute(line) for line in block if re.match(r"\w+=", line))
        for line in block:
            if not re.match(r"\w+=", line):
                self.steps.append(("save", "cron.sh", self.substitute(line.split(None, 5)[5]) + "\n"))
                self.steps.append(("type", f"{self.name}: {line}", f"env -i HOME=$HOME PATH=/usr/bin:/bin {settings} sh cron.sh",
                                   None))


def read_pages():
    """Complains of tables that name what no page has."""
    pages = [Page(name) for name in ("README", "guide", *START)]
    stale = {*NOT_TYPED, *INSTEAD, *UNTIL, *SUBSTITUTES}.difference(*(page.used for page in pages))
    tell(not stale, "the tables name only what the pages have", str(stale or ""))
    known = {name.removesuffix(".md") for name in os.listdir(os.path.join(SOURCE, "docs/start"))}
    tell(known == set(START), "every page of docs/start is typed", str(known ^ set(START) or ""))
    tell(all(any(step[0] == "type" for step in page.steps) for page in pages), "every page has shell blocks")
    return pages


class Terminal:
    """A bash in a tmux of its own."""

    def __init__(self, home):
        self.home = home
        self.socket = os.path.join(home, ".tmux")
        self.env = {"HOME": home, "TERM": "screen", "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8",
                    "TMPDIR": home, "SHELL": "/bin/bash"}
        with open(os.path.join(home, ".bashrc"), "w", encoding="utf-8") as rc:
            rc.write("PS1='$ '\nPROMPT_COMMAND='echo $? >> ~/.status'\nunset HISTFILE\n"
                     "PATH=~/usr/local/bin:$PATH\nunset TMUX TMUX_PANE\n"
                     # What is installed below the home folder instead of the root.
                     "export LD_LIBRARY_PATH=~/usr/local/lib/$(cc -print-multiarch)\n"
                     "export PKG_CONFIG_PATH=$LD_LIBRARY_PATH/pkgconfig PKG_CONFIG_SYSROOT_DIR=~\n")
        self.tmux("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "-c", home,
                  "bash --rcfile ~/.bashrc")
        self.wait(0)

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, "-f", "/dev/null", *words], env=self.env,
                              cwd=self.home, check=True, capture_output=True, text=True).stdout

    def screen(self):
        return [line.rstrip() for line in self.tmux("capture-pane", "-p", "-J").splitlines()]

    def statuses(self):
        try:
            with open(os.path.join(self.home, ".status"), encoding="utf-8") as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    def shows(self, text):
        """Whether the screen shows a text, or a command on the store prints it."""
        if isinstance(text, str):
            return text in " ".join(self.screen())
        command, line = text
        store = "sqlite:" + os.path.join(self.home, "jobs.db")
        path = os.path.join(self.home, "usr/local/bin") + ":" + self.env["PATH"]
        done = subprocess.run(command.split(), env=dict(self.env, HOLDFAST_STORE=store, PATH=path), check=False,
                              executable=shutil.which(command.split()[0], path=path), capture_output=True, text=True)
        return line in done.stdout

    def until(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def wait(self, before):
        """Until the prompt after a line is there."""
        def prompted():
            shown = [line for line in self.screen() if line]
            return len(self.statuses()) > before and shown and shown[-1] == "$"
        return self.until(prompted)

    def type(self, line, stop_at):
        """The screen that it leaves, and its exit status."""
        before = len(self.statuses())
        self.tmux("send-keys", "C-l")
        self.until(lambda: [shown for shown in self.screen() if shown] == ["$"])
        self.tmux("send-keys", "-l", line)
        self.tmux("send-keys", "Enter")
        if stop_at:
            self.until(lambda: self.shows(stop_at))
            self.tmux("send-keys", "C-c")
        good = self.wait(before)
        shown = [row for row in self.screen() if row]
        return "\n".join(shown), self.statuses()[-1] if good else "no end"

    def close(self):
        self.tmux("kill-server")


# Names of the machine, times, random names; columns that grow with them.
NORMAL = [
    (r"\b[0-9a-f]{32}\b", "ID"),
    (r"\b[0-9a-f]{16}-\d+\b", "ETAG"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?", "TIME"),
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"\bjust now\b", "0s ago"),
    (r"\bHOST-\d+\b", "HOST-PID"),
    (r"\bof user \w+", "of user USER"),
    (r"^holdfast \d+\.\d+\.\d+$", "holdfast VERSION"),
    (r"(?<![\w-])(\d+(\.\d+)?(us|ms|s|m|h|d))+\b(?! *\|)", "0s"),
    (r"\b[\d.]+ ([KMG]i)?B/s", "0 B/s"),
    # A shard with a deletion contains a boot-time stamp, whose length depends on the uptime.
    (r"\d+ B; the largest, \w+, has \d+ B", "0 B; the largest, SHARD, has 0 B"),
    (r" {2,}", "  "),
]


def normal(text, home):
    text = text.replace(os.path.realpath(home), "~").replace(home, "~").replace(BUILD, "BUILD").replace(SOURCE, "SOURCE")
    text = text.replace(socket.gethostname(), "HOST")
    head, _, rest = text.partition("\n")  # the line that was typed is the page's own
    for pattern, name in NORMAL:
        rest = re.sub(pattern, name, rest, flags=re.M)
    return head + "\n" + rest


def kept_screens():
    """By the line that was typed, with the name of its page."""
    with open(SCREENS, encoding="utf-8") as file:
        parts = re.split(r"^==== ", file.read(), flags=re.M)[1:]
    return dict(part.split("\n", 1) for part in parts)


def play(terminal, page, shown):
    """Does what a page says; the screens are added to `shown`."""
    seen = ""
    for number, step in enumerate(page.steps):
        if step[0] == "type":
            _, key, line, stop_at = step
            screen, status = terminal.type(line, stop_at)
            shown[key] = normal(screen, terminal.home) + f"\n[{status}]\n"
            if number and page.steps[number - 1][0] == "expect":
                seen = ""
            seen += re.sub(r" {2,}", "  ", screen.partition("\n")[2]) + "\n"
        elif step[0] == "save":
            with open(os.path.join(terminal.home, step[1]), "w", encoding="utf-8") as file:
                file.write(step[2])
        else:
            missing = [line for line in step[1] if re.sub(r" {2,}", "  ", line) not in seen]
            tell(not missing, f"{page.path}: the screen shows: {step[1][0]}", "" if not missing else f"{missing} in\n{seen}")


def visit(pages):
    """The screens of some pages, in one home."""
    home = os.path.realpath(tempfile.mkdtemp(prefix="holdfast-newcomer-"))
    if pages[0].name == "README":
        for name, text in FILES.items():
            path = os.path.join(home, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
    shown = {}
    try:
        terminal = Terminal(home)
        try:
            for page in pages:
                play(terminal, page, shown)
        finally:
            terminal.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return shown


def main():
    pages = read_pages()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        parts = list(pool.map(visit, (pages[:2], pages[2:])))
    shown = {**parts[0], **parts[1]}
    if sys.argv[1:] == ["--write"]:
        with open(SCREENS, "w", encoding="utf-8") as file:
            file.writelines(f"==== {key}\n{screen}" for key, screen in shown.items())
        return 0
    kept = kept_screens()
    for key, screen in shown.items():
        good = kept.get(key) == screen
        tell(good, f"{'' if ': ' in key else 'README: '}{key.partition(' #')[0].rstrip().replace('#', '')}",
             "" if good else f"the screen shows\n{screen}\nand is to show\n{kept.get(key)}")
    tell(set(kept) == set(shown), "no screen is kept of a line that no page has",
         str(set(kept) ^ set(shown) or ""))
    return end()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""readme_test.py: README.md typed into a terminal, from top to bottom, as it stands.

Every shell block of README is read from the file and typed, line by line, into a bash in a tmux of a
fixed size, in a fresh home folder without credentials. What the screen shows after each line must be
what tests/newcomer/readme.screens keeps of it; --write keeps what it shows now. The lines that are not
typed, or not as they stand, are in the tables below, each with its reason; a line there that README
does not have any more is a failure too.

Prints TAP, a case a line.
"""

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

# What is not typed, by its first words, and why.
NOT_TYPED = {
    "apt-get install": "a test installs no packages on the machine that runs it",
    "make demo": "takes minutes and installs packages; tests/compact_chaos_test.py does the same",
    "struct hf_client": "C, all of the block: install_test.py and examples/ compile and run it",
    "import holdfast": "Python, all of the block: bindings/python/tests/test_docs.py runs it",
}
# What is typed instead.
INSTEAD = {
    # Of what is built already, within seconds, and not over the machine's own.
    "make install": f"DESTDIR=~ meson install -C {BUILD} --no-rebuild > install.log",
}
# There is no bucket: two hosts with a real one are in two_hosts_test.py.
SUBSTITUTES = {"s3://bucket/prefix": "sqlite:~/jobs.db"}
# What goes on until it is stopped: Ctrl-C is typed once the screen shows this.
UNTIL = {"holdfast compact watch": "waiting until it exists",
         "holdfast elect run": "scheduling"}

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
    """The indented blocks, each as its lines without the indent."""
    block = []
    for line in text.splitlines() + ["end"]:
        if line.startswith("    "):
            block.append(line[4:])
        elif line or not block:
            if block:
                yield block
            block = []


def lines_of_readme():
    """(line as README has it, line to type), of those that are typed; complains of tables that name
    what is not there."""
    with open(os.path.join(SOURCE, "README.md"), encoding="utf-8") as file:
        blocks = list(blocks_of(file.read()))
    used = set()
    typed = []
    for block in blocks:
        language = next((name for name in ("struct hf_client", "import holdfast") if block[0].startswith(name)), None)
        if language:
            used.add(language)
            continue
        for line in block:
            known = [name for name in (*NOT_TYPED, *INSTEAD, *UNTIL) if line.startswith(name)]
            used.update(known, (word for word in SUBSTITUTES if word in line))
            if any(name in NOT_TYPED for name in known):
                continue
            key = line
            for word, instead in SUBSTITUTES.items():
                line = line.replace(word, instead)
            for name in known:
                line = INSTEAD.get(name, line)
            typed.append((key, line))
    stale = {*NOT_TYPED, *INSTEAD, *UNTIL, *SUBSTITUTES} - used
    tell(not stale, "the tables name only what README has", str(stale or ""))
    tell(len(typed) > 30, "README has shell blocks")
    return typed


class Terminal:
    """A bash in a tmux of its own."""

    def __init__(self, home):
        self.home = home
        self.socket = os.path.join(home, ".tmux")
        self.env = {"HOME": home, "TERM": "screen", "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8",
                    "TMPDIR": home, "SHELL": "/bin/bash"}
        with open(os.path.join(home, ".bashrc"), "w", encoding="utf-8") as rc:
            rc.write("PS1='$ '\nPROMPT_COMMAND='echo $? >> ~/.status'\nunset HISTFILE\n"
                     "PATH=~/usr/local/bin:$PATH\nunset TMUX TMUX_PANE\n")
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
            self.until(lambda: stop_at in " ".join(self.screen()))
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
    (r"(?<![\w-])(\d+(\.\d+)?(us|ms|s|m|h|d))+\b(?! *\|)", "0s"),
    (r"\b[\d.]+ ([KMG]i)?B/s", "0 B/s"),
    # A shard with a deletion contains a boot-time stamp, whose length depends on the uptime.
    (r"\d+ B; the largest, \w+, has \d+ B", "0 B; the largest, SHARD, has 0 B"),
    (r" {2,}", "  "),
]


def normal(text, home):
    text = text.replace(os.path.realpath(home), "~").replace(home, "~").replace(BUILD, "BUILD")
    text = text.replace(socket.gethostname(), "HOST")
    head, _, rest = text.partition("\n")  # the line that was typed is README's own
    for pattern, name in NORMAL:
        rest = re.sub(pattern, name, rest)
    return head + "\n" + rest


def kept_screens():
    """By the line of README."""
    with open(SCREENS, encoding="utf-8") as file:
        parts = re.split(r"^==== ", file.read(), flags=re.M)[1:]
    return dict(part.split("\n", 1) for part in parts)


def play(home):
    typed = lines_of_readme()
    terminal = Terminal(home)
    shown = {}
    try:
        for key, line in typed:
            stop_at = next((text for name, text in UNTIL.items() if key.startswith(name)), None)
            screen, status = terminal.type(line, stop_at)
            shown[key] = normal(screen, home) + f"\n[{status}]\n"
    finally:
        terminal.close()
    return shown


def main():
    home = os.path.realpath(tempfile.mkdtemp(prefix="holdfast-newcomer-"))
    for name, text in FILES.items():
        path = os.path.join(home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
    try:
        shown = play(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    if sys.argv[1:] == ["--write"]:
        with open(SCREENS, "w", encoding="utf-8") as file:
            file.writelines(f"==== {key}\n{screen}" for key, screen in shown.items())
        return 0
    kept = kept_screens()
    for key, screen in shown.items():
        good = kept.get(key) == screen
        tell(good, f"README: {key.partition(' #')[0].rstrip()}",
             "" if good else f"the screen shows\n{screen}\nand is to show\n{kept.get(key)}")
    tell(set(kept) == set(shown), "no screen is kept of a line that README does not have",
         str(set(kept) ^ set(shown) or ""))
    return end()


if __name__ == "__main__":
    sys.exit(main())

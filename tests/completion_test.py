#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""completion_test.py: real shells complete command lines of `holdfast` by the scripts that it writes:
bash by its function, fish by `complete -C`, zsh in a terminal, where keys are typed.
"""

import json
import os
import pty
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

from tap_kit import end, tell

PROGRAM = os.path.abspath(os.environ["HOLDFAST_PROGRAM"])
SECONDS_MAX = 30

# A line, and what fits at its end.
CASES = [
    ("holdfast store p", {"probe", "put"}),
    ("holdfast store pu", {"put"}),
    ("holdfast help store ge", {"get"}),
    ("holdfast run --mode ", {"exclusive", "shared"}),
    ("holdfast run --mode=sh", {"--mode=shared"}),
    ("holdfast merge --format u", {"usv"}),
    ("holdfast compact create --compress ", {"none", "gzip", "zstd"}),
    ("holdfast --store s", {"sqlite:", "s3://"}),
    ("holdfast run dep", {"deploy"}),
    ("holdfast locks show nigh", {"nightly/import"}),
    ("holdfast key get ord", {"orders/42"}),
    ("holdfast key update --lease x ord", {"orders/42"}),
    ("holdfast compact plan --partition lo", {"logs"}),
    ("holdfast compact plan --partition de", {"default"}),
    ("holdfast index get dom", {"domains"}),
    ("holdfast store get repo", {"reports/"}),
    ("holdfast store get reports/", {"reports/today.csv"}),
    ("holdfast run deploy -- my-own-prog", {"my-own-program"}),
    ("holdfast run deploy my-own-prog", {"my-own-program"}),
    ("holdfast run deploy -- cat note", {"notes.txt"}),
    ("holdfast store put k note", {"notes.txt"}),
    ("holdfast store ls --store pro", {"prod"}),
    ("holdfast --store prod key get or", {"orders/42"}),
    ("holdfast --profile c", {"ci"}),
    ("holdfast --profile ci key get or", {"orders/42"}),
    ("holdfast store sync prod#rep", {"prod#reports/"}),
    ("holdfast merge prod#reports/", {"prod#reports/today.csv"}),
    ("holdfast merge sqlite:store.db#reports/", {"sqlite:store.db#reports/today.csv"}),
    ("holdfast --store /no/such/store key get ", set()),
    ("holdfast --store dir:/no/such/store key get ", set()),
    ("holdfast --store nonsense key get ", set()),
    ("holdfast no-such-command x", set()),
]


class Scratch:
    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="holdfast-completion-")
        folder = os.path.join(self.path, "bin")
        os.mkdir(folder)
        os.symlink(PROGRAM, os.path.join(folder, "holdfast"))
        self.write("bin/my-own-program", "#!/bin/sh\n")
        os.chmod(os.path.join(folder, "my-own-program"), 0o755)
        self.env = {"PATH": folder + ":" + os.environ["PATH"], "HOME": self.path,
                    "TERM": "dumb", "LC_ALL": "C.UTF-8", "HOLDFAST_STORE": "sqlite:store.db",
                    "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")}
        self.write("notes.txt", "")
        os.makedirs(os.path.join(self.path, ".config/holdfast"))
        self.write(".config/holdfast/holdfast.conf",
                   f"[store prod]\nurl = sqlite:{self.path}/store.db\n[store test]\nurl = dir:/no/such\n"
                   "[profile ci]\nstore = prod\n")
        for line in ("acquire deploy", "acquire nightly/import", "key update orders/42 --take",
                     "store put reports/today.csv notes.txt", "compact create --format usv --key 1",
                     "compact create --format usv --key 1 --partition logs",
                     "index create domains --fields a,t --key a --time t"):
            subprocess.run([PROGRAM, *line.split()], cwd=self.path, env=self.env, check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        for shell, name in (("bash", "holdfast.bash"), ("zsh", "_holdfast"),
                            ("fish", "holdfast.fish")):
            self.write(name, self.run(PROGRAM, "completion", shell).stdout)

    def write(self, name, text):
        with open(os.path.join(self.path, name), "w", encoding="utf-8") as file:
            file.write(text)

    def run(self, *command, **options):
        return subprocess.run(command, cwd=self.path, env=dict(self.env, **options),
                              capture_output=True, text=True, timeout=SECONDS_MAX)

    def close(self):
        shutil.rmtree(self.path, ignore_errors=True)


def bash(scratch, line):
    """What bash puts behind the last break of the word, so the breaks are put back."""
    script = ". ./holdfast.bash; COMP_LINE=$1; COMP_POINT=${#1}; _holdfast; " \
             "printf '%s\\n' \"${COMPREPLY[@]}\""
    done = scratch.run("bash", "--norc", "-c", script, "bash", line)
    word = line.rsplit(" ", 1)[1]
    broken = re.match(r"(.*[:=])?", word).group()
    return {broken + found for found in done.stdout.split()}, done.stderr


def fish(scratch, line):
    script = "source holdfast.fish; complete -C \"$argv[1]\""
    done = scratch.run("fish", "--no-config", "-c", script, line)
    return {found.split("\t")[0] for found in done.stdout.splitlines()}, done.stderr


class Zsh:
    """A zsh in a terminal; what stands behind the cursor's word is asked by a key of ours."""

    def __init__(self, scratch):
        pid, self.fd = pty.fork()
        if pid == 0:
            os.chdir(scratch.path)
            os.execvpe("zsh", ["zsh", "-f", "-i"], scratch.env)
        self.pid = pid
        self.type("PS1='> '; autoload -Uz compinit && compinit -D -u; . ./_holdfast; "
                  "all() { local -a found; compadd() { local -a got; "
                  "builtin compadd -O got \"$@\"; found+=(\"${got[@]}\"); "
                  "builtin compadd \"$@\"; }; "
                  "_main_complete; unfunction compadd; print -r -- \"<<${(j:|:)found}>>\"; "
                  "compstate[insert]=; compstate[list]=; }; "
                  "zle -C all complete-word all; bindkey '^T' all; print re''ady\r")
        self.read("ready")

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self, pattern):
        text, until = "", time.monotonic() + SECONDS_MAX
        while not re.search(pattern, text, re.S):
            left = until - time.monotonic()
            if left < 0 or not select.select([self.fd], [], [], left)[0]:
                break
            try:
                text += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                break
        return text

    def complete(self, line):
        self.type("\x15" + line + "\x14")
        text = self.read("<<.*>>")
        found = re.search("<<(.*?)>>", text, re.S)
        names = set(re.sub(r"\s", "", found[1]).split("|")) - {""} if found else {"?"}
        return names, "" if found else text

    def close(self):
        self.type("\x15exit\r")
        self.read("$never")
        os.waitpid(self.pid, 0)


def check(shell, complete):
    wrong = []
    for line, expected in CASES:
        found, errors = complete(line)
        if {name.rstrip(" ") for name in found} != expected or errors:
            wrong.append(f"'{line}': {sorted(found)}, expected {sorted(expected)} {errors}")
    tell(not wrong, f"{shell} completes commands, values, names in the store, programs and files",
         "\n".join(wrong))


def check_table(scratch):
    """What all of them ask."""
    table = json.loads(scratch.run(PROGRAM, "help", "--json").stdout)

    def words(*line):
        lines = scratch.run(PROGRAM, "completion", "words", "--", *line).stdout.splitlines()
        return {found.split("\t")[0] for found in lines[1:]}

    commands = {command["command"].split()[0] for command in table["commands"]}
    tell(words("") == commands, "every command is offered, once", str(words("") ^ commands))
    wrong = []
    for command in table["commands"]:
        path = command["command"].split()
        known = {f"--{option['name']}" for option in command["options"] + table["options"]}
        if {word for word in words(*path, "-") if word.startswith("--")} != known:
            wrong.append(command["command"])
        for option in command["options"]:
            values = (option["values"] or "").split()
            if values and words(*path, f"--{option['name']}", "") != set(values):
                wrong.append(f"{command['command']} --{option['name']}")
    tell(not wrong, "every option of every command is offered, and every value", str(wrong))


def check_quiet(scratch):
    done = scratch.run(PROGRAM, "completion", "words", "--", "--store", "sqlite:new.db", "key",
                       "get", "")
    made = os.path.exists(os.path.join(scratch.path, "new.db"))
    empty = tempfile.mkdtemp(dir=scratch.path)
    alone = dict(scratch.env, HOME=empty)
    del alone["HOLDFAST_STORE"]
    subprocess.run([PROGRAM, "completion", "words", "--", "run", ""], cwd=empty, env=alone,
                   check=True, capture_output=True)
    tell((done.returncode, done.stdout, done.stderr) == (0, "", "") and not made and
         os.listdir(empty) == [], "to complete a name makes no store and says nothing of it")

    # A server that accepts and never answers.
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        url = f"s3://bucket/x?endpoint=http://127.0.0.1:{server.getsockname()[1]}"
        begun = time.monotonic()
        done = scratch.run(PROGRAM, "completion", "words", "--", "--store", url, "run", "",
                           AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")
        took = time.monotonic() - begun
    tell((done.returncode, done.stdout, done.stderr) == (0, "", "") and took < 3,
         "a store that does not answer is waited for a second, in silence",
         f"{took:.1f} s {done}")


def main():
    scratch = Scratch()
    check_table(scratch)
    check_quiet(scratch)
    check("bash", lambda line: bash(scratch, line))
    check("fish", lambda line: fish(scratch, line))
    zsh = Zsh(scratch)
    check("zsh", zsh.complete)
    zsh.close()
    scratch.close()
    return end()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""release-check.py: everything that must pass before a release, on a bare Debian 12.

    release-check.py [OPTION]... [STEP]...    default: all steps

      --again             run steps again that have passed at this revision
      --list              list the steps, and run none
      --folder FOLDER     keeps the systems, the full logs and the results (default: build-release)
      --evidence FOLDER   where the report is written (default: docs/evidence)
      --source FOLDER     the repository (default: the one of this script)
      --table FILE        other steps: a line for each, "NAME COMMAND"
      --root /            run the steps on this system, not on a bare one

debootstrap makes a system that has nothing (tools/chroot.sh). It gets a clone of the last commit that changes
more than docs/evidence, and everything else is installed by the commands of README.md: its first block is the
step `install`, which comes before all others. Uncommitted changes are not tested.

All steps together take many hours, so a run can be interrupted and continued, also on another machine: a step
that has passed at this revision, by --folder or by the report of this revision, is not run again. The report has
a line for each step, and is complete only if all steps have passed at the same revision. A step that is
interrupted leaves no process and no mount.

Exit status: 0 if all chosen steps have passed, 1 if not, 130 if interrupted, 2 for a wrong call.
"""

import argparse
import datetime
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CHROOT = os.path.join(HERE, "chroot.sh")
STEP_SECONDS_MAX = 24 * 3600
POLL_SECONDS = 0.05
END_SECONDS_MAX = 60        # until the processes of a killed step are gone
BARE_SECONDS_MAX = 7 * 86400  # a bare system is used this long
FUZZ_PARTS = 6
STEPS = [
    ("test", "make test"),
    ("full", "make full"),
    ("bench", "make bench"),
    ("mutants", "make mutants"),
    *((f"fuzz-{i}", f"make fuzz FUZZ_SECONDS=600 FUZZ_PART={i}/{FUZZ_PARTS}") for i in range(1, FUZZ_PARTS + 1)),
    ("cross", "make cross"),
    ("deb", "make deb"),
    ("deb-other", "make deb ARCH=other"),
    ("package", "ls build-deb/python3-holdfast_*.deb || make deb; python3 tests/package_test.py build-deb"),
    ("tarball", "make tarball"),
    ("docs", "make docs"),
    ("soak", "make soak HOURS=1"),
]


class Interrupted(Exception):
    pass


arrived = []  # signals


def interrupt(number, _):
    """Only notes it: an exception in the middle of subprocess would leave its lock held, and the next wait would
    have no end."""
    arrived.append(signal.Signals(number).name)


def end_if_interrupted():
    if arrived:
        raise Interrupted(arrived[0])


def git(source, *words):
    return subprocess.run(["git", "-C", source, *words], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def describe_machine():
    done = subprocess.run(["sh", os.path.join(HERE, "machine")], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip().partition("; ")[2]


def read_install_block(source):
    """The first block of README.md: how to install."""
    with open(os.path.join(source, "README.md"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("    "))
    last = next(i for i in range(first, len(lines) + 1) if i == len(lines) or not lines[i].startswith("    "))
    return [line.strip() for line in lines[first:last]]


# ---- Where the steps run ------------------------------------------------------------------------


class System:
    """A bare Debian, or this system, with a clone of the revision."""

    def __init__(self, options, revision, folder):
        self.source, self.revision, self.folder = options.source, revision, folder
        self.own = options.root != "/"
        self.bare = os.path.join(options.folder, "bare")
        self.root = os.path.join(folder, "root") if self.own else "/"
        self.home = "/root" if self.own else folder

    def is_installed(self):
        return os.path.isdir((self.root if self.own else "") + self.home + "/holdfast")

    def make(self, log):
        """A fresh system, even if an earlier attempt to install has left one."""
        if self.own:
            execute(["rm", "-rf", "--one-file-system", self.root, self.root + ".new"], log)
            stamp = self.bare + ".made"
            if not os.path.exists(stamp) or time.time() - os.path.getmtime(stamp) > BARE_SECONDS_MAX:
                execute(["sh", CHROOT, "make", self.bare], log)
                with open(stamp, "w", encoding="utf-8"):
                    pass
            execute(["cp", "-a", self.bare, self.root + ".new"], log)
            os.rename(self.root + ".new", self.root)
        clone = os.path.join(self.root if self.own else self.folder, "source.git")
        if not os.path.isdir(clone):
            execute(["git", "clone", "-q", "--bare", "--no-local", self.source, clone], log)
        return clone if not self.own else "/source.git"

    def install_script(self, log):
        """README's commands, with a clone of this revision for the source tree."""
        clone = self.make(log)
        lines = read_install_block(self.source)
        first = [line for line in lines[:1] if line.startswith("apt-get")]
        checkout = [f"rm -rf {self.home}/holdfast", f"git clone -q {clone} {self.home}/holdfast", f"cd {self.home}/holdfast",
                    f"git checkout -q {self.revision}"]
        return "\n".join(["cd " + self.home, *first, *checkout, *lines[len(first):]])

    def step_script(self, command):
        return f"cd {self.home}/holdfast\n{command}"

    def run(self, script, log):
        return execute(["sh", CHROOT, "run", self.root, script], log, check=False)


def execute(command, log, check=True):
    """Runs a command that dies with this process. If we are interrupted, it is killed, with all that it
    started in its namespace."""
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL, stdout=log,
                               stderr=subprocess.STDOUT, start_new_session=True)
    until = time.monotonic() + STEP_SECONDS_MAX
    try:
        while (status := process.poll()) is None:
            end_if_interrupted()
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(command, STEP_SECONDS_MAX)
            time.sleep(POLL_SECONDS)
    except BaseException:
        kill_with_namespace(process)
        raise
    if check and status != 0:
        raise subprocess.CalledProcessError(status, command)
    return status


def read_children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return file.read().split()
    except OSError:
        return []


def kill_with_namespace(process):
    """The child of unshare is the first process of the namespace, and all others end with it."""
    children = read_children(process.pid)
    process.kill()
    process.wait()
    until = time.monotonic() + END_SECONDS_MAX
    while any(os.path.exists(f"/proc/{pid}") for pid in children) and time.monotonic() < until:
        time.sleep(0.02)


# ---- Results ------------------------------------------------------------------------------------


STEP_LINE = re.compile(r"(?P<name>\S+) +(?P<result>passed|failed|interrupted) +(?P<seconds>\d+) s +(?P<begun>\S+) +"
                       r"(?P<revision>[0-9a-f]{12}) +(?P<machine>.+)$")


class Results:
    """What is known of each step at this revision, and the report."""

    def __init__(self, folder, evidence, names, revision, machine):
        self.path = os.path.join(folder, "results.json")
        self.report_path = os.path.join(evidence, f"release-check-{revision[:12]}.log")
        self.names, self.revision, self.machine = names, revision, machine
        self.steps = {}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                self.steps = json.load(file)
        elif os.path.exists(self.report_path):
            self.read_report()

    def passed(self, name):
        return self.steps.get(name, {}).get("result") == "passed"

    def set(self, name, result, begun, seconds):
        self.steps[name] = {"result": result, "begun": begun, "seconds": round(seconds), "machine": self.machine,
                            "revision": self.revision}
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(self.steps, file, indent=1)
        os.replace(self.path + ".new", self.path)

    def verdict(self):
        count = sum(map(self.passed, self.names))
        if count == len(self.names):
            return f"complete: all {count} steps passed at this revision"
        return f"partial: {count} of {len(self.names)} steps passed at this revision"

    def report(self):
        lines = [f"# make release-check, revision {self.revision}", "# " + self.verdict(),
                 "# step, result, seconds, started, revision, machine"]
        for name in self.names:
            step = self.steps.get(name)
            lines.append(f"{name:<10} not run" if step is None else
                         f"{name:<10} {step['result']:<11} {step['seconds']:>6} s  {step['begun']}  {step['revision'][:12]}  "
                         f"{step['machine']}")
        return "\n".join(lines) + "\n"

    def write_report(self):
        os.makedirs(os.path.dirname(self.report_path), exist_ok=True)
        with open(self.report_path, "w", encoding="utf-8") as file:
            file.write(self.report())

    def read_report(self):
        """What another machine has run. Its systems are not here."""
        with open(self.report_path, encoding="utf-8") as file:
            found = [STEP_LINE.match(line) for line in file]
        for step in filter(None, found):
            if step["name"] in self.names and self.revision.startswith(step["revision"]):
                self.steps[step["name"]] = {"result": step["result"], "begun": step["begun"], "revision": self.revision,
                                            "seconds": int(step["seconds"]), "machine": step["machine"]}


# ---- The run ------------------------------------------------------------------------------------


def run_step(system, results, name, command, folder):
    path = os.path.join(folder, f"{name}.log")
    print(f"release-check: {name}: {command or 'the first block of README.md'}", flush=True)
    begun = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    start = time.monotonic()
    result = "interrupted"
    try:
        with open(path, "w", encoding="utf-8") as log:
            script = system.step_script(command) if command else system.install_script(log)
            log.write(f"# {name}, revision {results.revision}, started {begun}\n# {results.machine}\n{script}\n\n")
            log.flush()
            result = "passed" if system.run(script, log) == 0 else "failed"
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"release-check: {error}", file=sys.stderr)
        result = "failed"
    finally:
        seconds = time.monotonic() - start
        results.set(name, result, begun, seconds)
        print(f"release-check: {name}: {result} after {seconds:.0f} s; the log is {path}", flush=True)
    return result == "passed"


def run_steps(system, results, steps, wanted, again, folder):
    """The step `install` is run if a chosen step needs it; without it, there are no others."""
    commands = dict(steps)
    if all(results.passed(name) for name in wanted) and not again:
        return True
    if "install" not in wanted and not (results.passed("install") and system.is_installed()):
        wanted = ["install", *wanted]
    good = True
    for name in wanted:
        end_if_interrupted()
        if results.passed(name) and not again and (name != "install" or system.is_installed()):
            print(f"release-check: {name}: has passed at this revision", flush=True)
            continue
        good = run_step(system, results, name, commands[name], folder) and good
        if name == "install" and not good:
            break
    return good


def remove_other_systems(folder, revision):
    """Logs and results stay."""
    for name in os.listdir(folder):
        if re.fullmatch("[0-9a-f]{40}", name) and name != revision:
            subprocess.run(["rm", "-rf", "--one-file-system", os.path.join(folder, name, "root")], check=False)


def read_table(path):
    with open(path, encoding="utf-8") as file:
        return [tuple(line.rstrip("\n").split(" ", 1)) for line in file if line.strip()]


def read_options():
    parser = argparse.ArgumentParser(usage=__doc__.partition("\n\n")[2].partition("\n\n")[0].strip())
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--folder")
    parser.add_argument("--evidence")
    parser.add_argument("--source", default=os.path.dirname(HERE))
    parser.add_argument("--table")
    parser.add_argument("--root", choices=["/"])
    parser.add_argument("steps", nargs="*", metavar="STEP")
    options = parser.parse_args()
    options.source = os.path.abspath(options.source)
    options.folder = os.path.abspath(options.folder or os.path.join(options.source, "build-release"))
    options.evidence = options.evidence or os.path.join(options.source, "docs/evidence")
    table = [("install", ""), *(read_table(options.table) if options.table else STEPS)]
    unknown = set(options.steps) - {name for name, _ in table}
    if unknown:
        parser.error(f"unknown step '{min(unknown)}'; the steps are {' '.join(name for name, _ in table)}")
    return options, table


def main():
    options, table = read_options()
    if options.list:
        print("".join(f"{name:<10} {command or 'the first block of README.md'}\n" for name, command in table), end="")
        return 0
    if options.root != "/" and os.geteuid() != 0:
        print("release-check: debootstrap needs root", file=sys.stderr)
        return 2
    revision = git(options.source, "log", "-1", "--format=%H", "--", ".", ":!docs/evidence")
    if git(options.source, "status", "--porcelain", "--untracked-files=no"):
        print("release-check: there are uncommitted changes, which are not tested", file=sys.stderr)
    folder = os.path.join(options.folder, revision)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(options.folder, "lock"), "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print(f"release-check: another release-check is running in {options.folder}", file=sys.stderr)
            return 2
        remove_other_systems(options.folder, revision)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, interrupt)
        names = [name for name, _ in table]
        results = Results(folder, options.evidence, names, revision, describe_machine())
        wanted = [name for name in names if not options.steps or name in options.steps]
        try:
            status = 0 if run_steps(System(options, revision, folder), results, table, wanted, options.again, folder) else 1
        except Interrupted as reason:
            print(f"release-check: interrupted by {reason}; run it again to continue", file=sys.stderr)
            status = 130
        results.write_report()
    print(results.report() + f"release-check: the report is {results.report_path}")
    return status


if __name__ == "__main__":
    sys.exit(main())

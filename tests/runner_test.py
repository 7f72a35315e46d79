#!/usr/bin/env python3
"""runner_test.py: tools/run-tests counts right, and everything that must fail does. Runs it on a
scratch project whose tests are one-line shell scripts. Prints TAP."""

import os
import re
import subprocess
import sys
import tempfile

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "run-tests")

# name (also its suite), shell script, seconds
SCRIPTS = [
    ("good", "echo 1..3; echo ok 1 - a; echo ok 2 - b; echo ok 3 - c", 10),
    ("bad", "echo 1..2; echo ok 1 - a; echo 'not ok 2 - the moon is round'; exit 1", 10),
    ("crash", "echo 1..2; echo ok 1 - a; kill -SEGV $$", 10),
    ("short", "echo 1..5; echo ok 1 - a", 10),
    ("silent", "exit 0", 10),
    ("away", "echo '1..0 SKIP'", 10),
    ("slow", "echo 1..1; echo ok 1 - a; exec sleep 30", 1),
    ("skip", "echo 1..2; echo ok 1 - a; echo 'ok 2 - needs a server SKIP'", 10),
    ("cmocka", "echo 1..2; echo ok 1 - a; echo 'not ok 2 # SKIP of cmocka'", 10),
    ("exit", "echo 1..1; echo ok 1 - a; exit 3", 10),
]

# suites, CI, last line, exit status, what else the output says
EXPECTED = [
    ("cases of a program count one by one", "good", None, "3 passed, 0 failed", 0, ""),
    ("a failed case is named and fails the run", "good,bad", None, "4 passed, 1 failed", 1,
     "failed: the moon is round"),
    ("a crash is a failure though its cases passed", "crash", None, "1 passed, 1 failed", 1,
     "ended with"),
    ("a program that stops before its plan has failed", "short", None, "1 passed, 1 failed", 1,
     "ended with"),
    ("a TAP program without a case has failed", "good,silent", None, "3 passed, 1 failed", 1,
     "no case at all"),
    ("a program may skip itself with a reason", "good,away", None,
     "3 passed, 0 failed, 1 skipped", 0, "no server"),
    ("a run in which all is skipped is a failure", "away", None,
     "0 passed, 1 failed, 1 skipped", 1, "nothing passed"),
    ("an overrun of the budget is a failure", "slow", None, "1 passed, 1 failed", 1,
     "of the 1 s it may take"),
    ("an exit status is a failure though the cases passed", "exit", None, "1 passed, 1 failed",
     1, ""),
    ("a skip is named and counted", "skip", None, "1 passed, 0 failed, 1 skipped", 0,
     "needs a server"),
    ("a skip as cmocka writes it is a skip", "cmocka", None,
     "1 passed, 0 failed, 1 skipped", 0, "of cmocka"),
    ("under CI a skip is a failure", "skip", "true", "1 passed, 1 failed", 1,
     "a failure under CI"),
    ("a run without tests is a failure", "nothing", None, "0 passed, 1 failed", 1, "no test"),
    ("a label can be left out", "good,bad,-bad", None, "3 passed, 0 failed", 0, ""),
]


def make_project(root):
    lines = ["project('scratch')", "sh = find_program('sh')"]
    for name, script, seconds in SCRIPTS:
        path = os.path.join(root, name + ".sh")
        with open(path, "w", encoding="utf-8") as file:
            file.write(script.replace("SKIP'", "# SKIP no server'") + "\n")
        lines.append("test('%s', sh, args: files('%s.sh'), suite: '%s', timeout: %d, "
                     "protocol: 'tap')" % (name, name, name, seconds))
    with open(os.path.join(root, "meson.build"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    build = os.path.join(root, "build")
    subprocess.run(["meson", "setup", build, root], check=True, stdout=subprocess.DEVNULL)
    return build


def run(build, suites, under_ci):
    environment = {key: value for key, value in os.environ.items() if key != "CI"}
    if under_ci:
        environment["CI"] = under_ci
    return subprocess.run([sys.executable, RUNNER, "%s:%s" % (build, suites)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)


def main():
    print("1..%d" % len(EXPECTED))
    failed = False
    with tempfile.TemporaryDirectory(prefix="holdfast-runner-") as root:
        build = make_project(root)
        for number, row in enumerate(EXPECTED, 1):
            sentence, suites, under_ci, last, status, words = row
            result = run(build, suites, under_ci)
            lines = result.stdout.rstrip("\n").split("\n")
            totals = [line for line in lines if re.match(r"\d+ passed, \d+ failed", line)]
            good = (lines[-1] == last and totals == [last] and result.returncode == status and
                    words in result.stdout)
            failed = failed or not good
            print("%s %d - %s" % ("ok" if good else "not ok", number, sentence))
            if not good:
                print("# status %d instead of %d" % (result.returncode, status))
                print("\n".join("# " + line for line in lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""runner_test.py: tools/run-tests counts right, runs things in the right order, and everything that
must fail does. Runs it on a scratch project whose tests are short shell scripts. Prints TAP."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RUNNER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "run-tests")
SERVERS = {
    "ceph-up": 'echo "$2" >"$1/up"; echo up >>"$ROOT/cluster"; sleep 0.5; : >"$1/ready"',
    "ceph-down": 'echo down >>"$ROOT/cluster"',
}

# Name (also its label), shell script, seconds, further labels.
SCRIPTS = [
    ("good", "echo 1..3; echo ok 1 - a; echo ok 2 - b; echo ok 3 - c", 10),
    ("bad", "echo 1..2; echo ok 1 - a; echo 'not ok 2 - the moon is round'; exit 1", 10),
    ("why", "echo 1..2; echo 'not ok 1 - a'; echo '# it is a disc'; echo ok 2 - b; "
     "echo '# that was b'; exit 1", 10),
    ("crash", "echo 1..2; echo ok 1 - a; kill -SEGV $$", 10),
    ("short", "echo 1..5; echo ok 1 - a", 10),
    ("planless", "echo ok 1 - a", 10),
    ("silent", "exit 0", 10),
    ("away", "echo '1..0 # SKIP no server'", 10),
    ("slow", "echo 1..1; echo ok 1 - a; exec sleep 30", 1),
    ("stubborn", "trap '' INT; echo 1..1; echo ok 1 - a; sleep 30; sleep 30", 1),
    ("skip", "echo 1..2; echo ok 1 - a; echo 'ok 2 - needs a server # SKIP no server'", 10),
    ("cmocka", "echo 1..2; echo ok 1 - a; echo 'not ok 2 # SKIP of cmocka'", 10),
    ("exit", "echo 1..1; echo ok 1 - a; exit 3", 10),
    ("bail", "echo 1..1; echo ok 1 - a; echo 'Bail out! no disk'", 10),
    ("litter", "echo 1..1; echo ok 1 - a; sleep 31 & exit 0", 10),
    ("order1", "echo 1..1; echo one >>$ROOT/order; echo ok 1 - a", 10, "order"),
    ("order2", "echo 1..1; echo two >>$ROOT/order; echo ok 1 - a", 40, "order"),
    ("order3", "echo 1..1; echo three >>$ROOT/order; echo ok 1 - a", 20, "order"),
    ("order4", "echo 1..1; echo alone >>$ROOT/order; echo ok 1 - a", 90, "order", "alone"),
    ("pair1", "echo 1..1; sleep 1; echo ok 1 - a", 10, "pair"),
    ("pair2", "echo 1..1; sleep 1; echo ok 1 - a", 10, "pair"),
    *[("crowd%d" % number, "echo 1..1; echo begin >>$ROOT/running; sleep 1; "
       "echo end >>$ROOT/running; echo ok 1 - a", 10, "crowd") for number in range(1, 6)],
    ("hang1", "echo 1..1; >$ROOT/hanging; exec sleep 30", 40, "hang"),
    ("hang2", "echo 1..1; echo ok 1 - a", 10, "hang"),
    ("signals", "echo 1..1; trap 'echo ok 1 - a; exit 0' INT; kill -INT $$; sleep 1", 10),
    ("early", "echo 1..1; echo 'not ok 1 - early'; exit 1", 40, "early"),
    ("later", "echo 1..1; sleep 2; echo ok 1 - a", 10, "early"),
    ("ceph1", "echo 1..1; test -f $HOLDFAST_SHARED_CEPH/ready && echo ok 1 - a", 10, "ceph"),
    ("ceph2", "echo 1..1; test -f $HOLDFAST_SHARED_CEPH/ready && echo ok 1 - a", 10, "ceph"),
    ("where", "echo 1..1; echo ${TMPDIR:-none} >>$ROOT/where; test -d ${TMPDIR:-/} && echo ok 1 - a",
     10),
    ("compiled", "echo 1..1; echo ok 1 - a", 10, "reach"),
    ("other", "echo 1..1; echo ok 1 - a", 10, "reach"),
]

# Labels, CI, last line, exit status, what else the output says, further options.
EXPECTED = [
    ("cases of a program count one by one", "good", None, "3 passed, 0 failed", 0, ""),
    ("a failed case is named and fails the run", "good,bad", None, "4 passed, 1 failed", 1,
     "failed: the moon is round"),
    ("why a case failed is told once more at the end", "why", None, "1 passed, 1 failed", 1,
     "why (build): a\n    it is a disc\n\nSlowest"),
    ("a crash is a failure though its cases passed", "crash", None, "1 passed, 2 failed", 1,
     "ended by signal SIGSEGV"),
    ("a program that stops before its plan has failed", "short", None, "1 passed, 1 failed", 1,
     "planned 5 cases and printed 1"),
    ("a program without a plan has failed", "planless", None, "1 passed, 1 failed", 1,
     "printed no plan"),
    ("a TAP program without a case has failed", "good,silent", None, "3 passed, 1 failed", 1,
     "no case at all"),
    ("a program may skip itself with a reason", "good,away", None,
     "3 passed, 0 failed, 1 skipped", 0, "no server"),
    ("a run in which all is skipped is a failure", "away", None,
     "0 passed, 1 failed, 1 skipped", 1, "nothing passed"),
    ("an overrun of the limit is a failure", "slow", None, "1 passed, 1 failed", 1,
     "did not end within its limit of 1 s"),
    ("an exit status is a failure though the cases passed", "exit", None, "1 passed, 1 failed",
     1, "exit status 3"),
    ("a program that bails out has failed", "bail", None, "1 passed, 1 failed", 1,
     "Bail out! no disk"),
    ("a process that is left behind is a failure, and is ended", "litter", None,
     "1 passed, 1 failed", 1, "left running: sleep 31"),
    ("a skip is named and counted", "skip", None, "1 passed, 0 failed, 1 skipped", 0,
     "needs a server"),
    ("a skip as cmocka writes it is a skip", "cmocka", None,
     "1 passed, 0 failed, 1 skipped", 0, "of cmocka"),
    ("under CI a skip is a failure", "skip", "true", "1 passed, 1 failed", 1,
     "a failure under CI"),
    ("a run without tests is a failure", "nothing", None, "0 passed, 1 failed", 1, "no test"),
    ("a label can be left out", "good,bad,-bad", None, "3 passed, 0 failed", 0, ""),
    ("a run past its budget is told", "good", None, "3 passed, 0 failed", 0,
     "slow: the tier 'tiny' took", "--budget=tiny"),
    ("under CI a run past its budget is a failure", "good", "true", "3 passed, 1 failed", 1,
     "its budget is 0 s", "--budget=tiny"),
    ("a line of the table can allow more, and says why", "good", "true", "3 passed, 0 failed", 0,
     "and 99 s more because of the moon", "--budget=lenient"),
    ("a test can be interrupted though the runner is in the background", "signals", None,
     "1 passed, 0 failed", 0, ""),
    ("a test can be repeated", "good", None, "9 passed, 0 failed", 0, "3 test programs",
     "--repeat=3"),
    ("tests can be chosen by name", "good,bad", None, "3 passed, 0 failed", 0, "", "--only=goo"),
]


def make_project(root):
    lines = ["project('scratch')", "sh = find_program('sh')"]
    for name, script, seconds, *labels in SCRIPTS:
        with open(os.path.join(root, name + ".sh"), "w", encoding="utf-8") as file:
            file.write(script + "\n")
        depends = ""
        if name == "compiled":
            lines.append("made = custom_target('made', input: 'source.txt', output: 'made.txt', "
                         "command: ['cp', '@INPUT@', '@OUTPUT@'])")
            depends = ", depends: made"
        lines.append("test('%s', sh, args: files('%s.sh'), suite: %s, timeout: %d, "
                     "protocol: 'tap', is_parallel: %s%s)"
                     % (name, name, [name] + labels, seconds,
                        "false" if "alone" in labels else "true", depends))
    files = {"meson.build": "\n".join(lines) + "\n", "source.txt": "a\n"}
    for name, text in SERVERS.items():
        files["tests/servers/" + name] = "#!/bin/sh\n" + text + "\n"
    for name, text in files.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755 if "servers" in name else 0o644)
    # The runner takes the folder above its own for the source tree.
    os.makedirs(os.path.join(root, "tools"))
    shutil.copy(RUNNER, os.path.join(root, "tools", "run-tests"))
    build = os.path.join(root, "build")
    subprocess.run(["meson", "setup", build, root], check=True, stdout=subprocess.DEVNULL)
    os.makedirs(os.path.join(build, "tests"))
    with open(os.path.join(build, "tests", "budgets.txt"), "w", encoding="utf-8") as file:
        file.write("tiny 0 0 \nlenient 0 99 of the moon\n")
    return build


def in_the_background():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell has it there


def start(build, labels, under_ci=None, *options):
    environment = {key: value for key, value in os.environ.items() if key != "CI"}
    environment["ROOT"] = os.path.dirname(build)
    if under_ci:
        environment["CI"] = under_ci
    runner = os.path.join(os.path.dirname(build), "tools", "run-tests")
    return subprocess.Popen([sys.executable, runner, *options, "%s:%s" % (build, labels)],
                            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            env=environment, preexec_fn=in_the_background)


def run(*arguments):
    process = start(*arguments)
    output = process.communicate(timeout=60)[0]
    return process.returncode, output.rstrip("\n").split("\n")


def lines_of(build, name):
    with open(os.path.join(os.path.dirname(build), name), encoding="utf-8") as file:
        return file.read().split()


# ---- Cases that need more than the last line ----------------------------------------------------


def longest_first(build):
    """Without earlier durations the limits tell; what runs alone runs last."""
    status, lines = run(build, "order", None, "--jobs=1")
    return status == 0 and lines_of(build, "order") == ["two", "three", "one", "alone"], lines


def by_recorded_durations(build):
    root = os.path.dirname(build)
    with open(os.path.join(root, "tests", "durations.txt"), "w", encoding="utf-8") as file:
        file.write("9.0 9.0 build/order1\n5.0 5.0 build/order3\n0.1 0.1 build/order2\n")
    os.remove(os.path.join(root, "order"))
    status, lines = run(build, "order", None, "--jobs=1")
    return status == 0 and lines_of(build, "order") == ["one", "three", "two", "alone"], lines


def records_durations(build):
    status, lines = run(build, "pair", None, "--record")
    found = " ".join(lines_of(build, "tests/durations.txt"))
    return status == 0 and bool(re.search(r"1\.\d 0\.\d build/pair1 1\.\d 0\.\d build/pair2", found)), lines


def at_a_time(build):
    """How many were running when each of them began."""
    running, most = 0, 0
    for word in lines_of(build, "running"):
        running += 1 if word == "begin" else -1
        most = max(most, running)
    os.remove(os.path.join(os.path.dirname(build), "running"))
    return most


def two_at_a_time(build):
    status, lines = run(build, "crowd", None, "--jobs=2")
    return status == 0 and at_a_time(build) == 2, lines


def record_shares(build, shares):
    """How much of a processor each of the crowd needs, the longest first."""
    with open(os.path.join(os.path.dirname(build), "tests", "durations.txt"), "a",
              encoding="utf-8") as file:
        file.writelines(f"{99 - number} {share * (99 - number)} build/crowd{number}\n"
                        for number, share in enumerate(shares, 1))


def more_that_wait(build):
    """The last one has to wait: those before it need a whole processor."""
    record_shares(build, [0.1, 0.2, 0.4, 0.9, 0.9])
    status, lines = run(build, "crowd", None, "--jobs=1")
    return status == 0 and at_a_time(build) == 4, lines


def not_beside_a_busy_one(build):
    """Neither does one that waits begin beside one that needs more than there is."""
    record_shares(build, [1.8, 0.0, 0.0, 0.0, 0.0])
    status, lines = run(build, "crowd", None, "--jobs=1")
    running = lines_of(build, "running")
    return status == 0 and running[:2] == ["begin", "end"] and at_a_time(build) == 4, lines


def not_all_that_wait(build):
    """However little they need, only some more run."""
    record_shares(build, [0.0] * 5)
    status, lines = run(build, "crowd", None, "--jobs=1", "--repeat=3")
    return status == 0 and at_a_time(build) == 6, lines


def as_many_as_asked_for(build):
    record_shares(build, [0.0] * 5)
    status, lines = run(build, "crowd", None, "--jobs=1", "--waiting=2")
    return status == 0 and at_a_time(build) == 3, lines


def one_that_works_among_them(build):
    """The last of the queue works, and is among the first six, although eight that wait are longer."""
    record_shares(build, [0.0] * 4 + [0.9])
    status, lines = run(build, "crowd", None, "--jobs=1", "--repeat=2")
    first = [line for line in lines if " ok " in line][:6]
    at_a_time(build)
    return status == 0 and any("crowd5" in line for line in first), lines


def failure_at_once(build):
    """Its output is there before the test that began with it has ended."""
    process = start(build, "early", None, "--jobs=2")
    seen = []
    for line in process.stdout:
        seen.append(line.rstrip("\n"))
        if "not ok 1 - early" in line:
            break
    still_running = process.poll() is None and not any("later" in line for line in seen)
    seen += process.communicate(timeout=60)[0].splitlines()
    return still_running and process.returncode == 1, seen


def one_cluster(build):
    status, lines = run(build, "ceph", None, "--jobs=2")
    return status == 0 and lines_of(build, "cluster") == ["up", "down"], lines


def second_folder_in_memory(build):
    """A name of its own for the same folder is a second build; its folder in memory is gone after."""
    second = os.path.join(os.path.dirname(build), "second")
    os.symlink(build, second)
    status, lines = run(second, "where", None, build + ":where")
    if status:
        return False, lines
    folders = sorted(lines_of(build, "where"))
    in_memory = [folder for folder in folders if folder.startswith("/dev/shm/holdfast-tests-")]
    on_disk = [folder for folder in folders
               if folder.startswith(os.path.join(tempfile.gettempdir(), "holdfast-tests-"))]
    return (len(folders) == 2 and len(on_disk) >= 1 and sorted(set(in_memory + on_disk)) == folders
            and not any(map(os.path.exists, folders))), lines + folders


def interrupted(build):
    """Ctrl-C or kill stops what runs, and says how far it came."""
    begun = os.path.join(os.path.dirname(build), "hanging")
    for number in (signal.SIGINT, signal.SIGTERM):
        process = start(build, "hang", None, "--jobs=1")
        while not os.path.exists(begun) and process.poll() is None:
            time.sleep(0.01)
        os.remove(begun)
        process.send_signal(number)
        output = process.communicate(timeout=30)[0]
        if process.returncode != 1 or "interrupted after" not in output:
            return False, output.splitlines()
    return True, []


def stubborn_is_killed(build):
    status, lines = run(build, "stubborn")
    return status == 1 and any("did not end within" in line for line in lines), lines


def writes_cases(build):
    path = os.path.join(os.path.dirname(build), "cases")
    status, lines = run(build, "good", None, "--cases=" + path)
    with open(path, encoding="utf-8") as file:
        return status == 0 and file.read() == "".join(
            "build/good: %s\n" % case for case in "abc"), lines


def only_what_changed(build):
    """Of two tests, the one that is made from the changed file."""
    root = os.path.dirname(build)
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b",
                                                  "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", root, *words], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", build, "made.txt"], check=True, stdout=subprocess.DEVNULL)
    nothing, before = run(build, "reach", None, "--changed", "--build")
    with open(os.path.join(root, "source.txt"), "a", encoding="utf-8") as file:
        file.write("b\n")
    status, lines = run(build, "reach", None, "--changed", "--build")
    return (nothing == 0 and before[-1] == "0 passed, 0 failed" and status == 0
            and lines[-1] == "1 passed, 0 failed"), before + lines


def builds_what_it_needs(build):
    made = os.path.join(build, "made.txt")
    if os.path.exists(made):
        os.remove(made)
    status, lines = run(build, "reach", None, "--build")
    return status == 0 and os.path.exists(made), lines


def refuses_what_is_not_built(build):
    made = os.path.join(build, "made.txt")
    if os.path.exists(made):
        os.remove(made)
    status, lines = run(build, "reach")
    return (status == 1 and len(lines) == 1 and lines[0].startswith("run-tests: not built: ")
            and lines[0].endswith("made.txt; use --build")), lines


def bad_usage(build):
    for words in ([], ["--jobs=0", build + ":good"], [build], ["--what", build + ":good"]):
        result = subprocess.run([sys.executable, RUNNER, *words], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if result.returncode == 0 or not result.stdout.startswith("run-tests: "):
            return False, [str(words), result.stdout]
    return True, []


STORIES = [
    ("the longest test starts first, and what runs alone runs last", longest_first),
    ("how long a test took last time decides when it starts", by_recorded_durations),
    ("how long each test took is recorded", records_durations),
    ("as many tests run at a time as were asked for", two_at_a_time),
    ("tests that wait run side by side until they need as much as was asked for", more_that_wait),
    ("nothing begins beside a test that needs more than was asked for", not_beside_a_busy_one),
    ("five more than were asked for run at a time, however little they need", not_all_that_wait),
    ("or as many more as --waiting asks for", as_many_as_asked_for),
    ("a test that works has a place among those that wait", one_that_works_among_them),
    ("a failing test prints its output while others run", failure_at_once),
    ("one cluster serves all tests that want one, and is stopped", one_cluster),
    ("tests of a second build folder have their files in memory if there is room, and leave none",
     second_folder_in_memory),
    ("an interrupt stops what runs and is a failure", interrupted),
    ("a test that ignores the interrupt at its limit is killed", stubborn_is_killed),
    ("the names of all cases can be written down", writes_cases),
    ("what the chosen tests need is built first", builds_what_it_needs),
    ("a test whose program is not built is refused", refuses_what_is_not_built),
    ("a change runs only the tests that it can reach", only_what_changed),
    ("a bad command line is refused with a sentence", bad_usage),
]


def check_row(build, labels, under_ci, last, status, words, *options):
    found, lines = run(build, labels, under_ci, *options)
    totals = [line for line in lines if re.match(r"\d+ passed, \d+ failed", line)]
    good = (lines[-1] == last and totals == [last] and found == status
            and words in "\n".join(lines))
    return good, ["exit status %d instead of %d" % (found, status)] + lines


def main():
    print("1..%d" % (len(EXPECTED) + len(STORIES)))
    failed = False
    with tempfile.TemporaryDirectory(prefix="holdfast-runner-") as root:
        build = make_project(root)
        cases = [(row[0], lambda row=row: check_row(build, *row[1:])) for row in EXPECTED]
        cases += [(sentence, lambda story=story: story(build)) for sentence, story in STORIES]
        for number, (sentence, case) in enumerate(cases, 1):
            good, lines = case()
            failed = failed or not good
            print("%s %d - %s" % ("ok" if good else "not ok", number, sentence), flush=True)
            if not good:
                print("\n".join("# " + line for line in lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

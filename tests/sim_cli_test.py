#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sim_cli_test.py: the program holdfast-sim: what it prints, when it stops, how it ends.

    sim_cli_test.py HOLDFAST_SIM
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

SIM = sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)


def run(*arguments):
    done = subprocess.run([SIM, *arguments], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def number(pattern, text):
    found = re.search(pattern, text, re.M)
    assert found, f"'{pattern}' is not in: {text}"
    return int(found[1])


def a_failing_seed_is_shrunk_and_both_commands_show_it():
    code, _, err = run("--workload", "counter", "--broken-store", "--seed", "5")
    assert code == 1, code
    sentences = re.findall(r"(?:failed|faults): (.*)", err)
    commands = re.findall(r"^  holdfast-sim (.*)$", err, re.M)
    assert len(sentences) == 2 and len(commands) == 2, err
    for sentence, command in zip(sentences, commands):
        code, out, _ = run(*command.split())
        assert code == 1, command
        assert f"FAILED: {sentence}\n" in out, (sentence, command)
    assert number(r"--nodes (\d+)", commands[1]) <= 2, commands[1]
    assert number(r"--operations (\d+)", commands[1]) <= 10, commands[1]


def shrinking_can_be_left_out():
    code, _, err = run("--workload", "counter", "--broken-store", "--no-shrink")
    assert code == 1 and err.count("holdfast-sim --seed") == 1, err


def it_stops_after_so_many_seconds():
    began = time.monotonic()
    code, out, _ = run("--workload", "race", "--seconds", "1")
    assert code == 0 and 0.9 < time.monotonic() - began < 30
    assert number(r"(\d+) of \d+ seeds passed", out) > 10, out


def a_fresh_seed_is_printed_and_is_another_each_time():
    firsts = set()
    for _ in range(3):
        code, out, _ = run("--fresh", "--seeds", "2")
        assert code == 0 and "2 of 2 seeds passed" in out, out
        firsts.add(number(r"^the first seed is (\d+)\n", out))
    assert len(firsts) == 3, firsts


def an_interrupt_ends_it_with_totals():
    child = subprocess.Popen([SIM, "--workload", "race", "--seeds", "100000000"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ticks = 0
    while ticks < 10:  # of processor time: then it is well past its beginning
        with open(f"/proc/{child.pid}/stat", encoding="ascii") as stat:
            ticks = int(stat.read().split()[13])
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, (child.returncode, err)
    assert number(r"(\d+) of \d+ seeds passed", out) > 0, out


def only_qualified_seeds_count():
    code, out, _ = run("--workload", "locks", "--qualified", "--seeds", "3", "--seconds", "30")
    assert code == 0, out
    assert number(r"(\d+) qualified", out) == 3, out
    code, out, _ = run("--workload", "race", "--qualified", "--seeds", "3", "--calm")
    assert code == 0 and "0 qualified, 300 of 300 seeds passed" in out, out
    assert number(r"at least (\d+) faults", out) == 0, out


def a_crash_at_each_call_is_a_run_each():
    code, out, _ = run("--seed", "4", "--nodes", "2", "--operations", "3", "--crash-everywhere")
    left = number(r"(\d+) crashes as a request left", out)
    answered = number(r"(\d+) crashes as a reply came", out)
    runs = 1 + left + answered
    assert code == 0 and left == answered and left > 5, out
    assert f"{runs} of {runs} seeds passed" in out, out
    code, out, _ = run("--seed", "4", "--nodes", "2", "--operations", "3", "--crash-at", "3r",
                       "--trace")
    assert code == 0 and out.count("crashes just as a reply arrives") == 1, out


def a_list_is_run_to_its_first_failure():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "seeds")
        with open(path, "w", encoding="ascii") as out:
            out.write("# a story\n\nrace 1 3 20  # calm?\ncounter 2 3 20 --calm\n")
        code, out, _ = run("--list", path)
        assert code == 0 and "2 of 2 seeds passed" in out, out
        with open(path, "a", encoding="ascii") as out:
            out.write("counter 2 3 20 --broken-store\ncounter 3 3 20\n")
        code, out, err = run("--list", path, "--no-shrink")
        assert code == 1 and "2 of 3 seeds passed" in out, out
        assert "seed 2 failed" in err and "--broken-store" in err, err
        with open(path, "w", encoding="ascii") as out:
            out.write("race 1 3\n")
        code, _, err = run("--list", path)
        assert code == 2 and f"{path}:1: " in err, err


def misuse_is_told():
    for arguments in (["--workload", "nothing"], ["--seeds", "0"], ["--nodes", "65"], ["--what"],
                      ["--without", "crashes,nothing"], ["--crash-at", "0"], ["--crash-at", "r"],
                      ["--crash-at", "3", "--crash-everywhere"], ["word"], ["--list", "/nothing"],
                      ["--mutant", "NOTHING"]):
        code, out, err = run(*arguments)
        assert code == 2 and out == "" and err, arguments


def help_names_everything():
    code, out, _ = run("--help")
    assert code == 0
    for word in ("--crash-everywhere", "late-applies", "epochs", "--no-shrink"):
        assert word in out, word
    assert max(map(len, out.splitlines())) <= 100, max(out.splitlines(), key=len)


def a_fleet_has_figures_and_a_broken_store_is_noticed():
    fleet = ("scale", "--workers", "16", "--partitions", "2", "--minutes", "4", "--json")
    code, out, err = run(*fleet)
    assert code == 0, err
    figures = json.loads(out)
    assert figures["workers"] == 16 and figures["requests"] > 1000, figures
    assert 0.9 < figures["claims_per_s"] / figures["offered_per_s"] < 1.1, figures
    assert figures["lease_puts_per_claim"] >= 1 and figures["all_dollars_a_day"] > 0, figures
    assert run(*fleet)[1] == out, "a seed gives one run"
    code, out, err = run(*fleet, "--broken-store")
    assert code == 1 and out == "" and "written over a version that was not seen" in err, err
    for words in (("--workers", "0"), ("--workers", "10001"), ("--minutes", "x"), ("--what",),
                  ("--workers", "8", "--partitions", "9"), ("word",)):
        code, out, err = run("scale", *words)
        assert code == 2 and out == "" and err.count("\n") == 1, (words, err)
    code, out, _ = run("scale", "--help")
    assert code == 0 and max(map(len, out.splitlines())) <= 100 and "--claim-every" in out, out


TESTS = [a_failing_seed_is_shrunk_and_both_commands_show_it, shrinking_can_be_left_out,
         it_stops_after_so_many_seconds, a_fresh_seed_is_printed_and_is_another_each_time,
         an_interrupt_ends_it_with_totals, only_qualified_seeds_count,
         a_crash_at_each_call_is_a_run_each, a_list_is_run_to_its_first_failure, misuse_is_told,
         help_names_everything, a_fleet_has_figures_and_a_broken_store_is_noticed]


def main():
    failures = 0
    print(f"1..{len(TESTS)}")
    for i, test in enumerate(TESTS, 1):
        try:
            test()
            result = "ok"
        except (AssertionError, subprocess.TimeoutExpired) as failure:
            failures += 1
            result = "not ok"
            print("# " + str(failure).replace("\n", "\n# "))
        print(f"{result} {i} - {test.__name__.replace('_', ' ')}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""release_check_test.py: tools/release-check.py, with a short list of steps on this system: they pass, fail,
are interrupted and continued, and the report says so. Prints TAP.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

from tap_kit import end
from tap_kit import tell as tell_always

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPT = os.path.join(ROOT, "tools/release-check.py")
PATIENCE = 30
STEPS = """good echo good >> {scratch}/ran
picky echo picky >> {scratch}/ran; echo looking for it; test -e {scratch}/fixed
slow {scratch}/slow.sh
"""
# What it starts is not in its process group, and it mounts something.
SLOW = """#!/bin/sh
test ! -e {scratch}/fast || exit 0
mount -t tmpfs tmpfs {scratch}/mounted
touch {scratch}/mounted/inside
setsid sleep {marker} &
sleep {marker} &
echo started > {scratch}/started
wait
"""


def tell(good, sentence, detail=""):
    tell_always(good, sentence, "" if good else detail)


class Scene:
    """A repository of its own, whose README says how to install nothing."""

    def __init__(self, scratch):
        self.scratch, self.marker = scratch, f"86400.{os.getpid()}"
        self.source = os.path.join(scratch, "repository")
        os.makedirs(os.path.join(scratch, "mounted"))
        os.mkdir(self.source)
        self.git("init", "-q", "-b", "main")
        self.commit("README.md", "Install it:\n\n    echo install >> %s/ran\n    test -e README.md\n" % scratch)
        self.write(os.path.join(scratch, "steps"), STEPS.format(scratch=scratch))
        self.write(os.path.join(scratch, "slow.sh"), SLOW.format(scratch=scratch, marker=self.marker))
        os.chmod(os.path.join(scratch, "slow.sh"), 0o755)

    def write(self, path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def git(self, *words):
        return subprocess.run(["git", "-C", self.source, "-c", "user.name=t", "-c", "user.email=t@example.invalid", *words],
                              check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def commit(self, name, text):
        self.write(os.path.join(self.source, name), text)
        self.git("add", name)
        self.git("commit", "-q", "-m", name)

    def start(self, *words):
        return subprocess.Popen([SCRIPT, "--root", "/", "--source", self.source, "--folder", self.scratch + "/build",
                                 "--evidence", self.source + "/docs/evidence", "--table", self.scratch + "/steps", *words],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *words):
        process = self.start(*words)
        output = process.communicate(timeout=PATIENCE)[0]
        return process.returncode, output

    def ran(self):
        path = os.path.join(self.scratch, "ran")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            words = file.read().split()
        os.remove(path)
        return words

    def report(self):
        revision = self.git("log", "-1", "--format=%H", "--", ".", ":!docs/evidence")
        with open(f"{self.source}/docs/evidence/release-check-{revision[:12]}.log", encoding="utf-8") as file:
            return file.read()

    def result(self, name):
        return next(line.split()[1] for line in self.report().splitlines() if line.startswith(name + " "))

    def left(self):
        """Processes of the slow step, and its mount."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                    found += [pid] if self.marker in file.read() else []
            except OSError:
                pass
        with open("/proc/self/mounts", encoding="utf-8") as file:
            return found + [line for line in file if self.scratch in line]

    def start_slow(self, *words):
        process = self.start(*words)
        path = os.path.join(self.scratch, "started")
        until(lambda: os.path.exists(path) or process.poll() is not None)
        if os.path.exists(path):
            os.remove(path)
        return process


def until(condition):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def check_fail(scene):
    status, output = scene.run("good", "picky")
    tell(status == 1 and scene.ran() == ["install", "good", "picky"], "chosen steps are run, after README's first block", output)
    tell([scene.result(name) for name in ("install", "good", "picky", "slow")] == ["passed", "passed", "failed", "not"],
         "the report says which step passed, which failed, and which was not run", scene.report())
    tell("# partial: 2 of 4 steps passed at this revision" in scene.report(), "it is partial", scene.report())
    revision = scene.git("rev-parse", "HEAD")
    with open(f"{scene.scratch}/build/{revision}/picky.log", encoding="utf-8") as file:
        text = file.read()
    tell("looking for it" in text, "a step has a log of all it printed", text)
    line = next(line for line in scene.report().splitlines() if line.startswith("good "))
    tell(revision[:12] in line and " s  20" in line and "kernel" in line, "a line has duration, revision and machine", line)


def check_interrupted(scene):
    process = scene.start_slow("slow")
    tell(until(lambda: bool(scene.left())), "a step is running")  # its processes exist before they have their names
    status, output = scene.run("good")
    tell(status == 2 and "another release-check is running" in output, "a second release-check at the same time is refused", output)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=PATIENCE)[0]
    tell(process.returncode == 130 and scene.result("slow") == "interrupted", "Ctrl-C interrupts a step, and is reported", output)
    tell(scene.left() == [], "no process and no mount is left", str(scene.left()))
    process = scene.start_slow("slow")
    process.kill()
    process.communicate(timeout=PATIENCE)
    tell(until(lambda: scene.left() == []), "nor if release-check is killed", str(scene.left()))


def check_make(scene):
    """With a debootstrap that never ends."""
    bin_folder = os.path.join(scene.scratch, "bin")
    scene.write(os.path.join(bin_folder, "debootstrap"), f"#!/bin/sh\ntouch {scene.scratch}/started\nsleep {scene.marker}\n")
    scene.write(os.path.join(bin_folder, "apt-get"), "#!/bin/sh\necho http://mirror.invalid\n")
    for name in os.listdir(bin_folder):
        os.chmod(os.path.join(bin_folder, name), 0o755)
    process = subprocess.Popen(["sh", os.path.join(ROOT, "tools/chroot.sh"), "make", scene.scratch + "/bare"],
                               env=dict(os.environ, PATH=bin_folder + ":" + os.environ["PATH"]),
                               stdout=subprocess.DEVNULL)
    started = until(lambda: os.path.exists(scene.scratch + "/started") and scene.left())
    process.kill()
    process.wait()
    tell(started and until(lambda: scene.left() == []), "debootstrap ends with the process that waits for it", str(scene.left()))
    os.remove(scene.scratch + "/started")


# A system with four programs, and an apt-get that has nothing to do.
DEBOOTSTRAP = """#!/bin/sh -eu
mkdir -p "$3"
cd "$3"
mkdir -p bin dev etc/apt/apt.conf.d etc/apt/sources.list.d etc/dpkg/dpkg.cfg.d mnt proc run sys
for program in sh chroot mount umount; do
    path=$(command -v $program)
    cp "$path" bin/
    ldd "$path" | grep -o '/[^ ]*' | while read -r library; do mkdir -p ".${{library%/*}}"; cp "$library" ".$library"; done
done
printf '#!/bin/sh\\n' >bin/apt-get
chmod +x bin/apt-get
"""


def check_certificates(scene):
    """The file may be that of a package that a step installs there."""
    bin_folder, root = os.path.join(scene.scratch, "bin"), scene.scratch + "/tiny"
    scene.write(os.path.join(bin_folder, "debootstrap"), DEBOOTSTRAP.format())
    scene.write(scene.scratch + "/ca-certificates.crt", "trusted")
    script = os.path.join(ROOT, "tools/chroot.sh")
    environment = dict(os.environ, PATH=bin_folder + ":" + os.environ["PATH"],
                       NODE_EXTRA_CA_CERTS=scene.scratch + "/ca-certificates.crt")
    said = ""
    for words in (["make", root], ["run", root, 'read line <"$NODE_EXTRA_CA_CERTS" || echo "$NODE_EXTRA_CA_CERTS $line"'],
                  ["run", "/", 'echo "$NODE_EXTRA_CA_CERTS"']):
        said += subprocess.run(["sh", script, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, timeout=PATIENCE).stdout
    tell("/etc/extra-certificates.crt trusted\n" in said and said.endswith("/ca-certificates.crt\n"),
         "the certificates that npm needs have a file of their own there", said)


def check_resumed(scene):
    for name in ("fixed", "fast"):
        scene.write(os.path.join(scene.scratch, name), "")
    scene.ran()
    status, output = scene.run()
    tell(status == 0 and scene.ran() == ["picky"], "a second run does only what has not passed", output)
    tell("# complete: all 4 steps passed at this revision" in scene.report(), "the report is complete", scene.report())
    scene.git("add", "docs")
    scene.git("commit", "-q", "-m", "evidence")
    status, output = scene.run()
    tell(status == 0 and scene.ran() == [] and "# complete" in output, "a commit of evidence is no other revision", output)
    scene.commit("code", "new")
    status, output = scene.run("good")
    tell(status == 0 and scene.ran() == ["install", "good"] and "# partial: 2 of 4" in scene.report(),
         "what has passed at another revision does not count", output)
    shutil.rmtree(scene.scratch + "/build")
    status, output = scene.run("good", "picky")
    tell(status == 0 and scene.ran() == ["install", "picky"] and "# partial: 3 of 4" in scene.report(),
         "another machine continues with the report", output)
    status, output = scene.run("--again", "good")
    tell(status == 0 and scene.ran() == ["good"], "--again runs a step that has passed", output)


def check_steps():
    """The real ones are not run here."""
    listed = subprocess.run([SCRIPT, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
        targets = re.findall(r"(?m)^([a-z0-9-]+):", file.read())
    wanted = re.findall(r"\bmake ([a-z0-9-]+)", listed)
    tell(len(wanted) > 10 and set(wanted) <= set(targets), "every step is a target of make", str(set(wanted) - set(targets)))


def main():
    check_steps()
    with tempfile.TemporaryDirectory(prefix="holdfast-release-check-") as scratch:
        scene = Scene(scratch)
        status, output = scene.run("bad")
        tell(status == 2 and "unknown step 'bad'; the steps are install good picky slow" in output,
             "an unknown step is refused, and the known ones are listed", output)
        check_fail(scene)
        check_interrupted(scene)
        check_make(scene)
        check_certificates(scene)
        check_resumed(scene)
    done = subprocess.run([SCRIPT, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
        makefile = file.read()
    targets = [words.split("make ", 1)[1].split()[0].rstrip(";") for words in done.splitlines() if "make " in words]
    tell(len(targets) > 10 and all(f"\n{name}:" in makefile for name in targets), "every step is a target of make", done)
    return end()


if __name__ == "__main__":
    sys.exit(main())

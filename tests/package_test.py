#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""package_test.py: the Debian packages, on a system that has nothing else.

    package_test.py [FOLDER]    FOLDER holds packages; default: they are built first, by tools/deb.sh

A clean Debian 12 is made by debootstrap, from the mirror that apt uses. The packages are installed
there. Then a lock, the C examples (shared and static), the Python example and the server are run,
the last one by systemd, which is started in namespaces of its own, with the unit as it is
installed. At the end the packages are purged. Needs root. Prints TAP.
"""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree

from tap_kit import end, say, tell, took

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGES = ["holdfast", "libholdfast0", "libholdfast-dev", "python3-holdfast"]
TOOLS = ["curl", "gcc", "libc6-dev", "pkg-config", "systemd"]
EXPOSURE_MAX = 2.0  # of 10, by systemd-analyze
PATIENCE = 120
HELD = 89  # an exit status
TOKEN = "token-of-the-test-0123456789abcdef"
EXAMPLES = "/usr/share/doc/libholdfast-dev/examples"

# A process in namespaces of its own, and the root it sees.
MOUNTS = """
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "$root/dev/${device%:*}" c 1 "${device#*:}"
done
mknod -m 666 "$root/dev/tty" c 5 0
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs tmpfs "$root/tmp"
"""
# systemd needs a tree of control groups, which is below one of ours and ends with it, and a root of its
# own, not just a chroot, below which it makes the namespaces of services.
BOOT = """
mount -t cgroup2 cgroup2 /mnt
mkdir "/mnt/$group"
echo $$ > "/mnt/$group/cgroup.procs"
umount /mnt
exec unshare --cgroup sh -euc "$inside"
"""
INSIDE = MOUNTS + """
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
ip link set lo up
cd "$root"
pivot_root . mnt
exec chroot . sh -euc 'umount -l /mnt; mount --make-rshared /; exec env -i container=chroot \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=basic.target --show-status=no'
"""


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL, timeout=900, **options)


class Chroot:
    def __init__(self, folder):
        self.path = os.path.join(folder, "root")

    def make(self):
        sites = run("apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages",
                    "Codename: bookworm").stdout.split()
        done = run("debootstrap", "--variant=minbase", "bookworm", self.path, sites[0])
        for name in ("sources.list.d", "apt.conf.d"):
            shutil.copytree(f"/etc/apt/{name}", f"{self.path}/etc/apt/{name}", dirs_exist_ok=True)
        shutil.copy("/etc/resolv.conf", f"{self.path}/etc/resolv.conf")
        return done

    def run(self, script, user="root"):
        """Runs a script in the chroot, which sees only its own processes."""
        return run("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "sh", "-euc",
                   MOUNTS + 'exec chroot --userspec="$user" "$root" sh -euc "$script"',
                   env={"root": self.path, "user": user, "script": script, "HOME": "/tmp", "LC_ALL": "C.UTF-8",
                        "DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def check(self, sentence, script, wanted="", user="root"):
        done = self.run(script, user)
        tell(done.returncode == 0 and re.search(wanted, done.stdout) is not None, sentence,
             "" if done.returncode == 0 and re.search(wanted, done.stdout) else
             f"status {done.returncode}\n{done.stdout[-3000:]}")
        return done.stdout

    def files(self):
        """All that is there, but for what apt and dpkg keep about their own work."""
        skipped = [os.path.join(self.path, name) for name in
                   ("proc", "sys", "dev", "tmp", "var/lib/dpkg", "var/lib/apt", "var/log", "var/cache",
                    "var/lib/systemd/deb-systemd-helper-enabled", "var/lib/systemd/deb-systemd-helper-masked")]
        found = set()
        for folder, folders, files in os.walk(self.path):
            folders[:] = [name for name in folders if os.path.join(folder, name) not in skipped]
            found |= {os.path.relpath(os.path.join(folder, name), self.path) for name in folders + files}
        return found


# ---- Systemd ------------------------------------------------------------------------------------


class Systemd:
    """systemd as process 1 of a chroot, without any network but its loopback."""

    def __init__(self, chroot):
        self.group = f"holdfast-package-test-{os.getpid()}"
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "sh", "-euc", BOOT],
            env=dict(os.environ, root=chroot.path, group=self.group, inside=INSIDE),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait()

    def child(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as file:
            return file.read().strip()

    def wait(self):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.process.poll() is None:
            done = self.run("systemctl is-system-running") if self.child() else None
            if done and re.search("running|degraded", done.stdout):
                return
            time.sleep(0.2)

    def run(self, script):
        return run("nsenter", f"--target={self.child()}", "--all", "--root", "sh", "-euc", "cd /\n" + script,
                   env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"})

    def check(self, sentence, script, wanted=""):
        done = self.run(script)
        good = done.returncode == 0 and re.search(wanted, done.stdout) is not None
        tell(good, sentence, "" if good else f"status {done.returncode}\n{done.stdout[-3000:]}")
        return done.stdout

    def close(self):
        self.process.kill()
        self.process.wait()
        run("unshare", "--mount", "sh", "-c", 'mount -t cgroup2 cgroup2 /mnt; cd "/mnt/$0" || exit; '
            "for i in 1 2 3 4 5; do find . -depth -mindepth 1 -type d -exec rmdir {} +; "
            'cd /mnt; rmdir "$0" && exit; cd "$0"; sleep 0.5; done', self.group)


# ---- What the packages offer --------------------------------------------------------------------


def check_program(chroot):
    chroot.check("a command runs under a lock, as a user without any rights",
                 "cd /tmp; export HOLDFAST_STORE=sqlite:locks.db\n"
                 "holdfast run deploy -- sh -c 'echo token $HOLDFAST_TOKEN'; "
                 "holdfast run deploy -- sh -c 'echo token $HOLDFAST_TOKEN; env -i HOLDFAST_STORE=sqlite:locks.db "
                 "/usr/bin/holdfast run deploy --wait 0 -- true || echo status $?'", rf"token 1\ntoken 2\n(.*\n)*status {HELD}", user="nobody:nogroup")
    done = chroot.run("AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b AWS_ENDPOINT_URL=https://127.0.0.1:1 "
                      "timeout 20 holdfast --store s3://bucket/x locks ls || echo failed")
    tell("failed" in done.stdout and not re.search(r"lib\w+\.so", done.stdout),
         "every library that a network store loads is there", done.stdout[-500:])
    table = json.loads(chroot.run("holdfast help --json").stdout)
    pages = {"holdfast-" + row["command"].replace(" ", "-") for row in table["commands"]} | {"holdfast"}
    listed = chroot.run("dpkg -L holdfast").stdout
    missing = sorted(page for page in pages if f"/man1/{page}.1.gz" not in listed)
    tell(len(pages) > 60 and not missing, f"each of {len(pages) - 1} commands has a manual page", str(missing))
    tell(all(path in listed for path in ("bash-completion/completions/holdfast", "vendor-completions/_holdfast",
                                         "vendor_completions.d/holdfast.fish")),
         "completions for bash, zsh and fish are where their shells look")
    tell(all(path in listed for path in ("/usr/libexec/holdfast/holdfast-serve", "/usr/libexec/holdfast/holdfast-top")),
         "the server and top are installed")
    chroot.check("holdfast top finds its libraries", "holdfast top --help")


def check_libraries(chroot):
    line = f"cd /tmp; cc -Wall -Werror -o lock {EXAMPLES}/lock.c $(pkg-config --cflags --libs holdfast)\n"
    chroot.check("a C example is built by pkg-config, with the shared library",
                 line + "ldd lock; ./lock sqlite:a.db", r"libholdfast\.so\.0 => /(.*\n)*it is ours, with token 1")
    line = f"cd /tmp; cc -static -o lock {EXAMPLES}/lock.c $(pkg-config --static --cflags --libs holdfast)\n"
    chroot.check("and with the static library", line + "ldd lock 2>&1 || :; ./lock sqlite:a.db",
                 r"not a dynamic executable\n(.*\n)*it is ours, with token 1")
    chroot.check("every other C example is built, too", "cd /tmp; for file in " + EXAMPLES + "/*.c; do cc -Wall -Werror "
                 "-o example $file $(pkg-config --cflags --libs holdfast) -pthread; ./example mem: >/dev/null; done")
    chroot.check("the Python example runs", "cd /tmp; python3 /usr/share/doc/python3-holdfast/examples/lock.py "
                 "sqlite:a.db", "it is ours, with token 1", user="nobody:nogroup")
    chroot.check("manual pages of functions are installed", "ls /usr/share/man/man3/hf_lock_acquire.3.gz")


SERVE = f"""
mkdir -p /etc/holdfast
echo "ci $(printf %s {TOKEN} | sha256sum | cut -d' ' -f1) admin *" > /etc/holdfast/tokens
chmod 600 /etc/holdfast/tokens
systemctl start holdfast-serve
systemctl is-active holdfast-serve
"""
ASK = f"""curl -sS -H 'Authorization: Bearer {TOKEN}' -H 'Content-Type: application/json' \
    http://127.0.0.1:9341/v1/acquire -d '{{"key":"deploy","owner":"ci","ttl_seconds":300,"block_seconds":-1}}'"""
STATE = "cat /proc/$(systemctl show -P MainPID holdfast-serve)/status"


def check_unit(systemd):
    tell("inactive" in systemd.run("systemctl is-active holdfast-serve || :").stdout,
         "the installation starts no server")
    done = systemd.check("systemd-analyze finds nothing wrong in the unit",
                         "systemd-analyze verify --man=no holdfast-serve.service 2>&1")
    tell("holdfast" not in done, "and says nothing of it", done)
    done = systemd.run("systemd-analyze security --offline=true --no-pager /lib/systemd/system/holdfast-serve.service")
    found = re.search(r"exposure level.*: ([\d.]+)", done.stdout)
    tell(bool(found) and float(found[1]) <= EXPOSURE_MAX, "its exposure is low", found[0] if found else done.stdout)
    systemd.check("systemd starts the server, with all restrictions of the unit", SERVE, "^active$")
    systemd.check("a client acquires a lease", ASK, '"fencing_token":1')
    state = systemd.run(STATE).stdout
    say(" ".join(re.findall(r"(?m)^((?:Uid|CapEff|NoNewPrivs|Seccomp):.*)$", state)).replace("\t", " "))
    tell(re.search(r"(?m)^Uid:\t(?!0\t)\d+", state) is not None, "the server runs as a user of its own")
    tell("Seccomp:\t2" in state and "NoNewPrivs:\t1" in state, "behind a filter of system calls")
    tell(re.search(r"(?m)^CapEff:\t0+$", state) is not None, "without any capability")
    systemd.check("the store survives a restart, and so does the lease",
                  "systemctl restart holdfast-serve; ls /var/lib/holdfast; " + ASK + " || :", "locks.db(.*\n)*.*waiting")
    systemd.check("the program is a client of the server",
                  f"export HOLDFAST_STORE=http://127.0.0.1:9341 HOLDFAST_SERVER_TOKEN_FILE=/run/token; (umask 77; printf %s {TOKEN} "
                  "> /run/token); holdfast run other -- echo served", "served")
    systemd.check("it reloads its tokens", "systemctl reload holdfast-serve; systemctl is-active holdfast-serve", "^active$")
    systemd.check("it stops in order", "systemctl stop holdfast-serve; systemctl show -P Result holdfast-serve; "
                  "rm /run/token", "success")


def check_server(chroot):
    systemd = Systemd(chroot)
    try:
        check_unit(systemd)
    finally:
        systemd.close()


# ---- From the installation to the purge -----------------------------------------------------------


def find_packages(folder):
    architecture = run("dpkg", "--print-architecture").stdout.strip()
    found = [path for name in PACKAGES for kind in (architecture, "all")
             for path in glob.glob(os.path.join(folder, f"{name}_*_{kind}.deb"))]
    return found if len(found) == len(PACKAGES) else []


def story(folder, packages):
    chroot = Chroot(folder)
    begun = time.monotonic()
    done = chroot.make()
    tell(done.returncode == 0, "debootstrap makes a clean system", "" if done.returncode == 0 else done.stdout[-2000:])
    took("debootstrap", begun)
    os.mkdir(f"{chroot.path}/packages")
    for path in packages:
        shutil.copy(path, f"{chroot.path}/packages/")
    chroot.check("apt installs the packages and what they depend on, and nothing that they recommend",
                 "apt-get -q update; apt-get -q -y install --no-install-recommends /packages/*.deb "
                 + shlex.join(TOOLS))
    purge = "dpkg --purge " + shlex.join(PACKAGES)
    chroot.check("they are purged", purge)
    bare = chroot.files()
    tell(not [path for path in bare if "holdfast" in path and not path.startswith("packages/")], "which leaves nothing",
         str(sorted(path for path in bare if "holdfast" in path)[:20]))
    chroot.check("they are installed again", "dpkg -i /packages/*.deb")
    check_program(chroot)
    check_libraries(chroot)
    check_server(chroot)
    chroot.check("an upgrade leaves the tokens as they are", "dpkg -i /packages/*.deb; ls /etc/holdfast", "tokens")
    chroot.check("a configuration of the whole machine is found", "printf '[defaults]\\nttl = 45s\\n' > /etc/holdfast/holdfast.conf; "
                 "holdfast config check; holdfast config show", "45s")
    chroot.check("a removal leaves the configuration, the tokens and the store of the server",
                 "touch /etc/holdfast/tokens~ /etc/holdfast/serve.env.bak /etc/holdfast/tls.key; dpkg --remove "
                 + shlex.join(PACKAGES) + "; ls -a /etc/holdfast /var/lib/private/holdfast",
                 r"holdfast\.conf\n(.*\n)*tls\.key\ntokens\n(.*\n)*locks\.db")
    chroot.check("they are purged after use", purge)
    left = sorted(path for path in chroot.files() - bare if not path.startswith(("run/", "var/lib/systemd/", "root/")))
    left = [path for path in left if path not in ("etc/machine-id", "var/lib/private")]
    tell(left == ["etc/holdfast", "etc/holdfast/tls.key"],
         "which leaves nothing of ours, neither tokens nor the store of the server, and a key of the administrator",
         str(left[:20]))
    chroot.check("without other files, the folder goes too", "rm /etc/holdfast/tls.key; dpkg -i /packages/*.deb; "
                 "touch /etc/holdfast/tokens; " + purge + "; ls -d /etc/holdfast || echo gone", "gone")
    tell(not bare - chroot.files(), "and nothing else is removed", str(sorted(bare - chroot.files())[:20]))


def main():
    if os.geteuid() != 0:
        print("1..0 # skip debootstrap needs root")
        return 0
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build-deb")
    if len(sys.argv) == 1:
        begun = time.monotonic()
        done = run("sh", os.path.join(ROOT, "tools/deb.sh"))
        tell(done.returncode == 0, "the packages are built, and lintian has neither errors nor warnings",
             "" if done.returncode == 0 else done.stdout[-3000:])
        took("tools/deb.sh", begun)
    packages = find_packages(folder)
    tell(bool(packages), "there are four packages")
    if packages:
        scratch = tempfile.mkdtemp(prefix="holdfast-package-")
        try:
            story(scratch, packages)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return end()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""install_test.py: what `make install` installs is enough for others to build on: a scratch DESTDIR,
pkg-config, the static and the shared library, and C++.
"""

import os
import subprocess
import sys
import tempfile

from tap_kit import end, tell

BUILD = os.environ["HOLDFAST_BUILD"]
SOURCE = os.path.dirname(os.environ["HOLDFAST_TESTS"])

# README's lines in C, and what a caller gets wrong.
PROGRAM = r"""
#include <holdfast.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    struct hf_client *client;
    struct hf_lock *lock;
    struct hf_error error;
    struct hf_client_options client_options = HF_CLIENT_OPTIONS;
    struct hf_lock_options lock_options = HF_LOCK_OPTIONS;
    struct hf_key_options key_options = HF_KEY_OPTIONS;
    struct hf_txn_options txn_options = HF_TXN_OPTIONS;
    if (lock_options.ttl_ms != 30000 || lock_options.mode != HF_EXCLUSIVE ||
        lock_options.notify || key_options.ttl_ms != 30000 || key_options.staged ||
        client_options.ns || client_options.skew_tolerance_ms != -1 || txn_options.id)
        return 2;
    if (hf_client_open("nonsense", NULL, &client, &error) != HF_INVALID)
        return 3;
    if (hf_client_open("mem:", &client_options, &client, &error) != HF_OK ||
        hf_lock_new(client, "deploy", &lock_options, &lock, &error) != HF_OK ||
        hf_lock_acquire(lock, 1000, &error) != HF_OK ||
        hf_fenced_put(lock, "state.json", "{}", 2, &error) != HF_OK ||
        hf_lock_release(lock, &error) != HF_OK) {
        puts(error.why);
        return 1;
    }
    hf_lock_free(lock);
    hf_client_close(client);
    puts(hf_version());
    return 0;
}
"""

WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Werror"]


def run(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def output(result):
    return f"$ {' '.join(result.args)}\n{result.stdout}{result.stderr}"


class Installed:
    """What stands under a DESTDIR, by the names of its .pc file."""

    def __init__(self, root):
        self.root = root
        self.result = run("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", root)
        found = [folder for folder, _, files in os.walk(root) if "holdfast.pc" in files]
        self.pc = found[0] if found else root
        prefix = run("pkg-config", "--variable=prefix", os.path.join(self.pc, "holdfast.pc"))
        self.prefix = root + prefix.stdout.strip()
        self.libraries = os.path.dirname(self.pc)

    def flags(self, *options):
        result = run("pkg-config", f"--define-variable=prefix={self.prefix}", *options, "holdfast",
                     env=dict(os.environ, PKG_CONFIG_PATH=self.pc))
        return result.stdout.split(), result

    def build(self, compiler, source, *flags):
        program = os.path.join(self.root, "program")
        result = run(*compiler, "-o", program, os.path.join(self.root, source), *flags)
        if result.returncode == 0:
            result = run(program, env=dict(os.environ, LD_LIBRARY_PATH=self.libraries))
        return result

    def path(self, *parts):
        return os.path.join(self.prefix, *parts)


def check_libraries(installed):
    for source in ("program.c", "program.cc"):
        with open(os.path.join(installed.root, source), "w", encoding="utf-8") as file:
            file.write(PROGRAM)
    flags, _ = installed.flags("--cflags", "--libs")
    result = installed.build(["cc", "-std=c11", *WARNINGS], "program.c", *flags)
    tell(result.returncode == 0, "pkg-config --libs links a program with the shared library",
         output(result))
    for standard in ("c++17", "c++20"):
        result = installed.build(["g++", f"-std={standard}", *WARNINGS], "program.cc", *flags)
        tell(result.returncode == 0,
             f"the header and its initialisers are good {standard}, warnings being errors",
             output(result))

    flags, named = installed.flags("--static", "--cflags", "--libs")
    tell(not {"-lcurl", "-lcrypto", "-lssl"} & set(flags),
         "what is loaded at run time is not named by pkg-config --static", output(named))
    flags = ["-l:libholdfast.a" if flag == "-lholdfast" else flag for flag in flags]
    result = installed.build(["cc", "-std=c11", *WARNINGS], "program.c", *flags)
    needed = run("objdump", "-p", os.path.join(installed.root, "program")).stdout
    tell(result.returncode == 0 and "libsqlite3.so" in needed and "libholdfast" not in needed,
         "pkg-config --static --libs links it with -l:libholdfast.a, though the shared library is there", output(result))


def check_pages(installed):
    found = {os.path.relpath(os.path.join(folder, file), installed.prefix)
             for folder, _, files in os.walk(installed.prefix) for file in files}
    expected = {"bin/holdfast", "libexec/holdfast/holdfast-parquet",
                "libexec/holdfast/holdfast-serve", "lib/systemd/system/holdfast-serve.service",
                "share/bash-completion/completions/holdfast.bash",
                "share/zsh/site-functions/_holdfast",
                "share/fish/vendor_completions.d/holdfast.fish", "share/man/man1/holdfast.1",
                "share/man/man1/holdfast-store-get.1",
                "share/man/man3/holdfast.3", "share/man/man3/holdfast-lock.3", "share/man/man3/hf_lock_acquire.3", "include/holdfast.h", "include/holdfast/lock.h"}
    tell(expected <= found, "the program, its pages and the scripts of three shells are installed",
         str(sorted(expected - found)))


def check_setup(root):
    """On a machine without any package, with an apt-get that only notes that it was called."""
    folder = os.path.join(root, "fake")
    os.mkdir(folder)
    for name, line in (("dpkg-query", "exit 0"), ("id", "echo 0"),
                       ("apt-get", "echo called >> \"$0.log\"; exit 1")):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{line}\n")
        os.chmod(os.path.join(folder, name), 0o755)
    env = dict(os.environ, PATH=folder + ":" + os.environ["PATH"])
    log = os.path.join(folder, "apt-get.log")
    for target in ("needs", "install"):
        result = run("make", target, f"DESTDIR={root}/none", env=env, cwd=SOURCE)
        tell(result.returncode != 0 and "make setup" in result.stderr and "meson" in result.stderr
             and not os.path.exists(log),
             f"make {target} installs no package, and says what is missing", output(result))
    result = run("make", "setup", env=env, cwd=SOURCE)
    tell("installing with apt-get: gcc " in result.stdout and os.path.exists(log),
         "make setup says what it installs, then does", output(result))
    for architecture, other in (("amd64", "aarch64"), ("arm64", "x86-64")):
        with open(os.path.join(folder, "dpkg"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho {architecture}\n")
        os.chmod(os.path.join(folder, "dpkg"), 0o755)
        result = run("sh", "tools/setup.sh", "--check", "release", env=env, cwd=SOURCE)
        compilers = [word for word in result.stderr.split() if word.startswith("gcc-")]
        tell(compilers == [f"gcc-{other}-linux-gnu"], f"a release is made on {architecture} with gcc and a compiler "
             "for the other architecture", output(result))


def main():
    with tempfile.TemporaryDirectory() as root:
        installed = Installed(root)
        tell(installed.result.returncode == 0, "it installs into a scratch DESTDIR",
             output(installed.result))
        check_pages(installed)
        check_libraries(installed)
        check_setup(root)
    return end()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""parquet_helper_test.py: the process that loads DuckDB's library: what it may do, what comes of it
when it crashes, hangs, lies or is missing, and mergers of other programs, which do without it.

Prints TAP. Scratch folders are those of cli_test.py. Skipped where DuckDB's library is missing.
"""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time

import cases
import cli_test
import duckdb_kit
from cli_test import code, equal, it, true
from duckdb_kit import quote
from parquet_test import (HELPER, LATEST, LIBRARY, create, ingest, live, main, merge, names, parquet,
                          refused, rows, run_all, some_chunks, values, write)

cases.cases.clear()


def use_fake(s, *options):
    """DuckDB with bad habits (duckdb_fake.c)."""
    fake = s.file("libfake.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", *options, f'-DREAL="{LIBRARY}"',
                    f'-DESCAPES="{s.file("escapes")}"', "-o", fake,
                    os.path.join(duckdb_kit.TESTS, "duckdb_fake.c"), "-Wl,--no-as-needed", LIBRARY,
                    "-Wl,-rpath," + os.path.dirname(LIBRARY)], check=True)
    s.env["HOLDFAST_DUCKDB"] = fake


def write_marked(s, name, mark, lot):
    return write(s, name, values(*lot), f", KV_METADATA {{note: 'holdfast-test-{mark}'}}")


# ---- Faults -------------------------------------------------------------------------------------


@parquet("a helper that crashes, hangs, takes memory or says nothing fails the merge with a sentence")
def _(s):
    use_fake(s)
    write(s, "good.parquet", values((1, 1, 1)))
    merge(s, LATEST, ["good.parquet"])
    os.remove(s.file("out.parquet"))
    for mark, status, words in (
            ("crash", "UNAVAILABLE", "'holdfast-parquet' was killed by signal 11 (Segmentation fault)"),
            ("late", "UNAVAILABLE", "'holdfast-parquet' was killed by signal 11 (Segmentation fault)"),
            ("eat", "UNAVAILABLE", "'holdfast-parquet' was killed by signal 6 (Aborted)"),
            ("leave", "UNAVAILABLE", "holdfast-parquet wrote no valid report"),
            ("hang", "TIMEOUT", "'holdfast-parquet' did not finish within 2s and was killed")):
        if mark == "eat" and cli_test.SANITIZED:
            continue  # without a limit
        write_marked(s, "bad.parquet", mark, [(2, 2, 2)])
        begun = time.monotonic()
        text = refused(s, status, LATEST + ["--time-limit", "2s" if mark == "hang" else "60s"],
                       ["good.parquet", "bad.parquet"])
        true(words in text, text)
        true(time.monotonic() - begun < 60, "it ends in time")
        os.remove(s.file("bad.parquet"))


@parquet("a chunk on which the helper crashes is quarantined in the end, and the others are merged",
         ["dir"])
def _(s):
    create(s, "--tries", "1", "--time-limit", "60s")
    files = some_chunks(s, 5)
    write_marked(s, files[3], "crash", [(50, 3, 3)])
    keys = ingest(s, *files)
    use_fake(s)
    for _ in range(8):
        done = s.run("compact", "run", "--jobs", "1", "--force", "--json",
                     expect=None)
        quarantined = [chunk for chunk in live(s) if chunk["quarantine"]]
        if quarantined and len(live(s)) == 2:
            break
    equal([chunk["key"] for chunk in quarantined], [keys[3]])
    true("holdfast-parquet" in quarantined[0]["quarantine"], quarantined)
    equal(sorted(chunk["rows"] for chunk in live(s)), [1, 5], done.stderr)


# A helper that answers whether it works, and otherwise does what the script says. In the script,
# $1 is the request, $2 the report, and $out the output.
LIAR = """#!/bin/sh
case "$(tr '\\0' '\\n' < "$1" | sed -n 2p)" in 0) exec {helper} "$@" ;; esac
out=$(tr '\\0' '\\n' < "$1" | sed -n '/^output$/{{n;p}}')
{script}
"""


def use_liar(s, script, report=b""):
    s.write("report", report)
    s.write("liar", LIAR.format(helper=HELPER, script=script).encode())
    os.chmod(s.file("liar"), 0o755)
    s.env["HOLDFAST_PARQUET"] = s.file("liar")


def report_of(**members):
    """A report as the helper writes it."""
    with open(os.path.join(duckdb_kit.TESTS, "../src/merge/parquet_message.c"), encoding="utf-8") as file:
        told = {name: "" if is_text == "true" else 0
                for name, is_text in re.findall(r"REPORT\((\w+), (true|false)\)", file.read())}
    true(told and set(members) <= set(told), members)
    return "".join(f"{name}\0{value}\0" for name, value in {**told, **members}.items()).encode()


@parquet("what a helper reports is not believed, and no report blames nobody")
def _(s):
    write(s, "a.parquet", values((1, 1, 1), (2, 2, 2)))
    good = report_of(rows_in=2, rows_out=2)
    answer = f'cat "{s.file("report")}" > "$2"; '
    copy = f'cp "{s.file("a.parquet")}" "$out"; '
    use_liar(s, answer + copy, good)
    merge(s, LATEST, ["a.parquet"])
    os.remove(s.file("out.parquet"))
    for script, report, status, words in (
            (answer, b"", "UNAVAILABLE", "wrote no valid report"),
            (answer, os.urandom(50), "UNAVAILABLE", "wrote no valid report"),
            (answer, bytes(1 << 20), "UNAVAILABLE", "wrote no valid report"),
            (answer + copy, good[:-1], "UNAVAILABLE", "wrote no valid report"),
            (answer + copy, good + b"more\0", "UNAVAILABLE", "wrote no valid report"),
            (answer + copy, report_of(status=99), "UNAVAILABLE", "wrote no valid report"),
            (answer + copy, report_of(status=1, why="x", input=2), "UNAVAILABLE", "wrote no valid report"),
            (answer + copy, report_of(rows_in=3, rows_out=2), "CORRUPT", "the rows do not add up"),
            (answer + copy, report_of(rows_in=2, rows_out=1, rows_superseded=1), "CORRUPT", "do not add up"),
            (answer + copy, report_of(rows_in=2, rows_out=2, rows_superseded=2**64 - 1, rows_rejected=1), "CORRUPT", ""),
            (answer, good, None, ""),
            (answer + 'echo no > "$out"', good, "UNAVAILABLE", "the merged file cannot be read back"),
            (answer + f'ln -s "{s.file("a.parquet")}" "$out"', good, None, ""),
            (answer + copy + "exit 3", good, "UNAVAILABLE", "'holdfast-parquet' failed with exit status 3"),
            ("head -c 10000000 /dev/zero | tr '\\0' x >&2; exit 3", b"", "UNAVAILABLE", "exit status 3: ...xxx"),
            ('exec ' + HELPER + ' /dev/null "$2"', b"", "UNAVAILABLE", "is of another version")):
        use_liar(s, script, report)
        before = names(s)
        done = s.run("merge", *LATEST, "-o", "out.parquet", "a.parquet", expect=None)
        text = done.stderr.decode()
        true(done.returncode != 0 and words in text and text.count("\n") == 1, (script, report[:80], text))
        if status:
            equal(done.returncode, code(s, status), text)
        equal(names(s), before, "nothing is left behind")


@parquet("no chunk is blamed for a helper of another version, or a library without Parquet", ["dir"])
def _(s):
    create(s, "--tries", "1")
    ingest(s, *some_chunks(s, 3))
    use_liar(s, "exec " + HELPER + ' /dev/null "$2"')
    (end,) = run_all(s, expect=code(s, "UNAVAILABLE"))
    equal((end["end"], end["blame"]), ("failed", "nobody"), end)
    s.env["HOLDFAST_PARQUET"] = HELPER
    use_fake(s, "-DLACKS_PARQUET")
    (end,) = run_all(s, expect=None)
    equal((end["end"], end["blame"]), ("failed", "nobody"), end)
    true("Catalog Error" in end["why"], end)
    equal([(chunk["quarantine"], chunk["tries"]) for chunk in live(s)], [(None, 0)] * 3)


@parquet("a worker without the library merges nothing, blames nobody, and says what is missing",
         ["dir"])
def _(s):
    create(s)
    ingest(s, *some_chunks(s, 3))
    s.env["HOLDFAST_DUCKDB"] = "/nonexistent/libduckdb.so"
    text = s.run("compact", "run", "--force", expect=code(s, "DENIED")).stderr.decode()
    true("HOLDFAST_DUCKDB" in text, text)
    equal([(chunk["quarantine"], chunk["tries"]) for chunk in live(s)], [(None, 0)] * 3)
    s.run("compact", "fsck")
    write(s, "more.parquet", values((9, 9, 9)))
    text = s.run("compact", "ingest", "more.parquet", expect=code(s, "UNSUPPORTED")).stderr.decode()
    true("HOLDFAST_DUCKDB" in text, text)


# ---- Access -------------------------------------------------------------------------------------


@parquet("the helper inherits no file and no variable that it has no use for")
def _(s):
    write(s, "a.parquet", values((1, 1, 1)))
    # In the background, so that neither a pipe nor a redirection is a file of the shell that is looked at.
    use_liar(s, f'ls -l /proc/$$/fd > "{s.file("files")}" & wait; env > "{s.file("variables")}"; exit 3')
    s.env.update(AWS_SECRET_ACCESS_KEY="secret", HOLDFAST_STORE="dir:secret", LD_PRELOAD_MINE="x", LANG="C")
    with open(s.file("secret"), "w", encoding="utf-8") as secret:
        os.set_inheritable(secret.fileno(), True)
        s.run("merge", *LATEST, "-o", "out.parquet", "a.parquet", pass_fds=[secret.fileno()],
              expect=code(s, "UNAVAILABLE"))
    files = s.read("files").decode()
    equal([line.split()[-1].partition(":")[0] for line in files.splitlines()
           if " -> " in line and "liar" not in line],
          ["/dev/null", "/dev/null", "pipe"], files)
    variables = {line.partition("=")[0] for line in s.read("variables").decode().splitlines()}
    equal(sorted(variables - {"PWD", "SHLVL", "_", "OLDPWD"}), ["HOME", "LANG", "PATH", "TMPDIR"])


ESCAPES = """SELECT * FROM read_text('/etc/passwd')
SELECT * FROM read_csv('/proc/self/environ')
SELECT * FROM glob('/etc/*')
SELECT * FROM read_parquet('{path}/other.parquet')
SELECT * FROM read_parquet('{path}/link.parquet')
SELECT * FROM read_parquet('{path}/x/../other.parquet')
COPY (SELECT 1) TO '{path}/escaped.parquet'
COPY (SELECT 1) TO '{path}/escaped.csv'
ATTACH '{path}/escaped.db'
EXPORT DATABASE '{path}/escaped'
INSTALL httpfs
LOAD httpfs
LOAD '{path}/libfake.so'
SELECT * FROM read_parquet('https://127.0.0.1:1/a.parquet')
SET enable_external_access = true
SET allowed_paths = ['/etc/passwd']
SET allowed_directories = ['/']
SET lock_configuration = false
RESET lock_configuration
SET memory_limit = '1TB'
SET threads = 64
SET temp_directory = '/tmp'
SET autoload_known_extensions = true
SET allow_unsigned_extensions = true
CREATE PERSISTENT SECRET s (TYPE http)
""".splitlines()


@parquet("DuckDB can read and write the files of the merge, and no others, and change no setting")
def _(s):
    use_fake(s)
    write(s, "other.parquet", values((1, 1, 1)))
    write_marked(s, "in.parquet", "escape", [(1, 1, 1)])
    os.symlink("other.parquet", s.file("link.parquet"))
    s.write("escapes", "".join(line.format(path=s.path) + "\n" for line in ESCAPES
                               + ["SELECT 1"]).encode())
    merge(s, LATEST, ["in.parquet"])
    told = s.read("escapes.out").decode().splitlines()
    equal([line for line in told if line.startswith("escaped")], ["escaped SELECT 1"])
    equal(len(told), len(ESCAPES) + 1)
    equal([name for name in names(s) if name.startswith("escaped")], [])


@it("without the library, or without the helper, the sentence says what to install or set")
def _(s):
    s.env["HOLDFAST_PARQUET"] = "/nonexistent/holdfast-parquet"
    s.write("a.parquet", MINIMAL)
    text = refused(s, "UNSUPPORTED", LATEST, ["a.parquet"])
    true("HOLDFAST_PARQUET" in text and "'/nonexistent/holdfast-parquet'" in text, text)
    s.env["HOLDFAST_PARQUET"] = HELPER
    for path in ("/nonexistent/libduckdb.so", "/etc/passwd", HELPER):
        s.env["HOLDFAST_DUCKDB"] = path
        text = refused(s, "UNSUPPORTED", LATEST, ["a.parquet"])
        true("HOLDFAST_DUCKDB" in text and "@duckdb/node-bindings-linux-" in text, text)


# A file that our own footer reader accepts: a schema of one column, and no rows.
MINIMAL = (b"PAR1" + bytes.fromhex("1502191c4806736368656d61150000160019000000")
           + (21).to_bytes(4, "little") + b"PAR1")


@parquet("the helper explains itself, and leaves nothing when it is interrupted")
def _(s):
    done = subprocess.run([HELPER], capture_output=True, text=True)
    equal((done.returncode, done.stderr.count("\n")), (2, 1))
    use_fake(s)
    write_marked(s, "in.parquet", "hang", [(1, 1, 1)])
    before = names(s)
    for number in (signal.SIGINT, signal.SIGTERM):
        child = s.start("merge", *LATEST, "-o", "out.parquet", "in.parquet")
        deadline = time.monotonic() + 60
        while not any(".part-" in name for name in names(s)):
            true(time.monotonic() < deadline and child.poll() is None, "the merge begins")
            time.sleep(0.02)
        child.send_signal(number)
        child.communicate(timeout=60)
        true(child.returncode != 0, child.returncode)
        equal(names(s), before)


# ---- Mergers of other programs ------------------------------------------------------------------


def run_merger(s, merge_sources):
    """A worker of this process with a merger: the rows of the live chunks afterwards."""
    from api_ctypes_test import MERGE, Merger, WorkerOptions, handle, library, sized
    failed = []

    def call(_argument, job, _merged, _error):
        try:
            sources = [job[0].sources[i].path.decode() for i in range(job[0].source_count)]
            merge_sources(sources, job[0].output.decode())
            return 0
        except Exception as wrong:  # an exception cannot pass through C
            failed.append(wrong)
            return 1

    function = MERGE(call)
    merger = sized(Merger, merge=ctypes.cast(function, ctypes.c_void_p))
    options = sized(WorkerOptions, force=True, jobs=1, merger=ctypes.pointer(merger))
    client, compact = handle(), handle()
    os.environ.update({name: s.env[name] for name in ("HOLDFAST_DUCKDB", "HOLDFAST_PARQUET", "TMPDIR")})
    library.hf_client_open(f"dir:{s.path}/objects".encode(), None, ctypes.byref(client))
    library.hf_compact_open(client, b"default", None, ctypes.byref(compact))
    library.hf_compact_run(compact, ctypes.byref(options), None)
    library.dll.hf_compact_close(compact)
    library.dll.hf_client_close(client)
    equal(failed, [])
    return sorted((chunk["rows"], chunk["tries"]) for chunk in live(s))


def merge_by(duck):
    def merge_sources(sources, output):
        files = ", ".join(map(quote, sources))
        duck.write(output, f"SELECT * FROM read_parquet([{files}]) QUALIFY row_number() OVER "
                           f"(PARTITION BY id ORDER BY seen DESC) = 1 ORDER BY id")
    return merge_sources


@parquet("a program merges Parquet files by a merger of its own, and what it writes is counted", ["dir"])
def _(s):
    create(s, "--tries", "9")
    ingest(s, *some_chunks(s, 3))

    def too_many(sources, output):
        files = ", ".join(map(quote, sources * 2))
        s.duck.write(output, f"SELECT * FROM read_parquet([{files}])")

    def nothing(_sources, output):
        s.duck.write(output, "SELECT 1 AS id, 1 AS seen WHERE false")

    def garbage(_sources, output):
        with open(output, "w", encoding="utf-8") as file:
            file.write("PAR1 and more")

    for number, lie in enumerate((too_many, nothing, garbage), 1):
        equal(run_merger(s, lie), [(2, number)] * 3, lie.__name__)
    for _ in range(3):  # in smaller groups than before
        left = run_merger(s, merge_by(s.duck))
    equal(left, [(4, 0)])
    equal(rows(s, os.path.join("objects", live(s)[0]["key"]), "id, v"), [("0", "2"), ("1", "0"), ("2", "1"), ("3", "2")])
    s.run("compact", "fsck")


@parquet("a program with a merger of its own needs no DuckDB", ["dir"])
def _(s):
    create(s)
    ingest(s, *some_chunks(s, 3))
    s.env["HOLDFAST_DUCKDB"] = "/nonexistent/libduckdb.so"
    equal(run_merger(s, merge_by(s.duck)), [(4, 0)])


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""header_test.py: the public headers by themselves, as a user of the library compiles it: in C and C++, with
the examples that it and the README show.

Prints TAP. C++ by clang++, which comes with clang, and by g++ where there is one.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
LANGUAGES = [("C99", ["cc", "-x", "c", "-std=c99", "-pedantic"]),
             ("C17", ["cc", "-x", "c", "-std=c17", "-Wpedantic"]),
             ("C++11 of clang", ["clang++", "-x", "c++", "-std=c++11"]),
             ("C++20 of clang", ["clang++", "-x", "c++", "-std=c++20"]),
             ("C++17 of gcc", ["g++", "-x", "c++", "-std=c++17", "-pedantic"])]
OPTIONS = """
struct hf_client_options client_options = HF_CLIENT_OPTIONS;
struct hf_lock_options lock_options = HF_LOCK_OPTIONS;
struct hf_key_options key_options = HF_KEY_OPTIONS;
struct hf_txn_options txn_options = HF_TXN_OPTIONS;
lock_options.ttl_ms = 10000;
struct hf_merge_options merge_options = HF_MERGE_OPTIONS;
struct hf_merge_report merge_report = HF_MERGE_REPORT;
struct hf_compact_options compact_options = HF_COMPACT_OPTIONS;
struct hf_compact_settings compact_settings = HF_COMPACT_SETTINGS;
struct hf_compact_ingest_options ingest_options = HF_COMPACT_INGEST_OPTIONS;
struct hf_compact_ingest_report ingest_report = HF_COMPACT_INGEST_REPORT;
struct hf_chunk_info chunk_info = HF_CHUNK_INFO;
struct hf_compact_adopt_options adopt_options = HF_COMPACT_ADOPT_OPTIONS;
struct hf_compact_adopt_report adopt_report = HF_COMPACT_ADOPT_REPORT;
struct hf_compact_release_report release_report = HF_COMPACT_RELEASE_REPORT;
struct hf_compact_reader_options reader_options = HF_COMPACT_READER_OPTIONS;
struct hf_compact_plan_report plan_report = HF_COMPACT_PLAN_REPORT;
struct hf_merger merger = HF_MERGER;
struct hf_compact_totals compact_totals = HF_COMPACT_TOTALS;
struct hf_compact_worker_options worker_options = HF_COMPACT_WORKER_OPTIONS;
struct hf_compact_status_options status_options = HF_COMPACT_STATUS_OPTIONS;
struct hf_compact_status compact_status = HF_COMPACT_STATUS;
struct hf_fsck_options fsck_options = HF_FSCK_OPTIONS;
struct hf_fsck_report fsck_report = HF_FSCK_REPORT;
(void)merge_options, (void)merge_report, (void)compact_options, (void)compact_settings, (void)ingest_options;
(void)ingest_report, (void)chunk_info, (void)adopt_options, (void)adopt_report, (void)release_report, (void)reader_options, (void)plan_report, (void)merger, (void)compact_totals;
(void)worker_options, (void)status_options, (void)compact_status, (void)fsck_options, (void)fsck_report;
struct hf_key_info key_info = HF_KEY_INFO;
struct hf_key_if key_if = HF_KEY_IF;
struct hf_store_options store_options = HF_STORE_OPTIONS;
struct hf_object_info object_info = HF_OBJECT_INFO;
struct hf_store_get_options get_options = HF_STORE_GET_OPTIONS;
struct hf_store_put_options put_options = HF_STORE_PUT_OPTIONS;
struct hf_store_delete_options delete_options = HF_STORE_DELETE_OPTIONS;
struct hf_store_list_options list_options = HF_STORE_LIST_OPTIONS;
struct hf_store_copy_options copy_options = HF_STORE_COPY_OPTIONS;
struct hf_store_copy_report copy_report = HF_STORE_COPY_REPORT;
struct hf_store_probe_options probe_options = HF_STORE_PROBE_OPTIONS;
struct hf_store_scrub_options scrub_options = HF_STORE_SCRUB_OPTIONS;
struct hf_store_scrub_report scrub_report = HF_STORE_SCRUB_REPORT;
struct hf_store_upgrade_options upgrade_options = HF_STORE_UPGRADE_OPTIONS;
struct hf_store_upgrade_report upgrade_report = HF_STORE_UPGRADE_REPORT;
(void)scrub_options, (void)scrub_report, (void)upgrade_options, (void)upgrade_report;
struct hf_store_probe_report probe_report = HF_STORE_PROBE_REPORT;
struct hf_store_clock_report clock_report = HF_STORE_CLOCK_REPORT;
struct hf_store_restored_options restored_options = HF_STORE_RESTORED_OPTIONS;
struct hf_store_restored_report restored_report = HF_STORE_RESTORED_REPORT;
struct hf_placement placement = HF_PLACEMENT;
(void)store_options, (void)object_info, (void)get_options, (void)put_options, (void)delete_options;
(void)list_options, (void)copy_options, (void)copy_report, (void)probe_options, (void)probe_report;
(void)clock_report, (void)restored_options, (void)restored_report, (void)placement;
struct hf_index_options index_options = HF_INDEX_OPTIONS;
struct hf_index_info index_info = HF_INDEX_INFO;
struct hf_index_load_report index_load_report = HF_INDEX_LOAD_REPORT;
struct hf_index_load_options index_load_options = HF_INDEX_LOAD_OPTIONS;
struct hf_index_query index_query = HF_INDEX_QUERY;
struct hf_index_compile_options index_compile_options = HF_INDEX_COMPILE_OPTIONS;
struct hf_index_compile_report index_compile_report = HF_INDEX_COMPILE_REPORT;
struct hf_index_stats index_stats = HF_INDEX_STATS;
struct hf_index_status_options index_status_options = HF_INDEX_STATUS_OPTIONS;
(void)index_options, (void)index_info, (void)index_load_report, (void)index_load_options, (void)index_query;
(void)index_compile_options, (void)index_compile_report, (void)index_stats, (void)index_status_options;
struct hf_elect_work elect_work = HF_ELECT_WORK;
struct hf_elect_options elect_options = HF_ELECT_OPTIONS;
struct hf_sweep_report sweep_report = HF_SWEEP_REPORT;
struct hf_sweep_options sweep_options = HF_SWEEP_OPTIONS;
struct hf_sweeper_options sweeper_options = HF_SWEEPER_OPTIONS;
struct hf_sweep_due sweep_due = HF_SWEEP_DUE;
(void)elect_work, (void)elect_options, (void)sweep_report, (void)sweep_options, (void)sweeper_options, (void)sweep_due;
struct hf_lease_name lease_name = HF_LEASE_NAME;
struct hf_stats client_stats = HF_STATS;
struct hf_list_options observe_list_options = HF_LIST_OPTIONS;
struct hf_table_info table_info = HF_TABLE_INFO;
struct hf_timeline_info timeline_info = HF_TIMELINE_INFO;
struct hf_blocker blocker = HF_BLOCKER;
struct hf_key_status key_status = HF_KEY_STATUS;
(void)lease_name, (void)client_stats, (void)observe_list_options, (void)table_info, (void)timeline_info, (void)blocker, (void)key_status;
(void)key_info, (void)key_if, (void)client_options, (void)lock_options, (void)key_options, (void)txn_options;
"""


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def essay_example():
    """The first example of the header's opening comment, with its words for work taken out."""
    lines = re.findall(r"^ \*     (.*)$", read("include/holdfast.h").split("WHAT A LEASE")[0], re.M)
    return "\n".join("hf_lock_check(lock, &error);" if "..." in line else line for line in lines)


def readme_example():
    section = read("README.md").split("or in C (`examples/`):")[1].split("A lock is a lease")[0]
    lines = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    return ("const void *data = \"x\"; size_t size = 1;\n"
            + "\n".join(line.replace("...", ";") for line in lines))


def headers():
    return ["holdfast/" + name for name in sorted(os.listdir(os.path.join(ROOT, "include/holdfast")))]


def compiles(compiler, body, header="holdfast.h"):
    with tempfile.TemporaryDirectory(prefix="holdfast-header-") as folder:
        path = os.path.join(folder, "user.c")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'#include "{header}"\n#include <stdio.h>\nvoid user(void);\nvoid user(void)\n' + "{\n" + body + "\n}\n")
        words = [*compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                 "-I" + os.path.join(ROOT, "include"), path]
        return subprocess.run(words, capture_output=True, text=True, check=False)


def main():
    bodies = [("nothing but the header", ""), ("all options", OPTIONS),
              ("the example of the header", essay_example()), ("that of the README", readme_example())]
    bodies = [(name, body, "holdfast.h") for name, body in bodies]
    bodies += [(f"{name} alone", "", name) for name in headers()]
    rows = [(language, compiler, name, body, header) for language, compiler in LANGUAGES
            for name, body, header in bodies if compiler[0] != "g++" or shutil.which("g++")]
    print(f"1..{len(rows) + 1}")
    failed = 0
    for number, (language, compiler, name, body, header) in enumerate(rows, 1):
        done = compiles(compiler, body, header)
        failed += done.returncode != 0
        sentence = f"{name} compiles as {language}"
        print(f"{'ok' if done.returncode == 0 else 'not ok'} {number} - {sentence}")
        for line in done.stderr.splitlines()[:20]:
            print("# " + line)
    wrong = compiles(LANGUAGES[2][1], "hf_lock_acquire(1);").returncode != 0
    print(f"{'ok' if wrong else 'not ok'} {len(rows) + 1} - a wrong call does not compile")
    return 1 if failed or not wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""api_seeds.py [FOLDER]: writes the inputs that fuzz_api.c starts with: lives of handles as people write
them, one step a line: the call, then the bytes of its arguments (fuzz/api_calls.h), then `!n` where the
n-th allocation fails.
"""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ARGUMENTS = 9
OPEN = "hf_client_open 0 0\n"
NULLS = [f"{name} 255 255 255 255 255 255 255 255 255" for name in (
    "hf_client_open", "hf_lock_new", "hf_lock_acquire", "hf_lock_text", "hf_fenced_put", "hf_fenced_get",
    "hf_key_new", "hf_key_update", "hf_key_get", "hf_txn_begin", "hf_txn_acquire", "hf_txn_commit")]
LOCK = OPEN + "hf_lock_new\nhf_lock_acquire\nhf_lock_text\n"
KEY = OPEN + "hf_key_new\nhf_key_acquire 0 0 7\nhf_key_update 0 2 0 7\n"
TXN = OPEN + "hf_txn_begin\nhf_txn_acquire 0 2\nhf_key_update 0 2 0 7\nhf_key_update 1 5 0 7\n"
SEEDS = {
    "nulls": "\n".join(NULLS),
    "lock": LOCK + "hf_lock_check\nhf_lock_renew\nhf_lock_remaining_ms\nhf_lock_token\nhf_lock_release\nhf_lock_free",
    "lock_in_line": LOCK + "hf_lock_new 1\nhf_lock_begin 1\nhf_lock_poll 1\nhf_lock_blocked 1 1\nhf_lock_release\n"
                    "hf_lock_poll 1\nhf_lock_cancel 1\nhf_lock_acquire 1 4",
    "lock_waits_in_vain": LOCK + "hf_lock_new 1\nhf_lock_acquire 1 4\nhf_lock_acquire 1 5",
    "lock_expires": OPEN + "hf_lock_new 0 0 0 2\nhf_lock_acquire\ntime_passes 3\nhf_lock_check\nhf_lock_renew\n"
                    "hf_lock_new 1\nhf_lock_acquire 1 5\nhf_lock_release\nhf_lock_release 1",
    "lock_told": OPEN + "hf_lock_new 0 0 0 1\nhf_lock_acquire\ntime_passes 2\ntime_passes 2\ntime_passes 2\nhf_lock_check",
    "adopt": LOCK + "hf_lock_detach\nhf_lock_adopt 1\nhf_lock_renew 1\nhf_break\nhf_lock_check 1\nhf_lock_complete 1 13",
    "many": OPEN + "hf_lock_new_many 0 0 18\nhf_lock_acquire\nhf_chunks_unleased 0 18\nhf_lock_fail 0 13",
    "slots": OPEN + "hf_lock_new 0 0 0 4\nhf_lock_new 1 0 0 4\nhf_lock_new 2 0 0 4\nhf_lock_acquire\nhf_lock_acquire 1\n"
             "hf_lock_acquire 2\nhf_lock_new 3 0 0 5\nhf_lock_acquire 3",
    "once_per": OPEN + "hf_lock_new 0 0 0 6\nhf_lock_acquire\nhf_lock_complete 0 14\nhf_lock_acquire\ntime_passes 5\nhf_lock_acquire",
    "fenced": LOCK + "hf_fenced_put 0 0 3\nhf_fenced_put 0 0 5\nhf_fenced_put_file 0 1 2\nhf_fenced_get 0 0 255\n"
              "hf_fenced_get_file 0 1 1\nhf_fenced_delete\nhf_fenced_get 0 0 255",
    "key": KEY + "hf_key_get 0 0 255 0 0 7\nhf_key_update 0 5 10 7\nhf_key_get_file 0 0 1 7\nhf_key_remove 0 0 7\n"
           "hf_key_keepalive\nhf_key_lock\nhf_lock_text 64\nhf_key_release\nhf_key_free",
    "key_staged": OPEN + "hf_key_new 0 0 0 1\nhf_key_acquire\nhf_key_update 0 3\nhf_key_update_file 0 2\nhf_key_release 0 1\n"
                  "hf_key_acquire\nhf_key_update 0 6\nhf_key_release",
    "key_adopted": KEY + "hf_lock_text 64\nhf_key_detach\nhf_key_adopt 1\nhf_key_update 1 3 0 7\nhf_key_release 1",
    "key_in_steps": KEY + "hf_key_new 1\nhf_key_begin 1 7\nhf_key_poll 1 7\nhf_key_release\nhf_key_poll 1 7\nhf_key_cancel 1\n"
                    "hf_key_release 1",
    "key_named": KEY + "hf_lock_text 64\nhf_key_detach\nhf_key_adopt 1 0 0 9\nhf_key_update 1 3 0 7\nhf_key_keepalive 1\n"
                 "hf_key_release 1",
    "txn": TXN + "hf_txn_id\nhf_txn_commit\nhf_txn_free\nhf_key_get 0 0 255 0 0 7",
    "txn_back": TXN + "hf_txn_rollback\nhf_txn_commit\nhf_txn_free",
    "txn_shared": TXN + "hf_txn_begin 1 0 8\nhf_txn_acquire 1 1\nhf_txn_commit 1\nhf_txn_rollback\nhf_txn_free 1",
    "txn_by_key": TXN + "hf_key_release 0 0\nhf_txn_commit\nhf_key_new 3 0 0\nhf_key_acquire 3 5",
    "txn_late": TXN + "time_passes 5\nhf_txn_commit\ntime_passes 7\nhf_key_new 3\nhf_key_acquire 3 5 7",
    "closed": LOCK + "hf_key_new\nhf_txn_begin\nhf_client_close\nhf_lock_check\nhf_lock_acquire\nhf_lock_release\n"
              "hf_key_acquire\nhf_txn_commit\nhf_fenced_put",
    "two_clients": OPEN + "hf_client_open 1 0 1\nhf_lock_new 0 0 4\nhf_lock_new 1 1 4\nhf_lock_acquire\nhf_lock_acquire 1",
}
STORE = "hf_store_open 0 0\nhf_store_put 0 0 3\nhf_store_put 0 2 5 1\n"
INDEX = OPEN + "hf_index_create\nhf_index_put 0 3\nhf_index_put_many 0 6\nhf_index_put_records 0 1\n"
SEEDS.update({
    "store": STORE + "hf_store_get 0 0 255\nhf_store_get_file 0 0 1\nhf_store_put_file 0 1 2\nhf_store_list 0 0\nhf_store_list 0 0 2\n"
             "hf_store_delete 0 0\nhf_store_delete_many 0 2\nhf_store_close",
    "store_copied": STORE + "hf_store_open 1 0\nhf_store_copy 0 0 1 1\nhf_store_copy_all 0 15 1 15 2\nhf_store_copy_all 0 15 0 15",
    "store_looked_at": STORE + "hf_store_probe\nhf_store_clock\nhf_store_restored 0 1\nhf_store_repair_epoch 0 0\nhf_store_check_key\n"
                       "hf_store_url_absolute\nhf_store_check_present",
    "store_of_clients": "hf_store_open 0 0 1\nhf_client_open_on\nhf_client_open_on 1 0 1\nhf_store_close\nhf_client_store\nhf_lock_new\n"
                        "hf_lock_acquire\nhf_client_close",
    "index": INDEX + "hf_index_get 0 0 0\nhf_index_record_value 0 0\nhf_index_record_text 0 1\nhf_index_compile\nhf_index_get 1 0 0\n"
             "hf_index_count\nhf_index_status 0 1\nhf_index_describe\nhf_index_list\nhf_index_header 0 1",
    "index_read": INDEX + "hf_index_cursor_open\nhf_index_cursor_next\nhf_index_close\nhf_index_cursor_next\nhf_index_cursor_progress\n"
                  "hf_client_close\nhf_index_cursor_next\nhf_index_cursor_close",
    "index_files": INDEX + "hf_index_export 0 0 1 1\nhf_index_load 0 2 0 1\nhf_index_load 0 2 3\nhf_index_compile 0 2",
    "elect": OPEN + "hf_elect_join 0 0 0 1\nhf_elect_join 1 0 0 2\nhf_elect_keep 1\nhf_elect_look\nhf_elect_changes\nhf_elect_rank_own 0 1\n"
             "hf_elect_members\ntime_passes 4\nhf_elect_changes\nhf_elect_name\nhf_elect_leave\nhf_elect_detach 1",
    "elect_alone": "hf_elect_rank 1 3 0\nhf_elect_order 1 3\nhf_elect_starts_in_ms\nhf_cascade_added 1 63\nhf_cascade_target 1\nhf_cascade_completed 1 1",
    "txn_open": OPEN + "hf_txn_open\nhf_txn_begin 0 0 4\nhf_txn_acquire 0 1\nhf_key_update\nhf_lock_text 64\nhf_txn_adopt 3\nhf_key_seen\nhf_key_name\n"
                "hf_key_detach 3\nhf_txn_decide\nhf_txn_give_up\nhf_txn_trouble\nhf_txn_interrupt",
    "lock_looked_at": LOCK + "hf_lock_scope\nhf_lock_scope 0 1\nhf_lock_ttl_ms\nhf_lock_trouble\nhf_lock_interrupt\nhf_lease_parse",
    "sweep": LOCK + "hf_lock_detach\ntime_passes 6\nhf_sweep\nhf_sweep 0 1\nhf_sweep 0 2\nhf_sweep_status\nhf_sweep_namespaces 64\n"
             "hf_sweeper_start\ntime_passes 4\nhf_sweeper_report\nhf_client_close\nhf_sweeper_stop",
})
COMPACT = OPEN + "hf_compact_open\nhf_compact_create\nhf_compact_ingest 0 2\nhf_compact_ingest 0 3 4\n"
SEEDS.update({
    "merge": "hf_merge 2 0\nhf_merge 3 0 2\nhf_merge 5 1 1\nhf_merge 15 2 3\nhf_merge 17 0 6\nhf_merge 2 3\nhf_merge 23 0\nhf_merge 2 0 10",
    "merge_files": "hf_merge_files 1 0\nhf_merge_files 2 1 0\nhf_merge_files 3 65 1\nhf_merge_files 7 2 2",
    "compact": COMPACT + "hf_compact_chunks 0 2\nhf_compact_plan 64\nhf_compact_should_start\nhf_compact_run 0 1\nhf_compact_run 0 3\n"
               "hf_compact_get_status 0 1\nhf_compact_chunks 0 2\nhf_compact_undelete\nhf_compact_drop 0 1\nhf_compact_drop 0 2\nhf_compact_fsck 0 0 2\nhf_compact_close",
    "compact_readers": COMPACT + "hf_compact_reader_open\nhf_compact_chunks\nhf_compact_reader_next\nhf_compact_reader_fetch 0 0 1\n"
                       "hf_compact_pin 0 0 1 5\nhf_compact_close\nhf_client_close\nhf_compact_reader_check\nhf_compact_reader_rewind\n"
                       "hf_compact_reader_next\nhf_compact_reader_close",
    "compact_exports": COMPACT + "hf_compact_reader_open\nhf_compact_reader_export 0 0 1\nhf_compact_reader_rows 0 0 1\n"
                       "hf_compact_reader_export 0 0 4\nhf_compact_reader_detach",
    "compact_workers": COMPACT + "hf_compact_worker_start\nhf_compact_worker_start 1 0 2\nhf_compact_worker_wait 0 5\nhf_compact_ingest 0 2 1\n"
                       "hf_compact_close\nhf_compact_worker_wait 0 5\nhf_compact_worker_stop\nhf_client_close\nhf_compact_worker_wait\nhf_compact_worker_free 1",
    "compact_engine": OPEN + "hf_compact_open\nhf_compact_create 0 2\nhf_compact_ingest 0 3\nhf_compact_run 0 1\nhf_compact_run 0 4\n"
                      "hf_compact_worker_start 0 0 1\nhf_compact_worker_wait 0 5\nhf_compact_worker_free",
    "compact_cared_for": COMPACT + "hf_compact_get_settings\nhf_compact_set 0 0 4\nhf_compact_pause 0 0 1\nhf_compact_run\nhf_compact_resume\n"
                         "hf_compact_chunks\nhf_compact_quarantine 0 0 1\nhf_compact_chunks 0 1\nhf_compact_unquarantine\nhf_compact_ingest_objects 0 1",
    "compact_long_limits": OPEN + "hf_compact_open 0 0 0 7\nhf_compact_open 1 0 1 7\nhf_merge 2 0 11\nhf_compact_fsck 0 0 3",
    "observe": LOCK + "hf_lock_new 1\nhf_lock_begin 1\nhf_lock_blocker 1\nhf_lock_blockers 1\nhf_locks_list 0 15 1\nhf_locks_show\nhf_locks_timeline\n"
               "hf_watch_new 0 0 15\nhf_watch_look\nhf_lock_release\nhf_watch_look\nhf_client_close\nhf_watch_look\nhf_watch_free",
    "observe_keys": TXN + "hf_key_describe 0 0 7\nhf_key_txn\nhf_keys_list 0 15\nhf_txn_show\nhf_txns_list\nhf_txns_list 0 1 2\nhf_client_stats",
    "observe_events": "hf_client_open 0 0 10\nhf_lock_new 0 0 0 1\nhf_lock_acquire\ntime_passes 2\nhf_lock_renew\nhf_lock_release\nhf_client_stats",
})
for number in range(0, 40, 3):
    SEEDS[f"memory_{number:02}"] = TXN.replace("\n", f" !{number}\n") + INDEX.replace("\n", f" !{number}\n") + LOCK.replace("\n", f" !{number}\n")
    SEEDS[f"memory_of_work_{number:02}"] = COMPACT.replace("\n", f" !{number}\n") + COMPACT + "".join(
        f"{call} !{number}\n" for call in ("hf_compact_run 0 1", "hf_compact_plan", "hf_compact_get_status 0 1", "hf_compact_chunks 0 2",
                                           "hf_compact_reader_open", "hf_compact_fsck", "hf_locks_list 0 15 1", "hf_keys_list 0 15", "hf_merge 2 0"))


def hash_name(name):
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 & 0xffffffff
    return (value >> 16 ^ value) & 0xffff


def place_calls():
    """Where each call is on the ring, as in fuzz_api.c."""
    places = {}
    with open(os.path.join(HERE, "api_calls.h"), encoding="utf-8") as file:
        for name in re.findall(r"\bROW\((\w+),", file.read()):
            place = hash_name(name)
            while place in places.values():
                place = place + 1 & 0xffff
            places[name] = place
    return places


def step(line):
    words = line.split()
    memory = [0x80 + int(word[1:]) for word in words if word.startswith("!")]
    arguments = [int(word) for word in words[1:] if not word.startswith("!")]
    arguments += [0] * (ARGUMENTS - len(arguments))
    return PLACES[words[0]].to_bytes(2, "big") + bytes(arguments) + bytes(memory or [0])


def main(folder):
    for name, text in SEEDS.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"".join(step(line) for line in text.splitlines() if line))


if __name__ == "__main__":
    PLACES = place_calls()
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "corpus/api"))

#!/usr/bin/env python3
"""api_seeds.py [FOLDER]: writes the inputs that fuzz_api.c starts with: lives of handles as people write
them, one step a line: the call, then the bytes of its arguments (fuzz/api_calls.h), then `!n` where the
n-th allocation fails.
"""

import os
import sys

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
    "txn": TXN + "hf_txn_id\nhf_txn_commit\nhf_txn_free\nhf_key_get 0 0 255 0 0 7",
    "txn_back": TXN + "hf_txn_rollback\nhf_txn_commit\nhf_txn_free",
    "txn_shared": TXN + "hf_txn_begin 1 0 8\nhf_txn_acquire 1 1\nhf_txn_commit 1\nhf_txn_rollback\nhf_txn_free 1",
    "txn_by_key": TXN + "hf_key_release 0 0\nhf_txn_commit\nhf_key_new 3 0 0\nhf_key_acquire 3 5",
    "txn_late": TXN + "time_passes 5\nhf_txn_commit\ntime_passes 7\nhf_key_new 3\nhf_key_acquire 3 5 7",
    "closed": LOCK + "hf_key_new\nhf_txn_begin\nhf_client_close\nhf_lock_check\nhf_lock_acquire\nhf_lock_release\n"
              "hf_key_acquire\nhf_txn_commit\nhf_fenced_put",
    "two_clients": OPEN + "hf_client_open 1 0 1\nhf_lock_new 0 0 4\nhf_lock_new 1 1 4\nhf_lock_acquire\nhf_lock_acquire 1",
}
for number in range(0, 40, 3):
    SEEDS[f"memory_{number:02}"] = TXN.replace("\n", f" !{number}\n") + LOCK.replace("\n", f" !{number}\n")


def hash_name(name):
    value = 2166136261
    for byte in name.encode():
        value = (value ^ byte) * 16777619 & 0xffffffff
    return (value >> 16 ^ value) & 0xffff


def step(line):
    words = line.split()
    memory = [0x80 + int(word[1:]) for word in words if word.startswith("!")]
    arguments = [int(word) for word in words[1:] if not word.startswith("!")]
    arguments += [0] * (ARGUMENTS - len(arguments))
    return hash_name(words[0]).to_bytes(2, "big") + bytes(arguments) + bytes(memory or [0])


def main(folder):
    for name, text in SEEDS.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(b"".join(step(line) for line in text.splitlines() if line))


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "corpus/api"))

# SPDX-License-Identifier: Apache-2.0
"""event_log.py [URL]: logs what happens to the locks of this client, and notices a lease that is
in danger."""

import sys

import holdfast


def log(event: holdfast.Event) -> None:
    if event.kind != "request":
        print(event.kind, event.scope, event.token)


def notice(lock: holdfast.Lock, event: str) -> None:
    print(f"the lease is {event}: {lock.remaining:.0f} seconds are left")


with holdfast.open(sys.argv[1] if len(sys.argv) > 1 else "mem:", event=log) as client:
    with client.lock("deploy", notify=notice) as lock:
        print("gone" if lock.gone.is_set() else "held")  # or lock.gone.wait() in another thread

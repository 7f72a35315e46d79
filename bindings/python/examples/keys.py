# SPDX-License-Identifier: Apache-2.0
"""keys.py [URL]: a counter that many processes can raise: by condition, and under the lease of its
key."""

import sys

import holdfast


def raise_by_condition(client: holdfast.Client, name: str) -> int:
    """Reads, adds one, and writes only if nobody has written meanwhile."""
    while True:
        try:
            state = client.get(name)
            count, version = int(state.data), state.version
        except holdfast.NotFoundError as missing:
            count, version = 0, missing.info.version if missing.info else 0
        try:
            client.change(name, b"%d" % (count + 1), version=version, wait=10)
            return count + 1
        except holdfast.ConflictError:
            pass  # somebody was faster: read again


def raise_under_lease(client: holdfast.Client, name: str) -> int:
    with client.key(name, wait=10) as key:
        count = int(key.get().data) + 1
        key.update(b"%d" % count)
        return count


with holdfast.open(sys.argv[1] if len(sys.argv) > 1 else "mem:") as client:
    print("by condition:", raise_by_condition(client, "visits"))
    print("under a lease:", raise_under_lease(client, "visits"))

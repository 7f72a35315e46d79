# SPDX-License-Identifier: Apache-2.0
"""transaction.py [URL]: moves money between two accounts, all of it or none."""

import sys

import holdfast

with holdfast.open(sys.argv[1] if len(sys.argv) > 1 else "mem:") as client:
    client.change("accounts/ann", b"100")
    client.change("accounts/joe", b"0")
    with client.txn() as txn:
        ann, joe = txn.acquire("accounts/ann", "accounts/joe", wait=10)
        balance = int(ann.get().data)
        if balance < 40:
            raise SystemExit("not enough money")  # an exception rolls back
        ann.update(b"%d" % (balance - 40))
        joe.update(b"%d" % (int(joe.get().data) + 40))
    print("ann", int(client.get("accounts/ann").data), "joe", int(client.get("accounts/joe").data))

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""txn.py FILE ACCOUNTS SECONDS : transfers between the rows of one table of SQLite, as one would write
them. WAL, synchronous=FULL, one transaction each; every row keeps a version beside its balance. Prints
"transfer RATE" and, of changing one row, "update RATE", both a second.
"""
import random
import sqlite3
import sys
import time


def change(base, account, amount):
    (balance,) = base.execute("SELECT balance FROM accounts WHERE id = ?", (account,)).fetchone()
    base.execute("UPDATE accounts SET balance = ?, version = version + 1 WHERE id = ?",
                 (balance + amount, account))


def rate(base, seconds, parts):
    """Transactions a second: each takes accounts and amounts from `parts`."""
    done, begun = 0, time.monotonic()
    while time.monotonic() - begun < seconds:
        base.execute("BEGIN IMMEDIATE")
        for account, amount in parts():
            change(base, account, amount)
        base.execute("COMMIT")
        done += 1
    return done / (time.monotonic() - begun)


def main():
    path, accounts, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    base = sqlite3.connect(path, isolation_level=None, timeout=60)
    base.execute("PRAGMA journal_mode = WAL")
    base.execute("PRAGMA synchronous = FULL")
    base.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, version INTEGER, balance INTEGER)")
    base.executemany("INSERT INTO accounts VALUES (?, 1, 1000)", ((n,) for n in range(accounts)))
    draw = random.Random(5)

    def transfer():
        a, b = draw.sample(range(accounts), 2)
        return (a, -1), (b, 1)

    print("transfer", rate(base, seconds, transfer))
    print("update", rate(base, seconds, lambda: ((draw.randrange(accounts), 1),)))


main()

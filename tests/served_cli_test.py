#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""served_cli_test.py: the cases of lock_cli_test.py, run_test.py and key_cli_test.py, on a server.

The same commands must do the same, with the same exit codes, whether HOLDFAST_STORE is a store or a
server. So the cases are those of the other programs, and only the store is another one: a server of
their own, on an sqlite store. NOT_SERVED lists the cases that need the bucket itself, and why; a new
case runs here unless it is added there.

    served_cli_test.py lock|run|key
"""

import os
import sys

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import cases
import served_kit

OBJECTS = "it reads or writes objects"
TABLES = "it shows or changes lease tables"
DETAIL = "a server does not tell so much about a lease"
MANY = "a server has no locks on chunks; served_test.c has several scopes"
NO_LIST = "a server does not list keys"
NO_STAGE = "a server stages changes for transactions only"
SECRET = "a server does not tell the ids of transactions"
LOCAL = "it is about a local store"
TIMED = "served_client_test.py has it, with a lease that is long enough for two processes"
ENDS = "serve_txn_test.mjs has it; two processes and a server take too long for a lease of 1 s"
IN_LINE = "only the first waiter of a server is in the store, so the others cannot be counted there"

NOT_SERVED = {
    "lock": {
        "those who wait are served in order, one at a time, with rising tokens": IN_LINE,
        "a lease comes on stdin too, where no other user sees it": OBJECTS,
        "the exit status of a conflict can be chosen, and that of nothing else changes": OBJECTS,
        "many scopes are held all or none, and who is in the way is named": MANY,
        "ls shows what is held in columns, and with --all those who wait and what is over": DETAIL,
        "show tells who, since when, the queue, the earliest takeover and its proof": DETAIL,
        "looking changes nothing, not even a table of another program": TABLES,
        "a broken lease is LOST to its holder, and the table says who broke it and why": DETAIL,
        "break hits exactly the lease that was named": DETAIL,
        "an entry of the audit log that another program wrote makes no listing fail": TABLES,
        "a damaged table is told by show and ls, and replaced by acquire behind a barrier": TABLES,
        "after damage nothing is granted for as long as leases of that kind can be, and that is told": TABLES,
        "tokens of chunks never fall, whichever namespace its clients are of": TABLES,
        "a table of a later version is refused, not replaced": TABLES,
        "watch does not take the leases of a table that it cannot read for ended, and tells why once": TABLES,
        "a lease file of another program is shown, adopted, and goes on to block": TABLES,
        "the lock of a shard is listed, shown, renewed, broken and released like any other": TABLES,
        "a lock of another program is shown with its worker, and broken by its token": TABLES,
        "after a restore tokens are of a later epoch, and a barrier holds what the backup knew": TABLES,
        "an epoch that is lost is told by name, and rebuilt above every token": TABLES,
        "write needs the lock, read does not, and a stale holder is refused": OBJECTS,
        "write with a scope holds it meanwhile, reads pipes, and gives it back": OBJECTS,
        "write takes a lock that covers the object's, held alone": OBJECTS,
        "read tells what is not there from what is not fenced, and leaves the file alone": OBJECTS,
        "a lease that is provably over says so, and one that only should be over is overdue": DETAIL,
        "hold ends as soon as its lease has, even if the store does not answer": LOCAL,
        "hold fails if its release does, and says so even with -q": OBJECTS,
        "clock names the boot-time clock of a local store": LOCAL,
        "bad input is one clear sentence": TABLES,
    },
    "run": {
        "a run on an sqlite store waits for the disk twice: for the grant, and for the release": LOCAL,
        "three hundred others of the same table do not make it forget": LOCAL,
        "a lease that cannot be renewed ends the command by TERM, and the status is LOST": TIMED,
        "a signal ends the wait, and whoever waits behind is not held up": IN_LINE,
        "a trial notices when the command outlives its lease: both guards are stopped": LOCAL,
    },
    "key": {
        "a state of 20 MiB goes through pipes in bounded memory, and the old one is deleted": TABLES,
        "what is staged is seen after the release, or never": NO_STAGE,
        "whoever holds a key keeps others waiting, who may give up, in time or by Ctrl-C": IN_LINE,
        "transactions are listed, and a key names the one that has it": SECRET,
        "a transaction whose lease is over is rolled back, by who wants the key or who commits": ENDS,
        "of two transactions that want the same key the second waits, and then sees what the first did": IN_LINE,
        "bad input of each kind gets a sentence, and changes nothing": TABLES,
        "a key whose document is damaged says so, and what to do, until it is written anew": TABLES,
        "a state that cannot be read is kept aside by who writes it anew": TABLES,
        "damaged documents do not hide the keys that are listed after them": TABLES,
        "ls tells a holder without a name from nobody": DETAIL,
        "ls shows the other keys if a document is damaged, and says which one is": TABLES,
        "what is committed is listed as it is read, also before anybody has settled it": TABLES,
        "a transaction whose record is damaged is given up by who says so, and by nobody else": TABLES,
        "--damaged gives up nothing that can be read, or that a later version wrote": TABLES,
        "a store that fails is not taken for somebody who holds the key": NO_LIST,
        "a full sweep says what it could not deal with, and goes on with the rest": TABLES,
        "sweep clears what is over, tells what it did, and remembers it": NO_LIST,
        "a run that is stopped at a cap says so, and the next goes on behind it": TABLES,
        "a lease that is over is cleared by a full sweep, and one that is not is left": TABLES,
        "the sweep that waits until there is nothing else to do ends by Ctrl-C, in order": IN_LINE,
        "the guide's worked example works as typed": TABLES,
    },
}


def on_server(make_scratch):
    """A scratch object as the case has it, with a server in place of its store."""

    def make():
        scratch = make_scratch()
        server = served_kit.Server("sqlite:" + scratch.file("store.db"))
        scratch.env["HOLDFAST_STORE"] = scratch.url = server.url
        close = scratch.close

        def close_all():
            close()
            server.close()

        scratch.close = close_all
        scratch.make_store = lambda: None  # the server has made it
        scratch.server = server
        return scratch

    return make


def main(which):
    module = {"lock": "lock_cli_test", "run": "run_test", "key": "key_cli_test"}[which]
    __import__(module)
    unserved, seen, chosen = NOT_SERVED[which], set(), []
    for sentence, function, make_scratch in cases.cases:
        plain = sentence.removesuffix(" (dir)").removesuffix(" (sqlite)")
        if plain not in unserved and plain not in seen:
            chosen.append((f"{plain} (served)", function, on_server(make_scratch)))
        seen.add(plain)
    unknown = set(unserved) - seen
    if unknown:
        raise SystemExit(f"there are no such cases: {unknown}")
    cases.cases[:] = chosen
    return cases.main()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

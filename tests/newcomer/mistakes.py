#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mistakes.py: common mistakes of new users, and the error sentence for each.

MISTAKES is the table: a command line, the name of its exit status, and the whole sentence on stderr.
A reader who has not seen the code must understand from it what failed, on what, why, and what to do
next. Each line runs in its own shell with a fresh home folder, after the lines of `before`. In a
sentence `~` is that folder, HOST is the machine, and durations are replaced by 0s.

Prints TAP, one case per mistake.
"""

import functools
import getpass
import os
import pty
import re
import select
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # nothing of ours in the source tree
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import cases
import cli_test
from cases import equal, true
from cli_test import Scratch

cases.cases.clear()

# The exit statuses of shells for a command that cannot be run, and for one that a signal ended.
SHELL_CODES = {"OK": 0, "CANNOT_RUN": 126, "NO_COMMAND": 127, "INTERRUPTED": 130}

STORE = "holdfast run first -- true"  # creates an empty store
PARTITION = "holdfast compact create -q --format csv --key id"
INDEX = ("holdfast index create -q domains --fields domain,owner,updated_at --key domain "
         "--time updated_at")
A_FILE = "printf 'id,at\\n1,2026-02-06T10:00:00Z\\n' > a.csv"

MISTAKES = [
    # line, status, sentence, lines before
    # Wrong commands.
    ("holdfast lokcs ls", "INVALID",
     "holdfast: lokcs: INVALID: unknown command 'lokcs'; did you mean 'locks'?"),
    ("holdfast lcok deploy", "INVALID",
     "holdfast: lcok: INVALID: unknown command 'lcok'; 'holdfast run NAME -- COMMAND' holds a "
     "lock while a command runs; 'holdfast acquire NAME' acquires one for a script"),
    ("holdfast lock deploy -- ./deploy.sh", "INVALID",
     "holdfast: lock: INVALID: unknown command 'lock'; 'holdfast run NAME -- COMMAND' holds a "
     "lock while a command runs; 'holdfast acquire NAME' acquires one for a script"),
    ("holdfast unlock deploy", "INVALID",
     "holdfast: unlock: INVALID: unknown command 'unlock'; 'holdfast release LEASE' releases"
     " a lease that 'holdfast acquire' printed; 'holdfast locks break NAME --reason TEXT' "
     "breaks somebody else's lock"),
    ("holdfast flock deploy ./deploy.sh", "INVALID",
     "holdfast: flock: INVALID: unknown command 'flock'; 'holdfast run NAME -- COMMAND' holds "
     "a lock while a command runs"),
    ("holdfast index delete domains", "INVALID",
     "holdfast: index delete: INVALID: unknown command 'index delete'; 'holdfast index "
     "rm' deletes keys, 'holdfast index drop' removes an index with all its records"),
    ("holdfast ls", "INVALID",
     "holdfast: ls: INVALID: unknown command 'ls'; 'holdfast locks ls' lists locks, 'holdfast "
     "key ls' keys, 'holdfast store ls' objects"),
    ("holdfast locks", "INVALID",
     "holdfast: locks: INVALID: a subcommand is missing: ls, show, break, watch, timeline"),
    ("holdfast locks lst", "INVALID",
     "holdfast: locks lst: INVALID: unknown command 'locks lst'; did you mean 'locks ls'?"),
    ("holdfast completion tcsh", "INVALID",
     "holdfast: completion tcsh: INVALID: unknown command 'completion tcsh'; the commands "
     "are: bash, zsh, fish, words"),
    ("holdfast help lock", "INVALID",
     "holdfast: help lock: INVALID: unknown command 'lock'; 'holdfast run NAME -- COMMAND' "
     "holds a lock while a command runs; 'holdfast acquire NAME' acquires one for a script"),
    # Missing arguments, and too many.
    ("holdfast run", "INVALID",
     "holdfast: run: INVALID: SCOPE is missing; usage: holdfast run SCOPE -- COMMAND; --help"
     " shows all options"),
    ("holdfast run deploy", "INVALID",
     "holdfast: run deploy: INVALID: COMMAND is missing; usage: holdfast run SCOPE -- "
     "COMMAND; --help shows all options"),
    ("holdfast run -- ./deploy.sh", "INVALID",
     "holdfast: run ./deploy.sh: INVALID: SCOPE (the name of the lock) is missing before '--'; "
     "usage: holdfast run SCOPE -- COMMAND; --help shows all options"),
    ("holdfast elect run -- ./scheduler", "INVALID",
     "holdfast: elect run ./scheduler: INVALID: NAME (the name of the lock) is missing before "
     "'--'; usage: holdfast elect run NAME -- COMMAND; --help shows all options"),
    ("holdfast run deploy --", "INVALID",
     "holdfast: run deploy: INVALID: COMMAND is missing; usage: holdfast run SCOPE -- "
     "COMMAND; --help shows all options"),
    ("holdfast acquire", "INVALID",
     "holdfast: acquire: INVALID: SCOPE is missing; usage: holdfast acquire SCOPE; --help "
     "shows all options"),
    ("holdfast store put report.txt", "INVALID",
     "holdfast: store put report.txt: INVALID: FILE is missing; usage: holdfast store put "
     "KEY FILE; --help shows all options"),
    ("holdfast store get", "INVALID",
     "holdfast: store get: INVALID: KEY is missing; usage: holdfast store get KEY; --help "
     "shows all options"),
    ("holdfast index create domains", "INVALID",
     "holdfast: index create domains: INVALID: --fields A,B,C is missing; usage: holdfast "
     "index create --fields A,B,C --key FIELD --time FIELD NAME; --help shows all options"),
    ("holdfast merge --format csv a.csv", "INVALID",
     "holdfast: merge a.csv: INVALID: --output FILE is missing; usage: holdfast merge "
     "--format FORMAT --output FILE IN; --help shows all options"),
    ("holdfast locks break deploy", "INVALID",
     "holdfast: locks break deploy: INVALID: --reason TEXT is missing; usage: holdfast locks"
     " break --reason TEXT SCOPE; --help shows all options",
     STORE),
    ("holdfast key release orders/42", "INVALID",
     "holdfast: key release orders/42: INVALID: unexpected argument 'orders/42'; a key is "
     "renewed or released by its lease, not by its name: use --lease LEASE"),
    ("holdfast key renew orders/42", "INVALID",
     "holdfast: key renew orders/42: INVALID: unexpected argument 'orders/42'; a key is "
     "renewed or released by its lease, not by its name: use --lease LEASE"),
    # Options.
    ("holdfast run --tll 1m deploy -- true", "INVALID",
     "holdfast: run: INVALID: unknown option --tll; did you mean --ttl?"),
    ("holdfast run -x deploy -- true", "INVALID",
     "holdfast: run: INVALID: unknown option -x; --help lists the options; put -- before an "
     "argument that starts with a dash"),
    ("holdfast store ls --store", "INVALID",
     "holdfast: store ls: INVALID: --store needs a value: URL"),
    ("holdfast run --no-wait --wait 3s deploy -- true", "INVALID",
     "holdfast: run deploy: INVALID: --wait and --no-wait cannot be used together"),
    ("holdfast --ttl 1m run deploy -- true", "INVALID",
     "holdfast: INVALID: unknown option --ttl; the options of a command must come after it"),
    ("holdfast run --mode rw deploy -- true", "INVALID",
     "holdfast: run deploy: INVALID: --mode must be shared or exclusive, not 'rw'"),
    # Spans, sizes and numbers.
    ("holdfast run --wait -5s deploy -- true", "INVALID",
     "holdfast: run: INVALID: --wait: '-5s': a duration must not be negative"),
    ("holdfast run --wait 5 deploy -- true", "INVALID",
     "holdfast: run: INVALID: --wait: '5' is not a duration; use a form like 250ms, 30s, "
     "1m30s, 2h or 7d, or 'forever'"),
    ("holdfast run --once-per deploy -- true", "INVALID",
     "holdfast: run: INVALID: --once-per: 'deploy' is not a duration; use a form like "
     "250ms, 30s, 1m30s, 2h or 7d"),
    ("holdfast run --ttl 3d deploy -- true", "INVALID",
     "holdfast: run deploy: INVALID: the ttl must be between 1s and 1d, not 3d"),
    ("holdfast run --slots 0 deploy -- true", "INVALID",
     "holdfast: run deploy: INVALID: --slots must be between 1 and 4294967295"),
    ("holdfast store ls --limit many", "INVALID",
     "holdfast: store ls: INVALID: --limit: 'many' is not a whole number"),
    ("holdfast store get --range 5-2 report.txt", "INVALID",
     "holdfast: store get report.txt: INVALID: '5-2' is not a range; use A-B with B "
     "greater than A, or A- for the rest",
     STORE),
    # Names.
    ("holdfast run '' -- true", "INVALID",
     "holdfast: run '': INVALID: the name is empty; a name must be 1 to 128 bytes long"),
    ("holdfast run 'my deploy' -- true", "INVALID",
     "holdfast: run my deploy: INVALID: a name may contain a-z, 0-9, '.', '_' and '-', with "
     "'/' between parts"),
    ("holdfast run ../deploy -- true", "INVALID",
     "holdfast: run ../deploy: INVALID: '../deploy': names that start with a dot are "
     "reserved"),
    ("holdfast run path:relative -- true", "INVALID",
     "holdfast: run path:relative: INVALID: 'relative' is not a path like /a/b, without "
     "empty, . or .. segments"),
    ("holdfast store ls s3://bucket/x", "INVALID",
     "holdfast: store ls s3://bucket/x: INVALID: 's3://bucket/x' looks like a store URL; "
     "pass it with --store (for a key that really starts this way, use --hex)"),
    ("holdfast store put default/meta/x.json - < /dev/null", "INVALID",
     "holdfast: store put default/meta/x.json: INVALID: 'default/meta/x.json' is an internal"
     " object of Holdfast; changing it by hand can break locks and lose data; use --force to"
     " do it anyway"),
    # Stores.
    ("HOLDFAST_STORE= holdfast locks ls", "INVALID",
     "holdfast: locks ls: INVALID: HOLDFAST_STORE is empty: set it to the URL of a store, "
     "such as s3://BUCKET/PREFIX, or unset it for your local store"),
    ("HOLDFAST_STORE=/srv/jobs holdfast locks ls", "INVALID",
     "holdfast: locks ls: INVALID: '/srv/jobs' is not the URL of a store: use "
     "sqlite:FILE, dir:PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, azure://ACCOUNT/CONTAINER, "
     "http://HOST:PORT, https://HOST:PORT, unix:PATH or mem:"),
    ("HOLDFAST_STORE=ftp://bucket/x holdfast locks ls", "INVALID",
     "holdfast: locks ls: INVALID: unknown kind of store 'ftp:': use "
     "sqlite:FILE, dir:PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, azure://ACCOUNT/CONTAINER, "
     "http://HOST:PORT, https://HOST:PORT, unix:PATH or mem:"),
    ("HOLDFAST_STORE=gs://bucket/x holdfast run deploy -- true", "DENIED",
     "holdfast: run deploy: DENIED: no credentials were found: set GS_ACCESS_KEY_ID and "
     "GS_SECRET_ACCESS_KEY to an HMAC key of Google Cloud Storage"),
    ("HOLDFAST_STORE=s3:bucket holdfast locks ls", "INVALID",
     "holdfast: locks ls: INVALID: the URL names no bucket: use s3://BUCKET/PREFIX"),
    ("HOLDFAST_STORE=s3://b/x holdfast locks ls", "INVALID",
     "holdfast: locks ls: INVALID: 'b' is not a bucket name: use "
     "s3://BUCKET/PREFIX; a bucket name has 3 to 63 letters, digits, '-', '_' and '.'"),
    ("HOLDFAST_STORE=s3://bucket/prefix holdfast run deploy -- true", "DENIED",
     "holdfast: run deploy: DENIED: no credentials were found: set AWS_ACCESS_KEY_ID and "
     "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a role"),
    ("HOLDFAST_STORE='s3://bucket/x?regoin=eu' holdfast locks ls", "INVALID",
     "holdfast: locks ls: INVALID: unknown parameter 'regoin' in the store's URL; did you "
     "mean 'region'? s3: takes endpoint, region, style, connections, timeout, ca, etag, profile and "
     "dualstack"),
    ("AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b holdfast locks ls "
     "--store 's3://bucket/x?endpoint=localhost:9000'", "INVALID",
     "holdfast: locks ls: INVALID: 'localhost:9000' is not an endpoint: use "
     "https://s3.example.com or http://127.0.0.1:7480"),
    ("HOLDFAST_STORE=azure://account holdfast locks ls", "INVALID",
     "holdfast: locks ls: INVALID: the URL names no container: use azure://ACCOUNT/CONTAINER/PREFIX"),
    ("HOLDFAST_STORE=azure://My_Account/data holdfast locks ls", "INVALID",
     "holdfast: locks ls: INVALID: 'My_Account' is not an account name: use "
     "azure://ACCOUNT/CONTAINER/PREFIX; an account name has 3 to 24 lower-case letters and digits"),
    ("AZURE_POD_IDENTITY_AUTHORITY_HOST=http://127.0.0.1:1 "
     "HOLDFAST_STORE=azure://account/data holdfast run deploy -- true", "DENIED",
     "holdfast: run deploy: DENIED: no credentials were found: set AZURE_STORAGE_KEY, "
     "AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, or give the machine a managed "
     "identity"),
    ("HOLDFAST_STORE=sqlite:typo.db holdfast locks ls", "NOT_FOUND",
     "holdfast: locks ls: NOT_FOUND: there is no store at '~/typo.db'; check the name (the "
     "first command that writes, such as 'holdfast run', creates the store)"),
    ("HOLDFAST_STORE=dir:/proc/x holdfast run deploy -- true", "NOT_FOUND",
     "holdfast: run deploy: NOT_FOUND: cannot create the folder '/proc/x': No such file or "
     "directory"),
    ("HOLDFAST_STORE=sqlite:/proc/x/y.db holdfast run deploy -- true", "NOT_FOUND",
     "holdfast: run deploy: NOT_FOUND: sqlite:/proc/x/y.db: cannot create the folder "
     "'/proc/x/': No such file or directory"),
    ("HOLDFAST_STORE='sqlite:x.db?sync=no' holdfast run deploy -- true", "INVALID",
     "holdfast: run deploy: INVALID: sqlite:~/x.db: sync: must be on or off, not 'no'"),
    ("HOLDFAST_STORE=sqlite:d holdfast run deploy -- true", "INVALID",
     "holdfast: run deploy: INVALID: sqlite:~/d: it is a folder; name a file in it",
     "mkdir d"),
    ("HOLDFAST_STORE=dir:f holdfast run deploy -- true", "INVALID",
     "holdfast: run deploy: INVALID: '~/f' is not a folder",
     "echo text > f"),
    ("HOLDFAST_STORE=sqlite:f holdfast run deploy -- true", "CORRUPT",
     "holdfast: run deploy: CORRUPT: sqlite:~/f: the file is not an SQLite database, and was not "
     "changed; check the path in HOLDFAST_STORE or --store",
     "echo 'this is a text, and not a database' > f"),
    ("env -u HOME holdfast run deploy -- true", "INVALID",
     "holdfast: run deploy: INVALID: cannot locate the default store: neither XDG_STATE_HOME"
     " nor HOME is set; pass --store URL or set HOLDFAST_STORE"),
    # Names that do not exist yet, or no longer exist.
    ("holdfast locks ls", "NOT_FOUND",
     "holdfast: locks ls: NOT_FOUND: HOLDFAST_STORE is not set, and the local store "
     "'~/.local/state/holdfast/store.db' does not exist yet; set HOLDFAST_STORE to the URL of the "
     "shared store"),
    ("holdfast store get report.txt", "NOT_FOUND",
     "holdfast: store get report.txt: NOT_FOUND: no such object",
     STORE),
    ("holdfast read report.txt", "NOT_FOUND",
     "holdfast: read report.txt: NOT_FOUND: no such object",
     STORE),
    ("holdfast key get orders/42", "NOT_FOUND",
     "holdfast: key get orders/42: NOT_FOUND: the key was never written; 'holdfast key "
     "ls' lists the keys",
     STORE),
    ("holdfast key show orders/42", "NOT_FOUND",
     "holdfast: key show orders/42: NOT_FOUND: there is no key or lock of this name; "
     "'holdfast key ls' lists the keys",
     STORE),
    ("holdfast locks break deploy --reason stuck", "NOT_FOUND",
     "holdfast: locks break deploy: NOT_FOUND: no such lock in this store; "
     "'holdfast locks ls' lists the locks",
     STORE),
    ("holdfast txn commit 0123456789abcdef0123456789abcdef", "NOT_FOUND",
     "holdfast: txn commit ID: NOT_FOUND: no such transaction, or it ended long ago",
     STORE),
    ("holdfast txn show 12", "INVALID",
     "holdfast: txn show 12: INVALID: '12' is not a transaction id; an id has 32 "
     "hexadecimal digits, as 'holdfast txn begin' prints it",
     STORE),
    ("holdfast index put domains domain=example.com", "NOT_FOUND",
     "holdfast: index put domains: NOT_FOUND: there is no index 'domains'; 'holdfast "
     "index create domains --fields a,b,c --key a --time c' creates one",
     STORE),
    ("holdfast index get domain example.com", "NOT_FOUND",
     "holdfast: index get domain: NOT_FOUND: there is no index 'domain'; did you mean "
     "'domains'? 'holdfast index create' creates one",
     INDEX),
    ("holdfast index get domains example.com", "NOT_FOUND",
     "holdfast: index get example.com: NOT_FOUND: the index domains has no such key",
     INDEX),
    ("holdfast compact run", "NOT_FOUND",
     "holdfast: compact run: NOT_FOUND: there is no partition 'default'; create it with "
     "'holdfast compact create --format csv --key FIELD'",
     STORE),
    ("holdfast compact ingest a.csv", "NOT_FOUND",
     "holdfast: compact ingest: NOT_FOUND: there is no partition 'default'; create it with "
     "'holdfast compact create --format csv --key FIELD'",
     STORE),
    ("holdfast compact ingest --partition logs a.csv", "NOT_FOUND",
     "holdfast: compact ingest: NOT_FOUND: there is no partition 'logs'; create it with "
     "'holdfast compact create --format csv --key FIELD --partition logs'",
     STORE),
    ("holdfast compact pause", "NOT_FOUND",
     "holdfast: compact pause: NOT_FOUND: there is no partition 'default'",
     STORE),
    # Leases.
    ("holdfast release deploy", "INVALID",
     "holdfast: release deploy: INVALID: 'deploy' is not a lease; pass the TOKEN:ID:TABLE "
     "that 'holdfast acquire' printed",
     STORE),
    ("holdfast release", "INVALID",
     "holdfast: release: INVALID: no lease was given: pass the one that 'holdfast acquire' "
     "printed, or set HOLDFAST_LEASE",
     STORE),
    ("holdfast release 1:00-1:default/meta/deploy.json", "LOST",
     "holdfast: release 1:00-1:default/meta/deploy.json: LOST: no such lease: it expired, "
     "was released or was broken",
     STORE),
    ("echo 1 | holdfast key update orders/42", "DENIED",
     "holdfast: key update orders/42: DENIED: changing a key requires its lease; pass the lease "
     "that 'holdfast key acquire' prints with --lease or HOLDFAST_LEASE; or use --take to acquire "
     "the key for this one change",
     STORE),
    ("holdfast key release", "DENIED",
     "holdfast: key release: DENIED: changing a key requires its lease; pass the lease that "
     "'holdfast key acquire' prints with --lease or HOLDFAST_LEASE",
     STORE),
    ("echo 1 | holdfast write report.txt -", "INVALID",
     "holdfast: write report.txt: INVALID: no lock was given: use --lock NAME, or run this "
     "under 'holdfast run', which sets HOLDFAST_LEASE",
     STORE),
    ("echo 1 | holdfast key update orders/42 --take --if-version 3", "CONFLICT",
     "holdfast: key update orders/42: CONFLICT: the key was never written, so it does "
     "not have version 3; read the key again, and decide again",
     STORE),
    ("holdfast run --no-wait deploy -- true", "HELD",
     "holdfast: run deploy: HELD: deploy has been held by USER@HOST (token 1) for 0s; the lease "
     "expires in 0s unless renewed",
     "holdfast acquire -q deploy"),
    ("holdfast acquire --wait 100ms deploy", "TIMEOUT",
     "holdfast: acquire deploy: TIMEOUT: gave up waiting: deploy has been held by USER@HOST "
     "(token 1) for 0s; the lease expires in 0s unless renewed",
     "holdfast acquire -q deploy"),
    ("holdfast run --no-wait --json deploy -- true", "HELD",
     '{"status":"HELD","outcome":"held","why":"deploy has been held by USER@HOST (token 1) '
     'for 0s; the lease expires in 0s unless renewed","command":"run deploy","scope":"named:deploy"'
     ',"holder":"USER@HOST","expires_in_ms":0,"leased":[{"scope":"named:deploy","holder":"US'
     'ER@HOST","expires_in_ms":0,"token":1}],"retry_after_ms":0}',
     "holdfast acquire -q deploy"),
    ("holdfast txn rollback $(cat txn)", "MISMATCH",
     "holdfast: txn rollback ID: MISMATCH: the transaction is already committed and cannot "
     "be rolled back",
     "holdfast txn begin > txn; holdfast txn commit -q $(cat txn)"),
    ("holdfast run --once-per 1h backup -- true", "ALREADY",
     "holdfast: run backup: ALREADY: already run 0s ago by HOST-PID; the next run is allowed"
     " in 0s",
     "holdfast run --once-per 1h backup -- true"),
    # Files.
    ("holdfast store put report.txt nothing.txt", "NOT_FOUND",
     "holdfast: store put report.txt: NOT_FOUND: cannot open 'nothing.txt': No such file "
     "or directory"),
    ("holdfast store put report.txt .", "INVALID",
     "holdfast: store put report.txt: INVALID: '.' is a folder, not a file"),
    ("holdfast store get report.txt .", "INVALID",
     "holdfast: store get report.txt: INVALID: '.' is a folder; name a file in it",
     STORE + "; echo 1 | holdfast store put -q report.txt -"),
    ("holdfast store get report.txt no/such/folder", "NOT_FOUND",
     "holdfast: store get report.txt: NOT_FOUND: 'no/such/folder': cannot open its "
     "folder: No such file or directory",
     STORE + "; echo 1 | holdfast store put -q report.txt -"),
    ("holdfast store get report.txt > /dev/full", "UNREPORTED",
     "holdfast: store get report.txt: UNREPORTED: cannot write the output: No space left "
     "on device",
     STORE + "; echo 1 | holdfast store put -q report.txt -"),
    ("holdfast merge --format csv --key id -o now.csv '*.csv'", "NOT_FOUND",
     "holdfast: merge now.csv: NOT_FOUND: cannot open '*.csv': No such file or directory; the "
     "shell found no file that matches the pattern, or the pattern is quoted"),
    ("holdfast compact ingest logs-?.csv", "NOT_FOUND",
     "holdfast: compact ingest: NOT_FOUND: cannot open 'logs-?.csv': No such file or directory; "
     "the shell found no file that matches the pattern, or the pattern is quoted",
     PARTITION),
    ("holdfast merge --format csv --key id -o now.csv .", "INVALID",
     "holdfast: merge now.csv: INVALID: '.' is a folder, not a file"),
    ("holdfast merge --format cvs --key id -o now.csv a.csv", "INVALID",
     "holdfast: merge now.csv: INVALID: --format: unknown format 'cvs': use usv, csv, "
     "tsv, ndjson, parquet, concat or exec",
     A_FILE),
    ("holdfast merge --format csv --key name -o now.csv a.csv", "INVALID",
     "holdfast: merge now.csv: INVALID: a.csv: the header has no field 'name'; its fields are "
     "id, at",
     A_FILE),
    ("holdfast merge --format csv --key id -o . a.csv", "INVALID",
     "holdfast: merge .: INVALID: '.' is a folder; name a file in it",
     A_FILE),
    ("holdfast merge --format csv --key id:numbr -o now.csv a.csv", "INVALID",
     "holdfast: merge now.csv: INVALID: a key field can be followed by :number, :desc or "
     ":number:desc, not by ':numbr'; if the colon belongs to the name, write a backslash "
     "before it",
     A_FILE),
    ("holdfast compact ingest nothing.csv", "NOT_FOUND",
     "holdfast: compact ingest: NOT_FOUND: cannot open 'nothing.csv': No such file or "
     "directory",
     PARTITION),
    ("holdfast index put domains --from nothing.csv", "NOT_FOUND",
     "holdfast: index put domains: NOT_FOUND: cannot open 'nothing.csv': No such file or "
     "directory",
     INDEX),
    ("holdfast index put domains owner", "INVALID",
     "holdfast: index put domains: INVALID: 'owner' is not of the form FIELD=VALUE",
     INDEX),
    ("holdfast index put domains ownr=ada", "INVALID",
     "holdfast: index put domains: INVALID: there is no field 'ownr'; did you mean "
     "'owner'? The fields are domain, owner, updated_at",
     INDEX),
    ("holdfast index put domains owner=ada", "INVALID",
     "holdfast: index put domains: INVALID: the record has no key",
     INDEX),
    ("holdfast index query domains --since yesterday", "INVALID",
     "holdfast: index query domains: INVALID: --since takes RFC 3339 with a zone, as in "
     "2026-02-06T10:00:00Z, or a number since 1970, not 'yesterday'",
     INDEX),
    ("holdfast index put domains --from rows", "INVALID",
     "holdfast: index put domains: INVALID: cannot determine the format of 'rows'; use "
     "--format usv, csv, tsv or ndjson",
     INDEX + "; printf 'domain,owner\\nexample.com,ada\\n' > rows"),
    # The command itself.
    ("holdfast run deploy -- ./nothing.sh", "NO_COMMAND",
     "holdfast: run deploy: NOT_FOUND: cannot run './nothing.sh': No such file or "
     "directory"),
    ("holdfast run deploy -- ./f", "CANNOT_RUN",
     "holdfast: run deploy: DENIED: cannot run './f': Permission denied; make it executable with "
     "'chmod +x ./f'",
     "echo true > f"),
    ("holdfast run deploy -- ./d", "CANNOT_RUN",
     "holdfast: run deploy: DENIED: cannot run './d': Permission denied",
     "mkdir d"),
    # With --json.
    ("holdfast run --json deploy", "INVALID",
     '{"status":"INVALID","outcome":"invalid","why":"COMMAND is missing; usage: holdfast run'
     ' SCOPE -- COMMAND; --help shows all options","command":"run deploy"}'),
    ("holdfast locks ls --json", "NOT_FOUND",
     '{"status":"NOT_FOUND","outcome":"not_found","why":"HOLDFAST_STORE is not set, and the local '
     "store '~/.local/state/holdfast/store.db' does not exist yet; set HOLDFAST_STORE to the URL "
     'of the shared store","command":"locks ls"}'),
]

# The same on a terminal, where the sentence is a part of the screen. The second column is the text on
# the screen when Ctrl-C is typed; None: Ctrl-C is not typed.
ON_TERMINAL = [
    ("holdfast store get logo.png", None, "INVALID",
     "holdfast: store get logo.png: INVALID: the data is binary and could garble the terminal; "
     "name a file to write it to, or use --force",
     STORE + "; printf 'a\\0b' | holdfast store put -q logo.png -"),
    # Not a shell: one that is about to become its last command loses a Ctrl-C. Nor one long sleep: it misses a
    # Ctrl-C that arrives after Python has looked for signals, and before it sleeps.
    ("holdfast run deploy -- python3 -uc 'import time; print(\"ready\"); [time.sleep(.1) for _ in range(600)]'",
     "ready", "INTERRUPTED", "", STORE),
    ("holdfast run deploy -- ./deploy.sh", "held by USER@HOST", "INTERRUPTED", "held by USER@HOST",
     "holdfast acquire -q deploy"),
    ("holdfast store put report.txt -", "", "INTERRUPTED", "", STORE),
    ("holdfast compact watch", "waiting until it exists", "OK",
     "there is no partition 'default'; create it with 'holdfast compact create --format csv --key "
     "FIELD'; waiting until it exists",
     STORE),
    ("holdfast run deploy -- ./nothing.sh", None, "NO_COMMAND",
     "using the local store of user USER; set HOLDFAST_STORE to share", ""),
]


def normal(text, home):
    for real, shown in ((os.path.realpath(home), "~"), (home, "~"), (socket.gethostname(), "HOST")):
        text = text.replace(real, shown)
    text = re.sub(r"\b%s(?=@HOST|;)" % getpass.getuser(), "USER", text)
    text = re.sub(r"(?<= for )[\dms]+s(?=;)|(?<= expires in )\w+|(?<= allowed in )\w+", "0s", text)
    text = re.sub(r"just now|\b\d+s ago", "0s ago", text)
    text = re.sub(r"\bHOST-\d+", "HOST-PID", text)
    text = re.sub(r'"(expires_in_ms|retry_after_ms)":\d+', r'"\1":0', text)
    return re.sub(r"\b[0-9a-f]{32}(?=: )", "ID", text)


def code_of(scratch, status):
    return SHELL_CODES[status] if status in SHELL_CODES else cli_test.code(scratch, status)


def prepare(scratch, before):
    if before:
        subprocess.run(["sh", "-c", before], cwd=scratch.path, env=scratch.env, check=True,
                       stdout=subprocess.DEVNULL, timeout=60)


def make_mistake(scratch, line, status, sentence, before=""):
    prepare(scratch, before)
    done = subprocess.run(["sh", "-c", line], cwd=scratch.path, env=scratch.env, timeout=60,
                          stdin=subprocess.DEVNULL, capture_output=True, check=False)
    equal(normal(done.stderr.decode(), scratch.path), sentence + "\n", line)
    equal(done.returncode, code_of(scratch, status), line)
    equal(done.stdout, b"", "nothing on stdout")


class Typist:
    """A shell with a terminal that runs one line, and the text shown on the screen so far."""

    def __init__(self, scratch, line):
        self.home, self.text = scratch.path, ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(scratch.path)
            os.execvpe("sh", ["sh", "-c", "exec " + line], {**scratch.env, "TERM": "screen"})

    def read(self):
        """Reads what is there; False at the end."""
        if select.select([self.fd], [], [], 0.05)[0]:
            try:
                self.text += normal(os.read(self.fd, 65536).decode(errors="replace"), self.home)
            except OSError:
                return False
        return True

    def wait_for(self, words):
        end = time.monotonic() + 30
        while words not in self.text:
            true(self.read() and time.monotonic() < end, f"not shown: {words!r} in {self.text!r}")

    def end(self):
        """The exit status as a shell reports it."""
        while self.read():
            pass
        os.close(self.fd)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return status if status >= 0 else 128 - status


def make_mistake_on_terminal(scratch, line, ctrl_c_at, status, sentence, before):
    prepare(scratch, before)
    typist = Typist(scratch, line)
    if ctrl_c_at is not None:
        typist.wait_for(ctrl_c_at)
        time.sleep(0 if ctrl_c_at else 0.5)  # a program that waits for input says nothing
        os.write(typist.fd, b"\x03")
        typed = time.monotonic()
    code = typist.end()
    true(sentence in " ".join(typist.text.split()), typist.text)
    equal(code, code_of(scratch, status), typist.text)
    if ctrl_c_at is not None:
        true(time.monotonic() - typed < 5, "Ctrl-C is answered soon")


def main():
    for mistake in MISTAKES:
        cases.add(f"mistake: {mistake[0]}", functools.partial(make_mistake_of, mistake),
                  lambda: Scratch(None))
    for mistake in ON_TERMINAL:
        cases.add(f"mistake on a terminal: {mistake[0]}",
                  functools.partial(make_terminal_mistake_of, mistake), lambda: Scratch(None))
    return cases.main()


def make_mistake_of(mistake, scratch):
    make_mistake(scratch, *mistake)


def make_terminal_mistake_of(mistake, scratch):
    make_mistake_on_terminal(scratch, *mistake)


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# hold.sh: a script that holds a lock from its first step to its last one, and notices if the lock
# is lost. Set HOLDFAST_STORE first, for example to dir:shared.
set -u

# Starts the holder. It releases the lock when this script ends, even if the script is killed.
coproc HOLD { exec holdfast hold --wait 10s deploy; }
holder=$! answer=${HOLD[0]-} pipe=${HOLD[1]-} # bash unsets HOLD when the holder has ended

# Waits for the lock: the holder prints HOLDFAST_TOKEN=... and HOLDFAST_LEASE=..., or nothing.
unset HOLDFAST_LEASE
set -a
eval "$(cat 2>/dev/null <&"$answer")"
set +a
if [ -z "${HOLDFAST_LEASE-}" ]; then
    wait "$holder" # exits with 89 (HELD) or 94 (TIMEOUT) if another client holds the lock
    exit
fi

echo "step 1 under token $HOLDFAST_TOKEN"
kill -0 "$holder" || exit 90 # the lock is lost: stop
echo "step 2"

# Releases the lock. The status of the holder says whether it was held until now.
exec {pipe}>&-
wait "$holder" || { echo "the lock was lost" >&2; exit 90; }
echo "done"

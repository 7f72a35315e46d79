#!/bin/sh
# busy.sh N COMMAND... : run a command beside N loops that keep a processor busy each.
set -eu
loops=$1
shift
pids=
trap 'kill $pids 2>/dev/null' EXIT
while [ "$loops" -gt 0 ]; do
	while :; do :; done &
	pids="$pids $!"
	loops=$((loops - 1))
done
code=0
"$@" || code=$?
exit $code

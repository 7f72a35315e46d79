#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# busy.sh N COMMAND... : runs a command while N busy loops load one processor each.
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

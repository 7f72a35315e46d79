#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# record.sh COMMAND... : runs a command and keeps its output as docs/evidence/DATE-COMMIT.log. The
# first lines describe the machine.
set -eu
cd "$(dirname "$0")/.."
mkdir -p docs/evidence
log=docs/evidence/$(date -u +%Y%m%d-%H%M%S)-$(git rev-parse --short=12 HEAD 2>/dev/null || echo none).log

status_file=$(mktemp)
trap 'rm -f "$status_file"' EXIT
{
	echo "# $*"
	echo "# $(sh tools/machine)"
	echo "# started $(date -u +%Y-%m-%dT%H:%M:%SZ)"
	code=0
	"$@" 2>&1 || code=$?
	echo "# ended $(date -u +%Y-%m-%dT%H:%M:%SZ) with exit status $code"
	echo "$code" >"$status_file"
} | tee "$log"
echo "recorded in $log"
exit "$(cat "$status_file")"

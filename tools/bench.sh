#!/bin/sh
# bench.sh BUILD : run every benchmark of a build folder, after a line about the machine. A
# benchmark prints its figures, what they are held against and the ratio, and fails where a ratio
# does not hold.
set -eu
cd "$(dirname "$0")/.."
build=$1
sh tools/machine
failed=
found=
for program in "$build"/bench/bench_*; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	found=yes
	echo "== ${program##*/}"
	"$program" || failed="$failed ${program##*/}"
done
if [ -z "$found" ]; then
	echo "bench: there is no benchmark in $build" >&2
	exit 1
fi
if [ -n "$failed" ]; then
	echo "bench: missed:$failed" >&2
	exit 1
fi

#!/bin/sh
# bench.sh BUILD [A] : run every benchmark of a build folder, after a line about the machine. A
# benchmark prints its figures, what they are held against and the ratio, and fails where a ratio
# does not hold.
#
# First tools/ab.py compares the build with A, a revision or another build folder. Without A it
# compares the build with itself: where that finds a difference the machine is not idle, and no
# figure that follows can be trusted.
set -eu
cd "$(dirname "$0")/.."
build=$1
a=${2:-$build}

# What some are measured beside comes as npm packages, pinned by a lock file, and is written down
# when it is there. Where it cannot be had, they say so and go on without it.
install_npm_peers() {
	peers=bench/peers
	stamp=$peers/node_modules/.holdfast-lock
	cmp -s "$peers/package-lock.json" "$stamp" && return
	echo "bench: npm ci in $peers"
	if ! npm ci --prefix "$peers" --no-audit --no-fund --loglevel=error; then
		rm -rf "$peers/node_modules"
		return
	fi
	cp "$peers/package-lock.json" "$stamp"
}

install_npm_peers
sh tools/machine
failed=
found=
echo "== ab: $build beside $([ "$a" = "$build" ] && echo itself || echo "$a")"
python3 tools/ab.py "$a" "$build" || failed=" ab"
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

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench.sh BUILD [A] : prints a line about the machine, and runs every benchmark of a build folder.
# A benchmark prints its figures, its reference figures and the ratio, and whether each ratio meets its
# bar. At the end, tools/bars.py lists the bars that were missed, and fails unless bench/gaps.txt knows them.
#
# First tools/ab.py compares the build with A, a revision or another build folder. Without A it
# compares the build with itself: if that shows a difference, the machine is not idle, and the
# following figures cannot be trusted.
#
# Then tools/charts.py draws the figures as pictures, in docs/charts.
set -eu
cd "$(dirname "$0")/.."
build=$1
a=${2:-$build}

# Some benchmarks compare with npm packages, which are pinned by a lock file. A stamp records that
# they are installed. A benchmark whose packages cannot be installed reports that and skips them.
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
log=$(mktemp)
died=$(mktemp)
trap 'rm -f "$log" "$died"' EXIT
echo "== ab: $build beside $([ "$a" = "$build" ] && echo itself || echo "$a")"
python3 tools/ab.py "$a" "$build" || failed=" ab"
for program in "$build"/bench/bench_* "$build"/bench/*_speed; do
	[ -f "$program" ] && [ -x "$program" ] || continue
	found=yes
	{
		echo "== ${program##*/}"
		"$program" || [ $? -eq 1 ] || echo "${program##*/}" >>"$died" # 1: it missed a bar
	} | tee -a "$log"
done
failed="$failed$(sed 's/^/ /' "$died" | tr -d '\n')"
echo "== export beside holdfast merge, while workers compact"
HOLDFAST_PROGRAM=$build/src/cli/holdfast python3 tests/export_chaos_test.py \
	--chunks 100 --rows 5000000 --rounds 5 --bars || failed="$failed export"
python3 tools/charts.py docs/charts <"$log"
echo "== bars"
python3 tools/bars.py bench/gaps.txt <"$log" || failed="$failed bars"
if [ -z "$found" ]; then
	echo "bench: no benchmark found in '$build'; build it first" >&2
	exit 1
fi
if [ -n "$failed" ]; then
	echo "bench: failed:$failed" >&2
	exit 1
fi

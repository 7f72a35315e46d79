#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh BUILD SECONDS : runs every fuzzer of a build folder for SECONDS on its corpus, then adds
# to the corpus a minimal set of inputs that reach new code. After a crash the input is in
# fuzz/crashes, and the exit status is not 0.
set -eu
cd "$(dirname "$0")/.."
build=$1
seconds=$2
workers=$(nproc)
failed=

for fuzzer in "$build"/fuzz/fuzz_*; do
	[ -f "$fuzzer" ] && [ -x "$fuzzer" ] || continue
	name=${fuzzer##*/fuzz_}
	corpus=fuzz/corpus/$name
	mkdir -p "$corpus" fuzz/crashes
	grown=$(mktemp -d)
	before=$(find "$corpus" -type f | wc -l)
	echo "== $name: $seconds s on $before inputs"
	cp "$corpus"/* "$grown"/ 2>/dev/null || :
	log=$grown.log
	leaks=-detect_leaks=1
	[ "$name" != api ] || leaks=-detect_leaks=0 # it detects leaks itself, and faster
	if ! UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 "$fuzzer" \
		-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 \
		-fork="$workers" -ignore_crashes=0 $leaks -print_final_stats=1 \
		-artifact_prefix="fuzz/crashes/$name-" "$grown" >"$log" 2>&1; then
		tail -n 40 "$log"
		echo "fuzz: $name failed; the input is in fuzz/crashes"
		failed=yes
	else
		grep -E 'cov:' "$log" | tail -n 1 || :
		"$fuzzer" -merge=1 -max_len=4096 "$corpus" "$grown" >/dev/null 2>&1
		echo "   $(find "$corpus" -type f | wc -l) inputs now"
	fi
	rm -rf "$grown" "$log"
done
rmdir fuzz/crashes 2>/dev/null || :
[ -z "$failed" ]

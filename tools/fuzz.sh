#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh BUILD SECONDS [PART]: runs every fuzzer of a build folder for SECONDS on its corpus, one per
# processor at a time, then adds to the corpus a minimal set of inputs that reach new code. PART is
# I/N: only the I-th of N equal parts of the fuzzers, because all of them may take hours. After a crash
# the input is in fuzz/crashes, and the exit status is not 0.
set -eu
cd "$(dirname "$0")/.."

fuzz_one() { # FUZZER SECONDS
	name=${1##*/fuzz_}
	corpus=fuzz/corpus/$name
	mkdir -p "$corpus" fuzz/crashes
	grown=$(mktemp -d)
	log=$grown.log
	cp "$corpus"/* "$grown"/ 2>/dev/null || :
	leaks=-detect_leaks=1
	[ "$name" != api ] || leaks=-detect_leaks=0 # it detects leaks itself, and faster
	if UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 "$1" \
		-max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -max_len=4096 \
		-fork=1 -ignore_crashes=0 $leaks -print_final_stats=1 \
		-artifact_prefix="fuzz/crashes/$name-" "$grown" >"$log" 2>&1; then
		"$1" -merge=1 -max_len=4096 "$corpus" "$grown" >/dev/null 2>&1
		echo "== $name: $2 s, $(grep -E 'cov:' "$log" | tail -n 1); $(find "$corpus" -type f | wc -l) inputs now"
		status=0
	else
		tail -n 40 "$log"
		echo "fuzz: $name failed; the input is in fuzz/crashes"
		status=1
	fi
	rm -rf "$grown" "$log"
	return $status
}

if [ "$1" = --one ]; then
	fuzz_one "$2" "$3"
	exit
fi
build=$1
seconds=$2
part=${3:-1/1}
status=0
find "$build/fuzz" -maxdepth 1 -name 'fuzz_*' -type f -perm -u+x | sort |
	awk -v part="${part%/*}" -v parts="${part#*/}" 'NR % parts == part % parts' |
	xargs -n 1 -P "$(nproc)" sh -c 'sh tools/fuzz.sh --one "$1" "$0"' "$seconds" || status=1
rmdir fuzz/crashes 2>/dev/null || :
exit $status

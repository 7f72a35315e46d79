#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# coverage.sh BUILD COMMAND... : runs a command that runs the tests of a build folder configured
# with -Db_coverage=true, then reports which share of the lines and branches of src/ they covered.
# The pages are in BUILD/coverage/index.html; BUILD/coverage/files.txt has one line per file.
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
find "$build" -name '*.gcda' -delete
code=0
"$@" || code=$?
mkdir -p "$build/coverage"
gcovr --root . --filter src/ --object-directory "$build" --exclude-throw-branches -j 2 \
	--html-details "$build/coverage/index.html" --txt "$build/coverage/files.txt" \
	--json-summary "$build/coverage/summary.json" --print-summary "$build"
echo "coverage: $build/coverage/index.html"
exit $code

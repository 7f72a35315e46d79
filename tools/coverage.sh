#!/bin/sh
# coverage.sh BUILD COMMAND... : run a command that runs tests of a build folder made with
# -Db_coverage=true, then say which part of the lines and branches of src/ they reached. The pages
# are in BUILD/coverage/index.html, a line for each file in BUILD/coverage/files.txt.
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

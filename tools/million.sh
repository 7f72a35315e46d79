#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# million.sh : runs a million seeds of the lock workloads, each with 5 nodes, at least 50 lock
# operations and at least 10 faults that hit a request in flight. Two workloads run at a time. It
# prints the result of each.
#
#     tools/million.sh BUILD [FIRST_SEED]
set -eu

sim=$1/sim/holdfast-sim
first=${2:-1}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

run() {
    "$sim" --workload "$1" --seed "$first" --seeds "$2" --qualified --nodes 5 --operations 50 \
        > "$logs/$1" 2>&1
}

began=$(date +%s)
run locks 600000 & one=$!
{ run ranges 300000 && run epochs 100000 && run fenced 100000; } & other=$!
status=0
wait $one || status=1
wait $other || status=1
for workload in locks ranges epochs fenced; do
    if [ -f "$logs/$workload" ]; then
        cat "$logs/$workload"
        echo
    fi
done
echo "took $(($(date +%s) - began)) s"
exit $status

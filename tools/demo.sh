#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# demo.sh BUILD : shows the main features in about a minute, on stores in a temporary folder. Each
# step prints its command and the result. The demo fails if a result is not the promised one.
set -eu
cd "$(dirname "$0")/.."
tools=$(pwd)/tools
PATH=$(cd "$1" && pwd)/src/cli:$(cd "$1" && pwd)/sim:$PATH
export PATH
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
HOLDFAST_STORE=sqlite:demo.db
TMPDIR=$place
export HOLDFAST_STORE TMPDIR

title() {
	if [ -t 1 ]; then
		printf '\n\033[1m%s\033[0m\n' "$*"
	else
		printf '\n== %s\n' "$*"
	fi
}
show() {
	printf '$ %s\n' "$*"
	eval "$*"
}
# The command must end with this exit status.
show_status() {
	wanted=$1
	shift
	printf '$ %s\n' "$*"
	status=0
	eval "$*" || status=$?
	echo "(exit status $status)"
	[ "$status" -eq "$wanted" ]
}

title "Can this store be trusted? The probe tests its conditional writes."
show holdfast store probe

title "Twenty processes want the same name. Exactly one gets it."
i=0
while [ $i -lt 20 ]; do
	i=$((i + 1))
	echo "winner $i" >"body-$i"
	(holdfast -q store put --if-absent race "body-$i" 2>/dev/null && echo "$i" >>winners) &
done
wait
show holdfast store get race
[ "$(wc -l <winners)" -eq 1 ]

title "A lock around a command. Ten workers count to ten, one at a time."
echo 0 >count
i=0
while [ $i -lt 10 ]; do
	i=$((i + 1))
	holdfast run counter -- sh -c 'n=$(cat count); sleep 0.01; echo $((n + 1)) >count' &
done
wait
show cat count
[ "$(cat count)" -eq 10 ]

title "A holder is killed with -9. Its command is ended too, and the next holder gets the lock by itself."
holdfast run --ttl 2s job -- sh -c 'while :; do echo alive >>alive; sleep 0.05; done' &
holder=$!
while [ ! -s alive ]; do sleep 0.05; done
kill -9 $holder
show 'holdfast run --ttl 2s job -- sh -c "wc -l <alive >before; echo mine now"'
sleep 0.2
show cmp -s before - "<<E
$(wc -l <alive)
E"

title "Fencing: a client that has lost the lock cannot write any more."
echo "by the first" >one.txt
echo "by the second" >two.txt
show 'holdfast acquire --ttl 1s --no-wait state >first'
show 'sleep 1.2; holdfast acquire --no-wait state >second'
show 'holdfast write report two.txt --lock "$(cat second)"'
show_status 90 'holdfast write report one.txt --lock "$(cat first)"'
show holdfast read report

# ---- Compaction -------------------------------------------------------------------------------

HOLDFAST_STORE=dir:bucket
export HOLDFAST_STORE
mkdir fleet
begun=$(date +%s)

title "A bucket receives 400 files of records; only the latest record of each key matters."
show holdfast compact create --format usv --key 1 --time 3 --level1-size 8MiB --ttl 3s --step 200ms
python3 "$tools/demo_fleet.py" fill fleet 400
show 'holdfast compact ingest fleet/chunk-*.usv'
show 'holdfast compact plan | tail -n 3'

title "Eight workers compact it. No leader, no server. Two are killed, and one is stopped for longer than its lease."
python3 "$tools/demo_fleet.py" run fleet 8
show holdfast compact status

title "Any worker clears away merged chunks and the remains of dead workers, once their grace is over."
show holdfast compact set --grace 1s --late-bound 1s --skew 0
tries=0
while holdfast compact ls --all | grep -Eqv '^(STATE|live) '; do
	tries=$((tries + 1))
	[ $tries -lt 120 ]
	sleep 0.25
	holdfast -q compact run
done
show holdfast compact fsck --older-than 0

title "An audit that shares no code with Holdfast: was anything lost, duplicated or left behind?"
events=
for file in fleet/worker-*.json; do events="$events --events $file"; done
show python3 "$tools/audit.py" bucket fleet/rows --settled $events
echo "  filled, compacted and audited in $(($(date +%s) - begun)) s"

if command -v holdfast-sim >/dev/null; then
	title "The same code in a simulator, where any reply may be lost: the same seed gives the same run."
	show "holdfast-sim --seed 7 --trace | grep -v seeds/s >one"
	show "holdfast-sim --seed 7 --trace | grep -v seeds/s >two"
	show cmp one two
	echo "both runs took the same $(wc -l <one) steps"
	show holdfast-sim --seeds 200
fi

title "End of the demo."

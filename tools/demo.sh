#!/bin/sh
# demo.sh BUILD : show what there is, on a store in a folder of its own that is gone afterwards.
# Each step prints its command and what came of it, and the demo fails where a promise does.
set -eu
cd "$(dirname "$0")/.."
PATH=$(cd "$1" && pwd)/src/cli:$(cd "$1" && pwd)/sim:$PATH
export PATH
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
HOLDFAST_STORE=sqlite:demo.db
export HOLDFAST_STORE

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

title "Can this store be trusted? The probe tries, instead of believing."
show holdfast store probe

title "Objects have versions, and a write may insist on one."
echo "first" >first
echo "second" >second
show holdfast store put --if-absent jobs/nightly first
show_status 82 holdfast store put --if-absent jobs/nightly second
show holdfast store get jobs/nightly

title "Twenty processes want the same name. Exactly one gets it."
i=0
while [ $i -lt 20 ]; do
	i=$((i + 1))
	echo "winner $i" >"body-$i"
	(holdfast -q store put --if-absent race "body-$i" 2>/dev/null && echo "$i" >>winners) &
done
wait
show cat winners
[ "$(wc -l <winners)" -eq 1 ]
show holdfast store get race

title "A lock around a command. The token rises with every grant."
show 'holdfast run deploy -- sh -c "echo token \$HOLDFAST_TOKEN"'
show 'holdfast run deploy -- sh -c "echo token \$HOLDFAST_TOKEN"'

title "Ten workers count to ten, one at a time."
echo 0 >count
i=0
while [ $i -lt 10 ]; do
	i=$((i + 1))
	holdfast run counter -- sh -c 'n=$(cat count); sleep 0.01; echo $((n + 1)) >count' &
done
wait
show cat count
[ "$(cat count)" -eq 10 ]

title "Once an hour, on however many hosts."
show 'holdfast run --once-per 1h backup -- echo "backed up"'
show_status 96 'holdfast run --once-per 1h backup -- echo "backed up"'

title "A holder is killed with -9. What it ran dies, and the next one goes on, without anybody's help."
holdfast run --ttl 2s job -- sh -c 'while :; do echo alive >>alive; sleep 0.05; done' &
holder=$!
while [ ! -s alive ]; do sleep 0.05; done
show holdfast locks show job
kill -9 $holder
show 'holdfast run --ttl 2s job -- sh -c "wc -l <alive >before; echo mine now"'
sleep 0.2
show cmp -s before - "<<E
$(wc -l <alive)
E"

title "Fenced: whoever lost the lock cannot write any more."
echo "by the first" >one.txt
echo "by the second" >two.txt
show 'holdfast acquire --ttl 1s --no-wait state >first'
show 'holdfast write report one.txt --lock "$(cat first)"'
show 'sleep 1.2; holdfast acquire --no-wait state >second'
show 'holdfast write report two.txt --lock "$(cat second)"'
show_status 90 'holdfast write report one.txt --lock "$(cat first)"'
show holdfast read report

title "The same objects as plain files."
show holdfast store cp --recursive --to dir:plain
show cat plain/jobs/nightly
show holdfast --store dir:plain store ls

if command -v holdfast-sim >/dev/null; then
	title "The same code in a simulated world, where any reply may be lost: one seed, one story."
	show "holdfast-sim --seed 7 --trace | grep -v seeds/s >one"
	show "holdfast-sim --seed 7 --trace | grep -v seeds/s >two"
	show cmp one two
	echo "both runs took the same $(wc -l <one) steps, which end so:"
	tail -n 4 one
	show holdfast-sim --seeds 500
fi

title "That is all of it so far."

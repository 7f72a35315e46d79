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

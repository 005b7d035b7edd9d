#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Each wrong program of mistakes.def, on one host of the test's own network, by packets: urnic says
# the sentence of the table at once, and `urnic explain` keeps it after the program has ended.
. "$(dirname "$0")/../e2e/common.sh"

mistake=$1/tests/mistakes/mistake
network_up
scratch=$(mktemp -d)

# made NAME REASON SENTENCE: make the mistake, and look for what was said about it.
made() {
	case $1 in iwarp_*) transport=iwarp ;; *) transport=roce ;; esac
	on a env URNIC_LOG=info URNIC_LOCAL=off URNIC_TRANSPORTS=$transport \
		"$urnic" run "$mistake" "$1" >"$scratch/log" 2>&1 ||
		fail "$1: $(cat "$scratch/log")"
	grep -Eq "$3.* \[$2\]\$" "$scratch/log" ||
		fail "$1: no line has '$3' [$2]: $(cat "$scratch/log")"
	# All lines of the log are of one process, whose number is in front of them.
	pid=$(sed -n 's/^urnic\[\([0-9]*\)\]: .*/\1/p' "$scratch/log" | head -n 1)
	on a "$urnic" explain "$pid" >"$scratch/kept" || fail "$1: nothing is kept of process $pid"
	grep -Eq "^[0-9-]+ [0-9:.]+  $2( |,|\$)" "$scratch/kept" ||
		fail "$1: $2 is not kept: $(cat "$scratch/kept")"
}

"$mistake" --list >"$scratch/list"
count=0
while IFS="$(printf '\t')" read -r name reason sentence; do
	made "$name" "$reason" "$sentence"
	count=$((count + 1))
done <"$scratch/list"
[ $count -ge 40 ] || fail "only $count mistakes"
echo "$count mistakes are explained"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Each program of strict.def succeeds on urnic, within one host, and fails with URNIC_STRICT, with
# the sentence of the table.
. "$(dirname "$0")/../e2e/common.sh"

mistake=$1/tests/mistakes/mistake
network_up
scratch=$(mktemp -d)

# forgiven NAME
forgiven() {
	on a env URNIC_LOG=info "$urnic" run --no-view "$mistake" "$1" >"$scratch/lenient" 2>&1
}

# The program may not get to its receive request within the 4 ms that the sender waits.
forgiven_in_time() {
	forgiven "$1" && return
	why="$1 fails without --strict: $(cat "$scratch/lenient")"
	grep -q RNR_RETRY_EXCEEDED "$scratch/lenient" && return $LATE
	fail "$why"
}

# refused NAME REASON SENTENCE
refused() {
	on a env URNIC_LOG=info "$urnic" run --no-view --strict "$mistake" "$1" \
		>"$scratch/strict" 2>&1 && fail "$1 succeeds with --strict"
	case $2 in NONE) end=\$ ;; *) end=".* \\[$2\\]\$" ;; esac
	grep -Eq "$3$end" "$scratch/strict" ||
		fail "$1: no line has '$3' [$2]: $(cat "$scratch/strict")"
}

"$mistake" --list-forgiven >"$scratch/list"
count=0
while IFS="$(printf '\t')" read -r name reason sentence; do
	case $name in
	receive_posted_late) in_some_attempt forgiven_in_time "$name" ;;
	*) forgiven "$name" || fail "$name fails without --strict: $(cat "$scratch/lenient")" ;;
	esac
	refused "$name" "$reason" "$sentence"
	count=$((count + 1))
done <"$scratch/list"
[ $count -ge 16 ] || fail "only $count programs"
echo "$count programs are forgiven without --strict only"

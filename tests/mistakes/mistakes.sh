#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Each wrong program of mistakes.def, on one host of the test's own network, by packets: urnic says
# the sentence of the table at once, and `urnic explain` keeps it after the program has ended. What
# docs/debugging.md shows of some of them is what is printed.
. "$(dirname "$0")/../e2e/common.sh"

here=$(dirname "$0")
mistake=$1/tests/mistakes/mistake
pages=0
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
	page_check "$1"
}

# page_check NAME: does docs/debugging.md show the output that the mistake's run has left?
page_check() {
	first=
	case $1 in
	peer_without_urnicd) section='2. ' ;;
	packet_sequence_numbers_differ) section='3. ' ;;
	nobody_listens) section='4. ' ;;
	rkey_in_network_order) section='5. ' ;;
	target_deregistered_too_early) section='6. ' ;;
	queue_pair_without_access_flags) section='7. ' ;;
	message_too_long_as_the_sender_sees_it) section='8. ' ;;
	no_receive_posted) section='9. ' ;;
	first_error_overlooked) section='10. ' ;;
	dest_qpn_missing) section='And calls that fail' first=MODIFY ;;
	queue_too_large) section='And calls that fail' first=QP_SEND ;;
	datagram_with_another_qkey) section='And datagrams that do not arrive' ;;
	*) return 0 ;;
	esac
	"$here/check-page" "$here/../../docs/debugging.md" "$section" "$first" <"$scratch/kept" ||
		fail "docs/debugging.md shows something else of $1"
	pages=$((pages + 1))
}

"$mistake" --list >"$scratch/list"
count=0
while IFS="$(printf '\t')" read -r name reason sentence; do
	made "$name" "$reason" "$sentence"
	count=$((count + 1))
done <"$scratch/list"
[ $count -ge 40 ] || fail "only $count mistakes"
[ $pages = 12 ] || fail "$pages pages were compared"
echo "$count mistakes are explained"

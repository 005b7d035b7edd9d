#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs under Valgrind: no report about urnic, within a host and between two.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need valgrind ib_send_bw
network_up 9000

# checked HOST ADDRESS PROGRAM...: run the client under memcheck. A leak is a failure if urnic has
# allocated the block.
checked() {
	client_host=$1 address=$2
	shift 2
	start server a "$@"
	wait_for_port a $port "$(process server)" || fail "no server: $(cat "$scratch/server")"
	start client "$client_host" valgrind --leak-check=full --log-file="$scratch/valgrind" "$@" "$address"
	finish_well server client
	grep -q 'ERROR SUMMARY' "$scratch/valgrind" || fail "$*: $(tail "$scratch/valgrind")"
	! grep -E 'Invalid|[Uu]ninitialised|Mismatched' -A 12 "$scratch/valgrind" ||
		fail "$* on $client_host: Valgrind reports an error"
	! grep -E '(at|by) 0x.*(liburnic|libibverbs|librdmacm)' "$scratch/valgrind" ||
		fail "$* on $client_host: a leak in urnic"
}
for client in a b; do
	checked $client 10.99.0.1 ib_send_bw -F -n 300 -s 5000
	checked $client 10.99.0.1 ib_write_lat -F -n 200
	checked $client 10.99.0.1 ib_read_lat -F -n 200 -e
	checked $client 10.99.0.1 ib_atomic_bw -F -n 200
done

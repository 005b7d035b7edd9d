#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# guess_naks BUILD: a stranger sends a fatal NAK in the peer's name for each 64th PSN, while 128
# packets of the victim are outstanding because the peer is stopped for some seconds. The connection
# must live, and go on.
. "$(dirname "$0")/link.sh"

attack=$1/tests/attack/attack_guess
packets=262144 # all PSNs

link_up
# The local ACK timeout is 17 s.
in_host peer sh -c 'echo $$ >"$0" && exec "$@"' "$scratch/peer.pid" \
	"$urnic" run ib_write_bw -F -s 4096 -u 22 -D 12 >"$scratch/peer" 2>&1 &
link_programs=$!
sleep 1
in_host victim "$urnic" run ib_write_bw -F -s 4096 -u 22 -D 12 10.99.0.2 >"$scratch/victim" 2>&1 &
victim=$!
link_programs="$link_programs $victim"

counter() {
	in_host victim "$urnic" stat 2>/dev/null |
		awk -v name="$1" '$1 == name {sum += $2} END {print sum + 0}'
}

is_under_way() {
	[ "$(counter posted_sends)" -gt 1000 ]
}

await 'the exchange does not start' is_under_way
qpn=$(in_host victim "$urnic" stat | awk '$1 == "QP" && $4 == "RTS" {print $2; exit}')
kill -STOP "$(cat "$scratch/peer.pid")"
in_host stranger "$attack" naks eth0 10.99.0.2 10.99.0.1 "$(mac_of victim)" "$qpn" $packets ||
	fail 'the attacker could not attack'
looked=$(counter invalid_responses)
dropped=$(counter guarded_drops)
kill -CONT "$(cat "$scratch/peer.pid")"
wait "$victim" || {
	tail -n 5 "$scratch/victim"
	fail "a NAK that was guessed ended the connection ($looked tries looked at)"
}
echo "$looked tries looked at, $dropped dropped unseen; the connection lived"
[ "$looked" -lt 100 ] && [ "$dropped" -gt 1000 ] || fail 'the tries were not limited'

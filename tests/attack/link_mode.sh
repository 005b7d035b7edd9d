#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# link_mode BUILD: a third host on the link sends packets in the peer's name, while victim and peer
# exchange messages that bypass the kernel's UDP, over IPv4 and over IPv6. Not one of the victim's
# frames may go to the third host, also when the victim's queue pair accepts that host's packets.
. "$(dirname "$0")/link.sh"

attack=$1/tests/attack/attack_redirect
seconds=3

link_up

frames_sent() {
	in_host victim "$urnic" stat 2>/dev/null |
		awk '$1 == "tx_frames" {sum += $2} END {print sum + 0}'
}

has_link() {
	[ "$(frames_sent)" -gt 1000 ]
}

# index_of HOST ADDRESS: of its GID.
index_of() {
	in_host "$1" "$urnic" run ibv_devinfo -v -d rocep_eth0 |
		sed -n "s/.*GID\\[ *\\([0-9]*\\)\\]:[[:space:]]*$2.*/\\1/p" | head -n 1
}

# attack VICTIM PEER GID [TYPE]: their addresses, and their GIDs without the last digit, as
# ibv_devinfo has them. TYPE: RC, or UD, whose packets the attacker knows how to make.
attack() {
	type=${4:-RC}
	index=$(index_of victim "${3}1")
	[ -n "$index" ] && [ "$index" = "$(index_of peer "${3}2")" ] || fail "no GID of $1"
	in_host peer "$urnic" run ib_send_lat -F -c "$type" -s 64 -x "$index" -D $((seconds + 3)) >"$scratch/peer" 2>&1 &
	link_programs=$!
	sleep 1
	in_host victim "$urnic" run ib_send_lat -F -c "$type" -s 64 -x "$index" -D $((seconds + 3)) 10.99.0.2 \
		>"$scratch/victim" 2>&1 &
	link_programs="$link_programs $!"
	victim=$!
	for _ in $(seq 30); do
		! has_link || break
		sleep 0.1
	done
	has_link || { in_host victim "$urnic" stat; skip 'packets do not go past the kernel here'; }

	qpn=
	[ "$type" = RC ] || qpn=$(in_host victim "$urnic" stat | awk '$1 == "QP" && $4 == "RTS" {print $2; exit}')
	before=$(frames_sent)
	# shellcheck disable=SC2086
	said=$(in_host stranger "$attack" eth0 "$2" "$1" "$(mac_of victim)" $seconds $qpn) ||
		fail 'the attacker could not attack'
	after=$(frames_sent)
	echo "attacker: $said; the victim sent $((after - before)) frames meanwhile"
	case $said in
	*' 0 frames taken') ;;
	*) fail 'frames of the victim went to the attacker' ;;
	esac
	[ $((after - before)) -gt 100 ] || fail 'the attack kept packets off the link'
	# Datagrams that the peer did not send confuse ib_send_lat.
	if [ "$type" = UD ]; then
		# shellcheck disable=SC2086
		kill $link_programs
		wait "$victim" || true
	else
		wait "$victim" || { cat "$scratch/victim"; fail 'the exchange ended badly'; }
	fi
	link_programs=
}

attack 10.99.0.1 10.99.0.2 '::ffff:10\.99\.0\.'
attack fd99::1 fd99::2 'fd99::'
attack 10.99.0.1 10.99.0.2 '::ffff:10\.99\.0\.' UD
echo 'all frames went to the peer'

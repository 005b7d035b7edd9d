#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# link_mode BUILD: a third host on the link sends packets in the peer's name, while victim and peer
# exchange messages past the kernel's UDP. Not one of the victim's frames may go to the third host.
. "$(dirname "$0")/link.sh"

attack=$1/tests/attack/attack_redirect
seconds=4

link_up
in_host peer "$urnic" run ib_send_lat -F -s 64 -D $((seconds + 3)) >"$scratch/peer" 2>&1 &
link_programs=$!
sleep 1
in_host victim "$urnic" run ib_send_lat -F -s 64 -D $((seconds + 3)) 10.99.0.2 \
	>"$scratch/victim" 2>&1 &
link_programs="$link_programs $!"
victim=$!

frames_sent() {
	in_host victim "$urnic" stat 2>/dev/null |
		awk '$1 == "tx_frames" {sum += $2} END {print sum + 0}'
}

has_link() {
	[ "$(frames_sent)" -gt 1000 ]
}

for _ in $(seq 30); do
	! has_link || break
	sleep 0.1
done
has_link || { in_host victim "$urnic" stat; skip 'packets do not go past the kernel here'; }

before=$(frames_sent)
said=$(in_host stranger "$attack" eth0 10.99.0.2 10.99.0.1 "$(mac_of victim)" $seconds) ||
	fail 'the attacker could not attack'
after=$(frames_sent)
echo "attacker: $said; the victim sent $((after - before)) frames meanwhile"
case $said in
*' 0 frames taken') ;;
*) fail 'frames of the victim went to the attacker' ;;
esac
[ $((after - before)) -gt 1000 ] || fail 'the attack kept packets off the link'
wait "$victim" || { cat "$scratch/victim"; fail 'the exchange ended badly'; }
echo 'all frames went to the peer'

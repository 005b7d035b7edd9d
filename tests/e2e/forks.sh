#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# fork() under an open device, again and again; no slot stays leased.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
export URNIC_INTERFACES=veth0,lo # loopback is a device only where it is asked for

network_up 9000
for device in rocep_lo rocep_veth0; do
	for round in 1 2 3 4 5; do
		on a timeout 240 "$urnic" run --no-view -- "$programs/forks" -d $device ||
			fail "round $round on $device ends with $?"
	done
done
no_slot_stays() {
	! on a "$urnic" stat | grep -q '^forks'
}
await 'a slot stays' no_slot_stays

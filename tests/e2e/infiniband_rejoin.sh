#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A subnet manager takes over that does not know the multicast groups: it sets ClientReregister, the
# programs get the event, and the fabric's process joins their groups again. So a program that has
# joined once still receives.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

need opensm saquery mckey ibv_asyncwatch

# member_count NUMBER: the members of the group 239.1.2.NUMBER.
member_count() {
	on host2 timeout $pair_seconds "$urnic" run $view -- saquery --smkey 1 -m >"$scratch/members" 2>&1
	grep -c "MGID\.*ff12:4001:ffff::f01:20$1" "$scratch/members"
}

has_members() {
	[ "$(member_count "$1")" = "$2" ]
}

joined() {
	grep -q 'joined dgid' "$scratch/$1"
}

# mlid NAME: the LID of the group that mckey has joined.
mlid() {
	sed -n 's/.*mlid \(0x[0-9a-f]*\).*/\1/p' "$scratch/$1"
}

# reregistered COUNT: how often host1's program has heard of a new manager.
reregistered() {
	[ "$(grep -c IBV_EVENT_CLIENT_REREGISTER "$scratch/events")" -ge "$1" ]
}

# received GROUP: what host4 sends to the group arrives at the program that had joined before.
received() {
	await 'the new manager knows the member' has_members "$1" 1
	start sender host4 stdbuf -oL mckey -s -m "239.1.2.$1" -b "$(stand_in host4)"
	finish_well sender "group$1"
	[ "$(mlid sender)" = "$(mlid "group$1")" ] ||
		fail "the group has the LID $(mlid sender), and had $(mlid "group$1")"
}

fabric_up chain
await 'the ports are active' ports_are Active $ports
start events host1 stdbuf -oL ibv_asyncwatch -d ibp0
# The groups are joined one after another, and in another order after the change of managers.
for group in 3 2 1; do
	start "group$group" host1 stdbuf -oL mckey -m "239.1.2.$group" -b "$(stand_in host1)"
	await 'the program joins' joined "group$group"
done

manager first host2 2
await 'OpenSM is the master' grep -qs 'SUBNET UP' "$scratch/first.log"
await 'programs hear of the new manager' reregistered 1
received 1

manager second host3 1
await 'the second OpenSM is on standby' grep -qs 'Entering STANDBY' "$scratch/second.log"
kill -KILL "$(process first)"
finish first
await 'the second OpenSM is the master' grep -qs 'Entering MASTER' "$scratch/second.log"
await 'programs hear of the second manager' reregistered 2
received 2

kill -KILL "$(process second)"
finish second
await 'programs hear of the embedded manager' reregistered 3
received 3
await 'the port has left' has_members 3 0
exit 0

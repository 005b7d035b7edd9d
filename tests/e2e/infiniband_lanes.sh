#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A process on host1 sends to two others, the first of which has stopped. What waits for the first
# one holds up nothing of the second one, with another service level or the same.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

HOQ_LIFE_MS=800 # datagrams wait for about a second, and then are dropped

# receiver NAME NODE: start one; its pid is in $scratch/NAME.pid, its address in $scratch/NAME.
receiver() {
	on "$2" "$urnic" run --no-view -- sh -c 'echo $$ >"$0"; exec "$1" receive' \
		"$scratch/$1.pid" "$programs/lanes" >"$scratch/$1" 2>/dev/null &
	await "the receiver $1 is there" prints "$1" '^[0-9]+ [0-9]+$'
}

flows_are() {
	fabric clients | grep -q " $1 flows out"
}

# second_goes_on SL NODE: the second receiver is at NODE.
second_goes_on() {
	receiver first host6
	receiver second "$2"
	mkfifo "$scratch/line"
	# shellcheck disable=SC2046
	on host1 "$urnic" run --no-view -- timeout 60 "$programs/lanes" send $(cat "$scratch/first") \
		$(cat "$scratch/second") "$1" <"$scratch/line" >"$scratch/sender" 2>&1 &
	sender=$!
	exec 9>"$scratch/line"
	await 'there are two flows' flows_are 2
	kill -STOP "$(cat "$scratch/first.pid")"
	echo go >&9
	exec 9>&-
	wait $sender || fail "the sender ends: $(cat "$scratch/sender")"
	kill -KILL "$(cat "$scratch/first.pid")" "$(cat "$scratch/second.pid")"
	rm "$scratch/line" "$scratch/first.pid" "$scratch/second.pid"
	read -r datagrams _ ms _ <"$scratch/sender"
	why="service level $1: the second receiver's datagrams took $ms ms"
	[ "$ms" -lt $HOQ_LIFE_MS ] || return $LATE
	[ "$datagrams" -lt 2000 ] || fail "$datagrams datagrams to a stopped process have left"
	echo "$why"
}

fabric_up three-switches
await 'the ports are active' ports_are Active $ports
in_some_attempt second_goes_on 0 host5
in_some_attempt second_goes_on 1 host6
exit 0

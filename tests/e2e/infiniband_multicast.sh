#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Multicast groups of rdma_cm over an InfiniBand fabric: mckey joins them at the subnet
# administrator, the embedded one and OpenSM's. A port leaves a group when its last program has
# left, or was killed.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

need mckey saquery opensm ib_send_bw ib_send_lat

# members MGID: how many ports are members of the group.
members() {
	on host2 "$urnic" run $view -- saquery --smkey 1 -m >"$scratch/members" 2>&1
	grep -c "MGID\.*$1" "$scratch/members"
}

has_members() {
	[ "$(members "$1")" = "$2" ]
}

# joined NAME COUNT: mckey has joined COUNT times.
joined() {
	[ "$(grep -c 'joined dgid' "$scratch/$1")" = "$2" ]
}

# meet SERVER CLIENT GROUP ADDRESS-FUNCTION [OPTIONS OF THE CLIENT]
meet() {
	meet_server=$1 meet_client=$2 group=$3 address=$4
	shift 4
	start server $meet_server stdbuf -oL mckey -m $group -b "$($address $meet_server)" -c 2
	await 'the server joins' joined server 2
	start client $meet_client stdbuf -oL \
		mckey -s -m $group -b "$($address $meet_client)" -c 2 "$@"
	finish_well client server
	grep -q 'return status 0' "$scratch/server" || fail "mckey: $(cat "$scratch/server")"
}

listens() {
	ss -Hltn "sport = :$port" | grep -q .
}

# ended NAME STATUS: with figures. ib_send_lat of perftest 25.01, in Debian 13, frees the name of
# its device before it leaves the group of that device.
ended() {
	[ "$2" = 0 ] || grep -q "^Couldn't Unregister the Mcast group" "$scratch/$1" &&
		grep -q '^ 1024  *300 ' "$scratch/$1" || fail "$1 fails: $(cat "$scratch/$1")"
}

# measure PROGRAM OPTIONS: perftest to a group, which it joins by MADs of its own. It waits for ever
# for a datagram that is lost.
measure() {
	in_some_attempt try_measure "$@"
}

try_measure() {
	port=$((port + 1))
	start server host1 timeout $((20 * attempt)) "$@" -F -n 300 -s 1024 -p $port
	await 'the server listens' listens
	start client host4 timeout $((20 * attempt)) "$@" -F -n 300 -s 1024 -p $port 127.0.0.1
	client_status=0
	server_status=0
	finish client || client_status=$?
	finish server || server_status=$?
	why="$*: the server waits: $(tail -n 2 "$scratch/server")"
	[ $client_status != 124 ] && [ $server_status != 124 ] || return $LATE
	ended client $client_status
	ended server $server_status
	grep -q 'MGID: 255' "$scratch/client" || fail "no multicast: $(cat "$scratch/client")"
}

# What a manager has to do for programs.
groups() {
	meet host1 host2 239.1.2.3 stand_in
	meet host1 host3 239.1.2.3 stand_in
	meet host4 host1 239.1.2.3 stand_in
	grep -q 'joined dgid: ff12:4001:ffff::f01:203 mlid 0xc' "$scratch/server" ||
		fail "GID of the group: $(cat "$scratch/server")"
	meet host1 host4 239.1.2.3 stand_in -o
	meet host1 host4 ff0e::1:2:3 gid_of
	await 'all ports have left' has_members ff12:4001:ffff::f01:203 0

	measure ib_send_bw -g
	measure ib_send_bw -c UD -g -M 255:18:64:2:255:255:0:0:0:0:0:0:0:0:0:7
	measure ib_send_lat -c UD -g

	# Two programs of one host: the port is a member until both have left, or were killed.
	start first host1 stdbuf -oL mckey -m 239.1.2.4 -b "$(stand_in host1)"
	await 'the first one joins' joined first 1
	start second host1 stdbuf -oL mckey -m 239.1.2.4 -b "$(stand_in host1)"
	await 'the second one joins' joined second 1
	start third host4 stdbuf -oL mckey -m 239.1.2.4 -b "$(stand_in host4)"
	await 'the third one joins' joined third 1
	await 'two ports are members' has_members ff12:4001:ffff::f01:204 2
	kill -9 "$(process first)"
	finish first
	await 'the port is still a member' has_members ff12:4001:ffff::f01:204 2
	start sender host3 stdbuf -oL mckey -s -m 239.1.2.4 -b "$(stand_in host3)"
	finish_well sender second third
	await 'all ports have left' has_members ff12:4001:ffff::f01:204 0
	start first host1 stdbuf -oL mckey -m 239.1.2.5 -b "$(stand_in host1)"
	await 'the first one joins' has_members ff12:4001:ffff::f01:205 1
	kill -9 "$(process first)"
	finish first
	await 'the port leaves' has_members ff12:4001:ffff::f01:205 0
}

port=18900
fabric_up chain
await 'the ports are active' ports_are Active $ports
groups
opensm_start opensm host2
groups
exit 0

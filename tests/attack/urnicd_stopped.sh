#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A stopped urnicd does not hold up a lane: while a program waits for urnicd, its other flows go on.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"

port=18600
export URNIC_LANES=1 # which the flow and the datagrams share

# signal_urnicd SIGNAL: to that of host a.
signal_urnicd() {
	for pid in $(pgrep -x urnicd); do
		[ "$(readlink "/proc/$pid/ns/net")" = "$(on a readlink /proc/self/ns/net)" ] &&
			kill -"$1" "$pid"
	done
}

stop_soon() {
	rm -f "$scratch/go"
	sleep 1.5
	signal_urnicd STOP
	touch "$scratch/go"
}

flow_goes_on() {
	stop_soon &
	try_pair a b 10.99.0.1 "$1" -d rocep_veth0 -w "$scratch/go"
	status=$?
	wait $!
	signal_urnicd CONT
	why="ends with $server_status and $client_status: $(cat "$scratch/server" "$scratch/client")"
	return $status
}

network_up
in_some_attempt flow_goes_on "$1/tests/attack/attack_urnicd_stopped"
cat "$scratch/client"

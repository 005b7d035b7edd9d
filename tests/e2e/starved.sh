#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Two processes of an overloaded machine: each is stopped for up to half a second at a time. Their
# connection survives, although four timeouts of it are 0.27 s only.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

port=18600
network_up 9000
start server a "$programs/exchange" -d rocep_veth0 -t 14 -r 3 -n 10000000 -w poll
wait_for_port a $port "$(process server)" || fail "no server: $(cat "$scratch/server")"
start client b "$programs/exchange" -d rocep_veth0 -t 14 -r 3 -n 10000000 -w poll 10.99.0.1
sleep 0.5

# pause NAME SECONDS: it does not run.
pause() {
	kill -STOP "$(process "$1")" || fail "the $1 has ended: $(cat "$scratch/$1")"
	sleep "$2"
	kill -CONT "$(process "$1")"
	sleep 0.02
}
for seconds in 0.3 0.4 0.5 0.4 0.3 0.5; do
	pause client $seconds
	pause server $seconds
done
for end in server client; do
	kill "$(process $end)" || fail "the $end has ended: $(cat "$scratch/$end")"
done
finish client || true
finish server || true

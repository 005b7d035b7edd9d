#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs on an InfiniBand fabric are killed in each state of a connection. The fabric's process
# sends the last message of a killed program, so its peer gets an event at once.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

need rping
fabric_up three-switches
await "the ports are active" ports_are Active $ports
listens=$(stand_in host1)

# meet STATE: a server and a client that stay there.
meet() {
	rm -f "$scratch/go"
	start server host1 "$programs/connect_states" server "$listens" "$1" "$scratch/go"
	await 'the server listens' prints server listens
	start client host3 "$programs/connect_states" client "$listens" "$1" "$scratch/go"
	await "the client stays in $1" prints client "stays in $1"
	await "the server stays in $1" prints server "stays in $1"
}

# The state, which program is killed in it, and the event that the other program gets. A server that
# has not accepted gets none: its accept fails; one that was faster than the news gets an event.
while read -r state victim event; do
	[ -n "$state" ] || continue
	survivor=client
	[ $victim = server ] || survivor=server
	meet "$state"
	kill -9 "$(process $victim)"
	case $state/$victim in
	route/* | req/client) touch "$scratch/go" ;;
	esac
	await "$state, $victim killed: $event" prints $survivor "^$event\$"
	touch "$scratch/go"
	finish $survivor || fail "$state, $victim killed: $survivor: $(tail "$scratch/$survivor")"
	finish $victim
done <<-END
	route        server  REJECTED 8
	req          server  REJECTED 28
	req          client  (ACCEPT -22|REJECTED [0-9]*)
	rep          server  REJECTED 28
	rep          client  REJECTED 28
	established  server  DISCONNECTED 0
	established  client  DISCONNECTED 0
	dreq         server  DISCONNECTED 0
END
exit 0

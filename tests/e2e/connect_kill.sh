#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs are killed in each state of a connection, and so is urnicd. The peer of a killed program
# gets an event at once. A connection in any state outlives urnicd.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need rping
network_up 9000

# wait_for FILE TEXT: up to a minute.
wait_for() {
	for _ in $(seq 1200); do
		grep -q "$2" "$scratch/$1" && return
		sleep 0.05
	done
	fail "$1 does not print '$2': $(tail -n 5 "$scratch/$1")"
}

# meet STATE: a server and a client that stay there.
meet() {
	rm -f "$scratch/go"
	start server a "$programs/connect_states" server 10.99.0.1 "$1" "$scratch/go"
	wait_for server listens
	start client b "$programs/connect_states" client 10.99.0.1 "$1" "$scratch/go"
	wait_for client "stays in $1"
	wait_for server "stays in $1"
}

# The state, which program is killed in it, and the event that the other program gets. A server that
# has not accepted gets none: its accept fails; one that was faster than the news gets an event.
while read -r state victim event; do
	[ -n "$state" ] || continue
	survivor=client
	[ $victim = server ] || survivor=server
	meet "$state"
	died=$(now)
	kill -9 "$(process $victim)"
	case $state/$victim in
	route/* | req/client) touch "$scratch/go" ;;
	esac
	wait_for $survivor "^$event\$"
	within "$died" "$(now)" 0 15000 "$state, $victim killed: $event"
	echo "$state, $victim killed: the other one hears $event after $took ms"
	touch "$scratch/go"
	finish_well $survivor
	finish $victim
done <<-END
	route        server  REJECTED 8
	req          server  REJECTED 28
	req          client  \(ACCEPT -22\|REJECTED [0-9]*\)
	rep          server  REJECTED 28
	rep          client  REJECTED 28
	established  server  DISCONNECTED 0
	established  client  DISCONNECTED 0
	dreq         server  DISCONNECTED 0
END

# urnicd dies, on either host, and the connection goes its way.
for state in route req rep established dreq; do
	for host in a b; do
		meet $state
		killed=$(urnicd_of $host)
		[ -n "$killed" ] || fail "no urnicd on host $host"
		died=$(now)
		kill -9 "$killed"
		touch "$scratch/go"
		finish_well client server
		within "$died" "$(now)" 0 30000 "$state, urnicd of $host killed: the end"
		grep -q '^DISCONNECTED 0' "$scratch/client" ||
			fail "$state, urnicd of $host killed: $(cat "$scratch/client")"
		echo "$state, urnicd of $host killed: connected and ended after $took ms"
	done
done

# A program and its urnicd die, so no process of that host reports it. A repeated REQ finds the port
# closed. After an MRA the client repeats no REQ; then it reports the end after three response
# timeouts.
meet route
killed=$(urnicd_of a)
kill -STOP "$killed"
touch "$scratch/go"
kill -9 "$killed" "$(process server)"
wait_for client '^REJECTED 8$'
finish_well client
meet established
kill -9 "$(urnicd_of a)" "$(process server)"
died=$(now)
touch "$scratch/go"
finish_well client
grep -q '^DISCONNECTED -110' "$scratch/client" || fail "everything killed: $(cat "$scratch/client")"
within "$died" "$(now)" 10000 40000 'DISCONNECTED of a dead peer'

# With data: a server that serves many, a client that is killed.
start server a stdbuf -oL -eL rping -s -P -a 10.99.0.1
for _ in $(seq 50); do
	start client b stdbuf -oL -eL rping -c -d -a 10.99.0.1 -C 100000000
	sleep 0.5
	grep -q ESTABLISHED "$scratch/client" && break
done
wait_for client ESTABLISHED
kill -9 "$(urnicd_of a)"
start second b rping -c -a 10.99.0.1 -V -C 10
finish_well second
kill -9 "$(process client)"
wait_for server 'DISCONNECT EVENT'
kill -9 "$(process server)"
finish server
exit 0

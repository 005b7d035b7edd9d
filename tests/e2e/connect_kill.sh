#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs that are killed while they are connected or about to be, and urnicd itself: the other side hears of it, soon.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need rping
pair_seconds=60
network_up 9000

# wait_for FILE TEXT: up to five seconds.
wait_for() {
	for _ in $(seq 100); do
		grep -q "$2" "$scratch/$1" && return
		sleep 0.05
	done
	fail "$1 does not print '$2': $(tail -n 5 "$scratch/$1")"
}

urnicd_of() {
	on "$1" ss -Hxlp | sed -n 's/.*@urnicd-.*"urnicd",pid=\([0-9]*\).*/\1/p' | head -n 1
}

# connect: a server on host a and a client on host b that go on for ever.
connect() {
	listen server a stdbuf -oL -eL rping -s -a 10.99.0.1 -C 100000000
	start client b stdbuf -oL -eL rping -c -d -a 10.99.0.1 -C 100000000
	wait_for client ESTABLISHED
}

end() {
	for name in "$@"; do
		kill -9 "$(process "$name")" 2>/dev/null
		finish "$name" || true
	done
}

connect
kill -9 "$(process client)"
wait_for server 'DISCONNECT EVENT'
end server client

connect
kill -9 "$(process server)"
wait_for client 'DISCONNECT'
end client server

# urnicd dies: connections go on, are ended in good order, and new ones are made, at the port that was claimed before.
listen server a stdbuf -oL -eL rping -s -P -a 10.99.0.1
start client b stdbuf -oL -eL rping -c -d -a 10.99.0.1 -C 100000000
wait_for client ESTABLISHED
killed=$(urnicd_of a)
[ -n "$killed" ] || fail 'no urnicd on host a'
kill -9 "$killed"
start second b rping -c -a 10.99.0.1 -V -C 10
finish_well second
kill -9 "$(process client)"
wait_for server 'DISCONNECT EVENT'
end server client
exit 0

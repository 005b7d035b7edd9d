#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# XRC domains that processes share: ibv_xsrq_pingpong with several clients. Each message names the
# shared receive queue of one client, and arrives at a queue pair of another one. Between two hosts
# and within one, where no packets are needed.
. "$(dirname "$0")/common.sh"

. "$(dirname "$0")/pairs.sh"
export URNIC_INTERFACES=veth0,lo # loopback is a device only where it is asked for

need ibv_xsrq_pingpong
network_up 9000

show_all() {
	for file in "$scratch"/server "$scratch"/client.*; do
		echo "--- $file"
		tail -n 20 "$file"
	done
}

# several CLIENTS HOST ADDRESS OPTIONS...: a server on host a, and so many clients on HOST.
several_once() {
	clients=$1 client_host=$2 address=$3
	shift 3
	rm -f "$scratch"/*
	on a timeout -s KILL 60 "$urnic" run $view -- ibv_xsrq_pingpong "$@" -c "$clients" >"$scratch/server" 2>&1 &
	server=$!
	wait_for_port a $port $server || true
	i=0
	while [ "$i" -lt "$clients" ]; do
		on "$client_host" timeout -s KILL 60 "$urnic" run $view -- ibv_xsrq_pingpong "$@" "$address" \
			>"$scratch/client.$i" 2>&1 &
		eval "client_$i=\$!"
		i=$((i + 1))
	done
	i=0 why='' statuses=''
	while [ "$i" -lt "$clients" ]; do
		eval "wait \$client_$i"
		ended $? "client $i"
		i=$((i + 1))
	done
	wait $server
	ended $? server
	[ -z "$why" ] || show_all
	# shellcheck disable=SC2086
	hangs $statuses && return $LATE
	[ -z "$why" ]
}

# ended STATUS WHAT
ended() {
	statuses="$statuses $1"
	[ "$1" = 0 ] || why="$2 of $clients clients on $client_host ends with $1"
}

# It gives its peer half a second to come up, and waits for ever when that was not enough.
several() {
	in_some_attempt several_once "$@"
}

# Who polls shares two processors with all others: a few messages are enough.
several 2 b 10.99.0.1 -d rocep_veth0 -g 0 -n 10
several 2 a 127.0.0.1 -d rocep_lo -g 0 -n 10
for clients in 2 4; do
	several $clients b 10.99.0.1 -d rocep_veth0 -g 0 -n 100 -e
	several $clients a 127.0.0.1 -d rocep_lo -g 0 -n 100 -e
done
several 3 b 10.99.0.1 -d rocep_veth0 -g 1 -n 100 -e -s 65536
several 3 a 127.0.0.1 -d rocep_lo -g 0 -n 100 -e -s 65536
several 3 b 10.99.0.1 -d rocep_veth0 -g 0 -n 100 -e -o

# counted PROCESS NAME: of its queue pairs together; nothing when it has ended.
counted() {
	on a "$urnic" stat --all --pid "$1" 2>/dev/null | awk -v name="$2" '$1 == name { sum += $2 } END { if (NR) printf "%.0f\n", sum }'
}

# without_packets MESSAGES: within one host the sender executes each message but the first ones to a
# queue. The server has a single client: with two, the program may name the queue of one client by a
# queue pair of the other, and such a message uses packets.
without_packets() {
	pair_seconds=60
	start server a ibv_xsrq_pingpong -d rocep_lo -g 0 -n "$1" -e
	wait_for_port a $port "$job_server"
	start client a ibv_xsrq_pingpong -d rocep_lo -g 0 -n "$1" -e 127.0.0.1
	executed=0 sent=0
	while kill -0 "$job_server" 2>/dev/null; do
		now_executed=$(counted "$(process server)" local_requests)
		now_sent=$(counted "$(process server)" sent_pkts)
		[ "${now_executed:-0}" -lt "$executed" ] || [ -z "$now_sent" ] || executed=$now_executed sent=$now_sent
		sleep 0.05
	done
	why='' statuses=''
	for name in server client; do
		finish $name
		status=$?
		statuses="$statuses $status"
		[ $status = 0 ] || why="$name ends with $status: $(tail -n 5 "$scratch/$name")"
	done
	# shellcheck disable=SC2086
	hangs $statuses && return $LATE
	[ -z "$why" ] || return 1
	why="$executed requests without packets, $sent packets"
	[ "$executed" -gt 1000 ] && [ "$sent" -le $((executed / 4)) ] || return $LATE
}

export URNIC_LOCAL=on
in_some_attempt without_packets 20000
echo "$why"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# XRC domains that processes share: each message to one of the clients names the shared receive queue of one of them, and comes to
# a queue pair of another one (ibv_xsrq_pingpong with several clients), between two hosts and within one.
. "$(dirname "$0")/common.sh"

. "$(dirname "$0")/pairs.sh"

need ibv_xsrq_pingpong
network_up 9000

show_all() {
	for file in "$scratch"/server "$scratch"/client.*; do
		echo "--- $file"
		tail -n 20 "$file"
	done
}

# several CLIENTS HOST ADDRESS OPTIONS...: a server on host a, and so many clients on HOST.
several() {
	clients=$1 client_host=$2 address=$3
	shift 3
	rm -f "$scratch"/*
	on a timeout -s KILL $pair_seconds "$urnic" run $view -- ibv_xsrq_pingpong "$@" -c "$clients" >"$scratch/server" 2>&1 &
	server=$!
	wait_for_port a $port $server || true
	i=0
	while [ "$i" -lt "$clients" ]; do
		on "$client_host" timeout -s KILL $pair_seconds "$urnic" run $view -- ibv_xsrq_pingpong "$@" "$address" \
			>"$scratch/client.$i" 2>&1 &
		eval "client_$i=\$!"
		i=$((i + 1))
	done
	i=0
	while [ "$i" -lt "$clients" ]; do
		eval "wait \$client_$i" || { show_all; fail "client $i of $clients on $client_host $*"; }
		i=$((i + 1))
	done
	wait $server || { show_all; fail "server of $clients clients on $client_host $*"; }
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

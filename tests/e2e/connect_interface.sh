#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Interfaces and addresses appear, change and disappear while programs use rdma_cm: listeners at any
# address, and connected programs.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

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

# reach ADDRESS: a client gets through, soon.
reach() {
	for _ in $(seq 30); do
		start client b rping -c -a "$1" -V -C 5
		finish client && return
		sleep 0.2
	done
	fail "no connection to $1: $(cat "$scratch/client")"
}

# A listener at any address also listens at addresses that appear after rdma_listen(): of an
# existing interface, and of a new one.
listen server a rping -s -P
reach 10.99.0.1
on a ip addr add 10.98.0.1/24 dev veth0
on b ip addr add 10.98.0.2/24 dev veth0
reach 10.98.0.1
on a ip link add link veth0 name later type macvlan mode bridge
on a ip addr add 10.97.0.1/24 dev later
on a ip link set later up
on b ip addr add 10.97.0.2/24 dev veth0
reach 10.97.0.1
kill "$(process server)"
finish server

# The interface gets another hardware address, then it goes: both as the kernel says it.
listen server a stdbuf -oL -eL rping -s -a 10.97.0.1 -C 100000000
start client b stdbuf -oL -eL rping -c -d -a 10.97.0.1 -C 100000000
wait_for client ESTABLISHED
on a ip link set later down
on a ip link set later address 02:00:00:00:00:77
on a ip link set later up
wait_for server 'RDMA_CM_EVENT_ADDR_CHANGE'
on a ip link del later
wait_for server 'device removal'
kill -9 "$(process client)" "$(process server)" 2>/dev/null
finish client
finish server
exit 0

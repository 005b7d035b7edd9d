#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Debian's programs that connect by address and port (librdmacm), between two hosts and within one.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need rping ucmatose udaddy mckey cmtime rdma_server rdma_xserver ib_write_bw ib_send_lat ib_read_bw qperf
network_up 9000

# Either family, any address, within a host, the longest message, a port of one's own.
meet 'rping -s -a 10.99.0.1 -C 100' b 'rping -c -a 10.99.0.1 -V -C 100'
meet 'rping -s -a fd00:99::1 -C 10' b 'rping -c -a fd00:99::1 -V -C 10'
meet 'rping -s -C 10 -p 7200' b 'rping -c -a 10.99.0.1 -V -C 10 -p 7200'
meet 'rping -s -C 10' a 'rping -c -a 10.99.0.1 -V -C 10'
meet 'rping -s -C 10' a 'rping -c -a 127.0.0.1 -V -C 10'
meet 'rping -s -a 10.99.0.1 -C 10 -S 65535' b 'rping -c -a 10.99.0.1 -V -C 10 -S 65535'

# A server that stays, and clients one after the other.
listen server a rping -s -P -a 10.99.0.1
for client in 1 2 3 4 5; do
	start client$client b rping -c -a 10.99.0.1 -V -C 20
	finish_well client$client
done
stop server

meet ucmatose b 'ucmatose -s 10.99.0.1'
meet 'ucmatose -c 20 -C 10' b 'ucmatose -s 10.99.0.1 -c 20 -C 10'
meet udaddy b 'udaddy -s 10.99.0.1'
# A hundred at once. The server of older releases does not end; in newer ones it keeps the client in
# step, and both end.
if cmtime -h 2>&1 | grep -q controller; then
	start server a cmtime -L -C 10.99.0.1 -p 7199 -b 10.99.0.1 -c 100
	wait_for_port a 7199 "$job_server" || fail "cmtime: $(cat "$scratch/server")"
	start client b cmtime -C 10.99.0.1 -p 7199 -b 10.99.0.2 -c 100
	finish_well client server
else
	listen server a cmtime
	start client b cmtime -s 10.99.0.1 -c 100
	finish_well client
	stop server
fi

meet rdma_server b 'rdma_client -s 10.99.0.1'
meet 'rdma_xserver -c r' b 'rdma_xclient -s 10.99.0.1 -c r'
meet 'rdma_xserver -c x' b 'rdma_xclient -s 10.99.0.1 -c x'
for program in ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_send_bw ib_send_lat ib_atomic_bw ib_atomic_lat; do
	meet "$program -R -F -n 200" b "$program -R -F -n 200 10.99.0.1"
done
# Its server waits for ever for a datagram that was lost, as any may be.
datagrams_once() {
	pair_seconds=$((30 * attempt))
	listen server a ib_send_bw -c UD -R -F -n 200
	start client b ib_send_bw -c UD -R -F -n 200 10.99.0.1
	finish client
	client_status=$?
	finish server
	server_status=$?
	pair_seconds=240
	why="UD: server ends with $server_status, client with $client_status: $(tail -n 5 "$scratch/server" "$scratch/client")"
	hangs $server_status $client_status && return $LATE
	[ $client_status$server_status = 00 ]
}
in_some_attempt datagrams_once

start server a mckey -m 239.1.2.3 -b 10.99.0.1 -c 2
await 'the server does not join' on a grep -qi 'ef010203\|030201ef' /proc/net/igmp
start client b mckey -s -m 239.1.2.3 -b 10.99.0.2 -c 2
finish_well client server

start server a qperf -lp 19766
wait_for_port a 19766 "$(process server)" || fail 'qperf does not listen'
start client b qperf -lp 19766 -cm1 -t 1 10.99.0.1 rc_bw rc_rdma_write_lat
finish_well client
stop server

# refused HOST EVENT SENTENCE PROGRAM...: the connection fails. The program gets the event that an
# adapter would raise, and the log has the sentence once.
refused() {
	refused_host=$1 event=$2 sentence=$3
	shift 3
	start client "$refused_host" "$@"
	finish client && fail "$*: a connection"
	grep -q "$event" "$scratch/client" || fail "$*: no '$event' in $(cat "$scratch/client")"
	[ "$(grep -c '^urnic.*: no connection to' "$scratch/client")" = 1 ] || fail "$*: log: $(cat "$scratch/client")"
	grep -q "^urnic.*: no connection to .*: $sentence" "$scratch/client" || fail "$*: log: $(cat "$scratch/client")"
}

export URNIC_LOG=info
# A network and a host that are not there, and a host that has nobody on urnic.
listen server a rping -s -P -a 10.99.0.1 -p 7400
refused a 'rdma_resolve_addr: Network is unreachable' 'there is no route' rping -c -a 203.0.113.1 -C 1
refused a 'RDMA_CM_EVENT_ADDR_ERROR, error -110' 'the next hop does not answer' rping -c -a 10.99.0.77 -C 1
refused a 'RDMA_CM_EVENT_REJECTED, error 8' 'no program listens' rping -c -a 10.99.0.2 -C 1
stop server

# No program listens: at a port of a host that has programs with urnic, and at another device of
# that host.
listen server a rping -s -P -a 10.99.0.1 -p 7300
refused b 'RDMA_CM_EVENT_REJECTED, error 8' 'no program listens' rping -c -a 10.99.0.1 -C 1 -p 7301
refused a 'RDMA_CM_EVENT_REJECTED, error 8' 'no program listens' rping -c -a 127.0.0.1 -C 1 -p 7300
on a ip link add link veth0 name second type macvlan mode bridge
on a ip addr add 10.98.0.1/24 dev second
on a ip link set second up
on b ip addr add 10.98.0.2/24 dev veth0
refused b 'RDMA_CM_EVENT_REJECTED, error 8' 'no program listens' rping -c -a 10.98.0.1 -C 1 -p 7300
unset URNIC_LOG
start client b rping -c -a 10.99.0.1 -V -C 1 -p 7300
finish_well client

# A port is one program's: the second one hears so.
start second a rping -s -a 10.99.0.1 -p 7300
finish second && fail 'two listeners on one port'
grep -q 'Address already in use' "$scratch/second" || fail "second listener: $(cat "$scratch/second")"
stop server

# Nothing is left: ports are free again.
meet 'rping -s -a 10.99.0.1 -C 1 -p 7300' b 'rping -c -a 10.99.0.1 -V -C 1 -p 7300'
exit 0

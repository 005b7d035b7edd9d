#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Sockets over RDMA: Debian's rstream, riostream and rcopy, and a program that knows plain sockets
# only, through rdma-core's preload library.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

command -v rstream >/dev/null || skip 'rstream is missing (package rdmacm-utils)'
command -v iperf3 >/dev/null || skip 'iperf3 is missing (package iperf3)'
network_up
view=--view

# The server listens: by rdma_cm, or on a TCP port (rstream -T f).
is_listening() {
	[ "$(claims a)" -ge $((claims_before + 2)) ] || on a ss -Hltn | grep -q .
}

# both WHAT SERVER -- CLIENT...: run the server on host a, then the client on host b.
both() {
	what=$1 server=$2
	shift 3
	claims_before=$(claims a)
	# shellcheck disable=SC2086
	start server a $server
	await "$what: the server does not listen: $(cat "$scratch/server")" is_listening
	start client b "$@"
	finish client || fail "$what: client: $(tail -n 2 "$scratch/client")"
	[ "$what" != rcopy ] || kill "$(process server)" 2>/dev/null
	finish server || [ "$what" = rcopy ] || fail "$what: server: $(tail -n 2 "$scratch/server")"
	grep -Eq "${wanted:-.}" "$scratch/client" || fail "$what: $(cat "$scratch/client")"
	echo "$what: $(tail -n 1 "$scratch/client")"
}

# A custom transfer prints one line: its name, bytes, how often.
options='-S 5000 -I 50 -C 5'
for mode in n b f; do
	wanted='^custom +4\.8k +5 +50 ' both "rstream -T $mode" "rstream -T $mode $options" -- \
		rstream -s 10.99.0.1 -T "$mode" -S 5000 -I 50 -C 5
done
wanted='^custom +1m +2 +4 ' both 'rstream, long messages' 'rstream -S 1048576 -I 4 -C 2' -- \
	rstream -s 10.99.0.1 -S 1048576 -I 4 -C 2
wanted='^custom +4\.8k +5 +50 ' both riostream "riostream $options" -- \
	riostream -s 10.99.0.1 -S 5000 -I 50 -C 5

# A server is killed: its client's calls return with an error. rstream looks at errno when nothing
# was received.
for mode in n b; do
	claims_before=$(claims a)
	start server a rstream -T "$mode" -S 4096 -I 100000000
	await "rstream -T $mode: the server does not listen: $(cat "$scratch/server")" is_listening
	start client b rstream -s 10.99.0.1 -T "$mode" -S 4096 -I 100000000
	await 'no data move' has_counted 100 b "$(process client)" sent_pkts
	kill -9 "$(process server)"
	finish server
	finish client
	status=$?
	[ $status != 0 ] && [ $status != 124 ] || fail "rstream -T $mode: the server was killed, its client ends with $status"
done

head -c 3000001 /dev/urandom >"$scratch/from"
wanted='^3000001 bytes' both rcopy rcopy -- rcopy "$scratch/from" "10.99.0.1:$scratch/to"
cmp "$scratch/from" "$scratch/to" || fail 'rcopy: the copy differs'

tcp_opens() {
	on b awk '/^Tcp: [0-9]/ { print $6 }' /proc/net/snmp
}

before=$(tcp_opens)
# iperf3 counts at both ends. With --bytes it ends when all bytes have arrived, including those of
# the block that it was sending.
wanted='iperf Done' both iperf3 "$urnic run --rsocket iperf3 -s -1" -- \
	"$urnic" run --rsocket -- iperf3 -c 10.99.0.1 -n 20M
grep -q '20\.[01] MBytes' "$scratch/client" || fail "iperf3: $(cat "$scratch/client")"
[ "$(tcp_opens)" = "$before" ] || fail 'the preload library let TCP connections be opened'

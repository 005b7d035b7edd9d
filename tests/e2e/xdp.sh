#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# URNIC_LINK=xdp between two hosts, with the program in the driver and in front of the network
# stack: Debian's programs, each byte of each operation, a peer with UDP sockets and a capture of
# it, other traffic, killed programs, missing capabilities, an interface that is removed.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need ib_write_bw ib_read_bw ib_send_lat rping ethtool setpriv
network_up 1500
export URNIC_LOG=info
device=rocep_veth0
for side in a b; do
	# Packets of a lane arrive at one queue.
	on $side ethtool -L veth0 rx 1 tx 1 || skip 'veth has no queues to set here'
done

# uses_xdp NAME: a program said that it uses AF_XDP.
uses_xdp() {
	grep -q 'packets of veth0 pass through AF_XDP' "$scratch/$1"
}

has_program() {
	on "$1" ip -d link show veth0 | grep -q 'prog/xdp'
}

has_none() {
	! has_program "$1"
}

# xdp_pair PROGRAM ARGUMENTS...: both ends use AF_XDP.
xdp_pair() {
	ends_with_xdp pair "$@"
}

# ends_with_xdp pair|lossy_pair PROGRAM ARGUMENTS...: the kernel may still hold the queue of another
# program, which has ended.
ends_with_xdp() {
	in_some_attempt try_with_xdp "$@"
}

try_with_xdp() {
	run=$1
	shift
	xdp_attempt=$attempt
	$run a b 10.99.0.1 "$@"
	attempt=$xdp_attempt
	uses_xdp server && uses_xdp client && return
	grep -h 'URNIC_LINK is' "$scratch/server" "$scratch/client" >"$scratch/why"
	why="$1 does not use AF_XDP: $(tail -n 1 "$scratch/why")"
	! grep -E 'CAP_|kernel with AF_XDP' "$scratch/why" || skip "$why"
	! grep -q 'each receive queue .* has a lane already' "$scratch/why" || return $LATE
	show_pair
	return 1
}

for URNIC_LINK in xdp xdp-generic; do
	export URNIC_LINK
	xdp_pair ib_send_lat -F -d $device -s 8 -n 1000
	xdp_pair ib_write_bw -F -d $device -s 65536 -n 500
	xdp_pair ib_write_bw -F -d $device -s 64 -n 5000
	xdp_pair ib_read_bw -F -d $device -s 65536 -n 500
	ends_with_xdp lossy_pair ib_send_lat -F -d $device -c UD -s 1024 -n 500
	port=18600 # verify's
	xdp_pair "$programs/verify" -d $device -w each -n 4097
	port=18515
	meet 'rping -s -C 20 -a 10.99.0.1' b 'rping -c -V -C 20 -a 10.99.0.1'
	await 'an XDP program stays' has_none a
	await 'an XDP program stays' has_none b
done

# A peer with UDP sockets; its kernel checks the checksums, and tshark does.
export URNIC_LINK=xdp
if command -v tshark >/dev/null; then
	on b ethtool -K veth0 tx off >/dev/null # so that those of sockets have their checksums, too
	on a tshark -q -i veth0 -f 'udp port 4791 and src 10.99.0.2' -w "$scratch/capture" 2>"$scratch/tshark" &
	tshark=$!
	echo $tshark >"$scratch/tshark.pid"
	await 'tshark does not start' grep -q Capturing "$scratch/tshark"
fi
URNIC_LINK=off start server a ib_send_lat -F -d $device -s 64 -n 1000
wait_for_port a $port "$(process server)"
start client b ib_send_lat -F -d $device -s 64 -n 1000 10.99.0.1
finish_well server client
! uses_xdp server && uses_xdp client || fail 'not one end with AF_XDP and one without'
if command -v tshark >/dev/null; then
	kill $tshark
	wait $tshark || true
	count=$(tshark -r "$scratch/capture" 2>/dev/null | wc -l)
	[ "$count" -gt 1000 ] || fail "$count packets in the capture"
	wrong=$(tshark -r "$scratch/capture" -o udp.check_checksum:TRUE -o ip.check_checksum:TRUE -Y \
		'udp.checksum.status != 1 || ip.checksum.status != 1 || _ws.malformed || !infiniband' 2>/dev/null | wc -l)
	[ "$wrong" = 0 ] || fail "$wrong of $count packets are wrong"
fi

# Other traffic goes on, and the other end survives a kill, after which nothing is left.
start server a ib_write_bw -F -d $device -D 100
wait_for_port a $port "$(process server)"
start client b ib_write_bw -F -d $device -D 100 10.99.0.1
await 'no XDP program on host b' has_program b
on b timeout 60 python3 -c 'import socket, struct
ping = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
ping.sendto(struct.pack("!BBHHH", 8, 0, 0xf7ff - 7, 0, 7), ("10.99.0.1", 0))
while ping.recv(100)[20:28] != struct.pack("!BBHHH", 0, 0, 0xffff - 7, 0, 7): pass' || fail 'no ping beside AF_XDP'
on a timeout 60 python3 -c 'import socket
listener = socket.create_server(("10.99.0.1", 18700))
connection = listener.accept()[0]
while bytes := connection.recv(1 << 16): connection.sendall(bytes)' &
tcp=$!
wait_for_port a 18700 $tcp
on b timeout 60 python3 -c 'import os, socket
sent, got = os.urandom(1 << 18), b""
connection = socket.create_connection(("10.99.0.1", 18700))
for i in range(0, len(sent), 4096):
    connection.sendall(sent[i:i + 4096])
    while len(got) < i + 4096: got += connection.recv(1 << 16)
assert sent == got' || fail 'TCP does not work beside AF_XDP'
wait $tcp
kill -KILL "$(process client)"
finish client || true
await 'the XDP program of a killed program stays' has_none b
kill -KILL "$(process server)" 2>/dev/null || true
finish server || true
await 'the XDP program of a killed program stays' has_none a
xdp_pair ib_send_lat -F -d $device -s 8 -n 100

# Without a capability, one sentence, and all else as without AF_XDP.
try_pair a b 10.99.0.1 setpriv --bounding-set -bpf,-sys_admin ib_send_lat -F -d $device -n 100 || {
	show_pair
	fail 'ib_send_lat fails without CAP_BPF'
}
for side in server client; do
	[ "$(grep -c 'URNIC_LINK is xdp, but packets of veth0 go through .*CAP_BPF' "$scratch/$side")" = 1 ] ||
		fail "not one sentence about CAP_BPF: $(cat "$scratch/$side")"
done

# The interface is removed: the programs end with an error of the verbs, and in time.
start server a ib_write_bw -F -d $device -D 100
wait_for_port a $port "$(process server)"
start client b ib_write_bw -F -d $device -D 100 10.99.0.1
has_sent() {
	on b "$urnic" stat | awk '$1 == "sent_pkts" { sent += $2 } END { exit sent < 1000 }'
}
await 'the client sends nothing' has_sent
on b ip link del veth0
is_over() {
	! kill -0 "$(process client)" 2>/dev/null
}
await 'the client does not notice that its interface is gone' is_over
finish client && fail 'the client ends well without an interface'
grep -q 'Completion with error\|Failed status' "$scratch/client" || fail "the client: $(tail -n 5 "$scratch/client")"
kill -KILL "$(process server)" 2>/dev/null || true
finish server || true

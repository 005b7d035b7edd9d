#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# iWARP devices: Debian's programs that connect by address and port, between two hosts and within
# one. tshark dissects the stream.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need rping ucmatose cmtime rdma_server rstream riostream rcopy udaddy mckey rdma_xclient udpong fi_pingpong ib_write_bw ib_send_bw ib_read_bw ib_send_lat qperf tshark dumpcap
export URNIC_TRANSPORTS=iwarp
network_up 9000

on a "$urnic" run -- ibv_devinfo -d iwp_veth0 | grep -q 'transport:.*iWARP' || fail 'no iWARP device'

# Either family, any address, within a host, the longest message.
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
kill "$(process server)"

meet 'ucmatose -c 20 -C 10' b 'ucmatose -s 10.99.0.1 -c 20 -C 10'
# That of newer releases connects without a queue pair, which iWARP does not have.
if ! cmtime -h 2>&1 | grep -q base_qpn; then
	listen server a cmtime
	start client b cmtime -s 10.99.0.1 -c 100
	finish_well client
	kill "$(process server)"
fi
meet rdma_server b 'rdma_client -s 10.99.0.1'
meet 'rstream -S 65536 -I 10 -C 10' b 'rstream -s 10.99.0.1 -S 65536 -I 10 -C 10'
meet 'riostream -S 5000 -I 10 -C 5' b 'riostream -s 10.99.0.1 -S 5000 -I 10 -C 5'
for program in ib_write_bw ib_send_bw ib_read_bw ib_send_lat ib_read_lat ib_atomic_lat; do
	meet "$program -R -F -n 200" b "$program -R -F -n 200 10.99.0.1"
done
meet 'ib_send_bw -R -F -b -q 4 -n 200' b 'ib_send_bw -R -F -b -q 4 -n 200 10.99.0.1'
# Within one host, too.
meet 'ucmatose -c 5 -C 10' a 'ucmatose -s 10.99.0.1 -c 5 -C 10'
meet rdma_server a 'rdma_client -s 10.99.0.1'
meet 'rstream -S 65536 -I 10 -C 10' a 'rstream -s 10.99.0.1 -S 65536 -I 10 -C 10'
meet 'riostream -S 5000 -I 10 -C 5' a 'riostream -s 10.99.0.1 -S 5000 -I 10 -C 5'
meet 'ib_write_bw -R -F -n 200' a 'ib_write_bw -R -F -n 200 10.99.0.1'
meet 'ib_read_lat -R -F -n 200' a 'ib_read_lat -R -F -n 200 10.99.0.1'

head -c 3000001 /dev/urandom >"$scratch/from"
for client in b a; do
	listen server a rcopy
	start client $client rcopy "$scratch/from" "10.99.0.1:$scratch/to"
	finish_well client
	cmp "$scratch/from" "$scratch/to" || fail 'rcopy: the copy differs'
	stop server
	rm "$scratch/to"
	# Over libfabric: connections, and the reliable datagrams that it makes of them.
	for kind in msg rdm; do
		port=47592 pair a $client 10.99.0.1 fi_pingpong -c -I 20 -p verbs -e $kind
		grep -q '^4k ' "$scratch/client" || fail "fi_pingpong -e $kind prints no figures: $(cat "$scratch/client")"
	done
done

# What iWARP does not have is refused, and not waited for: datagrams, multicast, XRC.
for program in 'udaddy -s 10.99.0.1' 'mckey -m 239.1.1.1 -b 10.99.0.2' 'rdma_xclient -s 10.99.0.1 -c x' 'udpong -s 10.99.0.1'; do
	# shellcheck disable=SC2086
	start client b $program
	finish client && fail "$program: there is no such thing"
	status=$?
	[ $status -ne 124 ] && { [ $status -lt 129 ] || [ $status = 255 ]; } ||
		fail "$program ends with $status: $(cat "$scratch/client")"
done

start server a qperf -lp 19766
wait_for_port a 19766 "$(process server)" || fail 'qperf does not listen'
start client b qperf -lp 19766 -cm1 -t 1 10.99.0.1 rc_bw rc_rdma_write_lat rc_rdma_read_bw
finish_well client
start client a qperf -lp 19766 -cm1 -t 1 10.99.0.1 rc_lat
finish_well client
kill "$(process server)"

# Nobody listens; nobody is there.
listen server a rping -s -P -a 10.99.0.1
start client b rping -c -a 10.99.0.1 -C 1 -p 7999
finish client && fail 'a connection to a port that nobody has'
grep -q 'RDMA_CM_EVENT_REJECTED' "$scratch/client" || fail "no listener: $(cat "$scratch/client")"
start client b rping -c -a 10.99.0.77 -C 1
finish client && fail 'a connection to nobody'
grep -q 'RDMA_CM_EVENT_ADDR_ERROR, error -110' "$scratch/client" || fail "no host: $(cat "$scratch/client")"
# One that says nothing, or nonsense, does not keep others out.
start strangers b python3 -c '
import socket, time
silent = socket.create_connection(("10.99.0.1", 7174))
rude = socket.create_connection(("10.99.0.1", 7174))
rude.send(b"GET / HTTP/1.0\r\n\r\n" * 30)
print("here", flush=True)
time.sleep(600)'
await 'no strangers' grep -q here "$scratch/strangers"
start client b rping -c -a 10.99.0.1 -V -C 20
finish_well client
stop strangers
kill "$(process server)"

# The length and opcode of the initiator's first FPDU: the empty WRITE, READ request or SEND that
# says that it is ready, or rping's first SEND.
first_of() {
	case $1 in
	*ready=read*) echo '46 0x01' ;;
	*ready=send*) echo '18 0x03' ;;
	*revision=1* | *peer-to-peer=off*) echo '34 0x03' ;;
	*) echo '14 0x00' ;;
	esac
}

# Every way to open a connection, and all that is on the wire well-formed, with good CRCs.
for options in '' crc=off,ready=read ready=send revision=1 peer-to-peer=off revision=1,crc=off; do
	export URNIC_MPA=$options
	rm -f "$scratch/wire.pcap"
	# tshark would capture by it, and takes a second to start.
	on a sh -c 'echo $$ >"$0" && exec "$@"' "$scratch/dumpcap.pid" \
		dumpcap -q -i veth0 -w "$scratch/wire.pcap" -f 'tcp port 7174' >"$scratch/dumpcap" 2>&1 &
	job_dumpcap=$!
	until [ -s "$scratch/wire.pcap" ]; do kill -0 $job_dumpcap || fail "$(cat "$scratch/dumpcap")"; sleep 0.02; done
	meet 'rping -s -a 10.99.0.1 -C 10 -S 5000' b 'rping -c -a 10.99.0.1 -V -C 10 -S 5000'
	tries=0
	until [ "$(tshark -r "$scratch/wire.pcap" -Y tcp.flags.fin==1 2>/dev/null | wc -l)" -ge 2 ]; do
		[ $((tries += 1)) -lt 200 ] || fail "$options: the capture has no end"
		sleep 0.1
	done
	stop dumpcap
	# Which would take an empty SEND for RPC over RDMA.
	tshark -r "$scratch/wire.pcap" --disable-protocol rpcordma -V -Y iwarp_mpa >"$scratch/wire" 2>/dev/null
	grep -q 'Request frame header' "$scratch/wire" || fail "$options: no MPA request"
	[ "$(grep -c 'OpCode: Terminate' "$scratch/wire")" = 0 ] || fail "$options: a Terminate message"
	for opcode in Write 'Read Request' 'Read Response' Send; do
		grep -q "OpCode: $opcode" "$scratch/wire" || fail "$options: tshark finds no $opcode"
	done
	first=$(tshark -r "$scratch/wire.pcap" -Y 'iwarp_mpa.fpdu && tcp.dstport == 7174' -T fields -E separator=' ' \
		-E occurrence=f -e iwarp_mpa.ulpdulength -e iwarp_rdma.opcode 2>/dev/null | head -n 1)
	[ "$first" = "$(first_of "$options")" ] || fail "$options: the first FPDU is $first, not $(first_of "$options")"
	# Whole words: a good CRC may be 0x8bada6ff.
	if grep -Eiw -m 3 'malformed|bad|incorrect' "$scratch/wire" >"$scratch/complaints"; then
		fail "$options: $(cat "$scratch/complaints")"
	fi
done
unset URNIC_MPA

# Both kinds of devices: rdma_cm chooses the first device that has the address, and a listener at
# any address gets requests of both kinds.
export URNIC_TRANSPORTS=roce,iwarp
listen server a rping -s -P
for transports in roce iwarp iwarp,roce; do
	URNIC_TRANSPORTS=$transports start client b rping -c -a 10.99.0.1 -V -C 10
	finish_well client
done
kill "$(process server)"

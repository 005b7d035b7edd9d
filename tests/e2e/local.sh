#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Two processes of one host exchange data without packets: Debian's programs, and every byte of
# every operation; and which memory is moved for that.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ib_write_bw ib_read_bw ib_send_bw ib_atomic_bw ib_write_lat ib_read_lat ib_send_lat ib_atomic_lat \
	ibv_rc_pingpong ibv_srq_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_xsrq_pingpong
export URNIC_LOCAL=on
network_up 9000

for program in ib_write_bw ib_read_bw ib_send_bw ib_atomic_bw ib_write_lat ib_read_lat ib_send_lat ib_atomic_lat; do
	pair a a 10.99.0.1 $program -F -d rocep_veth0 -n 200
done
for program in ib_write_bw ib_send_bw; do
	pair a a 10.99.0.1 $program -F -d rocep_veth0 -q 4 -b -n 200
	pair a a 10.99.0.1 $program -F -d rocep_veth0 -l 16 -n 320
done
pair a a 10.99.0.1 ib_send_lat -F -d rocep_veth0 -e -n 200
for program in ibv_rc_pingpong ibv_srq_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_xsrq_pingpong; do
	pair a a 10.99.0.1 $program -d rocep_veth0 -g 0
done

# The same bytes and completions on both ways: the program checks all of them.
port=18600
for way in on off; do
	URNIC_LOCAL=$way pair a a 10.99.0.1 "$programs/verify" -d rocep_veth0
	URNIC_LOCAL=$way pair a a 10.99.0.1 "$programs/verify" -d rocep_veth0 -w mixed -n 6000
done

# Private memory is moved into mappable memory when a peer on this host connects, where that is
# possible, and not for a peer on another host.
port=18600
for host in a b; do
	start server a "$programs/verify" -d rocep_veth0 -w mixed -n 100000000
	wait_for_port a $port "$job_server"
	start client $host "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 10.99.0.1
	[ $host = a ] && name=local_requests || name=sent_pkts
	await 'no data move' has_counted 100 $host "$(process client)" $name
	[ $host = b ] || await 'memory was not moved for a peer on this host' grep -q urnic-memory "/proc/$(process server)/maps"
	moved=$(grep -c urnic-memory "/proc/$(process server)/maps")
	kill -9 "$(process server)" "$(process client)"
	finish server
	finish client
	[ $host = a ] || [ "$moved" = 0 ] || fail 'memory was moved for a peer on another host'
done

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Shared receive queues and extended reliable connections in Debian's own programs, between two
# hosts and within one.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
export URNIC_INTERFACES=veth0,lo # loopback is a device only where it is asked for

need ibv_srq_pingpong ibv_xsrq_pingpong ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat \
	ib_atomic_bw ib_atomic_lat
network_up 9000

# everywhere PROGRAM OPTIONS...: over IPv4 and IPv6 between the hosts, and on one of them.
everywhere() {
	pair a b 10.99.0.1 "$@" -d rocep_veth0 -g 0
	pair a b 10.99.0.1 "$@" -d rocep_veth0 -g 1
	pair a a 127.0.0.1 "$@" -d rocep_lo -g 0
}

# perftest PROGRAM OPTIONS...: the client's last row is of figures, none of them 0.
perftest() {
	pair a "$perftest_client" "$perftest_address" "$@" -F -d "$perftest_device"
	awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+/ { rows++; if ($3 <= 0 || $4 <= 0) exit 1 } END { exit !rows }' \
		"$scratch/client" || { show_pair; fail "$* prints no figures"; }
}

everywhere ibv_srq_pingpong -n 200
everywhere ibv_srq_pingpong -n 200 -e -q 8 -s 65536
pair a b 10.99.0.1 ibv_srq_pingpong -d rocep_veth0 -g 0 -c -q 4
everywhere ibv_xsrq_pingpong -n 200
everywhere ibv_xsrq_pingpong -n 200 -e -s 65536

for hosts in 'b 10.99.0.1 rocep_veth0' 'a 127.0.0.1 rocep_lo'; do
	# shellcheck disable=SC2086
	set -- $hosts
	perftest_client=$1 perftest_address=$2 perftest_device=$3
	for transport in RC UC UD; do
		perftest ib_send_bw --use-srq -c $transport -s 1024 -n 200
	done
	perftest ib_send_bw --use-srq -q 8 -n 200
	perftest ib_send_lat --use-srq -n 200
	for program in ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat; do
		perftest $program -c XRC -n 200
	done
	perftest ib_send_bw -c XRC -q 4 -b -n 200
	perftest ib_write_bw -c XRC -q 4 -n 200
done

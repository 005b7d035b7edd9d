#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Debian's ping-pongs, perftest, rping and ucmatose between hosts of an InfiniBand fabric that are
# two, three and five hops apart, without a GID index.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

need ib_atomic_bw ib_send_bw ibv_rc_pingpong rping ucmatose
port=$((20000 + $$ % 240 * 50)) # below those that the kernel gives to clients

# connects PROGRAM OPTIONS...: a client that comes before its server is rejected.
connects() {
	start client "$host" "$@"
	finish client
}

# meet 'SERVER WITH OPTIONS' CLIENT OPTIONS...: both succeed.
meet() {
	# shellcheck disable=SC2086 # the options are words
	start server host1 $1
	shift
	await "$* connects to host1" connects "$@"
	finish_well server
}

fabric_up chain
await 'the ports are active' ports_are Active $ports
for apart in host2:2 host3:3 host4:5; do
	host=${apart%:*} hops=${apart#*:}
	fabric route "$(lid_of host1)" "$(lid_of $host)" >"$scratch/route" || fail "$host: no route"
	[ "$(grep -c ' -> ' "$scratch/route")" = "$hops" ] || fail "$host: $(cat "$scratch/route")"
	for program in ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong; do
		port=$((port + 1))
		case $program in
		*_rc_* | *_srq_*) pair host1 $host 127.0.0.1 $program -n 200 -p $port ;;
		*) lossy_pair host1 $host 127.0.0.1 $program -n 200 -p $port ;;
		esac
	done
	for program in ib_send ib_write ib_read ib_atomic; do
		for kind in bw lat; do
			port=$((port + 1))
			pair host1 $host 127.0.0.1 ${program}_$kind -F -n 200 -p $port
		done
	done
	meet 'rping -s -C 20' rping -c -a "$(stand_in host1)" -C 20 -V
	meet 'ucmatose' ucmatose -s "$(stand_in host1)"
	echo "$host, $hops hops: all 14 programs"
done
exit 0

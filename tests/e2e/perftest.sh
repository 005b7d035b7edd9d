#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Debian's perftest programs with their options, between two hosts and within one.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
export URNIC_INTERFACES=veth0,lo # loopback is a device only where it is asked for

need ib_write_bw ib_read_bw ib_send_bw ib_atomic_bw ib_write_lat ib_read_lat ib_send_lat ib_atomic_lat
network_up 9000

# perftest PROGRAM OPTIONS...: run it between the hosts. The client's last row must have figures,
# none of them 0.
perftest() {
	pair a b 10.99.0.1 "$@" -F -d rocep_veth0
	figures "$@"
}

figures() {
	awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+/ { rows++; if ($3 <= 0 || $4 <= 0) exit 1 } END { exit !rows }' \
		"$scratch/client" || { show_pair; fail "$* prints no figures"; }
}

says() {
	grep -q "$1" "$scratch/client" || { show_pair; fail "the client does not print '$1'"; }
}

# Every program, to an IPv4 address and to an IPv6 one.
for program in ib_write_bw ib_read_bw ib_send_bw ib_atomic_bw ib_write_lat ib_read_lat ib_send_lat \
	ib_atomic_lat; do
	perftest $program -x 0 -n 200 -c RC
	says 'GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:99:00:01'
	perftest $program -x 1 -n 200
	says 'GID: 253:00:00:153:00:00:00:00:00:00:00:00:00:00:00:01'
done

# Several queue pairs, both directions, lists of requests, moderated completions.
for program in ib_write_bw ib_send_bw; do
	perftest $program -q 8 -n 200
	perftest $program -b -q 2 -n 200
	perftest $program -l 16 -n 320
	perftest $program -Q 1 -n 256
	perftest $program -Q 64 -n 256
done
perftest ib_read_bw -q 8 -b -n 200
perftest ib_read_bw -l 16 -n 320
perftest ib_atomic_bw -q 8 -n 200
perftest ib_atomic_bw -A CMP_AND_SWAP -b -n 200
for outstanding in 1 16; do
	perftest ib_read_bw -o $outstanding -n 200
	perftest ib_atomic_bw -o $outstanding -n 200
done

# Path MTUs and sizes that are no multiple of anything.
for mtu in 256 512 1024 2048 4096; do
	perftest ib_send_bw -m $mtu -s 65535 -n 100
	says "Mtu  *: $mtu\[B\]"
done
for size in 1 13 4097 1048577; do
	perftest ib_read_bw -s $size -n 100
	perftest ib_send_bw -s $size -n 100
done
perftest ib_send_bw -a -n 5
[ "$(grep -c '^ [0-9]' "$scratch/client")" = 23 ] || fail '-a is not all sizes'

# Inline data, both ways of posting, events, units, time.
perftest ib_write_lat -I 64 -s 64 -n 200
says 'Max inline data *: 64\[B\]'
says 'ibv_wr\* API *: ON'
perftest ib_write_lat --use_old_post_send -n 200
says 'ibv_wr\* API *: OFF'
for program in ib_send_bw ib_send_lat ib_read_bw ib_read_lat ib_atomic_bw; do
	perftest $program -e -n 200
done
perftest ib_read_bw --report_gbits -n 200
says 'BW average\[Gb/sec\]'
perftest ib_send_bw -D 1

# Memory on demand.
for program in ib_write_bw ib_read_lat ib_send_bw; do # perftest has no atomics there
	perftest $program --odp -n 200
done

# Packets within one host: over the loopback interface, and to another address of the host.
# (tests/e2e/local.sh tests the path without packets.)
export URNIC_LOCAL=off
for program in ib_read_bw ib_send_bw ib_write_lat; do
	pair a a 127.0.0.1 $program -F -d rocep_lo -n 200
	figures $program
	pair a a 10.99.0.1 $program -F -d rocep_veth0 -x 1 -n 200
	figures $program
done

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Unreliable connections, datagrams and multicast: Debian's programs between two hosts and within
# one.
#
# Lost messages are not repeated, so a program that counts messages may wait for ever; the test then
# runs it again. Programs that stream send no more than the receiver's socket holds, so none is lost
# when the receiver is late.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ibv_uc_pingpong ibv_ud_pingpong ib_send_bw ib_send_lat ib_write_bw ib_write_lat
network_up 9000

# perftest CLIENT PROGRAM OPTIONS...: the client's last row is of figures, none of them 0.
perftest() {
	client=$1
	shift
	lossy_pair a "$client" 10.99.0.1 "$@" -F -d rocep_veth0
	awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+/ { rows++; if ($3 <= 0 || $4 <= 0) exit 1 } END { exit !rows }' \
		"$scratch/client" || { show_pair; fail "$* prints no figures"; }
}

for client in a b; do
	lossy_pair a $client 10.99.0.1 ibv_uc_pingpong -d rocep_veth0 -g 0 -n 200 -e -m 4096 -s 20000
	lossy_pair a $client 10.99.0.1 ibv_uc_pingpong -d rocep_veth0 -g 2 -n 200
	lossy_pair a $client 10.99.0.1 ibv_ud_pingpong -d rocep_veth0 -g 0 -n 200 -e
	lossy_pair a $client 10.99.0.1 ibv_ud_pingpong -d rocep_veth0 -g 2 -n 200
	perftest $client ib_send_lat -c UC -n 200
	perftest $client ib_send_lat -c UD -n 200 -s 4096
	perftest $client ib_send_bw -c UD -g -n 40 -x 0 -M 255:14:0:0:0:0:0:0:0:0:255:255:224:9:8:7
	perftest $client ib_send_bw -c UD -g -n 40 -x 2 -M 255:2:0:0:0:0:0:0:0:0:0:0:0:9:8:7
done
perftest b ib_write_lat -c UC -n 200 -x 1 -s 5000
perftest b ib_write_bw -c UC -n 500 -q 4
perftest b ib_send_bw -c UC -n 10 -s 16384 -q 2 -b
perftest b ib_send_lat -c UD -n 200 -x 1 -e
perftest b ib_send_bw -c UD -n 20 -s 1000 -q 2

# What a connection or an address handle cannot be is refused, and said.
if try_pair a b 10.99.0.1 ib_read_bw -c UC -F -d rocep_veth0; then
	fail 'there are READs on an unreliable connection'
fi

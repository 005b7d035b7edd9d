#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Sixteen pairs of processes at once on one host's one address, each with a slot of its own.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

PAIRS=16
need ib_write_bw ib_read_bw ib_send_bw
network_up 9000

# program_of NUMBER: of all kinds, so that no pair is like its neighbour.
program_of() {
	case $(($1 % 4)) in
	0) echo ib_send_bw -F -n 2000 ;;
	1) echo ib_read_bw -F -n 2000 ;;
	2) echo ib_write_bw -F -n 2000 ;;
	3) echo "$programs/verify" -w mixed -n 2000 ;;
	esac
}

all=''
for i in $(seq $PAIRS); do
	# shellcheck disable=SC2046
	start "server$i" a $(program_of "$i") -d rocep_veth0 -p $((19000 + i))
	all="$all server$i client$i"
done
for i in $(seq $PAIRS); do
	wait_for_port a $((19000 + i)) "$(process "server$i")" || fail "server $i: $(cat "$scratch/server$i")"
done
for i in $(seq $PAIRS); do
	# shellcheck disable=SC2046
	start "client$i" a $(program_of "$i") -d rocep_veth0 -p $((19000 + i)) 10.99.0.1
done
# shellcheck disable=SC2086
finish_well $all

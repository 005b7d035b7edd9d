#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Selective repeat: with 1 % loss, two urnics send little more again than was lost: requests, and
# responses of READs. If one of them has it off, go-back-N repairs the loss, and sends several times
# as much again.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/pair_ends.sh"
need ib_write_bw ib_send_bw ib_read_bw

# packets SENDER: all, of them for the first time, and the lost ones.
packets() {
	awk -v sender="$1" '
		index($0, sender) == 1 { all = $5; lost = $6; getline; print all, $3, lost }
	' "$scratch/err"
}

# losses SERVER CLIENT PROGRAM ARGUMENTS...: run a pair with loss, each end with this value of
# URNIC_SELECTIVE. Sets `again` to the packets that the end with the data has sent again, and `lost`
# to those that were lost.
losses() {
	server=$1 client=$2
	shift 2
	pair_ends 0 --loss 1% --seed 7 -- env "URNIC_SELECTIVE=$server" "$@" -- \
		env "URNIC_SELECTIVE=$client" "$@" 10.99.0.1
	sender='client on host b'
	[ "$1" = ib_read_bw ] && sender='server on host a'
	# shellcheck disable=SC2046
	set -- $(packets "$sender")
	again=$(($1 - $2)) lost=$3
	[ "$lost" -gt 100 ] || fail "lost: $lost: $(cat "$scratch/err")"
}

# repeats_losses PROGRAM ARGUMENTS...: a probe may send a packet again that was only late, so the
# bound has some room.
repeats_losses() {
	losses on on "$@"
	selectively=$again
	[ "$again" -ge $((lost * 9 / 10)) ] && [ "$again" -le $((2 * lost)) ] ||
		fail "$*: $again packets again for $lost lost"
	for ends in 'on off' 'off on' 'off off'; do
		# shellcheck disable=SC2086
		losses $ends "$@"
		[ "$again" -gt $((2 * selectively)) ] ||
			fail "$* with $ends: $again packets again, and $selectively selectively"
	done
}

pairs_begin
repeats_losses ib_write_bw -F -n 2000
repeats_losses ib_write_bw -F -n 2000 -R
repeats_losses ib_send_bw -F -n 2000
repeats_losses ib_read_bw -F -n 2000

# Every byte arrives once, also with duplicates, and with packets out of order.
for seed in 1 2 3; do
	pair_ends 0 --loss 1% --duplicate 1% --corrupt 1% --reorder 2% --seed $seed -- \
		"$programs/verify" -d rocep_veth0 -w each -n 2049 -- \
		"$programs/verify" -d rocep_veth0 -w each -n 2049 10.99.0.1
done

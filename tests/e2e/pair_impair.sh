#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic pair with each impairment and each fault: the same seed gives the same counters, as root and
# as an ordinary user.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/pair_ends.sh"
need ib_write_bw ib_read_bw ib_send_bw ib_write_lat rping

# column TEXT NUMBER: of the table's rows that begin so, added.
column() {
	awk -v text="$1" -v number="$2" \
		'index($0, text) == 1 { sum += $number } END { print sum + 0 }' "$scratch/err"
}

# Columns of the rows "  first time".
first_total=3 first_dropped=4 first_duplicated=5 first_corrupted=6 first_reordered=7

# twice STATUS ARGUMENTS...: urnic pair, two times. A seed repeats the rows of first transmissions,
# and those of the faults that are not about packets.
twice() {
	for run in 1 2; do
		pair_ends "$@"
		grep -E '^  (first time|RNR NAKs|killed)' "$scratch/err" >"$scratch/first.$run"
	done
	[ "$(grep -c '^  first time' "$scratch/first.1")" = 2 ] || fail "no table: $(cat "$scratch/err")"
	cmp -s "$scratch/first.1" "$scratch/first.2" ||
		fail "$as $*: $(cat "$scratch/first.1" "$scratch/first.2")"
}

# same_twice OPTIONS... -- PROGRAM ARGUMENTS...: both ends run the program.
same_twice() {
	options=
	while [ "$1" != -- ]; do
		options="$options $1"
		shift
	done
	shift
	# shellcheck disable=SC2086
	twice 0 $options -- "$@" -- "$@" 10.99.0.1
}

# is_hit COLUMN WHAT: first transmissions were.
is_hit() {
	[ "$(column '  first time' "$1")" -gt 0 ] || fail "$as: no packet was $2: $(cat "$scratch/err")"
}

impairments() {
	same_twice --loss 1% -- ib_write_bw -F -n 100
	is_hit $first_dropped dropped
	[ "$(column '  first time' $first_total)" = 1600 ] || fail "packets: $(cat "$scratch/err")"
	same_twice --duplicate 1% -- ib_write_bw -F -n 100
	is_hit $first_duplicated duplicated
	same_twice --corrupt 1% -- ib_write_bw -F -n 100
	is_hit $first_corrupted corrupted
	same_twice --reorder 1% -- ib_write_bw -F -n 100
	is_hit $first_reordered reordered
	same_twice --loss 1% --duplicate 1% --corrupt 1% --reorder 1% --delay 100us --seed 7 -- \
		ib_read_bw -F -n 100

	# Another seed hits others.
	cp "$scratch/first.1" "$scratch/first"
	pair_ends 0 --loss 1% --duplicate 1% --corrupt 1% --reorder 1% --delay 100us --seed 8 -- \
		ib_read_bw -F -n 100 -- ib_read_bw -F -n 100 10.99.0.1
	grep '^  first time' "$scratch/err" >"$scratch/first.1"
	! cmp -s "$scratch/first" "$scratch/first.1" || fail 'another seed hits the same packets'

	# By rdma_cm, whose ends have different options.
	twice 0 --loss 2% --reorder 2% --duplicate 2% -- rping -s -a 10.99.0.1 -C 100 -- \
		rping -c -a 10.99.0.1 -C 100 -V

	# A hostile peer is hostile by counts. A message that an RNR NAK refused comes again.
	same_twice --hostile -- ib_read_bw -F -n 100
	is_hit $first_duplicated duplicated
	pair_ends 0 --hostile -- rping -s -a 10.99.0.1 -C 50 -- rping -c -a 10.99.0.1 -C 50 -V
	[ "$(column '  RNR NAKs' 3)" -gt 0 ] || fail "no RNR NAK: $(cat "$scratch/err")"
	same_twice --hostile -- "$programs/verify" -d rocep_veth0 -w each -n 2049

	# Every byte arrives, whatever happens on the way.
	same_twice --loss 1% --duplicate 1% --corrupt 1% --reorder 2% -- \
		"$programs/verify" -d rocep_veth0 -w each -n 2049
}

# Bounds that no busy machine breaks.
time_bounds() {
	same_twice --delay 2ms -- ib_write_lat -F -n 50
	awk '$1 == 2 && $2 == 50 { exit !($3 >= 2000) }' "$scratch/out" ||
		fail "faster than the delay: $(cat "$scratch/out")"
	same_twice --rate 1G -- ib_write_bw -F -n 200
	awk '$1 == 65536 && $2 == 200 { exit !($4 <= 120) }' "$scratch/out" ||
		fail "faster than the rate: $(cat "$scratch/out")"
}

# aims FAULT HITS: at ib_read_bw, whose server sends the responses.
aims() {
	twice 0 --fault "$1" -- ib_read_bw -F -n 50 -- ib_read_bw -F -n 50 10.99.0.1
	[ "$(column server 10)" = "$2" ] || fail "$as $1: not $2 hits at the server: $(cat "$scratch/err")"
}

faults() {
	aims 'drop READ response 3 of qp 1' 1
	is_hit $first_dropped dropped
	aims 'drop READ response 3 of qp 2' 0
	aims 'corrupt READ response 4 3 times' 3
	aims 'duplicate READ response 17 at server' 1
	aims 'duplicate READ response 17 at client' 0
	aims 'delay READ response 5 by 20ms' 1

	# Too often for the requester's retries.
	pair_ends 1 --fault 'drop WRITE 7 1000 times' --grace 0 -- ib_write_bw -F -n 50 -- \
		ib_write_bw -F -n 50 10.99.0.1
	grep -qi 'status 12\|vendor' "$scratch/out" "$scratch/err" ||
		fail "the retries do not run out: $(cat "$scratch/out" "$scratch/err")"

	echo '# a comment
		rnr 5 times at server; rnr 9 times at client' >"$scratch/faults"
	twice 0 --faults "$scratch/faults" -- ib_send_bw -F -n 50 -- \
		ib_send_bw -F -n 50 10.99.0.1
	[ "$(column '  RNR NAKs' 3)" = 5 ] || fail "not 5 RNR NAKs: $(cat "$scratch/err")"

	# The status of a program that is killed on purpose does not count.
	twice 0 --fault 'kill peer after 64KiB' -- ib_write_bw -F -n 1000 -- \
		sh -c '! ib_write_bw -F -n 1000 10.99.0.1'
	grep -q '^  killed the server' "$scratch/err" || fail "lives: $(cat "$scratch/err")"
	# Its server may notice that before it is ended.
	pair_ends 0 --fault 'kill client after 64KiB' --grace 0 -- \
		sh -c 'ib_read_bw -F -n 1000 || true' -- ib_read_bw -F -n 1000 10.99.0.1
	grep -q '^  killed the client' "$scratch/err" || fail "lives: $(cat "$scratch/err")"
}

refusals() {
	for wrong in '--loss 1' '--loss 101%' '--delay 2' '--rate 1' '--seed x' '--corrupt %'; do
		# shellcheck disable=SC2086
		pair_ends 2 $wrong -- true -- true
		says "${wrong#* }'; it may be "
	done
	pair_ends 2 --fault 'dorp WRITE 3' -- true -- true
	says "there is no fault 'dorp'"
	pair_ends 2 --fault 'drop READ 3' -- true -- true
	says "'READ' is wrong in"
	pair_ends 2 --faults /nowhere -- true -- true
	says '/nowhere'
	URNIC_TRANSPORTS=iwarp
	export URNIC_TRANSPORTS
	pair_ends 2 --loss 1% -- true -- true
	says 'no effect on iWARP'
	unset URNIC_TRANSPORTS
	# Other tests' pairs have such files, for as long as they run.
	for file in /tmp/urnic-pair.*; do
		await "$file is left" test ! -e "$file"
	done
}

# Each frame of the capture is one packet, and the dropped one is not there.
captures() {
	command -v tshark >/dev/null || return 0
	pair_ends 0 --capture "$scratch/pcap" --fault 'drop WRITE 2' -- ib_write_bw -F -n 5 -- \
		ib_write_bw -F -n 5 10.99.0.1
	[ "$(tshark -r "$scratch/pcap" -Y 'infiniband.bth.opcode == 6' 2>/dev/null | wc -l)" -ge 5 ] ||
		fail 'the capture lacks packets'
	tshark -r "$scratch/pcap" -Y 'infiniband && frame.len > 4200' 2>/dev/null |
		grep -q . && fail 'the capture has several packets in one'
	rm -f "$scratch/pcap"
}

# Without urnic pair: within a host, too, an impaired program uses packets.
alone() {
	network_up
	URNIC_IMPAIR=duplicate=100% start server a rping -s -P -a 10.99.0.1
	await 'no listener' on a "$urnic" run --no-view -- rping -c -C 3 -a 10.99.0.1 >/dev/null 2>&1
	has_counted 1 a "$(process server)" impair_duplicated || fail 'nothing was duplicated'
	stop server
	URNIC_IMPAIR=loss=all on a "$urnic" run --no-view -- ibv_rc_pingpong -g 99 >"$scratch/out" 2>&1
	grep -q "no impairments, because in URNIC_IMPAIR loss is 'all'; it may be" "$scratch/out" ||
		fail "a wrong setting is not reported: $(cat "$scratch/out")"
}

pairs_begin
impairments
time_bounds
faults
refusals
captures
if as_ordinary_user; then
	impairments
	time_bounds
	faults
	refusals
	captures
fi
as=
alone

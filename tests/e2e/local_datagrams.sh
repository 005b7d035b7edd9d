#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Debian's programs that send datagrams, within one host. The kernel sees few UDP datagrams, except
# that it sees all of a multicast group's.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need ibv_ud_pingpong udaddy mckey
shipped=/usr/share/doc/rdma-core/tests
export URNIC_LOCAL=on
network_up 9000

# UDP datagrams that came to host a, so far.
seen() {
	on a awk '/^Udp: [0-9]/ { print $2 }' /proc/net/snmp
}

# are_between LEAST MOST WHAT: the kernel has counted that many UDP datagrams since `before`. More
# are sent to a receiver that does not run for milliseconds.
are_between() {
	count=$(($(seen) - before))
	why="$3: $count UDP datagrams; $1 to $2 are expected"
	echo "$why"
	[ "$count" -ge "$1" ] || return 1
	[ "$count" -le "$2" ] || return $LATE
}

by_ping_pong() {
	before=$(seen)
	pair a a 10.99.0.1 ibv_ud_pingpong -d rocep_veth0 -g 0 -n 2000
	are_between 0 1000 '4000 datagrams of ibv_ud_pingpong'
}
in_some_attempt by_ping_pong

# By rdma_cm. Each side posts all of its own at once, while it is still asked who the other one is.
by_udaddy() {
	before=$(seen)
	meet 'udaddy -C 20000' a 'udaddy -s 10.99.0.1 -C 20000'
	are_between 0 30000 '40000 datagrams of udaddy'
}
in_some_attempt by_udaddy

# The sender is a member, too.
to_a_group() {
	before=$(seen)
	start server a mckey -m 239.1.1.1 -b 10.99.0.1 -C 1000
	await 'the server does not join' on a grep -qi 'ef010101\|010101ef' /proc/net/igmp
	start client a mckey -m 239.1.1.1 -b 10.99.0.1 -C 1000 -s
	finish_well server client
	# The kernel counts a super-packet, of up to 15 datagrams that wait for each other, once.
	are_between 67 2100 '1000 datagrams to a group of mckey'
}
in_some_attempt to_a_group

if ! [ -d $shipped ] || ! /usr/bin/python3 -c 'import pyverbs' 2>/dev/null; then
	echo 'no python3-pyverbs: not its tests'
	exit 0
fi
cp -r $shipped "$scratch/tests"
gunzip -q "$scratch"/tests/*.gz
for way in on off; do
	before=$(seen)
	for name in test_cq_events.CqEventsTestCase.test_cq_events_ud test_qpex.QpExTestCase.test_qp_ex_ud_send; do
		(cd "$scratch" && URNIC_LOCAL=$way PYTHONPATH=tests on a "$urnic" run --view -- \
			/usr/bin/python3 tests/run_tests.py --dev rocep_veth0 tests.$name) >"$scratch/pyverbs" 2>&1 ||
			fail "$name: $(tail -n 12 "$scratch/pyverbs")"
	done
	eval "pyverbs_$way=$(($(seen) - before))"
done
echo "pyverbs: $pyverbs_off UDP datagrams, $pyverbs_on within the host"
[ "$pyverbs_on" -lt "$pyverbs_off" ] || fail 'datagrams of pyverbs all go by packets'

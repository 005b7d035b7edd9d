#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Thousands of forged messages reach the connection manager. Real connections are established
# meanwhile, the dropped messages are counted, and no memory stays allocated for them.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

network_up 9000
# connections.c says why.
export GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1
listen server a "$programs/connections" server 10.99.0.1

# connect COUNT: that many connections, one after the other; then what the server has.
connect() {
	start client b "$programs/connections" client 10.99.0.1 1 "$1" 0
	finish_well client
	allocated=$(awk '/^server:/ { print $4 }' "$scratch/client")
	nic=$(awk '/^server:/ { print $10 }' "$scratch/client")
	grep '^server:' "$scratch/client"
}
connect 20
before=$allocated nic_before=$nic

on b timeout 60 "$programs/flood" 10.99.0.2 10.99.0.1 4000 6 &
flood=$!
sleep 0.5
connect 10
echo "ten connections during the flood: $(head -n 1 "$scratch/client")"
wait $flood || fail 'the flood ends early'
connect 20
# Tables keep their largest size: up to 16,384 deadlines of 8 bytes (base/deadline.c makes twice as
# many), and 4,096 last messages of 64 bytes. 15,000 of the messages are requests to the listener,
# so a leak of one allocation per request would exceed the limit.
[ "$allocated" -le $((before + 16384 * 2 * 8 + 16384)) ] || fail "the server has allocated $allocated bytes, and had $before"
[ "$nic" -le $((nic_before + 256 + 64)) ] || fail "its NIC has $nic KiB, and had $nic_before"
counters=$(on a "$urnic" stat --all)
for counter in gsi_malformed gsi_answered messages_received; do
	echo "$counters" | awk -v name=$counter '$1 == name { sum += $2 } END { exit sum < 1000 }' ||
		fail "$counter does not count: $counters"
done
exit 0

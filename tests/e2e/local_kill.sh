#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Two processes of one host that meet without packets; one of them is killed, or stopped, at a random moment. In every
# other four rounds both receive from shared receive queues. The other one hears of it in the time that its settings promise, and nothing is left behind.
# Then three that send datagrams to each other: who is left goes on.
#
# LOCAL_KILL_ROUNDS: how many times, 40 unless set, a third of them with datagrams. LOCAL_KILL_SEED replays the moments.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

export URNIC_LOCAL=on URNICD_IDLE_S=1
rounds=${LOCAL_KILL_ROUNDS:-40}
seed=${LOCAL_KILL_SEED:-$$}
network_up 9000

names() {
	on a cat /proc/net/unix | grep -c urnicd
}

# rounds PROGRAM COUNT
rounds() {
	on a timeout $((60 + $2 * 4)) "$urnic" run --no-view -- "$programs/$1" -d rocep_veth0 -n "$2" -w "$seed" \
		>"$scratch/$1" 2>&1 || fail "seed $seed: $(tail -n 4 "$scratch/$1")"
	echo "seed $seed: $(grep rounds "$scratch/$1")"
}

shm_before=$(find /dev/shm | wc -l)
rounds kills $((rounds - rounds / 3))
rounds kills_datagrams $((rounds / 3))
[ "$(find /dev/shm | wc -l)" -le "$shm_before" ] || fail "left in /dev/shm: $(ls /dev/shm)"
for _ in $(seq 50); do
	[ "$(names)" = 0 ] && break
	sleep 0.1
done
[ "$(names)" = 0 ] || fail "urnicd does not leave: somebody still has a slot"

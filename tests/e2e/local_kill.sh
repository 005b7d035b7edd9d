#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Processes of one host exchange data without packets. One of them is killed, or stopped, at a
# random moment, and no slot or memory stays in use. There are three kinds of rounds. Two processes
# with a reliable connection, in every other four rounds with shared receive queues: the peer gets
# an error in the time that its settings promise. Three processes that use datagrams or unreliable
# connections: the other two go on. A sender, a target over XRC, and the owner of the receive queue:
# the sender gets an error in time.
#
# LOCAL_KILL_ROUNDS: how many times, 32 unless set: half of them the first, a quarter each of the
# others. LOCAL_KILL_SEED replays the moments.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

export URNIC_LOCAL=on URNICD_IDLE_S=1
rounds=${LOCAL_KILL_ROUNDS:-32}
seed=${LOCAL_KILL_SEED:-$$}
network_up 9000

names() {
	on a cat /proc/net/unix | grep -c urnicd
}

# rounds PROGRAM COUNT
rounds() {
	on a timeout $((240 + $2 * 4)) "$urnic" run --no-view -- "$programs/$1" -d rocep_veth0 -n "$2" -w "$seed" \
		>"$scratch/$1" 2>&1 || fail "seed $seed: $(tail -n 4 "$scratch/$1")"
	echo "seed $seed: $(grep rounds "$scratch/$1")"
}

# urnic's shared memory objects; directories are others', as are the objects of other tests' UCX.
objects() {
	find /dev/shm -maxdepth 1 -type f -name '*urnic*' | wc -l
}

shm_before=$(objects)
rounds kills $((rounds - rounds / 4 * 2))
rounds kills_unreliable $((rounds / 4))
rounds xrc_kills $((rounds / 4))
[ "$(objects)" -le "$shm_before" ] || fail "left in /dev/shm: $(ls /dev/shm)"
for _ in $(seq 600); do
	[ "$(names)" = 0 ] && break
	sleep 0.1
done
[ "$(names)" = 0 ] || fail "urnicd does not leave: somebody still has a slot"

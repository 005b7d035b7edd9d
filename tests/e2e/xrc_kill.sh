#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Three processes of one host that meet without packets: a sender, a target's queue pair, and the shared receive queue of a third one. One of them is
# killed at a random moment, perhaps stopped before. The others hear of it in the time that their settings promise, and nothing is
# left behind.
#
# XRC_KILL_ROUNDS: how many times, 20 unless set. XRC_KILL_SEED replays the moments.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

export URNIC_LOCAL=on URNICD_IDLE_S=1
rounds=${XRC_KILL_ROUNDS:-20}
seed=${XRC_KILL_SEED:-$$}
network_up 9000

names() {
	on a cat /proc/net/unix | grep -c urnicd
}

shm_before=$(find /dev/shm | wc -l)
on a timeout $((60 + rounds * 4)) "$urnic" run --no-view -- "$programs/xrc_kills" -d rocep_veth0 -n "$rounds" -w "$seed" \
	>"$scratch/kills" 2>&1 || fail "seed $seed: $(tail -n 4 "$scratch/kills")"
[ "$(find /dev/shm | wc -l)" -le "$shm_before" ] || fail "left in /dev/shm: $(ls /dev/shm)"
for _ in $(seq 50); do
	[ "$(names)" = 0 ] && break
	sleep 0.1
done
[ "$(names)" = 0 ] || fail "urnicd does not leave: somebody still has a slot"
echo "seed $seed: $(grep rounds "$scratch/kills")"

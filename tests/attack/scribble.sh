#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A process of the same user writes any words wherever it can into the NIC memory of two processes
# that exchange data. The two do not crash, no call hangs, and memory of a third process does not
# change. SCRIBBLE_RUNS is the number of runs, of 40 connections of each of 3 kinds.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"

port=18600
network_up
attacks=$1/tests/attack

# who HOST PROGRAM: the processes of that name there.
who() {
	on "$1" sh -c 'for p in $(pidof '"$2"'); do [ "$(readlink /proc/$p/ns/net)" = "$(readlink /proc/self/ns/net)" ] && echo $p; done'
}

mkfifo "$scratch/guard.in"
on a "$urnic" run --no-view -- "$attacks/attack_scribble" guard <"$scratch/guard.in" >"$scratch/guard" 2>&1 &
guard=$!
exec 9>"$scratch/guard.in"
await 'the third process does not begin' grep -q ready "$scratch/guard"

seed=0
crashed=0
for run in $(seq "${SCRIBBLE_RUNS:-1}"); do
	for what in rc srq ud; do
		try_pair a a 10.99.0.1 "$attacks/scribbled" -d rocep_veth0 -w $what &
		pair=$!
		while kill -0 $pair 2>/dev/null; do
			victims=$(who a scribbled) || true
			seed=$((seed + 1))
			# shellcheck disable=SC2086
			[ -z "$victims" ] || on a "$attacks/attack_scribble" $seed 300 $victims $(who a attack_scribble) >"$scratch/scribble" 2>&1
			sleep 0.05
		done
		if ! wait $pair; then
			crashed=$((crashed + 1))
			show_pair
		else
			echo "$(tail -n 1 "$scratch/server")"
		fi
	done
done
echo "pages of the last process that was written to: $(tail -n 1 "$scratch/scribble")"
exec 9>&-
wait $guard || fail "the third process: $(cat "$scratch/guard")"
[ $crashed = 0 ] || fail "$crashed pairs of processes did not survive"

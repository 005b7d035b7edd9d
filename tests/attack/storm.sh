#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs, and urnicd, are stopped, continued and killed at random moments, within one host and
# between two: nothing hangs, no byte is wrong, and the peer of each killed program gets an error in
# the promised time.
#
# STORM_ROUNDS: how many times, 500 unless set. STORM_SEED replays what was drawn.
. "$(dirname "$0")/../e2e/common.sh"
scratch=$(mktemp -d /tmp/urnic-e2e.XXXXXX)

network_up 9000
on b sh -c 'echo $$ >"$0" && exec sleep 36000' "$scratch/there.pid" >/dev/null 2>&1 &
await 'no process on host b' test -s "$scratch/there.pid"
on a "$urnic" run --no-view -- "$1/tests/attack/storm" "/proc/$(cat "$scratch/there.pid")/ns/net" rocep_veth0 \
	"${STORM_ROUNDS:-500}" "${STORM_SEED:-$$}" || fail "the storm ends with $?"

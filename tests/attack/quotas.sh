#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# One user cannot use up `urnicd --system`: user 20002 takes all that it gets, and user 20001 still
# works. urnicd gives a reason for each refusal.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"

[ "$(id -u)" = 0 ] || skip 'only root can be two users'
need setpriv
as_victim='setpriv --reuid=20001 --regid=20001 --clear-groups'
as_attacker='setpriv --reuid=20002 --regid=20002 --clear-groups'
attacker=$1/tests/attack/attack_quotas
chmod 755 "$scratch"

$as_attacker test -x "$attacker" -a -x "$urnic" || skip "other users may not read $1"
network_up 9000
# shellcheck disable=SC2016
URNIC_HOST_ID="$network-a" on a sh -c 'echo $$ >"$1" && exec "$2" --system --foreground' sh "$scratch/urnicd.pid" "$urnicd" >"$scratch/urnicd" 2>&1 &
urnicd=$!
trap 'kill "$(process urnicd)"; wait $urnicd; at_exit' EXIT
await 'no urnicd on host a' urnicds_on a

# shellcheck disable=SC2016,SC2086
on a sh -c 'echo $$ >"$1" && shift && exec "$@"' sh "$scratch/attacker.pid" $as_attacker "$attacker" all 10.99.0.1 >"$scratch/attacker" 2>&1 &
job=$!
is_done() {
	grep -q '^done' "$scratch/attacker" || ! kill -0 $job 2>/dev/null
}
await 'user 20002 takes for ever' is_done
cat "$scratch/attacker"
kill -0 $job 2>/dev/null || fail 'user 20002 got what it should not'
for what in slots addresses channels ports connections; do
	grep -q "^$what [0-9]*: user 20002 has [0-9]* of urnicd's" "$scratch/attacker" ||
		fail "user 20002 is not told how many $what it may have"
done

# shellcheck disable=SC2086
on a $as_victim timeout 60 "$attacker" one 10.99.0.1 || fail 'user 20001 gets nothing'
# shellcheck disable=SC2086
URNIC_HOST_ID="$network-a" start server a $as_victim "$programs/verify" -d rocep_veth0 -w mixed -n 500
# shellcheck disable=SC2086
URNIC_HOST_ID="$network-b" start client b $as_victim "$programs/verify" -d rocep_veth0 -w mixed -n 500 10.99.0.1
finish_well server client

# It comes back: to the user itself at once, but for what rests.
kill "$(process attacker)"
wait $job
# shellcheck disable=SC2086
on a $as_attacker timeout 60 "$attacker" one 10.99.0.1 || fail 'user 20002 gets nothing again'
trap at_exit EXIT
kill "$(process urnicd)"
wait $urnicd || fail "urnicd ends with $?"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A user offers root's `urnic capture` and `urnic stat` something else as NIC memory: memory that is
# truncated while it is mapped, a pipe, a device, a file of root's, more than one descriptor. Both
# commands go on, write to none of these, and close what they received.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"

[ "$(id -u)" = 0 ] || skip 'this takes root and another user'
need setpriv
offer=$1/tests/attack/attack_offer
as_user='setpriv --reuid=20002 --regid=20002 --clear-groups'
chmod 755 "$scratch"
$as_user test -x "$offer" || skip "other users may not read $1"
port=18600
network_up 9000
capture=
daemons=
attacker=
writer=
# shellcheck disable=SC2154
trap 'kill -KILL $capture $daemons $attacker $writer 2>/dev/null; at_exit' EXIT
on a "$urnicd" --system --idle 0 || fail 'no system-wide urnicd'
daemons=$(on a ss -Hxlp | sed -n 's|.* /run/urnic/net-.*users:(\(.*\)).*|\1|p' | grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -n)

# begin: root captures on host a.
begin() {
	on a sh -c 'echo $$ >"$0"; exec "$@"' "$scratch/capture.pid" "$urnic" capture -w "$scratch/out.pcapng" \
		>/dev/null 2>"$scratch/capture" &
	await 'nobody captures' on a grep -q '/urnic/capture-' /proc/net/unix
	capture=$(cat "$scratch/capture.pid")
}

descriptors() {
	find "/proc/$capture/fd" -mindepth 1 | wc -l
}

# attack WAY [FILE]: by the other user, until end_attack.
attack() {
	: >"$scratch/attack"
	# shellcheck disable=SC2086
	on a $as_user "$offer" "$@" >"$scratch/attack" 2>&1 &
	job=$!
	until grep -q 'done' "$scratch/attack"; do
		kill -0 $job 2>/dev/null || fail "the attacker fails: $(cat "$scratch/attack")"
		sleep 0.05
	done
	attacker=$(sed -n 's/^done //p' "$scratch/attack")
}

end_attack() {
	# shellcheck disable=SC2086
	kill -KILL $attacker
	wait $job
	attacker=
}

is_alive() {
	kill -0 "$capture" 2>/dev/null || fail "capture ends of $1: $(cat "$scratch/capture")"
}

has_closed_all() {
	[ "$(descriptors)" -le "$before" ]
}

begin
before=$(descriptors)
mkfifo -m 644 "$scratch/pipe"
sleep 60 >"$scratch/pipe" &
writer=$!
"$offer" make "$scratch/roots" || fail 'no file'
sum=$(cksum <"$scratch/roots")
ls -l --time-style=full-iso "$scratch/roots" >"$scratch/listed"
for way in shrinking many silent "file $scratch/pipe" 'file /dev/zero' "file $scratch/roots"; do
	# shellcheck disable=SC2086
	attack $way
	sleep 0.5
	is_alive "$way"
	[ "$(descriptors)" -le $((before + 40)) ] || fail "$way: capture has $(descriptors) descriptors open, of $before"
	end_attack
	await "$way: capture keeps descriptors: $(ls -l "/proc/$capture/fd")" has_closed_all
done
[ "$(cksum <"$scratch/roots")" = "$sum" ] || fail "capture has written to root's file"
ls -l --time-style=full-iso "$scratch/roots" | cmp -s - "$scratch/listed" || fail "capture has touched root's file"
grep -q 'its NIC memory is not that of a NIC' "$scratch/capture" || fail "capture says: $(cat "$scratch/capture")"
kill $writer
writer=

# An honest program is captured all the same.
pair a a 10.99.0.1 "$programs/verify" -d rocep_veth0 -w mixed -n 100
kill -INT "$capture"
await 'capture does not end' sh -c "! kill -0 $capture 2>/dev/null"
capture=
[ "$(wc -c <"$scratch/out.pcapng")" -gt 10000 ] || fail 'an honest program is not captured'

# What urnicd has of a user is looked at before it is read.
attack attach
on a "$urnic" stat >"$scratch/stat" 2>&1 || fail "stat: $(cat "$scratch/stat")"
grep -q 'its NIC memory is not that of a NIC' "$scratch/stat" || fail "stat says: $(cat "$scratch/stat")"
end_attack

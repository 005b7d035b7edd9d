#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Under `urnicd --system` no user receives another user's packets. User 20002 attaches and attacks
# each descriptor that it has, while user 20001 transfers data between two hosts. None of the data
# arrives at 20002, and the transfer goes on.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"

[ "$(id -u)" = 0 ] || skip 'only root can be two users'
need setpriv
as_victim='setpriv --reuid=20001 --regid=20001 --clear-groups'
as_attacker='setpriv --reuid=20002 --regid=20002 --clear-groups'
attacker=$1/tests/attack/attack_system_users
chmod 755 "$scratch"

$as_attacker test -x "$attacker" -a -x "$urnic" || skip "other users may not read $1"
network_up 9000
export URNIC_HOST_ID="$network-a"
# shellcheck disable=SC2016
on a sh -c 'echo $$ >"$1" && exec "$2" --system --foreground' sh "$scratch/urnicd.pid" "$urnicd" >"$scratch/urnicd" 2>&1 &
urnicd=$!
trap 'kill "$(process urnicd)"; wait $urnicd; at_exit' EXIT
await 'no urnicd on host a' urnicds_on a

# received LEAST: packets that user 20001's program on host b has received.
received() {
	# shellcheck disable=SC2086
	packets=$(on b $as_victim "$urnic" stat --all --pid "$(process client)" 2>/dev/null |
		awk '$1 == "rcvd_pkts" { sum += $2 } END { print sum + 0 }')
	[ "$packets" -ge "$1" ]
}

# shellcheck disable=SC2086
start server a $as_victim "$programs/verify" -d rocep_veth0 -w mixed -n 100000000
# shellcheck disable=SC2086
URNIC_HOST_ID="$network-b" start client b $as_victim "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 10.99.0.1
await 'no data move' received 1000

# shellcheck disable=SC2086
on a $as_attacker timeout 60 "$attacker" 10.99.0.1 3 >"$scratch/attacker" 2>&1
status=$?
cat "$scratch/attacker"
[ $status = 0 ] || fail "user 20002 ends with $status: $(cat "$scratch/attacker")"
received 0
await 'the flow of user 20001 stands still' received $((packets + 1000))
kill "$(process server)" "$(process client)"
finish_well server client
trap at_exit EXIT
kill "$(process urnicd)"
wait $urnicd || fail "urnicd ends with $?"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Another user of the peer's host sends a request for a connection from each queue pair number that
# the peer may have. No connection ends, and the server does not query the peer each time.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"
. "$(dirname "$0")/../e2e/listen.sh"

need setpriv ibv_devices
[ "$(id -u)" = 0 ] || skip 'only root can be other users'
network_up 9000
listen server a "$1/tests/attack/acceptor" 10.99.0.1 7471 "$scratch/go"
start client b "$programs/connect_states" client 10.99.0.1 established "$scratch/go"
await 'the client is not connected' grep -q '^stays in established' "$scratch/client"

guid=$(on b "$urnic" run -- ibv_devices | awk '$1 == "rocep_veth0" { print $2 }')
on b setpriv --reuid=20001 --regid=20001 --clear-groups \
	"$1/tests/attack/attack_cm_sweep" 10.99.0.2 10.99.0.1 7471 "$guid" || fail 'the attacker cannot send'
sleep 1
kill -0 "$(process client)" || fail "the client has ended: $(cat "$scratch/client")"
grep -q DISCONNECTED "$scratch/client" && fail 'the client was disconnected'
# manager NAME: of the server's connection manager.
manager() {
	on a "$urnic" stat --all | awk -v name="$1" '$1 == name { sum += $2 } END { print sum + 0 }'
}
[ "$(manager requests_stale)" -ge 1 ] || fail 'no request hit the number'
[ "$(manager stale_asked)" -le 60 ] || fail 'the peer is asked each time'

touch "$scratch/go"
finish_well client
finish server || true

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Thousands of requests that their sender never completes reach a server that accepts all. The
# server keeps no more of them than its backlog, and another program connects meanwhile.
# (test_cm_passive tests how long the server keeps one.)
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"
. "$(dirname "$0")/../e2e/listen.sh"

need setpriv
[ "$(id -u)" = 0 ] || skip 'only root can be other users'
network_up 9000
on b ip addr add 10.99.0.9/24 dev veth0 # where nobody answers
listen server a "$1/tests/attack/acceptor" 10.99.0.1 7471 "$scratch/go"
on b setpriv --reuid=20001 --regid=20001 --clear-groups "$1/tests/attack/attack_cm_half_open" 10.99.0.9 10.99.0.1 7471 1500 6 &
attacker=$!
sleep 2
for _ in 1 2 3; do
	began=$(now)
	start client b "$programs/connect_states" client 10.99.0.1 established "$scratch/none"
	until grep -q '^stays' "$scratch/client"; do kill -0 "$(process client)" || fail "client: $(cat "$scratch/client")"; sleep 0.05; done
	ended=$(now)
	kill "$(process client)"
	finish client || true
	within "$began" "$ended" 0 5000 'a connection during the attack'
	echo "a program connects after $took ms"
done
wait $attacker || fail 'the attacker cannot send'
touch "$scratch/go"
finish_well server
cat "$scratch/server"
held_most=$(awk '{ print $3 }' "$scratch/server")
# Those that the program has not taken yet are in the backlog a second time.
[ "$held_most" -le 2048 ] || fail "$held_most connections were held"

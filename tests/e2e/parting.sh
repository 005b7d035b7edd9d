#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Over iWARP, the requests that a program has completed reach its peer, however the program ends. A
# peer that reads nothing does not delay the program's end, and the kernel ends the connection
# within URNIC_TCP_USER_TIMEOUT.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

export URNIC_TRANSPORTS=iwarp
network_up 9000
# The sender's sockets take a whole message.
on b sysctl -qw net.ipv4.tcp_wmem='4096 4194304 4194304'

# await_stop NAME: until the program has stopped itself.
await_stop() {
	until grep -q '^State:.T' "/proc/$(process "$1")/status"; do
		kill -0 "$(process "$1")" || fail "$1 does not stop: $(tail -n 3 "$scratch/$1")"
		sleep 0.02
	done
}

# leave HOW: a sender connects and ends; its receiver is stopped.
leave() {
	listen server a "$programs/parting" receiver 10.99.0.1
	start client b "$programs/parting" sender 10.99.0.1 "$1"
	await_stop client
	await_stop server
	kill -CONT "$(process client)"
	finish client || fail "sender ($1): $(tail -n 3 "$scratch/client")"
}

for how in disconnect destroy exit; do
	leave $how
	kill -CONT "$(process server)"
	finish server || fail "receiver ($how): $(tail -n 3 "$scratch/server")"
	echo "all bytes have arrived: $how"
done

# The connections from host b whose kernel has bytes, other than a FIN, to send.
unsent() {
	on b ss -Htan dst 10.99.0.1 | awk '$3 > 1' | wc -l
}

export URNIC_TCP_USER_TIMEOUT=3
for how in disconnect destroy exit; do
	leave $how
	before=$(date +%s)
	until [ "$(unsent)" = 0 ]; do sleep 0.1; done
	seconds=$(($(date +%s) - before))
	[ $seconds -ge 1 ] && [ $seconds -le 20 ] || fail "the connection ends after $seconds s: $how"
	kill -KILL "$(process server)"
	finish server || true
	echo "the connection of a stopped receiver ends after $seconds s: $how"
done
exit 0

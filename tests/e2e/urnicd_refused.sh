#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# When the system keeps a program from the network, urnic prints the reason and what to do about it,
# and the verb fails. Nothing hangs or crashes, and the next program works.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

network_up 9000
export URNICD_IDLE_S=1

# try SETTING...: run a program that needs a queue pair on host a. Returns its status, and sets
# $said to its output.
try() {
	said=$(on a env "$@" timeout 120 "$urnic" run --no-view -- "$programs/forks" -d rocep_veth0 2>&1)
}

# refused TEXT SETTING...
refused() {
	text=$1
	shift
	try "$@"
	status=$?
	[ $status = 1 ] || fail "'$*' ends with $status: $said"
	echo "$said" | grep -q "$text" || fail "'$*' does not say '$text': $said"
	# All of it is one sentence of ours and one of the program's.
	[ "$(echo "$said" | grep -c '^urnic\[')" = 1 ] || fail "'$*' says too much or nothing: $said"
}

works() {
	try || fail "$1: $said"
}

no_urnicd() {
	for attempt in $(seq 600); do
		[ -n "$(urnicds_on a)" ] || return 0
		sleep 0.1
	done
	fail 'urnicd stays'
}

# occupy PYTHON: a foreign program has the port, until `release`.
occupy() {
	"$urnic" host exec -n "$network" a -- /usr/bin/python3 -c "
import socket, time
$1
time.sleep(600)" &
	occupier=$!
	until on a ss -Hlnu 'sport = :4791' | grep -q .; do kill -0 $occupier || fail 'cannot bind'; sleep 0.05; done
}

release() {
	kill $occupier
	wait $occupier 2>/dev/null
}

# urnicd cannot be had.
refused 'URNIC_URNICD is /no/such/program, which is not a program' URNIC_URNICD=/no/such/program
refused 'URNIC_URNICD is /etc/passwd, which is not a program' URNIC_URNICD=/etc/passwd
refused '/bin/false failed; run it with --foreground to see why' URNIC_URNICD=/bin/false
refused 'leaves before it answers' URNIC_URNICD=/bin/true
echo garbage >"$scratch/garbage"
chmod +x "$scratch/garbage"
refused 'cannot run .*/garbage: Exec format error' URNIC_URNICD="$scratch/garbage"

# Limits of the program's own; urnicd inherits them when it is the program that starts it.
refused 'urnicd needs 64 open files: raise the limit' prlimit --nofile=32:32
refused 'no address space for NIC memory .*raise the limit on virtual memory' prlimit --as=1000000000
works 'after programs with low limits'
for files in 6 7 8 9 10 12 14 16 18; do
	try prlimit --nofile=$files:$files
	status=$?
	[ $status -le 1 ] || fail "with $files open files it ends with $status: $said"
	[ $status = 0 ] || echo "$said" | grep -qi 'open files\|does not open' || fail "$files: $said"
done
works 'after programs without files'
no_urnicd

# Port 4791 is somebody else's.
occupy 's = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("10.99.0.1", 4791))'
refused "4791 of 10.99.0.1 is taken by python3 (process $occupier, user [0-9]*): end it, or use another address"
release
works 'after the port is free again'
no_urnicd
occupy 's = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(("::", 4791))'
refused "4791 of 10.99.0.1 is taken by python3 (process $occupier"
release
occupy '
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(("10.99.0.1", 4791))'
refused '4791 of 10.99.0.1 belongs to an urnicd that has died, and a program that still uses it'
release
works 'after the last foreign program'

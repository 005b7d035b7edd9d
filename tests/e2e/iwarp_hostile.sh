#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# iWARP and peers that are hostile, do not read, or vanish. Other connections go on, memory does not
# grow, and a program that waits for a vanished peer gets an error. IWARP_VANISH=1 runs this last
# test, which takes as long as URNIC_TCP_USER_TIMEOUT.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need rping ib_send_bw
export URNIC_TRANSPORTS=iwarp
network_up 9000

# Until the process has more of its connection under way than what opens one.
wait_for_bytes() {
	until [ "$(on b ss -Htn state established dst 10.99.0.1 | awk '$2 > 65536' | wc -l)" -gt 0 ]; do
		kill -0 "$1" 2>/dev/null || fail "nothing was under way: $(cat "$scratch/writer")"
		sleep 0.02
	done
}

if [ "${IWARP_VANISH:-}" ]; then
	# An idle connection. Then the peer's host disappears, without a FIN or RST.
	listen server a rping -s -a 10.99.0.1
	start client b rping -c -a 10.99.0.1 -C 1000000
	until [ "$(on b ss -Htn state established dst 10.99.0.1 2>/dev/null | wc -l)" -gt 0 ]; do sleep 0.1; done
	sleep 1
	kill -STOP "$(process client)"
	sleep 1
	on b ip route add blackhole 10.99.0.1/32
	before=$(date +%s)
	finish server || true
	seconds=$(($(date +%s) - before))
	[ $seconds -ge 10 ] && [ $seconds -le 60 ] || fail "the end was noticed after $seconds s: $(cat "$scratch/server")"
	kill -KILL "$(process client)"
	on b ip route del blackhole 10.99.0.1/32
	echo "noticed after $seconds s"

	# With bytes under way; the kernel would repeat them for a quarter of an hour.
	export URNIC_TCP_USER_TIMEOUT=4
	start reader a ib_send_bw -R -F -s 65536 -n 1000000
	wait_for_port a 18515 "$(process reader)" || fail 'ib_send_bw does not listen'
	start writer b ib_send_bw -R -F -s 65536 -n 1000000 10.99.0.1
	wait_for_bytes "$(process writer)"
	on a ip route add blackhole 10.99.0.2/32
	before=$(date +%s)
	finish writer && fail 'a peer that is gone was not noticed'
	seconds=$(($(date +%s) - before))
	[ $seconds -ge 4 ] && [ $seconds -le 20 ] || fail "with bytes under way, the end was noticed after $seconds s"
	finish reader || true
	on a ip route del blackhole 10.99.0.2/32
	echo "noticed after $seconds s with bytes under way"

	# A host that answers for a program that does not read is there.
	start reader a ib_send_bw -R -F -s 65536 -n 50000
	wait_for_port a 18515 "$(process reader)" || fail 'ib_send_bw does not listen'
	start writer b ib_send_bw -R -F -s 65536 -n 50000 10.99.0.1
	wait_for_bytes "$(process writer)"
	kill -STOP "$(process reader)"
	sleep 15
	kill -CONT "$(process reader)"
	finish_well writer reader
	exit 0
fi

# Connections that say nothing, more than a listener has room for.
listen server a rping -s -P -a 10.99.0.1
on b timeout 90 python3 -c '
import os, socket, sys, time
silent = []
for i in range(40):
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(("10.99.0.1", 7174))
    silent.append(one)
print("silent", flush=True)
while os.path.exists(sys.argv[1]):
    time.sleep(0.1)' "$scratch/silent" >"$scratch/silent" &
silent=$!
until grep -q silent "$scratch/silent"; do kill -0 $silent || fail 'no silent peers'; sleep 0.1; done
start client b rping -c -a 10.99.0.1 -V -C 20
finish_well client
rm "$scratch/silent"
wait $silent

# A peer that does not read: its connection waits, without more memory; another one does not.
start reader a ib_send_bw -R -F -s 65536 -n 100000
wait_for_port a 18515 "$(process reader)" || fail 'ib_send_bw does not listen'
start writer b ib_send_bw -R -F -s 65536 -n 100000 10.99.0.1
writer=$(process writer)
wait_for_bytes "$writer"
kill -STOP "$(process reader)"
sleep 0.5
memory() { awk '$1 == "VmRSS:" { print $2 }' "/proc/$writer/status"; }
before=$(memory)
start client b rping -c -a 10.99.0.1 -V -C 200
finish_well client
sleep 1
after=$(memory)
[ -n "$before" ] && [ -n "$after" ] || fail 'it did not wait for the peer'
[ $((after - before)) -le 2048 ] || fail "$before KiB, then $after"
kill -CONT "$(process reader)"
finish_well writer reader
kill "$(process server)"

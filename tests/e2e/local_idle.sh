#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Within one host, the target of one-sided operations needs no CPU, and its peer sends no packets.
# LOCAL_SECONDS: duration of the measurement, 1 unless set.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ib_write_bw ib_read_bw ib_atomic_bw
export URNIC_LOCAL=on
seconds=${LOCAL_SECONDS:-1}
network_up 9000

# ticks PROCESS: the CPU time that it has used, in clock ticks.
ticks() {
	awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"
}

# target_idles PROGRAM: there is more time in the next attempt.
target_idles() {
	running=$((seconds + 1 + 2 * attempt))
	start server a "$1" -F -d rocep_veth0 -D $running
	wait_for_port a $port "$job_server"
	start client a "$1" -F -d rocep_veth0 -D $running 10.99.0.1
	await 'no data move' has_counted 1000 a "$(process client)" local_requests
	before=$(ticks "$(process server)")
	sleep "$seconds"
	used=$(($(ticks "$(process server)") - before))
	sent=$(counter a "$(process client)" sent_pkts)
	executed=$(counter a "$(process client)" local_requests)
	finish_well server client
	why="the target of $1: $used ticks of CPU in $seconds s, $executed requests until then, $sent packets"
	# A target that does not run for milliseconds is sent packets, and works at them.
	[ "$executed" -gt 1000 ] && [ "$sent" -le 64 ] || return $LATE
	[ "$used" -le 1 ]
}

for program in ib_write_bw ib_read_bw ib_atomic_bw; do
	in_some_attempt target_idles $program
	echo "$why"
done

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Kinds of queue pairs and targets that need no packets within one host: what the counters say while
# Debian's programs run.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ib_write_bw ib_send_bw
export URNIC_LOCAL=on
network_up 9000

# goes_without_packets PROGRAM OPTIONS...: nearly all requests need no packets, and go into mapped
# memory. A process that gets no CPU for milliseconds receives packets for a while.
goes_without_packets() {
	start server a "$@" -F -d rocep_veth0 -s 512 -D $((2 * attempt - 1))
	wait_for_port a $port "$job_server"
	start client a "$@" -F -d rocep_veth0 -s 512 -D $((2 * attempt - 1)) 10.99.0.1
	sent=0 executed=0 is_mapped=
	while kill -0 "$job_client" 2>/dev/null; do
		now_executed=$(counter a "$(process client)" local_requests 2>/dev/null) || break
		[ "$now_executed" -ge "$executed" ] || break
		executed=$now_executed
		sent=$(counter a "$(process client)" sent_pkts)
		grep -qs urnic-memory "/proc/$(process server)/maps" && is_mapped=yes
		sleep 0.1
	done
	finish_well server client
	why="$*: $executed requests without packets, $sent packets, the server's memory is mappable: ${is_mapped:-no}"
	[ "$executed" -gt 100 ] && [ "$sent" -le $((executed / 4)) ] || return $LATE
	[ "$is_mapped" ]
}

without_packets() {
	in_some_attempt goes_without_packets "$@"
	echo "$why"
}

without_packets ib_send_bw --use-srq
without_packets ib_send_bw --use-srq -q 4
without_packets ib_send_bw -c XRC
without_packets ib_write_bw -c XRC
without_packets ib_send_bw -c UC
without_packets ib_write_bw -c UC
without_packets ib_send_lat -c UC
without_packets ib_send_lat -c UD
without_packets ib_send_bw -c UD

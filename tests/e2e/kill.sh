#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs that are killed or stopped, on either side, while data moves: what the other one notices, and
# when.
#
# A dead peer is reported after (retry_cnt + 1) local ACK timeouts: 8 times 67 ms as perftest and verify set
# them, counted from the last answer, which a victim without a CPU may have given well before it was killed.
# MARGIN is for the processes to get a CPU.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

MARGIN=1000
port=18600
need ib_write_bw ib_send_bw
network_up 9000

# mixed ARGUMENTS...: a pair of verify that goes on until something ends it.
mixed() {
	start server a "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 "$@"
	start client b "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 "$@" 10.99.0.1
	sleep 0.5
}

broken_at() {
	awk '$1 == "broken" { sub(":", "", $2); print $2 }' "$scratch/$1"
}

# The queue pair's own settings decide: (retry_cnt + 1) * 4.096 us * 2^timeout.
for settings in '14 7 537' '18 1 2147' '15 2 403'; do
	# shellcheck disable=SC2086
	set -- $settings
	for victim in server client; do
		other=client
		[ $victim = server ] || other=server
		mixed -t "$1" -r "$2"
		killed=$(now)
		kill -9 "$(process $victim)"
		finish $other
		[ $? = 3 ] || fail "$other of a killed $victim: $(tail -n 3 "$scratch/$other")"
		grep -q 'status 12 ' "$scratch/$other" || fail "not retry exceeded: $(cat "$scratch/$other")"
		within "$killed" "$(broken_at $other)" $(($3 * 3 / 10)) $(($3 + MARGIN)) "timeout $1, retries $2: error"
		finish $victim
	done
done

# perftest reports it, too, and ends; and who asks the log hears why.
export URNIC_LOG=info
for program in ib_write_bw ib_send_bw ib_read_bw; do
	start server a $program -F -d rocep_veth0 -D 20
	wait_for_port a 18515 "$job_server"
	start client b $program -F -d rocep_veth0 -D 20 10.99.0.1
	sleep 1.5
	killed=$(now)
	kill -9 "$(process server)"
	finish client && fail "$program succeeds without a server"
	within "$killed" "$(now)" 0 $((537 + MARGIN)) "$program ends"
	grep -q 'urnic\[.*the peer did not answer' "$scratch/client" || fail "no reason: $(cat "$scratch/client")"
	finish server
done
unset URNIC_LOG

# Stopped for less than that: nothing happens.
mixed
for victim in server client server client; do
	sleep 0.1
	kill -STOP "$(process $victim)"
	sleep 0.25
	kill -CONT "$(process $victim)"
done
kill "$(process server)" "$(process client)"
finish_well server client

# One of several is killed: the others, on the same addresses, do not notice.
for i in 1 2 3; do
	start server$i a "$programs/verify" -d rocep_veth0 -p $((port + i)) -w mixed -n 6000
	start client$i b "$programs/verify" -d rocep_veth0 -p $((port + i)) -w mixed -n 6000 10.99.0.1
done
sleep 0.3
kill -9 "$(process server2)"
finish_well server1 client1 server3 client3
finish client2
finish server2
: # the last one to finish was killed

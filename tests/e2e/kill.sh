#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs are killed or stopped, on either side, while data moves: the error that the other one
# gets, and when.
#
# A dead peer is reported after (retry_cnt + 1) local ACK timeouts: perftest and verify set 8 times
# 67 ms, counted from the last response. A victim that had no CPU may have sent that well before it
# was killed. MARGIN allows for processes that wait for a CPU. A requester whose timers were served
# late takes up to STARVED times as long (IBTA 9.7.6.1.3); the simulator checks the exact times.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

MARGIN=1000
STARVED=4
port=18600
need ib_write_bw ib_send_bw
network_up 9000

# mixed ARGUMENTS...: a pair of verify that goes on until something ends it; once it transfers.
mixed() {
	start server a "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 "$@"
	start client b "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 "$@" 10.99.0.1
	await 'no data move from a' has_counted 100 a "$(process server)" sent_pkts
	await 'no data move from b' has_counted 100 b "$(process client)" sent_pkts
}

broken_at() {
	awk '$1 == "broken" { sub(":", "", $2); print $2 }' "$scratch/$1"
}

# notices VICTIM TIMEOUT RETRIES PROMISE: the other one is told that it is gone.
notices() {
	other=client
	[ "$1" = server ] || other=server
	mixed -t "$2" -r "$3"
	killed=$(now)
	kill -9 "$(process "$1")"
	finish $other
	other_status=$?
	finish "$1"
	why="$other of a killed $1 ends with $other_status: $(tail -n 3 "$scratch/$other")"
	[ $other_status = 3 ] && grep -q 'status 12 ' "$scratch/$other" &&
		is_within "$killed" "$(broken_at $other)" $(($4 * 3 / 10)) $(($4 * STARVED + MARGIN)) "timeout $2, retries $3: error"
}

# The queue pair's own settings decide: (retry_cnt + 1) * 4.096 us * 2^timeout.
for settings in '14 7 537' '18 1 2147' '15 2 403'; do
	for victim in server client; do
		# shellcheck disable=SC2086
		in_some_attempt notices $victim $settings
	done
done

# reports PROGRAM: of perftest, a client whose server is killed.
reports() {
	start server a "$1" -F -d rocep_veth0 -D 20
	wait_for_port a 18515 "$job_server"
	start client b "$1" -F -d rocep_veth0 -D 20 10.99.0.1
	await 'the client sends' has_counted 1000 b "$(process client)" sent_pkts
	killed=$(now)
	kill -9 "$(process server)"
	finish client && fail "$1 succeeds without a server"
	finish server
	is_within "$killed" "$(now)" 0 $((537 * STARVED + MARGIN)) "$1 ends" || return
	why="no reason: $(cat "$scratch/client")"
	grep -q 'urnic\[.*the peer, queue pair .*, did not answer' "$scratch/client"
}

# perftest reports it, too, and ends; and who asks the log hears why.
export URNIC_LOG=info
for program in ib_write_bw ib_send_bw ib_read_bw; do
	in_some_attempt reports $program
done
unset URNIC_LOG

# Stopped for less than that: nothing happens.
goes_on() {
	mixed
	longest=0
	for victim in server client server client; do
		sleep 0.1
		stopped=$(now)
		kill -STOP "$(process $victim)"
		sleep 0.25
		kill -CONT "$(process $victim)"
		is_within "$stopped" "$(now)" 0 400 "$victim goes on" || longest=$LATE
	done
	kill "$(process server)" "$(process client)"
	finish server && finish client && return
	finish client
	why="a peer that is stopped for a moment is given up: $(tail -n 3 "$scratch/server" "$scratch/client")"
	[ $longest = 0 ] || return $LATE
	return 1
}
in_some_attempt goes_on

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

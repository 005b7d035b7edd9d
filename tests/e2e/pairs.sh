# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# Two processes that communicate; sourced after common.sh.
#
# pair SERVER-HOST CLIENT-HOST ADDRESS PROGRAM OPTIONS... runs one of Debian's programs, or of ours,
# at both ends. Their output is in $scratch/server and $scratch/client.

scratch=$(mktemp -d /tmp/urnic-e2e.XXXXXX)
programs=$1/tests/e2e
pair_seconds=240 # a pair that takes longer hangs, however busy the machine
port=18515
# What Debian's programs run with: perftest sleeps instead of spinning (calibration.c).
calibration=LD_PRELOAD=$programs/calibration.so${LD_PRELOAD:+:$LD_PRELOAD}
view=--no-view # programs that look into /sys need --view, which takes longer
. "$(dirname "$0")/../e2e/facts.sh"

need() {
	for program in "$@"; do
		command -v "$program" >/dev/null || skip "$program is not installed"
	done
}

# wait_for_port HOST PORT PROCESS: until the server listens, or has ended.
wait_for_port() {
	until on "$1" ss -Hltn "sport = :$2" | grep -q .; do
		kill -0 "$3" 2>/dev/null || return 1
		sleep 0.02
	done
}

show_pair() {
	for side in server client; do
		echo "$side:"
		grep -v '^-*$' "$scratch/$side" | tail -n 25
	done
	facts_show
}

# try_pair: like pair, but returns the worse exit status instead of failing.
try_pair() {
	server_host=$1 client_host=$2 address=$3
	shift 3
	facts_begin
	on "$server_host" timeout $pair_seconds env "$calibration" "$urnic" run $view -- "$@" \
		>"$scratch/server" 2>&1 &
	server=$!
	wait_for_port "$server_host" $port $server || true
	on "$client_host" timeout $pair_seconds env "$calibration" "$urnic" run $view -- "$@" "$address" \
		>"$scratch/client" 2>&1
	client_status=$?
	wait $server
	server_status=$?
	facts_end
	[ $client_status -gt $server_status ] && return $client_status
	return $server_status
}

# perftest measures the frequency of the processor's clock. When other programs disturb that, it
# reports so and prints "inf" as figures; the pair then runs again.
pair() {
	for attempt in 1 2 3; do
		try_pair "$@" || break
		grep -qs '^Correlation coefficient' "$scratch/server" "$scratch/client" || return 0
		echo "retried: $*: it could not measure how fast the clock of the processor runs"
	done
	show_pair
	[ $client_status = 124 ] && fail "$* does not end in $pair_seconds s"
	[ $client_status$server_status = 00 ] && fail "$* cannot measure the clock in $attempt attempts"
	fail "$* ends with $server_status and $client_status"
}

# lossy_pair: like pair, for programs that wait for ever for a lost datagram. They get ten seconds
# for what takes one, and more after each attempt that was late.
lossy_pair() {
	in_some_attempt try_lossy_pair "$@"
}

try_lossy_pair() {
	pair_seconds=$((10 * attempt * attempt))
	try_pair "$@"
	status=$?
	pair_seconds=240
	why="$4 ends with $server_status and $client_status: $(tail -n 2 "$scratch/server" "$scratch/client")"
	hangs $server_status $client_status && return $LATE
	[ $status = 0 ] || return 1
	! grep -s '^Correlation coefficient' "$scratch/server" "$scratch/client" || return $LATE
}

# hangs STATUS...: one of the statuses is that of timeout(1), 124, or 137 with -s KILL, and none is
# that of a crash. (After a crash the peer hangs, too.)
hangs() {
	hangs_any=1
	for hangs_status; do
		case $hangs_status in
		124 | 137) hangs_any=0 ;;
		129 | 1[3-9]?) return 1 ;;
		esac
	done
	return $hangs_any
}

# start NAME HOST PROGRAM ARGUMENTS...: run a program in the background. `process NAME` prints its
# process number; its output is in $scratch/NAME.
start() {
	name=$1 start_host=$2
	shift 2
	rm -f "$scratch/$name.pid"
	on "$start_host" timeout $pair_seconds env "$calibration" "$urnic" run $view -- \
		sh -c 'echo $$ >"$0.new" && mv "$0.new" "$0" && exec "$@"' "$scratch/$name.pid" "$@" \
		>"$scratch/$name" 2>&1 &
	eval "job_$name=$!"
	until [ -e "$scratch/$name.pid" ]; do kill -0 $! 2>/dev/null || break; sleep 0.02; done
}

process() {
	cat "$scratch/$1.pid"
}

# finish NAME: its exit status.
finish() {
	eval "wait \$job_$1"
}

# At its end rping closes its event channel while another of its threads returns to
# rdma_get_cm_event(). If that thread is fast, it ends the program with an error first.
is_end_of_rping() {
	[ "$(tail -n 2 "$scratch/$1" | tr '\n' '|')" = 'client DISCONNECT EVENT...|rdma_get_cm_event: Bad file descriptor|' ]
}

# finish_well NAME...: all of them succeed.
finish_well() {
	# perftest's error message is not buffered, so it may be anywhere in the output: show both
	# ends of it.
	for name in "$@"; do
		finish "$name" || is_end_of_rping "$name" || {
			facts_show
			fail "$name fails: $(head -n 4 "$scratch/$name") ... $(tail -n 8 "$scratch/$name")"
		}
	done
}

# stop NAME: end a program that does not end by itself, and wait until it is gone.
stop() {
	kill "$(process "$1")"
	finish "$1" || true
}

# counter HOST PROCESS NAME: of its queue pairs together.
counter() {
	on "$1" "$urnic" stat --all --pid "$2" 2>/dev/null | awk -v name="$3" '$1 == name { sum += $2 } END { printf "%.0f\n", sum }'
}

# has_counted LEAST HOST PROCESS NAME
has_counted() {
	[ "$(counter "$2" "$3" "$4")" -ge "$1" ]
}

now() {
	date +%s.%3N
}

# is_within FROM TO LEAST MOST WHAT: TO is LEAST to MOST milliseconds after FROM. Otherwise sets
# $why, and returns LATE if TO was too late.
is_within() {
	took=$(awk -v from="$1" -v to="$2" 'BEGIN { printf "%d", (to - from) * 1000 }')
	why="$5 after $took ms, not $3 to $4"
	[ "$took" -ge "$3" ] || return 1
	[ "$took" -le "$4" ] || return $LATE
}

within() {
	is_within "$@" || fail "$why"
}

# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# What the programs of a test do while they do not end, for the message of the test that fails;
# sourced by pairs.sh. The facts are in $scratch/facts.

# facts_of PROCESS: for each thread its time on and its wait for a processor in ns, and where it
# sleeps; then the call stacks, which stops the process for a second.
facts_of() {
	echo "process $1: $(tr '\0' ' ' <"/proc/$1/cmdline")"
	for facts_task in "/proc/$1/task"/*; do
		echo "thread ${facts_task##*/} ($(cat "$facts_task/comm")):" \
			"schedstat $(cat "$facts_task/schedstat"), state" \
			"$(sed 's/.*) \(.\).*/\1/' "$facts_task/stat"), wchan $(cat "$facts_task/wchan")"
	done
	[ "$2" = stacks ] && command -v gdb >/dev/null || return 0
	timeout 60 gdb -p "$1" -batch -ex 'thread apply all backtrace' </dev/null | grep -E '^(#|Thread)'
}

# facts_take [stacks]: of all programs that run on urnic on the hosts: their sockets and counters,
# and the threads of each.
facts_take() {
	for facts_host in a b; do
		echo "== host $facts_host at $(now)"
		on $facts_host ss -tinmo
		on $facts_host "$urnic" stat
		facts_network=$(on $facts_host readlink /proc/self/ns/net)
		for facts_process in /proc/[0-9]*; do
			[ "$(readlink "$facts_process/ns/net")" = "$facts_network" ] &&
				grep -q libibverbs "$facts_process/maps" &&
				facts_of "${facts_process#/proc/}" "${1:-}"
		done
	done 2>/dev/null
}

# facts_watch: until it is killed, or the test has ended. Most programs end before the first facts
# are taken, and perftest gives up after the second.
facts_watch() {
	rm -f "$scratch/facts"
	for facts_kind in '' stacks stacks; do
		for _ in $(seq "${FACTS_SECONDS:-50}"); do
			[ -d "$scratch" ] || return
			sleep 1
		done
		facts_take $facts_kind >>"$scratch/facts"
	done
}

facts_begin() {
	facts_watch </dev/null >/dev/null 2>&1 &
	facts_job=$!
}

facts_end() {
	kill $facts_job 2>/dev/null
	wait $facts_job 2>/dev/null || true
}

facts_show() {
	[ ! -s "$scratch/facts" ] || cat "$scratch/facts"
}

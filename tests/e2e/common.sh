# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# What the end-to-end tests share. A test is `test BUILD-DIRECTORY`; it sources this file, calls
# network_up, and ends with 0, 1 (fail) or 77 (skip), the reason printed last.

urnic=$1/urnic
urnicd=$1/lib/urnicd
PATH=$PATH:/usr/sbin:/sbin # where an ordinary user's tools for networks are
network=e2e-$$

fail() {
	echo "failed: $*"
	exit 1
}

skip() {
	echo "$*"
	exit 77
}

# await WHAT CONDITION...: until it holds, for as long as a busy machine may take.
await() {
	awaited=$1
	shift
	for _ in $(seq 1200); do
		"$@" && return
		sleep 0.1
	done
	fail "$awaited"
}

# A function that in_some_attempt calls returns LATE when it has only missed a time limit, as may
# happen on a busy machine. Any other failure (a crash, a wrong byte, a wrong status) is final.
LATE=75

# in_some_attempt FUNCTION ARGUMENTS...: call the function, again after LATE. It sets $why to the
# reason of its failure. The summary of a test run counts the lines that begin with "retried: ", and
# names their tests.
in_some_attempt() {
	for attempt in 1 2 3 4 5; do
		"$@" && return
		[ $? = $LATE ] || fail "$why"
		echo "retried: $*: $why"
	done
	fail "$why"
}

# matches_schema NAME: the JSON on standard input matches docs/schema/NAME.json, which has to notice
# each change of it.
matches_schema() {
	complaints=$(/usr/bin/python3 "$(dirname "$0")/schema_check.py" "$(dirname "$0")/../../docs/schema/$1.json") ||
		fail "JSON and the schema of $1: $complaints"
}

# Run a program on host a or b of the test's own network. With E2E_ONE_HOST set, b's programs run on
# a, beside a's.
on() {
	host=${E2E_ONE_HOST:+a}
	host=${host:-$1}
	shift
	"$urnic" host exec -n "$network" "$host" -- "$@"
}

# urnicds_on HOST: the sockets that urnicds listen on there.
urnicds_on() {
	on "$1" ss -Hxl | grep -o '/[^ ]*/urnic[^ /]*/net-[0-9a-f]*'
}

# urnicd_of HOST: its process number; nothing if none runs.
urnicd_of() {
	on "$1" ss -Hxlp | sed -n 's|.*/urnic[^ /]*/net-.*"urnicd",pid=\([0-9]*\).*|\1|p' | head -n 1
}

# What pairs.sh has started and still runs, on hosts of the test's own.
end_programs() {
	for file in "$scratch"/*.pid; do
		pid=$(cat "$file") && [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ] &&
			kill -KILL "$pid"
	done 2>/dev/null
}

at_exit() {
	[ -z "${scratch:-}" ] || end_programs
	"$urnic" host down -n "$network" 2>/dev/null
	[ -z "${scratch:-}" ] || rm -rf "$scratch"
}

# network_up [MTU]: the test's own network; gone when the test ends.
network_up() {
	trap 'at_exit' EXIT
	trap 'exit 1' INT TERM
	"$urnic" host up -n "$network" -m "${1:-9000}" ||
		skip 'no network namespaces here: neither root nor user namespaces'
	# The kernel makes IPv6 addresses usable with a delay: the interface's own, and the
	# link-local one.
	for side in a b; do
		for _ in $(seq 100); do
			[ "$("$urnic" host exec -n "$network" $side -- ip -6 route show table local dev veth0 |
				grep -c '^local')" -lt 2 ] || break
			sleep 0.05
		done
	done
}

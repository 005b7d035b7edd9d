#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic pair: programs meet on a network of their own, as root and as an ordinary user.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/pair_ends.sh"
need ib_write_bw rping

long="sleep 4711.$$" # a command line that no other test has

# run_with MARK: the processes with a word in their command line.
run_with() {
	pgrep -f "[^ ]*$1" | grep -vx $$
}

basics() {
	pair_ends 0 -- ib_write_bw -F -n 100 -- ib_write_bw -F -n 100 10.99.0.1
	pair_ends 0 -- rping -s -a 10.99.0.1 -C 3 -- rping -c -a 10.99.0.1 -C 3
	pair_ends 0 --mtu 1500 -- true -- grep -qx 1500 /sys/class/net/veth0/mtu

	# The worse status counts, whichever program has it.
	pair_ends 3 -- sh -c 'exit 3' -- true
	pair_ends 4 --wait 0 --grace 0 -- sleep 1000 -- sh -c 'exit 4'
	pair_ends 137 -- true -- sh -c 'kill -KILL $$'
	pair_ends 127 -- true -- no-such-program

	# A client per host; the client's own "--" is its own.
	pair_ends 0 --hosts 4 -- true -- sh -c 'ip -4 -o addr show dev veth0 && echo "$@"' x -- y
	[ "$(grep -o '10\.99\.0\.[0-9]*/24' "$scratch/out" | sort | tr '\n' ' ')" = \
		'10.99.0.2/24 10.99.0.3/24 10.99.0.4/24 ' ] || fail "hosts: $(cat "$scratch/out")"
	[ "$(grep -cx -e '-- y' "$scratch/out")" = 3 ] || fail 'the client lost an argument'
}

has_ended() {
	! kill -0 "$1" 2>/dev/null
}

# What runs when the user types ^C, or what the programs leave behind, is ended. The server gets no
# grace then.
ends() {
	for signal in INT TERM; do
		$as "$urnic" pair --grace 300 -- sh -c "rping -s -a 10.99.0.1 & setsid $long & wait" -- \
			sh -c "echo started; $long" >"$scratch/out" 2>&1 &
		pair=$!
		await 'the client does not start' grep -q started "$scratch/out"
		kill -$signal $pair
		await "$signal does not end it" has_ended $pair
		wait $pair
		status=$?
		[ $status -gt 128 ] || fail "$signal ends it with $status"
		! run_with "$long" || fail "programs outlive $signal"
	done
	pair_ends 0 -- sh -c "setsid $long &" -- true
	! run_with "$long" || fail 'a daemon outlives its network'

	# A server that takes its time to end is told once: a second SIGTERM may mean "at once".
	pair_ends 0 --wait 0 --grace 0 -- sh -c 'trap "echo told; count=1" TERM
		for i in $(seq 100); do sleep 0.01; [ "$count" = 1 ] && sleep 0.2 && exit 0; done' -- sleep 0.3
	[ "$(grep -c told "$scratch/out")" = 1 ] || fail "the server is told: $(cat "$scratch/out")"
}

# Where the kernel allows no user namespaces.
forbidden() {
	# shellcheck disable=SC2016
	$as unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces' 2>/dev/null || return 0
	# shellcheck disable=SC2016
	$as unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" "$@"' \
		"$urnic" pair -- true -- true 2>"$scratch/err"
	status=$?
	[ $status = 1 ] || fail "without user namespaces: $status"
	says 'does not let ordinary users make user namespaces'
}

# In a chroot, as tests of other distributions have it.
in_chroot() {
	# shellcheck disable=SC2016
	timeout $pair_seconds unshare --mount sh -c 'mount --rbind / "$0" && exec chroot "$0" "$@"' \
		"$scratch" "$urnic" pair -- true -- true 2>/tmp/$network.err && rm /tmp/$network.err ||
		fail "in a chroot: $(cat /tmp/$network.err)"
}

refusals() {
	pair_ends 2 --mtu 100 -- true -- true
	says "not '100'"
	pair_ends 2 --hosts 27 -- true -- true
	says "not '27'"
	pair_ends 2 --wait soon -- true -- true
	says "not 'soon'"
	pair_ends 2 -- true
	pair_ends 2 true -- true
}

pairs_begin
[ "$(id -u)" != 0 ] || in_chroot
basics
ends
refusals
if as_ordinary_user; then
	basics
	ends
	forbidden
fi

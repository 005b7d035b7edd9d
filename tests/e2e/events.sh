#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs that sleep in poll or epoll, our own and Debian's: no wake-up is lost, and none is
# spurious.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
export URNIC_INTERFACES=veth0,lo # loopback is a device only where it is asked for

port=18600
network_up 9000
pair a b 10.99.0.1 "$programs/events" -d rocep_veth0 -n 15000
for way in on off; do
	URNIC_LOCAL=$way pair a a 127.0.0.1 "$programs/events" -d rocep_lo -n 5000
done

need ibv_rc_pingpong
port=18515
for options in '-g 0' '-g 1' '-g 0 -e' '-g 0 -s 1000001 -m 2048 -e -n 100' '-g 0 -s 1 -n 5000'; do
	# shellcheck disable=SC2086
	pair a b 10.99.0.1 ibv_rc_pingpong -d rocep_veth0 $options
	grep -q 'iters in .* usec/iter' "$scratch/client" || fail "ibv_rc_pingpong $options: no figure"
	# -c fills and checks the buffer.
	# shellcheck disable=SC2086
	pair a a 127.0.0.1 ibv_rc_pingpong -d rocep_lo $options -c
	! grep -q invalid "$scratch/client" "$scratch/server" || fail "ibv_rc_pingpong $options: wrong data"
done

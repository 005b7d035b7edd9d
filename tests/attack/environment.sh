#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Another thread of the program changes the environment while the library opens, and while it starts
# urnicd.
. "$(dirname "$0")/../e2e/common.sh"

network_up
for way in unreadable changing; do
	on a timeout 60 "$urnic" run --no-view -- "$1/tests/attack/environment" $way ||
		fail "with an environment that is $way the program ends with $?"
	# The next one starts an urnicd of its own.
	kill "$(urnicd_of a)" || fail 'the program has started no urnicd'
done

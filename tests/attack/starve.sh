#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Set-up calls are served while threads of the same program poll, however many. This test measures
# how long 99 of 100 calls take, and counts how many turns of another thread a waiting thread lets
# pass; tests/unit/test_busy_lock.c counts them, too.
. "$(dirname "$0")/../e2e/common.sh"

starve=$1/tests/attack/attack_starve
export URNIC_LOCAL=off
export URNIC_LANES=1 # which the calls and the polling threads share

# starve_with OPTIONS
starve_with() {
	# Acknowledgements are late on a busy machine: that is not what is tested.
	why=$(on a timeout 240 "$urnic" run --no-view -- "$starve" -d rocep_veth0 -t 18 "$@")
}

network_up
in_some_attempt starve_with -w turns
echo "$why"
# The goal is 5 and 100 ms on a machine that has nothing else to do.
in_some_attempt starve_with -n 8 -w 20
echo "$why"
in_some_attempt starve_with -n 64 -w 200
echo "$why"

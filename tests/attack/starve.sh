#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Set-up calls are served while threads of the same program poll, however many. This test measures
# how long 99 of 100 calls take; tests/unit/test_busy_lock.c counts the threads that a waiting
# thread lets pass.
. "$(dirname "$0")/../e2e/common.sh"

starve=$1/tests/attack/attack_starve

# starve_with THREADS MAX-MS
starve_with() {
	why=$(on a env URNIC_LOCAL=off timeout 240 "$urnic" run --no-view -- "$starve" -d rocep_veth0 -n "$1" -w "$2")
}

network_up
in_some_attempt starve_with 8 5
echo "$why"
in_some_attempt starve_with 64 100
echo "$why"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Set-up calls are served while threads of the same program poll, however many. This test measures
# how long 99 of 100 calls take, and counts how many turns of another thread a waiting thread lets
# pass; tests/unit/test_busy_lock.c counts them, too.
. "$(dirname "$0")/../e2e/common.sh"

starve=$1/tests/attack/attack_starve

# starve_with OPTIONS
starve_with() {
	# Acknowledgements are late on a busy machine: that is not what is tested.
	why=$(on a env URNIC_LOCAL=off timeout 240 "$urnic" run --no-view -- "$starve" -d rocep_veth0 -t 18 "$@")
}

network_up
in_some_attempt starve_with -w turns
echo "$why"
in_some_attempt starve_with -n 8 -w 5
echo "$why"
in_some_attempt starve_with -n 64 -w 100
echo "$why"

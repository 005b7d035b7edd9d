#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A peer on the same host that was stopped in the middle of a copy delays neither a fork nor
# deregistration for long, and does no harm when it goes on.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"

port=18600
network_up
for mode in auto copy; do
	for what in write read fork; do
		export URNIC_MR=$mode
		pair a a 10.99.0.1 "$1/tests/attack/attack_stand_still" -d rocep_veth0 -w $what
		echo "URNIC_MR=$mode: $(grep rounds "$scratch/server")"
	done
done

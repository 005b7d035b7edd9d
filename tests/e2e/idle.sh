#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# An idle process with connected queue pairs uses no CPU.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

port=18600
network_up 9000
pair a b 10.99.0.1 "$programs/idle" -d rocep_veth0
cat "$scratch/client"

# Nor when the interface goes away for a moment meanwhile.
{
	sleep 2
	on a ip link set veth0 down
	on a ip link set veth0 up
} &
pair a b 10.99.0.1 "$programs/idle" -d rocep_veth0 -n 4
wait $!
cat "$scratch/server"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A sender's request completes before the answer to it arrives, as with adapters: over sockets and
# with the bypass, within one host and between two, whether the programs poll or sleep.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

port=18600
network_up 9000
for link in on off; do
	for what in poll sleep; do
		URNIC_LINK=$link pair a b 10.99.0.1 "$programs/exchange" -d rocep_veth0 -w $what
	done
done
pair a a 10.99.0.1 "$programs/exchange" -d rocep_veth0 -w poll
URNIC_LOCAL=off pair a a 10.99.0.1 "$programs/exchange" -d rocep_veth0 -w poll
exit 0

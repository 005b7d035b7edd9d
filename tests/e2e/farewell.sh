#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Completions that the peer caused before it disconnected are in the queue when the program gets
# DISCONNECTED: between two hosts over the link, over sockets and over iWARP, and within one.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

network_up 9000
# farewell CLIENT-HOST ROUNDS MESSAGES
farewell() {
	listen server a "$programs/farewell" server 10.99.0.1 "$2" "$3"
	start client "$1" "$programs/farewell" client 10.99.0.1 "$2" "$3"
	finish client || fail "client: $(tail -n 3 "$scratch/client")"
	finish server || fail "server: $(tail -n 3 "$scratch/server")"
	cat "$scratch/server"
}

farewell b 600 2
URNIC_LINK=off farewell b 600 2
URNIC_TRANSPORTS=iwarp farewell b 600 2
farewell a 600 2
# Each acknowledgement arrives 2 ms behind the DREQ that was sent after it.
URNIC_IMPAIR=delay=2ms farewell b 40 1
exit 0

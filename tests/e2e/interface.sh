#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Debian's ibv_asyncwatch reports changes of the interface's link and addresses, and its removal;
# ibv_devinfo shows them.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ibv_asyncwatch ibv_devinfo
network_up 4200
start watch a stdbuf -oL ibv_asyncwatch -d rocep_veth0

# seen COUNT TEXT: ibv_asyncwatch has said TEXT that often, soon.
seen() {
	for _ in $(seq 600); do
		[ "$(grep -c "$2" "$scratch/watch")" -ge "$1" ] && return
		sleep 0.1
	done
	kill "$(process watch)"
	fail "not seen: $1 x $2; but: $(cat "$scratch/watch")"
}
gids() {
	on a "$urnic" run -- ibv_devinfo -v -d rocep_veth0 | grep -c 'GID\['
}

seen 1 'async event FD'
before=$(gids)
on a ip addr add 10.77.0.1/24 dev veth0
seen 1 GID_CHANGE
[ "$(gids)" = $((before + 1)) ] || fail "ibv_devinfo lists $(gids) GIDs"
on a ip addr del 10.77.0.1/24 dev veth0
seen 2 GID_CHANGE
[ "$(gids)" = "$before" ] || fail "ibv_devinfo lists $(gids) GIDs"
on a ip link set veth0 down
seen 1 PORT_ERR
on a ip link set veth0 up
seen 1 PORT_ACTIVE
on a ip link del veth0
seen 1 DEVICE_FATAL
kill "$(process watch)"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnicd.service: systemd accepts the unit, and urnicd says when it listens.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

# The unit, with the urnicd of this build.
unit=$scratch/urnicd.service
trap 'at_exit' EXIT
sed "s|^ExecStart=[^ ]*|ExecStart=$urnicd|" "$1/packaging/urnicd.service" >"$unit"
grep -q "^ExecStart=$urnicd --system --foreground\$" "$unit" || fail "$(grep ExecStart "$unit")"
if command -v systemd-analyze >/dev/null; then
	said=$(systemd-analyze verify --man=no "$unit" 2>&1) || fail "systemd-analyze: $said"
	[ -z "$said" ] || fail "systemd-analyze: $said"
fi

[ "$(id -u)" = 0 ] || skip 'urnicd --system needs root'
network_up

# manager NAME: the socket of a service manager; prints what comes until urnicd listens. A name that
# begins with @ is an abstract one.
manager() {
	rm -f "$scratch/said" # what another manager has written there
	on a /usr/bin/python3 -c '
import os, socket, sys
name = sys.argv[1]
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind("\0" + name[1:] if name[0] == "@" else name)
print("bound", flush=True)
said = ""
while said != "READY=1":
    said = manager.recv(100).decode()
    print(said, flush=True)' "$1" >"$scratch/said" &
	echo $! >"$scratch/manager.pid"
	await 'no socket' grep -qs bound "$scratch/said"
}

for name in "$scratch/notify" "@$network"; do
	manager "$name"
	"$urnic" host exec -n "$network" a -- env NOTIFY_SOCKET="$name" \
		"$urnicd" --system --foreground 2>"$scratch/log" &
	service=$!
	(await "urnicd does not say to $name that it listens" grep -qxs READY=1 "$scratch/said") || {
		cat "$scratch/log"
		exit 1
	}
	# The manager closes what it keeps of another urnicd, and keeps this one's descriptors.
	[ "$(sed -n '/^FDSTORE/s/=1//p; s/^FDNAME=//p' "$scratch/said" | tr '\n' ' ')" = "$(for word in FDSTOREREMOVE FDSTORE; do
		printf '%s socket %s lock %s fd-store ' $word $word $word
	done)" ] || fail "urnicd has nothing kept: $(cat "$scratch/said")"
	[ "$(urnicds_on a)" != '' ] || fail 'urnicd does not listen when it says so'
	kill $service
	wait $service
done

# urnicd starts although no process reads the socket that NOTIFY_SOCKET names.
URNICD_IDLE_S=1 on a env NOTIFY_SOCKET="$scratch/nobody" "$urnicd" --foreground 2>"$scratch/log" ||
	fail "without a manager: $(cat "$scratch/log")"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic devices: what ibv_devices and ibv_devinfo list, and a sentence where there is nothing.
. "$(dirname "$0")/common.sh"

network_up 4200
table=$(on a "$urnic" devices) || fail 'the exit status with devices'
echo "$table" | grep -q '^rocep_veth0  *veth0  *active  *4200  *4096 ' || fail "no row of veth0: $table"
echo "$table" | grep -q '^ *GID 0  10.99.0.1$' || fail "GID 0 is not the IPv4 address: $table"
echo "$table" | grep -q '^ *GID 1  fd00:99::1$' || fail "GID 1 is not the IPv6 address: $table"
echo "$table" | tail -n +2 | grep -v GID | tail -1 | grep -q '^rocep_lo ' || fail 'loopback is not last'

# The same names, in the same order, as a program sees them.
if command -v ibv_devices >/dev/null; then
	ours=$(on a "$urnic" devices --json | /usr/bin/python3 -c '
import json, sys
for device in json.load(sys.stdin)["devices"]: print(device["name"], device["guid"].replace(":", ""))')
	theirs=$(on a "$urnic" run ibv_devices | awk 'NR > 2 { print $1, $2 }')
	[ "$ours" = "$theirs" ] || fail "devices are $ours; ibv_devices lists $theirs"
fi

on a env URNIC_INTERFACES=lo URNIC_DEVICE_NAME=mlx5_0 "$urnic" devices | grep -q '^mlx5_0  *lo ' ||
	fail 'URNIC_INTERFACES and URNIC_DEVICE_NAME do nothing'

said=$(URNIC_INTERFACES=no-such "$urnic" devices 2>&1)
[ $? = 1 ] || fail 'no device is not a failure'
echo "$said" | grep -q 'URNIC_INTERFACES=no-such' || fail "does not say why there is none: $said"
URNIC_INTERFACES=no-such "$urnic" devices --json 2>/dev/null | grep -q '"devices"' || fail 'no JSON of nothing'
"$urnic" devices --bogus 2>/dev/null
[ $? = 2 ] || fail 'a bad option is not a usage error'

# A variable that is set to nonsense is named in a sentence, and the default is used.
for variable in URNIC_TRANSPORTS URNIC_LINK URNIC_LOCAL URNIC_MR URNIC_LANES URNIC_LIMITS URNIC_LOG; do
	said=$(on a "$urnic" run --no-view -- env $variable=nonsense ibv_rc_pingpong -d rocep_veth0 -g 0 127.0.0.1 2>&1)
	echo "$said" | grep -q "$variable .*nonsense" || fail "$variable=nonsense: $said"
	echo "$said" | grep -q "Couldn't connect to 127.0.0.1" || fail "$variable=nonsense ends it: $said"
done
said=$(on a "$urnic" run --no-view -- env URNIC_TRANSPORTS=iwarp URNIC_MPA=crc=off,nonsense rping -c -a 10.99.0.1 -C 1 2>&1)
echo "$said" | grep -q "URNIC_MPA has 'nonsense'" || fail "URNIC_MPA=nonsense: $said"

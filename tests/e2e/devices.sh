#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic devices: what ibv_devices and ibv_devinfo list, and the message when there is no device.
. "$(dirname "$0")/common.sh"

network_up 4200
table=$(on a "$urnic" devices) || fail 'the exit status with devices'
echo "$table" | grep -q '^rocep_veth0  *veth0  *active  *4200  *4096 ' || fail "no row of veth0: $table"
echo "$table" | grep -q '^ *GID 0  10.99.0.1$' || fail "GID 0 is not the IPv4 address: $table"
echo "$table" | grep -q '^ *GID 1  fd00:99::1$' || fail "GID 1 is not the IPv6 address: $table"
echo "$table" | grep rocep_lo && fail 'loopback is a device beside veth0'
on a env URNIC_INTERFACES='*,lo' "$urnic" devices | tail -n +2 | grep -v GID | tail -1 | grep -q '^rocep_lo ' ||
	fail 'loopback is asked for and is not last'

on a "$urnic" devices --json >"/tmp/$network.json"
matches_schema devices <"/tmp/$network.json"
rm -f "/tmp/$network.json"

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

# The library names a variable with an invalid value in one sentence, which a long value does not
# hide, and uses the default.
plain='URNIC_TRANSPORTS URNIC_LINK URNIC_LOCAL URNIC_MR URNIC_LANES URNIC_LIMITS URNIC_LOG'
# said_of VALUE VARIABLE...: what a program says when these have the value; it has to go on.
said_of() {
	value=$1
	shift
	said=$(on a "$urnic" run --no-view -- env $(for variable; do echo "$variable=$value"; done) \
		ibv_rc_pingpong -d rocep_veth0 -g 0 127.0.0.1 2>&1)
	echo "$said" | grep -q "Couldn't connect to 127.0.0.1" || fail "$*=$value ends it: $said"
}
for value in nonsense -1 /no/such/directory "$(printf %05000d 0)"; do
	said_of "$value" $plain
	for variable in $plain; do
		[ "$(echo "$said" | grep -cE "$variable (is|has) '.*; (using|it is ignored)")" = 1 ] ||
			fail "$variable=$value: $said"
	done
	echo "$said" | grep '0\{101\}' && fail "of a long value there is too much: $said"
done
said_of '' $plain URNIC_INTERFACES URNIC_DEVICE_NAME URNIC_HOST_ID URNIC_URNICD URNICD_LOG URNICD_IDLE_S SYSFS_PATH
echo "$said" | grep URNIC && fail "an empty variable is not as good as none"
said_of ../names URNIC_DEVICE_NAME
echo "$said" | grep -q "URNIC_DEVICE_NAME is '../names'.* veth0 is rocep_veth0" || fail "a name with a slash: $said"
URNIC_INTERFACES='*,lo'
export URNIC_INTERFACES
said_of 'rocep_veth0,rocep_veth0' URNIC_DEVICE_NAME
echo "$said" | grep -q "a device rocep_veth0 already; the one on lo is " || fail "a name twice: $said"
said=$(on a "$urnic" run --no-view -- env URNIC_TRANSPORTS=iwarp URNIC_MPA=crc=off,nonsense rping -c -a 10.99.0.1 -C 1 2>&1)
echo "$said" | grep -q "URNIC_MPA has 'nonsense'" || fail "URNIC_MPA=nonsense: $said"

said=$(on a env URNIC_TRANSPORTS=nonsense "$urnic" run -- ibv_devices 2>&1)
[ "$(echo "$said" | grep -c "URNIC_TRANSPORTS is")" = 1 ] || fail "urnic run and the program: $said"
said=$(on a "$urnic" run --no-view -- env URNIC_LINK=on ibv_ud_pingpong -d rocep_lo -g 0 127.0.0.1 2>&1)
[ "$(echo "$said" | grep -c 'URNIC_LINK is on, but packets of lo go through UDP sockets: ')" = 1 ] || fail "URNIC_LINK=on: $said"
on a "$urnic" capture -i no-such -- true 2>&1 | grep -q 'no device or interface is called no-such' || fail 'capture -i no-such says nothing'

# The program itself reports an invalid value that concerns the urnicd that it starts; host b has no
# urnicd yet.
said=$("$urnic" host exec -n "$network" b -- "$urnic" run --no-view -- \
	env URNICD_IDLE_S=-1 URNICD_LOG=/no/such/directory/log ibv_rc_pingpong -d rocep_veth0 -g 0 127.0.0.1 2>&1)
echo "$said" | grep -q "URNICD_IDLE_S is '-1'.*; using 10" || fail "URNICD_IDLE_S=-1: $said"
echo "$said" | grep -q "URNICD_LOG is '/no/such/directory/log', which cannot be written" || fail "URNICD_LOG: $said"
echo "$said" | grep -q "Couldn't connect to 127.0.0.1" || fail "URNICD_IDLE_S=-1 ends it: $said"

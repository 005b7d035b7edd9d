#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Subnet managers hand over the mastership by SMInfo (IBTA 14.4.1): the embedded one to OpenSM, one
# OpenSM to another of higher priority, and back when the master ends, is killed, or stops.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

need opensm sminfo

# info NODE [ARGUMENTS]: SMInfo of the subnet manager at a node.
info() {
	info_lid=$(lid_of "$1")
	shift
	on host4 timeout $pair_seconds "$urnic" run $view -- sminfo "$info_lid" "$@" \
		>"$scratch/info" 2>&1
}

# is NODE STATE: what its subnet manager says.
is() {
	info "$1" && grep -q "SMINFO_$2" "$scratch/info"
}

# master_is NODE: all ports have its LID as their manager's.
master_is() {
	on host4 timeout $pair_seconds "$urnic" run $view -- sminfo >"$scratch/info" 2>&1 &&
		grep -q "sm lid $(lid_of "$1") .*SMINFO_MASTER" "$scratch/info"
}

has_issm() {
	on host4 "$urnic" run $view -- smpquery portinfo "$(lid_of "$1")" |
		grep -q '^[[:space:]]*IsSM$'
}

# says NAME STATE: has the OpenSM entered it?
says() {
	grep -qs "Entering $2" "$scratch/$1.log"
}

fabric_up chain
await 'the ports are active' ports_are Active $ports
await 'the embedded manager is the master' master_is switch1
has_issm switch1 || fail "IsSM of the embedded manager: $(cat "$scratch/info")"

# --- the embedded one hands over to OpenSM, whatever its GUID is ---

manager equal host2 0
await 'OpenSM becomes the master' master_is host2
grep -q 'Entering STANDBY' "$scratch/equal.log" || fail 'OpenSM did not find the embedded manager'
await 'the embedded manager is not active' is switch1 NOTACT
has_issm host2 && has_issm switch1 || fail 'IsSM of both managers'
kill -KILL "$(process equal)"
finish equal
await 'the embedded manager takes over' master_is switch1
! has_issm host2 || fail 'IsSM of a manager that was killed'

manager low host2 1
await 'OpenSM of a higher priority becomes the master' master_is host2
await 'the embedded manager is on standby' is switch1 STANDBY

# --- one OpenSM to another of higher priority; it ends, and the first one takes over ---

manager high host3 5
await 'the second OpenSM becomes the master' master_is host3
await 'the first one is on standby' is host2 STANDBY
is switch1 STANDBY || fail "the embedded manager: $(cat "$scratch/info")"
kill "$(process high)"
finish high
await 'the first OpenSM is the master again' master_is host2
is switch1 STANDBY || fail "the embedded manager: $(cat "$scratch/info")"

# --- a master that does not answer is replaced, and gets its place back ---

kill -STOP "$(process low)"
await 'the embedded manager takes over from a stopped one' is switch1 MASTER
kill -CONT "$(process low)"
await 'OpenSM has its place back' master_is host2
await 'the embedded manager is on standby again' is switch1 STANDBY

# --- controls of a manager: sminfo's modifier ---

info switch1 3 || fail "DISABLE: $(cat "$scratch/info")"
is switch1 NOTACT || fail "after DISABLE: $(cat "$scratch/info")"
kill -KILL "$(process low)"
finish low
sleep 1
is switch1 NOTACT || fail "a disabled manager has taken over: $(cat "$scratch/info")"
info switch1 4 || fail "STANDBY: $(cat "$scratch/info")"
await 'the enabled manager takes over' master_is switch1
! info switch1 3 || ! grep -q NOTACT "$scratch/info" || fail 'a master obeys DISABLE'
exit 0

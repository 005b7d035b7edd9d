#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Violations of P_Keys, Q_Keys and M_Keys: what the sender gets, the counter of the port that
# refuses, and the trap that OpenSM receives. OpenSM also receives the traps of other changes.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

need opensm smpquery perfquery ibportstate ib_send_bw rping udaddy python3
M_KEY=0x1234

port_guid() {
	fabric dump "$1" | sed -n '1s/.* guid 0x\([0-9a-f]*\)00 .*/0x\101/p'
}

# violations NODE FIELD: of the port of a host; smpquery needs the M_Key.
violations() {
	on host2 "$urnic" run $view -- smpquery -y $M_KEY portinfo "$(lid_of "$1")" |
		sed -n "s/^$2:\.*\([0-9]*\)/\1/p"
}

has_counted() {
	[ "$(violations "$1" "$2")" -ge "$3" ]
}

# constraint_errors SWITCH PORT
constraint_errors() {
	on host2 "$urnic" run $view -- perfquery "$(lid_of "$1")" "$2" |
		sed -n 's/^PortXmitConstraintErrors:\.*\([0-9]*\)/\1/p'
}

heard_of() {
	grep -qs "num:$1\b" "$scratch/opensm.log"
}

heard_times() {
	grep -cs "num:$1\b" "$scratch/opensm.log"
}

hears_again() {
	[ "$(heard_times "$1")" -gt "$2" ]
}

listens() {
	ss -Hltn "sport = :$port" | grep -q .
}

# meet HOST INDEX INDEX: ib_send_bw from a host to host1, with these P_Keys of client and server.
# Sets $client_status.
meet() {
	port=$((port + 1))
	start server host1 ib_send_bw -F -n 20 -u 12 -p $port --pkey_index="$3"
	await 'the server listens' listens
	start client "$1" ib_send_bw -F -n 20 -u 12 -p $port --pkey_index="$2" 127.0.0.1
	finish client && client_status=0 || client_status=$?
	[ $client_status = 0 ] || kill "$(process server)" 2>/dev/null
	finish server
}

fails() {
	[ $client_status != 0 ] || fail "$1 are accepted"
	grep -qi 'status 12\|retry' "$scratch/client" || fail "$1: $(tail -n 5 "$scratch/client")"
}

# subnet ENFORCEMENT [MEMBERS]: a new one, where OpenSM has switches enforce partitions in this
# direction, and these are the members of the default partition.
subnet() {
	members=${2:-ALL=full}
	[ -z "$fabric_process" ] || fabric_end
	rm -f "$scratch"/*.pid "$scratch/opensm.log"
	fabric_up chain --no-sm
	cat >"$scratch/opensm.conf" <<-END
		m_key $M_KEY
		m_key_protection_level 2
		m_key_lease_period 0
		part_enforce $1
		partition_config_file $scratch/partitions.conf
	END
	cat >"$scratch/partitions.conf" <<-END
		Default=0x7fff : $members ;
		one=0x0001 : $(port_guid host1)=full, $(port_guid host4)=full ;
		two=0x0002 : $(port_guid host3)=full ;
	END
	opensm_start opensm host2
}

port=18800
subnet off

# --- P_Keys at queue pairs and ports ---

meet host4 1 1
[ $client_status = 0 ] || fail "members of a partition: $(tail -n 5 "$scratch/client")"
[ "$(violations host1 PkeyViolations)" = 0 ] || fail 'violations without a reason'
meet host4 0 1
fails 'packets with another P_Key than the queue pair'
await 'the port counts bad P_Keys' has_counted host1 PkeyViolations 1
await 'OpenSM hears of a bad P_Key' heard_of 257
counted=$(violations host1 PkeyViolations)
meet host3 1 1
fails 'packets with a P_Key that the port does not have'
await 'the port counts them, too' has_counted host1 PkeyViolations $((counted + 1))

# --- M_Keys ---

# A stranger does not know the key: no answer, and nothing changes.
[ "$(violations host4 MkeyViolations)" = 0 ] || fail 'violations of the M_Key without a reason'
lid=$(lid_of host4)
on host3 "$urnic" run $view -- smpquery -t 50 portinfo "$lid" >"$scratch/out" 2>&1 &&
	fail 'a request without the M_Key is answered'
on host3 "$urnic" run $view -- ibportstate -t 50 "$lid" 1 disable >"$scratch/out" 2>&1 &&
	fail 'a port is disabled without the M_Key'
await 'the port counts bad M_Keys' has_counted host4 MkeyViolations 1
await 'OpenSM hears of a bad M_Key' heard_of 256
ports_are Active $ports || fail "a forged SMP has changed the subnet: $(fabric dump)"

# --- Q_Keys, and the traps of a cut cable and of a changed CapabilityMask ---

[ "$(violations host1 QkeyViolations)" = 0 ] || fail 'violations of the Q_Key without a reason'
# OpenSM may set the port's attributes at this moment, and its counters with them, to values that it
# has read before. So the MAD is sent until one is counted.
qkey_is_counted() {
	on host3 "$urnic" run $view -- "$(dirname "$0")/umad_misuse.py" qkey "$(lid_of host1)" ||
		fail 'a MAD with a wrong Q_Key'
	has_counted host1 QkeyViolations 1
}
await 'the port counts bad Q_Keys' qkey_is_counted
await 'OpenSM hears of a bad Q_Key' heard_of 258
before=$(heard_times 128)
fabric unlink 'switch4[5]' || fail 'unlink'
await 'OpenSM hears of a cut cable' hears_again 128 "$before"
fabric relink 'switch4[5]' || fail 'relink'
await 'the ports are active again' ports_are Active $ports
before=$(heard_times 144)
on host3 "$urnic" run $view -- "$(dirname "$0")/umad_misuse.py" issm || fail 'the IsSM file'
await 'OpenSM hears of changed capabilities' hears_again 144 "$before"

# --- P_Keys at a switch ---

subnet out
meet host4 1 1
[ $client_status = 0 ] || fail "members of a partition: $(tail -n 5 "$scratch/client")"
meet host3 1 1
fails 'packets of another partition'
[ "$(violations host1 PkeyViolations)" = 0 ] || fail 'packets pass a switch that enforces partitions'
[ "$(constraint_errors switch1 1)" -gt 0 ] || fail 'the switch counts nothing'
await 'OpenSM hears of a bad P_Key at a switch' heard_of 259

# --- rdma_cm takes the P_Key of the path ---

# Limited members of the default partition reach each other in another partition only.
subnet out 'ALL=limited, SELF=full'
start server host1 rping -s -C 20
connects() {
	start client host4 rping -c -C 20 -V -a "$(stand_in host1)"
	finish client # a client before its server is rejected
}
await 'rping connects in the partition' connects
finish_well server
[ "$(violations host1 PkeyViolations)" = 0 ] || fail 'rping sends packets with another P_Key'
start server host1 udaddy -C 20
resolves() {
	start client host4 udaddy -C 20 -s "$(stand_in host1)"
	finish client
}
await 'udaddy finds its server in the partition' resolves
finish_well server
# A group is one of the identifier's partition, too, not of the first P_Key of the port's table.
joins() {
	grep -q 'joined ff12:4001:8001::f01:209$' "$scratch/$1"
}
start server host1 "$programs/partition_group" receiver "$(stand_in host4)" 239.1.2.9
await 'the receiver joins the group of the partition' joins server
start client host4 "$programs/partition_group" sender "$(stand_in host1)" 239.1.2.9
finish_well server client
joins client || fail "group of the sender: $(cat "$scratch/client")"
[ "$(violations host1 PkeyViolations)" = 0 ] || fail 'datagrams to a group have another P_Key'
start client host3 rping -c -C 20 -a "$(stand_in host1)"
finish client && fail 'rping connects hosts without a partition in common'
grep -q 'RDMA_CM_EVENT_ADDR_ERROR, error -113' "$scratch/client" || fail "no path: $(cat "$scratch/client")"
exit 0

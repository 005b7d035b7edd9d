#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# `urnic fabric explain` regards the service level of each path, and the lane that the SL2VL tables
# give it. On a ring it finds no credit loop where dfsssp and lash of OpenSM route, but one when all
# levels have one lane. On a torus it finds none where torus-2QoS sets tables for pairs of ports,
# but one without these tables. ibdmchk says the same of the levels that saquery prints.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

need opensm ibdmchk saquery

# says EXPRESSION WORDS: what `urnic fabric explain WORDS` prints has a line like this.
says() {
	expression=$1
	shift
	fabric explain "$@" >"$scratch/said" 2>&1 || fail "explain: $(cat "$scratch/said")"
	grep -Eq -- "$expression" "$scratch/said" ||
		fail "no \"$expression\": $(cat "$scratch/said")"
}

# manage NODE: OpenSM, with the options of standard input, sets the subnet up and stays.
manage() {
	rm -f "$scratch"/opensm* "$scratch/manager.log"
	{
		cat
		echo 'log_flags 0x43'
	} >"$scratch/manager.conf"
	opensm_start manager "$1"
}

# tables_of NODE: what ibdmchk has to be told: the level of each path, and the lanes of switches.
tables_of() {
	on "$1" timeout 60 "$urnic" run --no-view -- saquery -p >"$scratch/paths" 2>&1 ||
		fail "saquery: $(cat "$scratch/paths")"
	fabric dump | awk '
		/^[A-Z]/ { sub(/.* guid /, ""); guid = $1 }
		/ lid / { sub(/.* lid /, ""); print $1, guid }' >"$scratch/guids"
	awk '
		NR == FNR { guids[$1] = $2; next }
		{ sub(/\.+/, " ") }
		$1 == "dlid" { dlid = $2 }
		$1 == "slid" { slid = $2 }
		$1 == "sl" { print guids[slid], dlid, substr($2, 3) }' \
		"$scratch/guids" "$scratch/paths" >"$scratch/levels"
	[ ! -e "$scratch/opensm-sl2vl.dump" ] || awk '
		/^[A-Z]/ { guid = substr($2, 1, 18); is_switch = $1 == "Switch" }
		is_switch && /^[0-9]/ {
			printf "%s %s %s", guid, $1, $2
			for (i = 4; i < 20; i += 2)
				printf " 0x%x%x", $i, $(i + 1)
			print ""
		}' "$scratch/opensm-sl2vl.dump" >"$scratch/lanes"
}

# ibdmchk_says EXPRESSION OPTIONS: OpenSM may be about to write its tables.
ibdmchk_says() {
	expression=$1
	shift
	await "ibdmchk says $expression" ibdmchk_has_said "$@"
}

ibdmchk_has_said() {
	# Debian's ibdmchk crashes after its report.
	(cd "$scratch" && sh -c 'ibdmchk -s opensm-subnet.lst -f opensm.fdbs -m opensm.mcfdbs "$@" \
		>check 2>&1
		exit 0' sh "$@") 2>/dev/null
	grep -q "$expression" "$scratch/check"
}

loop='have a credit loop: each of these [0-9]+ ports waits'

# --- a ring ---

fabric_up ring --no-sm
# dfsssp answers each query for a path with any one of some levels.
for engine in dfsssp lash; do
	manage host1 <<-END
		routing_engine $engine
	END
	says '^the paths of service levels 0,? (.* )?and [1-7] have no credit loop$'
	tables_of host2
	ibdmchk_says 'ound credit loop'
	ibdmchk_says 'no credit loops found' -c levels
	[ $engine = lash ] || stop manager
done
lid=$(lid_of host5)
level=$(sed -n "s/^0x00fc010000000500 $lid //p" "$scratch/levels") # from host1
says "^from \"host1\"\\[1\\] to LID $lid, service level $level, " host1 host5
stop manager

manage host1 <<-END
	routing_engine lash
	qos TRUE
	qos_sl2vl 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0
END
says "^the paths of service levels 0 and 1 $loop"
[ "$(grep -c '^  "switch[1-4]"\[[78]\], lane 0$' "$scratch/said")" = 4 ] ||
	fail "the loop: $(cat "$scratch/said")"
tables_of host2
ibdmchk_says 'no credit loops found' -c levels
ibdmchk_says 'ound credit loop' -c levels -d lanes
stop manager

# With one lane OpenSM has too few for lash, and says so. It routes by minhop.
manage host1 <<-END
	routing_engine lash
	max_op_vls 1
END
grep -q 'ERR 4D02: Lane requirements (2) exceed available lanes (1)' "$scratch/manager.log" ||
	fail "lash with one lane: $(grep ERR "$scratch/manager.log")"
says '^all 56 paths between active ports of hosts exist$'
says "^the paths of service level 0 $loop"
stop manager
kill $fabric_process
wait $fabric_process

# --- a torus ---

# guid_of_switch NAME
guid_of_switch() {
	fabric dump | sed -n "s/^Switch .* \"$1\" guid \\(0x[0-9a-f]*\\) .*/\\1/p"
}

sh "$(dirname "$0")/../../examples/infiniband/torus" 5 3 3 >"$scratch/topology"
fabric_up "$scratch/topology" --no-sm
cat >"$scratch/torus" <<-END
	torus 5 3 3
	xp_link $(guid_of_switch s0.0.0) $(guid_of_switch s1.0.0)
	yp_link $(guid_of_switch s0.0.0) $(guid_of_switch s0.1.0)
	zp_link $(guid_of_switch s0.0.0) $(guid_of_switch s0.0.1)
END
manage h0.0.0 <<-END
	routing_engine torus-2QoS
	torus_config $scratch/torus
	qos TRUE
END
says '^the paths of service levels 0, 1, 2, 3, 4, 5, 6 and 7 have no credit loop$'
tables_of h0.0.1
ibdmchk_says 'no credit loops found' -c levels -d lanes
stop manager
manage h0.0.0 <<-END
	routing_engine torus-2QoS
	torus_config $scratch/torus
END
says "^the paths of service level 0 $loop"
ibdmchk_says 'ound credit loop'
exit 0

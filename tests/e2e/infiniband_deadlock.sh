#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A ring that OpenSM has set up, as a scenario of `urnic sim`, whose links have credits. With the
# tables of minhop, traffic between all hosts deadlocks in the loop that `urnic fabric explain`
# names. With those of updn, lash and dfsssp, and the service levels of their paths, it finishes, as
# with those of the embedded manager.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

need opensm

# manage ENGINE: OpenSM with this routing engine sets the ring up and stays.
manage() {
	rm -f "$scratch"/opensm* "$scratch/manager.log"
	echo "routing_engine $1" >"$scratch/manager.conf"
	[ "$1" != updn ] || {
		fabric dump switch1 | sed -n '1s/.* guid \(0x[0-9a-f]*\) .*/\1/p' >"$scratch/roots"
		echo "root_guid_file $scratch/roots" >>"$scratch/manager.conf"
	}
	opensm_start manager host1
}

# simulate: traffic between all hosts over links with credits; prints in $scratch/simulated.
simulate() {
	fabric scenario >"$scratch/scenario.json" || fail "scenario: $(cat "$scratch/scenario.json")"
	"$urnic" sim "$scratch/scenario.json" >"$scratch/simulated" 2>&1 ||
		fail "sim: $(head "$scratch/simulated")"
}

# levels: the service levels of the scenario's paths.
levels() {
	sed -n '/"service_levels"/,/]]/p' "$scratch/scenario.json" | grep -o '[0-9][0-9]*' | sort -u
}

# lanes_of LINE: "s0>s3" and so on, sorted, one a line, of a line of `urnic sim`.
lanes_of() {
	sed -n "s/^$1.*: //p" "$scratch/simulated" | tr ' ' '\n' | sort
}

# finishes WHO: all flows do, and there is no loop.
finishes() {
	grep -q '^all-to-all  *56  *56 ' "$scratch/simulated" ||
		fail "$1: not all flows finish: $(cat "$scratch/simulated")"
	! grep '^deadlock\|^credit loop' "$scratch/simulated" || fail "$1 has a loop"
}

fabric_up ring
await 'the ports are active' ports_are Active $ports
simulate
finishes 'the embedded manager'
kill $fabric_process
wait $fabric_process

fabric_up ring --no-sm
fabric scenario >"$scratch/scenario.json" || fail 'a scenario without a manager'
"$urnic" sim "$scratch/scenario.json" >"$scratch/out" 2>&1
[ $? = 2 ] && grep -q hosts "$scratch/out" || fail "without hosts: $(cat "$scratch/out")"

manage minhop
simulate
fabric explain >"$scratch/said" || fail "explain: $(cat "$scratch/said")"
# switch1 is s0; its port 7 leads to the next switch, its port 8 to the one before.
sed -n 's/^  "switch\([1-4]\)"\[\([78]\)\], lane 0$/\1 \2/p' "$scratch/said" |
	awk '{ from = $1 - 1; print "s" from ">s" (from + ($2 == 7 ? 1 : 3)) % 4 }' | sort >"$scratch/loop"
[ "$(wc -l <"$scratch/loop")" = 4 ] || fail "explain names no loop: $(cat "$scratch/said")"
lanes_of 'deadlock of VL 0' | cmp -s - "$scratch/loop" ||
	fail "the deadlock is not the loop that explain names: $(cat "$scratch/simulated" "$scratch/loop")"
lanes_of 'credit loop of VL 0' | cmp -s - "$scratch/loop" || fail "the loop: $(cat "$scratch/simulated")"
grep -q '^all-to-all  *56  *[0-9] \|^all-to-all  *56  *[1-4][0-9] ' "$scratch/simulated" ||
	fail "all flows finish in spite of the deadlock: $(cat "$scratch/simulated")"
stop manager

for engine in updn lash dfsssp; do
	manage $engine
	simulate
	finishes $engine
	[ $engine = updn ] || [ "$(levels | wc -l)" -gt 1 ] || fail "$engine has one service level"
	[ $engine != updn ] || [ "$(levels)" = 0 ] || fail "updn has service levels: $(levels)"
	stop manager
done

# With all levels in one lane, the paths of lash deadlock, too.
sed 's/"max_op_vls": [0-9]/"max_op_vls": 1/; s/"qos_sl2vl": "[0-9,]*"/"qos_sl2vl": "0,0,0,0,0,0,0,0"/' \
	"$scratch/scenario.json" >"$scratch/one.json"
"$urnic" sim "$scratch/one.json" >"$scratch/simulated" 2>&1 || fail "one lane: $(cat "$scratch/simulated")"
grep -q '^credit loop of VL 0' "$scratch/simulated" || fail "one lane has no loop: $(cat "$scratch/simulated")"

# Cables that are cut carry nothing.
fabric unlink 'switch1[7]' || fail unlink
await 'the ports are down' ports_are Active $((ports - 2))
fabric scenario | tr -d '\n\t' | grep -q '"cables": \[\(\["[hs][0-9]", "s[0-9]"\], \)\{10\}\["s[0-9]", "s[0-9]"\]\]' ||
	fail "cables: $(fabric scenario | grep cables)"

# `urnic sim` runs no network in two parts.
fabric unlink 'switch3[7]' || fail 'unlink again'
await 'more ports are down' ports_are Active $((ports - 4))
fabric scenario >"$scratch/out" 2>&1 && fail 'a scenario of a split subnet'
grep -q 'the subnet is split: no cables lead from "host1" to "host[3-8]", and urnic sim needs them' "$scratch/out" ||
	fail "the sentence of a split subnet: $(cat "$scratch/out")"
kill $fabric_process
wait $fabric_process

# Each cable has its rate: that of host3 is slower, and one between two switches.
sed 's/^\(.1.[[:space:]]*"host3".*\)4xEDR/\11xEDR/; /^Ca.*"host3"/,/^$/s/4xEDR/1xEDR/
	s/^\(.7.[[:space:]]*"switch4".*\)4xEDR/\11xEDR/; s/^\(.8.[[:space:]]*"switch3".*\)4xEDR/\11xEDR/' \
	"$(dirname "$0")/../../examples/infiniband/ring.topo" >"$scratch/mixed.topo"
fabric_up "$scratch/mixed.topo"
await 'the ports are active' ports_are Active $ports
simulate
grep -o '"cables".*' "$scratch/scenario.json" >"$scratch/cables"
for cable in '"h0", "s0"' '"h2", "s1", 25' '"h3", "s1"' '"s0", "s1"' '"s2", "s3", 25'; do
	grep -qF "[$cable]" "$scratch/cables" || fail "no cable [$cable]: $(cat "$scratch/cables")"
done
finishes 'a ring of mixed rates'
exit 0

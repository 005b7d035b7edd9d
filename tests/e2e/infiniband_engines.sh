#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Each routing engine of OpenSM sets up a subnet that its topology allows: three switches, or a fat
# tree of 324 hosts. All paths between hosts exist, and data passes. On the fat tree the diagnostics
# find the topology that was loaded. infiniband_levels has torus-2QoS.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

need opensm ibnetdiscover iblinkinfo saquery ib_write_bw

# manage ENGINE NODE: OpenSM with this routing engine, which it has not replaced by another one.
manage() {
	rm -f "$scratch"/opensm* "$scratch/manager.log"
	printf 'routing_engine %s\nlog_flags 0x07\n' "$1" >"$scratch/manager.conf"
	opensm_start manager "$2"
	grep -q "$1 tables configured on all switches" "$scratch/manager.log" ||
		fail "OpenSM routes by another engine than $1: $(grep 'tables configured\| ERR ' "$scratch/manager.log" | tail -n 5)"
}

# check ENGINE PATHS SERVER CLIENT
check() {
	fabric explain >"$scratch/said" || fail "explain: $(cat "$scratch/said")"
	grep -q "^all $2 paths between active ports of hosts exist$" "$scratch/said" ||
		fail "$1: $(head "$scratch/said")"
	port=$((port + 1))
	pair "$3" "$4" 127.0.0.1 ib_write_bw -F -n 50 -p $port
	stop manager
	echo "$1: $(sed -n 2p "$scratch/said")"
}

port=$((20000 + $$ % 240 * 50)) # below those that the kernel gives to clients
fabric_up three-switches --no-sm
for engine in minhop updn dnup lash dor sssp dfsssp nue; do
	manage $engine host1
	check $engine 30 host2 host6
done
fabric_end
fabric_process=

sh "$(dirname "$0")/../../examples/infiniband/fat-tree" >"$scratch/topology" || fail 'the fat tree'
fabric_up "$scratch/topology" --no-sm
grep -q 'up: 27 switches, 324 hosts, 648 cables' "$scratch/up" || fail "$(cat "$scratch/up")"
first=host1
last=host324
for engine in minhop updn dnup ftree lash dor sssp dfsssp nue; do
	manage $engine "$first"
	[ $engine = ftree ] && {
		on "$last" "$urnic" run $view -- ibnetdiscover >"$scratch/out" 2>&1 || fail "ibnetdiscover: $(tail "$scratch/out")"
		[ "$(grep -c '^\[[0-9]*\]' "$scratch/out")" = 1296 ] || fail "ibnetdiscover finds $(grep -c '^\[' "$scratch/out") ends"
		on "$last" "$urnic" run $view -- iblinkinfo >"$scratch/out" 2>&1 || fail "iblinkinfo: $(tail "$scratch/out")"
		[ "$(grep -c 'Active/  LinkUp' "$scratch/out")" = 1296 ] || fail "iblinkinfo: $(head "$scratch/out")"
		on "$last" "$urnic" run $view -- saquery NR >"$scratch/out" 2>&1 || fail "saquery: $(tail "$scratch/out")"
		[ "$(grep -c 'NodeDescription' "$scratch/out")" = 351 ] || fail 'saquery NR'
	}
	check $engine 104652 "$first" "$last"
done
exit 0

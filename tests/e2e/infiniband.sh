#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# An InfiniBand subnet of three switches and six hosts, set up by OpenSM, and looked at by the
# programs of infiniband-diags and ibutils, all unmodified. It makes no network, and needs no root.
. "$(dirname "$0")/common.sh"

for program in opensm ibnetdiscover ibdiagnet osmtest; do
	command -v $program >/dev/null || skip "no $program (packages opensm, infiniband-diags, ibutils)"
done
topology=$(dirname "$0")/../../examples/infiniband/three-switches.topo
name=e2e-$$
files=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null; wait; rm -rf "$files"' EXIT

# host NODE PROGRAM [ARGUMENTS]: run a program on a host of the fabric.
host() {
	node=$1
	shift
	timeout 240 "$urnic" run --no-view --fabric "$name:$node" -- "$@"
}

# start FABRIC:NODE PROGRAM [ARGUMENTS]: the same in the background, until the end of the test.
# timeout passes the signal on.
start() {
	node=$1
	shift
	timeout 240 "$urnic" run --no-view --fabric "$node" -- "$@" >/dev/null 2>&1 &
	pids="$pids $!"
}

# shows WHAT EXPRESSION PROGRAM [ARGUMENTS]: what a program on host2 prints has a line like this.
shows() {
	what=$1 expression=$2
	shift 2
	host host2 "$@" >"$files/out" 2>&1 || fail "$what: $* ends with $?: $(cat "$files/out")"
	grep -Eq -- "$expression" "$files/out" || fail "$what: $*: $(cat "$files/out")"
}

fabric() {
	"$urnic" fabric --name "$name" "$@"
}

# lid_of NODE: the LID of its port.
lid_of() {
	fabric dump "$1" | sed -n 's/.* lid \([0-9]*\) lmc .*/\1/p' | head -n 1
}

# states STATE: how many ports are in that state.
states() {
	fabric dump | grep -c "	$1"
}

is_up() {
	grep -q ' is up: ' "$files/up"
}

# Each of the nine cables has two active ends, and the three switches have a port 0.
is_active() {
	[ "$(states Active)" = 21 ]
}

# --- the process ---

"$urnic" fabric --name "$name" dump >"$files/out" 2>&1 && fail 'a fabric that does not run is dumped'
grep -q "no fabric \"$name\" runs" "$files/out" || fail "no fabric: $(cat "$files/out")"
"$urnic" fabric up --name "$name" --no-sm "$topology" >"$files/up" &
up=$! pids="$up"
await 'the fabric does not come up' is_up
grep -q ' is up: 3 switches, 6 hosts, 9 cables$' "$files/up" || fail "ready: $(cat "$files/up")"
"$urnic" fabric up --name "$name" "$topology" >"$files/out" 2>&1 && fail 'two fabrics have one name'
grep -q 'runs already' "$files/out" || fail "second fabric: $(cat "$files/out")"
host nobody ibstat >"$files/out" 2>&1 && fail 'a program runs on a host that is not there'
grep -q 'has no node "nobody"' "$files/out" || fail "unknown node: $(cat "$files/out")"
host spine ibstat >"$files/out" 2>&1 && fail 'a program runs on a switch'
shows 'before a subnet manager' 'State: Initializing' ibstat
shows 'a directed route to the own node' 'Node Description:\.+host2$' smpquery -D nodedesc 0
shows 'a directed route to a switch' 'NodeType:\.+Switch' smpquery -D nodeinfo 0,1
[ "$(states Init)" = 18 ] || fail "ports are not in Init: $(fabric dump)"

# --- OpenSM ---

export OSM_TMP_DIR="$files/" OSM_CACHE_DIR="$files/"
start "$name:host1" opensm -f "$files/opensm.log"
await 'OpenSM does not bring the subnet up' is_active
is_answered() {
	host host2 saquery CPI >"$files/out" 2>&1
}
await 'OpenSM does not answer queries' is_answered
grep ' ERR ' "$files/opensm.log" && fail 'OpenSM complains'
shows 'the subnet manager' 'SMINFO_MASTER' sminfo
# IsSM, bit 1, is set while OpenSM has the port's file open.
host host1 ibstat | grep -q 'Capability mask: 0x[0-9a-f]*[2367abef]$' || fail "IsSM: $(host host1 ibstat)"
host host2 ibstat | grep -q 'Capability mask: 0x[0-9a-f]*[014589cd]$' || fail "no SM: $(host host2 ibstat)"

# A view of /sys needs root or user namespaces; without it ibstatus finds no device.
if "$urnic" run --view --fabric "$name:host2" -- true 2>/dev/null; then
	"$urnic" run --view --fabric "$name:host2" -- ibstatus ibp0 >"$files/out" 2>&1 ||
		fail "ibstatus: $(cat "$files/out")"
	grep -q "base lid:.*0x$(printf %x "$(lid_of host2)")\$" "$files/out" &&
		grep -q 'state:.*4: ACTIVE' "$files/out" && grep -q 'rate:.*40 Gb/sec (4X QDR)' "$files/out" ||
		fail "ibstatus: $(cat "$files/out")"
	# The counters follow: a query by LID leaves the port.
	"$urnic" run --view --fabric "$name:host2" -- sh -c '
		counters=/sys/class/infiniband/ibp0/ports/1/counters
		before=$(cat $counters/port_xmit_packets)
		ls $counters | wc -l
		cat $counters/VL15_dropped >/dev/null || exit
		smpquery nodeinfo '"$(lid_of host1)"' >/dev/null || exit
		until [ "$(cat $counters/port_xmit_packets)" -gt "$before" ]; do sleep 0.05; done' \
		>"$files/out" 2>&1 || fail "counters: $(cat "$files/out")"
	grep -qx 21 "$files/out" || fail "counters: $(cat "$files/out")"
fi

# --- the topology comes back ---

host host3 ibnetdiscover >"$files/discovered" 2>&1 || fail "ibnetdiscover: $(cat "$files/discovered")"
# ends FILE: each end of a cable as "NODE"[PORT] "NODE"[PORT], by NodeDescriptions.
ends() {
	awk '
	match($0, /^(Switch|Ca|Hca)[ \t]+[0-9]+ "[^"]*"/) {
		split($0, part, "\"")
		at = part[2]
		name[at] = part[4] ? part[4] : at
	}
	/^\[/ {
		split($0, part, "\"")
		match($0, /^\[[0-9]+\]/)
		port = substr($0, RSTART, RLENGTH)
		match(part[3], /^\[[0-9]+\]/)
		from[++count] = at; out[count] = port; to[count] = part[2]
		in_[count] = substr(part[3], RSTART, RLENGTH)
	}
	END { for (i = 1; i <= count; i++) print name[from[i]] out[i], name[to[i]] in_[i] }' "$1" | sort
}
ends "$topology" >"$files/given"
ends "$files/discovered" >"$files/found"
[ "$(wc -l <"$files/found")" = 18 ] || fail "ibnetdiscover finds $(wc -l <"$files/found") ends"
# A file may have a cable at one end only.
sort -u "$files/given" "$files/found" | cmp -s - "$files/found" ||
	fail "another topology: $(diff "$files/given" "$files/found")"
shows 'links' '"leaf1"|leaf1' iblinkinfo
[ "$(grep -c 'Active/  LinkUp' "$files/out")" = 18 ] || fail "iblinkinfo: $(cat "$files/out")"

# --- subnet administration: one record, many records, paths by name ---

shows 'the SA itself' 'Class version\.+2' saquery CPI
shows 'all nodes, by RMPP' 'NodeDescription\.+host6' saquery NR
[ "$(grep -c NodeDescription "$files/out")" = 9 ] || fail "saquery NR: $(cat "$files/out")"
for record in PIR SL2VL VLAR LFTR LR SMIR GIR MCMR SWIR; do
	shows "all records of $record" 'dump' saquery $record
done
# There are no members of groups, no subscriptions, and no services.
for record in MFTR IIR SR; do
	host host2 saquery $record >"$files/out" 2>&1 || fail "saquery $record: $(cat "$files/out")"
done
shows 'the name of a LID' '^host5$' saquery -O "$(lid_of host5)"
# OpenSM shows P_Keys only to those that know its SM_Key.
shows 'all records of P_Keys' 'dump' saquery --smkey 1 PKTR
shows 'a path by name' "dlid\.+$(lid_of host5)$" saquery -p --src-to-dst host2:host5
host host2 saquery PR >"$files/out" 2>&1 || fail "all paths: $(tail -n 3 "$files/out")"
[ "$(grep -c 'dlid\.' "$files/out")" -ge 81 ] || fail "$(grep -c 'dlid\.' "$files/out") of 81 paths"

fabric dump --json >"$files/json" || fail 'dump --json'
matches_schema fabric <"$files/json"

# --- the other diagnostics ---

shows 'counters' 'PortXmitPkts:\.+[1-9]' perfquery "$(lid_of host4)" 1
shows 'errors' '0 bad nodes' ibqueryerrors
shows 'routes' '\(Switch portguid .*leaf2' ibroute "$(lid_of leaf1)"
shows 'a way' 'host6' ibtracert "$(lid_of host2)" "$(lid_of host6)"
# The first use in docs/infiniband.md ends with this route.
sed -n '/^    From ca/,/^    To ca/s/^    //p' "$(dirname "$0")/../../docs/infiniband.md" >"$files/given"
host host2 ibtracert 5 9 >"$files/out" 2>&1 || fail "ibtracert: $(cat "$files/out")"
grep -q 'host6' "$files/given" && cmp -s "$files/given" "$files/out" ||
	fail "the first use: $(diff "$files/given" "$files/out")"
shows 'a port' 'LinkState:\.+Active' ibportstate "$(lid_of spine)" 1
shows 'hosts' 'host6' ibhosts
shows 'switches' 'spine' ibswitches
start "$name:host5" ibping -S
is_pinged() {
	host host2 ibping -c 1 "$(lid_of host5)" >"$files/out" 2>&1 && grep -q ' 1 received' "$files/out"
}
await 'ibping gets no answer' is_pinged
shows 'many pings' '1000 packets transmitted, 1000 received' ibping -f -c 1000 "$(lid_of host5)"

# ibdiagnet waits a limited time for an answer, and takes a late one of OpenSM for no manager.
diagnose() {
	(cd "$files" && host host2 ibdiagnet -o "$files" >"$files/out" 2>&1) ||
		fail "ibdiagnet: $(cat "$files/out")"
	grep -q '^-E-' "$files/out" || return 0
	why="ibdiagnet complains: $(cat "$files/out")"
	[ "$(grep '^-E-' "$files/out")" != '-E- Missing master SM in the discover fabric' ] || return $LATE
	fail "$why"
}
in_some_attempt diagnose
# libosmvendor reads a query's status after a thread has freed the query, so the C library must not
# fill freed memory.
for flow in c a; do
	host host4 env -u MALLOC_PERTURB_ osmtest -f $flow -i "$files/inventory" >"$files/out" 2>&1 ||
		fail "osmtest $flow: $(tail "$files/out")"
	grep -q 'PASS$' "$files/out" || fail "osmtest $flow: $(tail "$files/out")"
done

# --- the console: a cable is cut, and OpenSM reroutes ---

goes_by() {
	fabric route "$(lid_of host2)" "$(lid_of host6)" 2>/dev/null | grep -q "$1"
}
goes_by '"leaf1"\[2\] -> \[2\]"leaf2"' || fail "way: $(fabric route "$(lid_of host2)" "$(lid_of host6)")"
fabric unlink 'leaf1[2]' || fail 'unlink'
await 'OpenSM does not reroute' goes_by '"spine"\[2\] -> \[1\]"leaf2"'
shows 'the other way' 'host6' ibtracert "$(lid_of host2)" "$(lid_of host6)"
grep -q spine "$files/out" || fail "ibtracert: $(cat "$files/out")"
printf '# a comment\nrelink "leaf1"[2]\nquit\n' | fabric console || fail 'console'
await 'the cable does not come back' is_active
await 'OpenSM does not go back' goes_by '"leaf1"\[2\] -> \[2\]"leaf2"'

# Each NodeDescription on its way to host6 is lost: the request is given back.
fabric error 'host6[1]' 100 0x10 || fail 'error'
host host2 smpquery -t 50 nodedesc "$(lid_of host6)" >"$files/out" 2>&1 && fail 'a lost request is answered'
shows 'another attribute' 'Channel Adapter' smpquery nodeinfo "$(lid_of host6)"
fabric error 'host6[1]' 0 || fail 'error 0'
shows 'no error' 'host6' smpquery nodedesc "$(lid_of host6)"
fabric error 'host6[9]' 100 2>/dev/null && fail 'a port that is not there'
fabric unlink nobody 2>/dev/null && fail 'a node that is not there'
fabric jump 2>"$files/out" && fail 'a word that is not there'
grep -q 'no command "jump"' "$files/out" || fail "jump: $(cat "$files/out")"
fabric clients | grep -q 'on "host1": .* 1 of MADs' || fail "clients: $(fabric clients)"

# --- the subnet manager inside steps back for OpenSM, and takes over when OpenSM is killed ---

inside=$name-sm
"$urnic" fabric up --name "$inside" "$topology" >"$files/up" &
pids="$pids $!"
await 'the second fabric does not come up' is_up
# master_is GUID: the node GUID of the master subnet manager.
master_is() {
	timeout 240 "$urnic" run --no-view --fabric "$inside:host2" -- sminfo >"$files/out" 2>&1 &&
		grep -q "sm guid 0x$1.*SMINFO_MASTER" "$files/out"
}
guid_of() {
	"$urnic" fabric --name "$inside" dump "$1" | sed -n '1s/.* guid 0x0*\([0-9a-f]*\).*/\1/p'
}
await 'the manager inside is not the master' master_is "$(guid_of spine)"
start "$inside:host1" opensm -f "$files/second.log"
# Its port GUID is the node GUID and 1.
await 'OpenSM does not become the master' master_is "$(guid_of host1 | sed 's/0$/1/')"
kill -KILL "$("$urnic" fabric --name "$inside" clients | sed -n 's/process \([0-9]*\) on "host1".*/\1/p')"
await 'the manager inside does not take over' master_is "$(guid_of spine)"

# --- the end ---

kill $up
wait $up || fail "the fabric ends with $?"
host host2 ibstat >"$files/out" 2>&1 && fail 'a program runs without the fabric'
exit 0

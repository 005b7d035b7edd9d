#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic sim with InfiniBand links: credits on a long cable, a ring that deadlocks or does not, lanes
# with weights, engines, and wrong scenarios. It makes no network.
. "$(dirname "$0")/common.sh"

examples=$(dirname "$0")/../../examples/fabric
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT

# mbps_of WORKLOAD: what its flows got, on the average.
mbps_of() {
	/usr/bin/python3 -c '
import json, sys
rates = [flow["mbps"] for flow in json.load(open(sys.argv[1]))["flows"] if flow["workload"] == sys.argv[2]]
print(round(sum(rates) / len(rates)))' "$files/json" "$1"
}

# between LOW VALUE HIGH
between() {
	[ "$1" -le "$2" ] && [ "$2" -le "$3" ]
}

# --- credits ---

# 32,768 bytes are seven packets of 4,122, which come back after 20.3 us.
"$urnic" sim --json "$examples/infiniband-cable.json" >"$files/json" || fail 'cable --json'
matches_schema sim <"$files/json"
between 11100 "$(mbps_of far)" 11400 || fail "the long cable: $(mbps_of far)"
between 98000 "$(mbps_of near)" 100000 || fail "the short cable: $(mbps_of near)"
"$urnic" sim "$examples/infiniband-cable.json" >"$files/said" || fail 'cable'
grep -q '^InfiniBand: [1-9][0-9]* flow control packets, 0 packets discarded, 0 of lane 15 dropped, 0 lost' \
	"$files/said" || fail "totals: $(cat "$files/said")"
grep -q '^s0>s1  *3  *[0-9]* .* 8[0-9][.][0-9]  *0$' "$files/said" || fail "the lane: $(cat "$files/said")"

"$urnic" sim explain "$examples/infiniband-cable.json" 0 >"$files/said" || fail 'explain'
grep -q '; h0 had no credits for 3[0-9]*[.][0-9] us$' "$files/said" || fail "credits of h0: $(cat "$files/said")"
awk '$1 == "s0>s1" && $3 > 10 && $5 > 10 && $5 <= $3 { found = 1 } END { exit !found }' "$files/said" ||
	fail "where packets wait for credits: $(cat "$files/said")"

# --- deadlocks ---

"$urnic" sim "$examples/infiniband-ring.json" >"$files/said" || fail 'ring'
grep -q '^deadlock of VL 0 since .* us: s1>s0 s0>s7 s7>s6 s6>s5 s5>s4 s4>s3 s3>s2 s2>s1$' "$files/said" ||
	fail "the cycle: $(cat "$files/said")"
grep -q '^credit loop of VL 0: h0>s0 ' "$files/said" && fail 'a host is in the loop'
grep -q '^credit loop of VL 0:\( s[0-7]>s[0-7]\)\{8\}$' "$files/said" || fail "the loop: $(cat "$files/said")"
"$urnic" sim --json "$examples/infiniband-ring.json" >"$files/json" || fail 'ring --json'
matches_schema sim <"$files/json"
sed 's/minhop/updn/' "$examples/infiniband-ring.json" >"$files/updn.json"
"$urnic" sim "$files/updn.json" >"$files/said" || fail 'updn'
grep -q '^all-to-all  *56  *56 ' "$files/said" || fail "updn does not finish: $(cat "$files/said")"
grep -q '^deadlock\|^credit loop' "$files/said" && fail 'updn deadlocks'
sed 's/minhop/lash/; s/"max_op_vls": 1/"max_op_vls": 3/' "$examples/infiniband-ring.json" >"$files/lash.json"
"$urnic" sim "$files/lash.json" >"$files/said" || fail 'lash'
grep -q '^all-to-all  *56  *56 ' "$files/said" || fail "lash does not finish: $(cat "$files/said")"
grep -q '^deadlock\|^credit loop' "$files/said" && fail 'lash deadlocks'
sed 's/minhop/lash/' "$examples/infiniband-ring.json" >"$files/lash.json"
"$urnic" sim "$files/lash.json" 2>"$files/said"
[ $? = 1 ] || fail 'lash has lanes enough'
grep -q '^urnic: lash needs more than 1 lanes: "max_op_vls" says how many there are$' "$files/said" || fail "$(cat "$files/said")"
# Packets that wait for 131 us are discarded, and the rest goes on.
sed 's/"buffer"/"head_of_queue_lifetime": 5, &/' "$examples/infiniband-ring.json" >"$files/hoq.json"
"$urnic" sim "$files/hoq.json" | grep -q '^InfiniBand: [0-9]* flow control packets, [1-9][0-9]* packets discarded' ||
	fail 'nothing is too old'

# --- lanes, and engines ---

# Each lane has the packets of a host; the cable to h3 shares as the weights 1 to 3.
cat >"$files/lanes.json" <<'END'
{"topology": {"kind": "star", "link_layer": "infiniband", "hosts": 4}, "duration_us": 4000,
	"hosts": {"kind": "engine", "mtu": 4096, "depth": 8},
	"subnet": {"max_op_vls": 2, "qos_sl2vl": "0,1", "qos_vlarb_low": "0:65,1:195", "routing_engine": "updn"},
	"workloads": [
		{"kind": "pairs", "name": "light", "priority": 0, "pairs": [["h0", "h3"]]},
		{"kind": "pairs", "name": "heavy", "priority": 1, "pairs": [["h1", "h3"]]}]}
END
"$urnic" sim --json "$files/lanes.json" >"$files/json" || fail 'lanes'
light=$(mbps_of light)
between $((light * 29 / 10)) "$(mbps_of heavy)" $((light * 31 / 10)) || fail "weights: $light, $(mbps_of heavy)"
"$urnic" sim explain "$files/lanes.json" 0 | grep -q '^s0>h3 ' || fail explain
"$urnic" sim --html "$files/page.html" "$files/lanes.json" >/dev/null || fail '--html'

if command -v tshark >/dev/null; then
	"$urnic" sim --pcap "$files/pcapng" "$files/lanes.json" >/dev/null || fail '--pcap'
	# frames FILTER: how many frames match
	frames() {
		tshark -r "$files/pcapng" -Y "$1" -T fields -e frame.number 2>/dev/null | wc -l
	}
	wanted='infiniband.lrh.dlid == 4 && infiniband.bth.opcode == 7 && frame.interface_name == "s0>h3"'
	[ "$(frames "$wanted && infiniband.lrh.vl == 1 && infiniband.lrh.sl == 1")" -gt 1000 ] || fail 'no packets'
	[ "$(frames "$wanted && infiniband.lrh.vl != infiniband.lrh.sl")" = 0 ] || fail 'other lanes'
	[ "$(frames 'infiniband_link.op == 0 && frame.interface_name == "h3>s0"')" -gt 1000 ] || fail 'no credits'
	# Wireshark looks for a GRH in some link packets, and calls these malformed.
	[ "$(frames '_ws.malformed && erf.types.type == 21')" = 0 ] || fail 'malformed packets'
	[ "$(frames '_ws.malformed')" -lt "$(frames infiniband_link.fccl)" ] || fail 'malformed link packets'
fi

# --- multicast ---

"$urnic" sim --json "$examples/infiniband-multicast.json" >"$files/json" || fail 'multicast --json'
matches_schema sim <"$files/json"
/usr/bin/python3 - "$files/json" <<'END' || fail "the members of groups: $(cat "$files/json")"
import json, sys
run = json.load(open(sys.argv[1]))
flows = {(flow["source"], flow["destination"]): flow for flow in run["flows"]}
assert all(flow["finish_us"] for flow in run["flows"])
assert flows["h0", "g0"]["received_bytes"] == 4 * flows["h0", "g0"]["sent_bytes"] == 16e6
assert flows["h2", "g1"]["received_bytes"] == 2 * 100000
received = {port["port"]: port["rx_packets"] for port in run["ports"] if port["port"][0] == "h"}
packets = (4000000 + 1023) // 1024
assert [received.get(f"h{host}>s{host // 4}", 0) for host in (0, 1, 4, 5, 8, 9, 11)] == \
    [0, packets, packets, packets, 0, packets, 0], received
assert all(lane["port_xmit_discards"] == 0 for lane in run["lanes"])
assert all(switch["unroutable_packets"] == 0 for switch in run["switches"])
END
"$urnic" sim "$examples/infiniband-multicast.json" | grep -q '^h2>g1  *3 ' || fail 'the name of a flow to a group'
"$urnic" sim explain "$examples/infiniband-multicast.json" 0 | grep -q '^flow 0, h0>g0, ' || fail 'explain a group'

# --- the embedded subnet manager ---

for topology in '"star", "hosts": 6' '"dumbbell", "hosts": 3, "hosts_right": 3' '"leaf-spine"' '"fat-tree"'; do
	cat >"$files/embedded.json" <<END
{"topology": {"kind": $topology, "link_layer": "infiniband"}, "subnet": {"routing_engine": "embedded"},
	"workloads": [{"kind": "all-to-all", "bytes": 20000},
		{"kind": "multicast", "from": ["h0", "h1"], "to": ["h1", "h2", "h3"], "bytes": 20000}]}
END
	"$urnic" sim "$files/embedded.json" >"$files/said" || fail "embedded: $topology"
	awk '$1 ~ /^all-to-all|multicast/ && $2 == $3 { found++ } END { exit found != 2 }' "$files/said" ||
		fail "not all flows of $topology finish: $(cat "$files/said")"
	grep -q '^deadlock\|^credit loop' "$files/said" && fail "the embedded manager has a loop in $topology"
done

# --- partitions ---

"$urnic" sim --json "$examples/infiniband-partitions.json" >"$files/json" || fail 'partitions --json'
matches_schema sim <"$files/json"
/usr/bin/python3 - "$files/json" <<'END' || fail "partitions: $(cat "$files/json")"
import json, sys
run = json.load(open(sys.argv[1]))
assert [flow["received_bytes"] for flow in run["flows"]] == [102400, 102400, 0, 0]
refusals = {port["port"]: (port["port_rcv_constraint_errors"], port["port_xmit_constraint_errors"],
                           port["p_key_violations"]) for port in run["pkey_refusals"]}
assert refusals == {"s0>h2": (0, 100, 0), "s0>h3": (0, 100, 0)}, refusals
END
# refusals_with SED-EXPRESSION: the ports that refuse packets, of the changed example.
refusals_with() {
	sed "$1" "$examples/infiniband-partitions.json" >"$files/changed.json"
	"$urnic" sim --json "$files/changed.json" >"$files/json" || fail "partitions with $1"
	/usr/bin/python3 -c '
import json, sys
run = json.load(open(sys.argv[1]))
print([flow["received_bytes"] for flow in run["flows"]], *sorted(
    "%s:%d,%d,%d" % tuple(port.values()) for port in run["pkey_refusals"]))' "$files/json"
}
# The hosts refuse what switches let pass. A limited member may not send where its switch looks.
said=$(refusals_with 's/"partitions"/"part_enforce": "off", &/')
[ "$said" = '[102400, 102400, 0, 0] h2>s0:0,0,100 h3>s0:0,0,100' ] || fail "part_enforce off: $said"
said=$(refusals_with 's/"partitions"/"part_enforce": "in", &/')
[ "$said" = '[0, 0, 0, 0] s0>h1:200,0,0 s0>h2:200,0,0' ] || fail "part_enforce in: $said"
# A host can send with a P_Key that it does not have, if no port enforces inbound P_Keys.
said=$(refusals_with 's/"name": "stranger"/"pkey": "0x8002", &/')
[ "$said" = '[102400, 102400, 0, 102400] s0>h2:0,100,0' ] || fail "a forged P_Key: $said"
"$urnic" sim "$examples/infiniband-partitions.json" | grep -q ' lost on cables, 200 with a wrong P_Key$' ||
	fail 'the count of wrong P_Keys'
said=$(refusals_with 's/"subnet"/"hosts": {"kind": "engine"}, &/')
case $said in '[102400, 102400, 0, 0] '*) ;; *) fail "partitions of engines: $said" ;; esac

# --- tables of a subnet that runs ---

# triangle SUBNET: three switches, each with a host and a cable to the others; h0 sends to h2.
triangle() {
	echo "{\"topology\": {\"kind\": \"custom\", \"link_layer\": \"infiniband\", \"hosts\": 3,
		\"switches\": 3, \"cables\": [[\"h0\", \"s0\"], [\"h1\", \"s1\"], [\"h2\", \"s2\"],
			[\"s0\", \"s1\"], [\"s2\", \"s1\"], [\"s2\", \"s0\"]]},
		\"duration_us\": 1000, \"subnet\": {$1}, \"workloads\": [
		{\"kind\": \"pairs\", \"pairs\": [[\"h0\", \"h2\"]], \"bytes\": 100000}]}" >"$files/triangle.json"
}

# lane_sent PORT VL: the packets that have passed.
lane_sent() {
	/usr/bin/python3 -c '
import json, sys
print(sum(lane["port_xmit_packets"] for lane in json.load(open(sys.argv[1]))["lanes"]
          if lane["port"] == sys.argv[2] and lane["vl"] == int(sys.argv[3])))' "$files/json" "$1" "$2"
}

forwarding='"forwarding": [[0, 3, 3], [3, 1, 4], [5, 4, 2]]'
levels='"service_levels": [[0, 0, 2], [0, 0, 0], [0, 0, 0]]'
triangle "$forwarding, $levels, \"lanes\": [{\"at\": \"s1\", \"from\": 3, \"to\": 4, \"qos_sl2vl\": \"0,0,1\"},
	{\"at\": \"h0\", \"qos_sl2vl\": \"0,0,3\"}]"
"$urnic" sim --json "$files/triangle.json" >"$files/json" || fail 'tables'
for hop in 'h0>s0 3' 's0>s1 2' 's1>s2 1' 's2>h2 2'; do
	# shellcheck disable=SC2086
	[ "$(lane_sent $hop)" = 98 ] || fail "tables: $(lane_sent $hop) packets leave on $hop"
done
[ "$(lane_sent 's0>s2' 2)" = 0 ] || fail 'a packet takes another way than the table'
triangle '"forwarding": [[0, 3, null], [3, 1, 4], [5, 4, 2]]'
"$urnic" sim "$files/triangle.json" | grep -q '^pairs  *1  *0 ' || fail 'a path without an entry'

# refuses_tables SENTENCE SUBNET
refuses_tables() {
	triangle "$2"
	"$urnic" sim "$files/triangle.json" >/dev/null 2>"$files/said"
	[ $? = 2 ] && grep -qF "$1" "$files/said" || fail "not '$1' but $(cat "$files/said")"
}
refuses_tables '"forwarding" is no list of 3' '"forwarding": [[0, 3, 3]]'
refuses_tables '"forwarding" is no list of 3' '"forwarding": [[0, 3], [3, 1, 4], [5, 4, 2]]'
refuses_tables '"forwarding" has numbers from 0 to 5' '"forwarding": [[0, 3, 6], [3, 1, 4], [5, 4, 2]]'
refuses_tables 'cable 4 has no end at "s0"' '"forwarding": [[0, 3, 4], [3, 1, 4], [5, 4, 2]]'
refuses_tables '"service_levels" has numbers from 0 to 7' '"service_levels": [[0, 0, 8], [0, 0, 0], [0, 0, 0]]'
refuses_tables 'lanes of "s1" are "from" a cable' '"lanes": [{"at": "s1", "from": 5, "to": 4}]'
refuses_tables 'a host has one cable' '"lanes": [{"at": "h1", "from": 1, "qos_sl2vl": "1"}]'
refuses_tables '"qos_sl2vl" is "9"' '"lanes": [{"at": "h1", "qos_sl2vl": "9"}]'

# --- rates of cables ---

triangle "$forwarding"
sed 's/\["s0", "s1"\]/["s0", "s1", 12.5]/; s/, "bytes": 100000//' "$files/triangle.json" >"$files/slow.json"
"$urnic" sim --json "$files/slow.json" >"$files/json" || fail 'a cable with a rate'
between 12000 "$(mbps_of pairs)" 12500 || fail "the rate of a slow cable: $(mbps_of pairs)"
for wrong in '"x"' 0 '-1' 1e9; do
	sed "s/\[\"s0\", \"s1\"\]/[\"s0\", \"s1\", $wrong]/" "$files/triangle.json" >"$files/wrong.json"
	"$urnic" sim "$files/wrong.json" 2>"$files/said" && fail "a cable of the rate $wrong"
	grep -q 'the rate of a cable is from 0.001 to ' "$files/said" || fail "the rate $wrong: $(cat "$files/said")"
done

# --- wrong scenarios ---

# refuses SENTENCE SUBNET [OTHERS]: a star with this subnet, and other items, is refused.
refuses() {
	echo "{\"topology\": {\"kind\": \"star\", \"link_layer\": \"infiniband\"}, \"subnet\": {$2}$3,
		\"workloads\": [{\"kind\": \"incast\", \"to\": \"h0\"}]}" >"$files/wrong.json"
	"$urnic" sim "$files/wrong.json" >/dev/null 2>"$files/said"
	[ $? = 2 ] || fail "the exit status of: $1"
	echo "urnic: $files/wrong.json:1: $1" | cmp -s - "$files/said" || fail "not '$1' but $(cat "$files/said")"
}

refuses 'unknown routing engine "ftree": there is minhop, updn, lash, embedded' '"routing_engine": "ftree"'
refuses '"qos_vlarb_low" is "0:4,4:1": it is up to 64 lanes of 0 to 3 with their weights, as "0:64,1:128"' \
	'"qos_vlarb_low": "0:4,4:1"'
refuses '"qos_vlarb_high" is "0:4,": it is up to 64 lanes of 0 to 3 with their weights, as "0:64,1:128"' \
	'"qos_vlarb_high": "0:4,"'
refuses '"qos_sl2vl" is "0,7": it is up to 16 lanes of 0 to 3, or 15, as "0,1,2"' '"qos_sl2vl": "0,7"'
refuses 'only a custom topology has "forwarding"' '"forwarding": []'
refuses '"buffer" has no room for a packet of 1050 bytes, which takes 17 blocks' '"buffer": 1000'
refuses '"buffer" has no room for a packet of 1050 bytes, which takes 17 blocks' '"buffer": 1060'
echo '{"topology": {"kind": "star", "hosts": 49152, "link_layer": "infiniband"}, "workloads": []}' >"$files/wrong.json"
"$urnic" sim "$files/wrong.json" 2>"$files/said" && fail 'a subnet has more hosts than LIDs'
grep -q ':1: 49152 hosts are more than a subnet.s 49151 LIDs$' "$files/said" || fail "$(cat "$files/said")"
refuses '"pkey" is "0x8000": it is from "0x0001" to "0xffff", not "0x8000"' '"partitions": [{"pkey": "0x8000"}]'
refuses 'a partition has no "pkey"' '"partitions": [{"full": ["h0"]}]'
refuses '"h0" is in partition 0x0001 twice' '"partitions": [{"pkey": "1", "full": ["h0"], "limited": ["h0"]}]'
refuses 'unknown part_enforce "some": there is off, in, out, both' '"part_enforce": "some"'
refuses_group() {
	echo "{\"topology\": {\"kind\": \"star\", \"link_layer\": \"$2\", \"hosts\": ${5:-3}}, \"hosts\": {$3},
		\"workloads\": [{\"kind\": \"multicast\", $4}]}" >"$files/wrong.json"
	"$urnic" sim "$files/wrong.json" >/dev/null 2>"$files/said" && fail "no refusal: $1"
	grep -qF "$1" "$files/said" || fail "not '$1' but $(cat "$files/said")"
}
group='"from": ["h0"], "to": ["h1", "h2"]'
refuses_group 'a multicast workload needs the "link_layer" "infiniband"' ethernet '' "$group"
refuses_group 'a multicast workload needs plain sources without "recovery"' infiniband '"kind": "engine"' "$group"
refuses_group 'a multicast workload needs plain sources without "recovery"' infiniband '"recovery": "go-back-n"' "$group"
refuses_group 'the "to" of a multicast workload is a list of hosts' infiniband '' '"from": ["h0"], "to": "h1"'
refuses_group 'the "from" of a multicast workload is a list of hosts' infiniband '' '"to": ["h1"]'
refuses_group '"h1" has no other host to send to' infiniband '' '"from": ["h1"], "to": ["h1"]'
refuses_group 'a switch has more than 254 ports: multicast workloads and the embedded subnet manager need fewer' infiniband '' "$group" 255
refuses '"switch" is Ethernet'\''s: an InfiniBand link layer has "subnet"' '' ', "switch": {}'
refuses 'switches of an InfiniBand link layer mark nothing: "congestion" is off' '' ', "congestion": "dcqcn"'
refuses 'a fault of kind "storm" pauses: InfiniBand links have credits instead' '' \
	', "faults": [{"kind": "storm", "host": "h0"}]'
echo '{"topology": {"kind": "star"}, "subnet": {}, "workloads": [{"kind": "incast", "to": "h0"}]}' >"$files/wrong.json"
"$urnic" sim "$files/wrong.json" 2>"$files/said" && fail 'Ethernet has a subnet'
grep -q 'the topology has no "link_layer" "infiniband"$' "$files/said" || fail "$(cat "$files/said")"

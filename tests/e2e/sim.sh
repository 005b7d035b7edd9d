#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic sim: the scenarios of examples/fabric, what is printed of them, and what it says about wrong
# scenarios. It makes no network.
. "$(dirname "$0")/common.sh"

examples=$(dirname "$0")/../../examples/fabric
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT

# --- the examples ---

for scenario in "$examples"/*.json; do
	"$urnic" sim "$scenario" >"$files/once" || fail "$scenario"
	"$urnic" sim "$scenario" >"$files/again" || fail "$scenario, again"
	cmp -s "$files/once" "$files/again" || fail "two runs of $scenario differ"
	grep -q '^workload ' "$files/once" || fail "no workloads of $scenario: $(cat "$files/once")"
done

# mbps_of EXPRESSION: of the flows' rates, by source and destination.
mbps_of() {
	/usr/bin/python3 -c '
import json, sys
flows = json.load(open(sys.argv[1]))["flows"]
rate = {flow["source"] + flow["destination"]: flow["mbps"] for flow in flows}
print(eval(sys.argv[2]))' "$files/json" "$1"
}

"$urnic" sim --json "$examples/victim.json" >"$files/json" || fail 'victim --json'
matches_schema sim <"$files/json"
mbps_of '0.97 < rate["h2h6"] / rate["h0h5"] < 1.05 and 1.9 < rate["h3h5"] / rate["h0h5"] < 2.1' |
	grep -q True || fail "the victim's share: $(mbps_of rate)"
"$urnic" sim --json "$examples/unfairness.json" >"$files/json" || fail 'unfairness --json'
mbps_of '2.9 < rate["h3h4"] / rate["h0h4"] < 3.1' | grep -q True || fail "the local share: $(mbps_of rate)"
"$urnic" sim --json "$examples/incast.json" >"$files/json" || fail 'incast --json'
matches_schema sim <"$files/json"
grep -q '"finish_us":	null' "$files/json" && fail 'the incast does not finish'
"$urnic" sim "$examples/headroom.json" | grep -q '^[0-9]* pauses, 0 marks, [1-9][0-9]* frames discarded' ||
	fail 'too little headroom discards nothing'
"$urnic" sim "$examples/storm.json" | grep -q ', [1-9][0-9]* by watchdogs' || fail 'the watchdog drops nothing'

"$urnic" sim --json "$examples/incast-dcqcn.json" >"$files/json" || fail 'incast-dcqcn --json'
grep -q '"np_cnp_sent":	[1-9]' "$files/json" || fail 'DCQCN sends no CNP'
grep -q '"tx_pause":	[1-9]' "$files/json" && fail 'DCQCN does not spare the network pauses'

"$urnic" sim "$examples/deadlock.json" | grep -q '^deadlock of priority 3 since .* us: s0>s1 s1>s2 s2>s0$' ||
	fail 'the deadlock is not named'
"$urnic" sim --json "$examples/deadlock.json" >"$files/json" || fail 'deadlock --json'
matches_schema sim <"$files/json"

"$urnic" sim "$examples/dcqcn-cliff.json" | awk '$1 == "s0>h0" && $3 > 200 { found = 1 } END { exit !found }' ||
	fail 'many flows have a short queue'

# An all-reduce of 16 hosts is 30 steps of a sixteenth each.
"$urnic" sim --json "$examples/all-reduce.json" >"$files/json" || fail 'all-reduce --json'
matches_schema sim <"$files/json"
/usr/bin/python3 - "$files/json" <<'END' || fail 'the steps of the all-reduce'
import json, sys
flows = json.load(open(sys.argv[1]))["flows"]
assert len(flows) == 30 * 16
for before, flow in zip(flows, flows[16:]):
    assert flow["source"] == before["source"] and flow["start_us"] > before["start_us"]
end_us = max(flow["finish_us"] for flow in flows)
assert 1 < end_us / (30 * 1e6 * 8 / 100e3) < 1.15, end_us
END
"$urnic" sim --json "$examples/sizes.json" >"$files/json" || fail 'sizes --json'
/usr/bin/python3 - "$files/json" <<'END' || fail 'the messages of the trace'
import json, sys
flows = [flow for flow in json.load(open(sys.argv[1]))["flows"] if flow["workload"] == "trace"]
assert [flow["start_us"] for flow in flows] == [10, 12.5, 13, 1000, 1000], flows
assert [flow["received_bytes"] for flow in flows] == [4096, 1048576, 4096, 65536, 65536], flows
END

"$urnic" sim --json "$examples/livelock.json" >"$files/json" || fail 'livelock --json'
grep -q '"received_bytes":	0,' "$files/json" && grep -q '"sent_bytes":	9[0-9]\{7\},' "$files/json" ||
	fail "go-back-0 is no livelock: $(grep _bytes "$files/json")"
sed 's/go-back-0/go-back-n/' "$examples/livelock.json" >"$files/live.json"
"$urnic" sim --json "$files/live.json" | grep -q '"received_bytes":	8[0-9]\{7\},' || fail 'go-back-N does not get on'
"$urnic" sim "$examples/faults.json" >"$files/faults" || fail 'faults'
grep -q ' [1-9][0-9]* lost on cables, [1-9][0-9]* corrupted; ' "$files/faults" || fail "$(cat "$files/faults")"
awk '$1 == "calm" && $2 == $3 { found = 1 } END { exit !found }' "$files/faults" ||
	fail "not all is well after the faults: $(cat "$files/faults")"
awk '$1 == "s0>h1" && $6 > 10 { found = 1 } END { exit !found }' "$files/faults" ||
	fail "the slow host pauses nobody: $(cat "$files/faults")"

# SONiC's words: DSCP 26 is lossless, 8 is not. Hosts that obey no pause overrun their switch.
"$urnic" sim --json "$examples/sonic.json" >"$files/json" || fail 'sonic --json'
/usr/bin/python3 - "$files/json" <<'END' || fail 'the priorities of DSCP 26 and 8'
import json, sys
run = json.load(open(sys.argv[1]))
assert run["switches"][0]["size"] == 12766208
assert {flow["priority"] for flow in run["flows"]} == {1, 3}
ports = {(port["port"], port["priority"]): port for port in run["ports"]}
assert ports["s0>h0", 3]["marked_frames"] and ("s0>h1", 1) not in ports
discards = [sum(port["rx_discards"] for port in run["ports"] if port["priority"] == priority) for priority in range(8)]
assert discards[0] > 1000 and not discards[3], discards
END
echo '{"topology": {"kind": "star", "hosts": 9}, "workloads": [{"kind": "incast", "to": "h0"}],
	"hosts": {"dcb": {"pfc": {"prio-pfc": "all:on 3:off"}}}}' >"$files/deaf.json"
"$urnic" sim "$files/deaf.json" | grep -q ', [1-9][0-9]* frames discarded' || fail 'a host obeys in spite of dcb'

# dcb's words: h0 sends to three hosts by two classes that share the line and one with a highest
# rate; h4 is slow, and pauses priority 3 and drops priority 1.
for kind in source engine; do
	"$urnic" sim --json "$examples/dcb.json" >"$files/json" || fail 'dcb --json'
	/usr/bin/python3 - "$files/json" <<'END' || fail "the classes and buffers of hosts of kind $kind"
import json, sys
run = json.load(open(sys.argv[1]))
gbps = {flow["workload"]: flow["mbps"] / 1000 for flow in run["flows"]}
goodput = 100 * 1024 / (1024 + 62 + 20)
assert abs(gbps["limited"] / (10 * 1024 / 1086) - 1) < 0.02, gbps
left = goodput - gbps["limited"]
assert abs(gbps["quarter"] / left - 0.25) < 0.01 and abs(gbps["rest"] / left - 0.75) < 0.01, gbps
slow = {port["priority"]: port for port in run["ports"] if port["port"] == "h4>s0"}
assert slow[3]["tx_pause"] and not slow[3]["rx_discards"], slow
assert slow[1]["rx_discards"] and not slow[1]["tx_pause"], slow
END
	sed 's/"dcb"/"kind": "engine", &/' "$examples/dcb.json" >"$files/dcb.json"
done

# A configuration for each switch: the second one is not lossless.
sed 's/"pfc_enable": *"[^"]*"/"pfc_enable": "0"/' "$examples/sonic/config_db.json" >"$files/lossy_db.json"
cp "$examples/sonic/config_db.json" "$files/lossless_db.json"
cat >"$files/two.json" <<'END'
{"topology": {"kind": "dumbbell", "hosts": 8, "hosts_right": 8, "rate_gbps": 40, "switch_rate_gbps": 400},
	"switch": {"config_db": {"default": "lossless_db.json", "s1": "lossy_db.json"}},
	"workloads": [{"kind": "pairs", "dscp": 26, "flows": 2, "pairs": [
		["h1", "h0"], ["h2", "h0"], ["h3", "h0"], ["h9", "h8"], ["h10", "h8"], ["h11", "h8"]]}]}
END
"$urnic" sim --json "$files/two.json" >"$files/json" || fail 'a config_db for each switch'
/usr/bin/python3 - "$files/json" <<'END' || fail 'both switches are lossless, or none'
import json, sys
ports = json.load(open(sys.argv[1]))["ports"]
discards = {switch: sum(port["rx_discards"] for port in ports if port["port"].startswith(switch + ">")) for switch in ("s0", "s1")}
assert not discards["s0"] and discards["s1"], discards
END

# --- options ---

cat >"$files/small.json" <<'END'
{"topology": {"kind": "star", "hosts": 5}, "hosts": {"kind": "engine"}, "switch": {"size": 65536},
	"duration_us": 200, "workloads": [{"kind": "incast", "to": "h0", "flows": 8, "bytes": 20000}]}
END

"$urnic" sim --csv "$files/csv" --interval 1000 "$examples/victim.json" >/dev/null || fail '--csv'
grep -q '^5000.000,s0>s1,3,[1-9]' "$files/csv-queues.csv" || fail "queues: $(head -3 "$files/csv-queues.csv")"
[ "$(grep -c ',h2,h6,' "$files/csv-rates.csv")" = 20 ] || fail "rates: $(head -3 "$files/csv-rates.csv")"
"$urnic" sim --csv /no/such/directory/csv "$examples/victim.json" 2>"$files/said" >/dev/null
[ $? = 1 ] || fail 'an impossible CSV is no failure'
grep -q '^urnic: /no/such/directory/csv-queues.csv: No such file' "$files/said" || fail "$(cat "$files/said")"
"$urnic" sim --html "$files/page.html" "$files/small.json" >/dev/null || fail '--html'
/usr/bin/python3 - "$files/page.html" <<'END' || fail 'the page'
import re, sys, xml.dom.minidom
page = open(sys.argv[1]).read()
pictures = re.findall("<svg.*?</svg>", page, re.S)
for picture in pictures:
    xml.dom.minidom.parseString(picture)
assert len(pictures) == 5, len(pictures)
assert all("<polyline" in picture for picture in pictures[:4]) and "<circle" in pictures[4]
assert not re.search(r"\bnan\b|\binf\b", page), "no numbers"
END
"$urnic" sim --html /no/such/page "$files/small.json" 2>"$files/said" >/dev/null
[ $? = 1 ] || fail 'an impossible page is no failure'
grep -q '^urnic: /no/such/page: No such file' "$files/said" || fail "$(cat "$files/said")"
"$urnic" sim explain "$examples/victim.json" 4 >"$files/why" || fail explain
grep -q '^flow 4, h2>h6, priority 3: .*, not finished, 6[.]' "$files/why" || fail "the victim: $(cat "$files/why")"
awk '$1 == "s0>s1" && $3 > 1000 && $5 > 100 && $5 < $3 { found = 1 } END { exit !found }' "$files/why" ||
	fail "where the victim waits: $(cat "$files/why")"
"$urnic" sim explain "$examples/headroom.json" 0 | grep -q '^h1>s0 .* [1-9][0-9]*$' || fail 'no drop is explained'
"$urnic" sim explain "$examples/victim.json" 5 2>"$files/said" && fail 'a flow that is not there is explained'
grep -q '^urnic: sim: there is no flow 5: flows are 0 to 4$' "$files/said" || fail "$(cat "$files/said")"
"$urnic" sim explain "$examples/victim.json" 2>"$files/said" && fail 'no flow is explained'
grep -q '^urnic: sim: which flow? ' "$files/said" || fail "$(cat "$files/said")"
"$urnic" sim explain "$examples/victim.json" x 2>"$files/said" && fail 'flow x is explained'
grep -q "^urnic: sim: the flow is a whole number, not 'x'$" "$files/said" || fail "$(cat "$files/said")"
seed() {
	"$urnic" sim --seed "$1" "$files/random.json" | grep -o 'hash.*'
}
echo '{"topology": {"kind": "fat-tree"}, "duration_us": 100, "workloads": [{"kind": "permutation"}]}' >"$files/random.json"
[ "$(seed 1)" = "$(seed 1)" ] || fail 'one seed has two histories'
[ "$(seed 1)" != "$(seed 2)" ] || fail 'two seeds have one history'

if command -v tshark >/dev/null; then
	"$urnic" sim --pcap "$files/pcapng" "$files/small.json" >/dev/null || fail '--pcap'
	# frames FILTER: how many frames match
	frames() {
		tshark -r "$files/pcapng" -Y "$1" -T fields -e frame.number 2>/dev/null | wc -l
	}
	[ "$(frames 'infiniband.bth.opcode == 8 && frame.interface_name == "s0>h0"')" = 32 ] ||
		fail 'the last packets of all flows are not there'
	[ "$(frames 'macc.opcode == 0x0101 && frame.interface_name == "s0>h1"')" -gt 0 ] || fail 'no PFC frame'
	[ "$(frames _ws.malformed)" = 0 ] || fail 'malformed frames'
fi
"$urnic" sim --pcap "$files/pcapng" "$examples/victim.json" 2>"$files/said"
[ $? = 1 ] || fail 'plain sources are captured'
grep -q '^urnic: sim: plain sources have no packets' "$files/said" || fail "$(cat "$files/said")"

# --- urnic sim plan ---

"$urnic" sim plan --rate 40 | grep -q '^the same by the mlx5 driver  *24760 bytes$' || fail 'plan --rate 40'
"$urnic" sim plan --rate 400 --mtu 9216 | grep -q ' 231867 bytes$' || fail 'plan --rate 400 --mtu 9216'
"$urnic" sim plan --rate 100 | grep -q '^longest pause  *335.5 us$' || fail 'plan --rate 100'
"$urnic" sim plan --buffer 12000000 --ports 16 | grep -q '^ECN threshold, beta 8 ' || fail 'plan --buffer'
"$urnic" sim plan --rate 0 2>"$files/said" && fail 'a rate of 0 is planned'
grep -q '^urnic: sim plan: --rate takes a number from 0.001 to 1600$' "$files/said" || fail "$(cat "$files/said")"

# --- urnic sim compare ---

marks='"wred": {"green_min_threshold": 5000, "green_max_threshold": 200000, "green_drop_probability": 1}'
sed "s/\"workloads\"/\"congestion\": \"dcqcn,rp_min_rate=100\", \"switch\": {$marks}, &/" \
	"$examples/victim.json" >"$files/rescued.json"
"$urnic" sim compare "$examples/victim.json" "$files/rescued.json" >"$files/sides" || fail 'compare'
awk '/^pauses / { less = $2 > 1000 && $3 < $2 / 10 }
	/^workload / { is_victim = $2 == "victim" }
	/^  mean / && is_victim { more = $3 > 1.5 * $2 }
	END { exit !(less && more) }' "$files/sides" || fail "the victim's two sides: $(cat "$files/sides")"
"$urnic" sim compare "$examples/victim.json" "$examples/unfairness.json" >"$files/sides" || fail 'compare others'
grep -q "^workload victim is in $examples/victim.json only\$" "$files/sides" || fail "$(cat "$files/sides")"
grep -q "^workload remote is in $examples/unfairness.json only\$" "$files/sides" || fail "$(cat "$files/sides")"
"$urnic" sim compare --json "$examples/victim.json" "$files/rescued.json" >"$files/json" || fail 'compare --json'
matches_schema sim-compare <"$files/json"
/usr/bin/python3 - "$files/json" <<'END' || fail "$(cat "$files/json")"
import json, sys
sides = json.load(open(sys.argv[1]))
mean = {name: {workload["workload"]: workload["gbps_mean"] for workload in side["workloads"]}
        for name, side in sides.items()}
sys.exit(not (sides["a"]["pauses"] > 10 * sides["b"]["pauses"] and mean["b"]["victim"] > 1.5 * mean["a"]["victim"]))
END
"$urnic" sim compare "$examples/victim.json" 2>"$files/said"
[ $? = 2 ] || fail 'one scenario is compared'
grep -q '^urnic: sim compare: it takes two scenarios$' "$files/said" || fail "$(cat "$files/said")"

# --- wrong scenarios ---

# refuses LINE SENTENCE: the scenario on standard input is refused with exactly this.
refuses() {
	cat >"$files/wrong.json"
	"$urnic" sim "$files/wrong.json" >"$files/out" 2>"$files/said"
	[ $? = 2 ] || fail "the exit status of: $2"
	echo "urnic: $files/wrong.json:$1: $2" | cmp -s - "$files/said" || fail "not '$1: $2' but $(cat "$files/said")"
	[ -s "$files/out" ] && fail "prints results of: $2"
}

refuses 4 'unknown host "h9": there are h0 to h2' <<'END'
{
	"topology": {"kind": "star", "hosts": 3},
	"workloads": [
		{"kind": "incast", "to": "h9"}]
}
END
refuses 2 '"rate_gbps" is 0: it is from 0.001 to 1600' <<'END'
{
	"topology": {"kind": "star", "hosts": 3, "rate_gbps": 0},
	"workloads": [{"kind": "incast", "to": "h1"}]
}
END
refuses 3 'unknown key "hsots": "topology" has kind, link_layer, hosts, hosts_right, leaves, spines, k, switches, cables, rate_gbps, cable_m, switch_rate_gbps, switch_cable_m' <<'END'
{
	"topology": {"kind": "star",
		"hsots": 3},
	"workloads": [{"kind": "incast", "to": "h1"}]
}
END
refuses 4 'the weights sum to 90: they sum to 100' <<'END'
{
	"topology": {"kind": "star"},
	"switch": {
		"scheduler": {"3": {"weight": 40},
			"4": {"weight": 50}}},
	"workloads": [{"kind": "incast", "to": "h1"}]
}
END
refuses 3 'unknown topology "ring": there is star, dumbbell, leaf-spine, fat-tree, custom' <<'END'
{"topology":
	{
		"kind": "ring"}}
END
refuses 5 'this is not JSON' <<'END'
{
	"topology": {"kind": "star"},
	"workloads": [
		{"kind": "incast"
		"to": "h1"}]
}
END
refuses 1 'the scenario has no "topology"' <<'END'
{"seed": 3}
END
refuses 3 'host "h1" sends to itself' <<'END'
{"topology": {"kind": "star"},
	"workloads": [{"kind": "pairs", "pairs": [["h0", "h1"],
		["h1", "h1"]]}]}
END
refuses 4 'there is no cable from "h0" to "h1"' <<'END'
{"topology": {"kind": "star"},
	"workloads": [{"kind": "incast", "to": "h1"}],
	"faults": [{"kind": "loss", "from": "h0",
		"to": "h1", "ppm": 5}]}
END
refuses 3 'a fault of kind "storm" has no "ppm"' <<'END'
{"topology": {"kind": "star"},
	"workloads": [{"kind": "incast", "to": "h1"}],
	"faults": [{"kind": "storm", "host": "h0", "ppm": 5}]}
END
refuses 2 '"kind" is there twice' <<'END'
{"topology": {"kind": "star",
	"kind": "star"}, "workloads": [{"kind": "incast", "to": "h1"}]}
END
refuses 3 'plain sources measure no delay: swift is for hosts of kind "engine"' <<'END'
{"topology": {"kind": "star"},
	"workloads": [{"kind": "incast", "to": "h1"}],
	"congestion": "swift"}
END
refuses 3 'frames to "h1" would go round in a loop' <<'END'
{"topology": {"kind": "custom", "hosts": 2, "switches": 3, "cables": [
		["h0", "s0"], ["h1", "s1"], ["s0", "s1"], ["s1", "s2"], ["s2", "s0"]]},
	"routes": [{"at": "s0", "to": "h1", "via": "s2"}, {"at": "s2", "to": "h1", "via": "s0"}],
	"workloads": [{"kind": "incast", "to": "h1"}]}
END
refuses 2 'some host cannot reach another one' <<'END'
{"topology": {"kind": "custom", "hosts": 2, "switches": 2,
	"cables": [["h0", "s0"], ["h1", "s1"]]}, "workloads": [{"kind": "incast", "to": "h1"}]}
END
refuses 1 '"mtu" is 1500: it is 256, 512, 1024, 2048 or 4096' <<'END'
{"topology": {"kind": "star"}, "hosts": {"mtu": 1500}, "workloads": [{"kind": "incast", "to": "h1"}]}
END

refuses 1 'the engine has a recovery of its own' <<'END'
{"topology": {"kind": "star"}, "hosts": {"kind": "engine", "recovery": "go-back-n"}}
END
refuses 3 'a flap has "down_us" and "up_us"' <<'END'
{"topology": {"kind": "star"},
	"workloads": [{"kind": "incast", "to": "h1"}],
	"faults": [{"kind": "flap", "from": "h0", "to": "s0", "down_us": 5}]}
END
refuses 2 'a slow host has a "rate_gbps"' <<'END'
{"topology": {"kind": "star"}, "workloads": [{"kind": "incast", "to": "h1"}], "faults": [
	{"kind": "slow", "host": "h0"}]}
END
refuses 1 'a corruption has a "ppm"' <<'END'
{"topology": {"kind": "star"}, "workloads": [{"kind": "incast", "to": "h1"}], "faults": [{"kind": "corruption", "from": "h0", "to": "s0"}]}
END
refuses 2 '"prio-pfc" is "3:maybe": it is a list as "all:off 3:on"' <<'END'
{"topology": {"kind": "star"}, "hosts": {"dcb": {"pfc": {
	"prio-pfc": "3:maybe"}}}}
END
refuses 2 '"dscp-prio" is "64:3": it is a list as "26:3 48:6"' <<'END'
{"topology": {"kind": "star"}, "hosts": {"dcb": {"app": {
	"dscp-prio": "64:3"}}}}
END
refuses 2 'unknown key "dcbx": "dcb" has pfc, app, ets, maxrate, buffer' <<'END'
{"topology": {"kind": "star"}, "hosts": {"dcb":
	{"dcbx": {}}}}
END
refuses 2 'unknown key "pg-bw": this part of dcb has prio-tc, tc-tsa, tc-bw' <<'END'
{"topology": {"kind": "star"}, "hosts": {"dcb": {"ets": {
	"pg-bw": "0:100"}}}}
END
refuses 2 '"tc-tsa" is "0:dwrr": it is a list as "all:strict 0:ets 1:ets"' <<'END'
{"topology": {"kind": "star"}, "hosts": {"dcb": {"ets": {
	"tc-tsa": "0:dwrr"}}}}
END
refuses 1 'the classes of "tc-bw" sum to 90: they sum to 100' <<'END'
{"topology": {"kind": "star"}, "hosts": {"dcb": {"ets": {"tc-tsa": "0:ets 1:ets", "tc-bw": "0:40 1:50"}}}}
END
refuses 2 '"tc-bw" has class 3, whose "tc-tsa" is strict' <<'END'
{"topology": {"kind": "star"}, "hosts": {"dcb": {"ets": {"tc-tsa": "all:ets 3:strict",
	"tc-bw": "0:50 3:50"}}}}
END
refuses 2 '"tc-maxrate" is "3:fast": it is a list as "all:100Gbit 3:10Gbit"' <<'END'
{"topology": {"kind": "star"}, "hosts": {"dcb": {"maxrate": {
	"tc-maxrate": "3:fast"}}}}
END
refuses 2 'priority 3 has buffer 1, and that has no "buffer-size"' <<'END'
{"topology": {"kind": "star"}, "hosts": {"dcb":
	{"buffer": {"prio-buffer": "all:0 3:1", "buffer-size": "0:64K"}}}}
END
refuses 2 '"config_db" has no file for s1, and none as "default"' <<'END'
{"topology": {"kind": "dumbbell"}, "switch": {
	"config_db": {"s0": "lossless_db.json"}}}
END
refuses 3 '"config_db" has "s2": switches are s0 to s1' <<'END'
{"topology": {"kind": "dumbbell"}, "switch": {
	"config_db": {"default": "lossless_db.json",
		"s2": "lossless_db.json"}}}
END
refuses 2 'a workload has either "dscp" or "priority"' <<'END'
{"topology": {"kind": "star"}, "workloads": [
	{"kind": "incast", "to": "h0", "dscp": 26, "priority": 3}]}
END
refuses 2 '"switch" has "config_db" and other keys' <<'END'
{"topology": {"kind": "star"},
	"switch": {"config_db": "config_db.json", "size": 5}}
END

# refuses_config_db LINE SENTENCE: the configuration on standard input is refused.
refuses_config_db() {
	cat >"$files/config_db.json"
	echo '{"topology": {"kind": "star"}, "switch": {"config_db": "config_db.json"}}' >"$files/wrong.json"
	"$urnic" sim "$files/wrong.json" >"$files/out" 2>"$files/said"
	[ $? = 2 ] || fail "the exit status of the configuration: $2"
	echo "urnic: $files/config_db.json:$1: $2" | cmp -s - "$files/said" ||
		fail "not '$1: $2' but $(cat "$files/said")"
}
refuses_config_db 2 'unknown key "green_min": WRED_PROFILE has ecn, wred_green_enable, green_min_threshold, green_max_threshold, green_drop_probability' <<'END'
{"WRED_PROFILE": {"P": {
	"green_min": "5"}}}
END
refuses_config_db 2 '"scheduler.9" is in no row of "SCHEDULER"' <<'END'
{"QUEUE": {"Ethernet0|3": {
	"scheduler": "scheduler.9"}}}
END
refuses_config_db 2 '"Ethernet0|9" is no row of ports and priorities, as "Ethernet0|3-4"' <<'END'
{"QUEUE": {
	"Ethernet0|9": {}}}
END
refuses_config_db 2 '"Ethernet0|4294967299" is no row of ports and priorities, as "Ethernet0|3-4"' <<'END'
{"QUEUE": {
	"Ethernet0|4294967299": {}}}
END
refuses_config_db 3 '"Ethernet4" has another "pfc_enable" than "Ethernet0"' <<'END'
{"PORT_QOS_MAP": {
	"Ethernet0": {"pfc_enable": "3"},
	"Ethernet4": {"pfc_enable": "4"}}}
END
refuses_config_db 2 '"weight" is a whole number from 1 to 100' <<'END'
{"QUEUE": {"Ethernet0|3": {"scheduler": "S"}}, "SCHEDULER": {"S": {"type": "DWRR",
	"weight": "x"}}}
END
refuses_config_db 2 'a map is not an object' <<'END'
{"PORT_QOS_MAP": {"global": {"dscp_to_tc_map": "M"}}, "DSCP_TO_TC_MAP": {"M":
	[3, 4]}}
END
echo '{"PORT_QOS_MAP": {"Ethernet0": {}, "Ethernet4": {}}}' >"$files/config_db.json"
echo '{"topology": {"kind": "star"}, "switch": {"config_db": "config_db.json"},
	"workloads": [{"kind": "incast", "to": "h0", "bytes": 5}]}' >"$files/alike.json"
"$urnic" sim "$files/alike.json" >/dev/null || fail 'ports that are alike are refused'
refuses_config_db 2 'traffic class 3 has queue 2: here it has the same number' <<'END'
{"PORT_QOS_MAP": {"global": {"tc_to_queue_map": "M"}},
	"TC_TO_QUEUE_MAP": {"M": {"3": "2"}}}
END
refuses 2 'a workload of kind "storage" has no "to"' <<'END'
{"topology": {"kind": "star"},
	"workloads": [{"kind": "storage", "to": "h1"}]}
END
refuses 2 '"servers" is a list of hosts' <<'END'
{"topology": {"kind": "star"},
	"workloads": [{"kind": "storage"}]}
END
refuses 2 'all hosts are servers' <<'END'
{"topology": {"kind": "star"}, "workloads": [{"kind": "storage",
	"servers": ["h0", "h1"]}]}
END
refuses 1 'an all-reduce has no "bytes"' <<'END'
{"topology": {"kind": "star"}, "workloads": [{"kind": "all-reduce"}]}
END
refuses 3 'the items of "sizes" rise' <<'END'
{"topology": {"kind": "star"}, "workloads": [{"kind": "sizes", "sizes": [
	[1000, 50],
	[500, 100]]}]}
END
refuses 2 'the last percentage is 90: it is 100' <<'END'
{"topology": {"kind": "star"}, "workloads": [{"kind": "sizes",
	"sizes": [[1000, 50], [5000, 90]]}]}
END

refuses 2 'flow 2 of the workload begins after more than 1000000000 us' <<'END'
{"topology": {"kind": "star"}, "workloads": [
	{"kind": "incast", "to": "h0", "flows": 3, "step_us": 900000000}]}
END

# refuses_trace LINE SENTENCE TEXT: a trace with this text is refused.
refuses_trace() {
	printf '%b' "$3" >"$files/trace.txt"
	echo '{"topology": {"kind": "star"}, "workloads": [{"kind": "trace", "file": "trace.txt"}]}' >"$files/wrong.json"
	"$urnic" sim "$files/wrong.json" >"$files/out" 2>"$files/said"
	[ $? = 2 ] || fail "the exit status of the trace: $2"
	echo "urnic: $files/trace.txt:$1: $2" | cmp -s - "$files/said" || fail "not '$1: $2' but $(cat "$files/said")"
}
refuses_trace 2 'unknown host "h7": there are h0 to h1' '0 h0 h1 5\n1 h0 h7 5\n'
refuses_trace 1 'a line has a time in us, two hosts and bytes, as "12.5 h0 h1 4096"' '0 h0 h1\n'
refuses_trace 3 'host "h1" sends to itself' '# a comment\n\n0 h1 h1 5\n'
refuses_trace 1 'a line has a time in us, two hosts and bytes, as "12.5 h0 h1 4096"' '0 h0 h1 -5\n'
refuses_trace 1 'a line has a time in us, two hosts and bytes, as "12.5 h0 h1 4096"' '0 h4294967296 h1 5\n'
refuses_trace 2 'host "h1" sends to itself' "# $(printf '%0300d' 0)\\n0 h1 h1 5\\n"

"$urnic" sim /no/such/scenario 2>"$files/said"
[ $? = 2 ] || fail 'a missing scenario is no usage error'
grep -q '^urnic: /no/such/scenario: No such file' "$files/said" || fail "$(cat "$files/said")"
"$urnic" sim 2>/dev/null
[ $? = 2 ] || fail 'no scenario is no usage error'
exit 0

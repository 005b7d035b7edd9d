#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic stat and explain, while two unmodified programs move data.
. "$(dirname "$0")/common.sh"

command -v ib_write_bw >/dev/null || skip 'ib_write_bw is not installed (package perftest)'
network_up

said=$(on a "$urnic" stat 2>&1) || fail 'nothing running is a failure'
echo "$said" | grep -q 'no urnicd runs here' || fail "nothing runs, but it says $said"
on a "$urnic" stat --json 2>/dev/null | grep -q '"processes":	\[\]' || fail 'no JSON of nothing'
on a "$urnic" stat --format prometheus 2>/dev/null | grep -qx 'urnic_urnicd_up 0' || fail 'no metrics of nothing'

start() {
	on a "$urnic" run ib_write_bw -F -d rocep_veth0 -q 2 -D 300 >/dev/null 2>&1 &
	until on a sh -c 'ss -ltn | grep -q :18515'; do kill -0 "$!" || fail 'the server ends'; sleep 0.1; done
	on b "$urnic" run ib_write_bw -F -d rocep_veth0 -q 2 -D 300 10.99.0.1 >/dev/null 2>&1 &
}

# value EXPRESSION: of `report`, the JSON of host b.
value() {
	echo "$report" | /usr/bin/python3 -c '
import json, sys
report = json.load(sys.stdin)
process = next((p for p in report["processes"] if p["queue_pairs"]), None)
qps = process["queue_pairs"] if process else []
print(eval(sys.argv[1]))' "$1"
}

start
data_move() {
	report=$(on b "$urnic" stat --json 2>/dev/null)
	[ "$(value 'sum(qp["counters"]["sent_bytes"] > 0 for qp in qps)')" = 2 ]
}
await 'no data move' data_move

[ "$(value 'process["command"]')" = ib_write_bw ] || fail 'the command is wrong'
[ "$(value 'process["memory_regions"]')" -ge 1 ] || fail 'no memory region'
[ "$(value '{(qp["type"], qp["state"], qp["device"], qp["interface"]) for qp in qps}')" = \
	"{('RC', 'RTS', 'rocep_veth0', 'veth0')}" ] || fail "queue pairs are wrong: $report"
[ "$(value '{(qp["local_gid"], qp["remote_gid"]) for qp in qps}')" = \
	"{('::ffff:10.99.0.2', '::ffff:10.99.0.1')}" ] || fail "addresses are wrong: $report"
[ "$(value 'all(qp["qpn"] >> 16 in process["slots"] for qp in qps)')" = True ] || fail 'slots are wrong'
[ "$(value 'report["urnicd"]["counters"]["slots_leased"]')" = 1 ] || fail 'urnicd counts no slot'

# Each side knows the other's number.
qpn=$(value 'qps[0]["qpn"]')
on a "$urnic" stat --json | grep -q "\"remote_qpn\":	$qpn," || fail 'the peer does not know us'

# The table, and filters.
table=$(on b "$urnic" stat)
for line in '^ib_write_bw, process [0-9]*, user ' '^  device rocep_veth0 on veth0$' \
	'^    QP 0x[0-9a-f]*  RC  RTS  10.99.0.2 -> 10.99.0.1 QP 0x' '^      sent_bytes  *[1-9]' \
	'^  lane 0: slot [0-9]*, 2 queue pairs$' '^      tx_packets  *[1-9]' '^urnicd$'; do
	echo "$table" | grep -q "$line" || fail "the table has no line like '$line': $table"
done
! echo "$table" | grep -q '^      rnr_nak_sent' || fail 'zero counters are shown unasked'
on b "$urnic" stat --all | grep -q '^      rnr_nak_sent  *0$' || fail '--all does not show zeros'
[ "$(on b "$urnic" stat --qp "$qpn" | grep -c '^    QP ')" = 1 ] || fail '--qp does not select'
[ "$(on b "$urnic" stat --device veth0 | grep -c '^    QP ')" = 2 ] || fail '--device does not select'
on b "$urnic" stat --device rocep_veth0 --pid "$(value 'process["pid"]')" >/dev/null || fail '--pid'
! on b "$urnic" stat --device lo >/dev/null 2>&1 || fail 'another device has queue pairs'
! on b "$urnic" stat --pid 1 >/dev/null 2>&1 || fail 'another process has queue pairs'

# JSON, of nothing and of running programs.
files=$(mktemp -d "${TMPDIR:-/tmp}/urnic-e2e.XXXXXX")
trap 'rm -rf "$files"; at_exit' EXIT
on b "$urnic" stat --json >"$files/before" || fail 'stat --json'
matches_schema stat <"$files/before"

# total FILE: the sum of sent_bytes of all queue pairs in a file of JSON.
total() {
	/usr/bin/python3 -c '
import json, sys
print(sum(qp["counters"]["sent_bytes"] for process in json.load(open(sys.argv[1]))["processes"]
    for qp in process["queue_pairs"]))' "$1"
}

# Differences: to a file of now, which counters have passed since; to files with less, and with more
# than there is.
has_gained() {
	on b "$urnic" stat --diff "$files/before" --json >"$files/gained" || fail '--diff'
	[ "$(total "$files/gained")" -gt 0 ]
}
await 'nothing is gained' has_gained
matches_schema stat <"$files/gained"
on b "$urnic" stat --json >"$files/after"
[ $(($(total "$files/before") + $(total "$files/gained"))) -le "$(total "$files/after")" ] ||
	fail "--diff shows more than was gained: $(total "$files/gained")"
echo '{"processes": [], "urnicd": null}' >"$files/empty"
on b "$urnic" stat --diff "$files/empty" --json >"$files/gained"
[ "$(total "$files/gained")" -ge "$(total "$files/after")" ] || fail '--diff to nothing is not everything'
sed 's/"sent_bytes":.*/"sent_bytes": 9000000000000000,/' "$files/before" >"$files/above"
on b "$urnic" stat --diff "$files/above" --json >"$files/gained"
[ "$(total "$files/gained")" -ge "$(total "$files/after")" ] || fail 'a counter that has begun anew is subtracted'
echo '{"processes": [1, {"pid": "x", "lanes": 3, "queue_pairs": [[], {"qpn": []}]}], "urnicd": 1}' >"$files/odd"
on b "$urnic" stat --diff "$files/odd" >/dev/null || fail '--diff to a file with odd members'
for text in '' '[]' '{"processes": 1}' "$(printf '[%.0s' $(seq 2000))"; do
	echo "$text" >"$files/bad"
	! on b "$urnic" stat --diff "$files/bad" >/dev/null 2>&1 || fail "--diff takes '$text'"
done
said=$(on b "$urnic" stat --diff "$files/none" 2>&1) && fail '--diff to a file that is missing'
echo "$said" | grep -q "cannot read $files/none" || fail "--diff to a file that is missing: $said"

# Limits.
said=$(on b "$urnic" stat --fail-if 'sent_bytes>10' --fail-if 'sent_bytes < 1' 2>&1 >/dev/null)
[ $? = 1 ] || fail '--fail-if sent_bytes>10'
[ "$(echo "$said" | grep -c '^urnic: stat: sent_bytes is [0-9]*, more than 10; ')$(echo "$said" | wc -l)" = 11 ] ||
	fail "--fail-if sent_bytes>10 says: $said"
on b "$urnic" stat --fail-if 'sent_bytes<1' --fail-if 'rx_bad_icrc>0' --fail-if 'gsi_malformed > 0' >/dev/null ||
	fail 'a limit that holds fails'
on b "$urnic" stat --fail-if 'sent_bytes<18446744073709551615' >/dev/null 2>&1 && fail 'the largest limit'
for limit in sent_bytes 'sent_bytes>' 'sent_bytes>-1' 'sent_bytes>1x' 'no_such>0' '>0' 'sent_bytes>18446744073709551616'; do
	on b "$urnic" stat --fail-if "$limit" >/dev/null 2>&1
	[ $? = 2 ] || fail "--fail-if '$limit' is not a usage error"
done

# Intervals; a limit ends them.
said=$(on b timeout 100 "$urnic" stat --watch 1 --fail-if 'sent_pkts>0' 2>/dev/null)
[ $? = 1 ] || fail '--watch is not ended by --fail-if'
echo "$said" | grep -q '^[0-9:]*, gained in 1 s$' || fail "--watch prints: $said"
on b timeout 100 "$urnic" stat --watch --json --fail-if 'sent_pkts>0' >"$files/line" 2>/dev/null
matches_schema stat <"$files/line"
on b "$urnic" stat --json >"$files/later"
[ "$(wc -l <"$files/line")" -ge 1 ] &&
	[ $(($(total "$files/after") + $(total "$files/line"))) -le "$(total "$files/later")" ] ||
	fail '--watch shows all instead of the interval'
for bad in '--watch 0' '--watch=x' '--watch 1 2' '--watch --diff x' '--format xml'; do
	# shellcheck disable=SC2086
	on b "$urnic" stat $bad >/dev/null 2>&1
	[ $? = 2 ] || fail "$bad is not a usage error"
done

# The text that Prometheus scrapes: each sample belongs to the metric above it, each metric and each
# sample is there once, and the values are those of the JSON.
on b "$urnic" stat --format prometheus >"$files/metrics" || fail '--format prometheus'
said=$(/usr/bin/python3 - "$files/metrics" "$(total "$files/before")" <<'EOF_PYTHON'
import re, sys
seen, helped, metric, sent = set(), None, None, 0
for line in open(sys.argv[1]):
    if line.startswith("# HELP "):
        helped = line.split()[2]
        assert helped not in seen and len(line.split()) > 3, line
        seen.add(helped)
    elif line.startswith("# TYPE "):
        _, _, metric, kind = line.split()
        assert metric == helped and kind == ("counter" if metric.endswith("_total") else "gauge"), line
    else:
        name, labels, value = re.fullmatch(
            r'(urnic_[a-z0-9_]+)((?:\{[a-z]+="(?:[^"\\]|\\.)*"(?:,[a-z]+="(?:[^"\\]|\\.)*")*\})?) ([0-9]+)\n', line).groups()
        assert name == metric and (name, labels) not in seen, line
        seen.add((name, labels))
        if name == "urnic_queue_pair_sent_bytes_total":
            assert re.search(r'command="ib_write_bw",qpn="[0-9]+",type="RC",device="rocep_veth0"', labels), line
            sent += int(value)
assert sent > int(sys.argv[2]), sent
assert {"urnic_urnicd_up", "urnic_port_rx_packets_total", "urnic_urnicd_claims_held",
        "urnic_connection_manager_messages_sent_total", "urnic_process_memory_regions",
        "urnic_queue_pair_sends_waiting", "urnic_lane_unknown_qp_total"} <= seen, seen
EOF_PYTHON
) || fail "--format prometheus: $said"

# Every counter and parameter that is shown is explained.
shown=$(on b "$urnic" stat --all | awk '/^      [a-z_0-9]+ +[0-9]+( |$)/ { print $1 }' | sort -u)
[ -n "$shown" ] || fail 'no counter is shown'
# shellcheck disable=SC2086
explained=$("$urnic" explain $shown | sed -nE 's/^([a-z_0-9]+) \((counter|parameter).*/\1/p')
missing=$(echo "$shown" | grep -vxF "$explained")
[ -z "$missing" ] || fail "not explained: $missing"
"$urnic" explain 12 | grep -q '^IBV_WC_RETRY_EXC_ERR' || fail 'status 12 is not explained'
"$urnic" explain IBV_WC_REM_ACCESS_ERR | grep -q 'look at' || fail 'no advice'
! "$urnic" explain no-such-thing 2>/dev/null || fail 'everything is explained'

# Killed programs are gone from the list at once.
for host in a b; do
	report=$(on $host "$urnic" stat --json)
	kill -9 "$(value 'process["pid"]')" || fail 'the process is not the one that runs'
done
wait 2>/dev/null
is_gone() {
	! on "$1" "$urnic" stat 2>/dev/null | grep -q ib_write_bw
}
for host in a b; do
	await 'killed programs are still shown' is_gone $host
done

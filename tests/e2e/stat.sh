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

# Every counter that is shown is explained.
for name in $(on b "$urnic" stat --all | awk '/^      [a-z_0-9]+ +[0-9]+$/ { print $1 }' | sort -u); do
	"$urnic" explain "$name" | grep -q "^$name (counter" || fail "$name is not explained"
done
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

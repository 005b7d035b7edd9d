#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# `urnic fabric up --pcap`: the capture has each frame of each cable. Counters that perfquery and
# ibqueryerrors read are those of the capture's frames until then, and tshark dissects them.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

need perfquery ibqueryerrors ib_send_bw ibv_ud_pingpong mckey python3

query() {
	on host2 "$urnic" run $view -- perfquery "$@" >"$scratch/out" 2>&1 ||
		fail "perfquery $*: $(cat "$scratch/out")"
}

"$urnic" fabric up --name "$fabric" --pcap "$scratch/no/file" \
	"$(dirname "$0")/../../examples/infiniband/two-hosts.topo" >"$scratch/out" 2>&1 &&
	fail 'a capture without a folder'
grep -q "^urnic: fabric: $scratch/no/file: No such file" "$scratch/out" || fail "$(cat "$scratch/out")"

fabric_up three-switches --pcap "$scratch/capture"
await 'the ports are active' ports_are Active $ports
port=$((20000 + $$ % 240 * 50)) # below those that the kernel gives to clients
pair host1 host6 127.0.0.1 ib_send_bw -F -n 200 -p $port
pair host4 host2 127.0.0.1 ib_read_bw -F -n 100 -s 5000 -p $port
lossy_pair host1 host3 127.0.0.1 ibv_ud_pingpong -n 300 -p $port
start receiver host5 stdbuf -oL mckey -m 239.1.2.3 -b "$(stand_in host5)" -c 20
await 'the receiver joins' prints receiver 'joined dgid'
start sender host1 stdbuf -oL mckey -s -m 239.1.2.3 -b "$(stand_in host1)" -c 20
finish_well sender receiver
for node in host1 host3 host5 host6; do
	query "$(lid_of $node)" 1
	query -x "$(lid_of $node)" 1
done
for number in 1 2 3 4; do
	query "$(lid_of spine)" $number
	query -x "$(lid_of leaf2)" $number
done
on host3 "$urnic" run $view -- ibqueryerrors >"$scratch/out" 2>&1 || fail "ibqueryerrors: $(cat "$scratch/out")"
fabric dump --json >"$scratch/dump"
# Another fabric of this name is refused, and leaves the capture alone.
! "$urnic" fabric up --name "$fabric" --pcap "$scratch/capture" \
	"$(dirname "$0")/../../examples/infiniband/two-hosts.topo" 2>"$scratch/err" ||
	fail 'two fabrics of one name'
grep -q 'runs already' "$scratch/err" || fail "another fabric: $(cat "$scratch/err")"
kill $fabric_process
wait $fabric_process || fail "the fabric ends with $?"
fabric_process=
/usr/bin/python3 "$(dirname "$0")/infiniband_log.py" "$scratch/capture" "$scratch/dump" 12 ||
	fail 'the counters are not those of the capture'

command -v tshark >/dev/null || skip 'no tshark'
# frames FILTER: how many frames match
frames() {
	tshark -r "$scratch/capture" -Y "$1" -T fields -e frame.number 2>/dev/null | wc -l
}
# 200 messages of 65,536 bytes are 16 packets of 4,096 each.
for at in 'host1[1]' 'host6[1]'; do
	sent="frame.interface_name == \"$at\" && infiniband.bth.opcode <= 4 && infiniband.bth.destqp > 1"
	[ "$(frames "$sent")" -ge 3200 ] && packets="$sent"
done
[ -n "${packets:-}" ] || fail 'the packets of ib_send_bw are not in the capture'
[ "$(frames 'infiniband.mad.mgmtclass == 0x04 && infiniband.mad.method == 0x81')" -gt 16 ] || fail 'no answers of the PMA'
[ "$(frames 'infiniband.mad.mgmtclass == 0x03')" -gt 2 ] || fail 'no queries of the subnet administrator'
[ "$(frames 'infiniband.mad.mgmtclass == 0x81 && infiniband.lrh.vl == 15')" -gt 2 ] || fail 'no directed-route SMPs'
[ "$(frames 'infiniband.lrh.dlid >= 0xc000')" -ge 40 ] || fail 'no multicast packets'
[ "$(frames _ws.malformed)" = 0 ] || fail 'malformed packets'
exit 0

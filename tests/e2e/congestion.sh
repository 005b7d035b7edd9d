#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Marked packets are answered by congestion notifications (CNPs), and CNPs slow their sender down:
# with marks of nft on every packet, and behind a slow link whose queue marks packets
# (bottleneck.c). There flows share the link fairly: Jain's index is 0.98 or more. A busy machine
# may need further attempts.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ib_write_bw ib_send_bw nft tc tshark dumpcap
network_up 1500
# The kernel's UDP, so that nft and tc see the packets.
export URNIC_LINK=off

# counts_agree: each CNP that a has sent has reached b.
counts_agree() {
	[ "$(counter a "$(process server)" np_cnp_sent)" = "$(counter b "$(process client)" rp_cnp_handled)" ]
}

# writes_begin: b writes to a, for a minute at most.
writes_begin() {
	start server a ib_write_bw -F -d rocep_veth0 -m 1024 -D 60
	wait_for_port a $port "$job_server" || fail "ib_write_bw: $(cat "$scratch/server")"
	start client b ib_write_bw -F -d rocep_veth0 -m 1024 -D 60 10.99.0.1
	await 'nothing is sent' has_counted 1000000 b "$(process client)" sent_bytes
}

# end_both CLIENT SERVER: the server may end by itself.
end_both() {
	stop "$1" 2>/dev/null
	stop "$2" 2>/dev/null
}

# rate_of HOST PROCESS: bytes in a millisecond, from now on for a second. The time is that of the
# counters at least, so a busy machine makes the rate too low, never too high.
rate_of() {
	began=$(now)
	before=$(counter "$1" "$2" sent_bytes)
	sleep 1
	after=$(counter "$1" "$2" sent_bytes)
	awk -v from="$began" -v to="$(now)" -v bytes=$((after - before)) \
		'BEGIN { printf "%d\n", bytes / (1000 * (to - from)) }'
}

# --- without marks ---

# A wrong value is said once, and the default applies.
export URNIC_CC=dcqcn,rp_gd=16
writes_begin
unmarked=$(rate_of b "$(process client)")
[ "$(counter a "$(process server)" np_cnp_sent)" = 0 ] || fail 'CNPs without marks'
[ "$(grep -c "URNIC_CC: rp_gd is '16'; it may be a number from 0 to 15; using dcqcn" "$scratch/client")" = 1 ] ||
	fail "no sentence about a wrong value: $(cat "$scratch/client")"
on b "$urnic" stat | grep -q '^  congestion control: dcqcn, preset sigcomm15$' || fail 'urnic stat shows no parameters'
end_both client server

# --- every packet is marked ---

on b nft -f - <<'END' || skip 'nft does not mark packets here'
table ip marks {
	chain out {
		type filter hook output priority 0
		udp dport 4791 ip ecn set ce
	}
}
END
"$urnic" host exec -n "$network" a -- timeout $pair_seconds dumpcap -q -P \
	-i veth0 -B 64 -f 'udp port 4791 and udp[8] = 0x81' -w - >"$scratch/cnps.pcap" 2>"$scratch/dumpcap" &
capture=$!
for attempt in $(seq 1200); do
	[ -s "$scratch/cnps.pcap" ] && break
	kill -0 $capture 2>/dev/null || skip "no capture here: $(tail -n 1 "$scratch/dumpcap")"
	sleep 0.05
done
# The rate only falls: a busy machine's CNPs may be late.
export URNIC_CC=dcqcn,rp_time_reset=10000000,rp_byte_reset=0,rp_min_rate=80
writes_begin
await 'CNPs do not arrive' has_counted 30 b "$(process client)" rp_cnp_handled
marked=$(rate_of b "$(process client)")
on b nft delete table ip marks
await 'CNPs get lost' counts_agree
cnps=$(counter a "$(process server)" np_cnp_sent)
marks=$(counter a "$(process server)" np_ecn_marked_roce_packets)
[ "$marks" -ge "$cnps" ] || fail "$cnps CNPs for $marks marked packets"
for lost in "a server out_of_seq_request" "b client packet_seq_err" "b client rp_cnp_ignored"; do
	# shellcheck disable=SC2086
	set -- $lost
	[ "$(counter "$1" "$(process "$2")" "$3")" = 0 ] || fail "$3 on host $1"
done
end_both client server
# 80 Mbit/s are 10,000 bytes in a millisecond.
echo "without marks $unmarked bytes/ms, with marks $marked; $marks marks, $cnps CNPs"
[ "$marked" -gt 0 ] && [ "$marked" -le 11000 ] || fail "$marked bytes/ms in spite of CNPs"
[ "$unmarked" -gt $((2 * marked)) ] || fail "marks change nothing: $unmarked and $marked bytes/ms"

kill $capture
wait $capture
tshark -n -r "$scratch/cnps.pcap" -T fields -e infiniband.bth.opcode -e infiniband.bth.psn \
	-e ip.dsfield.dscp -e udp.payload >"$scratch/dissected" 2>/dev/null
# Opcode 0x81, PSN 0 and DSCP 48; BECN, the queue pair, and zeros up to the ICRC.
grep -vE '^129	0	48	8100ffff40[0-9a-f]{6}0{40}[0-9a-f]{8}$' "$scratch/dissected" &&
	fail 'tshark dissects another packet'
[ "$(wc -l <"$scratch/dissected")" -ge "$cnps" ] || fail 'CNPs are missing in the capture'

# --- flows that share a link whose queue marks packets ---

unset URNIC_CC
# The paper's steps are for 40 Gbit/s.
slow=dcqcn,rp_ai_rate=1,rp_hai_rate=1,rp_time_reset=1500,rp_byte_reset=0
cat >"$scratch/shares.py" <<'END'
import json
import sys


def flows(name):
    processes = json.load(open(f"{sys.argv[1]}/{name}"))["processes"]
    return {(process["pid"], qp["qpn"]): qp["counters"]
            for process in processes for qp in process["queue_pairs"]}


before, after, seconds = flows("before"), flows("after"), float(sys.argv[2])
rates = [(after[flow]["sent_bytes"] - before[flow]["sent_bytes"]) * 8 / seconds / 1e6 for flow in after]
counters = {name: sum(after[flow][name] - before[flow][name] for flow in after)
            for name in ("rp_cnp_handled", "retransmitted_pkts", "early_probes")}
jain = sum(rates) ** 2 / (len(rates) * sum(rate ** 2 for rate in rates)) if any(rates) else 0
print(f"{len(rates)} flows: {sum(rates):.0f} Mbit/s, Jain {jain:.4f}, {counters}")
if sys.argv[3] != "off" and not counters["rp_cnp_handled"]:
    sys.exit(1)
sys.exit(75 if sys.argv[3] != "off" and jain < 0.98 else 0)  # LATE
END

# link_slow: b sends through a link of 200 Mbit/s from now on.
link_slow() {
	: >"$scratch/bottleneck" # it says "ready" of the link before
	"$urnic" host exec -n "$network" b -- "$programs/bottleneck" bottleneck0 veth0 200 \
		30000 120000 10 >"$scratch/bottleneck" 2>&1 &
	bottleneck=$!
	await 'no bottleneck' grep -q . "$scratch/bottleneck"
	grep -q '^ready' "$scratch/bottleneck" || skip "no TAP interface here: $(cat "$scratch/bottleneck")"
	on b ip link set bottleneck0 mtu 1500 txqueuelen 20000 addrgenmode none up
	on b tc qdisc add dev veth0 clsact
	on b tc filter add dev veth0 egress protocol all u32 match u32 0 0 \
		action mirred egress redirect dev bottleneck0 || skip 'tc redirects no packets here'
}

# link_fast: no longer. Prints what the queue was.
link_fast() {
	on b tc qdisc del dev veth0 clsact
	kill $bottleneck
	wait $bottleneck || fail "the bottleneck ends with $?"
	sed -n 's/^frames/    frames/p' "$scratch/bottleneck"
	grep -q ' dropped 0 ' "$scratch/bottleneck" || fail 'the queue is full'
}

# flows_share COUNT CC: URNIC_CC of the senders. SENDs, because perftest sleeps with them only. With
# congestion control the shares are fair, unless the machine is too busy to run a sender in time.
flows_share() {
	link_slow
	for flow in $(seq "$1"); do
		port=$((18700 + flow))
		start "server$flow" a ib_send_bw -F -e -d rocep_veth0 -m 1024 -s 65536 -n 100000 -p $port
		wait_for_port a $port "$(eval echo "\$job_server$flow")" || fail "ib_send_bw: $(cat "$scratch/server$flow")"
		URNIC_CC=$2 start "client$flow" b \
			ib_send_bw -F -e -d rocep_veth0 -m 1024 -s 65536 -n 100000 -p $port 10.99.0.1
	done
	for flow in $(seq "$1"); do
		await 'a flow sends nothing' has_counted 1000000 b "$(process "client$flow")" sent_bytes
	done
	sleep 1
	began=$(now)
	on b "$urnic" stat --json >"$scratch/before"
	sleep 3
	on b "$urnic" stat --json >"$scratch/after"
	printf '%s: ' "${2%%,*}"
	/usr/bin/python3 "$scratch/shares.py" "$scratch" "$(awk -v from="$began" -v to="$(now)" 'BEGIN { print to - from }')" "$2"
	fairness=$?
	for flow in $(seq "$1"); do
		end_both "client$flow" "server$flow"
	done
	link_fast
	why='Jain below 0.98'
	[ $fairness = 0 ] || [ $fairness = $LATE ] || fail 'no CNP arrives'
	return $fairness
}

link_slow
port=18600
pair a b 10.99.0.1 "$programs/verify" -d rocep_veth0 -m 1024 -w each -n 1000000
link_fast
for count in 2 8; do
	flows_share $count off
	in_some_attempt flows_share $count $slow
done

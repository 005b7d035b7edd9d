#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# What urnic sends, in the eyes of independent programs: tshark dissects every packet, zlib and
# scapy recompute its ICRC.
#
# Segmentation and merging are turned off at the veth pair, so that the capture has single packets.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

port=18600
need tshark dumpcap ethtool rping
network_up 9000
for side in a b; do
	on $side ethtool -K veth0 tx-udp-segmentation off gso off gro off >/dev/null 2>&1 ||
		skip 'the veth pair cannot be told not to segment'
done

"$urnic" host exec -n "$network" a -- timeout $pair_seconds \
	dumpcap -q -P -i veth0 -B 64 -f 'udp port 4791' -w - >"$scratch/wire.pcap" 2>"$scratch/dumpcap" &
capture=$!
for attempt in $(seq 1200); do
	[ -s "$scratch/wire.pcap" ] && break
	kill -0 $capture 2>/dev/null || skip "no capture here: $(tail -n 1 "$scratch/dumpcap")"
	sleep 0.05
done
pair a b 10.99.0.1 "$programs/verify" -d rocep_veth0 -m 1024 -w each -n 4097
pair a b fd00:99::1 "$programs/verify" -d rocep_veth0 -x 1 -m 256 -w each -n 1025
pair a b 10.99.0.1 "$programs/verify" -d rocep_veth0 -m 4096 -w mixed -n 50
pair a b 10.99.0.1 "$programs/badinput" -d rocep_veth0
meet 'rping -s -a 10.99.0.1 -C 5' b 'rping -c -a 10.99.0.1 -V -C 5'
sleep 0.5
kill $capture
wait $capture

/usr/bin/python3 "$(dirname "$0")/wire_check.py" "$scratch/wire.pcap" || fail 'packets are wrong'

# Left alone, tshark guesses what random payload might be: Ethernet, RPC, storage protocols.
guesses=$(tshark -G heuristic-decodes 2>/dev/null |
	awk '$1 == "infiniband.payload" && $2 != "ethertype" { print "--disable-protocol", $2 }')
cat >"$scratch/filters" <<'END'
all udp.dstport == 4791
dissected infiniband
bad _ws.malformed || _ws.expert.severity == error
END
while read -r name filter; do
	# shellcheck disable=SC2086
	count=$(tshark -n $guesses --disable-heuristic eth_over_ib -r "$scratch/wire.pcap" -Y "$filter" 2>/dev/null |
		wc -l)
	eval "$name=$count"
done <"$scratch/filters"
# shellcheck disable=SC2154
echo "tshark: $all packets, $dissected dissected, $bad malformed"
[ "$all" -gt 1000 ] && [ "$dissected" = "$all" ] && [ "$bad" = 0 ] || fail 'tshark finds malformed packets'

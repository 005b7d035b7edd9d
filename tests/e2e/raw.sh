#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Debian's raw Ethernet programs between two hosts and within one; and a program without
# CAP_NET_RAW.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need raw_ethernet_lat raw_ethernet_bw raw_ethernet_fs_rate setpriv
network_up 1500
MAC_A=02:00:0a:63:00:01
MAC_B=02:00:0a:63:00:02

# Until a port on host a listens to all protocols: a flow leads to it. Or the server has ended.
wait_for_server() {
	until on a awk '$4 == "0003" { found = 1 } END { exit !found }' /proc/net/packet; do
		kill -0 "$server" 2>/dev/null || return 0
		sleep 0.05
	done
}

# raw_between CLIENT-HOST ITS-ADDRESS PROGRAM OPTIONS...: from there to host a.
raw_between() {
	client_host=$1 client_mac=$2 program=$3
	shift 3
	pair_seconds=$((10 * attempt * attempt))
	start server a "$program" --server -d rocep_veth0 -B $MAC_A -E "$client_mac" "$@"
	server=$!
	wait_for_server
	start client "$client_host" "$program" --client -d rocep_veth0 -B "$client_mac" -E $MAC_A "$@"
	finish client
	client_status=$?
	finish server
	server_status=$?
	why="$program $* ends with $server_status and $client_status: $(tail -n 2 "$scratch/server" "$scratch/client")"
	hangs $client_status $server_status && return $LATE
	[ $client_status$server_status = 00 ]
}

# raw PROGRAM OPTIONS...: from host b to host a. Any network may lose frames, and a program that
# counts frames then waits for ever. The test runs such a program again, with more time.
raw() {
	in_some_attempt raw_between b $MAC_B "$@"
	for side in server client; do
		awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+/ { rows++ } END { exit !rows }' "$scratch/$side" ||
			{ show_pair; fail "$*: the $side prints no figures"; }
	done
}

# The fields that a rule can match: addresses only, IP, UDP, TCP, IPv6, a VLAN. No host has these IP
# addresses; otherwise its kernel would answer as well.
ip='-J 198.51.100.1 -j 198.51.100.2'
ports='-K 5000 -k 5001'
raw raw_ethernet_lat -s 64 -n 300
# shellcheck disable=SC2086
for options in "$ip" "$ip $ports" "$ip $ports --tcp" '--vlan_en' \
	"--raw_ipv6 -J 2001:db8::1 -j 2001:db8::2 $ports"; do
	raw raw_ethernet_lat -s 128 -n 200 $options
done
raw raw_ethernet_lat -s 1500 -n 200
raw raw_ethernet_bw -s 1024 -D 1

# Paced by the NIC: at most so many MiB/s; a busy machine may be late.
raw raw_ethernet_bw -s 1024 -D 1 --rate_limit_type PP --rate_units M --rate_limit 20
awk '/^ *[0-9]+ +[0-9]+ +[0-9.]+/ { if ($4 <= 20) kept++ } END { exit !kept }' "$scratch/client" ||
	{ show_pair; fail 'a rate limit is not kept'; }

# Setting rules up and taking them down.
# shellcheck disable=SC2086
on a timeout 240 "$urnic" run -- raw_ethernet_fs_rate --server -d rocep_veth0 -s 64 -B $MAC_A -E $MAC_B $ip $ports \
	>"$scratch/rate" 2>&1 || fail "raw_ethernet_fs_rate: $(tail -n 3 "$scratch/rate")"

# Within one host, by way of its own address.
# shellcheck disable=SC2086
in_some_attempt raw_between a $MAC_A raw_ethernet_lat -s 64 -n 200 --tcp $ip -K 7 -k 8

# Without the right to: a plain error, and a sentence that says which right.
said=$(on a setpriv --bounding-set=-net_raw --inh-caps=-net_raw \
	"$urnic" run --no-view -- raw_ethernet_lat --server -d rocep_veth0 -B $MAC_A -E $MAC_B 2>&1) &&
	fail 'anybody may send raw frames'
echo "$said" | grep -q 'no raw packet queue pair: it needs CAP_NET_RAW' || fail "is told: $said"

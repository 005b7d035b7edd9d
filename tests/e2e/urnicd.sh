#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnicd is killed while data moves. Programs that are killed leave no slot, process or name.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

ROUNDS=${URNICD_ROUNDS:-24}
port=18600
network_up 9000

# stat_of HOST EXPRESSION: of the report of urnic stat.
stat_of() {
	on "$1" "$urnic" stat --json 2>/dev/null | /usr/bin/python3 -c '
import json, sys
report = json.load(sys.stdin)
processes = [p for p in report["processes"] if p["slots"]]
counters = (report["urnicd"] or {}).get("counters", {})
print(eval(sys.argv[1]))' "$2"
}

# mixed NAME PORT COUNT
mixed() {
	start "server$1" a "$programs/verify" -d rocep_veth0 -p "$2" -w mixed -n "$3"
	start "client$1" b "$programs/verify" -d rocep_veth0 -p "$2" -w mixed -n "$3" 10.99.0.1
}

# Both are killed under a running pair; it goes on, and its slots are claimed again.
mixed 1 18601 100000000
await 'no data move' has_counted 100 b "$(process client1)" sent_pkts
for round in 1 2 3; do
	for side in a b; do
		killed=$(urnicd_of $side)
		[ -n "$killed" ] || fail "no urnicd on host $side (round $round)"
		kill -9 "$killed"
	done
	# What starts now works, whether the survivors or the newcomer are first to start another.
	mixed 2 18602 500
	finish_well server2 client2
	for side in a b; do
		[ "$(urnicd_of $side)" != "$killed" ] || fail "urnicd of host $side was not killed"
	done
done
for side in a b; do
	[ "$(stat_of $side 'len(processes) >= 1 and counters["slots_lost"] == 0')" = True ] ||
		fail "host $side lost a slot: $(on $side "$urnic" stat)"
done
kill "$(process server1)" "$(process client1)" || fail 'the transfer has broken'
finish_well server1 client1

# has_met PORT: client and server have their connection for set-up.
has_met() {
	on a ss -Htn state established "sport = :$1" | grep -q .
}

# Programs are killed again and again, on one side or both: no slot, process or name stays. A
# surviving program has some retries to go, and the next round does not wait for it. A client that
# has not connected to its server would try for longer than urnicd stays without programs.
before=$(stat_of a 'counters["slots_leased"]')
for round in $(seq "$ROUNDS"); do
	mixed "$round" $((18603 + round)) 100000000
	[ $((round % 3)) != 0 ] || await 'client and server do not meet' has_met $((18603 + round))
	sleep "0.$((round % 4))"
	kill -9 "$(process "server$round")"
	[ $((round % 3)) = 0 ] || kill -9 "$(process "client$round")"
	finish "server$round"
done
for round in $(seq "$ROUNDS"); do
	finish "client$round" && fail "round $round: the client succeeds"
done
leased=$(($(stat_of a 'counters["slots_leased"]') - before))
[ "$leased" -gt 0 ] || fail "no slots in $ROUNDS rounds: the programs hardly ran"
has_processes() {
	[ "$(stat_of "$1" 'len(processes)')" = "$2" ]
}
for side in a b; do
	await "host $side keeps slots: $(on $side "$urnic" stat)" has_processes $side 0
	[ "$(urnicds_on $side | wc -l)" = 1 ] || fail "host $side listens on: $(on $side ss -Hxl)"
	[ "$(on $side ss -Hlnu 'sport = :4791' | wc -l)" -le 256 ] || fail "host $side has too many sockets"
done

# Left alone it leaves, and gives the port back.
for side in a b; do
	kill -9 "$(urnicd_of $side)"
done
export URNICD_IDLE_S=1
mixed 3 18603 500
finish_well server3 client3
for attempt in $(seq 600); do
	[ -n "$(urnicd_of a)$(urnicd_of b)" ] || break
	sleep 0.1
done
for side in a b; do
	[ -z "$(urnicd_of $side)" ] || fail "urnicd of host $side stays"
	[ -z "$(on $side ss -Hlnu 'sport = :4791')" ] || fail "somebody on host $side keeps port 4791"
done

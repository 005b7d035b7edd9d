#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A cable is cut and a subnet manager is killed under traffic. The switches send trap 128, the
# subnet manager, embedded or OpenSM, routes by the second cable, and connections go on by retries
# without a lost or wrong byte.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

need opensm ib_send_lat rping

# hop_of NODE: the cable of a switch by which host1's packets go to host4.
hop_of() {
	fabric route "$(lid_of host1)" "$(lid_of host4)" 2>/dev/null |
		sed -n "s/^ *\"\($1\)\"\[\([0-9]*\)\] ->.*/\1[\2]/p"
}

avoids() {
	hop=$(hop_of "${1%\[*}") && [ -n "$hop" ] && [ "$hop" != "$1" ]
}

# Of host4, since the fabric is up.
packets_out() {
	fabric dump host4 | sed -n 's/.*; \([0-9]*\) packets out.*/\1/p' | head -n 1
}

has_sent() {
	[ "$(packets_out)" -ge "$1" ]
}

# packets_flow COUNT: until host4 has sent so many more.
packets_flow() {
	await 'packets flow' has_sent $(($(packets_out) + $1))
}

now_ms() {
	date +%s%3N
}

# cut SWITCH: cut the cable in use there; prints how long it takes until there is another route.
cut() {
	cable=$(hop_of "$1")
	[ -n "$cable" ] || fail "route: $(fabric route "$(lid_of host1)" "$(lid_of host4)")"
	began=$(now_ms)
	fabric unlink "$cable" || fail "unlink $cable"
	await "a route without $cable" avoids "$cable"
	echo "$manager: another route $(($(now_ms) - began)) ms after $cable was cut"
}

mend() {
	fabric relink "$cable" || fail "relink $cable"
	await 'the cable comes back' ports_are Active $ports
}

path_is_known() {
	on host4 "$urnic" run $view -- saquery -p --src-to-dst host4:host1 2>&1 | grep -q 'dlid'
}

# A client that comes before its server is rejected, and ends at once.
connects() {
	start client host4 rping -c -V -C 1000000 -a "$(stand_in host1)"
	sleep 1
	kill -0 "$(process client)" 2>/dev/null
}

# Traffic of both kinds: each byte is compared.
traffic_begin() {
	await 'the administrator knows the path' path_is_known
	start server host1 rping -s -C 1000000
	await 'rping connects' connects
	packets_flow 500
	port=$((port + 1))
	start verifier host1 "$programs/verify" -p $port -t 18 -w mixed -n $count
	await 'the server listens' listens
	start verified host4 "$programs/verify" -p $port -t 18 -w mixed -n $count 127.0.0.1
	packets_flow 2000
}

listens() {
	ss -Hltn "sport = :$port" | grep -q .
}

traffic_goes_on() {
	packets_flow 2000
	for name in verifier verified server client; do
		kill -0 "$(process $name)" || fail "$name has ended: $(tail "$scratch/$name")"
	done
}

traffic_end() {
	kill "$(process client)" "$(process server)" "$(process verifier)" "$(process verified)"
	finish client
	finish server
	! grep -qi 'fail\|error\|mismatch' "$scratch/client" || fail "rping: $(tail "$scratch/client")"
	finish_well verified verifier
}

count=1000000000 # SIGTERM ends it
port=18700
fabric_up chain
await 'the ports are active' ports_are Active $ports
for manager in embedded OpenSM; do
	if [ $manager = OpenSM ]; then
		opensm_start first host2
	fi
	traffic_begin
	cut switch1
	traffic_goes_on
	mend
	cut switch3
	traffic_goes_on
	mend
	traffic_end
done

# The master is killed; the standby one takes over, and routes around the next cut.
cat >"$scratch/second.conf" <<-END
	sminfo_polling_timeout 500
	polling_retry_number 2
END
opensm_run second host3
await 'the second one is on standby' grep -qs 'Entering STANDBY' "$scratch/second.log"
traffic_begin
kill -KILL "$(process first)"
finish first
await 'the second one is the master' grep -qs 'Entering MASTER' "$scratch/second.log"
manager='second OpenSM'
traffic_goes_on
cut switch2
traffic_goes_on
traffic_end

# How long a request takes that meets the cut.
mend
port=$((port + 1))
start server host1 ib_send_lat -F -n 100000 -u 16 -p $port
await 'the server listens' listens
start client host4 ib_send_lat -F -n 100000 -u 16 -p $port 127.0.0.1
packets_flow 2000
cut switch1
finish_well client server
echo "the slowest round trip of ib_send_lat: $(awk '$1 == 2 { print $4 }' "$scratch/client") us, halved"
exit 0

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Two processes of one user in two network namespaces of one machine exchange data without packets,
# unless URNIC_HOST_ID says that they are two hosts. Checks every byte of every operation, the
# counters, and random programs with and without packets; kills either process and urnicd.
#
# NAMESPACES_KILL_ROUNDS: how many deaths, 8 unless set. NAMESPACES_WAYS_SEEDS: how many random
# programs, 10 unless set.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need ib_write_bw ib_send_bw rping
rounds=${NAMESPACES_KILL_ROUNDS:-8}
network_up 9000
export URNIC_HOST_ID=$network URNICD_IDLE_S=1

# executed NAME HOST: set $executed to the number of requests that `process NAME` has executed
# without packets. Returns as soon as there are some, or after a time limit.
executed() {
	for attempt in $(seq 600); do
		executed=$(counter "$2" "$(process "$1")" local_requests)
		[ "$executed" -le "${3:-100}" ] || break
		sleep 0.05
	done
	echo "$executed"
}

# mixed NAME PORT: a pair that goes on until it is killed; once it transfers.
mixed() {
	port=$2
	start "server$1" a "$programs/verify" -d rocep_veth0 -p "$2" -w mixed -n 100000000
	wait_for_port a "$2" "$(eval "echo \$job_server$1")"
	start "client$1" b "$programs/verify" -d rocep_veth0 -p "$2" -w mixed -n 100000000 10.99.0.1
}

end_well() {
	kill "$(process "server$1")" "$(process "client$1")" || fail "the transfer $1 has broken"
	finish_well "server$1" "client$1"
}

# Debian's programs, and all operations.
meet 'rping -s -a 10.99.0.1 -C 100' b 'rping -c -a 10.99.0.1 -V -C 100'
for program in ib_write_bw 'ib_send_bw --use-srq'; do
	# shellcheck disable=SC2086
	pair a b 10.99.0.1 $program -F -d rocep_veth0 -n 200
done
port=18600
pair a b 10.99.0.1 "$programs/verify" -d rocep_veth0
pair b a fd00:99::2 "$programs/verify" -d rocep_veth0 -x 1 -w mixed -n 2000

# The counters: on one host requests need no packets; on two hosts they use packets, and no peer
# counts as unreachable.
mixed 1 18601
for side in 'server1 a' 'client1 b'; do
	# shellcheck disable=SC2086
	[ "$(executed $side)" -gt 100 ] || fail "$side: no request went without packets"
done
for round in 1 2; do
	for side in a b; do
		kill -9 "$(urnicd_of $side)"
	done
	until [ -n "$(urnicd_of a)" ] && [ -n "$(urnicd_of b)" ]; do sleep 0.02; done
	mixed 2 18602
	[ "$(executed client2 b)" -gt 100 ] || fail "after urnicd was killed ($round): no request went without packets"
	end_well 2
done
end_well 1

for setting in URNIC_HOST_ID=other URNIC_LOCAL=off; do
	start server a "$programs/verify" -d rocep_veth0 -w mixed -p 18600 -n 100000000
	wait_for_port a 18600 "$job_server"
	start client b env $setting "$programs/verify" -d rocep_veth0 -w mixed -p 18600 -n 100000000 10.99.0.1
	until [ "$(counter b "$(process client)" sent_pkts)" -gt 100 ]; do
		kill -0 "$job_client" || break
		sleep 0.05
	done
	for side in 'server a' 'client b'; do
		for name in local_requests local_unreachable; do
			# shellcheck disable=SC2086
			counted=$(counter ${side#* } "$(process ${side% *})" $name)
			[ "$counted" = 0 ] || fail "$setting: $side has $counted $name"
		done
	done
	kill "$(process server)" "$(process client)"
	finish_well server client
done

# Deaths.
pair_seconds=$((60 + rounds * 4))
start there b sleep $pair_seconds
KILLS_NETNS=/proc/$(process there)/ns/net on a timeout $pair_seconds "$urnic" run --no-view -- "$programs/kills" -d rocep_veth0 \
	-n "$rounds" -w $$ >"$scratch/kills" 2>&1 || fail "seed $$: $(tail -n 4 "$scratch/kills")"
echo "seed $$: $(grep rounds "$scratch/kills")"
stop there
WAYS_HOST=b WAYS_SEEDS=${NAMESPACES_WAYS_SEEDS:-10} sh "$(dirname "$0")/ways.sh" "$1" || fail 'the two ways differ'

# Left alone, they leave nothing.
name=$(printf %x "$(on a stat -L -c %i /proc/self/ns/net)")
for attempt in $(seq 600); do
	[ -n "$(urnicd_of a)" ] || break
	sleep 0.1
done
left=$(find /run/urnic /run/user/*/urnic /tmp/urnic-* -name "$name-*" 2>/dev/null)
[ -z "$left" ] || fail "left: $left"

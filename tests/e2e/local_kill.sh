#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Two processes of one host that meet without packets; one of them is killed, or stopped, at a random moment. The
# other one hears of it in the time that its settings promise, and nothing is left behind.
#
# LOCAL_KILL_ROUNDS: how many times, 16 unless set. LOCAL_KILL_SEED replays the moments.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

MARGIN=1500
export URNIC_LOCAL=on E2E_ONE_HOST=1
port=18600
rounds=${LOCAL_KILL_ROUNDS:-16}
seed=${LOCAL_KILL_SEED:-$$}
network_up 9000

# moment ROUND: a pause of 0.1 to 0.4 s, by the seed.
moment() {
	awk -v seed="$((seed * 100000 + $1))" 'BEGIN { srand(seed); printf "%.4f", 0.1 + rand() * 0.3 }'
}

mixed() {
	start server a "$programs/verify" -d rocep_veth0 -w mixed -n 100000000
	start client a "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 10.99.0.1
	until on a ss -Htn state established "sport = :$port" | grep -q .; do sleep 0.05; done
	sleep 0.3
}

broken_at() {
	awk '$1 == "broken" { sub(":", "", $2); print $2 }' "$scratch/$1"
}

# Eight timeouts of 67 ms.
check_survivor() {
	finish "$1"
	[ $? = 3 ] || fail "round $round: $1 of a killed peer: $(tail -n 3 "$scratch/$1")"
	grep -q 'status 12 ' "$scratch/$1" || fail "round $round: not retry exceeded: $(cat "$scratch/$1")"
	within "$killed" "$(broken_at "$1")" 0 $((537 + MARGIN)) "round $round: error"
}

shm_before=$(find /dev/shm | wc -l)
round=0
while [ $round -lt "$rounds" ]; do
	round=$((round + 1))
	victim=server survivor=client
	[ $((round % 2)) = 0 ] || victim=client survivor=server
	mixed
	sleep "$(moment $round)"
	killed=$(now)
	if [ $((round % 4)) -ge 2 ]; then
		# Stopped first: for a moment, or for longer than the peer's patience.
		kill -STOP "$(process $victim)"
		[ $((round % 8)) -ge 4 ] || sleep 0.2
	fi
	kill -9 "$(process $victim)"
	check_survivor $survivor
	finish $victim
done
[ "$(find /dev/shm | wc -l)" -le "$shm_before" ] || fail "left in /dev/shm: $(ls /dev/shm)"
echo "$rounds rounds, seed $seed"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# kill -9 of the target, kill -9 of the host, and a network that is gone, all under verified I/O
# over TCP, RoCEv2 and iWARP: no acknowledged write is lost, no stale or late data appears, and the
# host connects anew by itself.
#
# A round takes its transport, block size, depth, link, and the moment of the fault from its seed;
# three rounds in turn have all transports.
#
# NVMF_FAULTS ("target host network") says which faults, NVMF_FAULTS_ROUNDS how many rounds of each,
# NVMF_FAULTS_SEED the first round's seed, NVMF_FAULTS_OUTAGES ("1 6") how many seconds the network
# is gone, NVMF_FAULTS_LANES (1) how many pairs of hosts have rounds of one fault side by side.
. "$(dirname "$0")/common.sh"

build=$1
nqn=nqn.2026-01.org.example:sub
rounds=${NVMF_FAULTS_ROUNDS:-3}
first_seed=${NVMF_FAULTS_SEED:-$$}
lanes=${NVMF_FAULTS_LANES:-1}
outages=${NVMF_FAULTS_OUTAGES:-1 6}

# draw COUNT: a number below it, in drawn.
draw() {
	state=$(((state * 1103515245 + 12345) & 0x7fffffff))
	drawn=$((state / 65536 % $1))
}

# choose WORD...: one of them, in chosen.
choose() {
	draw $#
	shift "$drawn"
	chosen=$1
}

# moment MILLISECONDS: pause for up to that long.
moment() {
	draw "$1"
	sleep "$((drawn / 1000)).$(printf %03d $((drawn % 1000)))"
}

describe() {
	cat >"$files/config" <<END
{ "subsystems": [ { "nqn": "$nqn", "attr": { "allow_any_host": 1 }, "namespaces": [
    { "nsid": 1, "device": { "path": "$files/disk", "block_size": $1 } } ] } ],
  "ports": [ { "portid": 1, "addr": { "trtype": "$verbs", "traddr": "10.99.0.1" },
    "subsystems": [ "$nqn" ] } ] }
END
}

start_target() {
	rm -f "$files/target.pid"
	: >"$files/target" # the last target was ready, too
	on a "$urnic" run -- sh -c 'echo $$ >"$0"; exec "$@"' "$files/target.pid" \
		"$build/urnic-nvmf-target" -c "$files/config" >"$files/target" 2>&1 &
	await "the target does not start: $(cat "$files/target")" grep -q ready "$files/target"
	target=$(cat "$files/target.pid")
}

end_target() {
	kill -"$1" "$target"
	await 'the target does not end' sh -c "! kill -0 $target 2>/dev/null"
	target=
}

start_host() {
	rm -f "$files/host.pid"
	on b "$urnic" run -- sh -c 'echo $$ >"$0"; exec "$@"' "$files/host.pid" \
		"$build/tests/e2e/nvmf_faults" "$files/log" run "$1" "$verbs" 10.99.0.1 $nqn \
		>"$files/host" 2>"$files/host.error" &
	waited=$!
	await 'the host does not start' test -s "$files/host.pid"
	host_pid=$(cat "$files/host.pid")
}

# make_link slow|fast: on a slow one, requests are under way for longer. Not all kernels have that.
make_link() {
	if [ "$1" = slow ]; then
		on b tc qdisc add dev veth0 root tbf rate 20mbit burst 20kb latency 1000ms
	else
		on b tc qdisc del dev veth0 root
	fi 2>/dev/null
	return 0
}

# Mostly the fault comes while I/O runs; sometimes earlier, while the host connects.
await_io() {
	draw 8
	[ "$drawn" = 0 ] || await "$round: no I/O: $(cat "$files/host" "$files/host.error")" \
		grep -q 'I/O runs' "$files/host.error"
}

# The host goes on, finds all that it should, and ends.
end_host() {
	make_link fast
	kill -TERM "$host_pid" 2>/dev/null
	await "$round: the host does not end" sh -c "! kill -0 $host_pid 2>/dev/null"
	wait $waited || fail "$round: $(cat "$files/host" "$files/host.error")"
	host_pid=
	grep -q ' writes, ' "$files/host" || fail "$round: the host said: $(cat "$files/host")"
}

fault_target() {
	draw 3
	for _ in $(seq $((drawn + 1))); do
		await_io
		moment 800
		end_target KILL
		moment 300
		start_target
	done
}

# kill_host SEED: and the next one starts at once.
kill_host() {
	kill -KILL "$host_pid" 2>/dev/null
	wait $waited 2>/dev/null
	[ ! -s "$files/host" ] || fail "$round: the killed host said: $(cat "$files/host")"
	start_host "$1"
}

# In every second round the network is gone when the last host is killed. Then the kernel must not
# send what it has of the killed host: it would repeat that after the next host has written, and
# before it tells the target that the host's admin queue has ended.
fault_host() {
	draw 4
	for nth in $(seq $((drawn + 1))); do
		await_io
		moment 600
		kill_host $((seed + nth))
	done
	draw 2
	if [ "$drawn" = 0 ]; then
		moment 600
		return
	fi
	await_io
	make_link slow
	moment 300
	on a ip link set veth0 down
	moment 250
	kill_host $((seed + nth + 1))
	sleep 0.7
	on a ip link set veth0 up
	settles=4 # seconds, for the kernel's next repetition
}

# The interface of one side is down: the other side sees that the peer is silent.
fault_network() {
	await_io
	choose a b
	moment 800
	on "$chosen" ip link set veth0 down
	sleep "$outage"
	on "$chosen" ip link set veth0 up
}

# one_round FAULT SEED
one_round() {
	seed=$2
	state=$((seed * 7919 + 17))
	case $((seed % 3)) in
	0) transport=tcp ;;
	1) transport=roce ;;
	*) transport=iwarp ;;
	esac
	for _ in 1 2 3 4 5; do draw 2; done
	choose 512 4096
	block=$chosen
	choose $outages
	outage=$chosen
	choose fast slow
	link=$chosen
	settles=0
	round="$1, seed $seed, $transport, blocks of $block, $link link"
	[ "$1" != network ] || round="$round, gone for $outage s"
	verbs=rdma
	[ "$transport" != tcp ] || verbs=tcp
	URNIC_TRANSPORTS=$transport
	[ "$transport" != tcp ] || URNIC_TRANSPORTS=roce
	export URNIC_TRANSPORTS
	rm -f "$files/log" "$files/disk"
	truncate -s 16M "$files/disk"
	describe "$block"
	start_target
	make_link "$link"
	start_host "$seed"
	"fault_$1"
	end_host
	sleep $settles
	end_target TERM
	"$build/tests/e2e/nvmf_faults" "$files/log" check "$files/disk" >"$files/host.file" ||
		fail "$round: in the file: $(cat "$files/host.file")"
	echo "$round: $(cat "$files/host")"
}

end_lane() {
	kill -KILL $target $host_pid 2>/dev/null
	at_exit
	rm -rf "$files"
}

# lane FAULT NUMBER: each round of this fault whose turn it is, on hosts of its own.
lane() {
	target=
	host_pid=
	network=e2e-$$-$1-$2
	files=$(mktemp -d)
	sleep "$2" # not all networks at once
	network_up 9000
	trap end_lane EXIT
	number=$2
	while [ "$number" -lt "$rounds" ]; do
		one_round "$1" $((first_seed + number))
		number=$((number + lanes))
	done
}

pids=
trap 'kill $pids 2>/dev/null; wait' INT TERM
for fault in ${NVMF_FAULTS:-target host network}; do
	for number in $(seq 0 $((lanes - 1))); do
		(lane "$fault" "$number") &
		pids="$pids $!"
	done
done
status=0
for pid in $pids; do
	wait "$pid"
	result=$?
	[ $result = 0 ] || [ $status = 1 ] || status=$result
done
exit $status

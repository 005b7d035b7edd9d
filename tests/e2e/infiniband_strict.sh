#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Strict devices on an InfiniBand fabric: with the rules of all adapters the programs over RC and UD
# run, and those of a feature that an adapter lacks are refused in a sentence that names it. With
# mlx5, the only one of these adapters that InfiniBand has, all of them run.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ib_write_bw ib_send_lat ibv_rc_pingpong ibv_ud_pingpong ibv_uc_pingpong ibv_srq_pingpong rping
topology=$(dirname "$0")/../../examples/infiniband/three-switches.topo
name=strict-$$
up=
trap 'kill $up 2>/dev/null; wait; rm -rf "$scratch"' EXIT

# host NODE PROGRAM [ARGUMENTS]: run a program on a strict device of the fabric.
host() {
	node=$1
	shift
	timeout $pair_seconds "$urnic" run --no-view "--strict=$adapters" --fabric "$name:$node" -- "$@"
}

is_up() {
	grep -q ' is up: ' "$scratch/up"
}

is_active() {
	host host1 ibv_devinfo -v >"$scratch/host1" 2>&1
	grep -q 'PORT_ACTIVE' "$scratch/host1"
}

# meet 'PROGRAM WITH ARGUMENTS' [ADDRESS]: a server on host1 and its client on host4 succeed. A
# client that comes before its server tries again.
meet() {
	# shellcheck disable=SC2086 # the arguments are words
	host host1 $1 >"$scratch/server" 2>&1 &
	job=$!
	for _ in $(seq 40); do
		# shellcheck disable=SC2086
		host host4 $1 "${2:-127.0.0.1}" >"$scratch/client" 2>&1
		client_status=$?
		[ $client_status = 0 ] && break
		kill -0 $job 2>/dev/null || break
		sleep 0.1
	done
	wait $job
	server_status=$?
	[ $client_status$server_status = 00 ] ||
		fail "$adapters: $1: server $server_status, client $client_status: $(tail -n 5 "$scratch/server" "$scratch/client")"
}

# refused FEATURE ADAPTERS PROGRAM: urnic names the adapters that lack the feature.
refused() {
	URNIC_LOG=info host host1 "$3" >"$scratch/server" 2>&1 && fail "$3 runs on $adapters"
	grep -q "not on $2: $1 \[STRICT\]\$" "$scratch/server" ||
		fail "$3: no sentence about $1: $(tail -n 5 "$scratch/server")"
}

both() {
	meet 'ib_write_bw -F -n 100'
	meet 'ib_send_lat -F -n 100'
	meet 'ib_send_bw -c UD -F -n 100 -s 1024'
	meet 'ibv_rc_pingpong -n 100'
	meet 'ibv_ud_pingpong -n 100'
	# rping's server has other options than its client.
	host host1 rping -s -C 5 >"$scratch/server" 2>&1 &
	job=$!
	for _ in $(seq 40); do
		host host4 rping -c -a "$ipv4" -C 5 -V >"$scratch/client" 2>&1 && break
		sleep 0.1
	done
	wait $job || fail "$adapters: rping: $(tail -n 5 "$scratch/server" "$scratch/client")"
}

adapters=mlx5,irdma,bnxt
"$urnic" fabric up --name "$name" "$topology" >"$scratch/up" 2>&1 &
up=$!
await 'the fabric is up' is_up
await 'the port is active' is_active
lid=$(sed -n 's/.*port_lid:[^0-9]*\([0-9]*\).*/\1/p' "$scratch/host1")
ipv4=100.64.$((lid / 256)).$((lid % 256))

both
refused 'UC queue pairs' 'irdma, bnxt' ibv_uc_pingpong
refused 'shared receive queues (SRQ)' irdma ibv_srq_pingpong

adapters=mlx5
both
meet 'ibv_uc_pingpong -n 100'
meet 'ibv_srq_pingpong -n 100'
exit 0

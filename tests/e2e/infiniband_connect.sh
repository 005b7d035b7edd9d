#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# rdma_cm over an InfiniBand subnet: Debian's programs connect by the addresses that stand in for
# those of IPoIB.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need rping ucmatose udaddy rdma_server opensm sminfo
topology=$(dirname "$0")/../../examples/infiniband/three-switches.topo
name=connect-$$
up=
trap 'kill $up 2>/dev/null; wait; rm -rf "$scratch"' EXIT

# host NODE PROGRAM [ARGUMENTS]: run a program on a host of the fabric.
host() {
	node=$1
	shift
	timeout $pair_seconds "$urnic" run --no-view --fabric "$name:$node" -- "$@"
}

is_up() {
	grep -q ' is up: ' "$scratch/up"
}

is_active() {
	host host1 ibv_devinfo -v >"$scratch/host1" 2>&1
	grep -q 'PORT_ACTIVE' "$scratch/host1"
}

# meet 'SERVER WITH ARGUMENTS' 'CLIENT WITH ARGUMENTS' [SERVER-HOST]: both have to succeed. A client
# that comes before its server is rejected, or hears nothing, and tries again.
meet() {
	# shellcheck disable=SC2086 # the arguments are words
	host host1 $1 >"$scratch/server" 2>&1 &
	job=$!
	for _ in $(seq 40); do
		# shellcheck disable=SC2086
		host "${3:-host3}" $2 >"$scratch/client" 2>&1
		client_status=$?
		[ $client_status = 0 ] && break
		kill -0 $job || break
		sleep 0.1
	done
	wait $job
	server_status=$?
	[ $client_status$server_status = 00 ] ||
		fail "$1 ends with $server_status, $2 with $client_status: $(tail -n 5 "$scratch/server" "$scratch/client")"
}

"$urnic" fabric up --name "$name" "$topology" >"$scratch/up" 2>&1 &
up=$!
await 'the fabric is up' is_up
await 'the port is active' is_active

lid=$(sed -n 's/.*port_lid:[^0-9]*\([0-9]*\).*/\1/p' "$scratch/host1")
ipv4=100.64.$((lid / 256)).$((lid % 256))
gid=$(sed -n 's/.*GID\[  0\]:[^0-9a-f]*\([0-9a-f:]*\).*/\1/p' "$scratch/host1")

# No process listens: the fabric answers for the host.
host host3 rping -c -a "$ipv4" -C 1 >"$scratch/client" 2>&1 && fail 'nobody listens, and rping connects'
grep -q 'RDMA_CM_EVENT_REJECTED' "$scratch/client" || fail "nobody listens: $(cat "$scratch/client")"

meet 'rping -s -C 20' "rping -c -a $ipv4 -C 20 -V"
meet "rping -s -a $ipv4 -C 20" "rping -c -a $ipv4 -C 20 -V"
meet "rping -s -a $gid -C 20" "rping -c -a $gid -C 20 -V"
meet 'rping -s -C 20' "rping -c -a $ipv4 -C 20 -V" host1
meet ucmatose "ucmatose -s $ipv4"
meet udaddy "udaddy -s $ipv4"
meet rdma_server "rdma_client -s $ipv4"

# The server of perftest closes its listener after the first of two connections, and listens anew.
for program in ib_write_bw ib_read_lat ib_send_bw; do
	meet "$program -R -F -n 200" "$program -R -F -n 200 $ipv4"
done

# fails EVENT ADDRESS: the client gets that event.
fails() {
	URNIC_LOG=info host host3 rping -c -a "$2" -C 1 >"$scratch/client" 2>&1 && fail "$2 is reached"
	grep -q "$1" "$scratch/client" || fail "$1: $(cat "$scratch/client")"
}

fails 'RDMA_CM_EVENT_ADDR_ERROR, error -113' 100.64.0.99
fails 'RDMA_CM_EVENT_ROUTE_ERROR, error -113' fe80::1:2:3
grep -q '^urnic.*: the subnet administrator knows no path' "$scratch/client" ||
	fail "no sentence: $(cat "$scratch/client")"

# The subnet manager is dead, and no other one takes over, because the embedded one is disabled:
# queries end after their timeout.
printf 'force_log_flush TRUE\nsm_priority 1\n' >"$scratch/opensm.conf"
OSM_TMP_DIR=$scratch/ OSM_CACHE_DIR=$scratch/ host host2 opensm -f "$scratch/opensm.log" \
	-F "$scratch/opensm.conf" >"$scratch/opensm" 2>&1 &
await 'OpenSM brings the subnet up' grep -qs 'SUBNET UP' "$scratch/opensm.log"
opensm=$("$urnic" fabric --name "$name" clients | sed -n 's/process \([0-9]*\) on "host2".*/\1/p')
meet 'rping -s -C 20' "rping -c -a $ipv4 -C 20 -V"
embedded=$("$urnic" fabric --name "$name" dump spine | sed -n 's/.* lid \([0-9]*\) lmc .*/\1/p' | head -n 1)
is_disabled() {
	host host1 sminfo "$embedded" 3 >"$scratch/sminfo" 2>&1
	host host1 sminfo "$embedded" 2>&1 | grep -q NOTACT
}
await 'the embedded manager is disabled' is_disabled
kill -STOP "$opensm"
fails 'RDMA_CM_EVENT_ADDR_ERROR, error -110' "$ipv4"
fails 'RDMA_CM_EVENT_ROUTE_ERROR, error -110' "$gid"
grep -q '^urnic.*: the subnet administrator does not answer' "$scratch/client" ||
	fail "no sentence: $(cat "$scratch/client")"
kill -KILL "$opensm"

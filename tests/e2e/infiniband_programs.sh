#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# UCX and libfabric over an InfiniBand fabric, between hosts that are two, three and five hops
# apart, and what perftest says of its programs for Ethernet.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

need fi_pingpong raw_ethernet_bw ucx_perftest
fabric_up chain
await 'the ports are active' ports_are Active $ports

# --- perftest: two of its programs are for Ethernet ---

for program in raw_ethernet_bw raw_ethernet_lat; do
	on host1 timeout 60 "$urnic" run $view -- $program --server -B 02:00:00:00:00:01 -E 02:00:00:00:00:02 -d ibp0 \
		>"$scratch/raw" 2>&1 && fail "$program runs over InfiniBand"
	grep -qi 'ethernet' "$scratch/raw" || fail "$program: $(cat "$scratch/raw")"
done

# --- libfabric ---

port=47592
on host1 "$urnic" run $view -- fi_info -p verbs >"$scratch/info" 2>&1 ||
	fail "fi_info: $(cat "$scratch/info")"
for protocol in FI_PROTO_RDMA_CM_IB_RC FI_PROTO_IB_UD FI_PROTO_RXM FI_PROTO_RXD; do
	grep -q "protocol: $protocol\$" "$scratch/info" || fail "fi_info has no $protocol"
done

# ping_pong HOST OPTIONS...: with comparison of the data.
ping_pong() {
	host=$1
	shift
	pair host1 "$host" 127.0.0.1 fi_pingpong -c -I 20 "$@"
	for side in server client; do
		grep -q '^4k ' "$scratch/$side" || fail "$* prints no figures: $(cat "$scratch/$side")"
		! grep -qi error "$scratch/$side" || fail "$*: $(grep -i error "$scratch/$side")"
	done
}
for host in host2 host3 host4; do
	ping_pong $host -p verbs -e dgram
	ping_pong $host -p 'verbs;ofi_rxd' -e rdm
done

# --- UCX; it looks into /sys ---

view=--view
reason=$("$urnic" run $view true 2>&1) || skip "no private view here: $reason"
ucx_info -b | grep -q 'uct_MODULES.*:ib' || skip 'UCX was built here without its module for verbs'
port=13337
export UCX_NET_DEVICES=ibp0:1
without_mpi=
! ucx_perftest -h 2>&1 | grep -q '^ *-P <0|1>' || without_mpi='-P 0'

on host1 "$urnic" run $view -- ucx_info -d >"$scratch/info" 2>&1
for transport in rc_verbs ud_verbs; do
	grep -q "Transport: $transport" "$scratch/info" || fail "UCX has no $transport"
done

# ucx CLIENT-HOST OPTIONS...
ucx() {
	host=$1
	shift
	# shellcheck disable=SC2086
	pair host1 "$host" 127.0.0.1 ucx_perftest $without_mpi -n 200 -w 10 "$@"
	grep -q '^Final: ' "$scratch/client" || fail "ucx_perftest $*: $(cat "$scratch/client")"
}
for host in host2 host3 host4 host1; do
	ucx $host -d ibp0:1 -x rc_verbs -t am_lat
	ucx $host -d ibp0:1 -x rc_verbs -t put_bw
	ucx $host -d ibp0:1 -x ud_verbs -t am_bw
done
for transport in rc_v ud_v; do
	export UCX_TLS=$transport,self
	for test in tag_lat tag_bw ucp_put_bw ucp_get ucp_fadd stream_bw; do
		ucx host4 -t $test
	done
	ucx host3 -t tag_bw -s 1000000 -n 20
done

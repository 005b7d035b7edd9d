#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# libfabric's verbs provider: connections, datagrams, and the reliable datagrams that its rxm and
# rxd make of them.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need fi_info fi_pingpong
port=47592
network_up 9000

# Each kind of endpoint, on the interface's device; libfabric leaves out loopback.
on a "$urnic" run --no-view fi_info -p verbs >"$scratch/info" 2>&1 || fail "fi_info: $(cat "$scratch/info")"
for protocol in FI_PROTO_RDMA_CM_IB_RC FI_PROTO_IB_UD FI_PROTO_RXM FI_PROTO_RXD; do
	grep -q "protocol: $protocol\$" "$scratch/info" || fail "fi_info has no $protocol"
done

# ping_pong CLIENT-HOST ADDRESS OPTIONS...: all sizes, with comparison of the data. The failure of a
# single attempt is only printed.
ping_pong() {
	host=$1 address=$2
	shift 2
	pair a "$host" "$address" fi_pingpong -c -I 20 "$@"
	for side in server client; do
		grep -q '^4k ' "$scratch/$side" || fail "$* prints no figures: $(cat "$scratch/$side")"
		! grep -qi error "$scratch/$side" || fail "$*: $(grep -i error "$scratch/$side")"
	done
}
for host in b a; do
	ping_pong $host 10.99.0.1 -p verbs -e msg
	ping_pong $host 10.99.0.1 -p verbs -e rdm
	ping_pong $host 10.99.0.1 -p 'verbs;ofi_rxd' -e rdm
	ping_pong $host 10.99.0.1 -p verbs -e dgram
done
ping_pong b fd00:99::1 -6 -p verbs -e msg
ping_pong b fd00:99::1 -6 -p verbs -e rdm -m tagged

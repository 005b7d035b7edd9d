#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# URNIC_LOG=info: a program says once which device it uses, and once per peer which path its data
# takes.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ib_write_bw
network_up 9000
export URNIC_INTERFACES=veth0

# says SIDE TIMES TEXT: the line is there so often.
says() {
	[ "$(grep -c "^urnic\[[0-9]*\]: $3" "$scratch/$1")" = "$2" ] ||
		fail "the $1 does not say '$3' $2 times: $(cat "$scratch/$1")"
}

bw="ib_write_bw -F -d rocep_veth0 -n 100 -q 4"
local='is process [0-9]* of this host: data passes through shared memory, not through packets$'
# shellcheck disable=SC2086
pair a a 10.99.0.1 $bw
for side in server client; do
	says $side 0 ''
done

export URNIC_LOG=info
# shellcheck disable=SC2086
pair a a 10.99.0.1 $bw
for side in server client; do
	says $side 1 'device rocep_veth0 is used: RoCE on veth0, 10.99.0.1, MTU 9000, RDMA path MTU 4096$'
	says $side 1 "peer 10.99.0.1 $local"
	says $side 0 'peer .*reached by packets'
done
# shellcheck disable=SC2086
URNIC_LOCAL=off pair a a 10.99.0.1 $bw
says client 1 'peer 10.99.0.1 is reached by packets: URNIC_LOCAL is off$'
# shellcheck disable=SC2086
URNIC_IMPAIR=duplicate=1% pair a a 10.99.0.1 $bw
says client 1 'peer 10.99.0.1 is reached by packets: URNIC_IMPAIR or URNIC_FAULTS impairs them$'
# shellcheck disable=SC2086
pair a b 10.99.0.1 $bw
why='no process of this user that is visible here has its queue pair$'
says client 1 "peer 10.99.0.1 is reached by packets: $why"
says server 1 "peer 10.99.0.2 is reached by packets: $why"

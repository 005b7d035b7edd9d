#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# yama: which processes a program admits to its memory, and what it says where yama forbids the
# access of its peers. The kernel's file is a file of this test, so the kernel need not have yama.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ibv_rc_pingpong ib_write_bw
tests=$(dirname "$0")
refuse="$programs/refuse"
network_up
export URNIC_INTERFACES=veth0
mkdir -p "$scratch/kernel/yama"
on a unshare -m "$tests/mounted.sh" "$scratch/kernel" /proc/sys/kernel true 2>/dev/null ||
	skip 'this user may mount nothing at /proc/sys/kernel'

# with_scope SCOPE PROGRAM...: on host a, where the file says SCOPE.
with_scope() {
	echo "$1" >"$scratch/kernel/yama/ptrace_scope"
	shift
	on a unshare -m "$tests/mounted.sh" "$scratch/kernel" /proc/sys/kernel "$@"
}

# A program with a queue pair, which the sandbox kills when it admits others. It ends with 1, as
# there is no server.
pingpong="$urnic run --no-view -- ibv_rc_pingpong -d rocep_veth0 -g 0 127.0.0.1"
for row in '1 on 159' '1 off 1' '0 on 1' '2 on 1'; do
	set -- $row
	# shellcheck disable=SC2086
	said=$(URNIC_LOCAL=$2 with_scope "$1" "$refuse" ptracer KILL $pingpong 2>&1)
	status=$?
	[ $status = "$3" ] || fail "scope $1, URNIC_LOCAL=$2: it ends with $status: $said"
done
# shellcheck disable=SC2086
said=$(on a "$refuse" ptracer KILL $pingpong 2>&1)
[ $? = 1 ] || [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null)" = 1 ] ||
	fail "without yama it admits others: $said"

# bw_pair SCOPE: both ends on host a. The sandbox refuses what yama would.
bw_pair() {
	with_scope "$1" "$refuse" process_vm_readv EPERM "$urnic" run --no-view -- \
		timeout 120 ib_write_bw -F -d rocep_veth0 -n 100 -q 4 >"$scratch/server" 2>&1 &
	server=$!
	wait_for_port a 18515 $server || fail "the server ends: $(cat "$scratch/server")"
	with_scope "$1" "$refuse" process_vm_readv EPERM "$urnic" run --no-view -- \
		timeout 120 ib_write_bw -F -d rocep_veth0 -n 100 -q 4 10.99.0.1 >"$scratch/client" 2>&1 ||
		fail "scope $1: the client: $(cat "$scratch/client")"
	wait $server || fail "scope $1: the server: $(cat "$scratch/server")"
}

said_by() {
	grep -c 'is on this host, but packets are needed to reach it: '"$2" "$scratch/$1"
}

for scope in 1 2; do
	bw_pair $scope
	for side in server client; do
		[ "$(said_by $side "yama forbids process_vm_readv (.sysctl kernel.yama.ptrace_scope=$((scope - 1 ? 1 : 0)). allows it)")" = 1 ] ||
			fail "scope $scope: the $side says: $(cat "$scratch/$side")"
	done
done
bw_pair 0
[ "$(said_by server '')$(said_by client '')" = 00 ] || fail "unasked it says: $(cat "$scratch/client")"
URNIC_LOG=info bw_pair 0
[ "$(said_by client 'process_vm_readv: Operation not permitted: a sandbox (seccomp) or ')" -ge 1 ] ||
	fail "URNIC_LOG=info: it says: $(cat "$scratch/client")"

# With yama in the kernel: two processes of an ordinary user meet all the same.
[ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null)" = 1 ] && [ "$(id -u)" = 0 ] || exit 0
as_user='setpriv --reuid=65534 --regid=65534 --clear-groups'
chmod 755 "$scratch"
no_urnicd() {
	[ -z "$(urnicd_of a)" ]
}
await "root's urnicd stays" no_urnicd
# shellcheck disable=SC2086
start server a $as_user "$programs/verify" -d rocep_veth0 -w mixed -n 100000000
# shellcheck disable=SC2086
start client a $as_user "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 10.99.0.1
await 'the two use packets' has_counted 100 a "$(process client)" local_requests
kill "$(process server)" "$(process client)"
finish server
finish client

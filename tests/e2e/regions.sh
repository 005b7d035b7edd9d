#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Registered memory under threads, allocators and forks: with each value of URNIC_MR it behaves like
# other memory. REGIONS_SECONDS: how long each part runs, instead of 2.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

seconds=${REGIONS_SECONDS:-2}
network_up 9000

# regions POLICY [VARIABLE=VALUE...]: prints how often memory was moved.
regions() {
	policy=$1
	shift
	on a timeout $((seconds * 4 + 240)) env URNIC_MR="$policy" "$@" \
		"$urnic" run --no-view -- "$programs/regions" -d rocep_veth0 -n "$seconds"
}

expect_moved() {
	what=$1
	shift
	output=$(regions map "$@") || fail "$what: $output"
	case $output in *' 0 times moved'*) fail "$what: no memory was moved" ;; esac
	echo "$what: $output"
}

library() {
	ldconfig -p | sed -n "s/.*$1.* => //p" | head -n 1
}

expect_moved glibc MALLOC_TRIM_THRESHOLD_=65536
output=$(regions copy) || fail "copy: $output"
case $output in *' 0 times moved'*) ;; *) fail "copy: memory was moved: $output" ;; esac
on a timeout 240 env URNIC_MR=map "$urnic" run --no-view -- "$programs/forks" -d rocep_veth0 >/dev/null ||
	fail "forks over moved memory end with $?"
port=18600
for mode in 'on auto' 'on copy' 'off map'; do
	export URNIC_LOCAL="${mode% *}" URNIC_MR="${mode#* }"
	pair a a 10.99.0.1 "$programs/regions_peer" -d rocep_veth0 -n $((seconds * 10))
	[ "$URNIC_MR" = copy ] || ! grep -q ' 0 times moved' "$scratch/server" ||
		fail "peer, $mode: no memory was moved"
	echo "peer, $mode: $(cat "$scratch/server")"
done
unset URNIC_LOCAL URNIC_MR
jemalloc=$(library libjemalloc.so.2)
tcmalloc=$(library libtcmalloc_minimal.so.4)
[ -n "$jemalloc" ] && [ -n "$tcmalloc" ] || skip 'no jemalloc or tcmalloc here'
expect_moved jemalloc LD_PRELOAD="$jemalloc" MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0
expect_moved tcmalloc LD_PRELOAD="$tcmalloc" TCMALLOC_RELEASE_RATE=10

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# bpftrace counts the static tracepoints of two unmodified programs. Skipped where the kernel has no
# BPF or no uprobes.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need bpftrace ib_write_bw
library=$(realpath "$1/lib/liburnic.so")
readelf -n "$library" | grep -q 'Provider: urnic' || skip 'this build has no <sys/sdt.h>'
[ "$(id -u)" = 0 ] || skip 'bpftrace needs root'
bpftrace -e "usdt:$library:urnic:post_send { exit(); } interval:ms:10 { exit(); }" \
	>"${TMPDIR:-/tmp}/bpf-$$" 2>&1 || why=$(tail -n 1 "${TMPDIR:-/tmp}/bpf-$$")
rm -f "${TMPDIR:-/tmp}/bpf-$$"
[ -z "${why:-}" ] || skip "bpftrace does not run here: $why"

network_up
program=
for name in post_send packet_sent packet_received state_changed completion; do
	program="$program usdt:$library:urnic:$name { @$name = count(); }"
done
bpftrace -e "BEGIN { printf(\"ready\\n\"); } $program" >"$scratch/bpf" 2>&1 &
tracer=$!
await 'bpftrace does not begin' grep -q ready "$scratch/bpf"
port=18515
pair a b 10.99.0.1 ib_write_bw -F -d rocep_veth0 -n 500 -s 8
kill -INT $tracer
wait $tracer
for name in post_send packet_sent packet_received state_changed completion; do
	count=$(sed -n "s/^@$name: //p" "$scratch/bpf")
	[ "${count:-0}" -gt 1 ] || fail "$name fired ${count:-0} times: $(cat "$scratch/bpf")"
done
tr '\n' ' ' <"$scratch/bpf"

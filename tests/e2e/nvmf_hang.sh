#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A file of the target that hangs does not stop another one. The file is a FUSE export of a
# namespace whose target is stopped, so the kernel's threads that read it wait.
. "$(dirname "$0")/common.sh"

[ -w /dev/fuse ] && command -v fusermount3 >/dev/null && [ "$(id -u)" = 0 ] ||
	skip 'needs root, /dev/fuse and fusermount3'
nvmf=$1/urnic-nvmf
program=$1/urnic-nvmf-target
files=$(mktemp -d)
port=$((31000 + $$ % 500))
nqn=nqn.2026-01.org.example:disk
far=
near=
export=
bench=
trap 'kill -KILL $bench $near $export $far 2>/dev/null; umount -l "$files/far" 2>/dev/null; rm -rf "$files"' EXIT

# start_target NAME PORT NAMESPACES: its process is in $started.
start_target() {
	cat >"$files/$1.json" <<END
{ "subsystems": [ { "nqn": "$nqn", "attr": { "allow_any_host": 1 }, "namespaces": [ $3 ] } ],
  "ports": [ { "portid": 1, "subsystems": [ "$nqn" ],
      "addr": { "trtype": "tcp", "traddr": "127.0.0.1", "trsvcid": "$2" } } ] }
END
	: >"$files/$1.log"
	"$program" -c "$files/$1.json" >"$files/$1.log" 2>&1 &
	started=$!
	await "the target does not start: $(cat "$files/$1.log")" grep -q ready "$files/$1.log"
}

# Threads of the near target that wait for the file that hangs.
waiting_threads() {
	cat /proc/$near/task/*/stat 2>/dev/null | grep -c '(iou-wrk[^)]*) D'
}

has_waiting_threads() {
	[ "$(waiting_threads)" -ge 4 ]
}

: >"$files/export"
truncate -s 16M "$files/own"
start_target far $port '{ "nsid": 1, "device": { "memory": "16M" } }'
far=$started
"$nvmf" export -a 127.0.0.1 -s $port -n $nqn -k 0 --fuse "$files/far" >"$files/export" 2>&1 &
export=$!
await "no export: $(cat "$files/export")" grep -q '^fuse' "$files/export"
start_target near $((port + 500)) "{ \"nsid\": 1, \"device\": { \"path\": \"$files/far\" } },
    { \"nsid\": 2, \"device\": { \"path\": \"$files/own\" } }"
near=$started

# As many reads as the kernel has threads by default on two processors, each of another block.
kill -STOP $far
"$nvmf" bench -a 127.0.0.1 -s $((port + 500)) -n $nqn -N 1 --rw randread --iodepth 8 --runtime 600 \
	--quiet >"$files/bench" 2>&1 &
bench=$!
await 'no read waits for the file' has_waiting_threads
head -c 1M /dev/urandom >"$files/data"
timeout 100 "$nvmf" write -a 127.0.0.1 -s $((port + 500)) -n $nqn -N 2 --data "$files/data" ||
	fail 'a file that hangs stops writes to another one'
cmp -n 1048576 "$files/data" "$files/own" || fail 'other bytes were written'
has_waiting_threads || fail 'the reads did not wait'

kill -KILL $bench
wait $bench 2>/dev/null
kill -CONT $far
kill -TERM $near
await 'the target does not end' sh -c "! kill -0 $near 2>/dev/null"
kill -TERM $export
await 'the export does not end' sh -c "! kill -0 $export 2>/dev/null"
kill -TERM $far

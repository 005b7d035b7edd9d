#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A file of the target that hangs does not stop another one. The file is a FUSE export of a
# namespace whose target is stopped, so the kernel's threads that read it wait. Nor does a device: a
# loop device on that file, with more requests than the kernel has room for.
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
device=
trap 'kill -KILL $bench $near $export $far 2>/dev/null; umount -l "$files/far" 2>/dev/null
	[ -z "$device" ] || losetup -d "$device"; rm -rf "$files"' EXIT

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
	[ "$(waiting_threads)" -ge "$1" ]
}

: >"$files/export"
truncate -s 16M "$files/own"
start_target far $port '{ "nsid": 1, "device": { "memory": "16M" } }'
far=$started
"$nvmf" export -a 127.0.0.1 -s $port -n $nqn -k 0 --fuse "$files/far" >"$files/export" 2>&1 &
export=$!
await "no export: $(cat "$files/export")" grep -q '^fuse' "$files/export"
namespaces="{ \"nsid\": 1, \"device\": { \"path\": \"$files/far\" } },
    { \"nsid\": 2, \"device\": { \"path\": \"$files/own\" } }"
if device=$(losetup --find --show "$files/far" 2>/dev/null); then
	namespaces="$namespaces, { \"nsid\": 3, \"device\": { \"path\": \"$device\" } }"
fi
start_target near $((port + 500)) "$namespaces"
near=$started

# read_all NSID DEPTH: read blocks at random while the file hangs.
read_all() {
	"$nvmf" bench -a 127.0.0.1 -s $((port + 500)) -n $nqn -N $1 --rw randread --iodepth $2 \
		-i 4 --runtime 600 --quiet >"$files/bench$1" 2>&1 &
	bench="$bench $!"
}

head -c 1M /dev/urandom >"$files/data"

# other_file WHAT: what hangs does not stop a write to the other file.
other_file() {
	timeout 100 "$nvmf" write -a 127.0.0.1 -s $((port + 500)) -n $nqn -N 2 --data "$files/data" ||
		fail "$1 that hangs stops writes to another one"
	cmp -n 1048576 "$files/data" "$files/own" || fail 'other bytes were written'
}

# As many reads as the kernel has threads by default on two processors, each of another block.
kill -STOP $far
read_all 1 8
await 'no read waits for the file' has_waiting_threads 4
other_file 'a file'
has_waiting_threads 4 || fail 'the reads did not wait'
if [ -n "$device" ]; then
	read_all 3 384
	await 'no read waits for the device' has_waiting_threads 100
	other_file 'a device'
fi

kill -KILL $bench
kill -CONT $far
kill -TERM $near
await 'the target does not end' sh -c "! kill -0 $near 2>/dev/null"
[ -z "$device" ] || losetup -d "$device"
device=
kill -TERM $export
await 'the export does not end' sh -c "! kill -0 $export 2>/dev/null"
kill -TERM $far

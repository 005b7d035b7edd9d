#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A program with too few open files, or without /proc, works, or prints what to raise.
. "$(dirname "$0")/../e2e/common.sh"

network_up
said=$(mktemp)
trap 'rm -f "$said"; at_exit' EXIT
program=$1/tests/attack/unloaded

for limit in $(seq 4 2 26) 32 40 48 56 64 80; do
	on a timeout 60 "$urnic" run --no-view -- \
		sh -c "ulimit -n $limit && exec \"\$0\"" "$program" >"$said" 2>&1
	status=$?
	[ $status -le 1 ] || fail "with $limit open files the program ends with $status"
	[ $status = 0 ] || grep -q '^urnic\[.*ulimit -n' "$said" ||
		fail "with $limit open files no sentence says so: $(cat "$said")"
done
[ $status = 0 ] || fail "80 open files are too few: $(cat "$said")"

unshare -m true 2>/dev/null || exit 0
on a unshare -m sh -c 'mount -t tmpfs none /proc && LD_LIBRARY_PATH=$1 exec timeout 60 "$0"' \
	"$program" "$1/lib" >"$said" 2>&1 || grep -q '^urnic\[' "$said" ||
	fail "without /proc no sentence says so: $(cat "$said")"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# System calls of a program, or of its urnicd, fail. The program gets an error sentence or a
# completion with an error; it never aborts or hangs.
#
# syscall_faults.c says what the variable SYSCALL_FAULTS, and further arguments, choose.
. "$(dirname "$0")/../e2e/common.sh"
build=$1
shift
[ -x "$build/tests/attack/syscall_faults" ] || skip 'the table of system calls is that of x86-64'
scratch=$(mktemp -d /tmp/urnic-e2e.XXXXXX)

network_up 9000
export URNICD_LOG="$scratch/urnicd.log"
# A process on the other host, whose network namespace it is.
on b sh -c 'echo $$ >"$0" && exec sleep 3600' "$scratch/there.pid" >/dev/null 2>&1 &
await 'no process on host b' test -s "$scratch/there.pid"
on a "$urnic" run --no-view -- "$build/tests/attack/syscall_faults" "/proc/$(cat "$scratch/there.pid")/ns/net" 10.99.0.2 10.99.0.1 "$@" ||
	fail "system calls that fail do harm: $?"

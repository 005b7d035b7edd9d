#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Packets that a peer may not send, and some that it may. frames.expected has urnic's reaction to
# each, and the reaction of the kernel's rxe.
here=$(dirname "$0")
. "$here/../e2e/common.sh"

network_up 9000
scratch=$(mktemp -d /tmp/urnic-e2e.XXXXXX)
on a timeout 240 "$urnic" run --no-view -- "$1/tests/interop/target" >"$scratch/target" 2>&1 &
target=$!
on b timeout 240 /usr/bin/python3 "$here/frames" 10.99.0.2 10.99.0.1 urnic >"$scratch/seen" ||
	fail "$(cat "$scratch/target")"
wait $target || fail "the target ends with $?: $(cat "$scratch/target")"
grep -v '^#' "$here/frames.expected" | cut -f 1-2 >"$scratch/expected"
diff "$scratch/expected" "$scratch/seen" || fail 'not what is expected'
echo "$(wc -l <"$scratch/seen") cases"

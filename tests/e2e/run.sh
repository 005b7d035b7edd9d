#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic run: the library path, the exit status of what it runs, and what it says that it could not
# give.
. "$(dirname "$0")/common.sh"

libraries=$("$urnic" run --print) || fail 'run --print'
[ -e "$libraries/liburnic.so" ] || fail "no library in $libraries"
path=$(LD_LIBRARY_PATH=/before "$urnic" run -- sh -c 'echo "$LD_LIBRARY_PATH"')
[ "$path" = "$libraries:/before" ] || fail "the library path is $path"
"$urnic" run sh -c 'exit 5'
[ $? = 5 ] || fail 'the exit status is not the program'\''s'
"$urnic" run -- /no/such/program 2>/dev/null
[ $? = 127 ] || fail 'a missing program is not 127'
"$urnic" run 2>/dev/null
[ $? = 2 ] || fail 'no program is not a usage error'

# A view of /sys that a sandbox refuses: one line, which names the call; with --view an error.
refuse=$1/tests/e2e/refuse
said_of() {
	said=$("$@" 2>&1)
	status=$?
}
said_of "$refuse" unshare ENOSYS "$urnic" run true
[ $status = 0 ] && [ "$(echo "$said" | wc -l)" = 1 ] &&
	echo "$said" | grep -q '^urnic: run: .*(unshare(CLONE_NEWNS): Function not implemented), so UCX .*--no-view hides' ||
	fail "without unshare it ends with $status: $said"
for quiet in "env URNIC_LOG=off $urnic run" "$urnic run --no-view"; do
	# shellcheck disable=SC2086
	said_of "$refuse" unshare ENOSYS $quiet true
	[ "$status$said" = 0 ] || fail "$quiet says: $said"
done
said_of "$refuse" mount EPERM "$urnic" run --view true
[ $status = 1 ] && echo "$said" | grep -qE 'refuses a private view of /sys and /dev: (mount|unshare)\(' ||
	fail "--view without mount ends with $status: $said"

for command in run doctor env devices stat top capture explain pair host; do
	"$urnic" "$command" --help | grep -q '^usage: urnic' || fail "$command --help"
done

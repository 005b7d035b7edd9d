#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic run: the library path, and the exit status of what it runs.
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
for command in run devices stat explain host; do
	"$urnic" "$command" --help | grep -q '^usage: urnic' || fail "$command --help"
done

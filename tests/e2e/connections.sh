#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A thousand connections one after the other and two hundred at once, several times: neither side
# leaks resources, nor does urnicd.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

network_up 9000
# connections.c says why.
export GLIBC_TUNABLES=glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1
listen server a "$programs/connections" server 10.99.0.1
start client b "$programs/connections" client 10.99.0.1
finish_well client
cat "$scratch/client"

# held HOST: the ports that urnicd has given away there.
held() {
	on "$1" "$urnic" stat --all | awk '$1 == "claims_held" { print $2 }'
}
[ "$(held a)" = 1 ] || fail "$(held a) ports are claimed where one listener is"
kill "$(process server)"
finish server
# urnicd sees the processes end, and leaves only later.
for _ in $(seq 200); do
	[ "$(held a)" = 0 ] && [ "$(held b)" = 0 ] && exit 0
	sleep 0.05
done
fail "ports are claimed by nobody: $(held a), $(held b)"

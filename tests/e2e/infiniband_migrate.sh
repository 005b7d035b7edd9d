#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A connection between two hosts with two ports each moves to the second ports when the cable of a
# first port is cut, and back when the program requests it.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

fabric_up chain
await 'the ports are active' ports_are Active $ports
cat >"$scratch/mend" <<-END
	"$urnic" fabric --name "$fabric" relink 'host6[1]'
	until [ "\$("$urnic" fabric --name "$fabric" dump | grep -c '	Active')" = $ports ]; do
		sleep 0.1
	done
END
export MIGRATE_CUT="$urnic fabric --name $fabric unlink 'host6[1]'" MIGRATE_MEND="sh $scratch/mend"
port=18600
pair host5 host6 127.0.0.1 "$programs/migrate" -w ports -t 13 -r 3
cat "$scratch/client"
exit 0

# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# An InfiniBand fabric for a test; sourced after pairs.sh, whose functions then run programs on the
# fabric's hosts instead of the test network's. It makes no network, and needs no root.

fabric=fabric-$$
fabric_process=
trap 'fabric_end; rm -rf "$scratch"' EXIT
trap 'exit 143' TERM

fabric_end() {
	for file in "$scratch"/*.pid; do
		[ ! -e "$file" ] || kill -KILL "$(cat "$file")"
	done 2>/dev/null
	[ -z "$fabric_process" ] || kill $fabric_process
	wait
}

on() {
	on_host=$1
	shift
	URNIC_FABRIC="$fabric:$on_host" "$@"
}

fabric() {
	"$urnic" fabric --name "$fabric" "$@"
}

# prints NAME EXPRESSION: does the output of what `start` has started have such a line?
prints() {
	grep -Eqs -- "$2" "$scratch/$1"
}

# ports_are STATE COUNT: how many ports of hosts and switches are in that state.
ports_are() {
	[ "$(fabric dump | grep -c "	$1")" = "$2" ]
}

# fabric_up TOPOLOGY [OPTIONS]: a file of examples/infiniband, or of the test's own.
fabric_up() {
	topology=$1
	shift
	[ -e "$topology" ] || topology=$(dirname "$0")/../../examples/infiniband/$topology.topo
	rm -f "$scratch/up" # of an earlier fabric
	"$urnic" fabric up --name "$fabric" "$@" "$topology" >"$scratch/up" 2>&1 &
	fabric_process=$!
	await 'the fabric is up' prints up ' is up: '
	links=$(sed -n 's/.* \([0-9]*\) cables$/\1/p' "$scratch/up")
	switches=$(sed -n 's/.*: \([0-9]*\) switches.*/\1/p' "$scratch/up")
	ports=$((2 * links + switches)) # a switch has a port 0
}

# lid_of NODE: of its first port that has one.
lid_of() {
	fabric dump "$1" | sed -n 's/.* lid \([0-9]*\) lmc .*/\1/p' | head -n 1
}

# stand_in NODE: the IPv4 address that stands for the LID.
stand_in() {
	lid=$(lid_of "$1")
	echo "100.64.$((lid / 256)).$((lid % 256))"
}

# opensm_run NAME NODE: Debian's OpenSM, with the options in $scratch/NAME.conf.
opensm_run() {
	export OSM_TMP_DIR="$scratch/" OSM_CACHE_DIR="$scratch/"
	echo 'force_log_flush TRUE' >>"$scratch/$1.conf"
	start "$1" "$2" opensm -f "$scratch/$1.log" -F "$scratch/$1.conf"
}

# manager NAME NODE PRIORITY: an OpenSM that often looks for the other managers.
manager() {
	cat >"$scratch/$1.conf" <<-END
		sm_priority $3
		sminfo_polling_timeout 500
		polling_retry_number 2
	END
	opensm_run "$1" "$2"
}

# opensm_start NAME NODE: the same, until it has set up the subnet.
opensm_start() {
	opensm_name=$1
	opensm_run "$1" "$2"
	await 'OpenSM brings the subnet up' grep -qs 'SUBNET UP' "$scratch/$opensm_name.log"
	await 'the ports are active' ports_are Active $ports
}

# gid_of NODE: the first GID of its first port.
gid_of() {
	on "$1" "$urnic" run $view -- ibv_devinfo -v 2>&1 |
		sed -n 's/.*GID\[  0\]:[^0-9a-f]*\([0-9a-f:]*\).*/\1/p' | head -n 1
}

# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# Three hosts on one link, for attacks by a third: network namespaces `victim`, `peer` and
# `stranger` on a bridge, each with eth0 and the addresses 10.99.0.1 and fd99::1, .2 and ::2, .3 and
# ::3. A script sources this first; without privileges it runs again as root of a user namespace.

if [ "$(id -u)" != 0 ]; then
	unshare -Ur true 2>/dev/null || { echo 'neither root nor user namespaces here'; exit 77; }
	exec unshare -Ur sh "$0" "$@"
fi
. "$(dirname "$0")/../e2e/common.sh"
export URNIC_LOCAL=off # one machine plays three hosts

host_bridge=

# in_host NAME COMMAND...
in_host() {
	host_pid=
	eval "host_pid=\$host_$1"
	shift
	nsenter -t "$host_pid" -n -- "$@"
}

# host_make NAME NUMBER: a namespace that lives as long as a process that sleeps in it.
host_make() {
	unshare -n sleep 1000 &
	eval "host_$1=$!"
	host_pids="${host_pids:-} $!"
	await "host $1 has no namespace of its own" host_is_apart "$!"
	[ "$1" = bridge ] && return
	nsenter -t "$host_bridge" -n -- ip link add "to_$1" mtu 9000 type veth \
		peer name eth0 mtu 9000 netns "$!" &&
		nsenter -t "$host_bridge" -n -- ip link set "to_$1" master br0 up &&
		in_host "$1" ip addr add "10.99.0.$2/24" dev eth0 &&
		in_host "$1" ip addr add "fd99::$2/64" dev eth0 nodad &&
		in_host "$1" ip link set eth0 up && in_host "$1" ip link set lo up ||
		fail "cannot make host $1"
}

host_is_apart() {
	[ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]
}

mac_of() {
	in_host "$1" ip -br link show eth0 | awk '{print $3}'
}

link_down() {
	# shellcheck disable=SC2086 # a list of numbers on purpose
	kill -KILL ${link_programs:-} ${host_pids:-} 2>/dev/null
	[ -z "${scratch:-}" ] || rm -rf "$scratch"
}

link_up() {
	trap link_down EXIT
	trap 'exit 1' INT TERM
	scratch=$(mktemp -d)
	unshare -n true 2>/dev/null || skip 'no network namespaces here'
	host_make bridge
	nsenter -t "$host_bridge" -n -- ip link add br0 mtu 9000 type bridge &&
		nsenter -t "$host_bridge" -n -- ip link set br0 up || skip 'no bridges here'
	host_make victim 1
	host_make peer 2
	host_make stranger 3
}

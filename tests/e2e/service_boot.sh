#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnicd.service under a systemd: this machine's files, with urnic installed, are booted in a
# container. An ordinary user's programs work through the service, also while it restarts or is
# killed, under all that the unit forbids.
[ "$(id -u)" = 0 ] || { echo 'a system is booted by root'; exit 77; }
# What is mounted goes with the namespace.
if [ "${SERVICE_INSIDE:-}" = '' ]; then
	SERVICE_INSIDE=yes exec unshare --mount sh "$0" "$@"
fi
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
need systemd-nspawn systemctl nsenter setpriv meson
build=$(realpath "$1")
port=18600

store=$(mktemp -d /dev/shm/urnic-e2e.XXXXXX) # an overlay's upper layer may not be below its lower one
files=$store/files
machine_end() {
	[ -z "${nspawn:-}" ] || { kill $nspawn && wait $nspawn; } 2>/dev/null
	at_exit
	umount "$files"
	rm -rf "$store"
}
mkdir "$files" "$store/upper" "$store/work"
mount -t overlay -o "lowerdir=/,upperdir=$store/upper,workdir=$store/work" overlay "$files" || {
	rm -rf "$store" "$scratch"
	skip "no overlay of this machine's files"
}
network_up 9000
trap 'machine_end' EXIT

DESTDIR=$files meson install --no-rebuild --quiet -C "$build" >"$scratch/install" 2>&1 ||
	fail "$(cat "$scratch/install")"
installed=$(cd "$store/upper" && find . -path '*/bin/urnic' | sed 's|^\.||')
unit=$(cd "$store/upper" && find . -name urnicd.service | sed 's|^\.||')
# Of this machine's own services none is to start.
rm -rf "$files"/etc/systemd/system/*
cp "$files$unit" "$files/etc/systemd/system"
echo 0123456789abcdef0123456789abcdef >"$files/etc/machine-id"

# systemd in the container needs cgroup2 alone at /sys/fs/cgroup; a machine may have it elsewhere
# or not at all.
mkdir -p /run/systemd && mount -t tmpfs tmpfs /run/systemd
if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
	umount /sys/fs/cgroup/unified
	umount --recursive --lazy /sys/fs/cgroup
	mount -t cgroup2 cgroup2 /sys/fs/cgroup || skip 'no cgroup2'
fi 2>/dev/null
SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --register=no --keep-unit --link-journal=no \
	--machine "$network" --directory "$files" --bind-ro="$build" \
	--network-namespace-path="/run/netns/urnic-$network-a" --capability=CAP_NET_ADMIN --boot --console=pipe \
	systemd.unit=basic.target </dev/null >"$scratch/console" 2>&1 &
nspawn=$!

# inside PROGRAM...: in the container.
inside() {
	leader=$(cat "/proc/$nspawn/task/$nspawn/children")
	nsenter --target "${leader%% *}" --mount --pid --net --ipc --uts env -u NOTIFY_SOCKET "$@"
}

has_booted() {
	kill -0 $nspawn 2>/dev/null || skip "systemd-nspawn does not boot here: $(tail -n 3 "$scratch/console")"
	case $(inside systemctl is-system-running 2>/dev/null) in
	running | degraded) ;;
	*) false ;;
	esac
}
await 'the container boots' has_booted

# service VERB: of systemctl.
service() {
	inside systemctl "$1" urnicd >"$scratch/said" 2>&1 ||
		fail "systemctl $1: $(cat "$scratch/said"; inside journalctl --no-pager -u urnicd | tail -n 20)"
}

is_active() {
	[ "$(inside systemctl is-active urnicd)" = active ]
}

main_process() {
	inside systemctl show --property MainPID --value urnicd
}

service start
service status
grep -q 'Active: active (running)' "$scratch/said" || fail "its status: $(cat "$scratch/said")"
# CAP_NET_ADMIN, CAP_SYS_PTRACE, CAP_SYS_RESOURCE as far as this machine has them; a filter of
# system calls.
inside cat "/proc/$(main_process)/status" >"$scratch/status"
caps=$(awk '$1 == "CapBnd:" { print $2 }' "$scratch/status")
[ $((0x$caps & ~0x1081000)) = 0 ] && [ $((0x$caps)) != 0 ] || fail "urnicd has the capabilities $caps"
grep -q '^NoNewPrivs:.1$' "$scratch/status" && grep -q '^Seccomp:.2$' "$scratch/status" ||
	fail "urnicd is not confined: $(cat "$scratch/status")"

# as_user PROGRAM...: on urnic, in the container.
as_user() {
	inside setpriv --reuid=20001 --regid=20001 --clear-groups \
		timeout $pair_seconds "$installed" run --no-view -- "$@"
}

# moves_on WHEN: the client receives packets.
moves_on() {
	before=$(counter b "$(process client)" rcvd_pkts)
	await "data move $1" has_counted $((before + 1000)) b "$(process client)" rcvd_pkts
}

as_user "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 >"$scratch/server" 2>&1 &
server=$!
wait_for_port a $port $server || fail "no server: $(cat "$scratch/server")"
start client b "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 10.99.0.1
moves_on 'through the service'
[ -n "$(urnicds_on a)" ] && [ "$(urnicds_on a)" = "$(urnicds_on a | grep '^/run/urnic/')" ] || fail "there listen: $(urnicds_on a)"

service restart
moves_on 'after a restart'

# has_another_process: instead of $killed.
has_another_process() {
	is_active && [ "$(main_process)" != "$killed" ]
}
killed=$(main_process)
inside kill -KILL "$killed"
await 'systemd starts no other urnicd' has_another_process
moves_on 'after urnicd was killed'

kill "$(process client)"
finish client
wait $server

# Another program of that user, by a service that has just started again.
service restart
as_user "$programs/verify" -d rocep_veth0 -w mixed -n 500 >"$scratch/server" 2>&1 &
server=$!
wait_for_port a $port $server || fail "no server: $(cat "$scratch/server")"
start client b "$programs/verify" -d rocep_veth0 -w mixed -n 500 10.99.0.1
finish_well client
wait $server || fail "the server: $(cat "$scratch/server")"

service stop
[ "$(inside systemctl is-active urnicd)" = inactive ] || fail "$(inside systemctl status urnicd)"
port_is_closed() {
	[ -z "$(on a ss -Huln 'sport = :4791')" ]
}
await 'the port is closed' port_is_closed
inside journalctl --no-pager -u urnicd >"$scratch/journal"
! grep -iE 'failed|denied|not permitted' "$scratch/journal" | grep -v 'status=9/KILL\|with result .signal' ||
	fail "its journal: $(cat "$scratch/journal")"

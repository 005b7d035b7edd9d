#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# What works in a sandbox is what the table of docs/ci.md says.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

page=$(dirname "$0")/../../docs/ci.md
confine=$programs/confine
export URNICD_IDLE_S=1
port=18600
need setpriv unshare prlimit
[ "$(id -u)" = 0 ] || skip 'sandboxes are made by root'
setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$urnic" || skip "other users may not read $1"
chmod 755 "$scratch"
network_up

# cell SANDBOX COLUMN: of the table.
cell() {
	awk -F ' *[|] *' -v name="$1" -v column="$2" '$2 == name { print $(column + 2) }' "$page"
}

# wrap TEXT...: what the sandbox's programs are started by, "$@".
wrap() {
	printf '%s\n' 'set -e' "$@" >"$scratch/wrap"
}

transfers() {
	try_pair a b 10.99.0.1 sh "$scratch/wrap" "$programs/verify" -d rocep_veth0 -w mixed -n 500 && echo yes || echo no
}

# counted NAME: a counter of the client on host a, as a program in the sandbox sees it.
counted() {
	on a sh "$scratch/wrap" "$urnic" stat --all --pid "$(process client)" 2>/dev/null |
		awk -v name="$1" '$1 == name { sum += $2 } END { printf "%.0f\n", sum }'
}

# By which way two processes of a host exchange data.
way_within() {
	start server a sh "$scratch/wrap" "$programs/verify" -d rocep_veth0 -w mixed -n 100000000
	start client a sh "$scratch/wrap" "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 10.99.0.1
	until [ "$(counted local_requests)" -gt 100 ]; do
		if [ "$(counted sent_pkts)" -gt 20000 ]; then
			echo packets
			break
		fi
		kill -0 "$(process client)" 2>/dev/null || { echo no; break; }
		sleep 0.1
	done
	[ "$(counted local_requests)" -le 100 ] || echo memory
	kill "$(process server)" "$(process client)" 2>/dev/null
	finish server
	finish client
}

# works PROGRAM...: on host a, in the sandbox.
works() {
	on a timeout $pair_seconds sh "$scratch/wrap" "$@" >"$scratch/said" 2>&1 && echo yes || echo no
}

# agrees SANDBOX COLUMN FOUND
agrees() {
	[ "$3" = "$(cell "$1" "$2")" ] ||
		fail "$1, column $2: $3, and docs/ci.md says $(cell "$1" "$2"): $(tail -n 3 "$scratch/server" "$scratch/client" "$scratch/said" 2>/dev/null)"
}

no_urnicds() {
	[ -z "$(urnicds_on a)$(urnicds_on b)" ]
}

# Another sandbox's urnicd, of another user, has the port until it ends.
urnicds_end() {
	for daemon in $(urnicd_of a) $(urnicd_of b); do
		kill "$daemon" 2>/dev/null
	done
	await 'urnicd stays' no_urnicds
}

# sandbox NAME TEXT...: it does what its row says.
sandbox() {
	name=$1
	shift
	wrap "$@"
	urnicds_end
	[ -n "$(cell "$name" 1)" ] || fail "docs/ci.md has no row '$name'"
	agrees "$name" 1 "$(transfers)"
	agrees "$name" 2 "$(way_within | tail -n 1)"
	agrees "$name" 3 "$(works "$urnic" pair -- true -- true)"
	agrees "$name" 4 "$(works "$urnic" run --view -- test -e /sys/class/infiniband/rocep_veth0)"
	rows=$((rows + 1))
}
rows=0

drop='setpriv --bounding-set=-all --inh-caps=-all'
user='setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs'
docker_caps=-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,+setfcap
docker_caps=$docker_caps,+setpcap,+net_bind_service,+sys_chroot,+kill,+audit_write
read_only='mount -o remount,bind,ro /'

sandbox 'root without any capability' "exec $drop \"\$@\""
sandbox 'an ordinary user without any capability' "exec $user \"\$@\""
sandbox 'an ordinary user, no user namespaces' "exec $user $confine users \"\$@\""
sandbox "Docker's defaults" \
	"exec setpriv --bounding-set=$docker_caps --inh-caps=-all $confine docker \"\$@\""
sandbox 'yama, ptrace_scope 2' "exec $user $confine yama \"\$@\""
sandbox 'a read-only root, and /dev/shm' \
	"exec unshare --mount sh -c '$read_only
exec $user \"\$@\"' sh \"\$@\""
sandbox 'no /dev/shm' \
	"exec unshare --mount sh -c 'mount -t tmpfs -o ro none /dev/shm
exec $user \"\$@\"' sh \"\$@\""
sandbox '64 open files' "exec prlimit --nofile=64:64 $user \"\$@\""
sandbox "an ordinary user, Docker's defaults, a read-only root, 64 open files" \
	"exec unshare --mount sh -c '$read_only
exec prlimit --nofile=64:64 $user $confine docker \"\$@\"' sh \"\$@\""

# The table has no row that is not tested.
[ "$(awk '/^\| sandbox/, /^$/' "$page" | grep -c '^|')" = $((rows + 2)) ] || fail 'docs/ci.md has other rows'

# Where no directory is writable, a sentence says so.
urnicds_end
wrap "exec unshare --mount sh -c 'mount -t tmpfs -o ro none /dev/shm
$read_only
exec $user \"\$@\"' sh \"\$@\""
[ "$(works "$urnic" run --no-view -- "$programs/forks" -d rocep_veth0)" = no ] || fail 'urnicd needs no directory'
grep -q 'urnicd has no directory for its socket' "$scratch/said" || fail "no reason: $(cat "$scratch/said")"

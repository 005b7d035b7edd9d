#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic-nvmf connect-all against two targets that refer to each other: each subsystem once, each
# namespace exported, also those that come later.
. "$(dirname "$0")/common.sh"

# The FUSE mounts of root are in a mount namespace of this test. Other tests make mount namespaces
# at any time, which would keep copies of mounts of the system's.
if [ "$(id -u)" = 0 ] && [ -z "${CONNECT_ALL_APART:-}" ] && unshare --mount true 2>/dev/null; then
	export CONNECT_ALL_APART=yes
	exec unshare --mount --propagation private sh "$0" "$@"
fi

for program in python3 nbdcopy nbdinfo; do
	command -v $program >/dev/null || skip "$program is not installed"
done
nvmf=$1/urnic-nvmf
program=$1/urnic-nvmf-target
files=$(mktemp -d)
export XDG_RUNTIME_DIR="$files" # list shows the exports of this test only
port=$((18000 + $$ % 1000))
nqn=nqn.2026-01.org.example
where="-a 127.0.0.1 -s $port"
target=
far=
all=
trap 'kill -KILL $target $far $all 2>/dev/null; umount -l "$files"/d/* 2>/dev/null; rm -rf "$files"' EXIT

subsystem() { # NAME NAMESPACES
	echo "{ \"nqn\": \"$nqn:$1\", \"attr\": { \"allow_any_host\": 1 }, \"namespaces\": [ $2 ] }"
}

address() { # ADDRESS PORT
	echo "\"addr\": { \"trtype\": \"tcp\", \"traddr\": \"$1\", \"trsvcid\": \"$2\" }"
}

# The near target has two ways to one subsystem, a second subsystem at another address, and
# referrals to the far one and to a dead address. The far one refers back.
describe() { # SUBSYSTEM...: further ones of the near target
	others=
	links=
	for other; do
		others="$others, $(subsystem "$other" '{ "nsid": 1, "device": { "memory": "1M" } }')"
		links="$links, \"$nqn:$other\""
	done
	cat >"$files/near.json" <<END
{ "subsystems": [ $(subsystem one '{ "nsid": 1, "device": { "memory": "8M" } },
    { "nsid": 3, "device": { "memory": "16M" } }'),
    $(subsystem two '{ "nsid": 1, "device": { "memory": "4M" } }') $others ],
  "ports": [ { "portid": 1, $(address 127.0.0.1 $port), "subsystems": [ "$nqn:one" $links ],
      "referrals": [ { "name": "far", $(address 127.0.0.1 $((port + 1000))) },
        { "name": "nobody", $(address 127.0.0.1 $((port + 2000))) } ] },
    { "portid": 2, $(address 127.0.0.2 $port), "subsystems": [ "$nqn:one", "$nqn:two" ] } ] }
END
	cat >"$files/far.json" <<END
{ "subsystems": [ $(subsystem far '{ "nsid": 7, "device": { "memory": "2M" } }') ],
  "ports": [ { "portid": 1, $(address 127.0.0.1 $((port + 1000))), "subsystems": [ "$nqn:far" ],
      "referrals": [ { "name": "near", $(address 127.0.0.1 $port) } ] } ] }
END
}

# start_target near|far: its process is in $started.
start_target() {
	: >"$files/$1.log"
	"$program" -c "$files/$1.json" -s "$files/$1" >"$files/$1.log" 2>&1 &
	started=$!
	await "the target does not start: $(cat "$files/$1.log")" grep -q ready "$files/$1.log"
}

ctl() {
	"$program" ctl -s "$files/near" "$@" || fail "ctl $*"
}

flushes() { # which the near target has had, and other commands but reads and writes
	ctl counters | sed -n 's/^other_io_commands[^0-9]*\([0-9]*\).*/\1/p'
}

# start_all OPTION...: until it says that it is ready. Its exports are in the directory d. It finds
# its helpers in $path, when that is set.
start_all() {
	: >"$files/said"
	(cd "$files" && PATH=${path:-$PATH} exec "$nvmf" connect-all $where "$@") >"$files/said" 2>"$files/log" &
	all=$!
	await "connect-all is not ready: $(cat "$files/log")" grep -q '^ready$' "$files/said"
}

end_all() {
	kill -TERM $all
	wait $all || fail "connect-all failed: $(cat "$files/log")"
	all=
	[ -z "$(ls "$files/d")" ] || fail "left behind: $(ls "$files/d")"
}

refused() { # WORDS OPTION...
	words=$1
	shift
	! "$nvmf" connect-all $where "$@" >"$files/out" 2>&1 || fail "connect-all $* should fail"
	grep -q "$words" "$files/out" || fail "connect-all $* said: $(cat "$files/out")"
}

exports_are() { # NAME...
	[ "$(cd "$files/d" && echo *)" = "$*" ]
}

nvmf=$(realpath "$nvmf")
describe
refused 'export as what'
: >"$files/file"
refused 'to be a directory' --nbd "$files/file"
refused 'is left out' --nbd "$files/d"
start_target near
target=$started
start_target far
far=$started

start_all --nbd d
exports_are nvme0n1.nbd nvme0n3.nbd nvme1n1.nbd nvme2n7.nbd || fail "exports: $(ls "$files/d")"
grep -q "port $((port + 2000)) is left out" "$files/log" || fail "connect-all said: $(cat "$files/log")"
[ "$(nbdinfo --size "nbd+unix:///disk?socket=$files/d/nvme0n3.nbd")" = 16777216 ] ||
	fail 'namespace 3 has another size'
head -c 8M /dev/urandom >"$files/image"
nbdcopy "$files/image" "nbd+unix:///disk?socket=$files/d/nvme0n1.nbd" || fail 'cannot write'
"$nvmf" read -a 127.0.0.1 -s $port -n $nqn:one -N 1 | cmp - "$files/image" || fail 'other bytes'
[ "$("$nvmf" list | grep -c "^d/nvme[012]n[137].nbd .* urnic ")" = 4 ] ||
	fail "list says: $("$nvmf" list)"

# Namespaces are added and removed; the others do not change.
ctl add-namespace $nqn:two 5 memory=1M
await 'the new namespace is not exported' exports_are nvme0n1.nbd nvme0n3.nbd nvme1n1.nbd nvme1n5.nbd nvme2n7.nbd
ctl remove-namespace $nqn:one 3
await 'the removed namespace is exported' exports_are nvme0n1.nbd nvme1n1.nbd nvme1n5.nbd nvme2n7.nbd
nbdcopy "nbd+unix:///disk?socket=$files/d/nvme0n1.nbd" "$files/copy" || fail 'cannot read'
cmp "$files/image" "$files/copy" || fail 'other bytes after a namespace was removed'

# Connections that are lost while namespaces are listed and connected end no export.
ctl inject disconnect admin=02 count=3
ctl inject disconnect admin=06 count=12
ctl add-namespace $nqn:one 9 memory=1M
await 'the new namespace is not exported' test -e "$files/d/nvme0n9.nbd"
exports_are nvme0n1.nbd nvme0n9.nbd nvme1n1.nbd nvme1n5.nbd nvme2n7.nbd || fail "exports: $(ls "$files/d")"
[ "$(grep -c '^nbd d/nvme0n1.nbd' "$files/said")" = 1 ] || fail "exported again: $(cat "$files/said" "$files/log")"
ctl clear-injections
ctl remove-namespace $nqn:one 9
end_all
! "$nvmf" list | grep -q '^d/' || fail 'list shows exports that have ended'

# The file of an export that was killed, and whose process number another process has now.
start_all --nbd d
for file in "${XDG_RUNTIME_DIR:-/tmp}"/urnic-nvmf*/$all.0; do
	kill -KILL $all
	wait $all 2>/dev/null
	mv "$file" "${file%/*}/$$.0"
done
! "$nvmf" list | grep -q '^d/' || fail 'list shows an export that was killed'
rm -f "$files"/d/*

# Only what is at the discovery controller's address.
start_all --nbd d -m
exports_are nvme0n1.nbd nvme1n7.nbd || fail "exports of --matching: $(ls "$files/d")"
# It flushes the one that is written, and no other.
nbdcopy "$files/image" "nbd+unix:///disk?socket=$files/d/nvme0n1.nbd" || fail 'cannot write'
before=$(flushes)
end_all
[ "$(flushes)" = $((before + 1)) ] || fail "not flushed: $(ctl counters)"
start_all --nbd d
before=$(flushes)
end_all
[ "$(flushes)" = "$before" ] || fail "flushed for nothing: $(ctl counters)"

# Both discovery controllers are in a file, as nvme-cli keeps them, and one that is dead. Options of
# a line are for its controller only.
where="--discovery-conf $files/conf"
refused "or write it into '$files/conf'" --nbd "$files/d"
printf '# none\n\n' >"$files/conf"
refused 'which names none' --nbd "$files/d"
printf -- '-a 127.0.0.1\n--frobnicate\n' >"$files/conf"
refused "line 2 of '$files/conf'" --nbd "$files/d"
printf -- '-t tcp\n' >"$files/conf"
refused 'add --traddr' --nbd "$files/d"
printf -- '# the lab\n\n  --transport=tcp --traddr=127.0.0.1 --trsvcid=%d\n%s\n-t tcp\t-a 127.0.0.1 -s %d -m' \
	$((port + 2000)) "-a 127.0.0.1 -s $((port + 1000)) -m" $port >"$files/conf"
start_all --nbd d
exports_are nvme0n7.nbd nvme1n1.nbd || fail "exports of a file: $(ls "$files/d")"
grep -q "port $((port + 2000)) is left out" "$files/log" || fail "connect-all said: $(cat "$files/log")"
end_all
"$nvmf" discover $where >"$files/out" 2>&1 && fail 'discover has not noticed the dead controller'
[ "$(grep -c 'Discovery Log Number' "$files/out")" = 2 ] || fail "discover said: $(cat "$files/out")"
where="-a 127.0.0.1 -s $port"

# A persistent discovery controller: the target comes back with another subsystem.
start_all --nbd d -p
kill -KILL $target
wait $target 2>/dev/null
describe new
start_target near
target=$started
await "the new subsystem is not connected: $(cat "$files/log")" test -e "$files/d/nvme3n1.nbd"
end_all

if [ -w /dev/fuse ] && command -v fusermount3 >/dev/null && [ "$(id -u)" = 0 ]; then
	start_all --fuse d --read-only
	exports_are nvme0n1 nvme0n3 nvme1n1 nvme2n1 nvme3n7 || fail "files: $(ls "$files/d")"
	[ "$(stat -c %s "$files/d/nvme0n3")" = 16777216 ] || fail 'the file has another size'
	! printf x 2>/dev/null >"$files/d/nvme0n1" || fail 'a read-only file can be written'
	umount "$files/d/nvme2n1"
	await 'an unmounted file stays' exports_are nvme0n1 nvme0n3 nvme1n1 nvme3n7
	ctl remove-namespace $nqn:one 3
	await 'the file of a removed namespace stays' exports_are nvme0n1 nvme1n1 nvme3n7
	end_all

	# connect-all ends without fusermount3, too. As root, libfuse mounts without it.
	mkdir "$files/bin"
	path=$files/bin
	start_all --fuse d
	end_all
	! grep -q ' fuse.*d/nvme' /proc/mounts || fail "still mounted: $(cat /proc/mounts)"
fi

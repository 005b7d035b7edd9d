#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# The NBD server, by programs that know NBD: nbdinfo, nbdcopy, qemu-img, qemu-io and fio. Over a
# UNIX socket, and once over TCP.
. "$(dirname "$0")/common.sh"

for program in nbdinfo nbdcopy qemu-img qemu-io fio; do
	command -v $program >/dev/null || skip "$program is not installed"
done
memory=$1/tests/e2e/nbd_memory
files=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null; rm -rf "$files"' EXIT
socket=$files/socket
uri="nbd+unix:///disk?socket=$socket"

# serve URI ADDRESS: a server of 64 MiB of zeroes, until it answers.
serve() {
	"$memory" "$2" 64 2>"$files/log" &
	server=$!
	await "no answer at $1: $(cat "$files/log")" sh -c "nbdinfo --size '$1' 2>/dev/null"
}

end_server() {
	kill -KILL $server
	wait $server 2>/dev/null
	server=
}

head -c 64M /dev/urandom >"$files/image"
umask 0
serve "$uri" "$socket" >/dev/null
umask 022
[ "$(stat -c %a "$socket")" = 600 ] || fail "the socket has mode $(stat -c %a "$socket")"

nbdinfo "$uri" >"$files/info"
for fact in 'export-size: 67108864' 'can_flush: true' 'can_fua: true' 'can_trim: true' \
	'can_zero: true' 'can_multi_conn: true' 'block_size_minimum: 512' base:allocation; do
	grep -q "$fact" "$files/info" || fail "nbdinfo does not say '$fact': $(cat "$files/info")"
done

nbdcopy "$files/image" "$uri" || fail 'nbdcopy cannot write'
nbdcopy "$uri" "$files/copy" || fail 'nbdcopy cannot read'
cmp "$files/image" "$files/copy" || fail 'nbdcopy read something else than it wrote'
qemu-img compare -f raw -F raw "$files/image" "$uri" || fail 'qemu-img sees another image'
! nbdinfo "nbd+unix:///another?socket=$socket" 2>/dev/null || fail 'another export exists'

qemu-io -f raw -c 'write -P 7 -f 4k 8k' -c 'write -z 1M 64k' -c 'write -z -u 2M 64k' \
	-c 'discard 3M 1M' -c flush -c 'read -P 7 4k 8k' -c 'read -P 0 1M 64k' \
	-c 'read -P 0 2M 64k' -c 'read -P 0 3M 1M' "$uri" >"$files/log" 2>&1 &&
	! grep -iE 'fail|error' "$files/log" || fail "qemu-io: $(cat "$files/log")"

fio --name=verify --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --iodepth=16 --size=16m \
	--verify=crc32c --verify_state_save=0 >"$files/log" || fail "fio: $(cat "$files/log")"

# Two servers at one path, and a path that a killed server left.
"$memory" "$socket" 1 2>"$files/log" && fail 'two servers listen at one path'
grep -q 'choose another path' "$files/log" || fail "the second server said: $(cat "$files/log")"
end_server
serve "$uri" "$socket" >/dev/null
end_server

port=$((20000 + $$ % 10000))
serve "nbd://127.0.0.1:$port" "127.0.0.1:$port" >/dev/null
nbdcopy "$files/image" "nbd://127.0.0.1:$port" || fail 'nbdcopy cannot write over TCP'
qemu-img compare -f raw -F raw "$files/image" "nbd://127.0.0.1:$port" ||
	fail 'qemu-img sees another image over TCP'

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic-nvmf against a small controller in Python: identification, copies, the exports by NBD and
# FUSE, digests, and a controller that is killed while data is copied.
. "$(dirname "$0")/common.sh"

for program in python3 nbdcopy qemu-img fio; do
	command -v $program >/dev/null || skip "$program is not installed"
done
nvmf=$1/urnic-nvmf
controller=$(dirname "$0")/nvmf_controller.py
files=$(mktemp -d)
port=$((21000 + $$ % 10000))
target=
export=
other=
trap 'kill -KILL $target $export $other 2>/dev/null; umount -l "$files/file" 2>/dev/null; rm -rf "$files"' EXIT
where="-t tcp -a 127.0.0.1 -s $port"
there="$where -n nqn.2014-08.org.example:sub"
uri="nbd+unix:///disk?socket=$files/socket"

# start_controller [digest] [other]
start_controller() {
	: >"$files/controller"
	python3 "$controller" $port "$files/disk" "$@" >"$files/controller" 2>&1 &
	target=$!
	await "the controller does not start: $(cat "$files/controller")" \
		grep -q ready "$files/controller"
}

end_controller() {
	kill -KILL $target
	wait $target 2>/dev/null
	target=
}

# start_export OPTION...: until it says what it exports.
start_export() {
	: >"$files/export"
	"$nvmf" export $there "$@" >"$files/export" 2>"$files/export.log" &
	export=$!
	await "no export: $(cat "$files/export.log")" test -s "$files/export"
}

end_export() {
	kill -TERM $export
	await 'the export does not end' sh -c "! kill -0 $export 2>/dev/null"
	wait $export || fail "the export failed: $(cat "$files/export.log")"
	export=
}

# refused WORDS COMMAND...: it fails, and says these words.
refused() {
	words=$1
	shift
	! "$nvmf" "$@" >"$files/out" 2>&1 || fail "urnic-nvmf $* should fail"
	grep -q "$words" "$files/out" || fail "urnic-nvmf $* said: $(cat "$files/out")"
}

truncate -s 32M "$files/disk"
refused 'start the target' id-ctrl $there
start_controller
refused "subsystem's NQN" id-ctrl $where -n wrong
refused 'with --nqn' id-ctrl $where
refused 'with --traddr' id-ctrl
refused 'no option' id-ctrl --bogus
refused 'takes a number' id-ctrl $there -i many
refused 'there is no command' frobnicate
refused 'list-ns' read $there -N 7
refused 'export as what' export $there
refused 'within the' read $there --offset 100

"$nvmf" id-ctrl $there >"$files/out" || fail 'id-ctrl failed'
grep -q '^mn  *: scripted controller$' "$files/out" || fail "id-ctrl: $(cat "$files/out")"
"$nvmf" id-ctrl $there -o json >"$files/json"
python3 -c 'import json,sys; assert json.load(sys.stdin)["cntlid"] == 1' <"$files/json" ||
	fail 'id-ctrl prints no JSON'
matches_schema nvmf-id-ctrl <"$files/json"
"$nvmf" list-ns $there -o json >"$files/json"
matches_schema nvmf-list-ns <"$files/json"
"$nvmf" id-ns $there -N 1 -o json >"$files/json"
matches_schema nvmf-id-ns <"$files/json"
[ "$("$nvmf" list-ns $there)" = '[   0]:0x1' ] || fail 'list-ns does not list namespace 1'
"$nvmf" id-ns $there -N 1 | grep -q 'nsze *: 0x10000$' || fail 'id-ns shows another size'

"$nvmf" discover $where >"$files/out" || fail 'discover failed'
grep -q 'Number of Records 20, Generation counter 5' "$files/out" &&
	grep -q '^subnqn:  nqn.2014-08.org.example:20$' "$files/out" ||
	fail "discover says: $(cat "$files/out")"
"$nvmf" discover $where -o json >"$files/json"
python3 -c 'import json,sys; assert len(json.load(sys.stdin)["records"]) == 20' <"$files/json" ||
	fail 'discover prints no JSON'
matches_schema nvmf-discover <"$files/json"

head -c 3000000 /dev/urandom >"$files/image"
truncate -s 3000320 "$files/image"
"$nvmf" write $there --offset 1m --data "$files/image" || fail 'write failed'
"$nvmf" read $there --offset 1m --size 3000320 --data "$files/copy" || fail 'read failed'
cmp "$files/image" "$files/copy" || fail 'read something else than was written'

"$1/tests/e2e/nvmf_library" $port nqn.2014-08.org.example:sub >"$files/out" ||
	fail "the library: $(cat "$files/out")"

start_export --nbd "$files/socket"
fio --name=verify --ioengine=nbd --uri="$uri" --rw=randwrite --bs=4k --iodepth=16 --size=4m \
	--verify=crc32c --verify_state_save=0 >"$files/out" 2>&1 || fail "fio: $(cat "$files/out")"

# Killed while a copy runs: the copy goes on with the next one.
head -c 32M /dev/urandom >"$files/image"
nbdcopy "$files/image" "$uri" &
copy=$!
await 'the copy writes nothing' cmp -s -n 65536 "$files/disk" "$files/image"
end_controller
start_controller
wait $copy || fail "the copy failed: $(cat "$files/export.log")"
cmp "$files/image" "$files/disk" || fail 'an acknowledged write was lost'
qemu-img compare -f raw -F raw "$files/image" "$uri" || fail 'qemu-img sees another image'
grep -q 'connection was lost' "$files/export.log" || fail 'the loss was not reported'
"$nvmf" list >"$files/out" || fail 'list failed'
grep -q "^$files/socket  *SCRIPTED  *scripted controller  *1 " "$files/out" ||
	fail "list says: $(cat "$files/out")"
"$nvmf" list -o json >"$files/json"
matches_schema nvmf-list <"$files/json"
end_export
! "$nvmf" list | grep -q "$files/socket" || fail 'list shows an export that has ended'
[ ! -e "$files/socket" ] || fail 'the socket is left behind'

# The client writes without a flush. The export ends with one, or says that it did not.
last_is() { # written|flushed: what the controller did last
	[ "$(tail -n 1 "$files/controller")" = "$1" ]
}
start_export --nbd "$files/socket"
head -c 64k /dev/urandom >"$files/part"
nbdcopy "$files/part" "$uri" || fail 'nbdcopy cannot write'
last_is written || fail "nbdcopy has flushed: $(cat "$files/controller")"
end_export
last_is flushed || fail "the export has not flushed: $(cat "$files/controller")"
start_export --nbd "$files/socket"
nbdcopy "$files/part" "$uri" || fail 'nbdcopy cannot write'
end_controller
await 'the loss was not reported' grep -q 'connection was lost' "$files/export.log"
await 'the export does not end' sh -c "! kill -TERM $export 2>/dev/null"
! wait $export || fail 'the export could not flush, and did not fail'
grep -q 'was not flushed, so its last writes may be lost' "$files/export.log" ||
	fail "the export said: $(cat "$files/export.log")"
export=
start_controller

# Another namespace comes back under the same number: nothing is read of it.
start_export --nbd "$files/socket"
end_controller
start_controller other
await 'the other namespace was not refused' grep -q 'fail: .* another namespace' "$files/export.log"
! nbdcopy "$uri" null: 2>/dev/null || fail 'another namespace was read'
end_controller
start_controller
await 'the first namespace was not taken again' sh -c "nbdcopy '$uri' null: 2>/dev/null"
end_export

# A read-only export stays read-only. A read is done when the namespace is identified again.
start_export --nbd "$files/socket" --read-only
end_controller
start_controller
await 'the export does not connect again' grep -q Connected "$files/export.log"
nbdcopy "$uri" null: || fail 'the read-only export cannot be read'
nbdinfo "$uri" | grep -q 'is_read_only: true' || fail 'the export is not read-only any more'
end_export

# The target killed under verified I/O, then the host: nothing acknowledged is lost.
verify="$nvmf verify $there --size 2m --iodepth 8 --state $files/state"
$verify --runtime 6 >"$files/out" 2>"$files/verify.log" &
checker=$!
for round in 1 2 3; do
	await 'verify writes nothing' grep -q verify "$files/disk"
	sleep 0.5
	end_controller
	start_controller
done
wait $checker || fail "verify: $(cat "$files/verify.log")"
grep -q 'verified: .* [1-9][0-9]* reconnects' "$files/out" || fail "verify said: $(cat "$files/out")"
for round in 1 2 3; do
	$verify --runtime 600 >"$files/out" 2>&1 &
	checker=$!
	sleep 0.5
	kill -KILL $checker
	wait $checker 2>/dev/null
	[ ! -s "$files/out" ] || fail "verify after a kill: $(cat "$files/out")"
done
$verify --runtime 1 >"$files/out" 2>&1 || fail "verify after the kills: $(cat "$files/out")"
# It can fail: a block goes back to zeroes.
dd if=/dev/zero of="$files/disk" bs=4k count=512 conv=notrunc 2>/dev/null
refused 'foreign data' verify $there --size 2m --state "$files/state" --runtime 1

"$nvmf" bench $there --runtime 1 --iodepth 4 -o json >"$files/json"
python3 -c 'import json,sys; assert json.load(sys.stdin)["jobs"][0]["read"]["total_ios"] > 0' \
	<"$files/json" || fail 'bench prints no result'
matches_schema nvmf-bench <"$files/json"
refused 'takes read' bench $there --rw sideways
end_controller

start_controller digest
head -c 65536 "$files/image" >"$files/part"
"$nvmf" write $there -g -G --offset 64k --data "$files/part" || fail 'write with digests failed'
"$nvmf" read $there -g -G --offset 64k --size 64k | cmp - "$files/part" ||
	fail 'digests: read something else than was written'
end_controller
start_controller
refused 'without digests' id-ctrl $there -g -G

if [ -w /dev/fuse ] && command -v fusermount3 >/dev/null && [ "$(id -u)" = 0 ]; then
	start_export --fuse "$files/file"
	cmp -n 65536 "$files/file" "$files/disk" || fail 'the file has other content'
	printf hello | dd of="$files/file" bs=1 seek=5001 conv=notrunc,fsync 2>/dev/null ||
		fail 'dd cannot write the file'
	[ "$(dd if="$files/disk" bs=1 skip=5001 count=5 2>/dev/null)" = hello ] ||
		fail 'what dd wrote is not on the disk'
	printf hello | dd of="$files/file" bs=1 seek=9001 conv=notrunc 2>/dev/null ||
		fail 'dd cannot write the file'
	last_is written || fail "dd has flushed: $(cat "$files/controller")"
	end_export
	last_is flushed || fail "the export has not flushed: $(cat "$files/controller")"
	[ ! -e "$files/file" ] || fail 'the file is left behind'

	# A mount namespace with a copy of the mount keeps the file system alive.
	start_export --fuse "$files/file"
	unshare --mount --propagation private sleep 600 &
	other=$!
	await 'no other namespace' grep -q "$files/file" /proc/$other/mounts
	end_export
	kill $other
fi
end_controller

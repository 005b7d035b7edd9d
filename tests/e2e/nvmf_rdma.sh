#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic-nvmf and urnic-nvmf-target over RDMA, on RoCEv2 and iWARP devices, between two hosts and
# within one: copies, verified writes, control commands, a target that is killed during verified
# writes, and the error message for each impossible request.
. "$(dirname "$0")/common.sh"

nvmf=$1/urnic-nvmf
program=$1/urnic-nvmf-target
files=$(mktemp -d)
nqn=nqn.2026-01.org.example:sub
target=

# describe ADDRESS FILE: a description with a namespace of memory, and one in a file.
describe() {
	cat >"$2" <<END
{ "subsystems": [ { "nqn": "$nqn", "attr": { "allow_any_host": 1 }, "namespaces": [
    { "nsid": 1, "device": { "memory": "16M" } },
    { "nsid": 2, "device": { "path": "$files/disk" } } ] } ],
  "ports": [ { "portid": 1, "addr": { "trtype": "rdma", "traddr": "$1" },
    "subsystems": [ "$nqn" ] } ] }
END
}

start_target() {
	: >"$files/target" # the last target was ready, too
	on a "$urnic" run -- sh -c 'echo $$ >"$0"; exec "$@"' "$files/pid" \
		"$program" -c "$files/config" -s "$files/socket" >"$files/target" 2>&1 &
	await "the target does not start: $(cat "$files/target")" grep -q ready "$files/target"
	target=$(cat "$files/pid")
}

end_target() {
	kill -"$1" "$target"
	await "the target does not end" sh -c "! kill -0 $target 2>/dev/null"
	target=
}

ctl() {
	"$program" ctl -s "$files/socket" "$@"
}

# host HOST WORDS...: urnic-nvmf there.
host() {
	side=$1
	shift
	on "$side" "$urnic" run -- "$nvmf" "$@" -t rdma -a 10.99.0.1 -n $nqn
}

# refused WORDS COMMAND...: it fails, and says these words.
refused() {
	words=$1
	shift
	! "$@" >"$files/out" 2>&1 || fail "$* should fail"
	grep -q "$words" "$files/out" || fail "$* said: $(cat "$files/out")"
}

copies() {
	for side in a b; do
		for nsid in 1 2; do
			host "$side" write -N "$nsid" -d "$files/data" --size 4M --offset 1M ||
				fail "write from $side to $nsid"
			host "$side" read -N "$nsid" -d "$files/back" --size 4M --offset 1M ||
				fail "read from $side of $nsid"
			cmp "$files/data" "$files/back" || fail "$side reads other bytes than it wrote"
		done
	done
	cmp -n 4194304 -i 0:1048576 "$files/data" "$files/disk" || fail 'other bytes in the file'
}

control() {
	refused 'there is a namespace 2 already' ctl add-namespace $nqn 2 memory=8M
	refused 'no such file' ctl add-namespace $nqn 3 path=/no/such/file
	refused 'no such subsystem' ctl remove-namespace wrong 1
	refused 'is no command' ctl wrong
	! host b list-ns | grep -q 0x3 || fail 'half a namespace is left'
	ctl add-namespace $nqn 3 memory=8M || fail 'no namespace was added'
	ctl resize-namespace $nqn 3 size=24M || fail 'the namespace was not resized'
	ctl status | grep -q 'namespace 3: 25165824 bytes' || fail "status: $(ctl status)"
	host b write -N 3 -d "$files/data" --size 4M --offset 20M || fail 'the new size is not there'
	ctl remove-namespace $nqn 3 || fail 'no namespace was removed'
	refused . host b read -N 3 -d "$files/back" --size 4K
	ctl disallow-any-host $nqn
	refused 'not allowed\|allow' host b id-ctrl
	ctl allow-any-host $nqn
	ctl inject status=281 io=2 nsid=1
	refused . host b read -d "$files/back" --size 4K
	ctl clear-injections
	host b read -d "$files/back" --size 4K || fail 'an error was injected that was not asked for'
	ctl counters | grep -q '^injected  *[1-9]' || fail "counters: $(ctl counters)"
}

write_count() {
	ctl counters | sed -n 's/^writes  *\([0-9]*\).*/\1/p'
}

has_written() {
	[ "$(write_count)" -gt "$before" ]
}

# No write that was acknowledged is lost when the target dies; the host comes back by itself.
killed_target() {
	before=$(write_count)
	host b verify -N 2 --runtime 5 --quiet >"$files/verify" 2>&1 &
	verify=$!
	# A host that was never connected gives up.
	await 'the host does not write' has_written
	for _ in 1 2; do
		sleep 1
		end_target KILL
		start_target
	done
	wait $verify || fail "verify: $(cat "$files/verify")"
	grep -q '^verified' "$files/verify" || fail "verify said: $(cat "$files/verify")"
}

# other SED-SCRIPT: the description of another target, without the file that this one has open.
other() {
	sed "s|\"path\": \"[^\"]*\"|\"null\": \"1M\"|; $1" "$files/config" >"$files/config2"
}

sentences() {
	refused 'is in use' on a "$urnic" run -- "$program" -c "$files/config"
	other ''
	refused 'another program listens there' on a "$urnic" run -- "$program" -c "$files/config2"
	other 's|10.99.0.1|10.99.0.9|'
	refused "not this machine's" on a "$urnic" run -- "$program" -c "$files/config2"
	other 's|"rdma"|"ib"|'
	refused 'config2:[0-9]*:[0-9]*: "trtype" is' "$program" --check -c "$files/config2"
	other 's|"rdma"|&, "trsvcid": "5000"|'
	refused 'another target listens there' on a "$urnic" run -- \
		"$program" -c "$files/config2" -s "$files/socket"
	ctl status >/dev/null || fail 'the socket of the first target is gone'
}

head -c 4194304 /dev/urandom >"$files/data"
truncate -s 16M "$files/disk"
network_up 9000
trap '[ -z "$target" ] || kill -KILL $target 2>/dev/null; at_exit; rm -rf "$files"' EXIT
for transports in roce iwarp; do
	export URNIC_TRANSPORTS=$transports
	describe 10.99.0.1 "$files/config"
	start_target
	copies
	control
	sentences
	killed_target
	end_target TERM
	[ ! -e "$files/socket" ] || fail 'the control socket is left'
done

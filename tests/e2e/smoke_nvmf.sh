#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# NVMe over Fabrics: what a host writes over TCP another one reads over RDMA, and vice versa.
. "$(dirname "$0")/common.sh"

nvmf=$1/urnic-nvmf
program=$1/urnic-nvmf-target
nqn=nqn.2026-01.org.example:smoke
target=
network_up
files=$(mktemp -d)
trap 'kill -KILL $target 2>/dev/null; at_exit; rm -rf "$files"' EXIT

cat >"$files/config" <<END
{ "subsystems": [ { "nqn": "$nqn", "attr": { "allow_any_host": 1 }, "namespaces": [
    { "nsid": 1, "device": { "memory": "16M" } } ] } ],
  "ports": [
    { "portid": 1, "addr": { "trtype": "tcp", "traddr": "10.99.0.1", "trsvcid": "4420" },
      "subsystems": [ "$nqn" ] },
    { "portid": 2, "addr": { "trtype": "rdma", "traddr": "10.99.0.1", "trsvcid": "4420" },
      "subsystems": [ "$nqn" ] } ] }
END
export URNIC_LOG=info
on a "$urnic" run -- sh -c 'echo $$ >"$0"; exec "$@"' "$files/pid" \
	"$program" -c "$files/config" -s "$files/socket" >"$files/target" 2>&1 &
await "the target does not start: $(cat "$files/target")" grep -q ready "$files/target"
target=$(cat "$files/pid")

# host HOST COMMAND TRANSPORT FILE
host() {
	on "$1" "$urnic" run -- "$nvmf" "$2" -t "$3" -a 10.99.0.1 -n $nqn -d "$4" --size 1M ||
		fail "$2 over $3: $(cat "$files/target")"
}

for way in 'tcp rdma' 'rdma tcp'; do
	head -c 1048576 /dev/urandom >"$files/data"
	host b write "${way% *}" "$files/data"
	host b read "${way#* }" "$files/back"
	cmp "$files/data" "$files/back" || fail "$way: other bytes"
done
kill -TERM "$target"
await 'the target does not end' sh -c "! kill -0 $target 2>/dev/null"
target=

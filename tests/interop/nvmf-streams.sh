#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# What no host may send a target of NVMe over TCP: what urnic's answers is in nvmf-streams.expected,
# beside what the kernel's answers.
here=$(dirname "$0")
. "$here/../e2e/common.sh"

files=$(mktemp -d)
target=
trap 'kill -KILL $target 2>/dev/null; rm -rf "$files"' EXIT
port=$((31000 + $$ % 1500))
nqn=nqn.2026-01.org.example:streams
cat >"$files/config.json" <<END
{ "subsystems": [ { "nqn": "$nqn", "attr": { "allow_any_host": "1" },
    "namespaces": [ { "nsid": 1, "enable": 1, "device": { "memory": "64M", "block_size": 4096 } } ] } ],
  "ports": [ { "portid": 1, "subsystems": [ "$nqn" ],
    "addr": { "trtype": "tcp", "adrfam": "ipv4", "traddr": "127.0.0.1", "trsvcid": "$port" } } ] }
END
"$1/urnic-nvmf-target" -c "$files/config.json" -s "$files/ctl" >"$files/target" 2>&1 &
target=$!
await "the target does not start: $(cat "$files/target")" grep -q ready "$files/target"
/usr/bin/python3 "$here/nvmf-streams" --expected urnic --quiet 5 127.0.0.1 $port $nqn >"$files/seen" ||
	fail "not what is expected: $(grep expected "$files/seen")"
kill -TERM $target
wait $target || fail "the target ends with $?: $(cat "$files/target")"
echo "$(wc -l <"$files/seen") cases"

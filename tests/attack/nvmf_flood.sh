#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A host opens as many connections to urnic-nvmf-target as it can, and keeps them. The target still
# serves another host, names the first one in its log, has descriptors left, and does not spin.
. "$(dirname "$0")/../e2e/common.sh"

command -v prlimit >/dev/null || skip 'prlimit is not installed'
program=$1/urnic-nvmf-target
nvmf=$1/urnic-nvmf
nqn=nqn.2026-01.org.example:sub
files=$(mktemp -d)
target=
attacker=
network_up 9000
trap 'kill -KILL $target $attacker 2>/dev/null; at_exit; rm -rf "$files"' EXIT

cat >"$files/config" <<END
{ "subsystems": [ { "nqn": "$nqn", "attr": { "allow_any_host": 1 }, "namespaces": [
    { "nsid": 1, "device": { "memory": "16M" } } ] } ],
  "ports": [ { "portid": 1, "addr": { "trtype": "tcp", "traddr": "10.99.0.1" },
    "subsystems": [ "$nqn" ] } ] }
END
# (264 - 64) / 2: 100 connections, of which one host has 50.
on a prlimit --nofile=264:264 sh -c 'echo $$ >"$0"; exec "$@"' "$files/pid" \
	"$program" -c "$files/config" -s "$files/socket" >"$files/target" 2>&1 &
await "the target does not start: $(cat "$files/target")" grep -q ready "$files/target"
target=$(cat "$files/pid")

# It sends ICReq, so that the target waits for Connect, and opens a new one for each that ends.
on b /usr/bin/python3 -c "
import os, select, socket
icreq = bytes([0, 0, 128, 0, 128]) + bytes(123)
print(os.getpid(), flush=True)
held = []
while True:
    while len(held) < 300:
        s = socket.create_connection(('10.99.0.1', 4420))
        held.append(s)
        try:
            s.send(icreq)
        except OSError:
            pass
    for s in select.select(held, [], [], 0.2)[0]:
        try:
            if s.recv(4096):
                continue
        except OSError:
            pass
        held.remove(s)
        s.close()
" >"$files/attacker" 2>&1 &
await 'no attacker' test -s "$files/attacker"
attacker=$(cat "$files/attacker")

says() {
	grep -q '10.99.0.2 has 50 connections, as many as are left' "$files/target"
}
await "the target does not name the attacker: $(cat "$files/target")" says

ticks() {
	sed 's/.*) //' "/proc/$target/stat" | awk '{ print $12 + $13 }'
}

head -c 1048576 /dev/urandom >"$files/data"
for round in 1 2 3 4 5; do
	on a "$nvmf" write -t tcp -a 10.99.0.1 -n $nqn -d "$files/data" --size 1M ||
		fail "round $round: no write: $(cat "$files/target")"
	on a "$nvmf" read -t tcp -a 10.99.0.1 -n $nqn -d "$files/back" --size 1M ||
		fail "round $round: no read"
	cmp "$files/data" "$files/back" || fail "round $round: other bytes"
done
count=$(find "/proc/$target/fd" -mindepth 1 | wc -l)
[ "$count" -lt 200 ] || fail "the target has $count descriptors"
"$program" ctl -s "$files/socket" counters | grep -q connections_refused ||
	fail "$("$program" ctl -s "$files/socket" counters)"

# The attacker stays. What it has is idle.
kill -STOP "$attacker"
sleep 1
before=$(ticks)
sleep 3
[ $(($(ticks) - before)) -le 6 ] || fail "the target used $(($(ticks) - before)) ticks in 3 s"
kill -CONT "$attacker"
echo "another host is served beside 300 connections of one"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic explain on two unmodified processes: while they run, after SIGKILL, from a log, as JSON, and
# for no other user. tests/mistakes has the reasons.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ib_write_bw
network_up

# The peer ends in mid-transfer, so that the requests of the other end get no answer.
on b "$urnic" run ib_write_bw -F -d rocep_veth0 -D 300 -u 8 >/dev/null 2>&1 &
await 'no server' on b sh -c 'ss -Hltn | grep -q :18515'
on a env URNIC_LOG=info "$urnic" run ib_write_bw -F -d rocep_veth0 -D 300 -u 8 10.99.0.2 \
	>"$scratch/log" 2>&1 &
client=$!
pid_on() {
	on "$1" "$urnic" stat --json 2>/dev/null |
		sed -n 's/^.*"pid":[[:space:]]*\([0-9]*\).*/\1/p' | head -n 1
}
is_sending() {
	on a "$urnic" stat 2>/dev/null | grep -q sent_pkts && server=$(pid_on b) && [ -n "$server" ]
}
await 'no traffic' is_sending
pid=$(pid_on a)
kill -9 "$server"
has_failed() {
	"$urnic" explain "$pid" 2>/dev/null | grep -q RETRY_EXCEEDED
}
await 'the silent peer is not explained' has_failed
kill -9 "$(urnicd_of a)" || fail 'no urnicd runs on host a'
kill -9 "$pid" 2>/dev/null
wait $client 2>/dev/null
said=$("$urnic" explain "$pid") || fail 'nothing is kept after SIGKILL'
echo "$said" | grep -q "^process $pid (ib_write_bw), ended: " || fail "the killed process is $said"
echo "$said" | "$(dirname "$0")/../mistakes/check-page" "$(dirname "$0")/../../docs/debugging.md" '1. ' ||
	fail 'docs/debugging.md shows something else'
echo "$said" | grep -q 'did not answer for .* (timeout 8, retry_cnt ' || fail "it says $said"
"$urnic" explain --failed | grep -q "^process $pid (ib_write_bw), ended" || fail 'it is not listed'

"$urnic" explain --json "$pid" >"$scratch/json"
matches_schema explain <"$scratch/json"
grep -q '"reason":	"RETRY_EXCEEDED"' "$scratch/json" || fail "JSON: $(cat "$scratch/json")"
"$urnic" explain --json 12 | matches_schema explain
"$urnic" explain --json ibv_create_qp | matches_schema explain
"$urnic" explain ibv_create_qp | grep -q '^QP_SEND_WR (a call that fails)' ||
	fail 'the reasons of ibv_create_qp are not listed'
"$urnic" explain --json --log "$scratch/log" | grep -q '"reason":	"RETRY_EXCEEDED"' ||
	fail "the log has no reason: $(cat "$scratch/log")"
"$urnic" explain --log "$scratch/log" | grep -q '^    check: IBTA 9.7.6.1.3' ||
	fail 'the log is not explained'
! "$urnic" explain --log "$scratch/absent" 2>/dev/null || fail 'a log that is not there'
! "$urnic" explain --log x 12 2>/dev/null || fail '--log with a word'

# Of two processes on two hosts, each one's failures have the other's half.
port=18600
pair a b 10.99.0.1 "$programs/badinput" -d rocep_veth0
pids=$("$urnic" explain --failed | sed -n 's/^process \([0-9]*\) (badinput), ended.*/\1/p')
for pid in $pids; do
	"$urnic" explain "$pid"
done >"$scratch/both"
grep -A 12 ' REMOTE_ACCESS (' "$scratch/both" | grep -q 'the peer, process [0-9]* (badinput), kept REGION_' ||
	fail "no half of the peer: $(head -n 40 "$scratch/both")"

# Another user cannot read the failures.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	said=$(setpriv --reuid=65533 --regid=65533 --clear-groups "$urnic" explain --failed 2>&1)
	! echo "$said" | grep -q "process $pid " || fail "another user reads $said"
fi

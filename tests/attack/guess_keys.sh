#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# guess_keys BUILD: a stranger sends 600,000 WRITEs over UC in the peer's name, with keys at random,
# to a program with 49,000 keys. Some 7 would hit.
. "$(dirname "$0")/link.sh"

programs=$1/tests/attack

link_up
mkfifo "$scratch/stop"
in_host victim "$urnic" run "$programs/guessed" 10.99.0.2 <"$scratch/stop" >"$scratch/victim" 2>&1 &
victim=$!
link_programs=$victim
exec 3>"$scratch/stop"
await 'the victim does not start' test -s "$scratch/victim"
start=$(date +%s)
qpn=$(head -n 1 "$scratch/victim")
in_host stranger "$programs/attack_guess" keys eth0 \
	10.99.0.2 10.99.0.1 "$(mac_of victim)" "$qpn" 600000 ||
	fail 'the attacker could not attack'
tries() {
	in_host victim "$urnic" stat | awk '
		$1 == "resp_remote_access_errors" {looked += $2}
		$1 == "guarded_drops" || $1 == "guarded_keys" {dropped += $2}
		END {printf "%d keys looked up, %d packets dropped unseen\n", looked, dropped}'
}
said=$(tries)
exec 3>&-
wait "$victim" || { tail -n 1 "$scratch/victim"; fail "a guess succeeded ($said)"; }
echo "$said"
# Eight, and one a second.
looked=${said%% *}
[ "$looked" -gt 0 ] && [ "$looked" -le $((10 + $(date +%s) - start)) ] ||
	fail 'the tries were not limited'

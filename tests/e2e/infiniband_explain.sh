#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# `urnic fabric explain` on a ring of four switches: it names the credit loop that OpenSM's minhop
# makes, port by port as ibdmchk does, and none where updn routes; and it says why a path ends.
. "$(dirname "$0")/common.sh"

for program in opensm ibdmchk; do
	command -v $program >/dev/null || skip "no $program (packages opensm, ibutils)"
done
topology=$(dirname "$0")/../../examples/infiniband/ring.topo
name=explain-$$
files=$(mktemp -d)
up=
manager=
trap 'kill $manager $up 2>/dev/null; wait; rm -rf "$files"' EXIT

fabric() {
	"$urnic" fabric --name "$name" "$@"
}

# says EXPRESSION WORDS: what `urnic fabric explain WORDS` prints has a line like this.
says() {
	expression=$1
	shift
	fabric explain "$@" >"$files/out" 2>&1 || fail "explain: $(cat "$files/out")"
	grep -Eq -- "$expression" "$files/out" || fail "no \"$expression\": $(cat "$files/out")"
}

# tells EXPRESSION: so does the JSON, in which places and reasons are as the schema says.
tells() {
	fabric explain --json >"$files/json" 2>&1 || fail "explain --json: $(cat "$files/json")"
	matches_schema fabric-explain <"$files/json"
	grep -Eq -- "$1" "$files/json" || fail "no \"$1\": $(cat "$files/json")"
}

is_up() {
	grep -q ' is up: ' "$files/up"
}

# unmanage: OpenSM ends.
unmanage() {
	[ -n "$manager" ] || return
	kill "$manager"
	wait "$manager"
	manager=
}

# manage ARGUMENTS: OpenSM sets the subnet up, and stays as the subnet administrator.
manage() {
	unmanage
	rm -f "$files"/opensm* "$files/log"
	echo 'force_log_flush TRUE' >"$files/conf"
	OSM_TMP_DIR="$files/" OSM_CACHE_DIR="$files/" "$urnic" run --no-view --fabric "$name:host1" \
		-- opensm -D 0x43 -F "$files/conf" -f "$files/log" "$@" >"$files/opensm" 2>&1 &
	manager=$!
	await 'OpenSM brings the subnet up' grep -qs 'SUBNET UP' "$files/log"
	await 'ibdmchk reads the tables' check
}

# check: ibdmchk reads OpenSM's tables.
check() {
	# Debian's ibdmchk crashes after its report.
	(cd "$files" && sh -c 'ibdmchk -s opensm-subnet.lst -f opensm.fdbs -m opensm.mcfdbs >check 2>&1
		exit 0') 2>/dev/null
	grep -q 'Scanned:56 CA to CA paths' "$files/check"
}

"$urnic" fabric up --name "$name" --no-sm "$topology" >"$files/up" 2>&1 &
up=$!
await 'the fabric does not come up' is_up
says '^"host3"\[1\] is not active: no subnet manager has set it up$'
says '^all 0 paths between active ports of hosts exist$'
grep -q 'credit loop' "$files/out" && fail 'a credit loop without a path'
tells '^	\{"node": "host3", "port": 1, "reason": "no subnet manager has set it up"\},$'
tells '^"service_levels": \[\], "assumption": null,$'
says '^"host8"\[1\] has no LID: ' host1 host8

# --- a loop, and none ---

manage -R minhop
says '^all 56 paths between active ports of hosts exist$'
says '^the paths of service level 0 have a credit loop: each of these 4 ports waits'
sed -n 's/^  "\(switch.*\)"\[\(.*\)\], lane 0$/\1 \2/p' "$files/out" | sort >"$files/own"
fabric dump | sed -n 's/^Switch .* "\(switch.\)" guid 0x\([0-9a-f]*\) .*/\2 \1/p' >"$files/guids"
sed -n 's,^.*redit loop .*: S\([0-9a-f]*\)/U1/P\([0-9]*\) VL: 0$,\1 \2,p' "$files/check" |
	while read -r guid port; do
		switch=$(sed -n "s/^$guid //p" "$files/guids")
		[ -z "$switch" ] || [ "$port" -lt 7 ] || echo "$switch $port"
	done | sort -u >"$files/theirs"
tells '^"service_levels": \[0\], "assumption": null,$'
tells '"credit_loop": \{"length": 4, "service_levels": \[0\], "ports": \[$'
sed -n 's/^	{"node": "\(.*\)", "port": \(.*\), "lane": 0}.*/\1 \2/p' "$files/json" | sort |
	cmp -s - "$files/own" || fail "the loop: $(cat "$files/json")"
[ "$(wc -l <"$files/own")" = 4 ] || fail "the loop: $(cat "$files/out")"
cmp -s "$files/own" "$files/theirs" || fail "ibdmchk finds $(cat "$files/theirs")"

echo 0x00fc010000000100 >"$files/roots"
manage -R updn -a "$files/roots"
says '^the paths of service level 0 have no credit loop$'
grep -q 'no credit loops found' "$files/check" || fail "ibdmchk: $(tail -n 5 "$files/check")"
tells '"credit_loop": null\}$'

# --- paths, drops ---

unmanage
says '^no subnet manager runs, so each path is taken to have service level 0$'
tells '"assumption": "no subnet manager runs",$'
says '^at "host5"\[1\] the frame arrives$' host1 host5
grep -q '"host1"\[1\], lane 0' "$files/out" && grep -q '"switch1"\[[78]\], lane 0' "$files/out" ||
	fail "the path: $(cat "$files/out")"
says '^no frame was dropped$'
fabric unlink 'host5[1]' || fail 'unlink'
says '^"host5"\[1\] is not active: its cable is cut$'
says '^at "switch3"\[1\] the port is not active$' host1 host5
fabric error 'host6[1]' 100 || fail 'error'
says '^  6, such as "host1" to "host6", end at "switch3"\[2\]: the cable spoils '
tells '^	\{"count": 6, .*"node": "switch3", "port": 2, "reason": "the cable spoils .*"\}'
fabric explain host1 >"$files/out" 2>&1 && fail 'explain with one host'
fabric explain host1 switch1 >"$files/out" 2>&1 && fail 'explain of a switch'
exit 0

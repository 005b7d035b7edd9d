#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# The dissector for Wireshark (packaging/wireshark): tshark checks ICRCs with it, of captures of the
# kernel's rxe and of one with a spoiled packet, and shows FECN, BECN and congestion notifications.
. "$(dirname "$0")/common.sh"

command -v tshark >/dev/null || skip 'no tshark here'
tshark -v 2>/dev/null | grep -q 'with Lua' || skip 'this tshark has no Lua'
here=$(dirname "$0")
script=$here/../../packaging/wireshark/urnic-roce.lua
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Newer releases of tshark load no scripts as root. Another user may not read the sources.
as_user=
if [ "$(id -u)" = 0 ]; then
	as_user="setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=$scratch"
	chmod 755 "$scratch"
fi
for file in "$script" "$here"/../data/pcap/roce-*.pcap; do
	install -m 644 "$file" "$scratch"
done
script=$scratch/urnic-roce.lua
data=$scratch

# dissected FILE OPTIONS...: a line for each RoCEv2 packet: the frame, the ICRC's status, and the
# three bits, which newer releases of tshark call True and False.
dissected() {
	file=$1
	shift
	$as_user tshark -n -X "lua_script:$script" -r "$file" -Y udp.dstport==4791 "$@" -T fields \
		-E separator=/s -e frame.number -e roce2.icrc.status -e roce2.fecn -e roce2.becn \
		-e roce2.cnp 2>"$scratch/errors" | sed 's/ True/ 1/g; s/ False/ 0/g'
}

for name in operations rping rping-ipv6 udaddy; do
	dissected "$data/roce-$name.pcap" >"$scratch/rows"
	awk '$2 != "good" || $3 + $4 + $5 { bad++ } END { exit bad || !NR }' "$scratch/rows" ||
		fail "$name: $(cat "$scratch/errors" "$scratch/rows" | head -n 5)"
done

/usr/bin/python3 "$here/dissector_write.py" "$data/roce-operations.pcap" "$scratch/more.pcap" ||
	fail 'no capture'
dissected "$scratch/more.pcap" >"$scratch/rows"
[ "$(awk '$2 == "bad" { print $1 }' "$scratch/rows" | tr '\n' ' ')" = '5 ' ] ||
	fail "the spoiled frame 5 is not the only bad one: $(head -n 8 "$scratch/rows")"
[ "$(tail -n 2 "$scratch/rows" | cut -d ' ' -f 2- | tr '\n' ';')" = 'good 0 1 1;good 1 0 0;' ] ||
	fail "the marks are $(tail -n 2 "$scratch/rows")"
dissected "$scratch/more.pcap" -o roce2.check:FALSE | awk '$2 != "unchecked" { exit 1 }' ||
	fail 'the preference does not turn the check off'
$as_user tshark -n -X "lua_script:$script" -r "$scratch/more.pcap" -Y roce2.icrc.wrong 2>/dev/null |
	grep -q . || fail 'a wrong ICRC is no expert information'
tail -n 2 "$scratch/rows"

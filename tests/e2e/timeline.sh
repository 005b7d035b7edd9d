#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic timeline and urnic explain of a capture with a lost packet. Where Chromium is installed, it
# draws the page: no error of the script, arrows, and a search that finds.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ib_write_bw
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
capture=$scratch/run.pcap
"$urnic" pair -- true -- true >"$scratch/out" 2>&1 || skip "no pair here: $(tail -n 1 "$scratch/out")"
"$urnic" pair --seed 7 --capture "$capture" --fault 'drop WRITE 20 of qp 1' \
	-- ib_write_bw -F -n 100 -s 64 -- ib_write_bw -F -n 100 -s 64 10.99.0.1 >"$scratch/out" 2>&1 ||
	fail "the pair: $(tail -n 1 "$scratch/out")"

"$urnic" timeline -o "$scratch/run.html" "$capture" || fail 'no page'
"$urnic" timeline - <"$capture" >"$scratch/piped.html" || fail 'no page of standard input'
grep -q 'sent again' "$scratch/run.html" || fail 'nothing is sent again'
grep -q 'http' "$scratch/run.html" && ! grep -q 'http://www.w3.org/2000/svg' "$scratch/run.html" &&
	fail 'the page needs another file'
"$urnic" timeline -m 10 "$capture" | grep -q '"omitted":[1-9]' || fail '-m leaves nothing out'
"$urnic" timeline "$0" >/dev/null 2>&1 && fail 'a script is a capture'
"$urnic" timeline >/dev/null 2>&1
[ $? = 2 ] || fail 'no CAPTURE is no wrong usage'

said=$("$urnic" explain "$capture") || fail 'the capture is not explained'
echo "$said" | grep -q 'NAK, sequence error' || fail "no NAK is explained: $said"
echo "$said" | grep -q 'sent again, because ' || fail "nothing is sent again: $said"
echo "$said" | grep -q '^[0-9]* packets, [0-9]* sent again, [0-9]* refused$' || fail "no summary: $said"
"$urnic" explain --json "$capture" | matches_schema explain

# A lost packet of a UC queue pair, whose requester does not send it again.
"$urnic" pair --seed 7 --capture "$scratch/uc.pcap" --fault 'drop WRITE 20 of qp 1' \
	-- ib_write_bw -c UC -F -n 100 -s 64 -- ib_write_bw -c UC -F -n 100 -s 64 10.99.0.1 \
	>"$scratch/out" 2>&1 || fail "the pair of UC: $(tail -n 1 "$scratch/out")"
said=$("$urnic" explain "$scratch/uc.pcap") || fail 'the capture of UC is not explained'
echo "$said" | tr -s '\n ' ' ' | grep -q 'UC_WRITE_ONLY, PSN 0x[0-9a-f]*: 1 packet before it, from PSN' ||
	fail "no gap is explained: $said"
echo "$said" | grep -q '^[0-9]* packets, 1 behind a gap$' || fail "no summary of UC: $said"
"$urnic" explain --json "$scratch/uc.pcap" | matches_schema explain
"$urnic" timeline -o "$scratch/uc.html" "$scratch/uc.pcap" || fail 'no page of UC'

# Of a refusal by a process of this machine, what that process has kept of it: which check it was.
"$urnic" pair --capture "$scratch/bad.pcap" -- "$programs/badinput" -d rocep_veth0 -- \
	"$programs/badinput" -d rocep_veth0 10.99.0.1 >"$scratch/out" 2>&1 ||
	fail "badinput: $(tail -n 2 "$scratch/out")"
"$urnic" explain "$scratch/bad.pcap" >"$scratch/said" || fail 'the bad requests are not explained'
grep -q 'the peer, process [0-9]* (badinput), kept REGION_' "$scratch/said" ||
	fail "no check is named: $(head -n 40 "$scratch/said")"
"$urnic" timeline "$scratch/bad.pcap" >"$scratch/bad.html" || fail 'no page of the bad requests'
grep '^\[[0-9.]*,[01],-1,13,"REMOTE_ACCESS",' "$scratch/bad.html" | grep -q '(badinput), work request ' ||
	fail 'the page has no failed completion'
grep -q '^\[[0-9.]*,[01],-1,13,"REGION_KEY",' "$scratch/bad.html" || fail 'the page has no refusal'
"$urnic" explain --json "$scratch/bad.pcap" | matches_schema explain
data=$(dirname "$0")/../data/pcap
for refused in bad-write-key:REGION_KEY out-of-range:REGION_BOUNDS rnr:NO_RECEIVE rejected:CM_NO_LISTENER; do
	"$urnic" explain "$data/roce-${refused%:*}.pcap" | grep -q "^ *${refused#*:}: " ||
		fail "${refused%:*} does not name ${refused#*:}"
done
cp "$data/roce-rnr.pcap" "$scratch/é<b>.pcap"
"$urnic" timeline "$scratch/é<b>.pcap" >"$scratch/name.html" || fail 'no page of a file with such a name'
grep -qF '/é\u003cb>.pcap"}' "$scratch/name.html" || fail "the title: $(grep '"title":' "$scratch/name.html")"
"$urnic" explain "$data/iwarp-bad-write-key.pcap" | grep -q '^ *REGION_KEY: ' ||
	fail 'a Terminate message names no check'

# What the sender gives the kernel as one super-packet is in the capture as packets.
"$urnic" pair --capture "$scratch/many.pcap" -- ib_write_bw -F -n 5000 -s 8 \
	-- ib_write_bw -F -n 5000 -s 8 10.99.0.1 >"$scratch/out" 2>&1 ||
	fail "the pair of many: $(tail -n 1 "$scratch/out")"
grep 'the capture lacks' "$scratch/out" && fail 'a ring with room for all packets lacks some'
said=$("$urnic" explain "$scratch/many.pcap" | tail -n 1)
[ "${said%% *}" -gt 5000 ] || fail "too few packets: $said"
if command -v tshark >/dev/null; then
	writes=$(tshark -n -r "$scratch/many.pcap" -Y 'infiniband.bth.opcode == 10' 2>/dev/null | wc -l)
	[ "$writes" -ge 5000 ] || fail "the capture has $writes of 5000 WRITEs"
fi

# In pcapng the packets that were refused or sent again have a comment; the others have none.
"$urnic" pair --seed 7 --capture "$scratch/run.pcapng" --fault 'drop WRITE 20 of qp 1' \
	-- ib_write_bw -F -n 100 -s 64 -- ib_write_bw -F -n 100 -s 64 10.99.0.1 >"$scratch/out" 2>&1 ||
	fail "the pair: $(tail -n 1 "$scratch/out")"
"$urnic" explain "$scratch/run.pcapng" | grep -q 'NAK, sequence error' || fail 'pcapng is not explained'
if command -v tshark >/dev/null; then
	tshark -n -r "$scratch/run.pcapng" -Y frame.comment -T fields -e frame.comment \
		>"$scratch/comments" 2>/dev/null || fail 'tshark does not read it'
	grep -q '^NAK, sequence error' "$scratch/comments" || fail "comments: $(cat "$scratch/comments")"
	grep -q '^sent again, because ' "$scratch/comments" ||
		fail "comments: $(cat "$scratch/comments")"
	grep -qv -e '^NAK' -e '^sent again' "$scratch/comments" && fail 'a good packet has a comment'
fi

# With events, the page also has posts, completions and state changes, of both hosts.
"$urnic" pair --capture "$scratch/events.pcapng" --events -- ib_write_bw -F -n 20 -s 64 \
	-- ib_write_bw -F -n 20 -s 64 10.99.0.1 >"$scratch/out" 2>&1 ||
	fail "the pair with events: $(tail -n 1 "$scratch/out")"
"$urnic" timeline "$scratch/events.pcapng" >"$scratch/events.html" || fail 'no page of events'
for host in 10.99.0.1 10.99.0.2; do
	grep -q "^\"hosts\":\[.*\"$host\"" "$scratch/events.html" || fail "no host is $host"
done
for kind in '10,"post RDMA_WRITE' '11,"completion of a send' '12,"state RTR to RTS'; do
	grep -q "^\[[-0-9.]*,[0-9],-1,$kind" "$scratch/events.html" || fail "the events have no $kind"
done
[ "$(sed -n 's/^\[[-0-9.]*,\([0-9]\),-1,12,"state INIT to RTR.*/\1/p' "$scratch/events.html" |
	sort -u | wc -l)" = 2 ] || fail 'not both hosts have events'
# Each event is between the frames of before and after. Frames themselves come some us out of order.
if command -v tshark >/dev/null; then
	tshark -n -r "$scratch/events.pcapng" -T fields -e frame.interface_id -e frame.time_epoch \
		>"$scratch/times" 2>/dev/null || fail 'tshark does not read the events'
	awk '{ other = 1 - $1 }
		$2 + 0.0001 < latest[other] { print "packet " NR " is " latest[other] - $2 " s late"; exit }
		$2 > latest[$1] { latest[$1] = $2 }' "$scratch/times" >"$scratch/late"
	[ -s "$scratch/late" ] && fail "frames and events are in no order: $(cat "$scratch/late")"
	[ "$(cut -f1 "$scratch/times" | sort -u | wc -l)" = 2 ] || fail 'there are no two interfaces'
fi
"$urnic" pair --events -- true -- true >"$scratch/out" 2>&1
[ $? = 2 ] || fail '--events without --capture is no wrong usage'

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
	skip 'the page is written; Chromium is not installed, so nothing has drawn it'
# drawn FRAGMENT: the attributes of the page's body after its script has run.
drawn() {
	HOME=$scratch timeout 120 "$browser" --headless --no-sandbox --disable-gpu \
		--virtual-time-budget=10000 --dump-dom "file://$scratch/run.html#$1" \
		2>"$scratch/browser" >"$scratch/dom"
	grep -o '<body[^>]*>' "$scratch/dom"
}
body=$(drawn '') || skip "Chromium does not run here: $(tail -n 1 "$scratch/browser")"
case $body in
*data-error*) fail "the script fails: $body" ;;
*data-drawn=\"[1-9]*) ;;
*) fail "nothing is drawn: $body" ;;
esac
grep -q '<line class="arrow"' "$scratch/dom" || fail 'there are no arrows'
body=$(drawn 'search=sent%20again&next')
case $body in
*data-found=\"[1-9]*) ;;
*) fail "the search finds nothing: $body" ;;
esac
grep -q 'class="event found chosen"' "$scratch/dom" || fail 'the first match is not chosen'
echo "$body"

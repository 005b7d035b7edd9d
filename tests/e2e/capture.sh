#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic capture: tshark and other programs dissect the captured requests that needed no packets.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need tshark
network_up 9000
check() {
	/usr/bin/python3 "$(dirname "$0")/capture_check.py" "$@" >"$scratch/checked" ||
		fail "capture_check $*: $(cat "$scratch/checked")"
}

# begin NAME OPTIONS...: capture, from before anything else happens.
begin() {
	name=$1
	shift
	on a sh -c 'echo $$ >"$0"; exec "$@"' "$scratch/$name.pid" "$urnic" capture "$@" \
		>"$scratch/$name.out" 2>"$scratch/$name" &
	eval "job_$name=$!"
	until on a grep -q '/urnic[^ /]*/capture-' /proc/net/unix; do
		kill -0 $! 2>/dev/null || fail "capture ends: $(cat "$scratch/$name")"
		sleep 0.02
	done
}

# end NAME: interrupt it. What it says at its end is in $scratch/NAME.
end() {
	kill -INT "$(process "$1")"
	finish "$1" || fail "capture fails: $(cat "$scratch/$1")"
}

# Every operation of every size.
port=18600
begin capture -w "$scratch/on.pcapng"
pair a a 10.99.0.1 "$programs/verify" -d rocep_veth0 -m 1024 -w each -n 4097
end capture
check "$scratch/on.pcapng"
cat "$scratch/checked"
for kind in 'SEND middle' 'WRITE last with immediate' 'READ response middle' 'atomic acknowledge' ACK; do
	grep -q "rocep_veth0 (local): $kind" "$scratch/checked" || fail "no $kind without packets"
done

# In the eyes of Wireshark.
guesses=$(tshark -G heuristic-decodes 2>/dev/null |
	awk '$1 == "infiniband.payload" && $2 != "ethertype" { print "--disable-protocol", $2 }')
# shellcheck disable=SC2086
tshark -n $guesses --disable-heuristic eth_over_ib -r "$scratch/on.pcapng" -T fields -e frame.interface_name \
	-e infiniband.bth.opcode -e _ws.malformed -e frame.comment >"$scratch/dissected" 2>/dev/null
awk -F '\t' '$1 !~ /^rocep_veth0/ || $2 == "" || $3 != "" || $4 !~ /^verify, process/ { bad++ }
	END { print NR " packets dissected, " bad + 0 " bad"; exit bad || NR < 1000 }' "$scratch/dissected" ||
	fail "tshark finds bad packets: $(head -n 3 "$scratch/dissected")"

# Filters, payload that is left out, and files in turn. kinds_of FILE: the opcodes in it, by number.
kinds_of() {
	# shellcheck disable=SC2086
	tshark -n $guesses --disable-heuristic eth_over_ib -r "$1" -T fields -e infiniband.bth.opcode \
		2>/dev/null | sort -u | tr '\n' ' '
}
# filtered OPTIONS...: capture the same run by them.
filtered() {
	begin capture -w "$scratch/some.pcapng" "$@"
	pair a a 10.99.0.1 "$programs/verify" -d rocep_veth0 -m 1024 -w each -n "$bytes"
	end capture
}
bytes=4097
filtered --opcode send_only
# SEND only, with immediate, with invalidate: of RC 0x04, 0x05, 0x17, of UC 0x24, 0x25, of UD 0x64,
# 0x65.
for kind in $(kinds_of "$scratch/some.pcapng"); do
	case $kind in
	4 | 5 | 23 | 36 | 37 | 100 | 101) ;;
	*) fail "--opcode send_only has opcode $kind" ;;
	esac
done
[ -n "$(kinds_of "$scratch/some.pcapng")" ] || fail '--opcode send_only finds nothing'
qpn=$(sed -n 's/.*QP \(0x[0-9a-f]*\), without.*/\1/p' "$scratch/dissected" | head -n 1)
[ -n "$qpn" ] || fail 'no queue pair in the comments'
filtered --qp "$qpn"
[ -z "$(kinds_of "$scratch/some.pcapng")" ] || fail 'a queue pair of an earlier run has packets'
filtered --snap headers
# shellcheck disable=SC2086
tshark -n $guesses -r "$scratch/some.pcapng" -T fields -e frame.cap_len -e frame.len 2>/dev/null |
	awk '$1 > 92 { bad++ } $2 > 1000 { long++ } END { exit bad || !long }' ||
	fail '--snap headers keeps payload, or loses the length'
bytes=65536
filtered -C 1 -W 2
[ -s "$scratch/some.pcapng.0" ] && [ -s "$scratch/some.pcapng.1" ] || fail '-C makes no files'
[ ! -e "$scratch/some.pcapng.2" ] || fail '-W makes more files'
for file in "$scratch/some.pcapng.0" "$scratch/some.pcapng.1"; do
	[ "$(stat -c %s "$file")" -lt 1500000 ] || fail "$file is larger than -C"
	kinds_of "$file" | grep -q . || fail "$file is no capture"
done
bytes=4097
filtered --events
"$urnic" timeline "$scratch/some.pcapng" >"$scratch/page" || fail 'no page of events'
for kind in '10,"post RDMA_WRITE, ' '10,"post RDMA_READ, ' '11,"completion of a send, status 0' \
	'11,"completion of a receive, status 0' '12,"state RTR to RTS"'; do
	grep -q "^\[[0-9.]*,[0-9],-1,$kind" "$scratch/page" || fail "the page has no $kind"
done
"$urnic" capture -C 1 >/dev/null 2>&1
[ $? = 2 ] || fail '-C without -w is no wrong usage'
"$urnic" capture -w "$scratch/one" -C 1 -W 1 >/dev/null 2>&1
[ $? = 2 ] || fail 'a ring of one file is no wrong usage'

# Many packets that repeat one model, with payload of all kinds of pads, and with READ responses.
need ib_write_bw ib_send_bw ib_read_bw
port=18515
for run in 'WRITE ib_write_bw -s 8' 'WRITE ib_write_bw -s 9 -l 4' 'SEND ib_send_bw -s 30' 'READ ib_read_bw -s 7'; do
	kind=${run%% *} run=${run#* }
	begin capture -w "$scratch/many.pcapng"
	# shellcheck disable=SC2086
	pair a a 10.99.0.1 $run -F -n 3000 -d rocep_veth0
	end capture
	check "$scratch/many.pcapng"
	awk -v kind=" rocep_veth0 (local): $kind" 'index($0, kind) { sum += $1 } / lost$/ { sum += $(NF - 1) }
		END { exit sum < 3000 }' "$scratch/checked" "$scratch/capture" ||
		fail "$run: fewer than 3,000 requests: $(cat "$scratch/checked")"
done

# Programs never wait for urnic capture. When it is killed, or stopped while they run, the records
# that it has not read are lost and counted.
# fate KILL|STOP PROGRAM: what is to be lost takes time, of which there is more in the next attempt.
fate() {
	begin capture -s 100 -w "$scratch/fate.pcapng"
	# shellcheck disable=SC2086
	start server a $2 -F -d rocep_veth0 -s 64 -D $((2 * attempt - 1))
	wait_for_port a $port "$job_server"
	# shellcheck disable=SC2086
	start client a $2 -F -d rocep_veth0 -s 64 -D $((2 * attempt - 1)) 10.99.0.1
	until [ "$(stat -c %s "$scratch/fate.pcapng")" -gt 100000 ]; do
		kill -0 "$job_client" 2>/dev/null || break
		sleep 0.02
	done
	kill -"$1" "$(process capture)"
	finish_well server client
	if [ "$1" = KILL ]; then
		finish capture && fail 'a capture that was killed ends well'
		return 0
	fi
	kill -CONT "$(process capture)"
	end capture
	lost=$(awk '/ lost$/ { print $(NF - 1) }' "$scratch/capture")
	why="$2, capture stopped: $(tail -n 1 "$scratch/capture")"
	[ "${lost:-0}" -gt 0 ] || return $LATE
}
for program in ib_write_bw 'ib_send_bw -c UD'; do
	in_some_attempt fate KILL "$program"
	in_some_attempt fate STOP "$program"
	echo "$why"
done

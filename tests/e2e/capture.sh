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

# Programs never wait for urnic capture. When it is killed, or stopped while they run, the records
# that it has not read are lost and counted.
need ib_write_bw ib_send_bw
port=18515
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

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# The names of a program and of an interface contain control characters. urnic shows the names in
# terminals and logs without these characters.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"

network_up 9000
port=18600
evil=$(printf 'e\033[31mv\177\233il')
ln -s "$(realpath "$programs/verify")" "$scratch/$evil"
ln -s "$(readlink -f /usr/bin/python3)" "$scratch/p$evil"
export URNICD_LOG="$scratch/log" URNICD_IDLE_S=1
on a ip link set veth0 down
on a ip link set veth0 name "$(printf 'v\033[7m0')" || fail 'the interface keeps its name'
on a ip link set "$(printf 'v\033[7m0')" up

# shown WHAT FILE TEXT: it shows what it is for, without what a terminal obeys.
shown() {
	grep -q "$3" "$2" || fail "$1 does not show '$3': $(cat -v "$2")"
	[ "$(LC_ALL=C tr -d '\011\012\040-\176' <"$2" | wc -c)" = 0 ] || fail "$1 shows: $(cat -v "$2")"
}

on a "$urnic" devices >"$scratch/devices"
shown devices "$scratch/devices" 'v?\[7m0'
device=$(printf 'rocep_v\033[7m0')
on a sh -c 'echo $$ >"$0"; exec "$@"' "$scratch/capture.pid" "$urnic" capture >"$scratch/captured" 2>&1 &
await 'nobody captures' on a grep -q '/urnic[^ /]*/capture-' /proc/net/unix
start server a "$scratch/$evil" -d "$device" -w mixed -n 100000000
wait_for_port a $port "$job_server"
start client a "$scratch/$evil" -d "$device" -w mixed -n 100000000 127.0.0.1
has_moved() {
	grep -q SEND "$scratch/captured"
}
await "no data move: $(cat -v "$scratch/server" "$scratch/client")" has_moved
on a "$urnic" stat >"$scratch/stat" || fail 'stat fails'
on a "$urnic" stat --json >"$scratch/stat.json" || fail 'stat fails'
kill -INT "$(cat "$scratch/capture.pid")"
kill "$(process server)" "$(process client)"
finish_well server client
head -n 200 "$scratch/captured" >"$scratch/captured.head"
shown capture "$scratch/captured.head" 'e?\[31mv??il'
shown stat "$scratch/stat" 'e?\[31mv??il, process'
shown 'stat --json' "$scratch/stat.json" 'e?\[31mv??il'
shown "urnicd's log" "$scratch/log" '(e?\[31mv??il) of user'

# Who has the port is named in a sentence.
no_urnicd() {
	[ -z "$(urnicd_of a)" ]
}
await 'urnicd stays' no_urnicd
on a sh -c 'echo $$ >"$0"; exec "$@"' "$scratch/occupier.pid" "$scratch/p$evil" -c '
import socket, time
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(("::", 4791))
time.sleep(60)' &
is_taken() {
	on a ss -Hlnu 'sport = :4791' | grep -q .
}
await 'the port is not taken' is_taken
on a timeout 60 "$urnic" run --no-view -- "$programs/forks" -d "$device" >"$scratch/taken" 2>&1 &&
	fail 'a port is had twice'
kill "$(cat "$scratch/occupier.pid")"
shown 'a port that is taken' "$scratch/taken" '4791 of .* is taken by pe?\[31mv??il (process'

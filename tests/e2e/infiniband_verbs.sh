#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Verbs over an InfiniBand subnet of three switches: Debian's ping-pongs and perftest without a GID
# index, between hosts that are two and three hops apart, with the embedded subnet manager.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ibv_rc_pingpong ib_write_bw
topology=$(dirname "$0")/../../examples/infiniband/three-switches.topo
name=verbs-$$
up=
trap 'kill $up 2>/dev/null; wait; rm -rf "$scratch"' EXIT

# host NODE PROGRAM [ARGUMENTS]: run a program on a host of the fabric.
host() {
	node=$1
	shift
	timeout $pair_seconds "$urnic" run --no-view --fabric "$name:$node" -- "$@"
}

is_up() {
	grep -q ' is up: ' "$scratch/up"
}

is_active() {
	host host6 ibv_devinfo 2>&1 | grep -q 'PORT_ACTIVE'
}

listens() {
	ss -Hltn "sport = :$port" | grep -q .
}

# meet SERVER CLIENT PROGRAM [ARGUMENTS]: run both ends of a program, which has to succeed.
meet() {
	server=$1 client=$2
	shift 2
	port=$((port + 1))
	host "$server" "$@" -p $port >"$scratch/server" 2>&1 &
	job=$!
	await "$* listens" listens
	host "$client" "$@" -p $port 127.0.0.1 >"$scratch/client" 2>&1
	client_status=$?
	wait $job
	server_status=$?
	[ $client_status$server_status = 00 ] ||
		fail "$* ends with $server_status and $client_status: $(tail -n 5 "$scratch/server" "$scratch/client")"
}

# refuses PLACE SENTENCE: a program with that URNIC_FABRIC has no device, and one sentence says why.
refuses() {
	URNIC_FABRIC=$1 "$urnic" run --no-view -- ibv_devinfo >"$scratch/out" 2>&1
	grep -q "$2" "$scratch/out" || fail "URNIC_FABRIC=$1: $(cat "$scratch/out")"
	[ "$(grep -c URNIC_FABRIC "$scratch/out")" = 1 ] || fail "$1: $(cat "$scratch/out")"
	grep -q 'No IB devices found' "$scratch/out" || fail "$1 has a device"
}

port=$((20000 + $$ % 240 * 50)) # below those that the kernel gives to clients
refuses "$name:host1" "no fabric \"$name\" runs"
"$urnic" fabric up --name "$name" "$topology" >"$scratch/up" 2>&1 &
up=$!
await 'the fabric is up' is_up
await 'the ports are active' is_active
refuses "$name:nobody" 'nobody'
refuses "$name:" 'names no node'
"$urnic" run --fabric "$name:" -- true 2>"$scratch/out" && fail 'urnic run: no node is enough'
grep -q 'names no node' "$scratch/out" || fail "urnic run: $(cat "$scratch/out")"

host host1 ibv_devinfo -v >"$scratch/out" 2>&1 || fail "ibv_devinfo: $(cat "$scratch/out")"
for line in 'link_layer:.*InfiniBand' 'active_width:.*4X' 'active_speed:.*10.0 Gbps' \
	'max_vl_num:.*8 \(4\)' 'sm_lid:.*1' 'port_lid:.*[1-9]' 'GID\[  0\]:.*fe80:.*'; do
	grep -Eq "$line" "$scratch/out" || fail "no \"$line\": $(cat "$scratch/out")"
done

# attribute FILE: what the library says of it, without a view of /sys.
attribute() {
	host host1 /usr/bin/python3 -c 'import ctypes, sys
value = ctypes.create_string_buffer(80)
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list(None)
count = verbs.ibv_read_sysfs_file(b"/sys/class/infiniband/ibp0", sys.argv[1].encode(), value, 80)
print(value.value.decode() if count >= 0 else "-")' "$1"
}

lid=$(sed -n 's/.*port_lid:[^0-9]*\([0-9]*\).*/\1/p' "$scratch/out")
[ "$(attribute ports/1/link_layer)" = InfiniBand ] || fail 'link_layer'
[ "$(attribute ports/1/state)" = '4: ACTIVE' ] || fail "state: $(attribute ports/1/state)"
[ "$(attribute ports/1/lid)" = "0x$(printf %x "$lid")" ] || fail "lid: $(attribute ports/1/lid)"
[ "$(attribute ports/1/rate)" = '40 Gb/sec (4X QDR)' ] || fail "rate: $(attribute ports/1/rate)"
[ "$(attribute ports/1/pkeys/0)" = 0xffff ] || fail "pkeys: $(attribute ports/1/pkeys/0)"
attribute ports/1/gids/0 | grep -q '^fe80:' || fail "gids: $(attribute ports/1/gids/0)"
[ "$(attribute ports/2/state)" = - ] || fail 'a port that is not there'

for far in host2 host3; do
	meet host1 $far ibv_rc_pingpong
	grep -q 'LID 0x000[1-9a-f],' "$scratch/client" || fail "no LID: $(cat "$scratch/client")"
	meet host1 $far ibv_uc_pingpong
	meet host1 $far ibv_ud_pingpong
	meet host1 $far ibv_srq_pingpong
done
# With a GRH, too.
meet host1 host3 ibv_rc_pingpong -g 0
meet host1 host3 ibv_ud_pingpong -g 0
# With events instead of polls.
meet host1 host3 ibv_rc_pingpong -e
for program in ib_send ib_write ib_read ib_atomic; do
	meet host1 host3 ${program}_bw -F -n 200
	meet host1 host3 ${program}_lat -F -n 200
done
meet host1 host3 ib_send_bw -F -n 200 -c UC
meet host1 host3 ib_send_bw -F -n 200 -c UD
meet host1 host3 ib_write_bw -F -n 200 -b -q 4

# Each cable's ends agree on what has crossed it, though most frames passed the process by, and
# perfquery sees the same.
"$urnic" fabric --name "$name" dump >"$scratch/dump"
awk '
	/^(Switch|Ca) / { split($0, part, "\""); at = part[2] }
	/-> "/ {
		split($0, part, "\"")
		match($0, /^ *\[[0-9]+\]/); end = at substr($0, RSTART + 2, RLENGTH - 2)
		match(part[3], /^\[[0-9]+\]/); peer = part[2] substr(part[3], RSTART, RLENGTH)
		match($0, /[0-9]+ packets out, [0-9]+ in/)
		split(substr($0, RSTART, RLENGTH), count, " ")
		out[end] = count[1]; into[end] = count[4]; to[end] = peer; sum += count[1]
	}
	END {
		for (end in to)
			if (out[end] != into[to[end]])
				print end " has sent " out[end] ", " to[end] " has received " into[to[end]]
		if (sum < 20000)
			print "no more than " sum + 0 " packets were sent"
	}' "$scratch/dump" >"$scratch/out"
[ -s "$scratch/out" ] && fail "counters: $(cat "$scratch/out")"
if command -v perfquery >/dev/null; then
	lid=$("$urnic" fabric --name "$name" dump host3 | sed -n 's/.* lid \([0-9]*\) lmc .*/\1/p')
	host host2 perfquery -x "$lid" 1 >"$scratch/out" 2>&1 || fail "perfquery: $(cat "$scratch/out")"
	packets=$(sed -n 's/^PortRcvPkts:\.*//p' "$scratch/out")
	dumped=$("$urnic" fabric --name "$name" dump host3 | sed -n 's/.* packets out, \([0-9]*\) in.*/\1/p')
	# The request of perfquery itself may have come in before or after.
	[ $((dumped - packets)) -le 2 ] && [ "$packets" -gt 5000 ] ||
		fail "perfquery has $packets, the dump $dumped"
fi
exit 0

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic run --view: the files in /sys and /dev that the program sees, that no other process sees
# them, and that all other files are unchanged.
. "$(dirname "$0")/common.sh"

network_up
scratch=$(mktemp -d "${TMPDIR:-/tmp}/urnic-e2e.XXXXXX")
links=$scratch/links
reason=$(on a "$urnic" run --view true 2>&1) || skip "no private view here: $reason"

# show PROGRAM...: on host a, in the view.
show() {
	on a "$urnic" run --view -- "$@"
}

device=/sys/class/infiniband/rocep_veth0
port=$device/ports/1
for pair in "$device/node_type=1: CA" "$port/state=4: ACTIVE" "$port/link_layer=Ethernet" \
	"$port/gids/0=0000:0000:0000:0000:0000:ffff:0a63:0001" "$port/gid_attrs/types/0=RoCE v2" \
	"$port/gid_attrs/ndevs/0=veth0" "/sys/class/infiniband_verbs/uverbs0/ibdev=rocep_veth0"; do
	[ "$(show cat "${pair%%=*}")" = "${pair#*=}" ] || fail "${pair%%=*} is not ${pair#*=}"
done
[ "$(show ls $device/device/net/)" = veth0 ] || fail 'the device does not lead to its interface'
show test -c /dev/infiniband/uverbs0 || fail 'no character device'
show test -r /dev/infiniband/uverbs0 -a -w /dev/infiniband/uverbs0 || fail 'the device cannot be opened'

# The rest of /sys and /dev, seen from inside. Of /dev/shm only a file of this test's, because
# programs of other tests come and go there.
shared=/dev/shm/$network
trap 'rm -f "$shared"; at_exit' EXIT
: >"$shared"
here='cd /sys/class && echo */ && readlink -f net/lo && cat /sys/class/net/lo/mtu &&
	echo >/dev/null && head -c 1 /dev/zero | wc -c && ls /dev/fd/ | wc -l && ls /dev/pts/ptmx '"$shared"
outside=$(on a sh -c "$here" | sed 's|infiniband\(_verbs\)*/ ||g')
inside=$(show sh -c "$here" | sed 's|infiniband\(_verbs\)*/ ||g')
[ "$inside" = "$outside" ] || fail "outside: $outside; inside: $inside"
[ "$(show id -u)" = "$(on a id -u)" ] || fail 'the user is another one'

# Nothing is left behind, nothing shows elsewhere.
for path in /sys/class/infiniband /dev/infiniband /dev/.host; do
	[ ! -e $path ] || show test -e $path || fail "$path is outside"
done
! on a grep -q '^urnic ' /proc/mounts || fail 'our mounts are outside'

# A view in a view, the names that were asked for, and a program's exit status.
names=$(show env URNIC_INTERFACES=veth0,lo URNIC_DEVICE_NAME=mlx5_0 "$urnic" run --view ls /sys/class/infiniband | tr '\n' ' ')
[ "$names" = 'mlx5_0 rocep_lo ' ] || fail "a view in a view shows $names"
show sh -c 'exit 5'
[ $? = 5 ] || fail 'the exit status is not the program'\''s'
! on a "$urnic" run --no-view test -e /sys/class/infiniband/rocep_veth0 || fail '--no-view gives a view'

# rdma link show lists the device, as does its JSON. Other commands are iproute2's, if it is there.
line='link rocep_veth0/1 state ACTIVE physical_state LINK_UP netdev veth0 '
for words in 'link' 'link show' 'link show rocep_veth0' 'li sh rocep_veth0/1' '-d link list'; do
	# shellcheck disable=SC2086 # several words
	[ "$(show rdma $words)" = "$line" ] || fail "rdma $words prints $(show rdma $words 2>&1)"
done
show rdma link show -j >"$links" || fail 'rdma link show -j fails'
python3 - "$links" "$(on a cat /sys/class/net/veth0/ifindex)" <<-'END' || fail "rdma link show -j prints $(cat "$links")"
	import json, sys
	expected = {"ifindex": 0, "ifname": "rocep_veth0", "port": 1, "state": "ACTIVE",
	            "physical_state": "LINK_UP", "netdev": "veth0", "netdev_index": int(sys.argv[2])}
	sys.exit(json.load(open(sys.argv[1])) != [expected])
END
! show rdma link show nothing 2>/dev/null || fail 'rdma shows a device that is not there'
genuine=$(command -v rdma) && [ "$(show rdma -V)" != "$("$genuine" -V)" ] && fail 'rdma -V is not iproute2'\''s'
# Two urnics on PATH do not leave a command to each other for ever.
mkdir "$scratch/other"
cp "$1/lib/view/rdma" "$scratch/other"
timeout 20 env PATH="$scratch/other:$1/lib/view" "$scratch/other/rdma" -V >/dev/null 2>&1
[ $? = 1 ] || fail 'two programs rdma run each other'
[ "$(on a "$urnic" run --no-view sh -c 'command -v rdma')" = "$genuine" ] || fail 'rdma is urnic'\''s without the view'

# Programs that look there, as far as they are installed.
if command -v ibstat >/dev/null; then
	show ibstat rocep_veth0 1 | grep -q 'State: Active' || fail 'ibstat does not see the port'
fi
# Debian's UCX has no verbs in some releases.
if command -v ucx_info >/dev/null && ls /usr/lib/*/ucx/libuct_ib.so.* >/dev/null 2>&1; then
	show ucx_info -d 2>/dev/null | grep -q 'Device: rocep_veth0:1' || fail 'UCX ignores the device'
fi

# counted VALUE LOW HIGH WHAT
counted() {
	[ "${1:-0}" -ge "$2" ] && [ "$1" -le "$3" ] || fail "$4: ${1:-nothing}, and not $2 to $3"
}

# Traffic counters, which perftest reads before and after: 1000 WRITEs of 64 KiB, in units of four
# bytes with at most a tenth for headers.
if command -v ib_write_bw >/dev/null; then
	on a "$urnic" run --view -- timeout 60 ib_write_bw -F -d rocep_veth0 -n 1000 -s 65536 \
		-W counters/port_rcv_data,hw_counters/rdma_writes >"$scratch/server" 2>&1 &
	server=$!
	await 'the server does not listen' on a sh -c 'ss -Htln | grep -q :18515'
	on b "$urnic" run --view -- timeout 60 ib_write_bw -F -d rocep_veth0 -n 1000 -s 65536 \
		-W counters/port_xmit_data 10.99.0.1 >"$scratch/client" 2>&1 ||
		fail "ib_write_bw -W: $(cat "$scratch/client")"
	wait $server || fail "the server of ib_write_bw -W: $(cat "$scratch/server")"
	sent=$(sed -n 's|.*counters/port_xmit_data=||p' "$scratch/client")
	received=$(sed -n 's|.*counters/port_rcv_data=||p' "$scratch/server")
	writes=$(sed -n 's|.*hw_counters/rdma_writes=||p' "$scratch/server")
	counted "$sent" 16384000 20000000 'port_xmit_data'
	counted "$received" 16384000 20000000 'port_rcv_data'
	counted "$writes" 1000 1200 'rdma_writes'

	# Within the host no packets carry them: the port counts the few of the beginning at most.
	files=counters/port_xmit_data,counters/port_rcv_data,hw_counters/local_bytes
	on a "$urnic" run --view -- timeout 60 ib_write_bw -F -d rocep_veth0 -n 1000 -s 65536 \
		-W $files >"$scratch/server" 2>&1 &
	server=$!
	await 'the server does not listen' on a sh -c 'ss -Htln | grep -q :18515'
	on a "$urnic" run --no-view -- timeout 60 ib_write_bw -F -d rocep_veth0 -n 1000 -s 65536 \
		10.99.0.1 >"$scratch/client" 2>&1 || fail "ib_write_bw: $(cat "$scratch/client")"
	wait $server || fail "the server of ib_write_bw -W: $(cat "$scratch/server")"
	for name in counters/port_xmit_data counters/port_rcv_data; do
		counted "$(sed -n "s|.*$name=||p" "$scratch/server")" 0 6000000 "$name within the host"
	done
	counted "$(sed -n 's|.*hw_counters/local_bytes=||p' "$scratch/server")" 42000000 70000000 \
		'local_bytes'
fi

# The keeper, which writes the counters, ends with the last program that has the view, and keeps no
# descriptor of its caller's open.
keepers() {
	for process in /proc/[0-9]*; do
		[ "$(cat "$process/comm" 2>/dev/null)" = urnic-counters ] &&
			[ "$(readlink "$process/ns/net")" = "$(on a readlink /proc/self/ns/net)" ] &&
			echo "${process#/proc/}"
	done
}
[ "$(show sh -c 'cat /proc/[0-9]*/comm 2>/dev/null | grep -c urnic-counters')" -ge 1 ] || fail 'no counters are kept'
no_keepers() {
	[ -z "$(keepers)" ]
}
await 'the counters are kept though nobody has the view' no_keepers

# Sixteen at once, each with its own view.
command -v ibv_devices >/dev/null || exit 0
running=
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
	show sh -c 'ibv_devices | grep -q rocep_veth0 && test -d /sys/class/infiniband/rocep_veth0' &
	running="$running $!"
done
for process in $running; do
	wait "$process" || fail 'one of sixteen at once fails'
done

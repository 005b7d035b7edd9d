#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic host: the two hosts reach each other at once, and `urnic host down` removes everything.
. "$(dirname "$0")/common.sh"

network_up 4200
"$urnic" host list | grep -qx "$network" || fail 'the network is not listed'
on a ip -br addr show dev veth0 | grep -q 10.99.0.1/24 || fail 'host a has no address'
on b ip -o link show dev veth0 | grep -q 'mtu 4200' || fail 'the MTU is not the one asked for'
# Ends of one index are not urgent to the kernel, which then reports them as running a second late.
[ "$(on a cat /sys/class/net/veth0/ifindex)" != "$(on b cat /sys/class/net/veth0/ifindex)" ] ||
	fail 'both ends of the link have one index'
# No host waits for others that may have its addresses.
for side in a b; do
	[ "$(on $side cat /proc/sys/net/ipv6/conf/veth0/accept_dad)" = 0 ] ||
		fail "host $side looks for others that have its IPv6 addresses"
done

# The very first datagram of each family arrives: no neighbour to look up, no address to wait for.
for pair in 10.99.0.2 fd00:99::2; do
	on b /usr/bin/python3 -c '
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 7)); s.settimeout(60); print("ready", flush=True)
sys.exit(s.recv(9) != b"hello")' "$pair" >"/tmp/$network.ready" &
	receiver=$!
	until grep -q ready "/tmp/$network.ready"; do kill -0 $receiver || break; sleep 0.05; done
	on a /usr/bin/python3 -c '
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b"hello", (sys.argv[1], 7))' "$pair"
	wait $receiver || fail "no datagram to $pair"
	rm -f "/tmp/$network.ready"
done

on a sh -c 'exit 3'
[ $? = 3 ] || fail 'exec does not return the exit status of the program'
"$urnic" host up -n "$network" | grep -q already || fail 'up a second time is not fine'
"$urnic" host down -n "$network" || fail 'down'
! "$urnic" host down -n "$network" 2>/dev/null || fail 'down of nothing succeeds'
! "$urnic" host list | grep -qx "$network" || fail 'the network outlives down'

# Settings that differ from those of a network that is up are an error.
"$urnic" host up -n "$network" --hosts 3 --mtu 3000 || fail 'three hosts'
on c ip -br addr show dev veth0 | grep -q 10.99.0.3/24 || fail 'host c has no address'
on c ip -o link show dev veth0 | grep -q 'mtu 3000' || fail 'host c has another MTU'
"$urnic" host up -n "$network" -m 3000 >/dev/null || fail 'up with the same MTU is not fine'
"$urnic" host up -n "$network" --mtu 4200 2>&1 | grep -q 'MTU of 3000, not 4200' || fail 'another MTU'
! "$urnic" host up -n "$network" --hosts 2 2>/dev/null || fail 'another number of hosts is fine'
! on d true 2>/dev/null || fail 'there is a host d'
on b "$urnic" run ibv_devices | grep -q rocep_veth0 || fail 'host b has no device'
"$urnic" host down -n "$network" || fail 'down with three hosts'
! ip netns list 2>/dev/null | grep -q "$network" || fail 'a namespace outlives down'

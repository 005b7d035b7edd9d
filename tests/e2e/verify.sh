#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Every byte of every operation, between two hosts with small and with large frames, and within one.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
export URNIC_INTERFACES=veth0,lo # loopback is a device only where it is asked for

port=18600
network_up 1500
pair a b 10.99.0.1 "$programs/verify" -d rocep_veth0
pair a b fd00:99::1 "$programs/verify" -d rocep_veth0 -x 1 -m 256 -w mixed
for host in a b; do
	on $host ip link set veth0 mtu 9000
done
pair a b 10.99.0.1 "$programs/verify" -d rocep_veth0 -m 4096
pair a b fd00:99::1 "$programs/verify" -d rocep_veth0 -x 1
pair a a 127.0.0.1 "$programs/verify" -d rocep_lo
[ -n "${E2E_ONE_HOST:-}" ] || pair b b 10.99.0.2 "$programs/verify" -d rocep_veth0 -w mixed -n 6000

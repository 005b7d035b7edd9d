#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs that sleep in ibv_get_cq_event or at the channel's descriptor: threads on one channel and
# on several, signals, cancellation; perftest's programs with -e.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
export URNIC_INTERFACES=veth0,lo # loopback is a device only where it is asked for

port=18600
network_up 9000
pair a b 10.99.0.1 "$programs/sleepers" -d rocep_veth0 -n 500
URNIC_LANES=1 pair a b 10.99.0.1 "$programs/sleepers" -d rocep_veth0 -n 300
for way in on off; do
	URNIC_LOCAL=$way pair a a 127.0.0.1 "$programs/sleepers" -d rocep_lo -n 200
done

need ib_send_lat ib_send_bw
port=18515
pair a b 10.99.0.1 ib_send_lat -F -d rocep_veth0 -x 1 -e -n 1000
pair a b 10.99.0.1 ib_send_lat -F -d rocep_veth0 -x 1 -c UD -e -n 1000
pair a b 10.99.0.1 ib_send_bw -F -d rocep_veth0 -x 1 -e -q 4 -n 1000
URNIC_TRANSPORTS=iwarp pair a b 10.99.0.1 ib_send_lat -F -R -e -n 1000

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# ibv_wr_*, extended completion queues, parent domains: between two hosts, in small packets and
# large, and within one.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
export URNIC_INTERFACES=veth0,lo # loopback is a device only where it is asked for

port=18600
network_up 9000
pair a b 10.99.0.1 "$programs/extended" -d rocep_veth0
pair a b fd00:99::1 "$programs/extended" -d rocep_veth0 -x 1 -m 256 -n 500
pair a a 127.0.0.1 "$programs/extended" -d rocep_lo -n 500

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Requests that must be refused, between two hosts and within one.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
export URNIC_INTERFACES=veth0,lo # loopback is a device only where it is asked for

port=18600
network_up 1500
pair a b 10.99.0.1 "$programs/badinput" -d rocep_veth0
pair a b fd00:99::1 "$programs/badinput" -d rocep_veth0 -x 1 -m 256
pair a a 127.0.0.1 "$programs/badinput" -d rocep_lo

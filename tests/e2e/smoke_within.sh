#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Within one host: a program of Debian's, each byte of each operation, and requests that need no
# packets.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ib_write_bw
export URNIC_LOCAL=on
network_up
pair a a 10.99.0.1 ib_write_bw -F -d rocep_veth0 -n 1000
port=18600
pair a a 10.99.0.1 "$programs/verify" -d rocep_veth0 -w each -n 4097

start server a "$programs/verify" -d rocep_veth0 -w mixed -n 100000000
wait_for_port a $port "$job_server"
start client a "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 10.99.0.1
await 'all requests need packets' has_counted 100 a "$(process client)" local_requests
kill "$(process server)" "$(process client)"
finish_well server client

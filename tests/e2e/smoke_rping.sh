#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# By rdma_cm: rping compares the bytes that come back, between two hosts and within one.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need rping
network_up
for client in b a; do
	meet 'rping -s -a 10.99.0.1 -C 50' $client 'rping -c -a 10.99.0.1 -V -C 50'
done
meet 'rping -s -a fd00:99::1 -C 50' b 'rping -c -a fd00:99::1 -V -C 50'

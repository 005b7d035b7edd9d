#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# qperf's verbs tests. It knows no GIDs: the addresses that it makes (ib_prep() in its rdma.c) have
# a LID and is_global 0. On RoCE the kernel refuses these with EINVAL, whatever the adapter
# (rdma_check_ah_attr()). With the connection manager (-cm1) it makes none, but rd_params() turns
# that off for all but RC. So its UC and UD tests are refused here, too, and the server lives on.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need qperf
port=19766
network_up 9000
start server a qperf -lp $port
wait_for_port a $port "$(process server)" || fail 'qperf does not listen'

for test in rc_bi_bw rc_bw rc_lat rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat \
	rc_rdma_write_poll_lat rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add; do
	start client b qperf -lp $port -cm1 -t 1 10.99.0.1 $test
	finish_well client
	grep -Eq '^ +(bw|latency|msg_rate) += +[0-9.]*[1-9]' "$scratch/client" ||
		fail "$test prints no figure: $(cat "$scratch/client")"
done

# urnic refuses both ends. The client reports why, unless the server has ended the test before; then
# it reports that.
refused() {
	start client b qperf -lp $port -t 1 10.99.0.1 "$1"
	finish client && fail "$1 needs no address"
	grep -Eq "$2|^server:" "$scratch/client" || fail "$1 says: $(cat "$scratch/client")"
}
for test in rc_bw uc_bw uc_lat uc_rdma_write_bw; do
	refused $test 'failed to modify QP to RTR'
done
refused ud_lat 'failed to create address handle: Invalid argument'

start client b qperf -lp $port -cm1 -t 1 10.99.0.1 rc_lat quit
finish_well client

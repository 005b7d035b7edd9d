#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs that are right: `urnic run --check` reports nothing about them but what known.supp names.
# Debian's programs, each at both ends of a pair, over packets and within the host.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"
. "$(dirname "$0")/../e2e/listen.sh"

need ibv_rc_pingpong ib_write_bw rping ucmatose
network_up
mode=full
known=$(dirname "$0")/known.supp
count=0

# quiet ARGUMENTS...: the outputs of the last pair have no report.
quiet() {
	! grep -qE 'urnic check.*: ([1-9][0-9]* reports|[a-z-]+: )' "$scratch/server" "$scratch/client" ||
		fail "--check=$mode reports: $*: $(grep -h -A 14 'urnic check' "$scratch/server" "$scratch/client" | head -n 60)"
	count=$((count + 1))
}

right_pair() {
	view="--no-view --check=$mode --suppress=$known"
	pair "$@"
	quiet "$@"
}

right_meet() {
	view="--no-view --check=$mode --suppress=$known"
	meet "$@"
	quiet "$@"
}

for program in ibv_rc_pingpong ibv_srq_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_xsrq_pingpong; do
	right_pair a a 10.99.0.1 $program -d rocep_veth0 -g 0 -n 200
	right_pair a b 10.99.0.1 $program -d rocep_veth0 -g 0 -n 200 -e
done
for program in ib_write_bw ib_read_bw ib_send_bw ib_atomic_bw ib_write_lat ib_read_lat ib_send_lat \
	ib_atomic_lat; do
	right_pair a a 10.99.0.1 $program -F -d rocep_veth0 -x 0 -n 400
	right_pair a b 10.99.0.1 $program -F -d rocep_veth0 -x 0 -n 400 --use_old_post_send
done
for program in ib_write_bw ib_send_bw; do
	right_pair a b 10.99.0.1 $program -F -d rocep_veth0 -b -q 2 -n 200
	right_pair a a 10.99.0.1 $program -F -d rocep_veth0 -l 16 -n 320
	right_pair a b 10.99.0.1 $program -F -d rocep_veth0 -Q 1 -n 256
	right_meet "$program -R -F -n 200" b "$program -R -F -n 200 10.99.0.1"
done
right_pair a b 10.99.0.1 ib_send_bw -F -d rocep_veth0 -e -n 256
right_pair a b 10.99.0.1 ib_send_bw -F -d rocep_veth0 -c UD -s 1024 -n 200
right_meet 'rping -s -a 10.99.0.1 -C 50' b 'rping -c -a 10.99.0.1 -V -C 50'
right_meet 'ucmatose -C 10' b 'ucmatose -s 10.99.0.1 -C 10'
right_meet 'udaddy' b 'udaddy -s 10.99.0.1'
right_meet rdma_server b 'rdma_client -s 10.99.0.1'
right_meet 'rdma_xserver -c r' b 'rdma_xclient -s 10.99.0.1 -c r'
echo "$count pairs have no report"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs that are right: `urnic run --check` reports nothing about them but what known.supp names.
# Debian's programs, each at both ends of a pair, over packets and within the host.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"
. "$(dirname "$0")/../e2e/listen.sh"

need ibv_rc_pingpong ib_write_bw rping ucmatose udaddy rdma_server rstream riostream fi_pingpong
network_up
mode=full
shown=--no-view
known=$(dirname "$0")/known.supp
count=0

# quiet ARGUMENTS...: the outputs of the last pair have no report.
quiet() {
	! grep -qE 'urnic check.*: ([1-9][0-9]* reports?|[a-z-]+: )' "$scratch/server" "$scratch/client" ||
		fail "--check=$mode reports: $*: $(grep -h -A 14 'urnic check' "$scratch/server" "$scratch/client" | head -n 60)"
	count=$((count + 1))
}

right_pair() {
	view="$shown --check=$mode --suppress=$known"
	pair "$@"
	quiet "$@"
}

right_meet() {
	view="$shown --check=$mode --suppress=$known"
	meet "$@"
	quiet "$@"
}

# Programs that wait for ever for a lost datagram.
right_lossy() {
	view="$shown --check=$mode --suppress=$known"
	lossy_pair "$@"
	quiet "$@"
}

# The small programs leave their objects to the exit.
mistake=$1/tests/mistakes/mistake
echo 'object-leaked:*' >"$scratch/leaks"
for name in $("$mistake" --list-right); do
	for local in on off; do
		for mode in full cheap; do
			on a env URNIC_LOCAL=$local "$urnic" run --no-view --check=$mode \
				--suppress "$scratch/leaks" "$mistake" "$name" >"$scratch/server" 2>&1 ||
				fail "$name: $(cat "$scratch/server")"
			: >"$scratch/client"
			quiet "$name"
		done
	done
done
mode=full

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
# Each way of perftest: rdma_cm, several queue pairs, events, other transports and queues.
for program in ib_write_bw ib_read_bw ib_send_bw ib_atomic_bw ib_write_lat ib_read_lat ib_send_lat \
	ib_atomic_lat; do
	right_meet "$program -R -F -n 200" a "$program -R -F -n 200 10.99.0.1"
done
for program in ib_write_bw ib_read_bw ib_send_bw ib_atomic_bw; do
	right_pair a b 10.99.0.1 $program -F -d rocep_veth0 -x 0 -q 4 -n 200
done
for program in ib_read_bw ib_atomic_bw ib_send_lat ib_read_lat; do
	right_pair a b 10.99.0.1 $program -F -d rocep_veth0 -x 0 -e -n 200
done
right_pair a b 10.99.0.1 ib_send_bw -F -d rocep_veth0 -x 0 --use-srq -r 64 -n 200
for program in ib_write_bw ib_send_bw ib_send_lat; do
	right_pair a b 10.99.0.1 $program -F -d rocep_veth0 -x 0 -c XRC -n 200
	right_lossy a b 10.99.0.1 $program -F -d rocep_veth0 -x 0 -c UC -n 200
done
right_lossy a b 10.99.0.1 ib_send_lat -F -d rocep_veth0 -x 0 -c UD -n 200
right_lossy a b 10.99.0.1 ib_send_bw -F -d rocep_veth0 -x 0 -c UD -q 2 -s 1024 -n 200
right_lossy a b 10.99.0.1 ib_send_bw -F -d rocep_veth0 -x 0 -c UD -g -M 255:14:0:0:0:0:0:0:0:0:255:255:224:9:8:7 -s 1024 -n 200
right_meet 'rping -s -a 10.99.0.1 -C 50' b 'rping -c -a 10.99.0.1 -V -C 50'
right_meet 'ucmatose -C 10' b 'ucmatose -s 10.99.0.1 -C 10'
right_meet 'udaddy' b 'udaddy -s 10.99.0.1'
right_meet rdma_server b 'rdma_client -s 10.99.0.1'
right_meet 'rdma_xserver -c r' b 'rdma_xclient -s 10.99.0.1 -c r'
right_meet 'rstream -S 65536 -I 10 -C 10' b 'rstream -s 10.99.0.1 -S 65536 -I 10 -C 10'
right_meet 'riostream -S 5000 -I 10 -C 5' a 'riostream -s 10.99.0.1 -S 5000 -I 10 -C 5'
port=47592 right_pair a b 10.99.0.1 fi_pingpong -c -I 20 -p verbs -e msg
port=47592 right_pair a a 10.99.0.1 fi_pingpong -c -I 20 -p 'verbs;ofi_rxm' -e rdm
port=47592 right_pair a b 10.99.0.1 fi_pingpong -c -I 20 -p 'verbs;ofi_rxd' -e rdm
port=47592 right_pair a b 10.99.0.1 fi_pingpong -c -I 20 -p verbs -e dgram
export URNIC_TRANSPORTS=iwarp
right_meet 'rping -s -a 10.99.0.1 -C 20 -S 65000' b 'rping -c -a 10.99.0.1 -V -C 20 -S 65000'
for program in ib_write_bw ib_read_bw ib_send_bw; do
	right_meet "$program -R -F -n 200" b "$program -R -F -n 200 10.99.0.1"
done
export URNIC_TRANSPORTS=roce
mode=cheap
for program in ib_write_bw ib_read_bw ib_send_bw ib_atomic_bw ib_write_lat ib_send_lat; do
	right_pair a a 10.99.0.1 $program -F -d rocep_veth0 -x 0 -n 400
done

# UCX wants the view, and its module for verbs, which Debian testing leaves out.
if ucx_info -b 2>/dev/null | grep -q 'uct_MODULES.*:ib' && on a "$urnic" run --view true 2>/dev/null; then
	shown=--view port=13337 without_mpi=
	! ucx_perftest -h 2>&1 | grep -q '^ *-P <0|1>' || without_mpi='-P 0'
	for mode in cheap full; do
		# shellcheck disable=SC2086
		for test in 'put_bw -x rc_verbs' 'get -x rc_verbs -D zcopy -s 65536' 'am_lat -x ud_verbs'; do
			right_pair a b 10.99.0.1 ucx_perftest $without_mpi -n 500 -w 10 \
				-d rocep_veth0:1 -t $test
		done
		# shellcheck disable=SC2086
		UCX_TLS=rc_v,self right_pair a b 10.99.0.1 ucx_perftest $without_mpi -n 50 -w 10 \
			-t tag_bw -s 1000000
	done
fi
[ $count -ge 40 ] || fail "only $count pairs"
echo "$count pairs have no report"

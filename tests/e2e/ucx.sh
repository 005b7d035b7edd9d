#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# UCX: its transports over reliable connections and datagrams, its higher transports, and
# connections by address and port.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need ucx_perftest io_demo
port=13337
view=--view
ucx_info -b | grep -q 'uct_MODULES.*:ib' || skip 'UCX was built here without its module for verbs'
network_up 9000
reason=$(on a "$urnic" run --view true 2>&1) || skip "no private view here: $reason"
device=rocep_veth0:1

# Built with MPI, as in Debian 13, it takes itself for an MPI program unless it has a terminal.
without_mpi=
! ucx_perftest -h 2>&1 | grep -q '^ *-P <0|1>' || without_mpi='-P 0'

# perftest CLIENT-HOST OPTIONS...
perftest() {
	host=$1
	shift
	# shellcheck disable=SC2086
	pair a "$host" 10.99.0.1 ucx_perftest $without_mpi -n 500 -w 10 "$@"
	grep -q '^Final: ' "$scratch/client" || fail "ucx_perftest $*: $(cat "$scratch/client")"
}

for host in b a; do
	for test in am_lat am_bw put_lat put_bw; do
		perftest $host -d $device -x rc_verbs -t $test
	done
	perftest $host -d $device -x rc_verbs -D zcopy -s 65536 -t get
	perftest $host -d $device -x rc_verbs -t fadd
	perftest $host -d $device -x ud_verbs -t am_lat
	perftest $host -d $device -x ud_verbs -t am_bw
done

# UCP's own protocols; rc_v is rc_verbs, with ud_verbs to set its connections up.
for transports in rc_v ud_v; do
	export UCX_TLS=$transports,self
	for test in tag_lat tag_bw ucp_put_lat ucp_put_bw ucp_get ucp_am_lat stream_bw ucp_fadd; do
		perftest b -t $test
	done
	perftest b -t tag_bw -s 1000000 -n 50
	perftest a -t tag_lat
done

# io_demo compares what it reads; its server does not end.
export UCX_TLS=rc_v,self UCX_SOCKADDR_TLS_PRIORITY=rdmacm
for host in b a; do
	listen server a io_demo -q -d 1024:262144
	start client $host io_demo -q -d 1024:262144 -i 300 -o read,write 10.99.0.1
	finish_well client
	grep -q "exit with status 'OK'" "$scratch/client" || fail "io_demo: $(tail -n 5 "$scratch/client")"
	stop server
done

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Programs that people run on adapters also run on strict devices, between hosts and within one:
# perftest, rping, ucmatose, UCX and libfabric. On devices as strict as mlx5 alone they also have
# what only that adapter has.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need ib_write_bw rping ucmatose fi_pingpong ucx_perftest
network_up 9000
export URNIC_STRICT=1

# perftest CLIENT-HOST PROGRAM OPTIONS...
perftest() {
	host=$1
	shift
	port=18515
	pair a "$host" 10.99.0.1 "$@" -F -d rocep_veth0
	grep -Eq '^ [0-9]+ +[0-9]+ +[0-9.]+' "$scratch/client" || {
		show_pair
		fail "$* prints no figures"
	}
}

for host in b a; do
	for program in ib_write_bw ib_send_bw ib_read_bw; do
		perftest $host $program -n 500
	done
	for program in ib_write_lat ib_send_lat ib_read_lat; do
		perftest $host $program -n 200
	done
	perftest $host ib_send_lat -c UD -n 200
	meet 'ib_send_bw -F -R -n 200' $host 'ib_send_bw -F -R -n 200 10.99.0.1'
	meet 'rping -s -a 10.99.0.1 -C 50' $host 'rping -c -a 10.99.0.1 -V -C 50'
	meet 'ucmatose -C 50' $host 'ucmatose -s 10.99.0.1 -C 50'
done

# The devices say what they are without, and at a wrong value that it has no effect.
URNIC_LOG=info on a "$urnic" run --no-view --strict=irdma,bnxt -- ibv_devinfo >"$scratch/lacks" 2>&1
grep -q 'the devices are without atomic operations, as irdma, bnxt$' "$scratch/lacks" ||
	fail "nothing says that there are no atomics: $(cat "$scratch/lacks")"
URNIC_STRICT=maybe on a "$urnic" run --no-view -- ibv_devinfo -v >"$scratch/wrong" 2>&1
grep -q "URNIC_STRICT is 'maybe'; it may be 0, 1, or a list of mlx5, irdma and bnxt; using 0" "$scratch/wrong" ||
	fail "a wrong value: $(cat "$scratch/wrong")"
grep -q 'max_qp_wr:.*32768' "$scratch/wrong" || fail 'a wrong value has an effect'
URNIC_STRICT=mlx5 perftest b ib_atomic_bw -n 200

# In a view, because UCX looks for the device there.
view=--view
port=13337
without_mpi=
! ucx_perftest -h 2>&1 | grep -q '^ *-P <0|1>' || without_mpi='-P 0'
if ucx_info -b | grep -q 'uct_MODULES.*:ib' && on a "$urnic" run --view true 2>/dev/null; then
	for host in b a; do
		for test in tag_lat tag_bw ucp_put_bw ucp_get ucp_am_lat stream_bw; do
			# shellcheck disable=SC2086
			UCX_TLS=ud_v,self pair a "$host" 10.99.0.1 ucx_perftest $without_mpi -n 500 -w 10 -t $test
			grep -q '^Final: ' "$scratch/client" || fail "ucx_perftest $test: $(cat "$scratch/client")"
		done
	done
	URNIC_STRICT=mlx5 UCX_TLS=rc_v,self pair a b 10.99.0.1 ucx_perftest $without_mpi -n 500 -w 10 -t tag_bw
	grep -q '^Final: ' "$scratch/client" || fail "ucx_perftest on mlx5: $(cat "$scratch/client")"
else
	echo 'without UCX: it has no module for verbs, or there is no private view'
fi
view=

port=47592
for host in b a; do
	for kind in 'verbs -e msg' 'verbs -e rdm' 'verbs -e dgram'; do
		# shellcheck disable=SC2086
		pair a "$host" 10.99.0.1 fi_pingpong -c -I 20 -p $kind
		grep -q '^4k ' "$scratch/client" || fail "fi_pingpong $kind: $(cat "$scratch/client")"
	done
done

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Open MPI on UCX over an InfiniBand fabric, one rank on each of four hosts.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/fabrics.sh"

need mpirun hpcc
fabric_up chain
await 'the ports are active' ports_are Active $ports
view=--view
reason=$("$urnic" run $view true 2>&1) || skip "no private view here: $reason"

sed -e 's/^1000  *Ns$/240 Ns/' -e 's/^80  *NBs$/40 NBs/' \
	/usr/share/doc/hpcc/examples/_hpccinf.txt >"$scratch/hpccinf.txt"
for transport in rc_v ud_v; do
	export UCX_TLS=$transport,self UCX_LOG_LEVEL=info # mpirun's -x is for the first part only
	rm -f "$scratch/hpccoutf.txt"
	timeout 200 "$urnic" run $view --fabric "$fabric:host1" -- \
		mpirun --allow-run-as-root --wdir "$scratch" --oversubscribe \
		--mca pml ucx --mca osc ucx --mca btl '^vader,tcp,openib,uct' \
		--mca mpi_yield_when_idle 1 \
		-n 1 env URNIC_FABRIC="$fabric:host1" hpcc : -n 1 env URNIC_FABRIC="$fabric:host2" hpcc : \
		-n 1 env URNIC_FABRIC="$fabric:host3" hpcc : -n 1 env URNIC_FABRIC="$fabric:host4" hpcc \
		>"$scratch/mpirun" 2>&1 || fail "mpirun: $(tail -n 20 "$scratch/mpirun")"
	grep -q 'tag(.*/ibp0:1' "$scratch/mpirun" || fail 'mpirun has not used the device'
	for result in Success=1 PTRANS_residual=0 MPIRandomAccess_Errors=0 \
		'End of HPC Challenge tests'; do
		grep -q "^$result" "$scratch/hpccoutf.txt" || fail "mpirun: no $result"
	done
	! grep -q FAILED "$scratch/hpccoutf.txt" || fail 'mpirun: a residual is too large'
done

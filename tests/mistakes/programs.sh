#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Larger programs that are right but for what known.supp names: `urnic run --check=full` reports
# nothing about fio, Open MPI over UCX and over libfabric (HPC Challenge), and rdma-core's Python
# tests.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"
. "$(dirname "$0")/../e2e/listen.sh"

need fio mpirun hpcc
network_up
known=$(cd "$(dirname "$0")" && pwd)/known.supp
library=$(on a "$urnic" run --print)/liburnic-check.so

# quiet WHAT: no process has reported anything.
quiet() {
	[ ! -s "$scratch/report" ] || fail "$1: $(head -n 60 "$scratch/report")"
	rm -f "$scratch/report"
}

# Both ends add to one file.
export URNIC_CHECK=full URNIC_CHECK_REPORT="$scratch/report" URNIC_CHECK_SUPPRESS="$known"
preloaded="env LD_PRELOAD=$library"

server="$preloaded fio --name=receiver --ioengine=rdma --port=4500 --rw=read --size=4m --bs=64k --iodepth=64"
client="$preloaded fio --name=sender --ioengine=rdma --port=4500 --hostname=10.99.0.1 --rw=write --size=4m --bs=64k --iodepth=4"
for verb in write read send; do
	meet "$server" b "$client --verb=$verb"
	quiet "fio --verb=$verb"
done

on a "$urnic" run --view true 2>/dev/null || skip 'fio has no report; Open MPI and pyverbs need the private view'
sed -e 's/^1000  *Ns$/240 Ns/' -e 's/^80  *NBs$/40 NBs/' -e 's/^2  *Ps$/1 Ps/' \
	/usr/share/doc/hpcc/examples/_hpccinf.txt >"$scratch/hpccinf.txt"
# challenge WAY OPTIONS...: HPC Challenge with two ranks, whose messages go this way.
challenge() {
	way=$1
	shift
	rm -f "$scratch/hpccoutf.txt"
	on a timeout -k 5 280 "$urnic" run --view -- mpirun --allow-run-as-root --wdir "$scratch" \
		--mca mpi_yield_when_idle 1 -x LD_PRELOAD="$library" -x URNIC_CHECK \
		-x URNIC_CHECK_REPORT -x URNIC_CHECK_SUPPRESS "$@" --oversubscribe -n 2 \
		hpcc >"$scratch/mpirun" 2>&1 || fail "mpirun over $way: $(tail -n 20 "$scratch/mpirun")"
	grep -q '^Success=1' "$scratch/hpccoutf.txt" || fail "hpcc over $way is not done"
	quiet "hpcc over $way"
}

for transports in rc_v,self ud_v,self; do
	challenge "UCX, $transports" --mca pml ucx --mca osc ucx --mca btl '^vader,tcp,openib,uct' \
		-x UCX_TLS="$transports"
done
if ompi_info | grep -q 'MCA mtl: ofi'; then
	challenge libfabric --mca pml cm --mca mtl ofi --mca osc pt2pt -x FI_LOG_LEVEL=info \
		--mca mtl_ofi_provider_include 'verbs;ofi_rxm' --mca btl '^vader,tcp,openib,uct,ofi'
	grep -q ':verbs:mr:' "$scratch/mpirun" || fail 'libfabric has registered nothing with verbs'
fi

[ -d /usr/share/doc/rdma-core/tests ] || skip 'fio and Open MPI have no report; python3-pyverbs is not installed'
LD_PRELOAD=$library "$(dirname "$0")/../pyverbs/run" "$1" >"$scratch/pyverbs" 2>&1 ||
	fail "pyverbs: $(grep -v -e '^pass' -e '^skip' "$scratch/pyverbs" | tail -n 40)"
quiet 'rdma-core/tests'
tail -n 1 "$scratch/pyverbs"

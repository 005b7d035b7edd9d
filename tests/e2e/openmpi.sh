#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Open MPI over UCX: HPC Challenge, whose solver, transposition and random updates check their
# results, with two and four ranks on one host and on two hosts.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need mpirun hpcc
network_up 9000
reason=$(on a "$urnic" run --view true 2>&1) || skip "no private view here: $reason"

# A small problem. UCX keeps its default local ACK timeout. So the lanes of all ranks must answer in
# time, although polling ranks occupy the few processors.
sed -e 's/^1000  *Ns$/240 Ns/' -e 's/^80  *NBs$/40 NBs/' /usr/share/doc/hpcc/examples/_hpccinf.txt \
	>"$scratch/hpccinf.txt"

# How Open MPI starts its daemon on another host: HOST COMMAND...
cat >"$scratch/agent" <<EOF
#!/bin/sh
case \$1 in 10.99.0.1) host=a ;; *) host=b ;; esac
shift
exec "$urnic" host exec -n "$network" \$host -- "$urnic" run --view -- sh -c "\$*"
EOF
chmod +x "$scratch/agent"

# challenge TRANSPORTS RANKS-AND-HOSTS...
challenge() {
	transports=$1
	shift
	rm -f "$scratch/hpccoutf.txt"
	on a timeout -k 5 80 "$urnic" run --view -- mpirun --allow-run-as-root --wdir "$scratch" \
		--mca pml ucx --mca osc ucx --mca btl '^vader,tcp,openib,uct' --mca mpi_yield_when_idle 1 \
		-x UCX_TLS="$transports" -x UCX_LOG_LEVEL=info "$@" hpcc >"$scratch/mpirun" 2>&1 || fail "mpirun $*: $(tail -n 20 "$scratch/mpirun")"
	grep -q 'tag(.*/rocep_veth0:1' "$scratch/mpirun" || fail "mpirun $* has not used the device"
	for result in Success=1 PTRANS_residual=0 MPIRandomAccess_Errors=0 'End of HPC Challenge tests'; do
		grep -q "^$result" "$scratch/hpccoutf.txt" || fail "mpirun $*: no $result"
	done
	! grep -q FAILED "$scratch/hpccoutf.txt" || fail "mpirun $*: a residual is too large"
}

# hosts RANKS-EACH: what follows is for both hosts
hosts() {
	echo "-H 10.99.0.1:$1,10.99.0.2:$1 --mca plm_rsh_agent $scratch/agent --mca plm_rsh_no_tree_spawn 1" \
		"--mca oob_tcp_if_include veth0 --oversubscribe -n $((2 * $1))"
}

challenge rc_v,self --oversubscribe -n 4
challenge ud_v,self --oversubscribe -n 4
# shellcheck disable=SC2046 # options are words
challenge rc_v,self $(hosts 2)
# The solver's grid needs all ranks: two by two, and now one by two.
sed -i -e 's/^2  *Ps$/1 Ps/' "$scratch/hpccinf.txt"
challenge rc_v,self --oversubscribe -n 2
# shellcheck disable=SC2046
challenge rc_v,self $(hosts 1)

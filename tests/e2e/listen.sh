# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# Pairs of programs that meet by rdma_cm; sourced after common.sh and pairs.sh.

# claims HOST: how many ports were claimed there so far.
claims() {
	until on "$1" "$urnic" stat >"$scratch/stat" 2>/dev/null; do sleep 0.05; done
	awk '$1 == "claims_made" { made = $2 } END { print made + 0 }' "$scratch/stat"
}

# listen NAME HOST PROGRAM ARGUMENTS...: start a program, and wait until it has claimed a port and
# told urnicd that it listens.
listen() {
	claims_before=$(claims "$2")
	start "$@"
	listen_job=$!
	until [ "$(claims "$2")" -ge $((claims_before + 2)) ]; do
		kill -0 $listen_job 2>/dev/null || fail "$* does not listen: $(cat "$scratch/$1")"
		sleep 0.05
	done
}

# meet SERVER CLIENT-HOST CLIENT: two command lines, the server on host a. Both are to end well.
meet() {
	facts_begin
	# shellcheck disable=SC2086
	listen server a $1
	# shellcheck disable=SC2086
	start client "$2" $3
	finish_well client server
	facts_end
}

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# What no host may send a target of NVMe over RDMA: what urnic's answers is in
# nvmf-capsules.expected, beside what the kernel's answers.
#
#   nvmf-capsules.sh BUILD-DIRECTORY           urnic's target, on two hosts
#   nvmf-capsules.sh compare urnic|nvmet FILE  what nvmf-capsules has printed, with that column
here=$(dirname "$0")

# Prints what was seen, and what differs.
compare() { # urnic|nvmet FILE
	column=2
	[ "$1" = urnic ] || column=3
	awk -F '\t' -v column=$column '
		/^#/ { next }
		NR == FNR { want[$1] = $column == "=" ? $2 : $column; rows++; next }
		index(" or " want[$1] " or ", " or " $2 " or ") { print; rows--; next }
		{ print $0 "\texpected: " want[$1]; wrong = 1 }
		END { exit wrong || rows != 0 }' "$here/nvmf-capsules.expected" "$2"
}

if [ "$1" = compare ]; then
	compare "$2" "$3"
	exit
fi
. "$here/../e2e/common.sh"

network_up 9000
scratch=$(mktemp -d /tmp/urnic-e2e.XXXXXX)
nqn=nqn.2026-01.org.example:capsules
cat >"$scratch/config.json" <<END
{ "subsystems": [ { "nqn": "$nqn", "attr": { "allow_any_host": "1" },
    "namespaces": [ { "nsid": 1, "enable": 1, "device": { "memory": "64M", "block_size": 4096 } } ] } ],
  "ports": [ { "portid": 1, "subsystems": [ "$nqn" ],
    "addr": { "trtype": "rdma", "adrfam": "ipv4", "traddr": "10.99.0.1", "trsvcid": "4420" } } ] }
END
# The process that becomes the target tells its number: between are programs that pass no signals.
# shellcheck disable=SC2016 # expanded there
on a env URNIC_TRANSPORTS=roce "$urnic" run --no-view -- sh -c 'echo $$ >"$1" && shift && exec "$@"' sh \
	"$scratch/target.pid" "$1/urnic-nvmf-target" -c "$scratch/config.json" -s "$scratch/ctl" \
	>"$scratch/target" 2>&1 &
target=$!
await "the target does not start" grep -q ready "$scratch/target"
on b env URNIC_TRANSPORTS=roce timeout 240 "$urnic" run --no-view -- \
	"$1/tests/interop/nvmf-capsules" 10.99.0.1 4420 $nqn >"$scratch/seen" ||
	fail "nvmf-capsules: $(cat "$scratch/seen")"
kill -TERM "$(cat "$scratch/target.pid")"
wait $target || fail "the target ends with $?: $(cat "$scratch/target")"
compare urnic "$scratch/seen" >"$scratch/compared" ||
	fail "not what is expected: $(grep expected "$scratch/compared")"
echo "$(wc -l <"$scratch/seen") cases"

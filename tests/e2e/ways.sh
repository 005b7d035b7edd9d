#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Random verbs programs over the same-host transport and over packets: every completion, event,
# wake-up, state and byte of memory is the same.
#
# WAYS_SEEDS: how many programs, 100 unless set. WAYS_SEED: the first. WAYS_HOST=b: the client is in
# another network namespace.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

seeds=${WAYS_SEEDS:-100}
first=${WAYS_SEED:-1}
port=18600
pair_seconds=$((240 + seeds / 2))
network_up 9000
export URNIC_HOST_ID=$network # one machine, whatever hosts a and b are otherwise

for way in off on; do
	URNIC_LOCAL=$way pair a "${WAYS_HOST:-a}" 10.99.0.1 "$programs/ways" -d rocep_veth0 -w "$first" -n "$seeds"
	for end in server client; do
		mv "$scratch/$end" "$scratch/$end.$way"
	done
done
for end in server client; do
	cmp -s "$scratch/$end.off" "$scratch/$end.on" && continue
	diff -U 6 "$scratch/$end.off" "$scratch/$end.on" | head -n 40
	fail "by packets (-) and without (+) the $end shows something else"
done
[ "$(wc -l <"$scratch/client.on")" -gt $((seeds * 8)) ] || fail 'hardly anything was shown'
echo "$seeds programs from $first on"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic pair: two programs on a network of their own, on a good link and on a bad one.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/pair_ends.sh"

need ib_write_bw
pairs_begin
pair_ends 0 -- ib_write_bw -F -n 200 -- ib_write_bw -F -n 200 10.99.0.1
pair_ends 0 --loss 1% --reorder 1% -- "$programs/verify" -d rocep_veth0 -w each -n 2049 -- \
	"$programs/verify" -d rocep_veth0 -w each -n 2049 10.99.0.1

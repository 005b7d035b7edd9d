#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Between two hosts, over RoCE: a program of Debian's, and each byte of each operation.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ib_write_bw
network_up
pair a b 10.99.0.1 ib_write_bw -F -d rocep_veth0 -n 1000
grep -Eq '^ 65536 +1000 +[0-9.]+ +[0-9.]*[1-9]' "$scratch/client" || {
	show_pair
	fail 'ib_write_bw prints no figures'
}
port=18600
pair a b 10.99.0.1 "$programs/verify" -d rocep_veth0 -w each -n 4097

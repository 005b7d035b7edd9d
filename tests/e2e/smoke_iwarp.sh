#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Over iWARP devices: rping compares bytes, and ib_write_bw prints figures.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need rping ib_write_bw
export URNIC_TRANSPORTS=iwarp
network_up
meet 'rping -s -a 10.99.0.1 -C 50' b 'rping -c -a 10.99.0.1 -V -C 50'
meet 'ib_write_bw -R -F -n 200' b 'ib_write_bw -R -F -n 200 10.99.0.1'
grep -Eq '^ 65536 +200 +[0-9.]+ +[0-9.]*[1-9]' "$scratch/client" ||
	fail "ib_write_bw prints no figures: $(cat "$scratch/client")"

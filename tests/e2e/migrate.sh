#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A connection moves to its alternate path when the primary path is cut, and back when the program
# requests it.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

port=18600
network_up 9000
pair a b 10.99.0.1 "$programs/migrate" -d rocep_veth0 -x 1 -t 13 -r 3
cat "$scratch/client"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A program unloads the libraries while their threads run.
. "$(dirname "$0")/../e2e/common.sh"

network_up
on a timeout 60 "$urnic" run --no-view -- "$1/tests/attack/unloaded" ||
	fail "a program that unloads the library ends with $?"

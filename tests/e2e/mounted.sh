#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# mounted.sh DIRECTORY PLACE PROGRAM ARGUMENTS...: run a program with DIRECTORY mounted at PLACE. In
# a mount namespace of the caller's.
mount --bind "$1" "$2" || exit
shift 2
exec "$@"

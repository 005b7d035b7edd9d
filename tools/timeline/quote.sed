# SPDX-License-Identifier: BSD-2-Clause
# Make each line a string of C.
s/[\\"]/\\&/g
s/.*/"&\\n"/

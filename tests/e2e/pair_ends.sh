# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh
#
# What the tests of urnic pair share; sourced after common.sh and pairs.sh.

as= # a prefix of commands: which user runs them

# pairs_begin: skip the test if the kernel lets this user make no network namespaces.
pairs_begin() {
	trap 'at_exit' EXIT
	chmod 777 "$scratch"
	"$urnic" pair -- true -- true 2>"$scratch/err" ||
		skip "no network namespaces here: $(tail -n 1 "$scratch/err")"
}

# as_ordinary_user: run what follows as an ordinary user, if this one is root, other users may read
# the build directory, and the kernel lets them make networks.
as_ordinary_user() {
	[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || return 1
	setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$urnic" || return 1
	as='setpriv --reuid=65534 --regid=65534 --clear-groups env PATH=/usr/bin:/bin:/usr/sbin:/sbin'
	rm -f "$scratch"/*
	$as "$urnic" pair -- true -- true 2>"$scratch/err" && return
	grep -q 'user namespaces' "$scratch/err" || fail "no reason: $(cat "$scratch/err")"
	return 1
}

# pair_ends STATUS ARGUMENTS...: of urnic pair. Its output is in $scratch/out and $scratch/err.
pair_ends() {
	expected=$1
	shift
	$as timeout $pair_seconds env "$calibration" "$urnic" pair "$@" >"$scratch/out" 2>"$scratch/err"
	status=$?
	[ $status = "$expected" ] ||
		fail "$as urnic pair $*: ends with $status: $(tail -n 20 "$scratch/out" "$scratch/err")"
}

# says TEXT: one sentence, with the text.
says() {
	[ "$(wc -l <"$scratch/err")" = 1 ] || fail "not one sentence: $(cat "$scratch/err")"
	grep -qF "$1" "$scratch/err" || fail "no '$1' in: $(cat "$scratch/err")"
}

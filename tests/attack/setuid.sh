#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A user calls a setuid program of another user's, which starts urnicd. The caller can neither
# signal that urnicd nor give it anything: environment, descriptors, directory, ignored signals,
# limits, session, scheduling.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"

[ "$(id -u)" = 0 ] || skip 'this takes two users, and so root'
need setpriv prlimit perl nice chrt taskset ps
owner=$((40001 + 2 * ($$ % 10000)))
caller=$((owner + 1))
network_up 9000
urnicd_pid=
# shellcheck disable=SC2154
trap '[ -z "$urnicd_pid" ] || kill -KILL $urnicd_pid; at_exit; rm -rf /dev/shm/urnic-$owner /tmp/urnic-$owner' EXIT
chmod 755 "$scratch"
cp "$1/tests/attack/attack_setuid" "$scratch/program"
cp "$urnicd" "$scratch/urnicd"
mkdir "$scratch/callers"
chown $caller "$scratch/callers"
as_caller="setpriv --reuid=$caller --regid=$caller --clear-groups"

# field NAME: of urnicd's status.
field() {
	sed -n "s/^$1:[[:space:]]*//p" "/proc/$urnicd_pid/status"
}

# rt_sigaction, by which a caller can have a signal of the C library's own ignored.
case $(uname -m) in
x86_64) SIGACTION=13 ;;
*) SIGACTION=134 ;;
esac
FIRST_CPU=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/$$/status)
export SIGACTION FIRST_CPU

# run USER: the program of USER's, called by the other user, with whatever might do harm.
run() {
	chown "$1" "$scratch/program"
	chmod 4755 "$scratch/program"
	rm -f "$scratch/said"
	mkfifo "$scratch/input.$1"
	on a sh -c '
		cd "$0/callers" && trap "" TERM USR1 && umask 0 && exec 9<"$0/callers"
		exec prlimit --cpu=100:200 --fsize=1000000:2000000 --nofile=256:256 nice -n 19 chrt --idle 0 taskset -c "$FIRST_CPU" \
			perl -e "\$ignored = pack(q(Q4), 1); syscall($SIGACTION, 32, \$ignored, 0, 8); exec @ARGV" \
			env URNICD_LOG="$0/callers/log" URNIC_HOST_ID=evil EVIL=1 "$@"' "$scratch" \
		$as_caller "$scratch/program" <"$scratch/input.$1" >"$scratch/said" 2>&1 &
	exec 8>"$scratch/input.$1"
	await 'the program starts no urnicd' grep -q . "$scratch/said"
	urnicd_pid=$(sed -n 's/^urnicd //p' "$scratch/said")
	[ -n "$urnicd_pid" ] || fail "the program of user $1 says: $(cat "$scratch/said")"
	[ "$(field Uid | awk '{ print $2 }')" = "$1" ] || skip 'no setuid programs here'
}

# check USER SECONDS FILES NICE: of processor time that it may use, that it may open.
check() {
	[ "$(field Uid | tr '\t' ' ')" = "$1 $1 $1 $1" ] || fail "urnicd's users are $(field Uid)"
	for signal in 0 STOP TERM; do
		$as_caller kill -$signal "$urnicd_pid" 2>/dev/null && fail "the caller sends SIG$signal"
	done
	environment=$(tr '\0' '\n' <"/proc/$urnicd_pid/environ")
	[ -z "$environment" ] || fail "urnicd's environment is $environment"
	[ ! -e "$scratch/callers/log" ] || fail 'urnicd writes where the caller says'
	find "/proc/$urnicd_pid/fd" -lname '*callers*' | grep . && fail 'urnicd has a descriptor of the caller'
	[ "$(readlink "/proc/$urnicd_pid/cwd")" = / ] || fail "urnicd is in $(readlink "/proc/$urnicd_pid/cwd")"
	[ "$(field Umask)" = 0077 ] || fail "urnicd's umask is $(field Umask)"
	[ "$(field SigIgn)" = 0000000000001000 ] || fail "urnicd ignores $(field SigIgn)"
	# Its session is not the test's, and it has no terminal.
	sed 's/.*) //' "/proc/$urnicd_pid/stat" | awk -v own="$(sed 's/.*) //' /proc/$$/stat | awk '{ print $4 }')" \
		'{ exit $4 == own || $5 != 0 }' || fail "urnicd's session: $(cat "/proc/$urnicd_pid/stat")"
	limit=$(awk '/^Max cpu time/ { print $4 }' "/proc/$urnicd_pid/limits")
	[ "$limit" = "$2" ] || fail "urnicd may run for $limit s"
	limit=$(awk '/^Max open files/ { print $5 }' "/proc/$urnicd_pid/limits")
	[ "$limit" -ge "$3" ] || fail "urnicd may open $limit files"
	[ "$(field Cpus_allowed)" = "$(sed -n 's/^Cpus_allowed:[[:space:]]*//p' /proc/$$/status)" ] ||
		fail "urnicd may run on $(field Cpus_allowed)"
	scheduling=$(ps -o class=,nice= -p "$urnicd_pid" | tr -s ' ')
	expr "$scheduling" : "$4\$" >/dev/null || fail "urnicd's class and niceness are $scheduling"
}

end() {
	exec 8>&-
	kill -KILL "$urnicd_pid"
	urnicd_pid=
}

run $owner
check $owner 200 256 '.*'
end
# Root undoes the caller's limits, too, where it may (CAP_SYS_RESOURCE), and has none of the
# caller's groups.
run 0
check 0 "$(prlimit --cpu=200 prlimit --cpu=unlimited echo unlimited 2>/dev/null || echo 200)" \
	"$(prlimit --nofile=256 prlimit --nofile=65536 echo 65536 2>/dev/null || echo 256)" \
	"TS $(nice -n 19 nice -n -19 nice 2>/dev/null)"
[ "$(field Gid | tr '\t' ' ')" = '0 0 0 0' ] || fail "urnicd's groups are $(field Gid)"
end

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A user takes the names, or fills the queues, of the sockets that another user's programs look for.
# The programs still work, without a long delay; or urnic prints which socket is taken and what to
# do.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"

[ "$(id -u)" = 0 ] || skip 'this takes two users, and so root'
need setpriv unshare ss
victim=$((20001 + 2 * ($$ % 10000))) # nobody else's directories lie in its way
attacker=$((victim + 1))
as() {
	echo "setpriv --reuid=$1 --regid=$1 --clear-groups"
}
chmod 755 "$scratch"
$(as $victim) test -r "$1/lib/liburnic.so" -a -x "$urnic" || skip "other users may not read $1"
trap 'at_exit; rm -rf /tmp/urnic-$victim* /dev/shm/urnic-$victim* /tmp/urnic-$attacker* /dev/shm/urnic-$attacker*' EXIT
network_up 9000
trap 'end_attacks; at_exit; rm -rf /tmp/urnic-$victim* /dev/shm/urnic-$victim* /tmp/urnic-$attacker* /dev/shm/urnic-$attacker*' EXIT
export URNICD_IDLE_S=1
attacks=

end_attacks() {
	# shellcheck disable=SC2086
	[ -z "$attacks" ] || kill -KILL $attacks 2>/dev/null
	# A process has its names until it is a zombie.
	for pid in $attacks; do
		while grep -q '^State:.[^ZX]' /proc/$pid/status 2>/dev/null; do
			sleep 0.02
		done
	done
	attacks=
}

# attack PREFIX PYTHON: on host a, until end_attacks; goes on once it has done its work.
attack() {
	rm -f "$scratch/ready"
	# shellcheck disable=SC2086
	on a $1 /usr/bin/python3 -c "
import os, socket, time
victim, attacker = $victim, $attacker
def listen(name):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.bind(name)
    s.listen(0)
    return s
def fill(name):
    'Connections, until there is room for no more'
    held = []
    try:
        while len(held) < 2000:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            s.setblocking(False)
            held.append(s)
            s.connect(name)
    except OSError:
        pass
    return held
$2
print('ready', os.getpid(), flush=True)
time.sleep(600)" >"$scratch/ready" 2>&1 &
	while ! grep -q '^ready' "$scratch/ready"; do
		kill -0 $! 2>/dev/null || fail "the attacker fails: $(cat "$scratch/ready")"
		sleep 0.05
	done
	attacks="$attacks $(sed -n 's/^ready //p' "$scratch/ready")"
}

# try SECONDS PREFIX: run a program that needs a queue pair on host a. Sets $said to its output and
# $took to its duration.
try() {
	limit=$1
	began=$(date +%s)
	# shellcheck disable=SC2086
	said=$(on a $2 timeout 60 "$urnic" run --no-view -- "$programs/forks" -d rocep_veth0 2>&1)
	status=$?
	took=$(($(date +%s) - began))
	[ $took -le "$limit" ] || fail "$attempted: '$2' takes $took s and ends with $status: $said"
	return $status
}

works() {
	try 15 "$2" || fail "$1: $said"
}

no_urnicd() {
	[ -z "$(urnicd_of a)" ]
}

# The next program starts an urnicd of its own.
urnicd_end() {
	daemon=$(urnicd_of a)
	[ -z "$daemon" ] || kill "$daemon" 2>/dev/null
	await 'urnicd stays' no_urnicd
}

# everybody ATTACK: root and the victim, one after the other.
everybody() {
	attempted=$1
	works "$1: the victim" "$(as $victim)"
	urnicd_end
	works "$1: root" ''
	urnicd_end
	end_attacks
}

# Abstract names that programs once looked for: taken, with queues that are full.
attack "$(as $attacker)" '
taken = [listen("\0" + name) for name in
    ("urnicd-0", f"urnicd-{victim}", "urnic-capture-0", f"urnic-capture-{victim}")]
held = [fill(s.getsockname()) for s in taken]'
everybody 'abstract names are taken'

# The user namespace of an attacker has a root, too.
attack "$(as $attacker) unshare --user --map-root-user" '
taken = [listen("\0urnicd-0")]
os.makedirs("/tmp/urnic-0", exist_ok=True)
os.makedirs("/dev/shm/urnic-0", exist_ok=True)'
everybody "a user namespace's root takes root's names"
rmdir /tmp/urnic-0 /dev/shm/urnic-0 2>/dev/null

# Directories with the names of the victim's: with sockets in them, behind links (also to a private
# directory of the victim's), or none at all.
netns=$(on a /usr/bin/python3 -c '
import socket
print("net-%x" % int.from_bytes(socket.socket(socket.AF_UNIX).getsockopt(socket.SOL_SOCKET, 71, 8), "little"))')
# What the victim's programs keep of their failures lies in its directory.
rm -rf /tmp/urnic-"$victim"* /dev/shm/urnic-"$victim"*
for way in directory link private file; do
	[ $way != private ] || $(as $victim) mkdir -m 700 "/tmp/trap-$victim"
	attack "$(as $attacker)" "
os.umask(0)
way, netns = '$way', '$netns'
os.makedirs(f'/tmp/trap-{victim}', exist_ok=True)
held = []
for parent in ('/tmp', '/dev/shm'):
    path = f'{parent}/urnic-{victim}'
    if way in ('link', 'private'):
        os.symlink(f'/tmp/trap-{victim}', path)
    elif way == 'file':
        os.mkfifo(path, 0o666)
    else:
        os.mkdir(path)
    if way == 'directory':
        os.mkdir(path + '.AAAAAA')
        for directory in (path, path + '.AAAAAA'):
            held += [listen(f'{directory}/{netns}')]
            held += fill(f'{directory}/{netns}')"
	changed=$(stat -c %z "/tmp/trap-$victim")
	everybody "a $way has the name of the victim's directory"
	[ "$changed" = "$(stat -c %z "/tmp/trap-$victim")" ] || fail "$way: the victim has written to the trap"
	rm -rf /tmp/urnic-"$victim"* /dev/shm/urnic-"$victim"* "/tmp/trap-$victim"
done

# The system's urnicd is stopped, and its queue is full: programs get an error sentence at once.
# When urnicd continues, programs work again.
on a "$urnicd" --system --idle 0 || fail 'no system-wide urnicd'
works 'a system-wide urnicd' "$(as $victim)"
path=$(urnicds_on a)
daemons=$(on a ss -Hxlp | sed -n "s|.* $path .*users:(\(.*\)).*|\1|p" | grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -n)
end_daemons() {
	# shellcheck disable=SC2086
	kill -KILL $daemons 2>/dev/null
}
trap 'end_daemons; end_attacks; at_exit; rm -rf /tmp/urnic-$victim* /dev/shm/urnic-$victim*' EXIT
# shellcheck disable=SC2086
kill -STOP $daemons
attack "$(as $attacker)" "held = fill('$path')"
attempted='the queue of the system-wide urnicd is full'
try 15 "$(as $victim)" && fail 'a program works without its urnicd'
echo "$said" | grep -q "urnicd at $path has accepted no connection for 2 s: .*kill -CONT" ||
	fail "the victim of a full queue is told: $said"
end_attacks
# shellcheck disable=SC2086
kill -CONT $daemons
works 'after the attack on a system-wide urnicd' "$(as $victim)"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# A program uses up all descriptors that urnicd may open. urnicd does not spin, a program that
# starts gets an error at once, and urnicd serves programs again once it has descriptors. The second
# part repeats this with a program that listens for iWARP connections.
. "$(dirname "$0")/../e2e/common.sh"
. "$(dirname "$0")/../e2e/pairs.sh"

need prlimit ss
network_up 9000
listens() {
	[ -n "$(urnicd_of "$1")" ]
}

holder='' loop=''
trap 'kill -KILL $holder $loop "$daemon" 2>/dev/null; end_programs; wait; at_exit' EXIT
on a prlimit --nofile=64:64 "$urnicd" --foreground --idle 0 2>"$scratch/log" &
await 'no urnicd' listens a
daemon=$(urnicd_of a)

# ticks PROCESS: of a processor, 100 a second, that it has used.
ticks() {
	sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

# spins PROCESS: whether it uses a quarter of what a loop uses meanwhile, which is all of a
# processor, or its share on a busy machine. The ticks of a sleeper are few.
spins() {
	sh -c 'while :; do :; done' &
	loop=$!
	before=$(ticks "$1")
	sleep 3
	used=$(($(ticks "$1") - before))
	looped=$(ticks $loop)
	kill $loop && loop=
	[ $((used * 4)) -gt $((looped + 8)) ]
}

try() {
	began=$(date +%s)
	said=$(on a timeout 60 "$urnic" run --no-view -- "$programs/forks" -d rocep_veth0 2>&1)
	status=$?
	took=$(($(date +%s) - began))
	return $status
}

path=$(urnicds_on a)
on a /usr/bin/python3 -c "
import os, socket, time
held = []
for i in range(90):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect('$path')
    held.append(s)
print(os.getpid(), flush=True)
time.sleep(600)" >"$scratch/holder" &
await 'nobody holds connections' test -s "$scratch/holder"
holder=$(cat "$scratch/holder")
is_full() {
	[ "$(find "/proc/$daemon/fd" -mindepth 1 | wc -l)" -ge 63 ]
}
await "urnicd has descriptors left: $(ls "/proc/$daemon/fd")" is_full

! spins "$daemon" || fail "urnicd without descriptors uses $used ticks, and a loop $looped"
kill "$holder"
await 'a program does not work after the attack' try

# The queue is empty, and all descriptors are in use, none by a program that ends soon.
serves_nobody() {
	! find "/proc/$daemon/fd" -lname '*pidfd*' | grep -q .
}
await 'urnicd keeps the descriptors of programs that have ended' serves_nobody
rm "$scratch/holder"
on a /usr/bin/python3 -c "
import os, socket, time
held = []
while True:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect('$path')
    held.append(s)
    s.settimeout(0.2)
    try:
        # This one had the last descriptor, unless others have become free since.
        if s.recv(1) == b'' and len(os.listdir('/proc/$daemon/fd')) == 64:
            break
    except TimeoutError:
        pass
print(os.getpid(), flush=True)
time.sleep(600)" >"$scratch/holder" &
await 'nobody holds connections' test -s "$scratch/holder"
holder=$(cat "$scratch/holder")
had=$(ls -l "/proc/$daemon/fd")
try && fail "a program works without a descriptor for it; urnicd had
$had
and has
$(ls -l "/proc/$daemon/fd")"
[ $took -le 10 ] || fail "a program takes $took s to fail: $said"
echo "$said" | grep -q "urnicd (process $daemon) has reached its limit of 64 open files: .*ulimit" ||
	fail "a program is told: $said"
kill "$holder"
await 'a program does not work after the second attack' try

# A program that listens for iWARP connections has no descriptor left when one arrives. It does not
# spin, and serves the connection once it has a descriptor.
export URNIC_TRANSPORTS=iwarp
start listener a rping -s -a 10.99.0.1 -p $port -C 3
wait_for_port a $port "$job_listener" || fail "no listener: $(cat "$scratch/listener")"
prlimit --pid "$(process listener)" --nofile=3:1024
start client a rping -c -a 10.99.0.1 -p $port -C 3
await 'nobody connects' sh -c "grep -qs 'accept4' '$scratch/listener'"
! spins "$(process listener)" ||
	fail "a listener without descriptors uses $used ticks, and a loop $looped"
prlimit --pid "$(process listener)" --nofile=1024:1024
finish_well listener client

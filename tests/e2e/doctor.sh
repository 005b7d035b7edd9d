#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# urnic doctor: what it says of a machine where everything works, under each restriction, and of
# programs that urnic's libraries cannot reach.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

tests=$(dirname "$0")
libraries=$("$urnic" run --print)
export URNICD_IDLE_S=1

# diagnose STATUS [PREFIX...] -- [ARGUMENTS]: run it on host a, with a prefix; it has to end with
# STATUS. Its output is in $said, and its JSON has to match the schema.
diagnose() {
	expected=$1 prefix=
	shift
	while [ "$1" != -- ]; do
		prefix="$prefix $1"
		shift
	done
	shift
	# shellcheck disable=SC2086
	said=$(on a $prefix "$urnic" doctor "$@" 2>&1)
	status=$?
	[ $status = "$expected" ] || fail "$prefix urnic doctor $*: it ends with $status: $said"
	# shellcheck disable=SC2086
	on a $prefix "$urnic" doctor --json "$@" >"$scratch/json" 2>"$scratch/errors"
	[ $? = "$expected" ] || fail "$prefix urnic doctor --json $* has another exit status"
	matches_schema doctor <"$scratch/json"
}

# has LINE...: expressions for lines of the output.
has() {
	for line; do
		echo "$said" | grep -qE "^$line" || fail "no line like '$line' in: $said"
	done
}

no_urnicd() {
	[ -z "$(urnicd_of a)" ]
}

has_port() {
	on a ss -Huln 'sport = :4791' | grep -q .
}

has_no_port() {
	! has_port
}

network_up 9000

# All is well.
diagnose 0 --
has 'ok +kernel: Linux ' 'ok +namespaces: ' 'ok +proc: ' 'ok +files: [0-9]+ open files$' \
	'ok +call: 1[0-9] system calls work$' 'ok +urnicd: ' \
	'ok +device rocep_veth0: on veth0, 10.99.0.1, MTU 9000, RDMA path MTU 4096$' \
	'note +interface lo: MTU 65536, no device: another interface has an address' \
	'ok +port 10.99.0.1: UDP port 4791 is free$' 'ok +port fd00:99::1: UDP port 4791 is free$' \
	'ok +traffic rocep_veth0: ' 'RDMA works'
! echo "$said" | grep '^fails' || fail 'a check fails'

# The loader that a program names is not run: it may be any program.
cat >"$scratch/ld-named" <<-END
	#!/bin/sh
	: >"$scratch/has-run"
END
chmod 755 "$scratch/ld-named"
ln -s "$scratch/ld-named" /tmp/ld-$$
python3 - "$urnic" "$scratch/named" /tmp/ld-$$ <<'END'
import re, sys
source, to, loader = sys.argv[1:]
data = open(source, 'rb').read()
own = re.search(rb'/lib[^\0]*/ld-[^\0]*\0', data).group()
assert len(loader) < len(own)
open(to, 'wb').write(data.replace(own, loader.encode().ljust(len(own), b'\0'), 1))
END
chmod 755 "$scratch/named"
diagnose 0 -- "$scratch/named"
rm -f /tmp/ld-$$
has 'limited +library: the loader /tmp/ld-[0-9]+ lists no libraries'
[ ! -e "$scratch/has-run" ] || fail 'the loader of a program was run'

# Settings and interfaces.
diagnose 1 env URNIC_INTERFACES=none --
has 'fails +device: there is none' 'note +interface veth0: MTU 9000, no device: URNIC_INTERFACES' \
	'RDMA does not work[.]$'
on a ip link add idle0 type veth peer name idle1
diagnose 0 --
has 'note +interface idle0: MTU 1500, no device: it is down'
on a ip link set idle0 up
on a sysctl -qw net.ipv6.conf.idle0.disable_ipv6=1
diagnose 0 --
has 'note +interface idle0: MTU 1500, no device: it has no address'
diagnose 0 env URNIC_TRANSPORTS=iwarp --
has 'ok +device iwp_veth0: ' 'ok +traffic iwp_veth0: '

# A sandbox. What is lost is named for each call.
refuse="$programs/refuse"
for call in pidfd_open pidfd_getfd process_vm_readv process_vm_writev timerfd_create; do
	diagnose 0 "$refuse" $call EPERM --
	has "limited +call $call: refused \(Operation not permitted\), so " 'RDMA works, with '
done
diagnose 0 "$refuse" process_vm_readv KILL --
has 'limited +call process_vm_readv: refused \(ended by SIGSYS\), so '
diagnose 0 "$refuse" io_uring_setup ENOSYS --
has 'note +call io_uring_setup: refused \(Function not implemented\), so urnic-nvmf-target'
for row in 'memfd_create=interface veth0: MTU 9000, no device: it cannot be opened' \
	'epoll_create1=urnicd: ' 'eventfd2=traffic rocep_veth0: no queue pair works: ' \
	'sendmmsg=traffic rocep_veth0: no queue pair works: packets are lost: sendmmsg: ' \
	'recvmmsg=traffic rocep_veth0: no queue pair works: packets are lost: recvmmsg: '; do
	diagnose 1 "$refuse" "${row%%=*}" EPERM --
	has "fails +call ${row%%=*}: refused \(Operation not permitted\), so " "fails +${row#*=}" \
		'RDMA does not work[.]$'
done
diagnose 0 "$refuse" unshare EPERM --
has 'limited +namespaces: .*unshare\(CLONE_NEWUSER\) fails \(Operation not permitted\)' \
	'limited +view: UCX and ibstat find no device, .* unshare\(CLONE_NEW(NS|USER)\) fails'
diagnose 0 "$refuse" mount EPERM --
has 'limited +view: UCX .* mount\(MS_SLAVE\) fails \(Operation not permitted\)'

# Limits.
diagnose 0 prlimit --nofile=200 --
has 'limited +files: 200 open files '
diagnose 1 prlimit --nofile=50 --
has 'fails +files: 50 open files, and urnicd needs 64: '
diagnose 1 prlimit --as=4000000000 --
has 'fails +call mmap: refused \(Cannot allocate memory\), so .*ulimit -v'

# The report names the process that has UDP port 4791: another program, or urnicd itself.
await 'urnicd keeps the port' has_no_port
on a /usr/bin/python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("10.99.0.1", 4791))
print("ready", flush=True)
time.sleep(600)' >"$scratch/holder" &
await 'nobody takes the port' grep -q ready "$scratch/holder"
diagnose 1 --
has 'fails +port 10.99.0.1: UDP port 4791 of 10.99.0.1 is taken by python3 \(process [0-9]+, user [0-9]+\): ' \
	'ok +port fd00:99::1: UDP port 4791 is free$' \
	'fails +traffic rocep_veth0: no queue pair works: .*is taken by python3 ' 'RDMA does not work[.]$'
on a sh -c 'kill $(ss -Hulpn "sport = :4791" | sed -n "s/.*pid=\([0-9]*\).*/\1/p")'
await 'the port stays taken' has_no_port
start server a "$programs/verify" -d rocep_veth0 -w mixed -n 100000000
start client a "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 10.99.0.1
await 'urnicd does not take the port' has_port
diagnose 0 --
has 'ok +urnicd: runs as process [0-9]+ of user .*, protocol [0-9]+, from /.*/urnicd' \
	'ok +port 10.99.0.1: UDP port 4791 belongs to urnicd of user ' 'ok +traffic rocep_veth0: '
kill "$(process server)" "$(process client)"
finish server
finish client

# Programs. $libraries is urnic's directory.
need ibv_devinfo
program=$(command -v ibv_devinfo)
diagnose 0 -- ibv_devinfo -v
has "ok +library: .urnic run. gives the program the libraries of $libraries\$"
grep -q "\"libibverbs\":	\"$libraries/libibverbs.so.1\"" "$scratch/json" || fail "$(cat "$scratch/json")"
diagnose 0 -- sh
has "ok +library: the program links no libibverbs; what it loads .* gets the libraries of $libraries"
printf '#!/usr/bin/env sh\n' >"$scratch/script"
diagnose 1 -- "$scratch/script"
has "fails +program $scratch/script: may not be executed"
chmod +x "$scratch/script"
diagnose 0 -- "$scratch/script" argument
has "note +program $scratch/script: is a script of /.*sh\$" 'ok +library: the program links no '
printf 'echo\n' >"$scratch/plain" && chmod +x "$scratch/plain"
diagnose 0 -- "$scratch/plain"
has "note +program $scratch/plain: is neither a binary nor a script"
diagnose 1 -- no-such-program
has 'fails +program no-such-program: is not found' 'RDMA does not work for no-such-program[.]$'
for row in 'be_static=is a static program' 'be_musl=uses the C library musl' \
	'be_32_bits=is a 32-bit program' 'be_foreign=is for another processor' \
	'be_short=is a broken ELF file'; do
	file=$scratch/${row%%=*}
	/usr/bin/python3 "$tests/elf_edit.py" "$program" "$file" "${row%%=*}" && chmod +x "$file"
	diagnose 1 -- "$file"
	has "fails +program $file: ${row#*=}"
done
/usr/bin/python3 "$tests/elf_edit.py" "$program" "$scratch/needs" need_another && chmod +x "$scratch/needs"
diagnose 1 -- "$scratch/needs"
has 'fails +library: the program does not start: .*libibverbs.so.9: cannot open shared object file'
diagnose 1 -- "$programs/linked"
has 'fails +library libibverbs.so.1: the program loads /.*, because its RPATH \(/.*\) comes before LD_LIBRARY_PATH'
if command -v ib_write_bw >/dev/null; then
	diagnose 0 -- ib_write_bw
	has 'limited +library libmlx5.so.1: the program may use mlx5dv' 'ok +library: '
fi

# What takes two users, and a kernel's file that is not there: set-user-id programs, and yama.
[ "$(id -u)" = 0 ] || exit 0
chmod 755 "$scratch"
as_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
# shellcheck disable=SC2086
$as_user test -r "$libraries/liburnic.so" -a -x "$urnic" || skip "the rest takes another user, who may not read $1"
cp "$program" "$scratch/setuid" && chmod 4755 "$scratch/setuid"
await "root's urnicd stays" no_urnicd
# shellcheck disable=SC2086
diagnose 1 $as_user -- "$scratch/setuid"
has "fails +program $scratch/setuid: has a set-user-id bit, for which the loader ignores LD_LIBRARY_PATH"
await "the user's urnicd stays" no_urnicd
diagnose 0 -- "$scratch/setuid"
has 'ok +library: '
await "root's urnicd stays" no_urnicd
mkdir -p "$scratch/kernel/yama"
for scope in 1 2 3; do
	echo $scope >"$scratch/kernel/yama/ptrace_scope"
	[ $scope = 1 ] && verdict='ok +yama: ptrace_scope is 1; ' ||
		verdict="limited +yama: ptrace_scope is $scope, so two processes of this host exchange data by packets: "
	# shellcheck disable=SC2086
	diagnose 0 unshare -m "$tests/mounted.sh" "$scratch/kernel" /proc/sys/kernel $as_user --
	has "$verdict"
done
await "the user's urnicd stays" no_urnicd
echo 2 >"$scratch/kernel/yama/ptrace_scope"
diagnose 0 unshare -m "$tests/mounted.sh" "$scratch/kernel" /proc/sys/kernel --
has 'ok +yama: ptrace_scope is 2, which CAP_SYS_PTRACE overrides'

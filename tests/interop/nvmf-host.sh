# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A part of the script nvmf: the Linux kernel's host against urnic-nvmf-target.

target=''

ctl() { "$build/urnic-nvmf-target" ctl -s "$work/ctl" "$@"; }

start_target() {
	start_urnic "$work/target" "$build/urnic-nvmf-target" -c "$work/config.json" -s "$work/ctl"
	target=$child
	await ctl status || { cat "$work/target"; return 1; }
}

kill_target() {
	kill -KILL "$target"
	wait "$target" 2>/dev/null
	target=''
}

end_target() {
	kill -TERM "$target"
	wait "$target"
}

at_target() { echo "-t $transport -a $ours -s 4420"; }

connect() { # OPTION...
	guest nvme connect "$(at_target)" -n $nqn -c 1 "$@" && await guest test -b /dev/nvme0n1
}

disconnect() { guest nvme disconnect-all; }

# Verified writes of many sizes.
verified_io() { # SIZE
	guest fio --name=verify --filename=/dev/nvme0n1 --rw=randwrite --bsrange=512-256k --iodepth=16 \
		--ioengine=libaio --direct=1 --size="$1" --verify=crc32c --do_verify=1 --verify_fatal=1
}

io_with() { # OPTION...
	connect "$@" && verified_io 8m && disconnect
}

# With one CPU the kernel has one I/O queue of each kind: for writes, for polling, for the rest.
queues_are() { # NUMBER OPTION...: with the Admin queue
	local number=$1
	shift
	connect "$@" && verified_io 8m && ctl status >"$work/status" && disconnect && cat "$work/status" &&
		grep -q "by $transport, $number queues" "$work/status"
}

connect_all() {
	guest nvme connect-all "$(at_target)" && await guest 'ls /dev/nvme*n1' && disconnect
}

# Blocks 0 to 7 are written, and compared with what they have and with what they have not.
other_commands() {
	guest 'cd /tmp && head -c 4096 /dev/urandom >data && head -c 4096 /dev/zero >zeroes && disk=/dev/nvme0n1 &&
		nvme write $disk -s 0 -c 7 -z 4096 -d data && nvme compare $disk -s 0 -c 7 -z 4096 -d data &&
		! nvme compare $disk -s 0 -c 7 -z 4096 -d zeroes && nvme flush $disk -n 1 &&
		nvme write-zeroes $disk -s 0 -c 7 && nvme compare $disk -s 0 -c 7 -z 4096 -d zeroes &&
		nvme dsm $disk -n 1 -d -s 0 -b 8 && nvme get-feature /dev/nvme0 -f 7 && nvme error-log /dev/nvme0 &&
		nvme fw-log /dev/nvme0 && nvme effects-log /dev/nvme0 && nvme changed-ns-list-log /dev/nvme0'
}

reset_under_io() {
	local _
	begin_io
	for _ in 1 2 3; do
		guest 'nvme reset /dev/nvme0 && grep -q live /sys/class/nvme/nvme0/state' || return
	done
	end_io
}

file_system() {
	guest 'mkfs.ext4 -q /dev/nvme0n1 && mkdir -p /tmp/mnt && mount -o discard /dev/nvme0n1 /tmp/mnt &&
		cp /usr/bin/fio /tmp/mnt/copy && sync && umount /tmp/mnt && fsck.ext4 -fn /dev/nvme0n1 &&
		mount /dev/nvme0n1 /tmp/mnt && cmp /usr/bin/fio /tmp/mnt/copy && rm /tmp/mnt/copy &&
		fstrim /tmp/mnt && umount /tmp/mnt && fsck.ext4 -fn /dev/nvme0n1'
}

sectors_are() { [ "$(guest cat /sys/block/nvme0n1/size)" = "$1" ]; }

resize() {
	truncate -s 128M "$work/disk" && ctl resize-namespace $nqn 1 && await sectors_are $((128 << 11))
}

# In nvme list-ns the controller is asked: all namespaces that it has.
change_namespaces() {
	ctl add-namespace $nqn 9 memory=8M && await guest test -e /sys/block/nvme0n2 -o -e /sys/block/nvme0n9 &&
		guest 'nvme list-ns /dev/nvme0 | grep -q 0x9' &&
		ctl remove-namespace $nqn 9 && await guest '! ls /sys/block | grep -q "nvme0n[29]"'
}

begin_io() {
	guest '(fio --name=verify --filename=/dev/nvme0n1 --rw=randwrite --bsrange=4k-64k --iodepth=8 --ioengine=libaio \
		--direct=1 --size=48m --verify=crc32c --do_verify=1 --verify_fatal=1; echo $? >/tmp/status) \
		>/tmp/fio 2>&1 </dev/null & sleep 1'
}

end_io() {
	await guest test -e /tmp/status
	guest 'cat /tmp/fio /tmp/status; [ "$(cat /tmp/status)" = 0 ]; status=$?; rm /tmp/status; exit $status'
}

# What was acknowledged survives the death of the target; the kernel reconnects.
target_killed() {
	local _
	begin_io
	for _ in 1 2 3; do
		kill_target
		sleep 1
		start_target
		await guest 'grep -q live /sys/class/nvme/nvme0/state'
	done
	end_io
}

expired() { ctl counters | grep -q 'keep_alive_expired[^0-9]*[1-9]'; }

# The network is gone for longer than the keep alive timeout.
network_gone() {
	begin_io
	set_link down
	await expired
	set_link up
	end_io
}

not_allowed() {
	ctl disallow-any-host $nqn
	! guest nvme connect "$(at_target)" -n $nqn && ctl allow-any-host $nqn
}

# A description of the target, with a namespace in a new file, or elsewhere.
describe_ours() { # [DEVICE]
	local device=${1:-"\"path\": \"$work/disk\""}
	cat >"$work/config.json" <<END
{ "subsystems": [ { "nqn": "$nqn", "attr": { "allow_any_host": "1" },
    "namespaces": [ { "nsid": 1, "enable": 1, "device": { $device } } ] } ],
  "ports": [ { "portid": 1, "subsystems": [ "$nqn" ],
    "addr": { "trtype": "$transport", "adrfam": "ipv4", "traddr": "$ours", "trsvcid": "4420" } } ] }
END
	rm -f "$work/disk"
	truncate -s 96M "$work/disk"
}

# siw refuses a send request once its connection is lost (ENOTCONN). nvme_rdma gives that to the
# program as an I/O error, before it knows of the loss itself: docs/interop.md.
has_siw_refused() {
	[ $part = host-iwarp ] && guest "dmesg | grep -q 'nvme_rdma_post_send failed with error code -107'" &&
		! guest 'grep -q verify: /tmp/fio'
}

# Run a check that breaks the connection, again where siw refuses a request of it.
with_loss() { # COMMAND
	local try
	for try in 1 2 3; do
		guest 'dmesg -c >/dev/null'
		"$1" && return
		has_siw_refused || break
		echo "retried: $1, try $try: siw has refused a send request"
		guest 'killall fio' || true
	done
	guest 'dmesg | tail -n 30'
	return 1
}

# From /build, with the guest's libraries.
programs_start() {
	local program
	for program in urnic urnic-nvmf urnic-nvmf-target; do
		guest "/build/$program --version" || return
	done
}

run_host() {
	check "urnic's programs start in the guest" programs_start
	describe_ours
	check "the target listens" start_target
	check "nvme discover" guest "nvme discover $(at_target) | grep $nqn"
	check "verified I/O" io_with
	if [ $transport = tcp ]; then
		check "verified I/O with digests" io_with -g -G
		check "verified I/O with header digests" io_with -g
	fi
	check "verified I/O without SQ flow control" io_with -d
	check "verified I/O with queues of 16 entries" io_with -Q 16
	check "verified I/O with queues of 1,024 entries" io_with -Q 1024
	check "verified I/O with 3 queues" queues_are 4 -W 1 -P 1
	check "nvme connect-all" connect_all
	check "nvme connect" connect -k 2
	check "nvme id-ctrl" guest "nvme id-ctrl /dev/nvme0 | grep $nqn"
	check "nvme id-ns" guest 'nvme id-ns /dev/nvme0n1 | grep "nsze *: 0x30000"'
	check "nvme list" guest 'nvme list | grep /dev/nvme0n1'
	check "nvme ana-log" guest 'nvme ana-log /dev/nvme0 | grep optimized'
	check "nvme smart-log" guest 'nvme smart-log /dev/nvme0'
	check "nvme copy" guest 'nvme copy /dev/nvme0n1 -d 100 -s 0 -b 7'
	check "nvme verify" guest 'nvme verify /dev/nvme0n1 -s 0 -c 7'
	check "nvme write, compare, flush, write-zeroes, dsm, logs" other_commands
	check "nvme reset under I/O" with_loss reset_under_io
	check "mkfs, mount, fsck" file_system
	check "a namespace is resized" resize
	check "a namespace is added and removed" change_namespaces
	check "the target is killed under I/O" with_loss target_killed
	check "the network is gone under I/O" with_loss network_gone
	check "nvme disconnect" disconnect
	check "a host that is not allowed" not_allowed
	check "the target ends" end_target
}

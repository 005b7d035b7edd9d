# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A part of the script nvmf: urnic-nvmf against the Linux kernel's target.

config=/sys/kernel/config/nvmet
subsystem=$config/subsystems/$nqn

# The namespace is a file in the guest's memory. Direct I/O is not for tmpfs.
describe_target() {
	guest "modprobe -a nvmet nvmet-tcp nvmet-rdma && { [ -e $config ] ||
		mount -t configfs config /sys/kernel/config; } && rm -f /tmp/disk && truncate -s 64M /tmp/disk &&
		mkdir $subsystem && echo 1 >$subsystem/attr_allow_any_host && cd $subsystem/namespaces && mkdir 1 && cd 1 &&
		echo -n /tmp/disk >device_path && echo 1 >buffered_io && echo 1 >enable && mkdir $config/ports/1 &&
		cd $config/ports/1 && echo ipv4 >addr_adrfam && echo $transport >addr_trtype && echo $theirs >addr_traddr &&
		echo 4420 >addr_trsvcid && ln -s $subsystem subsystems/$nqn"
}

remove_target() {
	guest "rm $config/ports/1/subsystems/$nqn && rmdir $config/ports/1 && echo 0 >$subsystem/namespaces/1/enable &&
		rmdir $subsystem/namespaces/1 && rmdir $subsystem && modprobe -r nvmet-tcp nvmet-rdma nvmet"
}

nvmf() { # COMMAND OPTION...
	local command=$1
	shift
	(urnic timeout 400 "$build/urnic-nvmf" "$command" -t $transport -a $theirs -s 4420 "$@")
}

says() { # WORDS COMMAND OPTION...
	local words=$1
	shift
	nvmf "$@" >"$work/said" 2>&1
	local status=$?
	cat "$work/said"
	[ $status = 0 ] && grep -q "$words" "$work/said"
}

disk_is() { # FILE: the beginning of the guest's
	[ "$(guest "head -c $(stat -c %s "$1") /tmp/disk | sha256sum")" = "$(sha256sum <"$1")" ]
}

copies() { # OPTION...
	head -c 3M /dev/urandom >"$work/data"
	nvmf write -n $nqn -d "$work/data" "$@" && disk_is "$work/data" &&
		nvmf read -n $nqn -d "$work/back" --size 3M "$@" && cmp "$work/data" "$work/back"
}

verifies() { says '^verified: .* 0 reconnects' verify -n $nqn --runtime 3 --size 4M "$@"; }

begin_verify() {
	nvmf verify -n $nqn --runtime 12 --size 16M --iodepth 8 -k 2 >"$work/verify" 2>&1 &
	child=$!
	sleep 4
}

end_verify() {
	wait "$child"
	local status=$?
	cat "$work/verify"
	[ $status = 0 ] && grep -q '^verified: .* [1-9][0-9]* reconnects' "$work/verify"
}

port_removed() {
	begin_verify
	guest "rm $config/ports/1/subsystems/$nqn"
	sleep 3
	guest "ln -s $subsystem $config/ports/1/subsystems/$nqn"
	end_verify
}

link_down() {
	begin_verify
	set_link down
	sleep 5
	set_link up
	end_verify
}

nbd_size_is() { [ "$(nbdinfo --size "nbd+unix:///disk?socket=$work/nbd")" = "$1" ]; }

# The kernel's target sends an event, and the host asks for the new size.
resized() {
	begin_export $theirs && await nbd_size_is $((64 << 20)) &&
		guest "truncate -s 96M /tmp/disk && echo 1 >$subsystem/namespaces/1/revalidate_size" &&
		await nbd_size_is $((96 << 20)) && nbdcopy "$work/data" "nbd+unix:///disk?socket=$work/nbd" &&
		disk_is "$work/data"
	local status=$?
	end_export && return $status
}

# A block device, with blocks of 512 bytes.
add_namespace() {
	guest "mkdir $subsystem/namespaces/7 && cd $subsystem/namespaces/7 && truncate -s 8M /tmp/disk7 &&
		losetup /dev/loop0 /tmp/disk7 && echo -n /dev/loop0 >device_path && echo 1 >enable"
}

remove_namespace() {
	guest "echo 0 >$subsystem/namespaces/7/enable && rmdir $subsystem/namespaces/7 && losetup -d /dev/loop0"
}

namespace_added() {
	add_namespace && says :0x7 list-ns -n $nqn && says 'nsze *: 0x4000' id-ns -n $nqn -N 7 &&
		verifies -N 7 --bs 512 --iodepth 16 --size 1M
}

namespace_removed() {
	remove_namespace && refused 'no namespace 7' nvmf id-ns -n $nqn -N 7
}

exports_are() { # NAME...
	[ "$(cd "$work/all" && echo *)" = "$*" ]
}

# The kernel's events tell of the second namespace.
all_connected() {
	: >"$work/all.log"
	start_urnic "$work/all.log" "$build/urnic-nvmf" connect-all -t $transport -a $theirs -s 4420 --nbd "$work/all"
	local all=$child
	await grep -q '^ready$' "$work/all.log" && exports_are nvme0n1.nbd && add_namespace &&
		await grep -q 'nvme0n7.nbd$' "$work/all.log" && exports_are nvme0n1.nbd nvme0n7.nbd &&
		nbdcopy "$work/data" "nbd+unix:///disk?socket=$work/all/nvme0n7.nbd" &&
		remove_namespace && await exports_are nvme0n1.nbd
	local status=$?
	kill -TERM "$all"
	wait "$all" || { echo "connect-all ends with $?" && status=1; }
	cat "$work/all.log"
	return $status
}

host_not_allowed() {
	guest "echo 0 >$subsystem/attr_allow_any_host" && refused 'not allow this host' nvmf id-ctrl -n $nqn &&
		guest "echo 1 >$subsystem/attr_allow_any_host"
}

# What no host may send, by TCP, and the class of each answer.
streams_of() { # urnic|nvmet ADDRESS SECONDS
	(urnic timeout 600 "$here/nvmf-streams" --expected "$1" --kernel "$LAB_KERNEL" --quiet "$3" "$2" 4420 $nqn)
}

# The same by RDMA. The cases that are named are not sent.
capsules_of() { # urnic|nvmet ADDRESS [CASE...]
	local stack=$1
	shift
	(urnic timeout 600 "$build/tests/interop/nvmf-capsules" "$1" 4420 $nqn "${@:2}") >"$work/seen" &&
		"$here/nvmf-capsules.sh" compare "$stack" "$work/seen"
}

# Two of the cases stop the kernel's target.
run_streams() {
	describe_ours '"memory": "64M", "block_size": 4096'
	check "urnic's target" start_target
	if [ $transport = tcp ]; then
		check "malformed streams, urnic" streams_of urnic $ours 1
	else
		check "malformed capsules, urnic" capsules_of urnic $ours
	fi
	check "urnic's target ends" end_target
	check "the kernel's target" describe_target
	if [ $transport = tcp ]; then
		check "malformed streams, nvmet" streams_of nvmet $theirs 5
	else
		check "malformed capsules, nvmet" capsules_of nvmet $theirs "Connect in a capsule without data" \
			"write with an offset of 2^64 - 2"
	fi
	check "the target is removed" remove_target
}

run_target() {
	check "the kernel's target" describe_target
	check discover says "subnqn: *$nqn" discover
	check id-ctrl says 'mn *: Linux' id-ctrl -n $nqn
	check list-ns says ':0x1$' list-ns -n $nqn
	check id-ns says 'nsze *: 0x4000' id-ns -n $nqn
	check "get-log: SMART" says '^01f0:' get-log -n $nqn -L 2
	check "get-log: changed namespaces" says '^0ff0:' get-log -n $nqn -L 4 --log-len 4096
	check "get-log: ANA" says '^0000: .. .. .. .. .. .. .. .. 01 00' get-log -n $nqn -L 12
	check "get-feature: queues" says 'Current value' get-feature -n $nqn -f 7
	check "read and write" copies
	check verify verifies
	if [ $transport = tcp ]; then
		check "verify with digests" verifies -g -G
		check "verify with header digests" verifies -g
		check "verify with data digests" verifies -G
		check "read and write with digests" copies -g -G
	fi
	check "verify at depth 32" verifies --iodepth 32
	check "verify 64 KiB" verifies --bs 64k --iodepth 4
	check "verify with 4 queues of 32" verifies -i 4 -Q 32 --iodepth 64
	check "verify with 8 queues of 2" verifies -i 8 -Q 2 --iodepth 16
	check "verify with 1 queue of 1" verifies -i 1 -Q 1
	check "verify with 1 queue of 1,024" verifies -i 1 -Q 1024 --iodepth 256
	check "a namespace is added, with blocks of 512 bytes" namespace_added
	check "a namespace is removed" namespace_removed
	check connect-all all_connected
	check "the namespace is resized" resized
	check "the port is removed and added under I/O" port_removed
	check "the network is gone under I/O" link_down
	check "a host that is not allowed" host_not_allowed
	check "a subsystem that is not there" refused 'check the subsystem' nvmf id-ctrl -n $nqn.wrong
	check "the target is removed" remove_target
}

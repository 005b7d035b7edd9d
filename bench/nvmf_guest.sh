# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The guest's part of bench/nvmf --guest: nvmf_guest.py sends these functions before each command.
set -e
nvmet=/sys/kernel/config/nvmet
host_uuid=6f1f3cbb-1d9c-4ae5-9a0c-5d6a64b3d2a1

await() { # COMMAND
	local _
	for _ in {1..300}; do
		! "$@" >/dev/null 2>&1 || return 0
		sleep 0.2
	done
	echo "never true: $*"
	return 1
}

# Called once. Makes the devices for the kernel's target, writes to the one in memory, and makes a
# second network namespace.
prepare() { # MIB NEAR-ADDRESS FAR-ADDRESS
	mkdir -p /etc/nvme
	echo "nqn.2014-08.org.nvmexpress:uuid:$host_uuid" >/etc/nvme/hostnqn
	echo $host_uuid >/etc/nvme/hostid
	modprobe -a nvme-tcp nvme-rdma nvmet veth
	[ -e $nvmet ] || mount -t configfs config /sys/kernel/config
	modprobe brd rd_nr=1 rd_size=$(($1 << 10))
	modprobe null_blk nr_devices=1 irqmode=0 submit_queues=1
	dd if=/dev/zero of=/dev/ram0 bs=1M "count=$1" oflag=direct
	truncate -s "$1M" /tmp/zeroes
	ip netns add far
	ip link add near type veth peer name far netns far
	ip link set near mtu 9000 up
	ip address add "$2/24" dev near
	ip -n far link set lo up
	ip -n far link set far mtu 9000 up
	ip -n far address add "$3/24" dev far
	mkfifo /tmp/pulse
}

# Makes rxe on an interface; none: removes it, so that urnic can use the UDP port.
choose_rxe() { # INTERFACE|none
	if [ "$1" = none ]; then
		rdma-device none
		return
	fi
	rdma-device rxe
	[ "$1" = eth0 ] || { rdma link delete rxe0 && rdma link add rxe0 type rxe netdev "$1"; }
}

start_nvmet() { # NQN DEVICE TRTYPE ADDRESS
	modprobe "nvmet-$3"
	mkdir "$nvmet/subsystems/$1"
	cd "$nvmet/subsystems/$1"
	echo 1 >attr_allow_any_host
	mkdir namespaces/1
	echo -n "$2" >namespaces/1/device_path
	echo 1 >namespaces/1/enable
	mkdir $nvmet/ports/1
	cd $nvmet/ports/1
	echo ipv4 >addr_adrfam
	echo "$3" >addr_trtype
	echo "$4" >addr_traddr
	echo 4420 >addr_trsvcid
	ln -s "$nvmet/subsystems/$1" subsystems/
}

start_urnic() { # DESCRIPTION COMMAND...: of a target that reads /tmp/target.json
	echo "$1" >/tmp/target.json
	shift
	"$@" >/tmp/target 2>&1 </dev/null &
	echo $! >/tmp/target.pid
	await eval "grep -q ^ready /tmp/target || ! kill -0 $!"
	grep -q ^ready /tmp/target || { cat /tmp/target; return 1; }
}

connect() { # NQN TRTYPE ADDRESS
	nvme connect -t "$2" -a "$3" -s 4420 -n "$1" -i 1 >/dev/null
	await test -b /dev/nvme0n1
}

# Ends the host's connections and both targets, if there are any.
take_down() {
	local subsystem
	nvme disconnect-all >/dev/null
	if [ -e $nvmet/ports/1 ]; then
		rm -f $nvmet/ports/1/subsystems/*
		rmdir $nvmet/ports/1
	fi
	for subsystem in "$nvmet"/subsystems/*; do
		[ -e "$subsystem" ] || continue
		[ ! -e "$subsystem/namespaces/1" ] || rmdir "$subsystem/namespaces/1"
		rmdir "$subsystem"
	done
	[ -s /tmp/target.pid ] || return 0
	kill "$(cat /tmp/target.pid)" 2>/dev/null || true
	await eval "! kill -0 $(cat /tmp/target.pid)"
	rm /tmp/target.pid
}

# Prints "sample UPTIME IDLE IOWAIT" four times a second while the job runs, then what it printed.
run_job() { # SECONDS COMMAND...
	local up idle iowait _
	timeout -k 5 "$@" >/tmp/job 2>/tmp/job.error </dev/null &
	exec 9<>/tmp/pulse
	while kill -0 $! 2>/dev/null; do
		read -r up _ </proc/uptime
		read -r _ _ _ _ idle iowait _ </proc/stat
		echo "sample $up $idle $iowait"
		read -r -t 0.25 -u 9 _ || true
	done
	wait $! || { cat /tmp/job /tmp/job.error; return 1; }
	cat /tmp/job
}

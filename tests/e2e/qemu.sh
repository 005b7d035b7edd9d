#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# QEMU moves a running guest over RDMA, from host a to host b and within host a. The guest counts,
# in 64 MiB of memory (guest.S).
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need qemu-system-x86_64 as ld
pair_seconds=100
network_up 9000
as --32 -o "$scratch/guest.o" "$(dirname "$0")/guest.S" &&
	ld -m elf_i386 -Ttext 0 --oformat binary -o "$scratch/guest" "$scratch/guest.o" || fail 'no guest'

# boot NAME HOST OPTIONS...: start a guest. Its serial port's output is in $scratch/NAME.serial, its
# monitor's answers are in $scratch/NAME.monitor.
boot() {
	guest=$1 guest_host=$2
	shift 2
	rm -f "$scratch/$guest".*
	mkfifo "$scratch/$guest.in" "$scratch/$guest.out"
	start "$guest" "$guest_host" qemu-system-x86_64 -machine accel=tcg -m 256 -nodefaults -display none \
		-bios "$scratch/guest" -serial "file:$scratch/$guest.serial" \
		-chardev "pipe,id=monitor,path=$scratch/$guest,logfile=$scratch/$guest.monitor" \
		-mon chardev=monitor "$@"
}

tell() {
	echo "$2" >"$scratch/$1.in"
}

# counts NAME ROUNDS: wait until that guest has counted so many more rounds here.
counts() {
	wanted=$(($(wc -c <"$scratch/$1.serial") + $2))
	tries=600
	until [ "$(wc -c <"$scratch/$1.serial")" -ge $wanted ]; do
		[ $((tries -= 1)) -gt 0 ] || fail "$1 does not count: $(tail -n 3 "$scratch/$1" "$scratch/$1.monitor")"
		sleep 0.1
	done
}

for way in 'off b 10.99.0.2' 'on b 10.99.0.2' 'on a 10.99.0.1'; do
	# shellcheck disable=SC2086
	set -- $way
	pin_all=$1 to=$2 address=$3
	boot source a
	boot destination "$to" -incoming defer
	for guest in source destination; do
		until [ -e "$scratch/$guest.serial" ]; do sleep 0.1; done
		tell $guest "migrate_set_capability rdma-pin-all $pin_all"
	done
	claims_before=$(claims "$to")
	tell destination "migrate_incoming rdma:$address:4444"
	until [ "$(claims "$to")" -ge $((claims_before + 2)) ]; do
		kill -0 "$(process destination)" || fail "no destination: $(cat "$scratch/destination")"
		sleep 0.1
	done
	counts source 20
	tell source 'migrate_set_parameter max-bandwidth 10G'
	tell source 'migrate_set_parameter downtime-limit 10000'
	tell source "migrate -d rdma:$address:4444"
	counts destination 50

	tell source 'info migrate'
	sleep 1
	grep -q 'Migration status: completed' "$scratch/source.monitor" ||
		fail "to host $to, pin-all $pin_all: $(cat "$scratch/source.monitor")"
	stopped=$(wc -c <"$scratch/source.serial")
	counts destination 20
	[ "$(wc -c <"$scratch/source.serial")" = "$stopped" ] || fail 'the source goes on'
	# A page that arrived wrong would have ended it.
	! grep -q '!' "$scratch/source.serial" "$scratch/destination.serial" || fail 'the guest miscounted'
	tell source quit
	tell destination quit
	finish_well source destination
	grep -aE '^(total time|downtime):' "$scratch/source.monitor"
done

# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
#
# A part of the script nvmf: QEMU boots from a namespace of urnic-nvmf-target, through urnic-nvmf
# export --nbd.
#
# The disk has SYSLINUX, Debian's kernel with the modules that it needs, and a root file system
# whose only program writes a file block by block, and its checksum. Meanwhile the target is killed
# and started again.

first_sectors=67584 # of the root file system: behind the partition of the boot loader

# The initramfs loads the modules, and hands over to the root file system.
make_initramfs() { # DIRECTORY MODULE-FILE...
	local into=$1 module
	shift
	mkdir -p "$into"/{bin,dev,new,modules}
	cp "$work/guest/usr/bin/busybox" "$into/bin/"
	cp "$@" "$into/modules/"
	{
		echo '#!/bin/busybox sh'
		echo 'export PATH=/bin; busybox mount -t devtmpfs dev /dev'
		for module; do echo "busybox insmod /modules/${module##*/}"; done
		echo 'until [ -e /dev/vda2 ]; do busybox sleep 0.1; done'
		echo 'busybox mount -t ext4 /dev/vda2 /new && exec busybox switch_root /new /sbin/init'
	} >"$into/init"
	chmod +x "$into/init"
	(cd "$into" && find . | cpio -o -H newc -R 0:0 --quiet | gzip -1)
}

make_root() { # DIRECTORY
	local command
	mkdir -p "$1"/{bin,sbin,dev,proc}
	cp "$work/guest/usr/bin/busybox" "$1/bin/"
	for command in sh mount dd cat sha256sum grep poweroff; do ln -s busybox "$1/bin/$command"; done
	cat >"$1/sbin/init" <<'END'
#!/bin/sh
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
exec >/dev/console 2>&1
grep ' / ' /proc/mounts
i=0
while [ $i -lt 256 ]; do
	dd if=/dev/urandom of=/written bs=128k count=1 seek=$i conv=notrunc,fsync 2>/dev/null || echo "write fails"
	[ $i != 20 ] || echo "boot: writing"
	i=$((i + 1))
done
sha256sum </written >/sum
mount -o remount,ro / && echo "boot: sum $(cat /sum)"
poweroff -f
END
	chmod +x "$1/sbin/init"
}

make_disk() { # FILE
	local image abi modules
	image=$(lab image) && abi=$(lab version) && mkdir -p "$work/guest" || return
	(cd "$work/guest" && cpio -id --quiet 'usr/bin/busybox' 'usr/lib/modules/*' <"$image/initramfs.cpio")
	ln -sfn usr/lib "$work/guest/lib"
	modules=$(for module in virtio_pci virtio_blk crc32c_generic ext4; do
		modprobe -d "$work/guest" -S "$abi" -D $module 2>/dev/null
	done | awk '$1 == "insmod" && !seen[$2]++ {print $2}')
	# shellcheck disable=SC2086 # words on purpose
	make_initramfs "$work/early" $modules >"$work/initrd"
	make_root "$work/root"
	rm -f "$1"
	truncate -s 96M "$1"
	sfdisk -q "$1" <<-END &&
		label: dos
		start=2048, size=$((first_sectors - 2048)), type=c, bootable
		start=$first_sectors, type=83
	END
		dd if=/usr/lib/syslinux/mbr/mbr.bin of="$1" conv=notrunc status=none &&
		mformat -i "$1@@1M" -T $((first_sectors - 2048)) -H 2048 -h 64 -s 32 :: &&
		printf '%s\n' 'default linux' 'label linux' 'kernel vmlinuz' \
			'append initrd=initrd console=ttyS0 quiet panic=-1 no_timer_check tsc=reliable' \
			>"$work/syslinux.cfg" &&
		MTOOLS_SKIP_CHECK=1 mcopy -i "$1@@1M" "$image/vmlinuz" "$work/initrd" "$work/syslinux.cfg" :: &&
		syslinux --install --offset $((1 << 20)) "$1" &&
		mke2fs -q -t ext4 -d "$work/root" -E offset=$((first_sectors * 512)) "$1" $((63 << 10))k
}

to_target() { # COMMAND OPTION...
	local command=$1
	shift
	(urnic "$build/urnic-nvmf" "$command" -t $transport -a $ours -s 4420 -n $nqn "$@")
}

console_says() { grep -aq "$1" "$work/console"; }

boots() {
	: >"$work/console"
	timeout 300 qemu-system-x86_64 -machine q35 $(lab accelerator) -smp 1 -m 256 -nodefaults -no-user-config \
		-display none -no-reboot -serial "file:$work/console" -device virtio-rng-pci \
		-drive "file=nbd+unix:///disk?socket=$work/nbd,format=raw,if=virtio" &
	children+=($!)
	local qemu=$! status
	if await console_says 'boot: writing'; then
		kill_target
		sleep 1
		start_target
	fi
	wait $qemu
	status=$?
	cat "$work/console"
	[ $status = 0 ] && console_says '^/dev/vda2 / ext4 rw' && console_says 'boot: sum' &&
		! console_says 'write fails' && grep 'Connected' "$work/export"
}

# The guest's checksum is that of what is read over NVMe, in a file system without fault.
written_is_read() {
	local sum
	to_target read -d "$work/back" && tail -c +$((first_sectors * 512 + 1)) "$work/back" >"$work/back-root" &&
		e2fsck -fn "$work/back-root" && debugfs -R 'cat /written' "$work/back-root" >"$work/written" || return
	sum=$(sha256sum <"$work/written")
	echo "$sum"
	[ "$(stat -c %s "$work/written")" = $((256 << 17)) ] && grep -a "boot: sum ${sum%% *}" "$work/console"
}

run_boot() {
	describe_ours
	check "the target listens" start_target
	check "a disk is made" make_disk "$work/image"
	check "it is written to the namespace" to_target write -d "$work/image"
	check "the namespace is exported" begin_export $ours
	check "QEMU boots while the target is killed" boots
	check "what the guest wrote is read over NVMe" written_is_read
	check "the export ends" end_export
	check "the target ends" end_target
}

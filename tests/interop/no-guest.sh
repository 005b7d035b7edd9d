#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# Where no guest can be made, the scripts of `make check-interop` fail, and those of `make check`
# are skipped with the reason.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$1
if [ "$(id -u)" != 0 ] || [ ! -e /dev/net/tun ]; then
	echo "guests need root and /dev/net/tun"
	exit 77
fi
for program in qemu-system-x86_64 dropbearkey ssh-keygen cpio depmod; do
	if ! type -P "$program" >/dev/null; then
		echo "no $program, which guests need"
		exit 77
	fi
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin"
for program in apt-get apt-cache; do
	printf '#!/bin/sh\nexit 1\n' >"$scratch/bin/$program"
	chmod +x "$scratch/bin/$program"
done

ends_with() { # STATUS WORDS COMMAND...
	local wanted=$1 words=$2 status=0
	shift 2
	env -u APT_CONFIG PATH="$scratch/bin:$PATH" LAB_DIR="$scratch/lab" timeout -k 5 100 "$@" >"$scratch/said" 2>&1 || status=$?
	if [ $status != "$wanted" ] || ! grep -q "$words" "$scratch/said"; then
		echo "$* ends with $status:"
		cat "$scratch/said"
		exit 1
	fi
}

ends_with 1 '^0 passed, 1 failed, 0 skipped' "$here/nvmf" "$build"
ends_with 77 '^no image for a guest: lab: no kernel of series' "$here/nvmf" --check "$build"
ends_with 1 'no kernel of series' "$here/run" "$build"
ends_with 77 '^no image for a guest: lab: no kernel of series' "$here/run" --check "$build"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Two containers of Podman without any capability, with read-only files, as root and as an ordinary
# user: perftest, rping, UCX and libfabric run between their processes, by packets on two hosts and
# on one, and without packets where the containers share what docs/ci.md says. The containers' files
# are those of this machine.
[ "$(id -u)" = 0 ] || { echo 'the containers are made by root'; exit 77; }
# What is mounted goes with the namespace. crun refuses a cgroup2 beside the older hierarchies, and
# the containers here need none.
if [ "${CONTAINERS_INSIDE:-}" = '' ]; then
	CONTAINERS_INSIDE=yes exec unshare --mount sh "$0" "$@"
fi
umount /sys/fs/cgroup/unified 2>/dev/null
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
need podman ib_write_bw rping ucx_perftest fi_pingpong
build=$(realpath "$1")

# podman_do ARGUMENTS...: with a store of this test. An overlay's upper layer may not be below its
# lower one, so the store is not on the disk.
store=$(mktemp -d /dev/shm/urnic-e2e.XXXXXX)
podman_do() {
	timeout $pair_seconds podman --root "$store/root" --runroot "$store/run" --tmpdir "$store/tmp" \
		--storage-driver vfs --cgroup-manager cgroupfs --events-backend none "$@"
}

containers_end() {
	podman_do rm --all --force --time 0 >/dev/null 2>&1
	umount "$store/files"
	at_exit
	rm -rf "$store"
}
mkdir "$store/files" "$store/upper" "$store/work"
mount -t overlay -o "lowerdir=/,upperdir=$store/upper,workdir=$store/work" overlay "$store/files" || {
	rm -rf "$store" "$scratch"
	skip "no overlay of this machine's files"
}
network_up 9000
trap 'containers_end' EXIT

# container NAME HOST OPTIONS... -- PROGRAM...: $options are those of all containers of a case.
container() {
	name=$1 container_host=$2
	shift 2
	more=
	while [ "$1" != -- ]; do
		more="$more $1"
		shift
	done
	shift
	# shellcheck disable=SC2086
	podman_do run --name "$network-$name" --network "ns:/run/netns/urnic-$network-$container_host" \
		--ulimit nofile=1024:1024 --ulimit nproc=1024:1024 \
		$bare --read-only-tmpfs=false \
		--tmpfs /tmp:notmpcopyup,mode=1777 --tmpfs /run:notmpcopyup,mode=755 \
		--volume "$build:$build:ro" $options $more --rootfs "$store/files" "$@"
}

# A container without any capability, for certain.
is_bare() {
	said=$(container bare a --rm -- sh -c 'grep -E "^Cap(Inh|Prm|Eff|Bnd|Amb)" /proc/self/status; touch /usr/written && echo written' 2>&1)
	[ "$(echo "$said" | grep -c '0000000000000000$')" = 5 ] && ! echo "$said" | grep -q '^written'
}

# moved: how many bytes the interfaces of both hosts have sent.
moved() {
	for moved_host in a b; do
		on $moved_host cat /proc/net/dev
	done | awk 'sub(/:/, " ") { sum += $10 } END { printf "%.0f\n", sum }'
}

# has_claimed NUMBER: the server's container has claimed a port and said that it listens.
has_claimed() {
	podman_do exec "$network-server" "$urnic" stat 2>/dev/null |
		awk -v least="$1" '$1 == "claims_made" { made = $2 } END { exit made < least }'
}

# meet CLIENT-HOST PORT PROGRAM...: a server on host a, and its client. PORT is that of the server,
# or `claim`. What says that it is done is in $scratch/client.
meet() {
	client_host=$1 meet_port=$2
	shift 2
	server_options='' client_options=''
	[ "$1" != rping ] || server_options=-s client_options='-c -a'
	# shellcheck disable=SC2086
	container server a --rm -- "$urnic" run $view -- "$@" $server_options >"$scratch/server" 2>&1 &
	server=$!
	if [ "$meet_port" = claim ]; then
		until has_claimed 2; do
			kill -0 $server 2>/dev/null || break
			sleep 0.2
		done
	else
		wait_for_port a "$meet_port" $server || true
	fi
	# shellcheck disable=SC2086
	container client "$client_host" --rm -- "$urnic" run $view -- "$@" $client_options 10.99.0.1 >"$scratch/client" 2>&1
	client_status=$?
	wait $server
	server_status=$?
	[ $client_status$server_status = 00 ] || {
		show_pair
		fail "$case: $* ends with $server_status and $client_status"
	}
}

# moves packets|memory CLIENT-HOST PORT PROGRAM...: the programs move some 10 MB, by this way.
moves() {
	way=$1
	shift
	moved_before=$(moved)
	meet "$@"
	shift 2
	bytes=$(($(moved) - moved_before))
	echo "$case: $1: $bytes bytes by packets"
	case $way in
	packets) [ $bytes -ge 5000000 ] ;;
	memory) [ $bytes -le 1000000 ] ;;
	esac || fail "$case: $*: $bytes bytes by packets"
}

# Built with MPI, as in Debian 13, UCX takes itself for an MPI program unless it has a terminal.
without_mpi=
! ucx_perftest -h 2>&1 | grep -q '^ *-P <0|1>' || without_mpi='-P 0'

# What docs/ci.md tells to write is what is tried here.
page=$(dirname "$0")/../../docs/ci.md
on_page() {
	for words; do
		grep -qF -e "\`$words" -e "podman run $words" "$page" || fail "docs/ci.md does not have $words"
	done
}
bare='--cap-drop all --security-opt no-new-privileges --read-only'
ucx_device='--device /dev/null:/dev/infiniband/uverbs0'
on_page "$bare" "$ucx_device" '--pid container:' '--volume DIRECTORY:/dev/shm' '--volume DIRECTORY:/run/urnic'

# programs_move packets|memory CLIENT-HOST
programs_move() {
	moves "$1" "$2" 18515 ib_write_bw -F -n 200
	moves "$1" "$2" claim rping -C 100 -S 60000 -V
	# shellcheck disable=SC2086
	moves "$1" "$2" 13337 ucx_perftest $without_mpi -t put_bw -D zcopy -s 65536 -n 200 -w 10 -d rocep_veth0:1 -x rc_verbs
	moves "$1" "$2" 47592 fi_pingpong -p verbs -e msg -S 65536 -I 100 -c
}

# A container whose process numbers the others share.
holder_begin() {
	container holder a --detach -- sleep 3600 >/dev/null || fail 'no holder'
	options="$options --pid container:$network-holder"
}
holder_end() {
	podman_do rm --force --time 0 "$network-holder" >/dev/null
}

for user in root user; do
	[ $user = root ] && directory=/run/urnic id=0 || directory=/dev/shm id=20001
	own="--user $id:$id $ucx_device"
	view=--no-view
	rm -rf "$store/shared"
	mkdir "$store/shared"
	chown $id "$store/shared"
	chmod 755 "$store/shared"
	shared="--volume $store/shared:$directory"

	options=$own case="$user, two hosts"
	is_bare || fail "$case: the container is not bare: $said"
	programs_move packets b

	options="$own $shared" case="$user, one host, own process numbers"
	programs_move packets a

	case="$user, one host"
	options="$own $shared"
	holder_begin
	programs_move memory a
	case="$user, two networks of one host"
	programs_move memory b
	holder_end
done

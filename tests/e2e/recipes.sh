#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# The commands of docs/ci.md and README.md run as printed, on an installed urnic, without a network
# of the machine. apt-get has nothing to do; git clones this tree; and `make install` installs the
# build that is there.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
trap 'at_exit' EXIT

build=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
page=$source/docs/ci.md
need git meson ib_write_bw ibv_devinfo unshare setpriv
[ "$(id -u)" = 0 ] || skip 'containers are made by root'
[ -e "$source/.git" ] || skip 'not in a clone'
"$source/scripts/install-deps" --check build demo 2>"$scratch/err" || skip "$(cat "$scratch/err")"
installed=$scratch/installed
mkdir "$scratch/stubs" "$scratch/work"
chmod 755 "$scratch"

cat >"$scratch/stubs/apt-get" <<'END'
#!/bin/sh
case $1 in
update | install) ;;
*) exit 2 ;;
esac
END
cat >"$scratch/stubs/make" <<END
#!/bin/sh
[ "\$*" = '-C urnic install' ] && [ -e urnic/Makefile ] && [ ! -e "$installed" ] || exit 2
DESTDIR=$installed exec meson install --no-rebuild --quiet -C "$build"
END
chmod +x "$scratch"/stubs/*

# script RECIPE PART: the commands of a recipe, in a file.
script() {
	/usr/bin/python3 "$(dirname "$0")/recipes.py" "$page" "$1" "$2" >"$scratch/script" ||
		fail "$1, $2: no commands"
}

# run_script WRAPPER...: it succeeds.
run_script() {
	(cd "$scratch/work" && URNIC_URL=file://$source \
		GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' \
		"$@" timeout $pair_seconds sh -ex "$scratch/script") >"$scratch/out" 2>&1 ||
		fail "$(cat "$scratch/out")"
}

# alone PROGRAM...: in a container without a network. The shell stays process 1, because the
# timeout(1) of newer systems refuses to be that.
alone() {
	unshare --net --pid --fork --mount-proc sh -c 'ip link set lo up && { "$@"; exit; }' alone "$@"
}

# The installations are the same: one is run, the other compared.
script 'GitLab CI' before_script
cp "$scratch/script" "$scratch/install"
script 'GitHub Actions' 'Install urnic'
cmp "$scratch/script" "$scratch/install" || fail 'two recipes install in two ways'
PATH=$scratch/stubs:$PATH run_script alone
bin=$(dirname "$(find "$installed" -path '*/bin/urnic')")
[ -x "$bin/urnic" ] || fail "no urnic is installed: $(find "$installed" | head)"
# What other packages have is not in the way.
[ -z "$(find "$installed" -name 'libibverbs*' ! -path '*/urnic/*')" ] || fail 'libibverbs is installed outside of the private directory'
PATH=$bin:$PATH

script 'GitHub Actions' Test
run_script alone
script 'GitLab CI' script
run_script alone setpriv --bounding-set=-all --inh-caps=-all
script 'An image' RUN
run_script alone setpriv --bounding-set=-all --inh-caps=-all

# README's five lines are those of the page.
sed -n '/^    git clone .*URNIC_URL/,/^$/s/^    //p' "$source/README.md" >"$scratch/script"
[ "$(wc -l <"$scratch/script")" = 5 ] || fail "README has other lines: $(cat "$scratch/script")"
sed -n 3p "$scratch/script" | grep -qx 'make -C urnic install' || fail 'README installs in another way'
sed -i 1,3d "$scratch/script"
run_script alone

# What README says that its commands print: what does not depend on the machine.
sed -n 's/^    \$ //p' "$source/README.md" >"$scratch/commands"
[ "$(wc -l <"$scratch/commands")" -ge 3 ] || fail 'README has no commands'
while read -r command; do
	echo "$command" >"$scratch/script"
	run_script alone
	awk -v command="    \$ $command" '$0 == command { is_output = 1; next }
		/^$/ { is_output = 0 } is_output { sub(/^    /, ""); print }' "$source/README.md" |
		grep -E 'ping data|first time|transport:|link_layer:' >"$scratch/expected" ||
		fail "README shows nothing of '$command'"
	while IFS= read -r line; do
		grep -qxF -e "$line" "$scratch/out" || fail "'$command' does not print '$line': $(cat "$scratch/out")"
	done <"$scratch/expected"
done <"$scratch/commands"

# Compose: two hosts, and a name for the server.
"$urnic" host up -n "$network" || skip 'no network namespaces here'
echo '10.99.0.1 server' >"$scratch/hosts"
script Compose server
cp "$scratch/script" "$scratch/server.sh"
script Compose client
"$urnic" host exec -n "$network" a -- sh "$scratch/server.sh" >"$scratch/server" 2>&1 &
server=$!
on_b() {
	"$urnic" host exec -n "$network" b -- unshare --mount --pid --fork --mount-proc \
		sh -c 'mount --bind "$0" /etc/hosts && { "$@"; exit; }' "$scratch/hosts" \
		setpriv --bounding-set=-all --inh-caps=-all "$@"
}
run_script on_b
wait $server || fail "the server of Compose: $(cat "$scratch/server")"

# The network's urnicd is root's, and stays for a while: the pod, of another user, has a network of
# its own.
"$urnic" host down -n "$network" && "$urnic" host up -n "$network" || fail 'no other network'

# A pod: two containers with a common network, each with its own processes, and read-only files but
# for a /dev/shm of theirs.
mkdir "$scratch/shm"
mount -t tmpfs -o mode=1777 pod "$scratch/shm" || fail 'no tmpfs'
trap 'umount "$scratch/shm"; at_exit' EXIT
container() {
	"$urnic" host exec -n "$network" a -- unshare --mount --pid --fork --mount-proc sh -c '
		mount --rbind "$0" /dev/shm && mount -o remount,bind,ro / && { "$@"; exit; }' "$scratch/shm" \
		setpriv --reuid=1000 --regid=1000 --clear-groups --bounding-set=-all --no-new-privs "$@"
}
script 'A Kubernetes pod' server
cp "$scratch/script" "$scratch/server.sh"
script 'A Kubernetes pod' client
container sh "$scratch/server.sh" >"$scratch/server" 2>&1 &
server=$!
run_script container
wait $server || fail "the server of the pod: $(cat "$scratch/server")"

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Ordinary users: alone, beside root, under a system-wide urnicd, and on a network of their own.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
export URNIC_INTERFACES=veth0,lo # loopback is a device only where it is asked for

[ "$(id -u)" = 0 ] || skip 'this user is an ordinary one: all other tests here say it'
need setpriv ibv_devices ibv_rc_pingpong
USER_ID=65534
as_user="setpriv --reuid=$USER_ID --regid=$USER_ID --clear-groups"
port=18600
chmod 755 "$scratch"

$as_user test -r "$1/lib/liburnic.so" -a -x "$urnic" || skip "other users may not read $1"
network_up 9000
export URNICD_IDLE_S=1

# names_on HOST: the directories of the urnicds that listen there.
names_on() {
	urnicds_on "$1" | sort | sed 's|/[^/]*$||' | tr '\n' ' '
}

wait_for_names() {
	for attempt in $(seq 600); do
		[ "$(names_on "$1")" != "$2" ] || return 0
		sleep 0.1
	done
	fail "on host $1 listen: $(names_on "$1"), not: $2"
}

# Alone, within one host and between two; the user's own urnicd serves it.
# shellcheck disable=SC2086
on a $as_user "$urnic" run ibv_devices | grep -q rocep_veth0 || fail 'a user sees no device'
pair a a 10.99.0.1 $as_user "$programs/verify" -d rocep_veth0 -w mixed -n 500
case $(names_on a) in
"/dev/shm/urnic-$USER_ID " | "/run/user/$USER_ID/urnic ") ;;
*) false ;;
esac || fail "on host a listen: $(names_on a)"
pair a b 10.99.0.1 $as_user "$programs/verify" -d rocep_veth0
pair a b fd00:99::1 $as_user "$programs/verify" -d rocep_veth0 -x 1 -w mixed -n 500
port=18515
pair a a 127.0.0.1 $as_user ibv_rc_pingpong -d rocep_lo -g 0 -n 200
port=18600

# Objects and XRC domains of one user's processes are shared. These tests make a network of their
# own.
as_maker="$as_user --inh-caps=+sys_admin,+net_admin --ambient-caps=+sys_admin,+net_admin"
for test in verbs_import verbs_xrc_shared; do
	# shellcheck disable=SC2086
	$as_maker timeout 240 env URNIC_URNICD="$urnicd" "$1/tests/unit/test_$test" >"$scratch/$test" 2>&1 ||
		{ cat "$scratch/$test"; fail "$test as an ordinary user"; }
done

# Beside another user's urnicd on the same address, the program gets an error message. Root has an
# urnicd of its own, too.
# shellcheck disable=SC2086
start server a $as_user "$programs/verify" -d rocep_veth0 -w mixed -n 100000000
# shellcheck disable=SC2086
start client b $as_user "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 10.99.0.1
data_move() {
	# shellcheck disable=SC2086
	on b $as_user "$urnic" stat --all --pid "$(process client)" 2>/dev/null |
		awk '$1 == "sent_pkts" { sent += $2 } END { exit sent < 100 }'
}
await 'no data move' data_move
said=$(on a timeout 120 "$urnic" run --no-view -- "$programs/forks" -d rocep_veth0 2>&1) &&
	fail 'two urnicds share an address'
echo "$said" | grep -q "taken by urnicd (process [0-9]*) of user $USER_ID: .*urnicd --system" ||
	fail "root is told: $said"
kill "$(process server)" "$(process client)"
finish_well server client
wait_for_names a ''
wait_for_names b ''

# A system-wide urnicd serves both, at once.
for side in a b; do
	URNIC_HOST_ID=$network on $side "$urnicd" --system --idle 0 || fail 'no system-wide urnicd'
done
for user in root user; do
	[ $user = root ] && as='' || as=$as_user
	# shellcheck disable=SC2086
	start "server_$user" a $as "$programs/verify" -d rocep_veth0 -p "186${#as}" -w mixed -n 3000
	# shellcheck disable=SC2086
	start "client_$user" b $as "$programs/verify" -d rocep_veth0 -p "186${#as}" -w mixed -n 3000 10.99.0.1
done
finish_well server_root server_user client_root client_user
# Two users on one host, in one network namespace or in two, use packets; a counter and the log have
# the reason. Processes of one user need no packets.
export URNIC_HOST_ID="$network" URNIC_LOG=info
for client in a:root b:root b:user; do
	[ ${client#*:} = root ] && as='' || as=$as_user
	# shellcheck disable=SC2086
	start server a $as "$programs/verify" -d rocep_veth0 -w mixed -n 100000000
	# shellcheck disable=SC2086
	start client ${client%:*} $as_user "$programs/verify" -d rocep_veth0 -w mixed -n 100000000 10.99.0.1
	[ ${client#*:} = root ] && name=sent_pkts || name=local_requests
	for side in server:a client:${client%:*}; do
		await "no data move: $side" has_counted 101 "${side#*:}" "$(process "${side%:*}")" $name
	done
	for side in server:a client:${client%:*}; do
		counted=$(on "${side#*:}" "$urnic" stat --all --pid "$(process "${side%:*}")" |
			awk '$1 ~ /^local_(req|unr)/ { printf "%s=%d ", $1, ($2 > 100 ? 100 : $2) }')
		[ ${client#*:} = root ] && expected='local_requests=0 local_unreachable=1 ' || expected='local_requests=100 local_unreachable=0 '
		[ "$counted" = "$expected" ] || fail "${client#*:}'s server, user's client on ${client%:*}: ${side%:*} counts $counted"
	done
	kill "$(process server)" "$(process client)"
	finish_well server client
	[ "$(cat "$scratch/server" "$scratch/client" | grep -c 'is on this host, but packets are needed to reach it: ')" = $((${#as} ? 0 : 2)) ] ||
		fail "${client#*:}'s server, user's client on ${client%:*}: $(cat "$scratch/server" "$scratch/client")"
done
unset URNIC_HOST_ID URNIC_LOG

# system_end HOST: end its system-wide urnicd.
system_end() {
	[ "$(names_on "$1")" = '/run/urnic ' ] || fail "on host $1 listen: $(names_on "$1")"
	for process in $(on "$1" ss -Hxlp | sed -n 's|.* /run/urnic/net-.*users:(\(.*\)).*|\1|p' |
		grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -n); do
		kill "$process" # the keeper is the elder, and takes its server with it
		break
	done
	wait_for_names "$1" ''
}
system_end a
system_end b

# Without CAP_NET_ADMIN a system-wide urnicd serves root, and tells users what it lacks.
on a setpriv --bounding-set=-net_admin --inh-caps=-net_admin "$urnicd" --system --idle 0 ||
	fail 'no system-wide urnicd without CAP_NET_ADMIN'
# shellcheck disable=SC2086
said=$(on a $as_user timeout 120 "$urnic" run --no-view -- "$programs/forks" -d rocep_veth0 2>&1) &&
	fail 'a user needs no channel'
[ "$(echo "$said" | grep -c 'urnicd --system lacks CAP_NET_ADMIN, .*: start it with this')" = 1 ] ||
	fail "without CAP_NET_ADMIN a user is told: $said"
pair a a 10.99.0.1 "$programs/verify" -d rocep_veth0 -w mixed -n 500
system_end a

# A network of the user's own, in a user namespace, where nobody is root.
mkdir "$scratch/home"
chown $USER_ID "$scratch/home"
rootless() {
	# shellcheck disable=SC2086
	env HOME="$scratch/home" XDG_RUNTIME_DIR="$scratch/home" $as_user "$urnic" host "$@"
}
rootless up -n "user-$$" >"$scratch/up" 2>&1 || skip "the rest needs user namespaces: $(cat "$scratch/up")"
rootless exec -n "user-$$" a -- timeout 240 "$urnic" run --no-view -- "$programs/verify" -d rocep_veth0 \
	>"$scratch/server" 2>&1 &
rootless exec -n "user-$$" b -- timeout 240 "$urnic" run --no-view -- "$programs/verify" -d rocep_veth0 \
	10.99.0.1 >"$scratch/client" 2>&1
client_status=$?
wait $!
server_status=$?
rootless down -n "user-$$"
[ $client_status = 0 ] && [ $server_status = 0 ] || { show_pair; fail 'no transfer on a network of its own'; }

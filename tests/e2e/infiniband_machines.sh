#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# One InfiniBand subnet on two machines: machine a has the fabric's process and programs on host1
# to host3, machine b has joined it as host4 and host5. Debian's programs run at both, and between
# both; packets are lost, and either machine's process is killed and comes back.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need mckey ib_write_bw ib_send_bw ibv_rc_pingpong ibv_asyncwatch rping opensm ibnetdiscover smpquery
network_up 1500
trap 'machines_end; at_exit' EXIT
near=near-$$ far=far-$$
topology=$(dirname "$0")/../../examples/infiniband/three-switches.topo
up='' listener='' joiner=''
key=$scratch/key

machines_end() {
	end_programs
	wait
}

machine() {
	"$urnic" host exec -n "$network" "$@"
}

# stay NAME MACHINE ARGUMENTS...: `urnic fabric` in the background; `process NAME` is its process.
stay() {
	stay_name=$1 stay_machine=$2
	shift 2
	rm -f "$scratch/$stay_name"
	# shellcheck disable=SC2016
	machine "$stay_machine" -- sh -c 'echo $$ >"$0" && exec "$@"' "$scratch/$stay_name.pid" \
		"$urnic" fabric "$@" >"$scratch/$stay_name" 2>&1 &
}

# on NODE PROGRAM...: on the machine that has the host; `a` and `b` are the machines.
on() {
	case $1 in
	host[45]) machine_of=b place=$far:$1 ;;
	host*) machine_of=a place=$near:$1 ;;
	*) machine_of=$1 place= ;;
	esac
	shift
	URNIC_FABRIC=$place machine $machine_of -- "$@"
}

fabric() {
	machine a -- "$urnic" fabric --name "$near" "$@"
}

prints() {
	grep -Eqs -- "$2" "$scratch/$1"
}

has_state() {
	fabric dump "$1" | grep -q "	$2"
}

# refused STATUS SENTENCE MACHINE ARGUMENTS...: of `urnic fabric`.
refused() {
	refused_status=$1 sentence=$2 refused_by=$3
	shift 3
	timeout 30 "$urnic" host exec -n "$network" "$refused_by" -- "$urnic" fabric "$@" >"$scratch/refused" 2>&1
	status=$?
	[ $status = "$refused_status" ] || fail "fabric $*: ends with $status: $(cat "$scratch/refused")"
	grep -q -- "$sentence" "$scratch/refused" || fail "fabric $*: $(cat "$scratch/refused")"
	[ "$(wc -l <"$scratch/refused")" = 1 ] || fail "fabric $* says more: $(cat "$scratch/refused")"
}

up_start() {
	stay up a up --name "$near" "$@" "$topology"
	up=$!
	await 'the fabric is up' prints up ' is up: '
}

# listener_start [KEY]
listener_start() {
	stay listener a listen --name "$near" --key "${1:-$key}" 10.99.0.1
	listener=$!
	await 'the listener listens' prints listener ' listens at '
}

joiner_start() {
	stay joiner b join --name "$far" --key "$key" 10.99.0.1 host4 host5
	joiner=$!
	await 'machine b joins' prints joiner ' is joined at '
}

all_active() {
	[ "$(fabric dump | grep -c '	Active')" = 21 ]
}

far_shows() {
	expression=$1
	shift
	on host4 timeout 60 "$urnic" run $view -- "$@" >"$scratch/out" 2>&1 || fail "$*: $(cat "$scratch/out")"
	grep -Eq -- "$expression" "$scratch/out" || fail "$*: $(cat "$scratch/out")"
}

lid_of() {
	fabric dump "$1" | sed -n 's/.* lid \([0-9]*\) lmc .*/\1/p' | head -n 1
}

# --- wrong usage ---

(umask 077 && head -c 32 /dev/urandom | base64 >"$key")
cp "$key" "$scratch/open" && chmod 644 "$scratch/open"
(umask 077 && echo 'another key, as long' >"$scratch/other" && echo short >"$scratch/short")
refused 2 'it needs --key FILE' a listen 10.99.0.1
refused 2 'it needs one address' a listen --key "$key"
refused 2 'it needs an address and hosts' b join --key "$key" 10.99.0.1
refused 2 '"host4" is there twice' b join --key "$key" 10.99.0.1 host4 host4
refused 1 'other users may read or write this key' a listen --key "$scratch/open" 10.99.0.1
refused 1 'a key has 16 bytes or more' a listen --key "$scratch/short" 10.99.0.1
refused 1 'No such file' a listen --key "$scratch/none" 10.99.0.1
refused 1 'is no ADDR' a listen --key "$key" 10.99.0.1:x
refused 1 "no fabric \"$near\" runs" a listen --name "$near" --key "$key" 10.99.0.1
up_start
refused 1 'cannot listen at this address' a listen --name "$near" --key "$key" 10.99.0.77
listener_start
refused 1 'it has another key' b join --name "$far" --key "$scratch/other" 10.99.0.1 host4
grep -q 'machine 10.99.0.2 has not joined: it has another key' "$scratch/listener" ||
	fail "listener: $(cat "$scratch/listener")"
refused 1 'has no node "host9"' b join --name "$far" --key "$key" 10.99.0.1 host4 host9
refused 1 'is a switch' b join --name "$far" --key "$key" 10.99.0.1 leaf1
joiner_start
refused 1 '"host5" is on another machine' b join --name "x$far" --key "$key" 10.99.0.1 host5
refused 1 'the console of this fabric is on the machine of' b --name "$far" dump
await 'the ports are active' all_active
# Machine b gets the subnet administrator's answers to its hosts, so another host asks for them.
fabric explain >"$scratch/said" || fail "explain: $(cat "$scratch/said")"
sed -n 2p "$scratch/said" | grep -q '^the paths of service level 0 have no credit loop$' ||
	fail "explain: $(cat "$scratch/said")"

# --- management, from machine b ---

far_shows 'PORT_ACTIVE' ibv_devinfo
far_shows '^Ca.*"host1"' ibnetdiscover
far_shows 'Node Description:\.+host4' smpquery -D nodedesc 0
far_shows 'Node Description:\.+host1' smpquery nodedesc "$(lid_of host1)"
far_shows 'SMINFO_MASTER' sminfo
on host1 "$urnic" run $view -- smpquery nodedesc "$(lid_of host4)" | grep -q 'host4' || fail 'host4 from host1'

# --- data ---

a=10.99.0.1 b=10.99.0.2
pair host1 host4 $a ibv_rc_pingpong -n 500
pair host4 host1 $b ib_write_bw -F -n 500
pair host1 host5 $a ib_read_bw -F -n 500
pair host4 host5 $b ib_send_bw -F -n 500
lossy_pair host1 host4 $a ib_send_bw -F -c UD -n 500
# connects SERVER CLIENT: a client before its server is rejected.
connects() {
	start client "$2" rping -c -v -C 20 -a "100.64.0.$(lid_of "$1")"
	finish client
}
for ends in 'host1 host4' 'host5 host2'; do
	# shellcheck disable=SC2086
	set -- $ends
	start server "$1" rping -s -v -C 20
	await 'rping connects' connects "$1" "$2"
	finish_well server
	prints client 'ping data: rdma-ping-19' || fail "rping: $(cat "$scratch/client")"
done

# A multicast group with members on both machines.
start receiver host4 stdbuf -oL mckey -m 239.1.2.3 -b "100.64.0.$(lid_of host4)"
await 'a program on machine b joins a group' prints receiver 'joined dgid'
start sender host1 stdbuf -oL mckey -s -m 239.1.2.3 -b "100.64.0.$(lid_of host1)"
finish_well sender receiver
prints receiver 'return status 0' || fail "mckey: $(cat "$scratch/receiver")"

# The peer of a program that is killed on machine b gets its last message.
listens=100.64.0.$(lid_of host1)
start server host1 "$programs/connect_states" server "$listens" established "$scratch/go"
await 'the server listens' prints server listens
start client host4 "$programs/connect_states" client "$listens" established "$scratch/go"
await 'the client is connected' prints client 'stays in established'
await 'the server is connected' prints server 'stays in established'
kill -KILL "$(process client)"
await 'the server hears that its peer is gone' prints server '^DISCONNECTED 0$'
touch "$scratch/go"
finish server || fail "the server: $(cat "$scratch/server")"
finish client

# Anyone may send to the listener's ports.
on b /usr/bin/python3 - <<-END || fail 'strangers cannot send'
	import os, socket
	for i in range(300):
	    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
	        s.sendto(os.urandom(i * 7 % 1500), ("10.99.0.1", 14791))
	for i in range(20):
	    with socket.create_connection(("10.99.0.1", 14791)) as s:
	        s.sendall(b"urnicIB\n" * (i % 3) + os.urandom(i * 40))
END
pair host1 host4 $a ib_write_bw -F -n 200

# --- lost packets ---

# The network drops some, or all beyond a short queue; the fabric drops frames.
if on b tc qdisc add dev veth0 root netem loss 1% 2>/dev/null ||
	on b tc qdisc add dev veth0 root tbf rate 100mbit burst 5k limit 20k 2>"$scratch/tc"; then
	pair host4 host1 $b ib_read_bw -F -n 100 -s 16384
	pair host1 host4 $a ibv_rc_pingpong -n 200
	dropped=$(on b tc -s qdisc show dev veth0 | sed -n 's/.*(dropped \([0-9]*\),.*/\1/p' | head -n 1)
	[ "$dropped" -gt 0 ] || fail 'the network has dropped nothing'
	on b tc qdisc del dev veth0 root
else
	[ "$(id -u)" != 0 ] || fail "tc: $(cat "$scratch/tc")"
	echo "no lost packets: $(cat "$scratch/tc")"
fi
fabric error 'host4[1]' 1
pair host1 host4 $a ib_write_bw -F -n 200 -s 4096
fabric error 'host4[1]' 0

# --- a machine is gone, and comes back ---

both_down() {
	has_state host4 Down && has_state host5 Down
}
kill -KILL "$(process joiner)"
wait $joiner
await 'the links of a machine that is gone are down' both_down
grep -q 'machine 10.99.0.2 has left' "$scratch/listener" || fail "listener: $(cat "$scratch/listener")"
joiner_start
await 'the links are up again' all_active
pair host1 host4 $a ib_write_bw -F -n 200

# Programs on machine b outlive the listener.
start events host4 stdbuf -oL ibv_asyncwatch -d ibp0
await 'a program waits for events' prints events 'event FD'
kill -KILL "$(process listener)"
wait $listener
await 'machine b has lost the fabric' prints joiner 'the fabric is lost'
await 'programs hear of the loss' prints events IBV_EVENT_PORT_ERR
await 'the links of a lost machine are down' both_down
listener_start "$scratch/other"
await 'machine b says why it cannot join again' prints joiner 'cannot join again: .*another key'
kill "$(process listener)"
wait $listener
listener_start
await 'machine b is back' prints joiner 'the fabric is back'
await 'programs hear that the port is active' prints events IBV_EVENT_PORT_ACTIVE
await 'the links are up again' all_active
stop events
pair host4 host1 $b ib_write_bw -F -n 200

# The end of the fabric ends its listener. The machine waits for another one.
kill "$(process up)"
wait $up
wait $listener && fail 'the listener outlives the fabric'
grep -q 'the fabric has ended' "$scratch/listener" || fail "listener: $(cat "$scratch/listener")"

# --- OpenSM on machine b ---

up_start --no-sm
listener_start
has_state host1 Init || fail "without a manager: $(fabric dump host1)"
export OSM_TMP_DIR="$scratch/" OSM_CACHE_DIR="$scratch/"
await 'machine b is back' has_state host4 Init
start opensm host4 opensm -f "$scratch/opensm.log"
await 'OpenSM on machine b sets the ports to active' all_active
far_shows 'SMINFO_MASTER' sminfo
on host1 "$urnic" run $view -- smpquery portinfo "$(lid_of host4)" 1 | grep -q 'IsSM' || fail 'host4 is no manager'
pair host1 host4 $a ib_write_bw -F -n 200
stop opensm

# --- OpenSM on machine a; machine b is gone ---

# traps: how often a switch has told OpenSM that a link has changed.
traps() {
	grep -cs 'num:128' "$scratch/manager.log"
}
has_traps() {
	[ "$(traps)" -gt "$1" ]
}
echo 'force_log_flush TRUE' >"$scratch/manager.conf"
start manager host1 opensm -f "$scratch/manager.log" -F "$scratch/manager.conf"
await 'OpenSM on machine a brings the subnet up' grep -qs 'SUBNET UP' "$scratch/manager.log"
await 'the ports are active' all_active
pair host4 host1 $b ib_write_bw -F -n 200
before=$(traps)
kill -KILL "$(process joiner)"
await 'a switch sends trap 128 for a machine that is gone' has_traps "$before"
await 'the links of a machine that is gone are down' both_down
exit 0

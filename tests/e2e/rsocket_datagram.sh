#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Datagrams over RDMA: Debian's udpong, and programs that know plain sockets only, through the
# preload library.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need udpong iperf3 python3
network_up

# serve PORT PROGRAM...: on host a, until it has the UDP port.
serve() {
	udp_port=$1
	shift
	start server a "$@"
	until on a ss -Hlun "sport = :$udp_port" | grep -q .; do
		kill -0 "$(process server)" || fail "$*: $(cat "$scratch/server")"
		sleep 0.05
	done
}

# Echoes and a stream, by calls of every kind. Its server never ends.
for mode in n a b; do
	serve 7174 udpong -T $mode -b 10.99.0.1
	for test in '-T e -S 1000 -C 200' '-S 500 -C 1000'; do
		# shellcheck disable=SC2086
		start client b udpong -s 10.99.0.1 -T $mode $test
		finish_well client
		grep -q '^custom ' "$scratch/client" || fail "udpong -T $mode $test: $(cat "$scratch/client")"
	done
	on a "$urnic" stat | awk '$1 == "sent_pkts" { sent += $2 } END { exit sent < 150 }' ||
		fail "udpong -T $mode: its echoes did not go over RDMA"
	stop server
	finish server
done
# Within a host, too.
serve 7174 udpong -b 127.0.0.1
start client a udpong -s 127.0.0.1 -S 1000 -C 100 -T e
finish_well client
grep -q '^custom ' "$scratch/client" || fail "udpong: $(cat "$scratch/client")"
stop server

serve 7999 udpong -b fd00:99::1 -p 7999 -B 100000
start client b udpong -s fd00:99::1 -p 7999 -B 100000 -S 2000 -C 200 -T e
finish_well client
grep -q '^custom ' "$scratch/client" || fail "udpong: $(cat "$scratch/client")"
stop server

# A server that starts again, with another queue pair, receives the client's datagrams again. Then
# the longest possible datagram, and one that is too long.
cat >"$scratch/datagrams.py" <<'END'
import socket, sys
server = ('::ffff:10.99.0.1', 5353)
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
if sys.argv[1] == 'server':
    for _ in range(2):
        s.bind(('::', 5353))
        data = b''
        while data != b'end':
            data, who = s.recvfrom(3000)
            s.sendto(data[::-1], who)
        s.close()
        s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sys.exit()
s.settimeout(0.5)
if sys.argv[2] == 'connected':
    s.connect(server)
for data in [b'hello', b'', b'x' * 2020] + [b'again'] * 40 + [b'end', b'new', b'end']:
    for attempt in range(200):
        try:
            s.sendto(data, server)
            if s.recvfrom(3000)[0] == data[::-1]:
                break
        except (socket.timeout, ConnectionRefusedError):
            pass
    else:
        sys.exit('no answer to %r' % data)
try:
    s.sendto(b'x' * 2021, server)
except OSError as error:
    print(error)
END
for how in connected free; do
	serve 5353 "$urnic" run --rsocket -- python3 "$scratch/datagrams.py" server
	start client b "$urnic" run --rsocket -- python3 "$scratch/datagrams.py" client $how
	finish_well client server
	grep -q 'Message too long' "$scratch/client" || fail "datagrams, $how: $(cat "$scratch/client")"
done

# It counts at both ends. A busy machine loses some of them.
stream() {
	listen server a "$urnic" run --rsocket -- iperf3 -s -1
	start client b "$urnic" run --rsocket -- iperf3 -c 10.99.0.1 -u -l 1000 -b 10M -t 1
	finish_well client server
	why="iperf3 -u: $(cat "$scratch/client")"
	# A receiver that does not run in time loses datagrams.
	awk -v late=$LATE '/receiver/ { split($(NF - 2), count, "/"); seen = 1; bad = count[1] > count[2] / 2 }
		END { if (!seen) exit 1; if (bad) exit late }' "$scratch/client"
}
in_some_attempt stream

exit 0

#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# fio's rdma engine. Its server is a job that reads. With verb=send the server sees every block, and
# verifies it; with read and write it waits for the end, and fio compares nothing; tests/e2e/verify
# does that for every operation.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"
. "$(dirname "$0")/listen.sh"

need fio
network_up 9000
# It asks for no retry when there is no receive request: all are there from the start.
server='fio --name=receiver --ioengine=rdma --port=4500 --rw=read --size=16m --bs=64k --iodepth=256'
client='fio --name=sender --ioengine=rdma --port=4500 --hostname=10.99.0.1 --rw=write --size=16m --bs=64k --iodepth=4'

for host in b a; do
	meet "$server" $host "$client --verb=write"
	meet "$server" $host "$client --verb=read"
	meet "$server --verify=crc32c --verify_state_save=0" $host "$client --verb=send --verify=crc32c --do_verify=0 --verify_state_save=0"
	grep -Eq 'read: .*\(16\.0MiB' "$scratch/server" || fail "the server saw: $(cat "$scratch/server")"
done

# The server must detect a wrong block: here the blocks have no checksum. Its client never ends
# after an error.
# shellcheck disable=SC2086
listen server a $server --verify=crc32c --verify_state_save=0
# shellcheck disable=SC2086
start client b $client --verb=send --thread
finish server && fail 'fio took blocks without a checksum for good ones'
grep -q 'verify: bad magic header' "$scratch/server" || fail "the server said: $(cat "$scratch/server")"
kill -KILL "$(process client)" 2>/dev/null
exit 0

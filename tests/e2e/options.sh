#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# More of perftest's options, and connection types that only certain adapters have: refused with a
# sentence.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/pairs.sh"

need ib_write_bw ib_send_bw ib_read_bw ib_send_lat
network_up 9000
report=$scratch/report.json

while read -r options; do
	# Debian 13 leaves this one out.
	if [ "${options#*--inline_recv}" != "$options" ] && ! ib_send_bw --help | grep -q inline_recv; then
		echo "not '$options', which this perftest does not know"
		continue
	fi
	# shellcheck disable=SC2086
	pair a b 10.99.0.1 $options -F -d rocep_veth0
	grep -Eq '^ *[0-9]+ +[0-9]+ +[0-9.]+ +[0-9.]*[1-9]' "$scratch/client" || {
		show_pair
		fail "$options prints no figures"
	}
done <<LIST
ib_write_bw --mr_per_qp -q 2 -n 100
ib_send_bw --inline_recv 64 -n 100
ib_send_bw --recv_post_list 8 -n 128
ib_send_bw --rate_limit 1 --rate_limit_type SW -n 100
ib_write_bw --reversed -n 100
ib_write_bw --ipv6 -n 100
ib_write_bw --tclass 96 -n 100
ib_write_bw --report-both -b -n 100
ib_write_bw -N --perform_warm_up -n 100
ib_write_bw --use_old_post_send -n 100
ib_write_bw --flows 4 -n 100
ib_write_bw --wait_destroy 1 -n 100
ib_send_bw -r 64 -t 32 -n 100
ib_send_bw -e -X 3 -n 100
ib_send_bw -u 10 -S 3 -n 100
ib_send_lat -c UC -e -n 100
ib_read_bw --odp -n 100
ib_write_bw --out_json --out_json_file=$report -n 100
LIST
[ -s "$report" ] || fail 'no report was written'

# refused SENTENCE PROGRAM OPTIONS...: both ends fail, soon, and say why.
refused() {
	sentence=$1
	shift
	try_pair a b 10.99.0.1 "$@" -F -d rocep_veth0 && fail "$* works"
	if [ $client_status != 1 ] || [ $server_status != 1 ]; then
		show_pair
		fail "$* ends with $server_status and $client_status"
	fi
	grep -q "$sentence" "$scratch/client" || { show_pair; fail "$* does not say '$sentence'"; }
}
refused 'Unable to create QP' ib_send_bw -c SRD
# Newer ones ask the device first, which is none of EFA.
refused 'SRD connection only possible in SEND/READ\|Error when trying to query EFA device' ib_write_bw -c SRD
refused 'Unable to create QP' ib_send_lat -c DC

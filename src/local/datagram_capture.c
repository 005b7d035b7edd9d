/* SPDX-License-Identifier: BSD-2-Clause */
/* Capturing datagrams that were delivered without packets. */
#include "ib/ud/ud.h"
#include "local/datagram.h"
#include "local/initiator/capture.h"

void datagram_capture(
	struct ud_endpoint_qp *from, const struct datagram_path *path, const struct send_wqe *wqe)
{
	const struct qp *qp = from->qp;
	struct captured about = {
		.time_ns = capture_now_ns(qp->lane->capture),
		.source = path->local,
		.destination = path->remote,
		.qpn = qp->qpn,
		.source_port = captured_port(qp->qpn),
		.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit,
		.is_sent = true,
	};
	struct psn psn = from->captured;
	struct packet packet;

	from->captured = psn_add(psn, 1);
	if (capture_drops(qp->lane->capture, 1, about.time_ns))
		return;
	ud_packet_init(&packet, qp, wqe, psn);
	local_capture_packet(qp, &about, &packet, wqe, 0);
}

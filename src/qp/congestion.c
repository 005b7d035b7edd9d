/* SPDX-License-Identifier: BSD-2-Clause */
#include "qp/congestion.h"

#include <errno.h>
#include <string.h>

#include "congestion/cc_flow.h"
#include "qp/qp.h"

enum { CNP_RESERVED_BYTES = 16 };

/* Does the queue pair have one peer, with which it exchanges RoCE packets? */
static bool has_peer(const struct qp *qp)
{
	return qp->type == QP_TYPE_RC || qp->type == QP_TYPE_UC || qp->type == QP_TYPE_XRC_SEND ||
		qp->type == QP_TYPE_XRC_RECV;
}

int congestion_prepare(struct qp *qp)
{
	if (!qp->lane->cc || !has_peer(qp) || qp->has_cc)
		return 0;
	if (pace_reserve(qp))
		return -ENOMEM;
	qp->has_cc = true;
	return 0;
}

static void flow_reset(struct qp *qp)
{
	*qp->cc = (struct cc_flow){
		.params = qp->lane->cc,
		.line_kbps = PACE_RATE_KBPS_MAX,
		.packet_bytes = pace_packet_bytes(qp),
	};
}

/*
 * The queue pair's state of congestion control, which the first call creates. NULL: there is no
 * congestion control.
 */
static struct cc_flow *flow_of(struct qp *qp)
{
	if (!qp->cc && qp->has_cc) {
		qp->cc = pace_flow(qp);
		flow_reset(qp);
	}
	return qp->cc;
}

void congestion_reset(struct qp *qp)
{
	qp->is_cnp_pending = false;
	if (!qp->cc)
		return;
	flow_reset(qp);
	pace_follow(qp, 0);
}

void congestion_done(struct qp *qp)
{
	qp->cc = NULL;
	qp->has_cc = false;
}

/* --- the notification point --- */

void congestion_on_mark(struct qp *qp, uint64_t now_ns)
{
	qp_count(qp, COUNTER_np_ecn_marked_roce_packets, 1);
	if (qp->is_cnp_pending || !flow_of(qp) || !cc_flow_on_mark(qp->cc, now_ns))
		return;
	qp->is_cnp_pending = true;
	qp_schedule(qp, LANE_TX_DATA);
}

/* BTH with BECN, and 16 bytes of zero; neither MigReq nor a PSN (IBTA A17.9.3). */
size_t congestion_cnp_write(struct qp *qp, struct packet_run *run)
{
	struct packet packet;
	size_t bytes;

	packet_init(&packet, OPCODE_CNP_NOTIFICATION);
	packet.bth.is_migrated = false;
	packet.bth.becn = true;
	packet.bth.dest_qpn = qpn_from(qp->attr.dest_qpn);
	bytes = packet_encode_headers(&packet, run->buffer);
	memset(run->buffer + bytes, 0, CNP_RESERVED_BYTES);
	run->path = qp->attr.path.cnp_id;
	qp->is_cnp_pending = false;
	qp_count(qp, COUNTER_np_cnp_sent, 1);
	return bytes + CNP_RESERVED_BYTES;
}

/* --- the reaction point --- */

void congestion_on_cnp(struct qp *qp, const struct packet_origin *origin, uint64_t now_ns)
{
	if (!has_peer(qp)) {
		qp_count(qp, COUNTER_bad_state_drops, 1);
		return;
	}
	if (!qp_is_address_of_peer(qp, origin)) {
		qp_count(qp, COUNTER_bad_address_drops, 1);
		return;
	}
	qp_count(qp, COUNTER_rcvd_pkts, 1);
	/* Data for a peer on this host crosses no switch, so a CNP from that peer is ignored. */
	if (qp->local || qp->state == QP_ERR || !flow_of(qp) || !cc_flow_on_cnp(qp->cc, now_ns)) {
		qp_count(qp, COUNTER_rp_cnp_ignored, 1);
		return;
	}
	qp_count(qp, COUNTER_rp_cnp_handled, 1);
	pace_follow(qp, now_ns);
}

bool congestion_follows_delay(const struct qp *qp)
{
	return qp->has_cc && qp->lane->cc->algorithm == CC_SWIFT;
}

void congestion_on_ack(struct qp *qp, uint64_t rtt_ns, uint32_t packets, uint64_t now_ns)
{
	cc_flow_on_ack(flow_of(qp), rtt_ns, packets, now_ns);
	pace_follow(qp, now_ns);
}

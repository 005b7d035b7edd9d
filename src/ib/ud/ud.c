/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/ud/ud.h"

#include <assert.h>
#include <string.h>

#include "ib/message.h"
#include "ib/unreliable.h"
#include "qp/qp_report.h"
#include "wire/roce.h"

enum { PAYLOAD_BYTES_MAX = 4096 };

static struct ud_qp *ud_from_qp(struct qp *qp)
{
	return container_of(qp, struct ud_qp, qp);
}

/* --- sending --- */

void ud_packet_init(
	struct packet *packet, const struct qp *qp, const struct send_wqe *wqe, struct psn psn)
{
	const struct datagram_target *target = &wqe->datagram;
	bool has_imm = wr_table[wqe->opcode].has_imm;

	packet_init(packet, has_imm ? OPCODE_UD_SEND_ONLY_IMM : OPCODE_UD_SEND_ONLY);
	packet->bth.dest_qpn = qpn_from(target->qpn);
	packet->bth.psn = psn;
	packet->bth.pkey = qp->pkey;
	packet->bth.is_solicited = (wqe->flags & SEND_SOLICITED) != 0;
	packet->deth.qkey = target->qkey & UD_QKEY_OWN ? qp->attr.qkey : target->qkey;
	packet->deth.source_qpn = qpn_from(qp->qpn);
	packet->immdt.data = wqe->imm;
	packet_set_payload(packet, NULL, wqe->total_bytes);
}

static bool is_early(struct ud_qp *ud, uint64_t now_ns)
{
	if (ud->due_ns <= now_ns + PACE_BURST_NS)
		return false;
	qp_set_deadline(&ud->qp, ud->due_ns - PACE_BURST_NS);
	return true;
}

/*
 * The fault of a request; its memory is not checked here. Adapters and rxe complete such a request
 * with an error; no verb refuses to post it.
 */
static enum fault wqe_fault(const struct send_wqe *wqe)
{
	if (wr_table[wqe->opcode].operation != OPERATION_SEND ||
		wr_table[wqe->opcode].has_invalidate)
		return FAULT_DATAGRAM_OPCODE;
	return wqe->datagram.path == DATAGRAM_PATH_DENIED ? FAULT_DATAGRAM_PD : FAULT_NONE;
}

static struct send_wqe *wqe_oldest(struct qp *qp, uint64_t now_ns)
{
	bool is_idle = qp->state != QP_RTS || qp->sq->completed == qp->sq->posted;

	return is_idle || is_early(ud_from_qp(qp), now_ns) ? NULL
							   : sq_at(qp->sq, qp->sq->completed);
}

/*
 * A datagram with a fault falls back to packets: ud_next_packet() finds the fault again, and
 * completes the request with it.
 */
static enum qp_local_result wqe_execute(
	struct qp *qp, struct send_wqe *wqe, uint64_t now_ns, enum fault *ret_fault)
{
	(void)ret_fault;
	if (wqe_fault(wqe) || !unreliable_is_local(qp, wqe))
		return QP_LOCAL_PACKETS;
	return unreliable_execute(qp, wqe, QP_LOCAL_DONE, DEADLINE_NEVER, now_ns);
}

static const struct unreliable_steps ud_steps = {.next = wqe_oldest, .execute = wqe_execute};

static size_t ud_next_packet(struct qp *qp, struct packet_run *run, uint64_t now_ns)
{
	struct ud_qp *ud = ud_from_qp(qp);
	const struct send_wqe *wqe = unreliable_next(qp, &ud_steps, now_ns);
	enum fault fault;
	struct packet packet;
	size_t bytes = 0;

	if (!wqe)
		return 0;
	fault = wqe_fault(wqe);
	if (!fault && wqe->total_bytes > qp->mtu_bytes)
		fault = FAULT_DATAGRAM_LENGTH;
	if (!fault)
		fault = message_check(qp, wqe);
	if (!fault) {
		ud_packet_init(&packet, qp, wqe, ud->next);
		bytes = message_packet_write(qp, &packet, wqe, 0, run->buffer, &fault);
	}
	if (fault) {
		qp_fail_send(qp, fault, now_ns);
		return 0;
	}
	run->path = wqe->datagram.path;
	if (wqe->datagram.rate_kbps)
		ud->due_ns = max_u64(ud->due_ns, now_ns) +
			pace_datagram_ns(wqe->datagram.rate_kbps, bytes);
	ud->next = psn_add(ud->next, 1);
	qp_complete_send(qp, FAULT_NONE, now_ns);
	return bytes;
}

static void ud_posted(struct qp *qp, uint64_t now_ns)
{
	unreliable_posted(qp, &ud_steps, now_ns);
}

/* --- receiving --- */

/*
 * Take a receive request for `bytes`. Returns COUNTER_COUNT, or the counter for a datagram that has
 * to be dropped.
 */
static enum counter receive_take(struct ud_qp *ud, uint64_t bytes, uint64_t now_ns)
{
	struct qp *qp = &ud->qp;
	enum counter reason;

	if (qp->local && !qp->srq) {
		reason = qp->local->ops->take(qp, bytes, &ud->receive, now_ns);
		ud->has_receive = reason == COUNTER_COUNT;
		return reason;
	}
	/* A request that is too short stays for the next datagram. */
	if (!ud->has_receive)
		ud->has_receive = qp_take_recv(qp, &ud->receive);
	if (!ud->has_receive)
		return COUNTER_no_receive_drops;
	return bytes > ud->receive.total_bytes ? COUNTER_resp_local_length_error : COUNTER_COUNT;
}

/* The counter for dropping a datagram; COUNTER_COUNT when the queue pair has to accept it. */
static enum counter reason_to_drop(struct ud_qp *ud, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns)
{
	const struct qp *qp = &ud->qp;
	bool is_multicast = qpn_equal(packet->bth.dest_qpn, QPN_MULTICAST);

	if (opcode_class(packet->info) != OPCODE_CLASS_UD || qp->state == QP_ERR)
		return COUNTER_bad_state_drops;
	/* A multicast address requires the multicast number, and vice versa (IBTA 10.5.2). */
	if (is_multicast != gid_is_multicast(origin->destination) ||
		gid_is_ipv4(origin->source) != gid_is_ipv4(origin->destination))
		return COUNTER_bad_address_drops;
	if (packet->deth.qkey != qp->attr.qkey) {
		qp->lane->has_bad_qkey = true;
		return COUNTER_qkey_violations;
	}
	if (packet->payload_bytes > PAYLOAD_BYTES_MAX)
		return COUNTER_resp_local_length_error;
	return receive_take(ud, GRH_BYTES + packet->payload_bytes, now_ns);
}

void ud_grh_make(
	const struct packet *packet, const struct packet_origin *origin, uint8_t to[GRH_BYTES])
{
	struct ip_header grh = {
		.traffic_class = origin->traffic_class,
		.payload_bytes =
			(uint16_t)(ROCE_UDP_BYTES + packet_bytes(packet) + ROCE_ICRC_BYTES),
		.next_header = IP_PROTOCOL_UDP,
		.hop_limit = origin->hop_limit ? origin->hop_limit : UD_HOP_LIMIT_ASSUMED,
		.sgid = *origin->source,
		.dgid = *origin->destination,
	};

	grh_encode(&grh, to);
}

static void ethernet_origin(const struct packet *packet, const struct packet_origin *origin,
	uint8_t grh[GRH_BYTES], struct cqe *cqe)
{
	ud_grh_make(packet, origin, grh);
	cqe->flags |= WC_GRH;
	cqe->service_level = gid_is_ipv4(origin->destination) ? WC_SERVICE_LEVEL_UDP_IPV4
							      : WC_SERVICE_LEVEL_UDP_IPV6;
}

/* The 40 bytes are zero when the packet had no GRH. */
static void infiniband_origin(const struct packet *packet, const struct packet_origin *origin,
	uint8_t grh[GRH_BYTES], struct cqe *cqe)
{
	const struct link_origin *link = origin->link;
	const struct ip_header header = {
		.traffic_class = origin->traffic_class,
		.flow_label = link->flow_label,
		.payload_bytes = (uint16_t)(packet_bytes(packet) + ROCE_ICRC_BYTES),
		.next_header = GRH_NEXT_HEADER_IB,
		.hop_limit = origin->hop_limit,
		.sgid = *origin->source,
		.dgid = *origin->destination,
	};

	memset(grh, 0, GRH_BYTES);
	if (link->has_grh)
		grh_encode(&header, grh);
	cqe->flags |= WC_LID | (link->has_grh ? WC_GRH : 0u);
	cqe->service_level =
		link->service_level | (uint32_t)link->path_bits << 8 | (uint32_t)link->slid << 16;
}

const struct lane_link ud_link_ethernet = {
	.port_count = 1,
	.pkey_count = 1,
	.pkey_mask = 0x7fff, /* a limited member may talk to a full one (IBTA 10.9.3) */
	.datagram_origin = ethernet_origin,
};

const struct lane_link ud_link_infiniband = {
	.port_count = UD_INFINIBAND_PORTS_MAX,
	.pkey_count = UD_INFINIBAND_PKEYS_MAX,
	.has_pkey_tables = true,
	.pkey_mask = 0, /* the port has compared the packet's P_Key with its table */
	.datagram_origin = infiniband_origin,
};

static enum mr_fault datagram_place(
	const struct ud_qp *ud, const struct packet *packet, const uint8_t grh[GRH_BYTES])
{
	const struct mr_table *mrs = ud->qp.lane->mrs;
	const struct recv_wqe *receive = &ud->receive;
	enum mr_fault fault = sge_scatter(mrs, ud->qp.recv_pd, receive->sge, receive->sge_count,
		GRH_BYTES, packet->payload_bytes, packet->payload);

	return fault ? fault
		     : sge_scatter(mrs, ud->qp.recv_pd, receive->sge, receive->sge_count, 0,
			       GRH_BYTES, grh);
}

void ud_receive_end(struct qp *qp, uint64_t wr_id, struct cqe *cqe, enum fault fault,
	bool is_solicited, uint64_t now_ns)
{
	qp_complete_recv(qp, wr_id, cqe, fault, is_solicited, now_ns);
	if (fault) { /* the receive request's memory is refused (IBTA 9.9.3) */
		qp_count(qp, COUNTER_resp_operation_errors, 1);
		if (qp->state != QP_ERR)
			qp_set_state(qp, QP_ERR, now_ns);
		return;
	}
	qp_count(qp, COUNTER_rdma_sends, 1);
	qp_count(qp, COUNTER_rcvd_bytes, cqe->byte_count - GRH_BYTES);
}

/* Put the datagram into the receive request, and complete the request. */
static void datagram_deliver(struct ud_qp *ud, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns)
{
	struct cqe cqe = {
		.opcode = WC_RECV,
		.byte_count = GRH_BYTES + packet->payload_bytes,
		.source_qpn = packet->deth.source_qpn.value,
	};
	uint8_t grh[GRH_BYTES];
	enum fault fault;

	ud->qp.lane->link->datagram_origin(packet, origin, grh, &cqe);
	if (opcode_has_immediate(packet->info)) {
		cqe.flags |= WC_WITH_IMM;
		cqe.imm = packet->immdt.data;
	}
	fault = message_local_fault(datagram_place(ud, packet, grh));
	ud->has_receive = false;
	ud_receive_end(&ud->qp, ud->receive.wr_id, &cqe, fault, packet->bth.is_solicited, now_ns);
}

/* Report why the datagram is dropped. This repeats the checks of reason_to_drop(). */
static void drop_report(struct ud_qp *ud, const struct packet *packet,
	const struct packet_origin *origin, enum counter counter, uint64_t now_ns)
{
	struct qp *qp = &ud->qp;
	enum reason reason = REASON_NONE;

	if (counter == COUNTER_no_receive_drops) {
		qp_fact_receives(qp);
		reason = REASON_DROPPED_NO_RECEIVE;
	} else if (counter == COUNTER_qkey_violations) {
		lane_fact(qp->lane, FACT_qkey, packet->deth.qkey);
		lane_fact(qp->lane, FACT_own_qkey, qp->attr.qkey);
		reason = REASON_DROPPED_QKEY;
	} else if (counter == COUNTER_resp_local_length_error &&
		packet->payload_bytes <= PAYLOAD_BYTES_MAX) {
		lane_fact(qp->lane, FACT_bytes, GRH_BYTES + packet->payload_bytes);
		lane_fact(qp->lane, FACT_room, ud->receive.total_bytes);
		reason = REASON_DROPPED_TOO_LONG;
	}
	if (reason != REASON_NONE)
		qp_report_drop(qp, reason, packet->deth.source_qpn.value, origin->source, now_ns);
}

static enum packet_verdict ud_receive(struct qp *qp, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns)
{
	struct ud_qp *ud = ud_from_qp(qp);
	enum counter reason = reason_to_drop(ud, packet, origin, now_ns);

	if (qp->local)
		qp->local->ops->arrived(qp, packet->bth.psn, false);
	if (reason != COUNTER_COUNT) {
		qp_count(qp, reason, 1);
		if (qp_has_reports(qp))
			drop_report(ud, packet, origin, reason, now_ns);
		return PACKET_DROPPED;
	}
	qp_count(qp, COUNTER_rcvd_pkts, 1);
	datagram_deliver(ud, packet, origin, now_ns);
	return PACKET_TAKEN;
}

/* --- life --- */

static void ud_state_changed(struct qp *qp, enum qp_state old, uint64_t now_ns)
{
	struct ud_qp *ud = ud_from_qp(qp);
	struct cqe cqe = {.opcode = WC_RECV};

	qp_set_deadline(qp, DEADLINE_NEVER);
	if (qp->state == QP_RTS && old == QP_RTR)
		ud->next = psn_from(qp->attr.sq_psn);
	else if (qp->state == QP_RTS)
		ud_posted(qp, now_ns); /* send the requests that were posted in SQD */
	if (qp->state == QP_SQD)
		qp_sq_drained(qp); /* no datagram is ever half sent */
	if (qp->state == QP_RESET) {
		ud->has_receive = false;
		ud->due_ns = 0;
	}
	if (qp->state == QP_ERR && ud->has_receive) {
		ud->has_receive = false;
		qp_complete_recv(qp, ud->receive.wr_id, &cqe, FAULT_FLUSHED, false, now_ns);
	}
}

static void ud_check(const struct qp *qp)
{
	assert(qp->sq->posted - qp->sq->completed <= qp->sq->depth);
	assert(qp->state == QP_RTS || qp->state == QP_SQD || qp->sq->completed == qp->sq->posted);
	assert(qp->deadline.position == 0 || qp->state == QP_RTS);
}

static_assert(offsetof(struct ud_qp, qp) == 0, "the engine frees it by its queue pair");

const struct qp_transport ud_transport = {
	.object_bytes = sizeof(struct ud_qp),
	.receive = ud_receive,
	.next_packet = ud_next_packet,
	.expire = unreliable_expire,
	.posted = ud_posted,
	.state_changed = ud_state_changed,
	.check = ud_check,
};

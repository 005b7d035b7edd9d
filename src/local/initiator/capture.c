/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/initiator/capture.h"

#include <string.h>

#include "ib/message.h"
#include "memory/copy.h"
#include "wire/credit.h"

static enum opcode_class class_of(const struct qp *qp)
{
	if (qp->type == QP_TYPE_UC)
		return OPCODE_CLASS_UC;
	return qp->type == QP_TYPE_XRC_SEND ? OPCODE_CLASS_XRC : OPCODE_CLASS_RC;
}

/*
 * Fill in the addresses and ports of a packet, which is a request to the peer or the peer's answer.
 * The fields are stored where they stay: to copy a struct that was just written by fields makes the
 * processor wait until these stores have left its store buffer.
 */
static inline __attribute__((always_inline)) void ends_fill(
	const struct local_qp *local, bool is_request, struct captured *about)
{
	const struct qp *qp = local->qp;
	const struct qp_path *path = &qp->attr.path;

	about->time_ns = local->captured.now_ns;
	about->source = is_request ? path->local : path->remote;
	about->destination = is_request ? path->remote : path->local;
	about->ifindex = path->ifindex;
	about->qpn = qp->qpn;
	about->flow_label = path->flow_label;
	about->packet_bytes = 0;
	about->captured_bytes = 0;
	about->source_port = captured_port(is_request ? qp->qpn : qp->attr.dest_qpn);
	about->traffic_class = roce_traffic_class(path->traffic_class);
	about->hop_limit = path->hop_limit;
	about->is_sent = is_request;
	about->answer = 0;
}

/*
 * Copy the packet's payload, which begins at `offset` of the request's bytes, and its pad. Returns
 * false when the payload is not readable.
 */
static bool payload_get(const struct qp *qp, const struct packet *packet,
	const struct send_wqe *wqe, uint64_t offset, uint8_t *to)
{
	memset(to + packet->payload_bytes, 0, packet->bth.pad_bytes);
	if (wqe->flags & SEND_INLINE) {
		memcpy(to, wqe->inline_bytes + offset, packet->payload_bytes);
		return true;
	}
	return !packet->payload_bytes ||
		!sge_gather(qp->lane->mrs, qp->pd, wqe->sge, wqe->sge_count, offset,
			packet->payload_bytes, to);
}

/*
 * Write the packet's headers and payload to `to`. Returns how many bytes are there: all of the
 * packet, or its headers alone.
 */
static uint32_t packet_write(const struct qp *qp, const struct packet *packet,
	const struct send_wqe *wqe, uint64_t offset, uint8_t *to)
{
	uint32_t count = (uint32_t)packet_encode_headers(packet, to);
	uint32_t snap_bytes =
		atomic_load_explicit(&qp->lane->capture_public->snap_bytes, memory_order_relaxed);

	if (snap_bytes != CAPTURE_HEADERS && snap_bytes > count &&
		payload_get(qp, packet, wqe, offset, to + count))
		count = (uint32_t)packet_bytes(packet);
	return count;
}

void local_capture_packet(const struct qp *qp, struct captured *about, const struct packet *packet,
	const struct send_wqe *wqe, uint64_t offset)
{
	uint8_t bytes[CAPTURED_BYTES_MAX];
	uint32_t count = packet_write(qp, packet, wqe, offset, bytes);

	about->packet_bytes = (uint32_t)packet_bytes(packet);
	capture_put(qp->lane->capture, about, bytes, count);
}

static void packets_show(const struct local_qp *local, const struct packet *packet,
	const struct send_wqe *wqe, uint64_t offset, bool is_request)
{
	struct captured about;

	ends_fill(local, is_request, &about);
	local_capture_packet(local->qp, &about, packet, wqe, offset);
}

/*
 * Initialize a request packet with the next PSN. The request takes `packets` PSNs; only a READ
 * takes more than one.
 */
static void request_init(
	struct local_qp *local, struct packet *packet, enum opcode opcode, uint32_t packets)
{
	const struct qp *qp = local->qp;

	packet_init(packet, (enum opcode)((uint32_t)class_of(qp) | (uint32_t)opcode));
	packet->bth.dest_qpn = qpn_from(qp->attr.dest_qpn);
	packet->bth.ack_requested = true;
	packet->bth.psn = local->captured.next;
	local->captured.next = psn_add(local->captured.next, packets);
}

/* Initialize a packet of the peer's answer. */
static void answer_init(
	const struct local_qp *local, struct packet *packet, enum opcode opcode, struct psn psn)
{
	packet_init(packet, (enum opcode)((uint32_t)class_of(local->qp) | (uint32_t)opcode));
	packet->bth.dest_qpn = qpn_from(local->qp->qpn);
	packet->bth.psn = psn;
	packet->aeth = (struct aeth){
		.kind = AETH_ACK, .value = CREDIT_CODE_UNLIMITED, .msn = local->captured.msn};
}

static void answer_show(struct local_qp *local, enum opcode opcode, uint64_t original,
	const struct send_wqe *wqe, struct psn psn)
{
	struct packet packet;

	answer_init(local, &packet, opcode, psn);
	packet.atomicacketh.original = original;
	packets_show(local, &packet, wqe, 0, false);
}

/* Capture a packet of a request; `answer` as in struct captured. */
static void request_show(const struct local_qp *local, const struct packet *packet,
	const struct send_wqe *wqe, uint64_t offset, uint32_t answer)
{
	const struct qp *qp = local->qp;
	struct capture *capture = qp->lane->capture;
	struct captured *place = capture_place(capture, (uint32_t)packet_bytes(packet));
	struct captured about;
	uint32_t count;

	ends_fill(local, true, place ? place : &about);
	(place ? place : &about)->answer = answer;
	if (!place) {
		local_capture_packet(qp, &about, packet, wqe, offset);
		return;
	}
	place->packet_bytes = (uint32_t)packet_bytes(packet);
	count = packet_write(qp, packet, wqe, offset, (uint8_t *)(place + 1));
	capture_put_placed(capture, place, count, local->captured.now_ns);
}

/* Capture a SEND or WRITE. */
static void message_show(struct local_qp *local, const struct send_wqe *wqe)
{
	const struct qp *qp = local->qp;
	uint32_t count = message_packet_count(qp, wqe->total_bytes);
	struct packet packet;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t answer = 0;

		message_packet_init_of(&packet, qp, class_of(qp), wqe, i, count);
		packet.xrceth.srqn = wqe->srqn;
		packet.bth.psn = psn_add(local->captured.next, i);
		packet.bth.ack_requested =
			qp->type != QP_TYPE_UC && opcode_ends_message(packet.info);
		if (packet.bth.ack_requested)
			answer = CAPTURED_ACKED | local->captured.msn.value;
		request_show(local, &packet, wqe, (uint64_t)i * qp->mtu_bytes, answer);
	}
	local->captured.next = psn_add(local->captured.next, count);
}

static void read_show(struct local_qp *local, const struct send_wqe *wqe)
{
	uint32_t mtu_bytes = local->qp->mtu_bytes;
	uint32_t count = message_packet_count(local->qp, wqe->total_bytes);
	struct psn first = local->captured.next;
	struct packet packet;

	request_init(local, &packet, OPCODE_RC_READ_REQUEST, count);
	packet.bth.ack_requested = false;
	packet.xrceth.srqn = wqe->srqn;
	packet.reth = (struct reth){wqe->remote_address, wqe->rkey, wqe->total_bytes};
	packets_show(local, &packet, wqe, 0, true);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t offset = (uint64_t)i * mtu_bytes;

		answer_init(local, &packet, message_response_opcode(i, count), psn_add(first, i));
		packet_set_payload(
			&packet, NULL, (uint32_t)min_u64(mtu_bytes, wqe->total_bytes - offset));
		packets_show(local, &packet, wqe, offset, false);
	}
}

/* Capture an atomic. The original value is already in the request's scatter list. */
static void atomic_show(struct local_qp *local, const struct send_wqe *wqe)
{
	const struct qp *qp = local->qp;
	bool is_swap = wqe->opcode == WR_ATOMIC_CMP_AND_SWP;
	struct psn psn = local->captured.next;
	struct packet packet;
	uint64_t original = 0;

	request_init(local, &packet, is_swap ? OPCODE_RC_COMPARE_SWAP : OPCODE_RC_FETCH_ADD, 1);
	packet.bth.ack_requested = false;
	packet.xrceth.srqn = wqe->srqn;
	packet.atomiceth = (struct atomiceth){
		.va = wqe->remote_address,
		.rkey = wqe->rkey,
		.swap_add = is_swap ? wqe->swap : wqe->compare_add,
		.compare = is_swap ? wqe->compare_add : 0,
	};
	packets_show(local, &packet, wqe, 0, true);
	(void)sge_gather(qp->lane->mrs, qp->pd, wqe->sge, wqe->sge_count, 0, sizeof(original),
		(uint8_t *)&original);
	answer_show(local, OPCODE_RC_ATOMIC_ACKNOWLEDGE, original, wqe, psn);
}

/* Capture an ATOMIC WRITE or FLUSH (IBTA annex A19). */
static void annex_show(struct local_qp *local, const struct send_wqe *wqe)
{
	bool is_flush = wqe->opcode == WR_FLUSH;
	struct psn psn = local->captured.next;
	struct packet packet;

	request_init(local, &packet, is_flush ? OPCODE_RC_FLUSH : OPCODE_RC_ATOMIC_WRITE, 1);
	packet.xrceth.srqn = wqe->srqn;
	packet.reth = (struct reth){
		wqe->remote_address, wqe->rkey, is_flush ? wqe->flush.bytes : wqe->total_bytes};
	if (is_flush)
		packet.feth = (struct feth){wqe->flush.placement, wqe->flush.selectivity};
	else
		packet_set_payload(&packet, NULL, wqe->total_bytes);
	packets_show(local, &packet, wqe, 0, true);
	answer_show(local, OPCODE_RC_READ_RESPONSE_ONLY, 0, wqe, psn);
}

/* If the ring has no room, drop all packets of the request, and advance by their PSNs. */
static bool request_drop(struct local_qp *local, const struct send_wqe *wqe)
{
	struct local_captured *captured = &local->captured;
	const struct qp *qp = local->qp;
	enum opcode_operation operation = wr_table[wqe->opcode].operation;
	bool has_payload = operation == OPERATION_SEND || operation == OPERATION_WRITE ||
		operation == OPERATION_READ;
	uint32_t count = has_payload ? message_packet_count(qp, wqe->total_bytes) : 1;

	if (!capture_drops(qp->lane->capture, count + (qp->type != QP_TYPE_UC), captured->now_ns))
		return false;
	captured->next = psn_add(captured->next, count);
	return true;
}

void local_capture(struct local_qp *local, const struct send_wqe *wqe)
{
	struct local_captured *captured = &local->captured;

	if (!captured->has_begun) {
		captured->has_begun = true;
		captured->next = psn_from(local->qp->attr.sq_psn);
	}
	captured->now_ns = capture_now_ns(local->qp->lane->capture);
	captured->msn = msn_add(captured->msn, 1);
	if (request_drop(local, wqe))
		return;
	switch ((int)wr_table[wqe->opcode].operation) {
	case OPERATION_SEND:
	case OPERATION_WRITE:
		message_show(local, wqe);
		break;
	case OPERATION_READ:
		read_show(local, wqe);
		break;
	case OPERATION_ATOMIC_WRITE:
	case OPERATION_FLUSH:
		annex_show(local, wqe);
		break;
	default:
		atomic_show(local, wqe);
		break;
	}
}

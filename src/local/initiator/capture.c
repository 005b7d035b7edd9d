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
 * The function stores each field at its final place. If it filled a local struct and copied that,
 * the CPU would stall until these stores have left its store buffer.
 */
static inline __attribute__((always_inline)) void ends_fill(
	const struct local_initiator *local, bool is_request, struct captured *about)
{
	const struct qp *qp = local->qp;
	const struct qp_path *path = &qp->attr.path;

	about->model = 0;
	about->packet_bytes = 0;
	about->time_ns = local->captured.now_ns;
	about->source = is_request ? path->local : path->remote;
	about->destination = is_request ? path->remote : path->local;
	about->ifindex = path->ifindex;
	about->qpn = qp->qpn;
	about->flow_label = path->flow_label;
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

/* How to show a packet. */
struct packet_role {
	bool is_request;
	uint32_t answer; /* as in struct captured */
	struct capture_model *model; /* the packet becomes this model; NULL: no model */
};

static void packet_show(const struct local_initiator *local, const struct packet *packet,
	const struct send_wqe *wqe, uint64_t offset, struct packet_role role)
{
	const struct qp *qp = local->qp;
	struct capture *capture = qp->lane->capture;
	struct captured *place = capture_place(capture, (uint32_t)packet_bytes(packet));
	struct captured about;
	uint32_t count;

	ends_fill(local, role.is_request, place ? place : &about);
	(place ? place : &about)->answer = role.answer;
	/* The last packet before the ring's end is not a model, because it may be dropped. */
	if (!place) {
		local_capture_packet(qp, &about, packet, wqe, offset);
		return;
	}
	if (role.model)
		place->model = capture_model_begin(capture, role.model);
	place->packet_bytes = (uint32_t)packet_bytes(packet);
	count = packet_write(qp, packet, wqe, offset, (uint8_t *)(place + 1));
	capture_put_placed(capture, place, count, local->captured.now_ns);
}

static void request_show(struct local_initiator *local, const struct packet *packet,
	const struct send_wqe *wqe, struct capture_model *model)
{
	packet_show(local, packet, wqe, 0, (struct packet_role){true, 0, model});
}

/*
 * Initialize a request packet with the next PSN. The request takes `packets` PSNs; only a READ
 * takes more than one.
 */
static void request_init(
	struct local_initiator *local, struct packet *packet, enum opcode opcode, uint32_t packets)
{
	const struct qp *qp = local->qp;

	packet_init(packet, (enum opcode)((uint32_t)class_of(qp) | (uint32_t)opcode));
	packet->bth.dest_qpn = qpn_from(qp->attr.dest_qpn);
	packet->bth.ack_requested = true;
	packet->bth.psn = local->captured.next;
	local->captured.next = psn_add(local->captured.next, packets);
}

/* Initialize a packet of the peer's answer. */
static void answer_init(const struct local_initiator *local, struct packet *packet,
	enum opcode opcode, struct psn psn)
{
	packet_init(packet, (enum opcode)((uint32_t)class_of(local->qp) | (uint32_t)opcode));
	packet->bth.dest_qpn = qpn_from(local->qp->qpn);
	packet->bth.psn = psn;
	packet->aeth = (struct aeth){
		.kind = AETH_ACK, .value = CREDIT_CODE_UNLIMITED, .msn = local->captured.msn};
}

static void answer_show(struct local_initiator *local, enum opcode opcode, uint64_t original,
	const struct send_wqe *wqe, struct psn psn)
{
	struct packet packet;

	answer_init(local, &packet, opcode, psn);
	packet.atomicacketh.original = original;
	packet_show(local, &packet, wqe, 0, (struct packet_role){false, 0, NULL});
}

/* --- models --- */

/*
 * Requests with the same key have the same packets, except for the fields that a repetition
 * records.
 */
static inline uint64_t model_key(const struct qp *qp, const struct send_wqe *wqe)
{
	return (uint64_t)qp->attr.path.id << 32 | (uint64_t)wqe->opcode << 8 |
		(uint64_t)qp->attr.migration << 1 | ((wqe->flags & SEND_SOLICITED) != 0);
}

/* May the packets of the request, which is one packet long, repeat models? */
static inline bool has_models(const struct local_initiator *local, const struct send_wqe *wqe)
{
	const struct local_captured *captured = &local->captured;
	const struct capture *capture = local->qp->lane->capture;

	return captured->model_key == model_key(local->qp, wqe) &&
		capture_model_is_known(capture, &captured->request) &&
		(wqe->opcode != WR_RDMA_READ ||
			capture_model_is_known(capture, &captured->response));
}

/*
 * Begin the models of a request, in place of the models of another key. Returns whether the packets
 * of the request become models.
 */
static bool models_begin(struct local_initiator *local, const struct send_wqe *wqe)
{
	struct local_captured *captured = &local->captured;
	const struct qp *qp = local->qp;

	if ((qp->type != QP_TYPE_RC && qp->type != QP_TYPE_UC) ||
		wqe->total_bytes > qp->mtu_bytes || !capture_has_headers(qp->lane->capture) ||
		(wqe->opcode != WR_RDMA_WRITE && wqe->opcode != WR_SEND &&
			wqe->opcode != WR_RDMA_READ) ||
		has_models(local, wqe))
		return false;
	captured->model_key = model_key(qp, wqe);
	captured->request.session = 0;
	captured->response.session = 0;
	return true;
}

/* --- requests --- */

/* Capture a SEND or WRITE. */
static void message_show(struct local_initiator *local, const struct send_wqe *wqe)
{
	const struct qp *qp = local->qp;
	uint32_t count = message_packet_count(qp, wqe->total_bytes);
	struct capture_model *model = models_begin(local, wqe) ? &local->captured.request : NULL;
	struct packet packet;

	for (uint32_t i = 0; i < count; i++) {
		struct packet_role role = {true, 0, model};

		message_packet_init_of(&packet, qp, class_of(qp), wqe, i, count);
		packet.xrceth.srqn = wqe->srqn;
		packet.bth.psn = psn_add(local->captured.next, i);
		packet.bth.ack_requested =
			qp->type != QP_TYPE_UC && opcode_ends_message(packet.info);
		if (packet.bth.ack_requested)
			role.answer = CAPTURED_ACKED | local->captured.msn.value;
		packet_show(local, &packet, wqe, (uint64_t)i * qp->mtu_bytes, role);
	}
	local->captured.next = psn_add(local->captured.next, count);
}

/* Capture packet `index` of the responses to a READ, whose first PSN is `first`. */
static void response_show(struct local_initiator *local, const struct send_wqe *wqe,
	struct psn first, uint32_t index, struct capture_model *model)
{
	uint32_t mtu_bytes = local->qp->mtu_bytes;
	uint32_t count = message_packet_count(local->qp, wqe->total_bytes);
	uint64_t offset = (uint64_t)index * mtu_bytes;
	struct packet packet;

	answer_init(local, &packet, message_response_opcode(index, count), psn_add(first, index));
	packet_set_payload(&packet, NULL, (uint32_t)min_u64(mtu_bytes, wqe->total_bytes - offset));
	packet_show(local, &packet, wqe, offset, (struct packet_role){false, 0, model});
}

static void read_show(struct local_initiator *local, const struct send_wqe *wqe)
{
	uint32_t count = message_packet_count(local->qp, wqe->total_bytes);
	struct psn first = local->captured.next;
	bool has_models = models_begin(local, wqe);
	struct packet packet;

	request_init(local, &packet, OPCODE_RC_READ_REQUEST, count);
	packet.bth.ack_requested = false;
	packet.xrceth.srqn = wqe->srqn;
	packet.reth = (struct reth){wqe->remote_address, wqe->rkey, wqe->total_bytes};
	request_show(local, &packet, wqe, has_models ? &local->captured.request : NULL);
	for (uint32_t i = 0; i < count; i++)
		response_show(local, wqe, first, i, has_models ? &local->captured.response : NULL);
}

/* Capture an atomic. The original value is already in the request's scatter list. */
static void atomic_show(struct local_initiator *local, const struct send_wqe *wqe)
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
	request_show(local, &packet, wqe, NULL);
	(void)sge_gather(qp->lane->mrs, qp->pd, wqe->sge, wqe->sge_count, 0, sizeof(original),
		(uint8_t *)&original);
	answer_show(local, OPCODE_RC_ATOMIC_ACKNOWLEDGE, original, wqe, psn);
}

/* Capture an ATOMIC WRITE or FLUSH (IBTA annex A19). */
static void annex_show(struct local_initiator *local, const struct send_wqe *wqe)
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
	request_show(local, &packet, wqe, NULL);
	answer_show(local, OPCODE_RC_READ_RESPONSE_ONLY, 0, wqe, psn);
}

/* --- repetitions --- */

/*
 * Record a packet that repeats `model`, with the first `count` bytes of its payload. Returns false
 * if the ring has no place for it.
 */
static inline bool repetition_put(const struct local_initiator *local, struct capture_model *model,
	const struct send_wqe *wqe, const uint8_t *payload, uint32_t count)
{
	const struct local_captured *captured = &local->captured;
	struct capture *capture = local->qp->lane->capture;
	const struct captured_repeat repeat = {
		.psn = CAPTURED_REPEAT | captured->next.value,
		.msn = model->count % CAPTURED_MODELS << U24_BITS | captured->msn.value,
		.time_ns = captured->now_ns,
		.va = wqe->remote_address,
		.rkey = wqe->rkey,
		.bytes = wqe->total_bytes,
	};
	struct captured_step step;
	bool is_step = captured_step_init(&step, &model->last, &repeat);
	uint32_t head_bytes = is_step ? sizeof(step) : sizeof(repeat);
	uint8_t *place = capture_repeat_place(capture, head_bytes + count);

	if (!place)
		return false;
	if (is_step)
		memcpy(place, &step, sizeof(step));
	else
		memcpy(place, &repeat, sizeof(repeat));
	if (count)
		copy_place_any(place + head_bytes, payload, count);
	capture_repeat_put(capture, place, head_bytes + count);
	model->last = repeat;
	return true;
}

/* The payload of the request, if it is in one piece; else NULL. */
static inline const uint8_t *payload_piece(
	const struct local_initiator *local, const struct send_wqe *wqe)
{
	const struct sge *sge = wqe->sge;

	if (wqe->flags & SEND_INLINE)
		return wqe->inline_bytes;
	return wqe->sge_count == 1
		? mr_cached_find(&local->own, sge->lkey, 0, sge->address, wqe->total_bytes)
		: NULL;
}

/* The headers of the packet that has the payload of the request. */
static inline uint32_t carrier_header_bytes(const struct send_wqe *wqe)
{
	switch ((int)wqe->opcode) {
	case WR_RDMA_READ:
		return BTH_BYTES + AETH_BYTES;
	case WR_RDMA_WRITE:
		return BTH_BYTES + RETH_BYTES;
	default:
		return BTH_BYTES;
	}
}

/*
 * Record the request, whose packets have models, as repetitions. Returns false, and records
 * nothing, if that is not possible.
 */
static bool repetition_show(struct local_initiator *local, const struct send_wqe *wqe)
{
	struct local_captured *captured = &local->captured;
	struct capture *capture = local->qp->lane->capture;
	bool is_read = wqe->opcode == WR_RDMA_READ;
	const uint8_t *payload;
	uint32_t count;

	if (wqe->total_bytes > local->qp->mtu_bytes || !has_models(local, wqe))
		return false;
	count = capture_payload_bytes(capture, carrier_header_bytes(wqe), wqe->total_bytes);
	payload = count ? payload_piece(local, wqe) : NULL;
	if (count && !payload)
		return false;
	if (!is_read) {
		if (!repetition_put(local, &captured->request, wqe, payload, count))
			return false;
	} else {
		if (!repetition_put(local, &captured->request, wqe, NULL, 0))
			return false;
		if (!repetition_put(local, &captured->response, wqe, payload, count))
			response_show(local, wqe, captured->next, 0, NULL);
	}
	captured->next = psn_add(captured->next, 1);
	capture_reader_look(capture, captured->now_ns);
	return true;
}

/* If the ring has no room, drop all packets of the request, and advance by their PSNs. */
static bool request_drop(struct local_initiator *local, const struct send_wqe *wqe)
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

static void request_capture(struct local_initiator *local, const struct send_wqe *wqe)
{
	local->captured.msn = msn_add(local->captured.msn, 1);
	if (repetition_show(local, wqe) || request_drop(local, wqe))
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

static void capture_begin(struct local_initiator *local)
{
	struct local_captured *captured = &local->captured;

	if (!captured->has_begun) {
		captured->has_begun = true;
		captured->next = psn_from(local->qp->attr.sq_psn);
	}
	captured->now_ns = capture_now_ns(local->qp->lane->capture);
}

void local_capture(struct local_initiator *local, const struct send_wqe *wqe)
{
	capture_begin(local);
	request_capture(local, wqe);
}

void local_capture_batch(struct local_initiator *local, uint32_t count)
{
	struct send_queue *sq = local->qp->sq;

	capture_begin(local);
	for (uint32_t i = 0; i < count; i++)
		request_capture(local, sq_at(sq, sq->completed + i));
}

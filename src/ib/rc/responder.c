/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder: the peer's requests (IBTA 9.7.4, 9.7.5.2).
 *
 * Each request passes the checks in the specification's order: PSN, sequence of opcodes, operation
 * supported and allowed, length, receive request available, key and bounds. Only then anything
 * changes. A refused request leaves memory and queues as they were and owes a NAK.
 */
#include <string.h>

#include "ib/rc/rc.h"

/*
 * What is wrong with a request; each row of the switch in refuse() says what the peer and the user
 * hear.
 */
enum refusal {
	ACCEPTED,
	REFUSED_INVALID, /* malformed, out of place, unsupported */
	REFUSED_TOO_LONG, /* longer than the receive request */
	REFUSED_ACCESS, /* remote key, bounds or right */
	REFUSED_OPERATIONAL, /* the receive request itself is bad */
	REFUSED_NOT_READY, /* no receive request */
};

void rc_responder_start(struct rc_qp *rc)
{
	memset(&rc->responder, 0, sizeof(rc->responder));
	rc->responder.expected = psn_from(rc->qp.attr.rq_psn);
}

/* --- refusing --- */

/*
 * A receive request that was taken for the message in progress completes with `fault`, if there is
 * one.
 */
static void abandon_receive(struct rc_qp *rc, enum fault fault, uint64_t now_ns)
{
	struct rc_responder *responder = &rc->responder;

	if (responder->has_receive) {
		struct cqe cqe = {.opcode = WC_RECV};

		responder->has_receive = false;
		qp_complete_recv(&rc->qp, responder->receive.wr_id, &cqe, fault, false, now_ns);
	}
}

/*
 * A fatal NAK: the peer hears `code`, this queue pair goes to the error state (IBTA 9.9.3,
 * responder class C).
 */
static void fail(struct rc_qp *rc, enum aeth_nak code, enum fault receive_fault, uint32_t news,
	uint64_t now_ns)
{
	rc_response_owe_nak(rc, AETH_NAK, (uint8_t)code);
	rc->responder.is_failed = true;
	abandon_receive(rc, receive_fault, now_ns);
	if (news)
		signal_raise(&rc->qp.lane->signals, &rc->qp.signal, news);
	if (rc->qp.state != QP_ERR)
		qp_set_state(&rc->qp, QP_ERR, now_ns);
}

static void refuse(struct rc_qp *rc, enum refusal refusal, enum fault local_fault, uint64_t now_ns)
{
	switch (refusal) {
	case ACCEPTED:
		break;
	case REFUSED_INVALID:
		qp_count(&rc->qp, COUNTER_resp_invalid_request, 1);
		fail(rc, AETH_NAK_INVALID_REQUEST, FAULT_PEER_PROTOCOL, SIGNAL_QP_REQUEST, now_ns);
		break;
	case REFUSED_TOO_LONG:
		qp_count(&rc->qp, COUNTER_resp_local_length_error, 1);
		fail(rc, AETH_NAK_INVALID_REQUEST, FAULT_RECEIVE_TOO_SHORT, 0, now_ns);
		break;
	case REFUSED_ACCESS:
		qp_count(&rc->qp, COUNTER_resp_remote_access_errors, 1);
		fail(rc, AETH_NAK_REMOTE_ACCESS, FAULT_PEER_PROTOCOL, SIGNAL_QP_ACCESS, now_ns);
		break;
	case REFUSED_OPERATIONAL:
		qp_count(&rc->qp, COUNTER_resp_operation_errors, 1);
		fail(rc, AETH_NAK_REMOTE_OPERATIONAL, local_fault, 0, now_ns);
		break;
	case REFUSED_NOT_READY:
		qp_count(&rc->qp, COUNTER_rnr_nak_sent, 1);
		rc_response_owe_nak(rc, AETH_RNR_NAK, (uint8_t)rc->qp.attr.min_rnr_timer);
		break;
	}
}

/* --- SEND --- */

static void receive_complete(struct rc_qp *rc, const struct packet *packet, uint32_t opcode,
	uint64_t bytes, uint64_t now_ns)
{
	struct rc_responder *responder = &rc->responder;
	struct cqe cqe = {.opcode = opcode, .byte_count = (uint32_t)bytes};

	if (opcode_has_immediate(packet->info)) {
		cqe.flags |= WC_WITH_IMM;
		cqe.imm = packet->immdt.data;
	}
	responder->has_receive = false;
	qp_complete_recv(&rc->qp, responder->receive.wr_id, &cqe, FAULT_NONE,
		packet->bth.is_solicited, now_ns);
}

static enum refusal send_execute(
	struct rc_qp *rc, const struct packet *packet, enum fault *ret_fault, uint64_t now_ns)
{
	struct rc_responder *responder = &rc->responder;
	struct recv_wqe *receive = &responder->receive;
	enum mr_fault fault;

	if (opcode_has_invalidate(packet->info))
		return REFUSED_INVALID; /* remote invalidation belongs to memory windows */
	if (!responder->has_receive) {
		if (!rq_take(rc->qp.rq, receive))
			return REFUSED_NOT_READY;
		responder->has_receive = true;
		responder->placed_bytes = 0;
	}
	if (packet->payload_bytes > receive->total_bytes - responder->placed_bytes)
		return REFUSED_TOO_LONG;
	fault = sge_scatter(rc->qp.lane->mrs, rc->qp.pd, receive->sge, receive->sge_count,
		responder->placed_bytes, packet->payload_bytes, packet->payload);
	if (fault) {
		*ret_fault = rc_local_fault(fault);
		return REFUSED_OPERATIONAL;
	}
	responder->placed_bytes += packet->payload_bytes;
	responder->message = RC_MESSAGE_SEND;
	if (opcode_ends_message(packet->info)) {
		receive_complete(rc, packet, WC_RECV, responder->placed_bytes, now_ns);
		qp_count(&rc->qp, COUNTER_rdma_sends, 1);
	}
	return ACCEPTED;
}

/* --- WRITE --- */

/* The first packet names the whole range; it is checked at once, and again packet by packet. */
static enum refusal write_begin(
	struct rc_qp *rc, const struct packet *packet, struct reth *ret_write)
{
	const struct reth *reth = &packet->reth;
	uint8_t *pointer;

	if (!(rc->qp.attr.access & MR_REMOTE_WRITE))
		return REFUSED_ACCESS;
	if (reth->dma_bytes > MESSAGE_BYTES_MAX)
		return REFUSED_INVALID;
	if (reth->dma_bytes &&
		mr_resolve(rc->qp.lane->mrs, reth->rkey, rc->qp.pd, MR_REMOTE_WRITE, reth->va,
			reth->dma_bytes, &pointer))
		return REFUSED_ACCESS;
	*ret_write = *reth;
	return ACCEPTED;
}

/* Do the bytes of this packet fit what is left of the message (IBTA C9-67 to C9-69)? */
static bool write_length_fits(const struct packet *packet, uint32_t left_bytes)
{
	if (opcode_ends_message(packet->info))
		return packet->payload_bytes == left_bytes;
	return packet->payload_bytes < left_bytes;
}

static enum refusal write_execute(struct rc_qp *rc, const struct packet *packet, uint64_t now_ns)
{
	struct rc_responder *responder = &rc->responder;
	struct reth write = responder->write;
	bool takes_receive = opcode_has_immediate(packet->info);
	uint8_t *to = NULL;

	if (opcode_begins_message(packet->info)) {
		enum refusal refusal = write_begin(rc, packet, &write);

		if (refusal)
			return refusal;
	}
	if (!write_length_fits(packet, write.dma_bytes))
		return REFUSED_INVALID;
	if (takes_receive && !rq_count(rc->qp.rq))
		return REFUSED_NOT_READY;
	if (packet->payload_bytes &&
		mr_resolve(rc->qp.lane->mrs, write.rkey, rc->qp.pd, MR_REMOTE_WRITE, write.va,
			packet->payload_bytes, &to))
		return REFUSED_ACCESS;
	if (takes_receive && !rq_take(rc->qp.rq, &responder->receive))
		return REFUSED_NOT_READY;

	if (packet->payload_bytes)
		copy_place(to, packet->payload, packet->payload_bytes);
	if (opcode_begins_message(packet->info))
		responder->write_bytes = write.dma_bytes;
	write.va += packet->payload_bytes;
	write.dma_bytes -= packet->payload_bytes;
	responder->write = write;
	responder->message = RC_MESSAGE_WRITE;
	if (takes_receive)
		receive_complete(rc, packet, WC_RECV_RDMA_WITH_IMM, responder->write_bytes, now_ns);
	if (opcode_ends_message(packet->info))
		qp_count(&rc->qp, COUNTER_rdma_writes, 1);
	return ACCEPTED;
}

/* --- READ and atomics --- */

/*
 * The next slot of the ring of READs and atomics, as large as max_dest_rd_atomic. If it was never
 * answered, the peer has more outstanding than it was told it may (IBTA 9.7.4.1.4). An answer that
 * is owed once more, to a duplicate, is not needed by a peer that has moved on: it is dropped.
 */
static struct rc_resource *resource_next(struct rc_qp *rc)
{
	struct rc_responder *responder = &rc->responder;
	struct rc_resource *resource;

	if (!rc->qp.attr.max_dest_rd_atomic)
		return NULL;
	resource = &responder->resource[responder->resource_head];
	if (resource->is_owed && !resource->was_answered)
		return NULL;
	return resource;
}

/* Overwrite the slot that resource_next() found. */
static void resource_take(
	struct rc_qp *rc, struct rc_resource *resource, const struct rc_resource *request)
{
	struct rc_responder *responder = &rc->responder;

	rc_response_settle(rc, resource);
	*resource = *request;
	rc_response_owe(rc, resource, resource->first, resource->end);
	responder->resource_head = (responder->resource_head + 1) % rc->qp.attr.max_dest_rd_atomic;
}

static enum refusal read_execute(struct rc_qp *rc, const struct packet *packet)
{
	struct rc_responder *responder = &rc->responder;
	const struct reth *reth = &packet->reth;
	struct rc_resource *resource = resource_next(rc);
	uint8_t *from;

	if (!resource || reth->dma_bytes > MESSAGE_BYTES_MAX)
		return REFUSED_INVALID;
	if (!(rc->qp.attr.access & MR_REMOTE_READ))
		return REFUSED_ACCESS;
	if (reth->dma_bytes &&
		mr_resolve(rc->qp.lane->mrs, reth->rkey, rc->qp.pd, MR_REMOTE_READ, reth->va,
			reth->dma_bytes, &from))
		return REFUSED_ACCESS;

	struct psn psn = packet->bth.psn;
	struct rc_resource request = {
		.operation = OPERATION_READ,
		.first = psn,
		.end = psn_add(psn, rc_packet_count(rc, reth->dma_bytes)),
		.va = reth->va,
		.rkey = reth->rkey,
		.bytes = reth->dma_bytes,
		.msn = msn_add(responder->msn, 1),
	};
	resource_take(rc, resource, &request);
	qp_count(&rc->qp, COUNTER_rdma_reads, 1);
	return ACCEPTED;
}

/*
 * Eight aligned bytes, in this machine's byte order, atomic also against its CPUs (IBTA 9.4.5,
 * ATOMIC_HCA and better).
 */
static uint64_t atomic_apply(const struct packet *packet, void *target)
{
	_Atomic uint64_t *value = target;
	uint64_t expected = packet->atomiceth.compare;

	if (packet->info->operation == OPERATION_FETCH_ADD)
		return atomic_fetch_add(value, packet->atomiceth.swap_add);
	atomic_compare_exchange_strong(value, &expected, packet->atomiceth.swap_add);
	return expected;
}

static enum refusal atomic_execute(struct rc_qp *rc, const struct packet *packet)
{
	struct rc_responder *responder = &rc->responder;
	const struct atomiceth *request = &packet->atomiceth;
	struct rc_resource *resource = resource_next(rc);
	uint8_t *target;

	if (!resource || request->va % sizeof(uint64_t))
		return REFUSED_INVALID;
	if (!(rc->qp.attr.access & MR_REMOTE_ATOMIC))
		return REFUSED_ACCESS;
	if (mr_resolve(rc->qp.lane->mrs, request->rkey, rc->qp.pd, MR_REMOTE_ATOMIC, request->va,
		    sizeof(uint64_t), &target))
		return REFUSED_ACCESS;
	if ((uintptr_t)target % sizeof(uint64_t))
		return REFUSED_INVALID; /* the region's first address is aligned otherwise than what the peer calls it */

	struct psn psn = packet->bth.psn;
	struct rc_resource kept = {
		.operation = packet->info->operation,
		.first = psn,
		.end = psn_add(psn, 1),
		.msn = msn_add(responder->msn, 1),
		.original = atomic_apply(packet, target),
	};
	resource_take(rc, resource, &kept);
	qp_count(&rc->qp, COUNTER_rdma_atomics, 1);
	return ACCEPTED;
}

/* --- sequence --- */

/* Does this opcode follow the one before (IBTA 9.7.4.1.5, table 57)? */
static bool is_in_sequence(const struct rc_responder *responder, const struct opcode_info *info)
{
	switch (responder->message) {
	case RC_MESSAGE_NONE:
		return opcode_begins_message(info);
	case RC_MESSAGE_SEND:
		return info->operation == OPERATION_SEND && !opcode_begins_message(info);
	case RC_MESSAGE_WRITE:
		return info->operation == OPERATION_WRITE && !opcode_begins_message(info);
	}
	return false;
}

/* Execute a request that has the expected PSN. */
static enum refusal execute(
	struct rc_qp *rc, const struct packet *packet, enum fault *ret_fault, uint64_t now_ns)
{
	const struct opcode_info *info = packet->info;

	if (!is_in_sequence(&rc->responder, info) ||
		!opcode_payload_fits(info, packet->payload_bytes, rc->qp.mtu_bytes))
		return REFUSED_INVALID;
	switch ((int)info->operation) {
	case OPERATION_SEND:
		return send_execute(rc, packet, ret_fault, now_ns);
	case OPERATION_WRITE:
		return write_execute(rc, packet, now_ns);
	case OPERATION_READ:
		return read_execute(rc, packet);
	case OPERATION_COMPARE_SWAP:
	case OPERATION_FETCH_ADD:
		return atomic_execute(rc, packet);
	default: /* FLUSH, ATOMIC WRITE: not offered by this device */
		return REFUSED_INVALID;
	}
}

/*
 * A READ asked for again, perhaps only its rest; any other range is not a duplicate and is dropped
 * (IBTA C9-73 to C9-76).
 */
static void read_again(struct rc_qp *rc, struct rc_resource *resource, const struct packet *packet)
{
	uint32_t skipped = (uint32_t)psn_diff(packet->bth.psn, resource->first);
	uint64_t skipped_bytes = (uint64_t)skipped * rc->qp.mtu_bytes;
	struct psn stop = psn_add(packet->bth.psn, rc_packet_count(rc, packet->reth.dma_bytes));
	bool is_inside = packet->reth.va == resource->va + skipped_bytes &&
		packet->reth.rkey == resource->rkey && skipped_bytes <= resource->bytes &&
		packet->reth.dma_bytes <= resource->bytes - skipped_bytes;

	/* A part that stops early would end in the middle of the message: nobody asks for that. */
	if (is_inside && psn_equal(stop, resource->end))
		rc_response_owe(rc, resource, packet->bth.psn, stop);
}

static struct rc_resource *resource_find(struct rc_responder *responder, struct psn psn)
{
	for (uint32_t i = 0; i < QP_RD_ATOMIC_MAX; i++) {
		struct rc_resource *resource = &responder->resource[i];
		bool is_used = !psn_equal(resource->first, resource->end);

		if (is_used && !psn_before(psn, resource->first) && psn_before(psn, resource->end))
			return resource;
	}
	return NULL;
}

/*
 * A request that was executed before: answer it again, execute nothing twice (IBTA 9.7.4.1.2,
 * 9.7.5.1.4).
 */
void rc_responder_duplicate(struct rc_qp *rc, const struct packet *packet)
{
	enum opcode_operation operation = packet->info->operation;
	struct rc_resource *resource;

	qp_count(&rc->qp, COUNTER_duplicate_request, 1);
	if (operation == OPERATION_SEND || operation == OPERATION_WRITE) {
		rc_response_owe_ack(rc);
		return;
	}
	resource = resource_find(&rc->responder, packet->bth.psn);
	if (!resource || resource->operation != operation)
		return;
	if (operation == OPERATION_READ)
		read_again(rc, resource, packet);
	else
		rc_response_owe(rc, resource, resource->first, resource->end);
}

/* The packet was executed: what comes next. */
static void advance(struct rc_qp *rc, const struct packet *packet)
{
	struct rc_responder *responder = &rc->responder;
	enum opcode_operation operation = packet->info->operation;
	bool is_read = operation == OPERATION_READ;
	bool is_data = operation == OPERATION_SEND || operation == OPERATION_WRITE;

	responder->expected =
		psn_add(packet->bth.psn, is_read ? rc_packet_count(rc, packet->reth.dma_bytes) : 1);
	responder->is_waiting = false;
	if (opcode_ends_message(packet->info)) {
		responder->msn = msn_add(responder->msn, 1);
		responder->message = RC_MESSAGE_NONE;
	}
	qp_count(&rc->qp, COUNTER_rcvd_bytes, packet->payload_bytes);
	if (packet->bth.ack_requested && is_data) /* a READ or atomic has its response */
		rc_response_owe_ack(rc);
}

void rc_responder_receive(struct rc_qp *rc, const struct packet *packet, uint64_t now_ns)
{
	struct rc_responder *responder = &rc->responder;
	int32_t ahead = psn_diff(packet->bth.psn, responder->expected);
	enum fault fault = FAULT_NONE;

	if (ahead < 0) {
		rc_responder_duplicate(rc, packet);
		return;
	}
	if (ahead > 0) {
		qp_count(&rc->qp, COUNTER_out_of_seq_request, 1);
		if (!responder->is_waiting)
			rc_response_owe_nak(rc, AETH_NAK, AETH_NAK_PSN_SEQUENCE);
		return;
	}
	enum refusal refusal = execute(rc, packet, &fault, now_ns);
	if (refusal)
		refuse(rc, refusal, fault, now_ns);
	else if (rc->qp.state != QP_ERR) /* its completion found room */
		advance(rc, packet);
}

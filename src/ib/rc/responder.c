/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder: executes the peer's requests (IBTA 9.7.4, 9.7.5.2).
 *
 * Each request passes the checks in the specification's order: PSN, sequence of opcodes, operation
 * supported and allowed, length, receive request available, key and bounds. Only after all checks
 * does the responder change anything. A refused request leaves memory and queues as they were, and
 * causes a NAK.
 */
#include <string.h>

#include "ib/rc/rc.h"
#include "ib/tagged.h"
#include "memory/mr_borrowed.h"

void rc_responder_start(struct rc_qp *rc)
{
	if (rc->responder.has_resources)
		memset(rc_cold(rc)->resource, 0, sizeof(rc_cold(rc)->resource));
	rc_selective_stop(rc);
	memset(&rc->responder, 0, sizeof(rc->responder));
	rc->responder.expected = psn_from(rc->qp.attr.rq_psn);
}

/* --- refusing --- */

/*
 * Send a fatal NAK, and put this queue pair into the error state (IBTA 9.9.3, responder class C).
 */
static void responder_fail(struct rc_qp *rc, enum aeth_nak code, enum fault receive_fault,
	uint32_t events, uint64_t now_ns)
{
	rc_response_queue_nak(rc, AETH_NAK, (uint8_t)code);
	rc->responder.is_failed = true;
	message_abandon(&rc->responder.message, &rc->qp, receive_fault, now_ns);
	if (events)
		signal_raise(&rc->qp.lane->signals, &rc->qp.signal, events);
	if (rc->qp.state != QP_ERR)
		qp_set_state(&rc->qp, QP_ERR, now_ns);
}

/*
 * The receive request fails, and this queue pair goes to the error state. The peer gets no answer
 * to its request (IBTA 9.9.3, responder class J); earlier requests are acknowledged.
 */
static void responder_fail_silently(struct rc_qp *rc, enum fault receive_fault, uint64_t now_ns)
{
	if (!psn_equal(rc->responder.expected, psn_from(rc->qp.attr.rq_psn)))
		rc_response_queue_ack(rc);
	rc->responder.is_nak_pending = false; /* a sequence NAK would name this request */
	rc->responder.nak_psn = rc->responder.expected;
	rc->responder.is_failed = true;
	rc->responder.is_silent = true;
	message_abandon(&rc->responder.message, &rc->qp, receive_fault, now_ns);
	if (rc->qp.state != QP_ERR)
		qp_set_state(&rc->qp, QP_ERR, now_ns);
}

static void request_refuse(
	struct rc_qp *rc, enum refusal refusal, enum fault local_fault, uint64_t now_ns)
{
	const struct refusal_effect *effect = &refusal_effects[refusal];
	enum fault fault = local_fault ? local_fault : effect->fault;

	qp_count(&rc->qp, effect->rc_counter, 1);
	switch (effect->answer) {
	case REFUSAL_NAK:
		responder_fail(rc, effect->nak, fault, effect->signal, now_ns);
		break;
	case REFUSAL_SILENT:
		responder_fail_silently(rc, fault, now_ns);
		break;
	case REFUSAL_RNR:
		rc_response_queue_nak(rc, AETH_RNR_NAK, (uint8_t)rc->qp.attr.min_rnr_timer);
		break;
	}
}

/* --- READ and atomics --- */

/*
 * The next slot of the ring of READs and atomics, which has max_dest_rd_atomic slots. If the
 * request in that slot was never answered, the peer has more outstanding requests than allowed
 * (IBTA 9.7.4.1.4), and the function returns NULL. A pending answer to a duplicate is dropped,
 * because a peer that sends new requests does not need it.
 */
static struct rc_resource *resource_next(struct rc_qp *rc)
{
	struct rc_responder *responder = &rc->responder;
	struct rc_resource *resource;

	if (!rc->qp.attr.max_dest_rd_atomic)
		return NULL;
	resource = &rc_cold(rc)->resource[responder->resource_head];
	if (resource->is_pending && !resource->was_answered)
		return NULL;
	return resource;
}

/* Overwrite the slot that resource_next() found. */
static void resource_take(
	struct rc_qp *rc, struct rc_resource *resource, const struct rc_resource *request)
{
	struct rc_responder *responder = &rc->responder;

	rc_response_done(rc, resource);
	*resource = *request;
	responder->has_resources = true;
	rc_response_queue(rc, resource, resource->first, resource->end);
	responder->resource_head = (responder->resource_head + 1) % rc->qp.attr.max_dest_rd_atomic;
}

static enum refusal read_execute(struct rc_qp *rc, const struct packet *packet)
{
	struct rc_responder *responder = &rc->responder;
	const struct reth *reth = &packet->reth;
	struct rc_resource *resource = resource_next(rc);

	if (!resource || reth->dma_bytes > MESSAGE_BYTES_MAX)
		return REFUSED_INVALID;
	if (!(rc->qp.attr.access & MR_REMOTE_READ))
		return REFUSED_INVALID;
	if (reth->dma_bytes &&
		mr_check(rc->qp.lane->mrs, reth->rkey, qp_mr_user(&rc->qp), MR_REMOTE_READ,
			reth->va, reth->dma_bytes))
		return REFUSED_ACCESS;

	struct psn psn = packet->bth.psn;
	struct rc_resource request = {
		.operation = OPERATION_READ,
		.first = psn,
		.end = psn_add(psn, message_packet_count(&rc->qp, reth->dma_bytes)),
		.va = reth->va,
		.rkey = reth->rkey,
		.pd = rc->qp.pd,
		.bytes = reth->dma_bytes,
		.msn = msn_add(responder->msn, 1),
	};
	resource_take(rc, resource, &request);
	qp_count(&rc->qp, COUNTER_rdma_reads, 1);
	return ACCEPTED;
}

/*
 * The refusal for a fault of an atomic or ATOMIC WRITE. MR_FAULT_ALIGN: the iova is aligned, but
 * the memory behind it is not. MR_FAULT_LATER: the memory is borrowed, and its owner was too busy
 * to execute the operation.
 */
static enum refusal word_refusal(enum mr_fault fault)
{
	if (fault == MR_FAULT_LATER)
		return REFUSED_NOT_READY;
	return fault == MR_FAULT_ALIGN ? REFUSED_INVALID : REFUSED_ACCESS;
}

/*
 * The operation is atomic also with respect to this machine's CPUs (IBTA 9.4.5, ATOMIC_HCA and
 * better).
 */
static enum refusal atomic_execute(struct rc_qp *rc, const struct packet *packet)
{
	struct rc_responder *responder = &rc->responder;
	const struct atomiceth *request = &packet->atomiceth;
	struct rc_resource *resource = resource_next(rc);
	bool is_add = packet->info->operation == OPERATION_FETCH_ADD;
	struct mr_word word = {
		.operation = is_add ? MR_WORD_FETCH_ADD : MR_WORD_COMPARE_SWAP,
		.compare = request->compare,
		.value = request->swap_add,
	};
	uint64_t original = 0;
	enum mr_fault fault;

	if (!resource || request->va % sizeof(uint64_t))
		return REFUSED_INVALID;
	if (!(rc->qp.attr.access & MR_REMOTE_ATOMIC))
		return REFUSED_INVALID;
	fault = mr_apply(rc->qp.lane->mrs, request->rkey, qp_mr_user(&rc->qp), MR_REMOTE_ATOMIC,
		request->va, &word, &original);
	if (fault)
		return word_refusal(fault);

	struct psn psn = packet->bth.psn;
	struct rc_resource kept = {
		.operation = packet->info->operation,
		.first = psn,
		.end = psn_add(psn, 1),
		.msn = msn_add(responder->msn, 1),
		.original = original,
	};
	resource_take(rc, resource, &kept);
	qp_count(&rc->qp, COUNTER_rdma_atomics, 1);
	return ACCEPTED;
}

/* --- ATOMIC WRITE and FLUSH (IBTA annex A19) --- */

/* Queue the answer, a READ response without data. */
static void answer_queue(
	struct rc_qp *rc, struct rc_resource *resource, const struct packet *packet)
{
	struct rc_resource kept = {
		.operation = packet->info->operation,
		.first = packet->bth.psn,
		.end = psn_add(packet->bth.psn, 1),
		.msn = msn_add(rc->responder.msn, 1),
	};

	resource_take(rc, resource, &kept);
}

/* The payload has eight bytes in memory order; a single store writes them. */
static enum refusal atomic_write_execute(struct rc_qp *rc, const struct packet *packet)
{
	const struct reth *reth = &packet->reth;
	struct rc_resource *resource = resource_next(rc);
	struct mr_word word = {.operation = MR_WORD_STORE};
	uint64_t before;
	enum mr_fault fault;

	if (!resource || reth->va % sizeof(before) || reth->dma_bytes != sizeof(before))
		return REFUSED_INVALID;
	if (!(rc->qp.attr.access & MR_REMOTE_WRITE))
		return REFUSED_INVALID;
	memcpy(&word.value, packet->payload, sizeof(word.value));
	fault = mr_apply(rc->qp.lane->mrs, reth->rkey, qp_mr_user(&rc->qp), MR_REMOTE_WRITE,
		reth->va, &word, &before);
	if (fault)
		return word_refusal(fault);
	answer_queue(rc, resource, packet);
	qp_count(&rc->qp, COUNTER_rdma_atomic_writes, 1);
	return ACCEPTED;
}

/*
 * Requests execute in their order on coherent CPUs, so earlier writes are already visible. The NIC
 * cannot promise persistence, because it does not know what kind of memory a region has. So no
 * region permits a FLUSH that requests it.
 */
static enum refusal flush_execute(struct rc_qp *rc, const struct packet *packet)
{
	const struct reth *reth = &packet->reth;
	const struct feth *feth = &packet->feth;
	struct mr_user user = qp_mr_user(&rc->qp);
	struct rc_resource *resource = resource_next(rc);
	enum mr_fault fault;

	if (!resource || !feth->placement || feth->selectivity > FETH_SELECT_REGION ||
		reth->dma_bytes > MESSAGE_BYTES_MAX)
		return REFUSED_INVALID;
	if (!(rc->qp.attr.access & MR_FLUSH_GLOBAL))
		return REFUSED_INVALID;
	if (feth->placement != FETH_PLACEMENT_GLOBAL)
		return REFUSED_ACCESS;
	if (feth->selectivity == FETH_SELECT_REGION)
		fault = mr_resolve_whole(rc->qp.lane->mrs, reth->rkey, user, MR_FLUSH_GLOBAL);
	else
		fault = mr_check(rc->qp.lane->mrs, reth->rkey, user, MR_FLUSH_GLOBAL, reth->va,
			reth->dma_bytes);
	if (fault)
		return REFUSED_ACCESS;

	atomic_thread_fence(memory_order_seq_cst);
	answer_queue(rc, resource, packet);
	qp_count(&rc->qp, COUNTER_rdma_flushes, 1);
	return ACCEPTED;
}

/*
 * A WRITE with immediate data that is refused for its key takes a receive request. That request
 * completes with FAULT_WRITE_ACCESS (IBTA 11.6.2, local access error).
 */
static enum refusal write_execute(
	struct rc_qp *rc, const struct packet *packet, enum fault *ret_fault, uint64_t now_ns)
{
	struct message *message = &rc->responder.message;
	enum refusal refusal = message_write_execute(message, &rc->qp, packet, now_ns);

	if (refusal == REFUSED_ACCESS && opcode_has_immediate(packet->info) &&
		message_take_receive(message, &rc->qp))
		*ret_fault = FAULT_WRITE_ACCESS;
	return refusal;
}

/* --- sequence --- */

/* Execute a request that has the expected PSN. */
static enum refusal request_execute(
	struct rc_qp *rc, const struct packet *packet, enum fault *ret_fault, uint64_t now_ns)
{
	struct message *message = &rc->responder.message;
	enum refusal refusal = ACCEPTED;

	if (rc->qp.type == QP_TYPE_XRC_RECV)
		refusal = rc_xrc_select(rc, packet);
	if (refusal)
		return refusal;
	if (!message_is_in_sequence(message, &rc->qp, packet))
		return REFUSED_INVALID;
	switch ((int)packet->info->operation) {
	case OPERATION_SEND:
		if (qp_has_tags(&rc->qp))
			return tagged_send_execute(message, &rc->qp, packet, ret_fault, now_ns);
		return message_send_execute(message, &rc->qp, packet, ret_fault, now_ns);
	case OPERATION_WRITE:
		return write_execute(rc, packet, ret_fault, now_ns);
	case OPERATION_READ:
		return read_execute(rc, packet);
	case OPERATION_COMPARE_SWAP:
	case OPERATION_FETCH_ADD:
		return atomic_execute(rc, packet);
	case OPERATION_ATOMIC_WRITE:
		return atomic_write_execute(rc, packet);
	case OPERATION_FLUSH:
		return flush_execute(rc, packet);
	default:
		return REFUSED_INVALID;
	}
}

/*
 * Answer a repeated READ request, which may name only the rest of the range. A request for any
 * other range is no duplicate, and is dropped (IBTA C9-73 to C9-76).
 */
static void read_again(struct rc_qp *rc, struct rc_resource *resource, const struct packet *packet)
{
	uint32_t skipped = (uint32_t)psn_diff(packet->bth.psn, resource->first);
	uint64_t skipped_bytes = (uint64_t)skipped * rc->qp.mtu_bytes;
	struct psn stop =
		psn_add(packet->bth.psn, message_packet_count(&rc->qp, packet->reth.dma_bytes));
	bool is_inside = packet->reth.va == resource->va + skipped_bytes &&
		packet->reth.rkey == resource->rkey && skipped_bytes <= resource->bytes &&
		packet->reth.dma_bytes <= resource->bytes - skipped_bytes;
	bool is_whole = packet->reth.dma_bytes && packet->reth.dma_bytes % rc->qp.mtu_bytes == 0;
	/* One response is enough, because it shows the holes before it */
	bool is_probe = packet->bth.ack_requested;

	/*
	 * Only a peer that knows selective repeat requests a part that ends before the range does.
	 */
	if (!is_inside || (!psn_equal(stop, resource->end) && !(rc->is_selective && is_whole)))
		return;
	if (!rc->is_selective) {
		resource->left_out = 0;
		rc_response_queue(rc, resource, packet->bth.psn, stop);
	} else if (is_probe) {
		rc_response_queue_part(rc, resource, psn_add(stop, -1u), stop);
	} else {
		rc_response_queue_part(rc, resource, packet->bth.psn, stop);
	}
}

static struct rc_resource *resource_find(const struct rc_qp *rc, struct psn psn)
{
	for (uint32_t i = 0; rc->responder.has_resources && i < QP_RD_ATOMIC_MAX; i++) {
		struct rc_resource *resource = &rc_cold(rc)->resource[i];
		bool is_used = !psn_equal(resource->first, resource->end);

		if (is_used && !psn_before(psn, resource->first) && psn_before(psn, resource->end))
			return resource;
	}
	return NULL;
}

/* Repeat the answer to an executed request; execute nothing (IBTA 9.7.4.1.2, 9.7.5.1.4). */
void rc_responder_duplicate(struct rc_qp *rc, const struct packet *packet)
{
	enum opcode_operation operation = packet->info->operation;
	struct rc_resource *resource;

	qp_count(&rc->qp, COUNTER_duplicate_request, 1);
	if (operation == OPERATION_SEND || operation == OPERATION_WRITE) {
		rc_response_queue_ack(rc);
		return;
	}
	resource = resource_find(rc, packet->bth.psn);
	if (!resource || resource->operation != operation)
		return;
	if (operation == OPERATION_READ)
		read_again(rc, resource, packet);
	else
		rc_response_queue(rc, resource, resource->first, resource->end);
}

/* The packet was executed: expect the next one. */
static void expected_advance(struct rc_qp *rc, const struct packet *packet)
{
	struct rc_responder *responder = &rc->responder;
	enum opcode_operation operation = packet->info->operation;
	bool is_read = operation == OPERATION_READ;
	bool is_data = operation == OPERATION_SEND || operation == OPERATION_WRITE;

	responder->expected = psn_add(packet->bth.psn,
		is_read ? message_packet_count(&rc->qp, packet->reth.dma_bytes) : 1);
	responder->is_waiting = false;
	if (opcode_ends_message(packet->info))
		responder->msn = msn_add(responder->msn, 1);
	if (responder->is_nak_pending)
		rc_response_revise_nak(rc);
	qp_count(&rc->qp, COUNTER_rcvd_bytes, packet->payload_bytes);
	/* A READ or atomic is acknowledged by its response */
	if (packet->bth.ack_requested && is_data)
		rc_response_queue_ack(rc);
}

/* Must the peer repeat the expected request and all after it, because of an RNR NAK? */
static bool is_awaiting_receive(const struct rc_responder *responder)
{
	return responder->is_waiting && responder->nak.kind == AETH_RNR_NAK;
}

/* `packet` has arrived early: a packet before it is missing. */
static void early_receive(struct rc_qp *rc, const struct packet *packet)
{
	struct rc_responder *responder = &rc->responder;

	qp_count(&rc->qp, COUNTER_out_of_seq_request, 1);
	if (rc->is_selective && !is_awaiting_receive(responder)) {
		rc_selective_store(
			rc, packet, (uint32_t)psn_diff(packet->bth.psn, responder->expected));
		return;
	}
	if (responder->is_waiting)
		return;
	rc_response_queue_nak(rc, AETH_NAK, AETH_NAK_PSN_SEQUENCE);
	responder->nak_cause = packet->bth.psn;
}

/* Execute the expected request, or refuse it. Returns whether the request was accepted. */
static bool request_take(struct rc_qp *rc, const struct packet *packet, uint64_t now_ns)
{
	enum fault fault = FAULT_NONE;
	enum refusal refusal = request_execute(rc, packet, &fault, now_ns);

	if (refusal) {
		rc_report_refusal(rc, packet, refusal, now_ns);
		request_refuse(rc, refusal, fault, now_ns);
		/* The queue pair has not failed for lack of room in the completion queue */
	} else if (rc->qp.state != QP_ERR) {
		expected_advance(rc, packet);
	}
	return !refusal;
}

/*
 * If a packet is still missing, send the NAK again: the network may have lost the first NAK, or the
 * repeated packet.
 */
static void early_report(struct rc_qp *rc)
{
	const struct rc_responder *responder = &rc->responder;

	if (!selective_queue_is_empty(&responder->early) && !is_awaiting_receive(responder))
		rc_response_queue_selective(rc, responder->early.last->packet.bth.psn);
}

/*
 * The expected PSN has advanced from `psn`. Execute the early packets whose turn it is, by calls of
 * rc_responder_receive(). Each of these calls this function again; the inner call only advances the
 * queue.
 */
static __attribute__((cold)) void early_execute(struct rc_qp *rc, struct psn psn, uint64_t now_ns)
{
	struct rc_responder *responder = &rc->responder;
	struct selective_store *store = rc->qp.lane->selective;
	const struct packet *packet;

	selective_queue_advance(&responder->early, store, responder->expected,
		(uint32_t)psn_diff(responder->expected, psn));
	if (responder->is_executing_early)
		return;
	responder->is_executing_early = true;
	while ((packet = selective_queue_take(&responder->early, store, responder->expected)))
		rc_responder_receive(rc, packet, now_ns);
	responder->is_executing_early = false;
	early_report(rc);
}

/* A request that is `ahead` packets after the expected one, or before it. */
static __attribute__((cold)) enum packet_verdict unexpected_receive(
	struct rc_qp *rc, const struct packet *packet, int32_t ahead, uint64_t now_ns)
{
	/*
	 * No peer has GUARD_PSN_DISTANCE packets under way: the packet is a guess, or a late packet
	 * of the queue pair's previous connection. A sequence NAK (IBTA 9.7.5.1.1) would name a
	 * packet that the peer has not sent.
	 */
	if (ahead > GUARD_PSN_DISTANCE || ahead < -GUARD_PSN_DISTANCE) {
		qp_count(&rc->qp, COUNTER_out_of_seq_request, 1);
		rc_report_far_psn(rc, packet, now_ns);
		return PACKET_GUESSED;
	}
	if (ahead < 0) {
		rc_responder_duplicate(rc, packet);
		early_report(rc);
	}
	if (ahead > 0)
		early_receive(rc, packet);
	return PACKET_DROPPED;
}

enum packet_verdict rc_responder_receive(
	struct rc_qp *rc, const struct packet *packet, uint64_t now_ns)
{
	struct rc_responder *responder = &rc->responder;
	struct psn psn = packet->bth.psn;
	int32_t ahead = psn_diff(psn, responder->expected);

	if (ahead)
		return unexpected_receive(rc, packet, ahead, now_ns);
	bool is_accepted = request_take(rc, packet, now_ns);
	if (!selective_queue_is_empty(&responder->early))
		early_execute(rc, psn, now_ns);
	return is_accepted ? PACKET_TAKEN : PACKET_DROPPED;
}

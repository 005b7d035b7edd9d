/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports why a request of the peer was refused. These functions run after the refusal and repeat
 * the checks, so that the checks themselves record no facts.
 */
#include "ib/message_report.h"

#include "qp/qp_report.h"

/* The address, length, key and needed right of a request that names memory. */
struct request_range {
	uint64_t va;
	uint64_t bytes;
	uint32_t rkey;
	uint32_t needs; /* enum mr_access; 0: the request names no memory */
};

static struct request_range range_of(const struct message *message, const struct packet *packet)
{
	const struct reth *reth = &packet->reth;
	const struct reth *rest = &message->write;
	const struct atomiceth *atomic = &packet->atomiceth;

	switch ((int)packet->info->operation) {
	case OPERATION_WRITE:
		if (!opcode_begins_message(packet->info))
			reth = rest;
		return (struct request_range){
			reth->va, reth->dma_bytes, reth->rkey, MR_REMOTE_WRITE};
	case OPERATION_READ:
		return (struct request_range){
			reth->va, reth->dma_bytes, reth->rkey, MR_REMOTE_READ};
	case OPERATION_ATOMIC_WRITE:
		return (struct request_range){reth->va, 8, reth->rkey, MR_REMOTE_WRITE};
	case OPERATION_FLUSH:
		return (struct request_range){
			reth->va, reth->dma_bytes, reth->rkey, MR_FLUSH_GLOBAL};
	case OPERATION_COMPARE_SWAP:
	case OPERATION_FETCH_ADD:
		return (struct request_range){atomic->va, 8, atomic->rkey, MR_REMOTE_ATOMIC};
	default:
		return (struct request_range){.bytes = packet->payload_bytes};
	}
}

static enum reason memory_reason(enum mr_fault fault)
{
	switch (fault) {
	case MR_FAULT_PD:
		return REASON_REGION_PD;
	case MR_FAULT_ACCESS:
		return REASON_REGION_RIGHT;
	case MR_FAULT_BOUNDS:
		return REASON_REGION_BOUNDS;
	case MR_FAULT_PAGE:
		return REASON_REGION_PAGE;
	case MR_FAULT_ALIGN:
		return REASON_ALIGNMENT;
	case MR_OK:
	case MR_FAULT_KEY:
	case MR_FAULT_STATE:
	case MR_FAULT_LATER:
		return REASON_REGION_KEY;
	}
	return REASON_REGION_KEY;
}

/* The check includes MR_TOUCH, because the pages of an on-demand region have to be present, too. */
static enum reason region_reason(struct qp *qp, const struct request_range *range, uint64_t now_ns)
{
	struct mr_explanation found = qp_fact_region(qp, range->rkey, qp_mr_user(qp),
		range->needs | MR_TOUCH, range->va, range->bytes, now_ns);

	return memory_reason(found.fault);
}

static bool is_read_or_atomic(const struct request_range *range, const struct packet *packet)
{
	return range->needs && packet->info->operation != OPERATION_WRITE;
}

static bool is_word(const struct packet *packet)
{
	enum opcode_operation operation = packet->info->operation;

	return operation == OPERATION_COMPARE_SWAP || operation == OPERATION_FETCH_ADD ||
		operation == OPERATION_ATOMIC_WRITE;
}

/* The reason for REFUSED_INVALID, in the order of the responder's checks. */
static enum reason invalid_reason(struct qp *qp, const struct message *message,
	const struct packet *packet, const struct request_range *range)
{
	if (!message_is_in_sequence(message, qp, packet) || !range->needs)
		return REASON_MALFORMED;
	if (!(qp->attr.access & range->needs)) {
		lane_fact(qp->lane, FACT_access, qp->attr.access);
		return REASON_QP_RIGHT;
	}
	if (is_word(packet) && range->va % sizeof(uint64_t))
		return REASON_ALIGNMENT;
	if (is_read_or_atomic(range, packet) && range->bytes <= MESSAGE_BYTES_MAX) {
		lane_fact(qp->lane, FACT_rd_atomic, qp->attr.max_dest_rd_atomic);
		return REASON_RD_ATOMIC;
	}
	return REASON_MALFORMED;
}

void message_report_refusal(struct qp *qp, const struct message *message,
	const struct packet *packet, enum refusal refusal, bool is_repeated, uint64_t now_ns)
{
	struct request_range range = range_of(message, packet);
	enum reason reason;

	lane_fact(qp->lane, FACT_opcode, packet->info->operation);
	lane_fact(qp->lane, FACT_bytes, range.bytes);
	lane_fact(qp->lane, FACT_remote_address, range.va);
	lane_fact(qp->lane, FACT_rkey, range.rkey);
	lane_fact(qp->lane, FACT_needs, range.needs);
	if (refusal == REFUSED_INVALID)
		reason = invalid_reason(qp, message, packet, &range);
	else
		reason = region_reason(qp, &range, now_ns);
	qp_report(qp, reason, is_repeated, now_ns);
}

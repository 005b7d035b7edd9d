/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is known of a failure: which check refused a request, and what was heard of a silent peer.
 * Everything here runs after the failure and repeats its checks, so that the checks themselves keep
 * no facts.
 */
#include "ib/rc/rc.h"
#include "qp/qp_report.h"
#include "wire/timer.h"

/* The address, length, key and needed right of a request that names memory. */
struct request_range {
	uint64_t va;
	uint64_t bytes;
	uint32_t rkey;
	uint32_t needs; /* enum mr_access; 0: the request names no memory */
};

static struct request_range range_of(const struct rc_qp *rc, const struct packet *packet)
{
	const struct reth *reth = &packet->reth;
	const struct reth *rest = &rc->responder.message.write;
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

/* MR_TOUCH: the pages of an on-demand region have to be there, too. */
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
static enum reason invalid_reason(
	struct rc_qp *rc, const struct packet *packet, const struct request_range *range)
{
	struct qp *qp = &rc->qp;

	if (!message_is_in_sequence(&rc->responder.message, qp, packet) || !range->needs)
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

static void no_receive_report(struct rc_qp *rc, uint64_t now_ns)
{
	const struct recv_queue *rq = rc->qp.rq;

	if (!rq || rq_count(rq))
		return; /* another reason to wait, which is none of the program's */
	lane_fact(
		rc->qp.lane, FACT_posted, atomic_load_explicit(&rq->posted, memory_order_relaxed));
	lane_fact(rc->qp.lane, FACT_taken,
		(uint32_t)atomic_load_explicit(&rq_takers(rq)->taken, memory_order_relaxed));
	qp_report(&rc->qp, REASON_NO_RECEIVE, true, now_ns);
}

void rc_report_refusal(
	struct rc_qp *rc, const struct packet *packet, enum refusal refusal, uint64_t now_ns)
{
	struct qp *qp = &rc->qp;
	struct request_range range = range_of(rc, packet);
	enum reason reason;

	if (!qp_has_reports(qp))
		return;
	if (refusal == REFUSED_NOT_READY) {
		no_receive_report(rc, now_ns);
		return;
	}
	if (refusal == REFUSED_TOO_LONG) {
		lane_fact(qp->lane, FACT_bytes,
			rc->responder.message.placed_bytes + packet->payload_bytes);
		lane_fact(qp->lane, FACT_room, rc_cold(rc)->receive.total_bytes);
	}
	if (refusal == REFUSED_OPERATIONAL)
		qp_fact_list(qp, qp->recv_pd, MR_LOCAL_WRITE, rc_cold(rc)->receive.sge,
			rc_cold(rc)->receive.sge_count, now_ns);
	if (refusal != REFUSED_INVALID && refusal != REFUSED_ACCESS)
		return; /* the receive request's completion is reported with these facts */
	lane_fact(qp->lane, FACT_opcode, packet->info->operation);
	lane_fact(qp->lane, FACT_bytes, range.bytes);
	lane_fact(qp->lane, FACT_remote_address, range.va);
	lane_fact(qp->lane, FACT_rkey, range.rkey);
	lane_fact(qp->lane, FACT_needs, range.needs);
	if (refusal == REFUSED_INVALID)
		reason = invalid_reason(rc, packet, &range);
	else
		reason = region_reason(qp, &range, now_ns);
	qp_report(qp, reason, false, now_ns);
}

void rc_report_far_psn(struct rc_qp *rc, const struct packet *packet, uint64_t now_ns)
{
	if (!qp_has_reports(&rc->qp))
		return;
	lane_fact(rc->qp.lane, FACT_psn, packet->bth.psn.value);
	lane_fact(rc->qp.lane, FACT_expected_psn, rc->responder.expected.value);
	qp_report(&rc->qp, REASON_PSN, true, now_ns);
}

/* --- a silent peer --- */

static uint64_t count_of(const struct rc_qp *rc, enum counter counter)
{
	return counter_read(&rc->qp.public->counters, counter);
}

void rc_report_silence(struct rc_qp *rc, uint64_t now_ns)
{
	rc->requester.silent_since_ns = now_ns - rc_retry_ns((uint8_t)rc->qp.attr.timeout);
	rc->requester.silent_heard = count_of(rc, COUNTER_rcvd_pkts);
}

static void fact_drops(struct rc_qp *rc, enum fact fact, enum counter counter)
{
	uint64_t count = count_of(rc, counter);

	if (count)
		lane_fact(rc->qp.lane, fact, count);
}

void rc_fact_silence(struct rc_qp *rc, uint64_t now_ns)
{
	const struct rc_requester *requester = &rc->requester;
	struct lane *lane = rc->qp.lane;
	uint64_t heard = count_of(rc, COUNTER_rcvd_pkts);
	uint64_t longer_ns = 8 * rc_retry_ns(19);

	lane_fact(lane, FACT_waited, now_ns - requester->silent_since_ns);
	lane_fact(lane, FACT_timeout, rc->qp.attr.timeout);
	lane_fact(lane, FACT_retry_cnt, rc->qp.attr.retry_cnt);
	if (heard)
		lane_fact(lane, FACT_heard, heard - requester->silent_heard);
	else
		lane_fact(lane, FACT_heard_never, 0);
	fact_drops(rc, FACT_drops_address, COUNTER_bad_address_drops);
	fact_drops(rc, FACT_drops_state, COUNTER_bad_state_drops);
	fact_drops(rc, FACT_drops_response, COUNTER_invalid_responses);
	if (longer_ns > now_ns - requester->silent_since_ns)
		lane_fact(lane, FACT_longer, longer_ns);
}

void rc_fact_not_ready(struct rc_qp *rc, uint8_t code)
{
	lane_fact(rc->qp.lane, FACT_naks, rc->qp.attr.rnr_retry + 1);
	lane_fact(rc->qp.lane, FACT_rnr_retry, rc->qp.attr.rnr_retry);
	lane_fact(rc->qp.lane, FACT_rnr_timer, rnr_timer_ns(code));
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "qp/qp_report.h"

#include "memory/mr_explain.h"

/* Add the failure with the lane's facts, and remember the queue pair's first one. */
static void failure_add(struct qp *qp, struct failure *failure, uint64_t now_ns)
{
	failure->at_ns = now_ns;
	failure->qpn = qp->qpn;
	failure->dest_qpn = qp->attr.dest_qpn;
	failure->local = qp->attr.path.local;
	failure->remote = qp->attr.path.remote;
	failure->facts = qp->lane->facts;
	qp->lane->facts.count = 0;
	failures_add(qp->lane->failures, failure);
}

static void first_note(struct qp *qp, enum reason reason, uint64_t wr_id)
{
	if (qp->first_reason)
		return;
	qp->first_reason = reason;
	qp->first_wr_id = wr_id;
}

void qp_report(struct qp *qp, enum reason reason, bool is_repeated, uint64_t now_ns)
{
	struct failure failure = {.reason = reason, .is_repeated = is_repeated};

	failure_add(qp, &failure, now_ns);
	if (!is_repeated)
		first_note(qp, reason, 0);
}

void lane_report_drop(
	struct lane *lane, enum reason reason, const struct gid *source, uint64_t now_ns)
{
	if (!failures_count(lane->failures, reason, 0, now_ns)) {
		struct failure failure = {.reason = reason,
			.is_repeated = true,
			.at_ns = now_ns,
			.remote = *source,
			.facts = lane->facts};

		failures_add(lane->failures, &failure);
	}
	lane->facts.count = 0;
}

void qp_report_drop(struct qp *qp, enum reason reason, uint32_t source_qpn,
	const struct gid *source, uint64_t now_ns)
{
	struct lane *lane = qp->lane;

	if (!failures_count(lane->failures, reason, qp->qpn, now_ns)) {
		struct failure failure = {.reason = reason,
			.is_repeated = true,
			.at_ns = now_ns,
			.qpn = qp->qpn,
			.dest_qpn = source_qpn,
			.local = qp->attr.path.local,
			.remote = *source,
			.facts = lane->facts};

		failures_add(lane->failures, &failure);
	}
	lane->facts.count = 0;
}

void qp_fact_receives(const struct qp *qp)
{
	const struct recv_queue *rq = qp->srq ? qp->srq->rq : qp->rq;

	lane_fact(qp->lane, FACT_posted,
		rq ? atomic_load_explicit(&rq->posted, memory_order_relaxed) : 0);
	lane_fact(qp->lane, FACT_taken,
		rq ? (uint32_t)atomic_load_explicit(&rq_takers(rq)->taken, memory_order_relaxed)
		   : 0);
}

struct mr_explanation qp_fact_region(const struct qp *qp, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, uint64_t bytes, uint64_t now_ns)
{
	struct mr_explanation found =
		mr_explain(qp->lane->mrs, key, user, access, iova, bytes, now_ns);

	if (found.explained == MR_EXPLAINED_NONE)
		return found;
	lane_fact(qp->lane, FACT_region_key, found.key);
	lane_fact(qp->lane, FACT_region_start, found.start);
	lane_fact(qp->lane, FACT_region_bytes, found.bytes);
	lane_fact(qp->lane, FACT_region_access, found.access);
	if (found.explained == MR_EXPLAINED_GONE)
		lane_fact(qp->lane, FACT_gone, found.ago_ns);
	else if (found.explained == MR_EXPLAINED_NEAREST)
		lane_fact(qp->lane, FACT_distance, found.distance_bytes);
	else if (found.ago_ns)
		lane_fact(qp->lane, FACT_changed, found.ago_ns);
	if (found.explained == MR_EXPLAINED_KEY && found.fault == MR_FAULT_BOUNDS)
		lane_fact(qp->lane, FACT_byte, found.first_outside);
	if (found.is_swapped)
		lane_fact(qp->lane, FACT_swapped_key, __builtin_bswap32(key));
	return found;
}

void qp_fact_list(const struct qp *qp, uint32_t pd, uint32_t access, const struct sge *list,
	uint32_t count, uint64_t now_ns)
{
	uint32_t index = sge_refused(qp->lane->mrs, pd, access, list, count);

	if (index == count)
		return;
	lane_fact(qp->lane, FACT_entry, index);
	lane_fact(qp->lane, FACT_address, list[index].address);
	lane_fact(qp->lane, FACT_length, list[index].bytes);
	lane_fact(qp->lane, FACT_key, list[index].lkey);
	qp_fact_region(qp, list[index].lkey, (struct mr_user){pd, 0}, access, list[index].address,
		list[index].bytes, now_ns);
}

static void fact_flushed(struct qp *qp)
{
	lane_fact(qp->lane, FACT_first, qp->first_reason);
	if (qp->first_reason)
		lane_fact(qp->lane, FACT_first_wr_id, qp->first_wr_id);
}

static bool is_of_memory(enum fault fault)
{
	return fault_status(fault) == WC_LOC_PROT_ERR;
}

void qp_report_send(struct qp *qp, const struct send_wqe *wqe, enum fault fault, uint64_t now_ns)
{
	const struct wr_info *info = &wr_table[wqe->opcode];
	struct failure failure = {
		.reason = fault,
		.wr_id = wqe->wr_id,
		.has_wr_id = true,
		.is_repeated = fault == FAULT_FLUSHED,
	};

	if (qp_has_reports(qp)) {
		lane_fact(qp->lane, FACT_opcode, info->operation);
		lane_fact(qp->lane, FACT_bytes, wqe->total_bytes);
		if (fault == FAULT_FLUSHED)
			fact_flushed(qp);
		if (fault == FAULT_REMOTE_ACCESS) {
			lane_fact(qp->lane, FACT_remote_address, wqe->remote_address);
			lane_fact(qp->lane, FACT_rkey, wqe->rkey);
		}
		if (is_of_memory(fault))
			qp_fact_list(qp, qp->pd, info->fills_list ? MR_LOCAL_WRITE : MR_LOCAL_READ,
				wqe->sge, wqe->sge_count, now_ns);
	}
	failure_add(qp, &failure, now_ns);
	if (fault != FAULT_FLUSHED)
		first_note(qp, (enum reason)fault, wqe->wr_id);
}

void qp_report_recv(struct qp *qp, uint64_t wr_id, enum fault fault, uint64_t now_ns)
{
	struct failure failure = {
		.reason = fault,
		.wr_id = wr_id,
		.has_wr_id = true,
		.is_repeated = fault == FAULT_FLUSHED,
	};

	if (fault == FAULT_FLUSHED)
		fact_flushed(qp);
	failure_add(qp, &failure, now_ns);
	if (fault != FAULT_FLUSHED)
		first_note(qp, (enum reason)fault, wr_id);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_QP_QP_REPORT_H
#define URNIC_QP_QP_REPORT_H

/*
 * Reports of a queue pair's failures. A report adds the failure to the list that the process keeps
 * (lane/failure.h), with the facts that the caller has added by lane_fact(), and clears these
 * facts. The lane is locked.
 */

#include "memory/copy.h"
#include "memory/mr_explain.h"
#include "qp/qp.h"
#include "qp/reason.h"

/* Are failures kept? If not, a caller need not gather facts. */
static inline bool qp_has_reports(const struct qp *qp)
{
	return qp->lane->failures != NULL;
}

/*
 * Report a refused request of the peer. If `is_repeated`, an equal report only adds to the count of
 * the first one (lane/failure.h).
 */
void qp_report(struct qp *qp, enum reason reason, bool is_repeated, uint64_t now_ns);

/*
 * Report that a message or packet of a peer was dropped, as unreliable types do. `source_qpn` is
 * the queue pair that sent it, and `source` its address. The report is counted with earlier ones of
 * the same reason.
 */
void qp_report_drop(struct qp *qp, enum reason reason, uint32_t source_qpn,
	const struct gid *source, uint64_t now_ns);

/* qp_report_drop() for a packet that found no queue pair. */
void lane_report_drop(
	struct lane *lane, enum reason reason, const struct gid *source, uint64_t now_ns);

/*
 * Add two facts: how many receive requests were posted to the queue pair's queue, and how many of
 * them are taken.
 */
void qp_fact_receives(const struct qp *qp);

/* Report that the send request `wqe` fails with `fault`, which is not FAULT_NONE. */
void qp_report_send(struct qp *qp, const struct send_wqe *wqe, enum fault fault, uint64_t now_ns);

/* Report that the receive request `wr_id` fails with `fault`, which is not FAULT_NONE. */
void qp_report_recv(struct qp *qp, uint64_t wr_id, enum fault fault, uint64_t now_ns);

/*
 * The reason for which qp_post_send() or qp_post_recv() returns -EINVAL for this request.
 * REASON_NONE: they do not return -EINVAL.
 */
enum reason qp_send_refusal(const struct qp *qp, const struct send_wr *wr);
enum reason qp_recv_refusal(const struct qp *qp, const struct recv_wr *wr);

/*
 * Find the first entry of a scatter/gather list that the queue pair may not use now. Add the facts
 * of this entry and of its region. Adds none if it may use all entries.
 */
void qp_fact_list(const struct qp *qp, uint32_t pd, uint32_t access, const struct sge *list,
	uint32_t count, uint64_t now_ns);

/*
 * Explain a refused access to memory, and add the facts of the region, but not the key and range of
 * the access. Returns the explanation.
 */
struct mr_explanation qp_fact_region(const struct qp *qp, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, uint64_t bytes, uint64_t now_ns);

#endif

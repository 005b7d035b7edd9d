/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The short way: plain WRITEs and SENDs, of one piece that is written to one piece, both mapped
 * here. Most programs post the same again and again, one by one or many at once; what is done here
 * for each is little, so everything that is seldom goes the ordinary way (initiator.c), with
 * nothing done of it.
 */
#include "ib/rc/rc.h"
#include "local/capture.h"
#include "local/initiator.h"

enum { ROW_COUNT_MAX = 64 };

/* Where the bytes of a plain request begin, of up to `limit_bytes`; NULL when it is none. */
static inline const uint8_t *row_from(struct local_qp *local, const struct send_wqe *wqe,
	enum wr_opcode opcode, uint32_t limit_bytes)
{
	const struct sge *sge = wqe->sge;
	bool is_inline = wqe->flags & SEND_INLINE;
	const uint8_t *from;

	if (wqe->opcode != opcode || wqe->goes_by_packets || !wqe->total_bytes ||
		wqe->total_bytes > limit_bytes || (!is_inline && wqe->sge_count != 1))
		return NULL;
	if (is_inline)
		return wqe->inline_bytes;
	from = mr_cached_find(
		&local->own, sge->lkey, MR_LOCAL_READ | MR_TOUCH, sge->address, wqe->total_bytes);
	return from ? from : local_own_keep(local, sge, wqe->total_bytes);
}

/*
 * What the row's first request writes to was not written to last: the row is about that from here
 * on.
 */
static __attribute__((noinline)) uint8_t *row_begin(
	struct local_qp *local, const struct send_wqe *wqe)
{
	const struct sge range = {wqe->remote_address, wqe->total_bytes, wqe->rkey};
	const struct local_theirs theirs = {
		&range, 1, {local->target_pd, local->target->qpn}, MR_REMOTE_WRITE, &local->remote};

	return local_theirs_keep(local, &theirs);
}

/*
 * Where they go, if that is where the last ones went: what was kept. We are inside, under the mark
 * of its key or of another one.
 */
static inline uint8_t *row_to(const struct local_qp *local, const struct send_wqe *wqe)
{
	return mr_cached_find(&local->remote, wqe->rkey, MR_REMOTE_WRITE | MR_TOUCH,
		wqe->remote_address, wqe->total_bytes);
}

static inline void row_copy(
	struct local_qp *local, const struct send_wqe *wqe, uint8_t *to, const uint8_t *from)
{
	copy_place_next(&local->turn, to, from, wqe->total_bytes);
	qp_expect_write(local->qp, to, wqe->remote_address);
}

/* Under the mark of the row's first key: another one is not found in what was kept. */
static bool row_write(struct local_qp *local, const struct send_wqe *wqe, uint32_t limit_bytes)
{
	const uint8_t *from = row_from(local, wqe, WR_RDMA_WRITE, limit_bytes);
	bool is_first = !local->is_inside;
	uint8_t *to;

	if (!from || (!local->is_inside && !local_begin(local, INBOX_USES_KEY | wqe->rkey)))
		return false;
	to = row_to(local, wqe);
	if (!to && is_first)
		to = row_begin(local, wqe);
	if (!to)
		return false;
	row_copy(local, wqe, to, from);
	return true;
}

/* May requests WRITE to the target at all? */
static inline bool takes_writes(struct local_qp *local)
{
	uint32_t access = atomic_load_explicit(&local->target->access, memory_order_relaxed);

	return (access & MR_REMOTE_WRITE) && !local_is_invalidating(local);
}

static uint32_t write_row(struct local_qp *local, struct send_queue *sq, uint32_t count)
{
	uint32_t first = sq->completed, done = 0, bytes = 0;
	bool is_captured = lane_is_captured(local->qp->lane);

	if (!takes_writes(local))
		return 0;
	for (; done < count && row_write(local, sq_at(sq, first + done), LOCAL_STEP_BYTES - bytes);
		done++) {
		bytes += sq_at(sq, first + done)->total_bytes;
		if (is_captured)
			local_capture(local, sq_at(sq, first + done));
	}
	if (done && !local_mark_holds(local))
		done = 0; /* each goes the ordinary way once more */
	local_end(local);
	if (done)
		local_executed(local, &local->target->writes, done, bytes);
	return done;
}

/* A receive request for another place than the last one's. */
static __attribute__((noinline)) uint8_t *row_receive(
	struct local_qp *local, const struct sge *sge, uint32_t bytes)
{
	const struct sge range = {sge->address, bytes, sge->lkey};
	const struct local_theirs theirs = {
		&range, 1, {local->target_recv_pd, 0}, MR_LOCAL_WRITE, &local->receive};

	return local_theirs_keep(local, &theirs);
}

/* Each under a mark of its own, which ends when it is delivered. */
static inline bool row_send(struct local_qp *local, const struct send_wqe *wqe)
{
	const uint8_t *from = row_from(local, wqe, WR_SEND, LOCAL_STEP_BYTES);
	uint64_t wr_id;
	struct sge sge;
	uint8_t *to;

	if (!from || !inbox_has_room(local->target, &local->collected_seen))
		return false;
	prefetch_to_write(inbox_place(local->target));
	if (!rq_peek_first(local->target_rq, local->peer->base, local->peer->bytes,
		    &local->posted_seen, &wr_id, &sge))
		return false;
	local_foresee(&local->receive, sge.address);
	if (sge.bytes < wqe->total_bytes || !local_begin(local, INBOX_USES_KEY | sge.lkey))
		return false;
	to = mr_cached_find(&local->receive, sge.lkey, MR_LOCAL_WRITE | MR_TOUCH, sge.address,
		wqe->total_bytes);
	if (!to)
		to = row_receive(local, &sge, wqe->total_bytes);
	if (!to)
		return false;
	copy_place_next(&local->turn, to, from, wqe->total_bytes);
	local->is_waiting = false;
	return local_mark_holds(local) && local_deliver(local, wqe, WC_RECV, wr_id);
}

/* Is the next message's receive request this initiator's? */
static inline bool takes_sends(const struct local_qp *local)
{
	return !local->is_rq_shared && local->target_rq;
}

static uint32_t send_row(struct local_qp *local, struct send_queue *sq, uint32_t count)
{
	uint32_t first = sq->completed, done = 0;
	bool is_captured = lane_is_captured(local->qp->lane);

	if (!takes_sends(local))
		return 0;
	for (; done < count && row_send(local, sq_at(sq, first + done)); done++)
		if (is_captured)
			local_capture(local, sq_at(sq, first + done));
	local_end(local);
	return done;
}

/* Each request to an XRC target has a queue of its own, and is none of a row. */
static inline bool has_rows(const struct qp *qp, const struct local_qp *local)
{
	return !qp->pace && !qp->has_alt_path && !qp_has_tags(qp) && !local->target_srqs;
}

uint32_t local_execute_row(struct qp *qp, uint32_t count)
{
	struct local_qp *local = local_from_qp(qp);
	struct send_queue *sq = qp->sq;
	uint32_t opcode = sq_at(sq, sq->completed)->opcode;
	uint32_t done;

	if ((opcode != WR_RDMA_WRITE && opcode != WR_SEND) || !local_is_attached(local) ||
		!has_rows(qp, local))
		return 0;
	count = min_u32(count, ROW_COUNT_MAX);
	done = opcode == WR_SEND ? send_row(local, sq, count) : write_row(local, sq, count);
	if (done)
		qp_count(qp, COUNTER_local_requests, done);
	return done;
}

/* --- one request --- */

/* Only to where the last one went: a row keeps another place. */
static inline bool write_one(struct local_qp *local, const struct send_wqe *wqe)
{
	struct inbox *target = local->target;
	const uint8_t *from = row_from(local, wqe, WR_RDMA_WRITE, LOCAL_STEP_BYTES);
	uint8_t *to;

	if (!from || !takes_writes(local) ||
		!inbox_enter(target, local->generation, INBOX_USES_KEY | wqe->rkey))
		return false;
	to = row_to(local, wqe);
	if (to)
		row_copy(local, wqe, to, from);
	if (!local_mark_holds(local))
		to = NULL;
	inbox_leave(target);
	if (to)
		local_executed(local, &target->writes, 1, wqe->total_bytes);
	return to != NULL;
}

static inline bool send_one(struct local_qp *local, const struct send_wqe *wqe)
{
	bool is_done = takes_sends(local) && row_send(local, wqe);

	local_end(local);
	return is_done;
}

/* Queue pairs of other types than RC have more to look at first. */
__attribute__((flatten)) bool local_execute_one(
	struct qp *qp, const struct send_wqe *wqe, uint64_t now_ns)
{
	struct rc_qp *rc = rc_from_qp(qp);
	struct send_queue *sq = qp->sq;
	struct local_qp *local;

	if (qp->type != QP_TYPE_RC || qp->state != QP_RTS || sq->posted - sq->completed != 1 ||
		!rc_requester_is_at_rest(rc))
		return false;
	local = local_from_qp(qp);
	/* That the peer's inbox is open to us still is seen when it is entered. */
	if (!local->target || !has_rows(qp, local) || lane_is_captured(qp->lane) ||
		!(wqe->opcode == WR_RDMA_WRITE ? write_one(local, wqe) : send_one(local, wqe)))
		return false;
	qp_count(qp, COUNTER_local_requests, 1);
	rc->requester.wqe_index++;
	qp_complete_success(qp, wqe, now_ns);
	return true;
}

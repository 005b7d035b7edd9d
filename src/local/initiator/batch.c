/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast path: plain WRITEs and SENDs. A plain request moves one piece of local memory, or inline
 * bytes, to one piece of target memory that this process has mapped. Most requests are plain. The
 * fast path leaves any other request unchanged, and local_execute() executes it.
 */
#include "ib/rc/rc.h"
#include "local/initiator/capture.h"
#include "local/initiator/initiator.h"
#include "queue/rq_taker.h"

enum { BATCH_COUNT_MAX = 64 };

/* The local bytes of a plain request of up to `limit_bytes`; NULL when the request is not plain. */
static inline const uint8_t *batch_source(struct local_initiator *local, const struct send_wqe *wqe,
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

/* --- WRITEs --- */

/* Does the target permit RDMA WRITE? */
static inline bool batch_may_write(struct local_initiator *local)
{
	uint32_t access = atomic_load_explicit(&local->target->access, memory_order_relaxed);

	return (access & MR_REMOTE_WRITE) && !local_is_invalidating(local);
}

/*
 * The batch's first request names a range that local->remote does not cover. Cache the region of
 * that range there.
 */
static __attribute__((noinline)) uint8_t *write_target_keep(
	struct local_initiator *local, const struct send_wqe *wqe)
{
	const struct sge range = {wqe->remote_address, wqe->total_bytes, wqe->rkey};
	const struct local_theirs theirs = {
		&range, 1, {local->target_pd, local->target->qpn}, MR_REMOTE_WRITE, &local->remote};

	return local_theirs_keep(local, &theirs);
}

/*
 * The address in this process of the request's target, if the target is in the cached range;
 * otherwise NULL.
 */
static inline uint8_t *write_target(const struct local_initiator *local, const struct send_wqe *wqe)
{
	return mr_cached_find(&local->remote, wqe->rkey, MR_REMOTE_WRITE | MR_TOUCH,
		wqe->remote_address, wqe->total_bytes);
}

static inline void write_place(
	struct local_initiator *local, const struct send_wqe *wqe, uint8_t *to, const uint8_t *from)
{
	copy_place_any(to, from, wqe->total_bytes);
	qp_expect_write(local->qp, to, wqe->remote_address);
}

/*
 * Execute the requests behind the first one of the batch, up to the first one that is not plain or
 * names another key. `count` and the result include the first request. Adds the number of written
 * bytes to *bytes.
 */
static __attribute__((noinline)) uint32_t batch_write_more(
	struct local_initiator *local, struct send_queue *sq, uint32_t count, uint32_t *bytes)
{
	uint32_t first = sq->completed, done;

	count = min_u32(count, BATCH_COUNT_MAX);
	for (done = 1; done < count; done++) {
		const struct send_wqe *wqe = sq_at(sq, first + done);
		const uint8_t *from =
			batch_source(local, wqe, WR_RDMA_WRITE, LOCAL_STEP_BYTES - *bytes);
		uint8_t *to = from ? write_target(local, wqe) : NULL;

		if (!to)
			break;
		write_place(local, wqe, to, from);
		*bytes += wqe->total_bytes;
	}
	return done;
}

/*
 * Execute a batch of WRITEs under one in-use mark, which is for the first request's key. If the
 * owner has revoked the mark meanwhile, no request counts as executed, and local_execute() executes
 * all of them again.
 */
static inline uint32_t batch_write(struct local_initiator *local, struct send_queue *sq,
	const struct send_wqe *wqe, uint32_t count)
{
	struct request_channel *target = local->target;
	const uint8_t *from = batch_source(local, wqe, WR_RDMA_WRITE, LOCAL_STEP_BYTES);
	uint32_t revoked = channel_revoked(target);
	uint32_t bytes = wqe->total_bytes, done = 1;
	uint8_t *to;
	bool holds;

	if (!from || !batch_may_write(local) ||
		!channel_enter(target, local->generation, CHANNEL_USES_KEY | wqe->rkey))
		return 0;
	to = write_target(local, wqe);
	if (!to)
		to = write_target_keep(local, wqe);
	if (!to) {
		channel_leave(target);
		return 0;
	}
	write_place(local, wqe, to, from);
	if (count > 1)
		done = batch_write_more(local, sq, count, &bytes);
	holds = channel_mark_held_since(target, revoked);
	channel_leave(target);
	if (!holds)
		return 0;
	local_executed(local, &target->writes, done, bytes);
	return done;
}

/* --- SENDs --- */

/*
 * The receive request names a range that local->receive does not cover. Cache the region of that
 * range there.
 */
static __attribute__((noinline)) uint8_t *send_target_keep(
	struct local_initiator *local, const struct sge *sge, uint32_t bytes)
{
	const struct sge range = {sge->address, bytes, sge->lkey};
	const struct local_theirs theirs = {
		&range, 1, {local->target_recv_pd, 0}, MR_LOCAL_WRITE, &local->receive};

	return local_theirs_keep(local, &theirs);
}

/* Execute one SEND. Its in-use mark is cleared when its record is published. */
static inline bool batch_send_one(struct local_initiator *local, const struct send_wqe *wqe)
{
	const uint8_t *from = batch_source(local, wqe, WR_SEND, LOCAL_STEP_BYTES);
	uint32_t revoked = channel_revoked(local->target);
	uint64_t wr_id;
	struct sge sge;
	uint8_t *to;

	if (!from || !channel_has_room(local->target, &local->collected_seen))
		return false;
	prefetch_to_write(channel_place(local->target, local->target_ring));
	if (!rq_peek_first(local->target_rq, local->peer->base, local->peer->bytes,
		    &local->posted_seen, &wr_id, &sge))
		return false;
	local_prefetch(&local->receive, sge.address);
	if (sge.bytes < wqe->total_bytes || !local_begin(local, CHANNEL_USES_KEY | sge.lkey))
		return false;
	to = mr_cached_find(&local->receive, sge.lkey, MR_LOCAL_WRITE | MR_TOUCH, sge.address,
		wqe->total_bytes);
	if (!to)
		to = send_target_keep(local, &sge, wqe->total_bytes);
	if (!to)
		return false;
	copy_place_any(to, from, wqe->total_bytes);
	local->wait.is_waiting = false;
	return channel_mark_held_since(local->target, revoked) &&
		local_deliver(local, wqe, WC_RECV, wr_id);
}

static inline uint32_t batch_send(struct local_initiator *local, struct send_queue *sq,
	const struct send_wqe *wqe, uint32_t count)
{
	uint32_t first = sq->completed, done = 0;

	/*
	 * The fast path is only for a queue from which no other initiator may take receive
	 * requests.
	 */
	if (local->is_rq_shared || !local->target_rq)
		return 0;
	count = min_u32(count, BATCH_COUNT_MAX);
	while (batch_send_one(local, wqe) && ++done < count)
		wqe = sq_at(sq, first + done);
	local_end(local);
	return done;
}

/* --- both --- */

/*
 * Execute and complete the next requests, at most `count`, up to the first one that is not plain.
 * Returns the number of executed requests. The function is inlined, because the compiler shortens
 * it if `count` is constant.
 */
static inline uint32_t batch_execute(struct qp *qp, uint32_t count, uint64_t now_ns)
{
	struct local_initiator *local = qp->initiator;
	struct send_queue *sq = qp->sq;
	const struct send_wqe *wqe = sq_at(sq, sq->completed);
	uint32_t done;

	if (wqe->opcode == WR_RDMA_WRITE)
		done = batch_write(local, sq, wqe, count);
	else if (wqe->opcode == WR_SEND)
		done = batch_send(local, sq, wqe, count);
	else
		return 0;
	if (!done)
		return 0;
	if (lane_is_captured(qp->lane))
		local_capture_batch(local, done);
	qp_count(qp, COUNTER_local_requests, done);
	rc_requester_executed(rc_from_qp(qp), wqe, done, now_ns);
	return done;
}

/*
 * May requests of this queue pair use the fast path? Requests of XRC may not, because they name a
 * receive queue. Requests of UC may not, because the requester first checks that its earlier
 * packets have arrived.
 */
static inline bool batch_is_possible(struct qp *qp)
{
	return qp->type == QP_TYPE_RC && qp->state == QP_RTS && !local_is_paced(qp) &&
		!qp->has_alt_path && !qp_has_tags(qp) && rc_requester_is_at_rest(rc_from_qp(qp));
}

static __attribute__((noinline)) bool batches_execute(struct qp *qp, uint64_t now_ns)
{
	struct send_queue *sq = qp->sq;

	while (sq->posted != sq->completed)
		if (!batch_is_possible(qp) ||
			!batch_execute(qp, sq->posted - sq->completed, now_ns))
			return false;
	return true;
}

/*
 * channel_enter(), which sets the mark, checks whether the peer's channel is open, so this function
 * does not.
 */
__attribute__((flatten)) bool local_execute_posted(struct qp *qp, uint64_t now_ns)
{
	struct local_initiator *local = qp->initiator;
	const struct send_queue *sq = qp->sq;

	if (!local->target && !local_attach(qp))
		return false;
	if (sq->posted - sq->completed != 1)
		return batches_execute(qp, now_ns);
	return batch_is_possible(qp) && batch_execute(qp, 1, now_ns);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/local.h"

#include "base/once.h"
#include "local/initiator/shared.h"
#include "memory/mw.h"
#include "queue/rq_taker.h"

/* --- the target --- */

void local_establish(struct local_qp *local)
{
	struct qp *qp = local->qp;

	atomic_store_explicit(&local->channel->wants_first, 0, memory_order_relaxed);
	if (qp->state != QP_RTR || qp->is_comm_established)
		return;
	qp->is_comm_established = true;
	signal_raise(&qp->lane->signals, &qp->signal, SIGNAL_QP_ESTABLISHED);
}

/* Note that a record has taken a receive request of the queue pair's own queue. */
static void note_taken(struct local_qp *local, uint32_t taken)
{
	local->last_taken = taken;
	local->has_taken = true;
	rq_know_taken(local->qp->rq, taken);
}

/* Do other queue pairs take from the receive queue of this queue pair, too? */
static bool is_shared(const struct qp *qp)
{
	return qp->srq || qp->type == QP_TYPE_XRC_RECV;
}

/* --- invalid records --- */

/*
 * The initiator has published an invalid record, so none of its records can be trusted any more.
 * The queue pair fails, and its oldest receive request completes with FAULT_PEER_MEMORY.
 */
static __attribute__((cold, noinline)) void unsound_fail(struct local_qp *local, uint64_t now_ns)
{
	struct cqe cqe = {.opcode = WC_RECV};
	struct qp *qp = local->qp;
	struct recv_wqe wqe;

	lane_count_unsound(qp->lane);
	qp_count(qp, COUNTER_local_unsound, 1);
	local->is_unsound = true;
	channel_distrust(local->channel);
	if (qp->state == QP_ERR)
		return;
	if (qp->rq_offset && rq_take(qp->rq, &wqe))
		qp_complete_recv(qp, wqe.wr_id, &cqe, FAULT_PEER_MEMORY, false, now_ns);
	signal_raise(&qp->lane->signals, &qp->signal, SIGNAL_QP_FATAL);
	if (qp->state != QP_ERR)
		qp_set_state(qp, QP_ERR, now_ns);
}

/*
 * Take the next receive request of the queue pair's own queue. Returns false when the record names
 * another request, or `bytes` bytes do not fit into the request. *ret_wr_id comes from the queue,
 * not from the record.
 */
static bool own_redeem(struct local_qp *local, uint32_t taken, uint64_t bytes, uint64_t *ret_wr_id)
{
	const struct qp *qp = local->qp;
	uint64_t room_bytes;

	if (!qp->rq_offset || !rq_is_next(qp->rq, taken) ||
		!rq_look_back(qp->rq, taken, ret_wr_id, &room_bytes) || bytes > room_bytes)
		return false;
	note_taken(local, taken);
	return true;
}

/* own_redeem() for the shared queue `srq`. */
static bool shared_redeem(struct local_qp *local, struct srq *srq, uint64_t ticket, uint64_t bytes,
	uint64_t *ret_wr_id)
{
	struct recv_wqe wqe;

	if (srq->tags || !rq_redeem(srq->rq, ticket, &wqe) || bytes > wqe.total_bytes)
		return false;
	*ret_wr_id = wqe.wr_id;
	srq_note_taken(srq, &local->qp->lane->signals);
	return true;
}

static bool is_record(const struct channel_record *record)
{
	const uint32_t flags = WC_WITH_IMM | WC_WITH_INV;

	return (record->opcode == WC_RECV || record->opcode == WC_RECV_RDMA_WITH_IMM) &&
		!(record->flags & ~flags) && record->byte_count <= MESSAGE_BYTES_MAX;
}

/* Collect a record that is not for a plain SEND, or not for the queue pair's own receive queue. */
static __attribute__((noinline)) void collect_other(
	struct local_qp *local, const struct channel_record *place, uint64_t now_ns)
{
	const struct channel_record record = channel_record_read(place);
	struct qp *qp = local->qp;
	bool is_xrc = qp->type == QP_TYPE_XRC_RECV;
	struct srq *srq = shared_srq_of(qp, record.number);
	const struct mr_user user = {is_xrc && srq ? srq->pd : qp->pd, qp->qpn};
	/*
	 * The bytes that the initiator wrote to the receive buffer. A WRITE with immediate data
	 * writes no bytes there.
	 */
	uint64_t bytes = record.opcode == WC_RECV ? record.byte_count : 0;
	struct cqe cqe = {
		.opcode = record.opcode,
		.flags = record.flags,
		.byte_count = record.byte_count,
		.imm = record.imm,
	};
	uint64_t wr_id = 0;

	channel_collected(local->channel);
	if (record.opcode == CHANNEL_TAKEN && is_shared(qp)) {
		shared_collect(local, now_ns);
		return;
	}
	if (!is_record(&record) ||
		(!is_shared(qp) && !own_redeem(local, record.taken, bytes, &wr_id)) ||
		(srq && !shared_redeem(local, srq, record.wr_id, bytes, &wr_id))) {
		unsound_fail(local, now_ns);
		return;
	}
	if (record.opcode == WC_RECV)
		qp_count(qp, COUNTER_rdma_sends, 1);
	/*
	 * The initiator has checked the key. If the key is invalid now, the program has invalidated
	 * it since.
	 */
	if (record.flags & WC_WITH_INV)
		mw_invalidate(qp->lane->mrs, record.imm, user);
	if (!is_xrc)
		qp_complete_recv(qp, wr_id, &cqe, FAULT_NONE, record.is_solicited != 0, now_ns);
	else if (srq)
		qp_complete_recv_of(
			qp, srq, wr_id, &cqe, FAULT_NONE, record.is_solicited != 0, now_ns);
}

static void collect_one(
	struct local_qp *local, const struct channel_record *record, uint64_t now_ns)
{
	struct qp *qp = local->qp;
	uint32_t bytes = READ_ONCE(record->byte_count);
	uint64_t wr_id;

	if (is_shared(qp) || READ_ONCE(record->opcode) != WC_RECV || READ_ONCE(record->flags) ||
		READ_ONCE(record->is_solicited)) {
		collect_other(local, record, now_ns);
		return;
	}
	if (!own_redeem(local, READ_ONCE(record->taken), bytes, &wr_id)) {
		channel_collected(local->channel);
		unsound_fail(local, now_ns);
		return;
	}
	qp_count(qp, COUNTER_rdma_sends, 1);
	channel_collected(local->channel);
	qp_complete_message(qp, wr_id, bytes, now_ns);
}

uint32_t local_collect_channel(struct local_qp *local, uint64_t now_ns)
{
	const struct channel_record *record;
	uint32_t count = 0;

	/*
	 * Collect CHANNEL_RECORD_COUNT records at most, which is a full channel. The initiator
	 * rings the doorbell again for records that it publishes meanwhile.
	 */
	while (count < CHANNEL_RECORD_COUNT && !local->is_unsound &&
		(record = channel_next(local->channel, local->ring))) {
		collect_one(local, record, now_ns);
		count++;
	}
	if (count && local->watch) {
		local->watch->is_busy = true;
		local_watch_next(local);
	}
	return count;
}

/*
 * Collect the channel, and count its receive requests as taken. Usually the initiator counts a
 * request right after it has published its record, but it may have been killed in between.
 */
static void collect_all(struct local_qp *local, uint64_t now_ns)
{
	local_collect_channel(local, now_ns);
	if (local->has_taken)
		rq_count_taken(local->qp->rq, local->last_taken);
	local->has_taken = false;
}

static void qp_collect(struct qp *qp, uint64_t now_ns)
{
	collect_all(local_from_qp(qp), now_ns);
}

/* The most calls of local_owner.wait for a suspended initiator, about 50 ms */
enum { CLOSE_ROUNDS_MAX = 1200 };

bool local_wait(const struct local_qp *local)
{
	uint32_t round = 0;

	atomic_thread_fence(memory_order_seq_cst);
	return channel_wait(local->channel, local->owner, &round, CLOSE_ROUNDS_MAX);
}

/*
 * Close the channel, and wait until its mark is clear. Returns false when a suspended initiator
 * keeps the mark.
 */
static bool close_and_wait(struct local_qp *local)
{
	bool is_free;

	channel_close(local->channel, local->ring);
	is_free = local_wait(local);
	if (is_free) /* the initiator may be dead, and its mark still set */
		atomic_store(&local->channel->in_use, CHANNEL_IS_FREE);
	return is_free;
}

enum { FAREWELL_ROUNDS_MAX = 600 }; /* the most calls of local_owner.pause, about 20 ms */

/*
 * Wait, for a limited time, until the target has collected this queue pair's last records. Without
 * the wait, the target's program might learn first that the connection is over, and might stop
 * polling. Packets need no such wait, because their acknowledgements show that the target has
 * received them.
 */
static void wait_for_last_records(const struct local_qp *local)
{
	const struct local_initiator *initiator = local->qp->initiator;
	const struct request_channel *target = initiator->target;

	if (!target || !channel_has_uncollected(target, initiator->generation))
		return;
	local->peer->ops->kick(local->peer, target->lane);
	for (uint32_t round = 0; round < FAREWELL_ROUNDS_MAX; round++) {
		if (!channel_has_uncollected(target, initiator->generation))
			return;
		local->owner->pause(round);
	}
}

static void state_changed(struct qp *qp, enum qp_state old, uint64_t now_ns)
{
	struct local_qp *local = local_from_qp(qp);

	(void)old;
	switch (qp->state) {
	case QP_ERR:
	case QP_RESET:
	case QP_INIT:
		wait_for_last_records(local);
		close_and_wait(local);
		collect_all(local, now_ns);
		shared_reclaim(local, now_ns);
		local_watch_end(local);
		local_forget_peer(local);
		break;
	case QP_RTS:
		atomic_store_explicit(&local->channel->wants_first, 0, memory_order_relaxed);
		break;
	case QP_RTR:
	case QP_SQD:
	case QP_SQE:
	case QP_STATE_COUNT:
		break;
	}
}

enum { INVALIDATE_NS = 50000000 };

/*
 * Wait until the initiator no longer uses the invalidated key. The wait fails if the initiator is
 * suspended. Then the initiator may still write some bytes when it continues. These bytes do no
 * harm, because the program's memory there is still registered.
 */
static void qp_quiesce(struct qp *qp, uint32_t key)
{
	const struct local_qp *local = local_from_qp(qp);

	channel_quiesce(local->channel, local->owner, qp->lane->mrs, key,
		local->owner->now_ns() + INVALIDATE_NS);
}

static void qp_modified(struct qp *qp)
{
	uint32_t answers = qp->attr.max_dest_rd_atomic ? CHANNEL_ANSWERS : 0;

	atomic_store_explicit(&local_from_qp(qp)->channel->access, qp->attr.access | answers,
		memory_order_relaxed);
}

static bool has_arrived(const struct qp *qp, struct psn next)
{
	const struct request_channel *target = qp->initiator->target;

	return target &&
		atomic_load_explicit(&target->arrived, memory_order_acquire) ==
		channel_arrived(next.value, false);
}

static void packets_arrived(struct qp *qp, struct psn expected, bool keeps_receive)
{
	atomic_store_explicit(&local_from_qp(qp)->channel->arrived,
		channel_arrived(expected.value, keeps_receive), memory_order_release);
}

static const struct qp_local_ops ops = {
	.has_arrived = has_arrived,
	.arrived = packets_arrived,
	.can_execute = local_can_execute,
	.execute = local_execute,
	.collect = qp_collect,
	.state_changed = state_changed,
	.modified = qp_modified,
	.quiesce = qp_quiesce,
};

struct local_qp *local_connection_of(struct qp *qp)
{
	return qp && qp->local && qp->local->ops == &ops ? local_from_qp(qp) : NULL;
}

void local_connect(struct local_qp *local, struct local_initiator *initiator, struct qp *qp,
	const struct local_channel *place, struct peer *peer, const struct channel_table *table)
{
	struct request_channel *channel = place->channel;
	const struct arena *arena = qp->lane->arena;

	local->base.ops = &ops;
	local->qp = qp;
	local->owner = place->lane->owner;
	local->channel = channel;
	local->ring = place->ring;
	local->channel_offset = place->offset;
	local->lane = place->lane;
	local->peer = peer;
	local->table = table;
	channel->qpn = qp->qpn;
	channel->dest_qpn = qp->attr.dest_qpn;
	channel->rq_psn = qp->attr.rq_psn;
	channel->pd = qp->pd;
	channel->recv_pd = qp->recv_pd;
	channel->lane = qp->lane->index;
	channel->local = qp->attr.path.local;
	channel->remote = qp->attr.path.remote;
	channel->rq_offset = shared_rq_offset(qp);
	channel->is_rq_shared = qp->srq || qp->type == QP_TYPE_XRC_RECV;
	channel->xrcd = qp->xrcd;
	channel->srqs_offset = qp->type == QP_TYPE_XRC_RECV ? place->srqs_offset : 0;
	channel->cq_offset = qp->recv_cq ? arena_offset(arena, qp->recv_cq->ring) : 0;
	channel->ring_offset = place->ring_offset;
	channel->doorbell_offset = arena_offset(arena, arena_owners_side(place->lane->doorbell));
	atomic_store(&channel->writes, 0);
	atomic_store(&channel->reads, 0);
	atomic_store(&channel->atomics, 0);
	atomic_store(&channel->atomic_writes, 0);
	atomic_store(&channel->flushes, 0);
	atomic_store(&channel->bytes, 0);
	atomic_store_explicit(&channel->wants_first, qp->state == QP_RTR, memory_order_relaxed);
	atomic_store_explicit(&channel->is_watched, 0, memory_order_relaxed);
	atomic_store_explicit(&channel->arrived,
		channel_arrived(psn_from(qp->attr.rq_psn).value, false), memory_order_relaxed);
	qp->local = &local->base;
	qp->initiator = initiator;
	qp_modified(qp);
	atomic_store(&qp->public->channel_offset, place->offset);
	channel_open(channel, local->ring);
}

void local_forget_peer(struct local_qp *local)
{
	struct local_initiator *initiator = local->qp->initiator;

	local->peer = NULL;
	local->table = NULL;
	if (initiator->qp) { /* else its memory stays untouched */
		initiator->peer = NULL;
		initiator->target = NULL;
	}
}

/* Add the counters of the closing channel to the queue pair's. */
static void counters_take_over(struct qp *qp, const struct request_channel *channel)
{
	qp_count(qp, COUNTER_rdma_writes, atomic_load(&channel->writes));
	qp_count(qp, COUNTER_rdma_reads, atomic_load(&channel->reads));
	qp_count(qp, COUNTER_rdma_atomics, atomic_load(&channel->atomics));
	qp_count(qp, COUNTER_rdma_atomic_writes, atomic_load(&channel->atomic_writes));
	qp_count(qp, COUNTER_rdma_flushes, atomic_load(&channel->flushes));
	qp_count(qp, COUNTER_rcvd_bytes, atomic_load(&channel->bytes));
	qp_count(qp, COUNTER_local_bytes, atomic_load(&channel->bytes));
}

bool local_disconnect(struct local_qp *local, uint64_t now_ns)
{
	bool is_free;

	wait_for_last_records(local);
	is_free = close_and_wait(local);
	collect_all(local, now_ns);
	local_watch_end(local);
	local_collect(local->qp->lane, local->lane, now_ns);
	if (is_free)
		/* An initiator that died while it rang the doorbell may have left is_rung set */
		ready_reset(&local->channel->ready);
	else if (local->qp->srq)
		local->qp->srq->is_in_use = true;
	atomic_store(&local->qp->public->channel_offset, 0);
	counters_take_over(local->qp, local->channel);
	local->qp->local = NULL;
	local->qp->initiator = NULL;
	return is_free;
}

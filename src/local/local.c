/* SPDX-License-Identifier: BSD-2-Clause */
#include "local/local.h"

#include <assert.h>

#include "local/hosted.h"
#include "local/shared.h"
#include "memory/mw.h"

/* --- the target --- */

static void established(struct local_qp *local)
{
	struct qp *qp = local->qp;

	atomic_store_explicit(&local->inbox->wants_first, 0, memory_order_relaxed);
	if (qp->state != QP_RTR || qp->is_comm_established)
		return;
	qp->is_comm_established = true;
	signal_raise(&qp->lane->signals, &qp->signal, SIGNAL_QP_ESTABLISHED);
}

/* From the queue pair's own queue. */
static void note_taken(struct local_qp *local, const struct inbox_record *record)
{
	local->last_taken = record->taken;
	local->has_taken = true;
	rq_know_taken(local->qp->rq, record->taken);
}

/* Does the queue pair receive from a queue that others take from, too? */
static bool is_shared(const struct qp *qp)
{
	return qp->srq || qp->type == QP_TYPE_XRC_RECV;
}

/* One that is more than a SEND, or is not of the queue pair's own queue. */
static __attribute__((noinline)) void collect_other(
	struct local_qp *local, const struct inbox_record *record, uint64_t now_ns)
{
	struct qp *qp = local->qp;
	bool is_xrc = qp->type == QP_TYPE_XRC_RECV;
	struct srq *srq = shared_srq_of(qp, record->srqn);
	const struct mr_user user = {is_xrc && srq ? srq->pd : qp->pd, qp->qpn};
	struct cqe cqe = {
		.opcode = record->opcode,
		.flags = record->flags,
		.byte_count = record->byte_count,
		.imm = record->imm,
	};
	uint64_t wr_id = record->wr_id;
	bool is_solicited = record->is_solicited;

	if (!is_shared(qp))
		note_taken(local, record);
	else if (srq && !srq->afar)
		srq_note_taken(srq, &qp->lane->signals);
	if (record->opcode == INBOX_TAKEN) {
		shared_collect(local, now_ns);
		inbox_collected(local->inbox);
		return;
	}
	if (record->opcode == WC_RECV)
		qp_count(qp, COUNTER_rdma_sends, 1);
	/* The initiator has checked that it may; the program may have done it meanwhile. */
	if (record->flags & WC_WITH_INV)
		mw_invalidate(qp->lane->mrs, record->imm, user);
	inbox_collected(local->inbox);
	if (!is_xrc)
		qp_complete_recv(qp, wr_id, &cqe, FAULT_NONE, is_solicited, now_ns);
	else if (srq)
		qp_complete_recv_of(qp, srq, wr_id, &cqe, FAULT_NONE, is_solicited, now_ns);
}

static void collect_one(struct local_qp *local, const struct inbox_record *record, uint64_t now_ns)
{
	struct qp *qp = local->qp;
	uint64_t wr_id = record->wr_id;
	uint32_t bytes = record->byte_count;

	if (is_shared(qp) || record->opcode != WC_RECV || record->flags || record->is_solicited) {
		collect_other(local, record, now_ns);
		return;
	}
	note_taken(local, record);
	qp_count(qp, COUNTER_rdma_sends, 1);
	inbox_collected(local->inbox);
	qp_complete_message(qp, wr_id, bytes, now_ns);
}

/* Say where the next record will be. */
static void watch_next(struct local_qp *local)
{
	const struct inbox *inbox = local->inbox;
	uint32_t number = atomic_load_explicit(&inbox->collected, memory_order_relaxed);

	atomic_store_explicit(&local->watch->sequence,
		&inbox->record[number % INBOX_RECORD_COUNT].sequence, memory_order_relaxed);
	atomic_store_explicit(&local->watch->published,
		inbox_sequence(inbox_generation(inbox), number), memory_order_relaxed);
}

static uint32_t collect(struct local_qp *local, uint64_t now_ns)
{
	const struct inbox_record *record;
	uint32_t count = 0;

	while ((record = inbox_next(local->inbox))) {
		collect_one(local, record, now_ns);
		count++;
	}
	if (count && local->watch) {
		local->watch->is_busy = true;
		watch_next(local);
	}
	return count;
}

/*
 * Collect, and see to it that the receive requests count as taken. The initiator says so itself right after it has
 * published a record, unless it was killed.
 */
static void collect_all(struct local_qp *local, uint64_t now_ns)
{
	collect(local, now_ns);
	if (local->has_taken)
		rq_count_taken(local->qp->rq, local->last_taken);
	local->has_taken = false;
}

static void qp_collect(struct qp *qp, uint64_t now_ns)
{
	collect_all(local_from_qp(qp), now_ns);
}

/* --- watching --- */

/* Nobody rings for it any more. */
static void watch_begin(struct local_qp *local, struct local_watch *watch)
{
	watch->local = local;
	watch->is_busy = true;
	local->watch = watch;
	watch_next(local);
	atomic_store_explicit(&local->inbox->is_watched, 1, memory_order_relaxed);
}

/* Who publishes from here on rings; what was published before is found by the caller's next look. */
static void watch_leave(struct local_qp *local)
{
	atomic_store(&local->inbox->is_watched, 0);
	atomic_thread_fence(memory_order_seq_cst);
	local->watch = NULL;
}

static void watch_end(struct local_qp *local)
{
	struct local_lane *lane = local->lane;
	uint32_t last = atomic_load_explicit(&lane->watch_count, memory_order_relaxed) - 1;
	struct local_watch *watch = local->watch;

	if (!watch)
		return;
	watch_leave(local);
	if (watch != &lane->watch[last]) {
		watch->local = lane->watch[last].local;
		watch->is_busy = lane->watch[last].is_busy;
		watch->local->watch = watch;
		watch_next(watch->local);
	}
	atomic_store_explicit(&lane->watch_count, last, memory_order_relaxed);
}

/* The place of one that was silent since it was last asked for. NULL: there is none. */
static struct local_watch *watch_take_over(struct local_lane *lane, uint64_t now_ns)
{
	struct local_watch *watch = &lane->watch[lane->next_watch++ % LOCAL_WATCHED_MAX];
	struct local_qp *silent = watch->local;

	if (watch->is_busy) {
		watch->is_busy = false;
		return NULL;
	}
	watch_leave(silent);
	collect(silent, now_ns);
	return watch;
}

static void watch(struct local_qp *local, uint64_t now_ns)
{
	struct local_lane *lane = local->lane;
	uint32_t count = atomic_load_explicit(&lane->watch_count, memory_order_relaxed);
	struct local_watch *place =
		count < LOCAL_WATCHED_MAX ? &lane->watch[count] : watch_take_over(lane, now_ns);

	if (!place)
		return;
	watch_begin(local, place);
	if (count < LOCAL_WATCHED_MAX)
		atomic_store_explicit(&lane->watch_count, count + 1, memory_order_release);
}

static const struct qp_local_ops ops;

/* The queue pair whose inbox this is; NULL when it has none any more. */
static struct local_qp *owner_of(const struct lane *lane, const struct inbox *inbox)
{
	struct qp *qp = lane->qp_by_number[inbox->qpn % LANE_QP_COUNT_MAX];

	return qp && qp->local && qp->local->ops == &ops && local_from_qp(qp)->inbox == inbox
		? local_from_qp(qp)
		: NULL;
}

static uint32_t collect_watched(struct local_lane *lane, uint64_t now_ns)
{
	uint32_t count = 0;

	/* A queue pair that fails by what it collects leaves the list: another one takes its place. */
	for (uint32_t i = 0; i < atomic_load_explicit(&lane->watch_count, memory_order_relaxed);
		i++)
		count += collect(lane->watch[i].local, now_ns);
	return count;
}

uint32_t local_collect(struct lane *lane, struct local_lane *local_lane, uint64_t now_ns)
{
	uint32_t count = collect_watched(local_lane, now_ns);
	uint64_t offset = 0;

	if (atomic_load_explicit(&local_lane->bell->first_offset, memory_order_relaxed))
		offset = atomic_exchange(&local_lane->bell->first_offset, 0);
	while (offset) {
		struct inbox *inbox = arena_at(lane->arena, offset);
		struct local_qp *local = owner_of(lane, inbox);

		offset = inbox->next_offset;
		/* From here on it may be rung again: look at it after that. */
		atomic_exchange(&inbox->is_rung, 0);
		if (!local)
			continue;
		if (atomic_load_explicit(&inbox->wants_first, memory_order_relaxed))
			established(local);
		count += collect(local, now_ns);
		if (!local->watch && inbox_generation_is_open(inbox_generation(inbox)))
			watch(local, now_ns);
	}
	return count;
}

static bool is_in_use(const struct inbox *inbox)
{
	return atomic_load(&inbox->in_use) != INBOX_IS_FREE;
}

enum { CLOSE_ROUNDS_MAX = 1200 }; /* of local_owner.wait, for one that stands still */

bool local_wait(struct local_qp *local)
{
	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t round = 0; is_in_use(local->inbox); round++) {
		if (!local->owner->wait(local->inbox, round)) {
			atomic_store(&local->inbox->in_use, INBOX_IS_FREE); /* nobody's any more */
			return true;
		}
		if (round == CLOSE_ROUNDS_MAX)
			return false;
	}
	return true;
}

/* Let nobody in, and wait until nobody is. False when somebody stands still in there. */
static bool close_and_wait(struct local_qp *local)
{
	inbox_close(local->inbox);
	return local_wait(local);
}

enum { FAREWELL_ROUNDS_MAX = 600 }; /* of local_owner.pause */

/*
 * What this end has sent last is with the target's completion queue before anybody can hear, by other ways,
 * that the connection is over: programs that hear so look there no more. An acknowledgement says that of
 * packets. A target that does not come for it is not waited for long.
 */
static void farewell(const struct local_qp *local)
{
	const struct inbox *target = local->target;

	if (!target || !inbox_has_news(target, local->generation))
		return;
	local->peer->ops->kick(local->peer, target->lane);
	for (uint32_t round = 0; round < FAREWELL_ROUNDS_MAX; round++) {
		if (!inbox_has_news(target, local->generation))
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
		farewell(local);
		close_and_wait(local);
		collect_all(local, now_ns);
		shared_reclaim(local, now_ns);
		watch_end(local);
		local_forget_peer(local);
		break;
	case QP_RTS:
		atomic_store_explicit(&local->inbox->wants_first, 0, memory_order_relaxed);
		break;
	case QP_RTR:
	case QP_SQD:
	case QP_SQE:
	case QP_STATE_COUNT:
		break;
	}
}

void local_quiesce(const struct local_qp *local, const struct mr_table *mrs, uint32_t key)
{
	struct inbox *inbox = local->inbox;
	uint64_t mark;

	atomic_thread_fence(memory_order_seq_cst);
	for (uint32_t round = 0;; round++) {
		mark = atomic_load(&inbox->in_use);
		if (!(mark & INBOX_USES_KEY) || !mr_keys_may_meet(mrs, (uint32_t)mark, key))
			return;
		if (!local->owner->wait(inbox, round))
			return;
	}
}

static void quiesce(struct qp *qp, uint32_t key)
{
	local_quiesce(local_from_qp(qp), qp->lane->mrs, key);
}

static void modified(struct qp *qp)
{
	atomic_store_explicit(
		&local_from_qp(qp)->inbox->access, qp->attr.access, memory_order_relaxed);
}

static bool has_arrived(const struct qp *qp, struct psn next)
{
	const struct inbox *target = local_from_qp(qp)->target;

	return target &&
		atomic_load_explicit(&target->arrived, memory_order_acquire) ==
		inbox_arrived(next.value, false);
}

static void arrived(struct qp *qp, struct psn expected, bool keeps_receive)
{
	atomic_store_explicit(&local_from_qp(qp)->inbox->arrived,
		inbox_arrived(expected.value, keeps_receive), memory_order_release);
}

static const struct qp_local_ops ops = {
	.has_arrived = has_arrived,
	.arrived = arrived,
	.can_execute = local_can_execute,
	.execute = local_execute,
	.execute_row = local_execute_row,
	.collect = qp_collect,
	.state_changed = state_changed,
	.modified = modified,
	.quiesce = quiesce,
};

void local_connect(struct local_qp *local, struct qp *qp, const struct local_inbox *place,
	struct peer *peer, const struct inbox_table *table, const struct local_owner *owner)
{
	struct inbox *inbox = place->inbox;
	const struct arena *arena = qp->lane->arena;

	local->base.ops = &ops;
	local->qp = qp;
	local->owner = owner;
	local->inbox = inbox;
	local->inbox_offset = place->offset;
	local->lane = place->lane;
	list_init(&local->hosted);
	local->peer = peer;
	local->table = table;
	inbox->qpn = qp->qpn;
	inbox->dest_qpn = qp->attr.dest_qpn;
	inbox->rq_psn = qp->attr.rq_psn;
	inbox->pd = qp->pd;
	inbox->recv_pd = qp->recv_pd;
	inbox->lane = qp->lane->index;
	inbox->local = qp->attr.path.local;
	inbox->remote = qp->attr.path.remote;
	inbox->rq_offset = shared_rq_offset(qp);
	inbox->is_rq_shared = qp->srq || qp->type == QP_TYPE_XRC_RECV;
	inbox->xrcd = qp->xrcd;
	inbox->srqs_offset = qp->type == QP_TYPE_XRC_RECV ? place->srqs_offset : 0;
	inbox->cq_offset = qp->recv_cq ? arena_offset(arena, qp->recv_cq->ring) : 0;
	inbox->bell_offset = arena_offset(arena, place->lane->bell);
	atomic_store(&inbox->sends, 0);
	atomic_store(&inbox->writes, 0);
	atomic_store(&inbox->reads, 0);
	atomic_store(&inbox->atomics, 0);
	atomic_store(&inbox->atomic_writes, 0);
	atomic_store(&inbox->flushes, 0);
	atomic_store(&inbox->bytes, 0);
	atomic_store_explicit(&inbox->wants_first, qp->state == QP_RTR, memory_order_relaxed);
	atomic_store_explicit(&inbox->is_watched, 0, memory_order_relaxed);
	atomic_store_explicit(&inbox->arrived,
		inbox_arrived(psn_from(qp->attr.rq_psn).value, false), memory_order_relaxed);
	qp->local = &local->base;
	modified(qp);
	atomic_store(&qp->public->inbox_offset, place->offset);
	inbox_open(inbox);
}

void local_forget_peer(struct local_qp *local)
{
	local->peer = NULL;
	local->memory = NULL;
	local->table = NULL;
	local->target = NULL;
}

/* The inbox goes; what was counted there stays. */
static void counters_take_over(struct qp *qp, const struct inbox *inbox)
{
	qp_count(qp, COUNTER_rdma_sends, atomic_load(&inbox->sends));
	qp_count(qp, COUNTER_rdma_writes, atomic_load(&inbox->writes));
	qp_count(qp, COUNTER_rdma_reads, atomic_load(&inbox->reads));
	qp_count(qp, COUNTER_rdma_atomics, atomic_load(&inbox->atomics));
	qp_count(qp, COUNTER_rdma_atomic_writes, atomic_load(&inbox->atomic_writes));
	qp_count(qp, COUNTER_rdma_flushes, atomic_load(&inbox->flushes));
	qp_count(qp, COUNTER_rcvd_bytes, atomic_load(&inbox->bytes));
}

bool local_disconnect(struct local_qp *local, uint64_t now_ns)
{
	bool is_free;

	farewell(local);
	is_free = close_and_wait(local);
	collect_all(local, now_ns);
	hosted_end(local);
	watch_end(local);
	local_collect(local->qp->lane, local->lane, now_ns);
	if (is_free)
		atomic_store(&local->inbox->is_rung, 0); /* by one that died before it could */
	else if (local->qp->srq)
		local->qp->srq->is_stood_on = true;
	atomic_store(&local->qp->public->inbox_offset, 0);
	counters_take_over(local->qp, local->inbox);
	local->qp->local = NULL;
	return is_free;
}

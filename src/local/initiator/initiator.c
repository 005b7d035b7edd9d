/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executes work requests on the target's memory. The initiator makes the checks that the responder
 * would make (ib/rc/responder.c, ib/message.c), on the target's tables. A request that fails a
 * check falls back to packets.
 */
#include "local/initiator/initiator.h"

#include "base/once.h"
#include "base/prefetch.h"
#include "local/initiator/capture.h"
#include "local/initiator/shared.h"
#include "memory/copy.h"
#include "memory/mw.h"
#include "queue/rq_taker.h"

/* --- attaching --- */

static bool is_for(const struct request_channel *channel, const struct qp *qp)
{
	return channel->qpn == qp->attr.dest_qpn && channel->dest_qpn == qp->qpn &&
		channel->rq_psn == qp->attr.sq_psn &&
		gid_is_equal(&channel->local, &qp->attr.path.remote) &&
		gid_is_equal(&channel->remote, &qp->attr.path.local);
}

/* The target has opened another channel. Forget what was cached of the previous channel. */
static void begin_anew(struct local_initiator *local, struct request_channel *channel)
{
	local->is_inside = false;
	local->is_rq_shared = channel->is_rq_shared || local->target_srqs;
	local->target_srqn = SHARED_NO_SRQN;
	local->target_pd = channel->pd;
	local->target_recv_pd = channel->recv_pd;
	local->has_handed_over = false;
	local->is_invalidating = false;
	local->collected_seen = atomic_load_explicit(&channel->collected, memory_order_acquire);
	local->posted_seen = local->target_rq ? rq_taken(local->target_rq) : 0;
	local->taken_seen = local->posted_seen;
	local->remote = (struct mr_cached){.key_word = NULL};
	local->receive = (struct mr_cached){.key_word = NULL};
	/* UC may lose messages, so its requester may give up waiting for a receive request. */
	local->wait.gives_up = local->qp->type == QP_TYPE_UC;
	receive_wait_begin(&local->wait, local->target_rq);
}

bool local_attach(struct qp *qp)
{
	const struct local_qp *connection = local_from_qp(qp);
	struct local_initiator *local = qp->initiator;
	struct peer *peer = connection->peer;
	struct request_channel *channel;
	uint64_t offset;
	uint32_t generation;

	if (!connection->table)
		return false;
	local->qp = qp;
	local->peer = peer;
	offset = atomic_load_explicit(
		&connection->table->offset[qp->attr.dest_qpn % CHANNEL_TABLE_COUNT],
		memory_order_acquire);
	channel = peer_at_shared(peer, offset, sizeof(*channel));
	if (!channel)
		return false;
	generation = channel_generation(channel);
	if (!channel_generation_is_open(generation) ||
		!channel_enter(channel, generation, CHANNEL_PUBLISHES))
		return false;
	/*
	 * The mark is set, and the owner waits for it, so the fields of the channel do not change.
	 */
	bool is_ours = is_for(channel, qp);
	local->target_cq = peer_at(peer, READ_ONCE(channel->cq_offset), sizeof(struct cq_ring));
	local->target_doorbell =
		peer_at_shared(peer, READ_ONCE(channel->doorbell_offset), sizeof(struct doorbell));
	local->target_rq = peer_at(peer, READ_ONCE(channel->rq_offset), sizeof(struct recv_queue));
	local->target_srqs = qp->type == QP_TYPE_XRC_SEND
		? peer_at(peer, READ_ONCE(channel->srqs_offset), sizeof(struct srq_directory))
		: NULL;
	local->target_ring =
		peer_at_shared(peer, READ_ONCE(channel->ring_offset), sizeof(struct channel_ring));
	is_ours = is_ours && (local->target_cq || local->target_srqs) && local->target_doorbell &&
		local->target_ring;
	if (is_ours) {
		atomic_store(&channel->initiator, connection->owner->who);
		local->generation = generation;
		local->target_offset = offset;
		local->target = channel;
		begin_anew(local, channel);
	}
	channel_leave(channel);
	return is_ours;
}

bool local_can_execute(struct qp *qp, const struct send_wqe *wqe)
{
	struct local_initiator *local = qp->initiator;

	/*
	 * Rate limits, path migration and tag matching need packets. Tag matching does, because a
	 * rendezvous message is acknowledged only when its data has arrived, and a request without
	 * packets is complete at once.
	 */
	if (local_is_paced(qp) || qp->has_alt_path || qp_has_tags(qp) || !local_is_attached(qp))
		return false;
	switch ((int)wqe->opcode) {
	case WR_RDMA_WRITE:
	case WR_RDMA_READ:
	case WR_FLUSH:
		return true;
	case WR_SEND:
	case WR_SEND_WITH_IMM:
	case WR_SEND_WITH_INV:
	case WR_RDMA_WRITE_WITH_IMM:
		return local->target_rq || local->target_srqs;
	case WR_ATOMIC_CMP_AND_SWP:
	case WR_ATOMIC_FETCH_AND_ADD:
	case WR_ATOMIC_WRITE:
		return !local->has_unmapped_atomics || local->unmapped_key != wqe->rkey;
	default:
		return false;
	}
}

/* --- what a key names --- */

/* Move bytes between the request's local memory and the range that its remote key names. */
static bool move_remote(
	struct local_initiator *local, const struct send_wqe *wqe, uint32_t access, bool is_written)
{
	const struct request_channel *target = local->target;
	struct sge range = {wqe->remote_address, wqe->total_bytes, wqe->rkey};
	struct local_theirs theirs = {
		&range, 1, {local->target_pd, target->qpn}, access, &local->remote};
	uint32_t granted = atomic_load_explicit(&target->access, memory_order_relaxed);

	return (granted & access) && local_move(local, wqe, &theirs, is_written);
}

/* --- the first request --- */

void local_notify_first(struct local_initiator *local)
{
	struct request_channel *target = local->target;

	if (!local_begin(local, CHANNEL_PUBLISHES))
		return;
	doorbell_ring(local->target_doorbell, &target->ready, local->target_offset);
	local_end(local);
	local->peer->ops->kick(local->peer, target->lane);
}

/* --- messages --- */

/* No receive request is posted, or no record is free. Wait for a while, then use packets. */
static enum qp_local_result not_ready(
	struct local_initiator *local, uint64_t now_ns, uint64_t *ret_at_ns)
{
	enum qp_local_result result;

	local->wait.budget_ns = RECEIVE_WAIT_NS_MAX;
	result = receive_wait_for(&local->wait, local->target_rq, now_ns, ret_at_ns);
	if (receive_wait_is_new(&local->wait, now_ns) &&
		/* No record is free, so the target has to collect */
		!channel_has_room(local->target, &local->collected_seen))
		local->peer->ops->kick(local->peer, local->target->lane);
	return result;
}

/* Publish a record. The caller has set the mark. Returns false when the channel was closed. */
static bool record_publish(struct local_initiator *local, const struct channel_record *record)
{
	struct request_channel *target = local->target;

	if (!channel_publish(target, local->target_ring, local->generation, record))
		return false;
	if (!local->is_rq_shared)
		rq_count_taken(local->target_rq, record->taken);
	if (!atomic_load(&target->is_watched) ||
		atomic_load_explicit(&target->wants_first, memory_order_relaxed))
		doorbell_ring(local->target_doorbell, &target->ready, local->target_offset);
	return true;
}

bool local_deliver(
	struct local_initiator *local, const struct send_wqe *wqe, uint32_t opcode, uint64_t wr_id)
{
	struct request_channel *target = local->target;
	const struct wr_info *info = &wr_table[wqe->opcode];
	bool is_solicited = (wqe->flags & SEND_SOLICITED) != 0;
	struct channel_record record = {
		.wr_id = wr_id,
		.opcode = opcode,
		.flags = (info->has_imm ? WC_WITH_IMM : 0) |
			(info->has_invalidate ? WC_WITH_INV : 0),
		.byte_count = wqe->total_bytes,
		.imm = info->has_imm || info->has_invalidate ? wqe->imm : 0,
		.taken = rq_taken(local->target_rq),
		.is_solicited = is_solicited,
		.number = wqe->srqn,
	};

	/* If the message has bytes, the mark is set, because local_move() has set it. */
	if ((!local->is_inside && !local_begin(local, CHANNEL_PUBLISHES)) ||
		!record_publish(local, &record))
		return false;
	if (info->has_invalidate) {
		local->is_invalidating = true;
		local->invalidated_number =
			atomic_load_explicit(&target->count, memory_order_relaxed);
	}
	qp_expect_record(local->qp, channel_place(target, local->target_ring));
	local_count(&target->bytes, opcode == WC_RECV ? wqe->total_bytes : 0);
	local_end(local);
	if (atomic_load_explicit(&target->wants_first, memory_order_relaxed) ||
		(local->is_rq_shared && rq_note_low(local->target_rq)))
		local->peer->ops->kick(local->peer, target->lane);
	else
		peer_notify(local->peer, local->target_cq, target->lane, is_solicited);
	return true;
}

/*
 * Find the receive request for the next message. If the queue is shared, another initiator may take
 * the request before this one does. Returns false when no request is posted, or no record is free.
 */
static bool receive_peek(struct local_initiator *local, struct recv_wqe *receive)
{
	if (!channel_has_room(local->target, &local->collected_seen))
		return false;
	prefetch_to_write(channel_place(local->target, local->target_ring));
	return local->is_rq_shared ? shared_peek(local, receive)
				   : rq_peek(local->target_rq, local->peer->base,
					     local->peer->bytes, &local->posted_seen, receive);
}

/* --- keys that go with a message --- */

/* May the message invalidate the key that it names? */
static bool may_invalidate(const struct local_initiator *local, const struct send_wqe *wqe)
{
	const struct mr_user user = {local->target_pd, local->target->qpn};

	return !wr_table[wqe->opcode].has_invalidate ||
		mw_check(&local->peer->mrs, wqe->imm, user) == MR_OK;
}

bool local_invalidates_still(struct local_initiator *local)
{
	uint32_t collected = atomic_load_explicit(&local->target->collected, memory_order_acquire);

	local->is_invalidating = (int32_t)(local->invalidated_number - collected) > 0;
	return local->is_invalidating;
}

static bool names_key(const struct send_wqe *wqe)
{
	const struct wr_info *info = &wr_table[wqe->opcode];

	return info->operation != OPERATION_SEND || info->has_invalidate;
}

/* --- shared receive queues --- */

enum { FASTER_MAX = 1000 }; /* attempts to take a request before another initiator does */

/*
 * Take the receive request that receive_peek() has found, or a later one. Returns false when other
 * initiators have taken all.
 */
static bool shared_take_next(struct local_initiator *local, struct recv_wqe *receive)
{
	for (uint32_t attempt = 0; attempt < FASTER_MAX; attempt++) {
		if (shared_take(local, receive))
			return true;
		if (!receive_peek(local, receive))
			break;
	}
	return false;
}

/*
 * Execute a SEND to a shared receive queue. The receive request is taken before its buffer is
 * filled. The initiator makes all checks before it takes the request. So the copy fails only if the
 * owner has just removed the memory, or if pages of that memory are missing.
 */
static enum qp_local_result send_shared(struct local_initiator *local, const struct send_wqe *wqe,
	uint64_t now_ns, uint64_t *ret_at_ns)
{
	struct recv_wqe receive;
	struct local_theirs theirs = {
		.list = receive.sge,
		.user = {local->target_recv_pd, 0},
		.access = MR_LOCAL_WRITE,
		.cached = &local->receive,
	};
	uint32_t attempt = 0;

	do {
		if (attempt++ == FASTER_MAX)
			return QP_LOCAL_PACKETS;
		if (!receive_peek(local, &receive))
			return not_ready(local, now_ns, ret_at_ns);
		theirs.count = receive.sge_count;
		if (wqe->total_bytes > receive.total_bytes ||
			!local_may_move(local, wqe, &theirs, true))
			return QP_LOCAL_PACKETS;
		if (!local_begin(local, CHANNEL_PUBLISHES))
			return QP_LOCAL_PACKETS;
	} while (!shared_take(local, &receive));
	local->wait.is_waiting = false;
	if (local_move(local, wqe, &theirs, true) &&
		local_deliver(local, wqe, WC_RECV, receive.wr_id))
		return QP_LOCAL_DONE;
	shared_hand_over(local);
	return QP_LOCAL_PACKETS;
}

/*
 * Complete a WRITE WITH IMMEDIATE after its bytes were moved. The WRITE takes a receive request
 * from a shared receive queue.
 */
static enum qp_local_result imm_shared(struct local_initiator *local, const struct send_wqe *wqe,
	struct recv_wqe *receive, uint64_t now_ns, uint64_t *ret_at_ns)
{
	if (!local_begin(local, CHANNEL_PUBLISHES))
		return QP_LOCAL_PACKETS;
	if (!shared_take_next(local, receive))
		return not_ready(local, now_ns, ret_at_ns);
	if (local_deliver(local, wqe, WC_RECV_RDMA_WITH_IMM, receive->wr_id))
		return QP_LOCAL_DONE;
	shared_hand_over(local);
	return QP_LOCAL_PACKETS;
}

/* --- requests --- */

static enum qp_local_result send_execute(struct local_initiator *local, const struct send_wqe *wqe,
	uint64_t now_ns, uint64_t *ret_at_ns)
{
	struct recv_wqe receive;

	if (!may_invalidate(local, wqe))
		return QP_LOCAL_PACKETS;
	if (local->is_rq_shared)
		return send_shared(local, wqe, now_ns, ret_at_ns);
	if (!receive_peek(local, &receive))
		return not_ready(local, now_ns, ret_at_ns);
	local->wait.is_waiting = false;
	if (wqe->total_bytes && receive.sge_count)
		local_prefetch(&local->receive, receive.sge[0].address);

	struct local_theirs theirs = {
		receive.sge,
		receive.sge_count,
		{local->target_recv_pd, 0},
		MR_LOCAL_WRITE,
		&local->receive,
	};
	bool is_done = wqe->total_bytes <= receive.total_bytes &&
		local_move(local, wqe, &theirs, true) &&
		local_deliver(local, wqe, WC_RECV, receive.wr_id);

	return is_done ? QP_LOCAL_DONE : QP_LOCAL_PACKETS;
}

static enum qp_local_result write_execute(struct local_initiator *local, const struct send_wqe *wqe,
	uint64_t now_ns, uint64_t *ret_at_ns)
{
	bool has_imm = wr_table[wqe->opcode].has_imm;
	enum qp_local_result result;
	struct recv_wqe receive;

	if (has_imm && !receive_peek(local, &receive))
		return not_ready(local, now_ns, ret_at_ns);
	local->wait.is_waiting = false;
	if (!move_remote(local, wqe, MR_REMOTE_WRITE, true))
		return QP_LOCAL_PACKETS;
	if (has_imm && local->is_rq_shared) {
		result = imm_shared(local, wqe, &receive, now_ns, ret_at_ns);
		if (result != QP_LOCAL_DONE)
			return result;
	} else if (has_imm && !local_deliver(local, wqe, WC_RECV_RDMA_WITH_IMM, receive.wr_id))
		return QP_LOCAL_PACKETS;
	local_executed(local, &local->target->writes, 1, wqe->total_bytes);
	return QP_LOCAL_DONE;
}

static enum qp_local_result read_execute(struct local_initiator *local, const struct send_wqe *wqe)
{
	if (!move_remote(local, wqe, MR_REMOTE_READ, false))
		return QP_LOCAL_PACKETS;
	local_executed(local, &local->target->reads, 1, wqe->total_bytes);
	return QP_LOCAL_DONE;
}

/*
 * Do both ends permit requests that have an answer? If not, the request falls back to packets, and
 * this end's requester or the peer's responder refuses it.
 */
static bool may_be_answered(const struct local_initiator *local)
{
	uint32_t access = atomic_load_explicit(&local->target->access, memory_order_relaxed);

	return local->qp->attr.max_rd_atomic && (access & CHANNEL_ANSWERS);
}

enum qp_local_result local_execute(struct qp *qp, const struct send_wqe *wqe, uint64_t now_ns,
	uint64_t *ret_at_ns, enum fault *ret_fault)
{
	struct local_initiator *local = qp->initiator;
	enum qp_local_result result;

	if ((wr_table[wqe->opcode].has_answer && !may_be_answered(local)) ||
		(names_key(wqe) && local_is_invalidating(local)))
		return QP_LOCAL_PACKETS;
	if (local->target_srqs &&
		(!local_begin(local, CHANNEL_PUBLISHES) || !shared_select(local, wqe->srqn))) {
		local_end(local);
		qp_count(qp, COUNTER_local_declined, 1);
		return QP_LOCAL_PACKETS;
	}
	switch ((int)wr_table[wqe->opcode].operation) {
	case OPERATION_SEND:
		result = send_execute(local, wqe, now_ns, ret_at_ns);
		break;
	case OPERATION_WRITE:
		result = write_execute(local, wqe, now_ns, ret_at_ns);
		break;
	case OPERATION_READ:
		result = read_execute(local, wqe);
		break;
	case OPERATION_ATOMIC_WRITE:
		result = local_store_word(local, wqe);
		break;
	case OPERATION_FLUSH:
		result = local_flush(local, wqe);
		break;
	default:
		result = local_atomic(local, wqe, ret_fault);
		break;
	}
	local_end(local);
	if (lane_is_captured(qp->lane) && result <= QP_LOCAL_FAILED)
		local_capture(local, wqe);
	if (result == QP_LOCAL_DONE)
		qp_count(qp, COUNTER_local_requests, 1);
	else if (result == QP_LOCAL_PACKETS)
		qp_count(qp, COUNTER_local_declined, 1);
	return result;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executing work requests at their target. The checks are those of the responder (ib/rc/responder.c,
 * ib/message.c), on the target's tables; whatever they find, the answer is to send packets.
 */
#include "local/initiator.h"

#include "base/prefetch.h"
#include "local/capture.h"
#include "local/shared.h"
#include "memory/copy.h"
#include "memory/mw.h"

/* How long a message waits for a receive request here, before packets hear the peer say that there is none. */
#define PATIENCE_NS     4000000u
#define PATIENCE_NS_MIN 2000u
#define PATIENCE_NS_MAX 100000u

/* --- attaching --- */

static bool is_for(const struct inbox *inbox, const struct qp *qp)
{
	return inbox->qpn == qp->attr.dest_qpn && inbox->dest_qpn == qp->qpn &&
		inbox->rq_psn == qp->attr.sq_psn &&
		gid_is_equal(&inbox->local, &qp->attr.path.remote) &&
		gid_is_equal(&inbox->remote, &qp->attr.path.local);
}

/* What was kept is of another inbox. */
static void begin_anew(struct local_qp *local, struct inbox *inbox)
{
	local->is_inside = false;
	local->memory = local->peer;
	local->host = NULL;
	local->is_rq_shared = inbox->is_rq_shared || local->target_srqs;
	local->target_srqn = SHARED_NO_SRQN;
	local->target_pd = inbox->pd;
	local->target_recv_pd = inbox->recv_pd;
	local->has_handed_over = false;
	local->is_invalidating = false;
	local->collected_seen = atomic_load_explicit(&inbox->collected, memory_order_acquire);
	local->posted_seen = local->target_rq ? rq_taken(local->target_rq) : 0;
	local->taken_seen = local->posted_seen;
	local->remote = (struct mr_cached){.key_word = NULL};
	local->receive = (struct mr_cached){.key_word = NULL};
	/* Where messages may be lost, who has not begun to receive is not waited for. */
	local->has_given_up = local->qp->type == QP_TYPE_UC && local->target_rq &&
		rq_count(local->target_rq) == 0;
	local->given_up_posted = local->posted_seen;
}

bool local_attach(struct local_qp *local)
{
	const struct qp *qp = local->qp;
	struct peer *peer = local->peer;
	struct inbox *inbox;
	uint64_t offset;
	uint32_t generation;

	if (!local->table)
		return false;
	offset = atomic_load_explicit(
		&local->table->offset[qp->attr.dest_qpn % INBOX_TABLE_COUNT], memory_order_acquire);
	inbox = peer_at(peer, offset, sizeof(*inbox));
	if (!inbox)
		return false;
	generation = inbox_generation(inbox);
	if (!inbox_generation_is_open(generation) ||
		!inbox_enter(inbox, generation, INBOX_PUBLISHES))
		return false;
	/* It does not change while we are in it. */
	bool is_ours = is_for(inbox, qp);
	local->target_cq = peer_at(peer, inbox->cq_offset, sizeof(struct cq_ring));
	local->target_bell = peer_at(peer, inbox->bell_offset, sizeof(struct inbox_bell));
	local->target_rq = peer_at(peer, inbox->rq_offset, sizeof(struct recv_queue));
	local->target_srqs = peer_at(peer, inbox->srqs_offset, sizeof(struct srq_directory));
	is_ours = is_ours && (local->target_cq || local->target_srqs) && local->target_bell;
	if (is_ours) {
		atomic_store(&inbox->initiator, local->owner->who);
		local->generation = generation;
		local->target_offset = offset;
		local->target = inbox;
		begin_anew(local, inbox);
	}
	inbox_leave(inbox);
	return is_ours;
}

static bool is_attached(struct local_qp *local)
{
	const struct inbox *target = local->target;

	if (target && inbox_generation(target) == local->generation)
		return true;
	local->target = NULL;
	return local_attach(local);
}

bool local_can_execute(struct qp *qp, const struct send_wqe *wqe)
{
	struct local_qp *local = local_from_qp(qp);

	/*
	 * A rate is kept, and a path migrated, by packets. So is the order of a rendezvous: the data of a
	 * message has come before the message is acknowledged.
	 */
	if (qp->pace || qp->has_alt_path || qp_has_tags(qp) || !is_attached(local))
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
		return !local->has_far_atomics || local->far_key != wqe->rkey;
	default:
		return false;
	}
}

/* --- what a key names --- */

/* One range that a remote key names. */
static bool move_remote(
	struct local_qp *local, const struct send_wqe *wqe, uint32_t access, bool is_written)
{
	const struct inbox *target = local->target;
	struct sge range = {wqe->remote_address, wqe->total_bytes, wqe->rkey};
	struct local_theirs theirs = {
		&range, 1, {local->target_pd, target->qpn}, access, &local->remote};
	uint32_t granted = atomic_load_explicit(&target->access, memory_order_relaxed);

	return (granted & access) && local_move(local, wqe, &theirs, is_written);
}

/* --- telling --- */

/* Only this initiator counts there. */
static void count_add(_Atomic uint64_t *count, uint64_t amount)
{
	uint64_t value = atomic_load_explicit(count, memory_order_relaxed);

	atomic_store_explicit(count, value + amount, memory_order_relaxed);
}

/* The first request, and one that takes no receive request: the owner hears of it all the same. */
static void tell_first(struct local_qp *local)
{
	struct inbox *target = local->target;

	if (!local_begin(local, INBOX_PUBLISHES))
		return;
	inbox_ring(target, local->target_bell, local->target_offset);
	local_end(local);
	local->peer->ops->kick(local->peer, target->lane);
}

/* Some requests that take no receive request were executed, one or more. */
static void executed_some(
	struct local_qp *local, _Atomic uint64_t *count, uint32_t requests, uint32_t bytes)
{
	struct inbox *target = local->target;

	count_add(count, requests);
	count_add(&target->bytes, bytes);
	if (atomic_load_explicit(&target->wants_first, memory_order_relaxed))
		tell_first(local);
}

void local_executed(struct local_qp *local, _Atomic uint64_t *count, uint32_t bytes)
{
	executed_some(local, count, 1, bytes);
}

/* --- messages --- */

/* On an unreliable connection the message is lost if nobody posts a receive request: that is waited for once. */
static bool has_given_up(const struct local_qp *local)
{
	return local->has_given_up &&
		atomic_load_explicit(&local->target_rq->posted, memory_order_relaxed) ==
		local->given_up_posted;
}

static void give_up(struct local_qp *local)
{
	local->is_waiting = false;
	local->has_given_up = local->qp->type == QP_TYPE_UC;
	local->given_up_posted =
		atomic_load_explicit(&local->target_rq->posted, memory_order_relaxed);
}

/* A message is ready, and there is nobody to take it: wait a while, then let packets ask. */
static enum shortcut not_ready(struct local_qp *local, uint64_t now_ns, uint64_t *ret_at_ns)
{
	uint64_t waited_ns;

	if (has_given_up(local))
		return SHORTCUT_PACKETS;
	/* Who posts knows the time roughly only; who comes back because of a deadline has looked. */
	if (!local->is_waiting) {
		local->is_waiting = true;
		local->waiting_since_ns = 0;
		if (!inbox_has_room(local->target, &local->collected_seen)) /* nobody polls */
			local->peer->ops->kick(local->peer, local->target->lane);
	} else if (!local->waiting_since_ns) {
		local->waiting_since_ns = now_ns;
	}
	waited_ns = local->waiting_since_ns ? now_ns - local->waiting_since_ns : 0;
	if (waited_ns >= PATIENCE_NS) {
		give_up(local);
		return SHORTCUT_PACKETS;
	}
	*ret_at_ns = now_ns + min_u64(max_u64(waited_ns / 2, PATIENCE_NS_MIN), PATIENCE_NS_MAX);
	return SHORTCUT_LATER;
}

/* Publish while inside. */
static bool publish(struct local_qp *local, const struct inbox_record *record)
{
	struct inbox *target = local->target;

	if (!inbox_publish(target, local->generation, record))
		return false;
	if (!local->is_rq_shared)
		rq_count_taken(local->target_rq, record->taken);
	if (!atomic_load(&target->is_watched) ||
		atomic_load_explicit(&target->wants_first, memory_order_relaxed))
		inbox_ring(target, local->target_bell, local->target_offset);
	return true;
}

/* The receive request was filled: it is taken, and complete. False when the inbox was closed. */
static bool deliver(struct local_qp *local, const struct send_wqe *wqe, uint32_t opcode,
	const struct recv_wqe *receive)
{
	struct inbox *target = local->target;
	const struct wr_info *info = &wr_table[wqe->opcode];
	bool is_solicited = (wqe->flags & SEND_SOLICITED) != 0;
	struct inbox_record record = {
		.wr_id = receive->wr_id,
		.opcode = opcode,
		.flags = (info->has_imm ? WC_WITH_IMM : 0) |
			(info->has_invalidate ? WC_WITH_INV : 0),
		.byte_count = wqe->total_bytes,
		.imm = info->has_imm || info->has_invalidate ? wqe->imm : 0,
		.taken = rq_taken(local->target_rq),
		.is_solicited = is_solicited,
		.srqn = wqe->srqn,
	};

	/* With bytes to move, we are inside. */
	if ((!local->is_inside && !local_begin(local, INBOX_PUBLISHES)) || !publish(local, &record))
		return false;
	if (info->has_invalidate) {
		local->is_invalidating = true;
		local->invalidated_number =
			atomic_load_explicit(&target->count, memory_order_relaxed);
	}
	qp_expect_record(local->qp, inbox_place(target));
	count_add(&target->bytes, opcode == WC_RECV ? wqe->total_bytes : 0);
	local_end(local);
	if (atomic_load_explicit(&target->wants_first, memory_order_relaxed) ||
		(local->is_rq_shared && rq_note_low(local->target_rq)))
		local->peer->ops->kick(local->peer, target->lane);
	else
		peer_tell(local->peer, local->target_cq, target->lane, is_solicited);
	return true;
}

/* The receive request that the next message takes. If the queue is not shared, nobody else does meanwhile. */
static bool peek(struct local_qp *local, struct recv_wqe *receive)
{
	if (!inbox_has_room(local->target, &local->collected_seen))
		return false;
	prefetch_to_write(inbox_place(local->target));
	return local->is_rq_shared ? shared_peek(local, receive)
				   : rq_peek(local->target_rq, local->memory->base,
					     local->memory->bytes, &local->posted_seen, receive);
}

/* --- keys that go with a message --- */

/* May the message take away the key that it names? */
static bool may_invalidate(const struct local_qp *local, const struct send_wqe *wqe)
{
	const struct mr_user user = {local->target_pd, local->target->qpn};

	return !wr_table[wqe->opcode].has_invalidate ||
		(!local->host && mw_check(&local->peer->mrs, wqe->imm, user) == MR_OK);
}

/*
 * The key goes when the owner collects the message. Whoever names one before that has to come by packets, which
 * the owner looks at after the inbox.
 */
static bool is_invalidating(struct local_qp *local)
{
	uint32_t collected;

	if (!local->is_invalidating)
		return false;
	collected = atomic_load_explicit(&local->target->collected, memory_order_acquire);
	local->is_invalidating = (int32_t)(local->invalidated_number - collected) > 0;
	return local->is_invalidating;
}

static bool names_key(const struct send_wqe *wqe)
{
	const struct wr_info *info = &wr_table[wqe->opcode];

	return info->operation != OPERATION_SEND || info->has_invalidate;
}

/* --- shared receive queues --- */

/* Take the request that was looked at, or the next one. False: others have taken all there were. */
static bool take(struct local_qp *local, struct recv_wqe *receive)
{
	while (!shared_take(local, receive))
		if (!peek(local, receive))
			return false;
	return true;
}

static bool deliver_shared(struct local_qp *local, const struct send_wqe *wqe, uint32_t opcode,
	const struct recv_wqe *receive)
{
	return local->host ? hosted_deliver(local, wqe, opcode, receive)
			   : deliver(local, wqe, opcode, receive);
}

/* The request to fill has to be taken first: what may go wrong later than that is only that memory is not there. */
static enum shortcut send_shared(
	struct local_qp *local, const struct send_wqe *wqe, uint64_t now_ns, uint64_t *ret_at_ns)
{
	struct recv_wqe receive;
	struct local_theirs theirs = {
		.list = receive.sge,
		.user = {local->target_recv_pd, 0},
		.access = MR_LOCAL_WRITE,
		.cached = &local->receive,
	};

	do {
		if (!peek(local, &receive))
			return not_ready(local, now_ns, ret_at_ns);
		theirs.count = receive.sge_count;
		if (wqe->total_bytes > receive.total_bytes ||
			!local_may_move(local, wqe, &theirs, true))
			return SHORTCUT_PACKETS;
		if (!local_begin(local, INBOX_PUBLISHES))
			return SHORTCUT_PACKETS;
	} while (!shared_take(local, &receive));
	local->is_waiting = false;
	if (local_move(local, wqe, &theirs, true) && deliver_shared(local, wqe, WC_RECV, &receive))
		return SHORTCUT_DONE;
	shared_hand_over(local);
	return SHORTCUT_PACKETS;
}

/* The bytes of the WRITE are there. */
static enum shortcut imm_shared(struct local_qp *local, const struct send_wqe *wqe,
	struct recv_wqe *receive, uint64_t now_ns, uint64_t *ret_at_ns)
{
	if (!local_begin(local, INBOX_PUBLISHES))
		return SHORTCUT_PACKETS;
	if (!take(local, receive))
		return not_ready(local, now_ns, ret_at_ns);
	if (deliver_shared(local, wqe, WC_RECV_RDMA_WITH_IMM, receive))
		return SHORTCUT_DONE;
	shared_hand_over(local);
	return SHORTCUT_PACKETS;
}

/* --- requests --- */

static enum shortcut send_execute(
	struct local_qp *local, const struct send_wqe *wqe, uint64_t now_ns, uint64_t *ret_at_ns)
{
	struct recv_wqe receive;

	if (!may_invalidate(local, wqe))
		return SHORTCUT_PACKETS;
	if (local->is_rq_shared)
		return send_shared(local, wqe, now_ns, ret_at_ns);
	if (!peek(local, &receive))
		return not_ready(local, now_ns, ret_at_ns);
	local->is_waiting = false;
	if (wqe->total_bytes && receive.sge_count)
		local_foresee(&local->receive, receive.sge[0].address);

	struct local_theirs theirs = {
		receive.sge,
		receive.sge_count,
		{local->target_recv_pd, 0},
		MR_LOCAL_WRITE,
		&local->receive,
	};
	bool is_done = wqe->total_bytes <= receive.total_bytes &&
		local_move(local, wqe, &theirs, true) && deliver(local, wqe, WC_RECV, &receive);

	return is_done ? SHORTCUT_DONE : SHORTCUT_PACKETS;
}

static enum shortcut write_execute(
	struct local_qp *local, const struct send_wqe *wqe, uint64_t now_ns, uint64_t *ret_at_ns)
{
	bool has_imm = wr_table[wqe->opcode].has_imm;
	enum shortcut shortcut;
	struct recv_wqe receive;

	if (has_imm && !peek(local, &receive))
		return not_ready(local, now_ns, ret_at_ns);
	local->is_waiting = false;
	if (!move_remote(local, wqe, MR_REMOTE_WRITE, true))
		return SHORTCUT_PACKETS;
	if (has_imm && local->is_rq_shared) {
		shortcut = imm_shared(local, wqe, &receive, now_ns, ret_at_ns);
		if (shortcut != SHORTCUT_DONE)
			return shortcut;
	} else if (has_imm && !deliver(local, wqe, WC_RECV_RDMA_WITH_IMM, &receive))
		return SHORTCUT_PACKETS;
	local_executed(local, &local->target->writes, wqe->total_bytes);
	return SHORTCUT_DONE;
}

static enum shortcut read_execute(struct local_qp *local, const struct send_wqe *wqe)
{
	if (!move_remote(local, wqe, MR_REMOTE_READ, false))
		return SHORTCUT_PACKETS;
	local_executed(local, &local->target->reads, wqe->total_bytes);
	return SHORTCUT_DONE;
}

enum shortcut local_execute(struct qp *qp, const struct send_wqe *wqe, uint64_t now_ns,
	uint64_t *ret_at_ns, enum fault *ret_fault)
{
	struct local_qp *local = local_from_qp(qp);
	enum shortcut shortcut;

	if ((wr_table[wqe->opcode].has_answer && !qp->attr.max_rd_atomic) ||
		(names_key(wqe) && is_invalidating(local)))
		return SHORTCUT_PACKETS;
	if (local->target_srqs &&
		(!local_begin(local, INBOX_PUBLISHES) || !shared_select(local, wqe->srqn))) {
		local_end(local);
		qp_count(qp, COUNTER_local_declined, 1);
		return SHORTCUT_PACKETS;
	}
	switch ((int)wr_table[wqe->opcode].operation) {
	case OPERATION_SEND:
		shortcut = send_execute(local, wqe, now_ns, ret_at_ns);
		break;
	case OPERATION_WRITE:
		shortcut = write_execute(local, wqe, now_ns, ret_at_ns);
		break;
	case OPERATION_READ:
		shortcut = read_execute(local, wqe);
		break;
	case OPERATION_ATOMIC_WRITE:
		shortcut = local_store_word(local, wqe);
		break;
	case OPERATION_FLUSH:
		shortcut = local_flush(local, wqe);
		break;
	default:
		shortcut = local_atomic(local, wqe, ret_fault);
		break;
	}
	local_end(local);
	if (local->host)
		guest_leave(local->host->seat);
	if (lane_is_captured(qp->lane) && shortcut <= SHORTCUT_FAILED)
		local_capture(local, wqe);
	if (shortcut == SHORTCUT_DONE)
		qp_count(qp, COUNTER_local_requests, 1);
	else if (shortcut == SHORTCUT_PACKETS)
		qp_count(qp, COUNTER_local_declined, 1);
	return shortcut;
}

/* --- rows --- */

enum { ROW_COUNT_MAX = 64 };

/* Where the bytes of a plain request begin, of up to `limit_bytes`; NULL when it is none. */
static const uint8_t *row_from(struct local_qp *local, const struct send_wqe *wqe,
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

/* What the row's first request writes to was not written to last: the row is about that from here on. */
static uint8_t *row_begin(struct local_qp *local, const struct send_wqe *wqe)
{
	const struct sge range = {wqe->remote_address, wqe->total_bytes, wqe->rkey};
	const struct local_theirs theirs = {
		&range, 1, {local->target_pd, local->target->qpn}, MR_REMOTE_WRITE, &local->remote};

	return local_theirs_keep(local, &theirs);
}

/* Under the mark of the row's first key: another one is not found in what was kept. */
static bool row_write(struct local_qp *local, const struct send_wqe *wqe, uint32_t limit_bytes)
{
	const uint8_t *from = row_from(local, wqe, WR_RDMA_WRITE, limit_bytes);
	bool is_first = !local->is_inside;
	uint8_t *to;

	if (!from || (!local->is_inside && !local_begin(local, INBOX_USES_KEY | wqe->rkey)))
		return false;
	to = mr_cached_find(&local->remote, wqe->rkey, MR_REMOTE_WRITE | MR_TOUCH,
		wqe->remote_address, wqe->total_bytes);
	if (!to && is_first)
		to = row_begin(local, wqe);
	if (!to)
		return false;
	copy_place_next(&local->turn, to, from, wqe->total_bytes);
	qp_expect_write(local->qp, to, wqe->remote_address);
	return true;
}

static uint32_t write_row(struct local_qp *local, struct send_queue *sq, uint32_t count)
{
	uint32_t access = atomic_load_explicit(&local->target->access, memory_order_relaxed);
	uint32_t first = sq->completed, done = 0, bytes = 0;

	if (!(access & MR_REMOTE_WRITE) || is_invalidating(local))
		return 0;
	for (; done < count && row_write(local, sq_at(sq, first + done), LOCAL_STEP_BYTES - bytes);
		done++)
		bytes += sq_at(sq, first + done)->total_bytes;
	local_end(local);
	if (done)
		executed_some(local, &local->target->writes, done, bytes);
	return done;
}

/* A receive request for another place than the last one's. */
static uint8_t *row_receive(struct local_qp *local, const struct sge *sge, uint32_t bytes)
{
	const struct sge range = {sge->address, bytes, sge->lkey};
	const struct local_theirs theirs = {
		&range, 1, {local->target_recv_pd, 0}, MR_LOCAL_WRITE, &local->receive};

	return local_theirs_keep(local, &theirs);
}

/* Each under a mark of its own, which ends when it is delivered. */
static bool row_send(struct local_qp *local, const struct send_wqe *wqe)
{
	const uint8_t *from = row_from(local, wqe, WR_SEND, LOCAL_STEP_BYTES);
	const struct sge *sge;
	struct recv_wqe receive;
	uint8_t *to;

	if (!from || !peek(local, &receive) || !receive.sge_count)
		return false;
	sge = receive.sge;
	local_foresee(&local->receive, sge->address);
	if (sge->bytes < wqe->total_bytes || !local_begin(local, INBOX_USES_KEY | sge->lkey))
		return false;
	to = mr_cached_find(&local->receive, sge->lkey, MR_LOCAL_WRITE | MR_TOUCH, sge->address,
		wqe->total_bytes);
	if (!to)
		to = row_receive(local, sge, wqe->total_bytes);
	if (!to)
		return false;
	copy_place_next(&local->turn, to, from, wqe->total_bytes);
	local->is_waiting = false;
	return deliver(local, wqe, WC_RECV, &receive);
}

static uint32_t send_row(struct local_qp *local, struct send_queue *sq, uint32_t count)
{
	uint32_t first = sq->completed, done = 0;

	if (local->is_rq_shared || !local->target_rq)
		return 0;
	while (done < count && row_send(local, sq_at(sq, first + done)))
		done++;
	local_end(local);
	return done;
}

/* Each request to an XRC target has a queue of its own, and is none of a row. */
uint32_t local_execute_row(struct qp *qp, uint32_t count)
{
	struct local_qp *local = local_from_qp(qp);
	struct send_queue *sq = qp->sq;
	uint32_t opcode = sq_at(sq, sq->completed)->opcode;
	uint32_t done;

	if ((opcode != WR_RDMA_WRITE && opcode != WR_SEND) || qp->pace || qp->has_alt_path ||
		qp_has_tags(qp) || lane_is_captured(qp->lane) || !is_attached(local) ||
		local->target_srqs)
		return 0;
	count = min_u32(count, ROW_COUNT_MAX);
	done = opcode == WR_SEND ? send_row(local, sq, count) : write_row(local, sq, count);
	if (done)
		qp_count(qp, COUNTER_local_requests, done);
	return done;
}

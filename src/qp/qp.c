/* SPDX-License-Identifier: BSD-2-Clause */
#include "qp/qp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/mw.h"
#include "qp/qp_report.h"
#include "queue/tags.h"

static_assert(sizeof(struct qp_public) <= 128,
	"each queue pair has one block of NIC memory for its public state, of a power of two bytes: "
	"raise this limit to 256 only if each idle queue pair may take that much");
static_assert(sizeof(struct counters) <= 1024,
	"each queue pair has one block of NIC memory for its counters, of a power of two bytes: "
	"raise this limit to 2048 only if each busy queue pair may take that much");

/* Does the shared receive queue match tags? If so, only the NIC posts to the send queue. */
static bool init_has_tags(const struct qp_init *init)
{
	return init->srq && init->srq->tags;
}

/* Take the queue pair's NIC memory: queues, cold part, public state. Returns 0 or -ENOMEM. */
static int memory_take(struct qp *qp, struct arena *arena, const struct qp_init *init,
	const struct qp_transport *transport)
{
	static const struct qp_caps tags_caps = {.send_depth = TAGS_SEND_DEPTH,
		.send_sge_max = SGE_COUNT_MAX,
		.inline_bytes_max = TAGS_INLINE_BYTES};
	const struct qp_caps *caps = init_has_tags(init) ? &tags_caps : &init->caps;
	uint64_t cold_offset = 0, counters_offset;

	qp->sq_offset =
		sq_create(arena, caps->send_depth, caps->send_sge_max, caps->inline_bytes_max);
	if (!qp->sq_offset)
		return -ENOMEM;
	if (!init->srq && init->type != QP_TYPE_XRC_SEND && init->type != QP_TYPE_XRC_RECV) {
		qp->rq_offset = rq_create(arena, caps->recv_depth, caps->recv_sge_max);
		if (!qp->rq_offset)
			goto fail_destroy_sq;
	}
	if (transport->cold_bytes) {
		cold_offset = arena_alloc(arena, transport->cold_bytes);
		if (!cold_offset)
			goto fail_destroy_rq;
		qp->cold = arena_at(arena, cold_offset);
	}
	counters_offset = arena_alloc(arena, sizeof(struct counters));
	if (!counters_offset)
		goto fail_free_cold;
	qp->counters = arena_at(arena, counters_offset);
	qp->public_offset = arena_alloc(arena, sizeof(struct qp_public));
	if (!qp->public_offset)
		goto fail_free_counters;
	return 0;

fail_free_counters:
	arena_free(arena, counters_offset);
fail_free_cold:
	arena_free(arena, cold_offset);
fail_destroy_rq:
	rq_destroy(arena, qp->rq_offset);
fail_destroy_sq:
	sq_destroy(arena, qp->sq_offset);
	return -ENOMEM;
}

static void queues_use(struct qp *qp, struct arena *arena, const struct qp_init *init)
{
	qp->send_cq = init->send_cq;
	qp->recv_cq = init->recv_cq;
	qp->sq = arena_at(arena, qp->sq_offset);
	if (init_has_tags(init))
		qp->sq->depth = 0; /* the program has no send queue */
	qp->srq = init->srq;
	if (init->srq)
		qp->rq = init->srq->rq;
	else if (qp->rq_offset)
		qp->rq = arena_at(arena, qp->rq_offset);
}

static void public_fill(struct qp *qp, struct arena *arena, const struct qp_init *init)
{
	qp->public = arena_at(arena, qp->public_offset);
	qp->public->qpn = qp->qpn;
	qp->public->type = (uint16_t)init->type;
	qp->public->counters_offset = arena_offset(arena, qp->counters);
	qp->public->sq_offset = qp->sq_offset;
	qp->public->rq_offset = qp->rq ? arena_offset(arena, qp->rq) : 0;
	qp->public->owner = init->owner;
}

int qp_init(struct qp *qp, struct lane *lane, const struct qp_init *init, uint32_t qpn,
	const struct qp_transport *transport)
{
	if (lane->impair) {
		qp->impair = calloc(1, sizeof(*qp->impair));
		if (!qp->impair)
			return -ENOMEM;
	}
	if (memory_take(qp, lane->arena, init, transport)) {
		free(qp->impair);
		return -ENOMEM;
	}
	qp->lane = lane;
	qp->transport = transport;
	qp->type = init->type;
	qp->qpn = qpn;
	qp->pd = init->pd;
	qp->recv_pd = init->srq ? init->srq->pd : init->pd;
	qp->mtu_bytes = init->mtu_bytes;
	qp->pkey = BTH_PKEY_DEFAULT;
	queues_use(qp, lane->arena, init);
	qp->xrcd = init->xrcd;
	qp->is_xrcd_shared = init->file.inode != 0;
	qp->is_all_signaled = init->is_all_signaled;
	qp->caps = init->caps;
	qp->user = init->user;
	qp->signal.kind = SIGNAL_KIND_QP;
	list_init(&qp->tx_link);
	public_fill(qp, lane->arena, init);
	return 0;
}

/*
 * Invalidate the windows of type 2 that were bound on this queue pair, because they belong to its
 * connection.
 */
static void windows_release(struct qp *qp)
{
	if (qp->has_bound_windows)
		mw_release(qp->lane->mrs, qp->qpn);
	qp->has_bound_windows = false;
}

/*
 * Remove the completions of the queue pair from its completion queues. Those of an XRC_RECV queue
 * pair stay, because they belong to the shared receive queues.
 */
static void completions_forget(struct qp *qp)
{
	if (qp->type == QP_TYPE_XRC_RECV)
		return;
	cq_forget_qp(qp->send_cq, qp->qpn);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		cq_forget_qp(qp->recv_cq, qp->qpn);
}

void qp_done(struct qp *qp)
{
	struct arena *arena = qp->lane->arena;

	free(qp->impair);
	list_remove(&qp->tx_link);
	qp_set_deadline(qp, DEADLINE_NEVER);
	congestion_done(qp);
	pace_done(qp);
	signal_forget(&qp->lane->signals, &qp->signal);
	completions_forget(qp);
	windows_release(qp);
	arena_free(arena, qp->public_offset);
	arena_free(arena, arena_offset(arena, qp->counters));
	if (qp->cold)
		arena_free(arena, arena_offset(arena, qp->cold));
	rq_destroy(arena, qp->rq_offset);
	sq_destroy(arena, qp->sq_offset);
}

void qp_schedule(struct qp *qp, enum lane_tx list)
{
	if (qp->tx_list >= list)
		return;
	list_remove(&qp->tx_link);
	list_append(list == LANE_TX_DATA ? &qp->lane->tx_data : &qp->lane->tx_ack, &qp->tx_link);
	qp->tx_list = list;
}

/*
 * The completion queue has overrun, so the queue pair cannot report completions any more and fails
 * (IBTA C11-39).
 */
static void report_none(struct qp *qp, uint64_t now_ns)
{
	if (qp->state == QP_ERR || qp->state == QP_RESET)
		return;
	signal_raise(&qp->lane->signals, &qp->signal, SIGNAL_QP_FATAL);
	qp_report(qp, REASON_CQ_OVERRUN, false, now_ns);
	qp_set_state(qp, QP_ERR, now_ns);
}

int qp_attach_counter(
	struct qp *qp, enum counted_operation operations, struct completion_counter *counter)
{
	if (qp->state != QP_RESET && qp->state != QP_INIT)
		return -EINVAL;
	if (qp->counted & operations)
		return -EBUSY;
	qp->counted |= (uint8_t)operations;
	for (uint32_t bit = 0; bit < COUNTED_BITS; bit++)
		if (operations & 1u << bit)
			qp->completion_counters[bit] = counter;
	return 0;
}

/* Count a completion, before the program can see it in a completion queue. */
static void completion_count(
	const struct qp *qp, enum wc_opcode opcode, enum fault fault, uint32_t bytes)
{
	uint32_t operation = counted_operation_of(opcode) & qp->counted;
	struct completion_counter *counter;

	if (!operation)
		return;
	counter = qp->completion_counters[__builtin_ctz(operation)];
	if (fault == FAULT_NONE)
		completion_counter_add(
			counter, COMPLETION_SUCCESS, counter->counts_bytes ? bytes : 1);
	else
		completion_counter_add(counter, COMPLETION_ERROR, 1);
}

static void flush_push(
	struct qp *qp, struct cq *cq, const struct cqe *cqe, bool is_solicited, uint64_t now_ns)
{
	struct lane *lane = qp->lane;

	if (cq_hand_over(lane->taker, cq, lane->arena, cqe) ||
		cq_push(cq, lane->arena, cqe, is_solicited, &lane->signals))
		qp_count(qp, COUNTER_completions, 1);
	else
		report_none(qp, now_ns);
}

/*
 * Complete a send request that the NIC itself has posted, for a rendezvous (ib/tagged.h). Only the
 * READ makes a completion, which is a receive completion.
 */
static void complete_rendezvous(
	struct qp *qp, const struct send_wqe *wqe, enum fault fault, uint64_t now_ns)
{
	struct cqe cqe = {
		.opcode = WC_TM_RECV,
		.flags = WC_TM_DATA_VALID,
		.byte_count = wqe->total_bytes,
	};

	sq_release(qp->sq, qp->sq->completed - 1);
	if (wqe->opcode == WR_RDMA_READ)
		qp_complete_recv(qp, wqe->wr_id, &cqe, fault, false, now_ns);
}

void qp_complete_send(struct qp *qp, enum fault fault, uint64_t now_ns)
{
	struct send_queue *sq = qp->sq;
	struct lane *lane = qp->lane;
	const struct send_wqe *wqe = sq_at(sq, sq->completed);
	uint32_t index = sq->completed;
	bool is_handed_over;
	struct cqe *cqe;

	assert(sq->completed != sq->posted);
	if (fault != FAULT_NONE)
		qp_report_send(qp, wqe, fault, now_ns);
	sq->completed++;
	if (qp_has_tags(qp)) {
		complete_rendezvous(qp, wqe, fault, now_ns);
		return;
	}
	if (qp->counted)
		completion_count(qp, (enum wc_opcode)wr_table[wqe->opcode].wc_opcode, fault,
			wqe->total_bytes);
	if (fault == FAULT_NONE && !qp_is_signaled(qp, wqe))
		return;

	cqe = cq_hand_over_begin(lane->taker, qp->send_cq);
	is_handed_over = cqe != NULL;
	if (!cqe)
		cqe = cq_push_begin(qp->send_cq, lane->arena, &lane->signals);
	if (!cqe) {
		report_none(qp, now_ns);
		return;
	}
	*cqe = (struct cqe){
		.wr_id = wqe->wr_id,
		.queue_offset = qp->sq_offset,
		.queue_index = index,
		.status = fault == FAULT_NONE ? WC_SUCCESS : fault_status(fault),
		.opcode = wr_table[wqe->opcode].wc_opcode,
		.fault = fault,
		.byte_count = wqe->total_bytes,
		.qpn = qp->qpn,
		.made_ns = now_ns,
	};
	trace_completion(qp->qpn, wqe->wr_id, cqe->status, fault, wqe->total_bytes);
	qp_event(qp->lane, qp, CAPTURED_COMPLETION, wqe->wr_id, cqe->status, wqe->total_bytes,
		cqe->opcode);
	if (is_handed_over) {
		lane->taker->taken++;
		sq_release(sq, index);
	} else {
		cq_push_end(qp->send_cq, cqe, false, &lane->signals);
	}
	qp_count(qp, COUNTER_completions, 1);
}

void qp_fail_send(struct qp *qp, enum fault fault, uint64_t now_ns)
{
	qp_complete_send(qp, fault, now_ns);
	if (qp->state != QP_ERR)
		qp_set_state(qp, QP_SQE, now_ns);
}

/* Fill in the fields of a receive completion that its caller has not set, and count it. */
static void recv_fill(
	struct qp *qp, uint64_t wr_id, struct cqe *cqe, enum fault fault, uint64_t now_ns)
{
	if (fault != FAULT_NONE)
		qp_report_recv(qp, wr_id, fault, now_ns);
	cqe->wr_id = wr_id;
	cqe->status = fault_status(fault);
	cqe->fault = fault;
	cqe->qpn = qp->qpn;
	cqe->made_ns = now_ns;
	trace_completion(qp->qpn, wr_id, cqe->status, fault, cqe->byte_count);
	qp_event(qp->lane, qp, CAPTURED_COMPLETION, wr_id, cqe->status, cqe->byte_count,
		cqe->opcode);
	if (qp->counted)
		completion_count(qp, (enum wc_opcode)cqe->opcode, fault, cqe->byte_count);
}

void qp_complete_recv_of(struct qp *qp, struct srq *srq, uint64_t wr_id, struct cqe *cqe,
	enum fault fault, bool is_solicited, uint64_t now_ns)
{
	recv_fill(qp, wr_id, cqe, fault, now_ns);
	if (srq->borrowed)
		srq->borrowed->complete(srq, qp->lane, cqe, is_solicited);
	else
		flush_push(qp, srq->cq, cqe, is_solicited, now_ns);
}

void qp_take_on(struct qp *qp, struct srq *srq)
{
	qp->srq = srq;
	qp->rq = srq->rq;
	qp->recv_cq = srq->cq;
	qp->pd = srq->pd;
	qp->recv_pd = srq->pd;
}

void qp_complete_recv(struct qp *qp, uint64_t wr_id, struct cqe *cqe, enum fault fault,
	bool is_solicited, uint64_t now_ns)
{
	if (qp->srq && qp->srq->borrowed) {
		qp_complete_recv_of(qp, qp->srq, wr_id, cqe, fault, is_solicited, now_ns);
		return;
	}
	recv_fill(qp, wr_id, cqe, fault, now_ns);
	flush_push(qp, qp->recv_cq, cqe, is_solicited, now_ns);
}

void qp_complete_message(struct qp *qp, uint64_t wr_id, uint32_t bytes, uint64_t now_ns)
{
	struct cq_taker *taker = qp->lane->taker;
	struct cqe *place = qp->srq ? NULL : cq_hand_over_begin(taker, qp->recv_cq);

	if (!place) {
		struct cqe cqe = {.opcode = WC_RECV, .byte_count = bytes};

		qp_complete_recv(qp, wr_id, &cqe, FAULT_NONE, false, now_ns);
		return;
	}
	if (qp->counted)
		completion_count(qp, WC_RECV, FAULT_NONE, bytes);
	*place = (struct cqe){
		.wr_id = wr_id,
		.status = WC_SUCCESS,
		.opcode = WC_RECV,
		.fault = FAULT_NONE,
		.byte_count = bytes,
		.qpn = qp->qpn,
		.made_ns = now_ns,
	};
	trace_completion(qp->qpn, wr_id, WC_SUCCESS, FAULT_NONE, bytes);
	qp_event(qp->lane, qp, CAPTURED_COMPLETION, wr_id, WC_SUCCESS, bytes, WC_RECV);
	taker->taken++;
	qp_count(qp, COUNTER_completions, 1);
}

void qp_flush(struct qp *qp, uint64_t now_ns)
{
	struct recv_wqe wqe;

	while (qp->sq->completed != qp->sq->posted)
		qp_complete_send(qp, FAULT_FLUSHED, now_ns);
	while (qp->rq_offset && qp->state == QP_ERR && rq_take(qp->rq, &wqe)) {
		struct cqe cqe = {.opcode = WC_RECV};

		qp_complete_recv(qp, wqe.wr_id, &cqe, FAULT_FLUSHED, false, now_ns);
	}
}

void qp_sq_drained(struct qp *qp)
{
	if (qp->is_sq_draining && qp->attr.has_drain_event)
		signal_raise(&qp->lane->signals, &qp->signal, SIGNAL_QP_DRAINED);
	qp->is_sq_draining = false;
}

void qp_set_state(struct qp *qp, enum qp_state state, uint64_t now_ns)
{
	enum qp_state old = qp->state;

	qp->state = state;
	trace_state_changed(qp->qpn, old, state);
	qp_event(qp->lane, qp, CAPTURED_STATE, 0, state, 0, old);
	qp->is_sq_draining = state == QP_SQD && (old != QP_SQD || qp->is_sq_draining);
	atomic_store_explicit(&qp->public->state, (uint16_t)state, memory_order_relaxed);
	qp->transport->state_changed(qp, old, now_ns);
	if (qp->local)
		qp->local->ops->state_changed(qp, old, now_ns);
	if (state == QP_SQE && old != QP_SQE)
		qp_flush(qp, now_ns);
	if (state == QP_ERR && old != QP_ERR) {
		qp->is_cnp_pending = false;
		qp_flush(qp, now_ns);
		if (qp->srq && qp->type != QP_TYPE_XRC_RECV)
			signal_raise(&qp->lane->signals, &qp->signal, SIGNAL_QP_LAST_WQE);
	}
	if (state == QP_RESET) {
		completions_forget(qp);
		qp->sq->posted = 0;
		qp->sq->completed = 0;
		atomic_store_explicit(&qp->sq->released, 0, memory_order_release);
		if (qp->rq_offset)
			rq_reset(qp->rq);
		windows_release(qp);
		qp->is_comm_established = false;
		qp->is_peer_missing = false;
		qp->has_alt_path = false;
		memset(&qp->attr, 0, sizeof(qp->attr));
		qp->peer_port = 0;
		qp->first_reason = FAULT_NONE;
		if (qp->impair)
			impair_flow_reset(qp->impair);
		congestion_reset(qp);
		pace_update(qp);
	}
}

enum packet_verdict qp_refuse_packet(struct qp *qp, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns)
{
	(void)packet;
	(void)origin;
	(void)now_ns;
	qp_count(qp, COUNTER_bad_state_drops, 1);
	return PACKET_DROPPED;
}

size_t qp_has_no_packets(struct qp *qp, struct packet_run *run, uint64_t now_ns)
{
	(void)qp;
	(void)run;
	(void)now_ns;
	return 0;
}

/*
 * Post a request whose opcode has no scatter/gather list. If the program has set a list all the
 * same, this function ignores it.
 */
static int post_bare(struct qp *qp, const struct send_wr *wr)
{
	struct send_wr bare = *wr;
	int error;

	bare.sge_count = 0;
	bare.flags &= ~(uint32_t)SEND_INLINE;
	error = sq_post(qp->sq, &bare, 0);
	if (error)
		return error;
	qp_count(qp, COUNTER_posted_sends, 1);
	trace_post_send(qp->qpn, wr->wr_id, wr->opcode, 0, 1);
	qp_event(qp->lane, qp, CAPTURED_POST, wr->wr_id, wr->opcode, 0, 1);
	return 0;
}

/*
 * May this opcode be posted? A UD queue pair accepts RDMA and atomic requests, and completes them
 * with an error (ib/ud).
 */
static bool is_opcode_taken(const struct qp *qp, uint32_t opcode)
{
	const struct wr_info *info = &wr_table[opcode];

	return (info->type_mask & 1u << qp->type) || (qp->type == QP_TYPE_UD && info->has_list);
}

static uint64_t list_bytes(const struct send_wr *wr)
{
	return sge_total_bytes(wr->sge, wr->sge_count);
}

/*
 * Check the length of a scatter/gather list, `total_bytes`, and whether the list may be inline
 * data.
 */
static enum reason list_refusal(const struct qp *qp, const struct send_wr *wr, uint64_t total_bytes)
{
	bool is_inline = wr->flags & SEND_INLINE;

	if (is_inline && wr_table[wr->opcode].fills_list)
		/* The peer's response fills the list, so there is nothing to send inline. */
		return REASON_POST_INLINE;
	if (is_inline && total_bytes > qp->caps.inline_bytes_max)
		return REASON_POST_INLINE;
	return total_bytes > MESSAGE_BYTES_MAX ? REASON_POST_LENGTH : REASON_NONE;
}

/*
 * Check all of the request but the bytes of its scatter/gather list. If this finds no fault, the
 * list is short enough, and the caller may read it.
 */
static enum reason request_refusal(const struct qp *qp, const struct send_wr *wr)
{
	if (!qp_takes_sends(qp))
		return REASON_POST_STATE;
	if (wr->opcode >= WR_OPCODE_COUNT || !is_opcode_taken(qp, wr->opcode))
		return REASON_POST_OPCODE;
	if ((wr->flags & SEND_IP_CSUM) && qp->type == QP_TYPE_RAW_PACKET)
		return REASON_POST_CHECKSUM;
	if (wr_table[wr->opcode].has_list && wr->sge_count > qp->caps.send_sge_max)
		return REASON_POST_ENTRIES;
	return REASON_NONE;
}

enum reason qp_send_refusal(const struct qp *qp, const struct send_wr *wr)
{
	enum reason reason = request_refusal(qp, wr);

	if (reason != REASON_NONE || !wr_table[wr->opcode].has_list)
		return reason;
	return list_refusal(qp, wr, list_bytes(wr));
}

int qp_post_send(struct qp *qp, const struct send_wr *wr)
{
	uint64_t total_bytes;
	int error;

	if (request_refusal(qp, wr) != REASON_NONE)
		return -EINVAL;
	if (!wr_table[wr->opcode].has_list)
		return post_bare(qp, wr);
	total_bytes = list_bytes(wr);
	if (list_refusal(qp, wr, total_bytes) != REASON_NONE)
		return -EINVAL;
	error = sq_post(qp->sq, wr, (uint32_t)total_bytes);
	if (error)
		return error;
	qp_count(qp, COUNTER_posted_sends, 1);
	trace_post_send(qp->qpn, wr->wr_id, wr->opcode, total_bytes, 1);
	qp_event(qp->lane, qp, CAPTURED_POST, wr->wr_id, wr->opcode, (uint32_t)total_bytes, 1);
	return 0;
}

enum reason qp_recv_refusal(const struct qp *qp, const struct recv_wr *wr)
{
	if (!qp->rq_offset)
		return REASON_POST_NO_QUEUE;
	if (atomic_load_explicit(&qp->public->state, memory_order_relaxed) == QP_RESET)
		return REASON_POST_STATE;
	return wr->sge_count > qp->caps.recv_sge_max ? REASON_POST_ENTRIES : REASON_NONE;
}

int qp_post_recv(struct qp *qp, const struct recv_wr *wr)
{
	if (qp_recv_refusal(qp, wr) != REASON_NONE)
		return -EINVAL;
	trace_post_recv(qp->qpn, wr->wr_id, wr->sge_count);
	return rq_post(qp->rq, wr);
}

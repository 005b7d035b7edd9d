/* SPDX-License-Identifier: BSD-2-Clause */
#include "ether/raw.h"

#include <assert.h>
#include <string.h>

#include "ib/message.h"
#include "memory/copy.h"

void raw_attach(struct raw_qp *raw, uint32_t ifindex, uint32_t frame_bytes_max)
{
	raw->ifindex = ifindex;
	raw->frame_bytes_max = frame_bytes_max;
}

/* --- sending --- */

static bool has_frames(const struct qp *qp)
{
	return qp->state == QP_RTS && qp->sq->completed != qp->sq->posted;
}

static void frames_schedule(struct qp *qp)
{
	if (!has_frames(qp) || qp->tx_list != LANE_TX_NONE || qp->deadline.position)
		return;
	list_append(&qp->lane->tx_frames, &qp->tx_link);
	qp->tx_list = LANE_TX_FRAMES;
}

static void frames_unschedule(struct qp *qp)
{
	list_remove(&qp->tx_link);
	qp->tx_list = LANE_TX_NONE;
}

static enum fault frame_gather(
	const struct raw_qp *raw, const struct send_wqe *wqe, uint8_t *buffer)
{
	const struct qp *qp = &raw->qp;

	if (wqe->total_bytes < FRAME_ETHERNET_BYTES || wqe->total_bytes > raw->frame_bytes_max)
		return FAULT_FRAME_LENGTH;
	if (wqe->flags & SEND_INLINE) {
		memcpy(buffer, wqe->inline_bytes, wqe->total_bytes);
		return FAULT_NONE;
	}
	return message_local_fault(sge_gather(
		qp->lane->mrs, qp->pd, wqe->sge, wqe->sge_count, 0, wqe->total_bytes, buffer));
}

uint32_t raw_next_frame(struct raw_qp *raw, uint8_t *buffer, uint64_t now_ns)
{
	struct qp *qp = &raw->qp;
	uint32_t index = qp->sq->completed + raw->taken;
	enum fault fault;

	if (qp->state != QP_RTS || index == qp->sq->posted) {
		if (!raw->taken)
			frames_unschedule(qp);
		return 0;
	}
	if (pace_holds(qp, now_ns)) {
		if (!raw->taken)
			frames_unschedule(qp);
		return 0;
	}
	fault = frame_gather(raw, sq_at(qp->sq, index), buffer);
	if (fault == FAULT_NONE) {
		raw->taken++;
		pace_count(qp, sq_at(qp->sq, index)->total_bytes, now_ns);
		return sq_at(qp->sq, index)->total_bytes;
	}
	/* A request that cannot be sent fails only after all frames before it were sent. */
	if (!raw->taken) {
		qp_complete_send(qp, fault, now_ns);
		qp_set_state(qp, QP_ERR, now_ns);
	}
	return 0;
}

void raw_frames_sent(struct raw_qp *raw, uint32_t count, uint64_t now_ns)
{
	struct qp *qp = &raw->qp;

	assert(count <= raw->taken || qp->state == QP_ERR);
	for (uint32_t i = count; i < raw->taken; i++)
		pace_take_back(qp, sq_at(qp->sq, qp->sq->completed + i)->total_bytes);
	raw->taken = 0;
	/*
	 * A completion may overrun its queue. That moves the queue pair to the error state, and
	 * flushes its other requests.
	 */
	for (; count && qp->state != QP_ERR; count--) {
		qp_count(qp, COUNTER_sent_pkts, 1);
		qp_count(qp, COUNTER_sent_bytes, sq_at(qp->sq, qp->sq->completed)->total_bytes);
		qp_complete_send(qp, FAULT_NONE, now_ns);
	}
}

void raw_frames_blocked(struct raw_qp *raw, uint64_t now_ns)
{
	frames_unschedule(&raw->qp);
	qp_set_deadline(&raw->qp, now_ns + RAW_BLOCKED_NS);
}

void raw_frame_dropped(struct raw_qp *raw, uint64_t now_ns)
{
	qp_count(&raw->qp, COUNTER_tx_refused_frames, 1);
	if (raw->qp.state != QP_ERR)
		qp_complete_send(&raw->qp, FAULT_NONE, now_ns);
}

static void blocked_expire(struct qp *qp, uint64_t now_ns)
{
	(void)now_ns;
	qp_set_deadline(qp, DEADLINE_NEVER);
	frames_schedule(qp);
}

static void sends_posted(struct qp *qp, uint64_t now_ns)
{
	(void)now_ns;
	frames_schedule(qp);
}

/* --- receiving --- */

/* The queue that takes a frame. */
struct target {
	struct wq *wq; /* NULL: the queue pair's own receive queue or SRQ */
	uint32_t pd;
};

static bool target_choose(struct raw_qp *raw, const struct frame_key *key, struct target *target)
{
	const struct raw_spread *spread = &raw->spread;

	if (!spread->count) {
		*target = (struct target){NULL, raw->qp.recv_pd};
		return true;
	}
	uint32_t hash = rss_hash(spread->key, spread->fields, key);
	struct wq *wq = spread->table[hash & (spread->count - 1)];

	*target = (struct target){wq, wq->pd};
	return atomic_load_explicit(&wq->state, memory_order_relaxed) == WQ_READY;
}

static bool target_take_recv(struct qp *qp, const struct target *target, struct recv_wqe *wqe)
{
	return target->wq ? rq_take(target->wq->rq, wqe) : qp_take_recv(qp, wqe);
}

static void target_complete(struct raw_qp *raw, const struct target *target, uint64_t wr_id,
	struct cqe *cqe, enum fault fault, uint64_t now_ns)
{
	struct lane *lane = raw->qp.lane;

	if (!target->wq) {
		qp_complete_recv(&raw->qp, wr_id, cqe, fault, false, now_ns);
		return;
	}
	cqe->wr_id = wr_id;
	cqe->status = fault_status(fault);
	cqe->fault = fault;
	cqe->qpn = target->wq->number;
	cqe->made_ns = now_ns;
	if (cq_push(target->wq->cq, lane->arena, cqe, false, &lane->signals))
		qp_count(&raw->qp, COUNTER_completions, 1);
	else
		wq_fail(target->wq, lane, now_ns);
}

/* Move the queue to its error state, because the memory of a receive request is not accessible. */
static void target_fail(struct raw_qp *raw, const struct target *target, uint64_t now_ns)
{
	if (target->wq)
		wq_fail(target->wq, raw->qp.lane, now_ns);
	else if (raw->qp.state != QP_ERR)
		qp_set_state(&raw->qp, QP_ERR, now_ns);
}

static void frame_deliver(struct raw_qp *raw, const struct flow_rule *rule,
	const struct flow_frame *frame, const uint8_t *bytes, uint64_t now_ns)
{
	struct qp *qp = &raw->qp;
	struct cqe cqe = {.opcode = WC_RECV, .byte_count = frame->bytes, .flow_tag = rule->tag};
	enum fault fault = FAULT_NONE;
	struct target target;
	struct recv_wqe wqe;

	if (!target_choose(raw, &frame->key, &target)) {
		qp_count(qp, COUNTER_bad_state_drops, 1);
		return;
	}
	if (!target_take_recv(qp, &target, &wqe)) {
		qp_count(qp, COUNTER_no_receive_drops, 1);
		return;
	}
	if (wqe.total_bytes < frame->bytes) {
		qp_count(qp, COUNTER_resp_local_length_error, 1);
		target_complete(raw, &target, wqe.wr_id, &cqe, FAULT_FRAME_TOO_LONG, now_ns);
		return;
	}
	fault = message_local_fault(sge_scatter(
		qp->lane->mrs, target.pd, wqe.sge, wqe.sge_count, 0, frame->bytes, bytes));
	if (fault == FAULT_NONE) {
		flow_rule_count(rule, frame->bytes);
		qp_count(qp, COUNTER_rcvd_bytes, frame->bytes);
	}
	target_complete(raw, &target, wqe.wr_id, &cqe, fault, now_ns);
	if (fault != FAULT_NONE)
		target_fail(raw, &target, now_ns);
}

/*
 * The work queues of an indirection table have states of their own. As on adapters, a queue pair
 * with such a table receives in every state but ERR.
 */
static bool is_receiving(const struct raw_qp *raw)
{
	enum qp_state state = raw->qp.state;

	return state == QP_RTR || state == QP_RTS || state == QP_SQD ||
		(raw->spread.count && state != QP_ERR);
}

void raw_receive(struct raw_qp *raw, const struct flow_table *table, const uint8_t *bytes,
	uint32_t count, bool is_departing, uint64_t now_ns)
{
	struct flow_frame frame = {
		.ifindex = raw->ifindex,
		.bytes = count,
		.is_departing = is_departing,
	};
	const struct flow_rule *rule;
	struct qp *qp = &raw->qp;

	if (count < FRAME_ETHERNET_BYTES || !is_receiving(raw))
		return;
	frame_key_read(&frame.key, bytes, count);
	rule = flow_table_find(table, &frame, qp);
	if (!rule)
		return;
	qp_count(qp, COUNTER_rcvd_pkts, 1);
	frame_deliver(raw, rule, &frame, bytes, now_ns);
}

/* --- the transport --- */

static void state_changed(struct qp *qp, enum qp_state old, uint64_t now_ns)
{
	struct raw_qp *raw = raw_from_qp(qp);

	(void)old;
	(void)now_ns;
	if (qp->state == QP_RTS) {
		frames_schedule(qp);
		return;
	}
	raw->taken = 0;
	qp_set_deadline(qp, DEADLINE_NEVER);
	frames_unschedule(qp);
	if (qp->state == QP_SQD)
		qp_sq_drained(qp);
}

static void raw_check(const struct qp *qp)
{
	const struct raw_qp *raw = container_of(qp, struct raw_qp, qp);
	bool is_listed = qp->tx_list == LANE_TX_FRAMES;
	bool is_blocked = qp->deadline.position != 0;

	assert(raw->taken == 0);
	assert(is_listed || is_blocked || pace_is_waiting(qp) || !has_frames(qp));
	assert(!(is_listed && is_blocked));
	assert(raw->spread.count <= RAW_TABLE_MAX);
}

static_assert(offsetof(struct raw_qp, qp) == 0, "the engine frees it by its queue pair");

const struct qp_transport raw_transport = {
	.object_bytes = sizeof(struct raw_qp),
	.receive = qp_refuse_packet,
	.next_packet = qp_has_no_packets,
	.resume = frames_schedule,
	.expire = blocked_expire,
	.posted = sends_posted,
	.state_changed = state_changed,
	.check = raw_check,
};

/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs. Set-up runs under the NIC's lock, posting under the lane's lock. */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "nic/nic_failure.h"
#include "nic/nic_part.h"
#include "nic/object/nic_object.h"
#include "os/clock.h"
#include "qp/qp_report.h"
#include "segment/segment.h"

bool nic_has_qp_type(enum qp_type type)
{
	return engine_has_type(type);
}

/*
 * Do all objects that the new queue pair uses belong to this NIC, and none to the NIC before a
 * fork?
 */
static bool are_of_this_nic(const struct nic_qp_init *init)
{
	return (!init->send_cq || init->send_cq->epoch == nic_epoch) &&
		(!init->recv_cq || init->recv_cq->epoch == nic_epoch) &&
		(!init->srq || init->srq->epoch == nic_epoch) &&
		(!init->xrcd || init->xrcd->epoch == nic_epoch);
}

/*
 * The lane of the new queue pair. A program that receives over XRC usually also sends over XRC. So
 * an XRC_RECV queue pair is put on the lane of the newest XRC_SEND queue pair.
 */
static uint32_t home_of(const struct nic_qp_init *init)
{
	assert(init->type == QP_TYPE_XRC_RECV ? init->xrcd != NULL : init->send_cq != NULL);
	if (init->type != QP_TYPE_XRC_RECV)
		return init->send_cq->home;
	return nic.last_xrc_send ? nic.last_xrc_send->lane.index : init->xrcd->home;
}

/* The queue pair is on this lane, so polls of its completion queues have to drive the lane. */
static void lane_announce(const struct nic_qp_init *init, struct worker *worker)
{
	uint32_t lane = worker->lane.index;

	if (init->send_cq)
		nic_cq_add_lanes(init->send_cq, 1u << lane);
	if (init->recv_cq)
		nic_cq_add_lanes(init->recv_cq, 1u << lane);
	if (init->xrcd)
		nic_xrcd_add_lane(init->xrcd, lane);
	if (init->type == QP_TYPE_XRC_SEND)
		nic.last_xrc_send = worker;
}

int nic_qp_create(const struct nic_qp_init *init, struct nic_qp **ret_qp)
{
	struct nic_qp *qp = calloc(1, sizeof(*qp));
	struct qp_init inner = {
		.type = init->type,
		.pd = init->pd,
		.send_cq = init->send_cq ? &init->send_cq->cq : NULL,
		.recv_cq = init->recv_cq ? &init->recv_cq->cq : NULL,
		.xrcd = init->xrcd ? init->xrcd->id : 0,
		.file = init->xrcd ? init->xrcd->file : (struct xrc_file){0, 0},
		.srq = init->srq ? &init->srq->srq : NULL,
		.caps = init->caps,
		.mtu_bytes = init->mtu_bytes,
		.is_all_signaled = init->is_all_signaled,
		.owner = init->ifindex,
		.user = qp,
	};
	int error;

	if (!qp || (init->type == QP_TYPE_IWARP && nic_stream_make(qp))) {
		free(qp);
		return -ENOMEM;
	}
	qp->send_cq = init->send_cq;
	qp->xrcd = init->xrcd;
	qp->on_event = init->on_event;
	qp->user = init->user;
	qp->epoch = nic_epoch;
	list_init(&qp->borrowers);
	nic_enter();
	error = are_of_this_nic(init) ? 0 : -EINVAL;
	if (!error)
		error = nic_worker_get(home_of(init), &qp->worker);
	if (!error && init->type == QP_TYPE_UD)
		error = nic_datagrams_start(qp->worker, init);
	if (!error && init->type == QP_TYPE_RAW_PACKET)
		error = nic_frames_open(qp, init->ifindex);
	if (!error) {
		worker_lock(qp->worker);
		error = engine_qp_create(&qp->worker->lane, &inner, nic_random_u64(), &qp->qp);
		if (!error && qp->qp->impair)
			qp->qp->impair->qp = ++nic.impair->qp_count;
		if (!error && qp->frames)
			nic_frames_begin(qp, init);
		worker_unlock(qp->worker);
	}
	if (!error)
		lane_announce(init, qp->worker);
	if (!error && init->xrcd)
		init->xrcd->qp_count++;
	if (!error)
		NIC_PARTS_CALL(qp_created, qp, init);
	if (error)
		nic_frames_close(qp);
	nic_leave();
	if (error) {
		free(qp->stream);
		free(qp);
	} else {
		*ret_qp = qp;
	}
	return error;
}

/* Close the paths in `which`. The worker is locked. */
static void paths_close(struct nic_qp *qp, const struct qp_attr *attr, uint32_t which)
{
	if (which & ATTR_AV)
		nic_path_close(qp->worker, &attr->path);
	if (which & ATTR_ALT_PATH)
		nic_path_close(qp->worker, &attr->alt_path);
}

/*
 * Send the pending acknowledgements before the queue pair ends, because an adapter acknowledges a
 * request before the program sees its completion. Also send the datagrams that wait, because the
 * queue pair sends nothing in its next state. The worker is locked.
 */
static void lane_acknowledge(struct nic_qp *qp)
{
	qp->worker->now_ns = clock_now_ns();
	worker_send(qp->worker, true);
}

void nic_qp_end(struct nic_qp *qp)
{
	if (qp->epoch == nic_epoch) {
		nic_multicast_forget(qp);
		NIC_PARTS_CALL(qp_disconnected, qp);
		NIC_PARTS_CALL(qp_ending, qp);
		worker_lock(qp->worker);
		lane_acknowledge(qp);
		paths_close(qp, &qp->qp->attr, qp->open_paths);
		nic_frames_end(qp);
		nic_stream_forget(qp);
		engine_qp_destroy(qp->qp);
		worker_unlock(qp->worker);
	}
	if (qp->xrcd)
		nic_xrcd_put(qp->xrcd);
	nic_frames_close(qp);
	free(qp->stream);
	free(qp);
}

static void ignore_events(void *user, uint32_t events)
{
	(void)user;
	(void)events;
}

void nic_qp_destroy(struct nic_qp *qp)
{
	if (qp->borrowed) {
		qp->borrowed->ops->close(qp->borrowed);
		free(qp);
		return;
	}
	nic_enter();
	if (list_is_empty(&qp->borrowers)) {
		nic_qp_end(qp);
	} else {
		/* Borrowers still use the queue pair. */
		worker_lock(qp->worker);
		qp->on_event = ignore_events;
		qp->is_released = true;
		worker_unlock(qp->worker);
	}
	nic_leave();
}

uint32_t nic_qp_number(const struct nic_qp *qp)
{
	return qp->borrowed ? qp->borrowed->ops->number(qp->borrowed) : qp->qp->qpn;
}

struct nic_qp *nic_qp_find(uint32_t qpn, enum qp_type type)
{
	struct worker *worker = nic_worker_of_slot(qpn >> 16);
	struct nic_qp *found = NULL;
	const struct qp *qp;

	if (!worker)
		return NULL;
	worker_lock(worker);
	qp = engine_qp_find(&worker->lane, qpn);
	if (qp && qp->type == type)
		found = qp->user;
	worker_unlock(worker);
	return found;
}

/*
 * Open the paths of `attr` that `mask` names by ATTR_AV and ATTR_ALT_PATH. The NIC is locked, the
 * worker is not. Returns 0, or -errno with no path open.
 */
static int paths_open(struct nic_qp *qp, struct qp_attr *attr, uint32_t mask)
{
	uint32_t dest_qpn = mask & ATTR_DEST_QPN ? attr->dest_qpn : qp->qp->attr.dest_qpn;
	uint32_t pkey_index = mask & ATTR_PKEY_INDEX ? attr->pkey_index : qp->qp->attr.pkey_index;
	int error = 0;

	if (mask & ATTR_AV)
		error = nic_path_open(qp->worker, &attr->path, dest_qpn, pkey_index);
	if (error || !(mask & ATTR_ALT_PATH))
		return error;
	error = nic_path_open(qp->worker, &attr->alt_path, dest_qpn, attr->alt_pkey_index);
	if (error && (mask & ATTR_AV)) {
		worker_lock(qp->worker);
		paths_close(qp, attr, ATTR_AV);
		worker_unlock(qp->worker);
	}
	return error;
}

static bool parts_qp_connected(struct nic_qp *qp)
{
	bool is_another_process = false;

	for (const struct nic_part *const *part = nic_parts; *part; part++)
		if ((*part)->qp_connected)
			is_another_process = (*part)->qp_connected(qp) || is_another_process;
	return is_another_process;
}

/*
 * Open or close the same-host connection of a queue pair that has changed state. The NIC is locked.
 * Returns true if the caller has to call nic_mr_make_mappable().
 */
static bool local_follow(struct nic_qp *qp, enum qp_state to, uint32_t mask)
{
	if ((mask & ATTR_STATE) && to == QP_RTR)
		return parts_qp_connected(qp) && segments_may_begin();
	if ((mask & ATTR_STATE) && to == QP_RESET)
		NIC_PARTS_CALL(qp_disconnected, qp);
	return false;
}

static void refusal_report(
	const struct qp *qp, enum qp_state to, uint32_t mask, const struct qp_attr *attr)
{
	struct failure failure;

	qp_modify_explain(qp, to, mask, attr, &failure);
	nic_failure_add(&failure);
}

int nic_qp_change(struct nic_qp *qp, enum qp_state to, uint32_t mask,
	const struct qp_attr *requested, bool *ret_has_come)
{
	struct qp_attr attr = *requested;
	uint32_t paths = mask & (ATTR_AV | ATTR_ALT_PATH);
	int error;

	nic_enter();
	error = qp->epoch == nic_epoch ? paths_open(qp, &attr, mask) : -EIO;
	if (!error) {
		worker_lock(qp->worker);
		struct qp_attr before = qp->qp->attr;
		if (to == QP_RESET || to == QP_ERR || to == QP_SQD)
			lane_acknowledge(qp);
		qp->worker->now_ns = clock_now_ns();
		error = qp_modify(qp->qp, to, mask, &attr, qp->worker->now_ns);
		if (error) {
			if (error == -EINVAL)
				refusal_report(qp->qp, to, mask, &attr);
			paths_close(qp, &attr, paths);
		} else if (to == QP_RESET) {
			paths_close(qp, &before, qp->open_paths);
			qp->open_paths = 0;
		} else {
			paths_close(qp, &before, qp->open_paths & paths);
			qp->open_paths |= paths;
		}
		if (!error && to == QP_RTS)
			worker_send(qp->worker, true); /* what was posted in SQD */
		worker_unlock(qp->worker);
	}
	*ret_has_come = !error && local_follow(qp, to, mask);
	nic_leave();
	return error;
}

int nic_qp_modify(
	struct nic_qp *qp, enum qp_state to, uint32_t mask, const struct qp_attr *requested)
{
	bool has_come;
	int error;

	if (qp->borrowed)
		return qp->borrowed->ops->modify(qp->borrowed, to, mask, requested);
	error = nic_qp_change(qp, to, mask, requested, &has_come);
	if (has_come)
		nic_mr_make_mappable();
	return error;
}

int nic_qp_set_rate(struct nic_qp *qp, uint32_t rate_kbps, uint32_t burst_bytes)
{
	int error = -EIO;

	nic_enter();
	if (qp->epoch == nic_epoch) {
		worker_lock(qp->worker);
		error = qp_set_rate(qp->qp, rate_kbps, burst_bytes);
		worker_send(qp->worker, true);
		worker_unlock(qp->worker);
	}
	nic_leave();
	return error;
}

struct nic_qp_state nic_qp_query(struct nic_qp *qp)
{
	struct nic_qp_state state = {.state = QP_ERR};

	if (qp->borrowed)
		return qp->borrowed->ops->query(qp->borrowed);
	nic_enter();
	if (qp->epoch == nic_epoch) {
		worker_lock(qp->worker);
		state.state = qp->qp->state;
		state.is_sq_draining = qp->qp->is_sq_draining;
		state.has_path = qp->open_paths & ATTR_AV;
		state.has_alt_path = qp->open_paths & ATTR_ALT_PATH;
		state.attr = qp->qp->attr;
		worker_unlock(qp->worker);
	}
	nic_leave();
	return state;
}

void nic_worker_fail(struct worker *worker, uint32_t ifindex)
{
	worker_lock(worker);
	worker->now_ns = clock_now_ns();
	for (uint32_t number = 0; number < LANE_QP_COUNT_MAX; number++) {
		struct qp *qp = worker->lane.qp_by_number[number];

		if (!qp || qp->state == QP_RESET || qp->state == QP_ERR ||
			(ifindex && qp->public->owner != ifindex))
			continue;
		if (!ifindex)
			signal_raise(&worker->lane.signals, &qp->signal, SIGNAL_QP_FATAL);
		qp_set_state(qp, QP_ERR, worker->now_ns);
	}
	worker_unlock(worker);
}

void nic_interface_removed(uint32_t ifindex)
{
	struct worker *worker;

	nic_enter();
	for (uint32_t i = 0; (worker = nic_worker_next(&i));)
		nic_worker_fail(worker, ifindex);
	nic_leave();
}

/*
 * Each post of send requests begins with this function. If the peer is on this host, the function
 * reads the clock only for a program that reads the times of completions. For an iWARP queue pair,
 * it also reads the clock if the last reading is old.
 */
static inline __attribute__((always_inline)) void post_begin(struct nic_qp *qp)
{
	worker_lock(qp->worker);
	if (qp->local)
		worker_stamp(qp->worker);
	else if (qp->qp->type == QP_TYPE_IWARP)
		worker_glance(qp->worker);
	else
		qp->worker->now_ns = clock_now_ns();
}

/*
 * Were all requests executed within this host, and does the lane have nothing else to send? The
 * worker is locked.
 */
static inline bool is_all_done(const struct nic_qp *qp)
{
	const struct send_queue *sq = qp->qp->sq;

	return qp->local && sq->completed == sq->posted &&
		!engine_has_packets(&qp->worker->lane, true) &&
		!atomic_load_explicit(&qp->worker->are_acks_deferred, memory_order_relaxed);
}

/*
 * Do the posted requests wait for the next post or poll? Not if the program has armed a completion
 * queue for any completion, because it is about to sleep. UCX keeps its receive queue armed for
 * solicited completions while it polls.
 */
static bool is_waiting(struct nic_qp *qp)
{
	return qp->qp->type == QP_TYPE_UD && cq_arm_of(qp->qp->send_cq) != CQ_ARM_NEXT &&
		cq_arm_of(qp->qp->recv_cq) != CQ_ARM_NEXT &&
		worker_post_waits(qp->worker, qp->qp);
}

/* Each post of send requests ends with this. Unlocks the worker. */
static inline __attribute__((always_inline)) void post_done(struct nic_qp *qp)
{
	struct worker *worker = qp->worker;

	if (!is_all_done(qp)) {
		if (qp->local && engine_has_packets(&worker->lane, true))
			worker->now_ns = clock_now_ns();
		if (!is_waiting(qp))
			worker_send(worker, true);
	}
	worker_unlock(worker);
	/* Count the post like a poll, because a program that has not armed its queue will poll. */
	if (qp->send_cq && !nic_cq_is_armed(qp->send_cq))
		poll_policy_note(&worker->policy, 1);
}

int nic_qp_post_send(
	struct nic_qp *qp, const struct send_wr *wrs, uint32_t count, uint32_t *ret_posted)
{
	struct worker *worker = qp->worker;
	int error;

	*ret_posted = 0;
	if (qp->epoch != nic_epoch)
		return -EINVAL;
	qp_prefetch(qp->qp, wrs->opcode, wrs->remote_address);
	post_begin(qp);
	error = engine_post_send(qp->qp, wrs, count, ret_posted, worker->now_ns);
	post_done(qp);
	return error;
}

struct send_queue *nic_qp_send_queue(struct nic_qp *qp)
{
	return qp->borrowed ? NULL : qp->qp->sq;
}

int nic_qp_post_batch(struct nic_qp *qp, const struct sq_batch *batch)
{
	const struct send_wqe *last = batch->last;
	struct worker *worker = qp->worker;
	int error;

	if (qp->epoch != nic_epoch)
		return -EINVAL;
	qp_prefetch(qp->qp, last->opcode, last->remote_address);
	post_begin(qp);
	error = engine_post_batch(qp->qp, batch, worker->now_ns);
	post_done(qp);
	return error;
}

bool nic_can_send(enum qp_type type, uint32_t opcode)
{
	return opcode < WR_OPCODE_COUNT && (wr_table[opcode].type_mask & 1u << type);
}

/* Flush requests that were posted while the queue pair went to the error state. */
static void recv_flush(struct nic_qp *qp)
{
	worker_lock(qp->worker);
	qp->worker->now_ns = clock_now_ns();
	if (qp->qp->state == QP_ERR)
		qp_flush(qp->qp, qp->worker->now_ns);
	worker_unlock(qp->worker);
}

int nic_qp_post_recv(
	struct nic_qp *qp, const struct recv_wr *wrs, uint32_t count, uint32_t *ret_posted)
{
	int error = 0;
	uint32_t posted;

	*ret_posted = 0;
	if (qp->epoch != nic_epoch)
		return -EINVAL;
	for (posted = 0; posted < count; posted++) {
		error = qp_post_recv(qp->qp, &wrs[posted]);
		if (error)
			break;
	}
	*ret_posted = posted;
	/*
	 * The thread that moves the queue pair to the error state first sets the state, and then
	 * empties the queue under the queue's lock. A post takes that lock, too. So either that
	 * thread finds this request, or this thread sees the state and flushes the request.
	 */
	if (atomic_load_explicit(&qp->qp->public->state, memory_order_relaxed) == QP_ERR)
		recv_flush(qp);
	return error;
}

/* --- why a post was refused --- */

static void post_explain(const struct nic_qp *qp, enum reason reason, enum qp_state state)
{
	if (reason == REASON_NONE) /* the queue pair's state has changed since the refusal */
		reason = REASON_POST_STATE;
	nic_failure_cause_fact(reason, FACT_from_state, state);
	nic_failure_cause_qpn(qp->qp->qpn);
}

void nic_qp_explain_send(struct nic_qp *qp, const struct send_wr *wr)
{
	enum reason reason = REASON_POST_STATE;
	enum qp_state state;

	if (qp->borrowed) {
		nic_failure_cause(REASON_POST_OPCODE);
	} else if (qp->epoch != nic_epoch) {
		nic_failure_cause(REASON_FORKED);
	} else {
		worker_lock(qp->worker);
		if (wr)
			reason = qp_send_refusal(qp->qp, wr);
		state = qp->qp->state;
		worker_unlock(qp->worker);
		post_explain(qp, reason, state);
	}
}

void nic_qp_explain_recv(struct nic_qp *qp, const struct recv_wr *wr)
{
	enum reason reason;
	enum qp_state state;

	if (qp->borrowed) {
		nic_failure_cause(REASON_POST_NO_QUEUE);
	} else if (qp->epoch != nic_epoch) {
		nic_failure_cause(REASON_FORKED);
	} else {
		worker_lock(qp->worker);
		reason = qp_recv_refusal(qp->qp, wr);
		state = qp->qp->state;
		worker_unlock(qp->worker);
		post_explain(qp, reason, state);
	}
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues. A shared receive queue belongs to the process, not to a lane, so a post
 * takes no lane's lock.
 */
#include <errno.h>
#include <stdlib.h>

#include "nic/nic_part.h"
#include "nic/object/nic_object.h"
#include "os/clock.h"

uint64_t nic_srq_share(void)
{
	uint64_t offset;

	if (!nic.is_local_on)
		return 0;
	if (nic.srqs->directory)
		return arena_offset(&nic.arena, nic.srqs->directory);
	offset = arena_alloc(&nic.arena, sizeof(struct srq_directory));
	if (offset)
		nic.srqs->directory = arena_at(&nic.arena, offset);
	return offset;
}

/*
 * Add the queue to the list in NIC memory. Peers may read this list while it changes. The same
 * holds for the list of queue pairs (engine/engine.c).
 */
static void srq_publish(struct srq *srq)
{
	srq->public->next_offset = nic.public->first_srq_offset;
	nic.public->first_srq_offset = srq->public_offset;
	nic.public->srq_count = nic.srqs->count;
}

static void srq_unpublish(const struct srq *srq)
{
	struct srq_public *before = NULL;
	uint64_t offset = nic.public->first_srq_offset;

	while (offset != srq->public_offset) {
		before = arena_at(&nic.arena, offset);
		offset = before->next_offset;
	}
	if (before)
		before->next_offset = srq->public->next_offset;
	else
		nic.public->first_srq_offset = srq->public->next_offset;
	nic.public->srq_count = nic.srqs->count;
}

/* The NIC is locked and up. */
static int srq_add(struct nic_srq *srq, const struct nic_srq_init *init)
{
	struct srq_init inner = {
		.pd = init->pd,
		.depth = init->depth,
		.sge_count_max = init->sge_count_max,
		.owner = init->ifindex,
	};
	struct worker *worker = NULL;
	int error;

	if (init->xrcd) {
		if (init->xrcd->epoch != nic_epoch || init->cq->epoch != nic_epoch)
			return -EINVAL;
		error = nic_worker_get(init->cq->home, &worker);
		if (error)
			return error;
		inner.xrcd = init->xrcd->id;
		inner.cq = &init->cq->cq;
		inner.file = init->xrcd->file;
		inner.lane = init->cq->home;
		inner.serial = nic_random_u64();
	}
	if (init->tag_count) {
		if (init->cq->epoch != nic_epoch)
			return -EINVAL;
		error = nic_worker_get(init->cq->home, &srq->worker);
		if (error)
			return error;
		srq->cq = init->cq;
		inner.cq = &init->cq->cq;
		inner.tag_count = init->tag_count;
	}
	if (nic.srqs->count == NIC_SRQ_COUNT_MAX)
		return -ENOMEM;
	/*
	 * The slot of a lane is unique on the host, so the number of an XRC queue is unique, too.
	 */
	inner.number = srq_table_number(
		nic.srqs, worker ? (uint8_t)worker->lane.slot : 0, nic_random_u64());
	if (init->xrcd)
		nic_srq_share();
	error = srq_init(&srq->srq, &nic.arena, &inner);
	if (error)
		return error;
	srq_table_add(nic.srqs, &srq->srq);
	srq_publish(&srq->srq);
	if (init->xrcd) {
		init->xrcd->home = init->cq->home;
		nic_cq_add_lanes(init->cq, init->xrcd->lane_mask);
		if (srq->srq.is_shared)
			nic_cq_add_lanes(init->cq, 1u << init->cq->home);
	}
	return 0;
}

int nic_srq_create(const struct nic_srq_init *init, struct nic_srq **ret_srq)
{
	struct nic_srq *srq = calloc(1, sizeof(*srq));
	int error;

	if (!srq)
		return -ENOMEM;
	srq->on_event = init->on_event;
	srq->user = init->user;
	nic_enter();
	error = nic_start();
	if (!error)
		error = srq_add(srq, init);
	srq->epoch = nic_epoch;
	nic_leave();
	if (error)
		free(srq);
	else
		*ret_srq = srq;
	return error;
}

/*
 * On return no thread uses the queue, each worker has delivered the queue's signal, and no queue
 * pair of its domain refers to it.
 */
void nic_srq_forget_on_lanes(const struct srq *srq)
{
	struct worker *worker;

	for (uint32_t i = 0; (worker = nic_worker_next(&i));) {
		worker_lock(worker);
		engine_srq_forget(&worker->lane, srq);
		worker_unlock(worker);
	}
}

/*
 * Initiators can no longer find the queue. Wait for those that still use it, and collect their
 * records. Returns false when a suspended initiator may still use it.
 */
static bool parts_srq_leave(void)
{
	struct worker *worker;
	bool is_free = true;

	for (const struct nic_part *const *part = nic_parts; *part; part++)
		if ((*part)->srq_leave)
			is_free = (*part)->srq_leave() && is_free;
	for (uint32_t i = 0; (worker = nic_worker_next(&i));) {
		worker_lock(worker);
		worker_collect(worker);
		worker_unlock(worker);
	}
	return is_free;
}

static bool parts_borrowers_leave(void)
{
	bool is_free = true;

	for (const struct nic_part *const *part = nic_parts; *part; part++)
		if ((*part)->borrowers_leave)
			is_free = (*part)->borrowers_leave() && is_free;
	return is_free;
}

void nic_srq_destroy(struct nic_srq *srq)
{
	nic_enter();
	if (srq->epoch == nic_epoch) {
		srq_withdraw(nic.srqs, &srq->srq);
		if (srq->srq.xrcd && !parts_srq_leave())
			srq->srq.is_in_use = true;
		srq_table_remove(nic.srqs, &srq->srq);
		nic_srq_forget_on_lanes(&srq->srq);
		srq_unpublish(&srq->srq);
		/*
		 * If a suspended borrower or initiator may still use the queue's memory, that
		 * memory is never freed.
		 */
		if (!srq->srq.is_in_use && (!srq->srq.is_shared || parts_borrowers_leave()))
			srq_done(&srq->srq, &nic.arena);
	}
	nic_leave();
	free(srq);
}

uint32_t nic_srq_number(const struct nic_srq *srq)
{
	return srq->srq.number;
}

/* The NIC is locked, so no other thread changes the depth. */
static int srq_modify(struct nic_srq *srq, const uint32_t *depth, const uint32_t *limit)
{
	struct recv_queue *rq = srq->srq.rq;
	int error = 0;

	if (limit && *limit > (depth ? *depth : rq->depth))
		return -EINVAL;
	if (depth)
		error = rq_resize(&nic.arena, rq, *depth);
	if (!error && limit && rq_set_limit(rq, *limit))
		srq->on_event(srq->user, SIGNAL_SRQ_LIMIT);
	return error;
}

int nic_srq_modify(struct nic_srq *srq, const uint32_t *depth, const uint32_t *limit)
{
	int error;

	nic_enter();
	error = srq->epoch == nic_epoch ? srq_modify(srq, depth, limit) : -EIO;
	nic_leave();
	return error;
}

void nic_srq_query(struct nic_srq *srq, struct nic_srq_attr *ret_attr)
{
	nic_enter();
	*ret_attr = (struct nic_srq_attr){
		.depth = srq->srq.rq->depth,
		.sge_count_max = srq->srq.rq->sge_count_max,
		.limit = rq_limit(srq->srq.rq),
	};
	nic_leave();
}

int nic_srq_post(
	struct nic_srq *srq, const struct recv_wr *wrs, uint32_t count, uint32_t *ret_posted)
{
	uint32_t posted = 0;
	int error = 0;

	*ret_posted = 0;
	if (srq->epoch != nic_epoch)
		return -EINVAL;
	while (posted < count && !error) {
		error = srq_post(&srq->srq, &wrs[posted]);
		if (!error)
			posted++;
	}
	*ret_posted = posted;
	return error;
}

/* The worker is locked. */
static int tag_execute(struct nic_srq *srq, struct tag_wr *wr)
{
	struct lane *lane = &srq->worker->lane;
	struct cqe cqe;
	int error = tags_execute(srq->srq.tags, wr, &cqe);

	if (error)
		return error;
	cqe.made_ns = clock_now_ns();
	if (wr->is_signaled || cqe.fault != FAULT_NONE)
		cq_push(srq->srq.cq, lane->arena, &cqe, false, &lane->signals);
	return 0;
}

int nic_srq_post_tag(struct nic_srq *srq, struct tag_wr *wr)
{
	int error;

	if (srq->epoch != nic_epoch || !srq->srq.tags)
		return -EINVAL;
	worker_lock(srq->worker);
	error = tag_execute(srq, wr);
	worker_unlock(srq->worker);
	return error;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters. A program may read counters and never poll the completion queues. So a read
 * drives the lanes of the counted queue pairs, as a poll does.
 */
#include <errno.h>
#include <stdlib.h>

#include "nic/object/nic_object.h"

struct nic_counter {
	struct completion_counter counter;
	/* Mask of the lanes of the queue pairs whose completions it counts */
	_Atomic uint32_t lane_mask;
	uint64_t epoch;
};

struct nic_counter *nic_counter_create(bool counts_bytes)
{
	struct nic_counter *counter = calloc(1, sizeof(*counter));

	if (!counter)
		return NULL;
	counter->counter.counts_bytes = counts_bytes;
	counter->epoch = nic_epoch;
	return counter;
}

void nic_counter_destroy(struct nic_counter *counter)
{
	free(counter);
}

int nic_counter_attach(
	struct nic_counter *counter, struct nic_qp *qp, enum counted_operation operations)
{
	int error = -EIO;

	if (qp->borrowed || qp->qp->type == QP_TYPE_XRC_RECV || qp->qp->type == QP_TYPE_RAW_PACKET)
		return -EOPNOTSUPP;
	nic_enter();
	if (qp->epoch == nic_epoch && counter->epoch == nic_epoch) {
		worker_lock(qp->worker);
		error = qp_attach_counter(qp->qp, operations, &counter->counter);
		worker_unlock(qp->worker);
		if (!error)
			atomic_fetch_or_explicit(&counter->lane_mask, 1u << qp->worker->lane.index,
				memory_order_release);
	}
	nic_leave();
	return error;
}

/*
 * Drive the lane. Like a poll, this call shows the lane's thread that the program drives the lane.
 */
static void lane_drain(struct worker *worker)
{
	worker_lock(worker);
	worker_drain(worker);
	worker_unlock(worker);
	poll_policy_note(&worker->policy, 1);
}

uint64_t nic_counter_read(struct nic_counter *counter, enum completion_outcome outcome)
{
	uint32_t lanes = atomic_load_explicit(&counter->lane_mask, memory_order_acquire);

	if (counter->epoch != nic_epoch)
		lanes = 0;
	for (; lanes; lanes &= lanes - 1)
		lane_drain(nic.worker[__builtin_ctz(lanes)]);
	return atomic_load_explicit(&counter->counter.value[outcome], memory_order_relaxed);
}

void nic_counter_write(struct nic_counter *counter, enum completion_outcome outcome, uint64_t value)
{
	atomic_store_explicit(&counter->counter.value[outcome], value, memory_order_relaxed);
}

void nic_counter_add(struct nic_counter *counter, enum completion_outcome outcome, uint64_t amount)
{
	completion_counter_add(&counter->counter, outcome, amount);
}

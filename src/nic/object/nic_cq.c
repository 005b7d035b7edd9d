/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues, and polling: a thread of the program that polls a queue drives the queue's
 * lanes.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "nic/object/nic_object.h"
#include "segment/segment.h"

int nic_cq_create(uint32_t capacity, struct nic_channel *channel, nic_cq_event_fn *on_event,
	void *user, struct nic_cq **ret_cq)
{
	struct nic_cq *cq = calloc(1, sizeof(*cq));
	int error;

	if (!cq)
		return -ENOMEM;
	nic_enter();
	error = nic_start();
	if (!error)
		error = cq_init(&cq->cq, &nic.arena, capacity);
	if (!error) {
		cq->channel = channel;
		if (channel) {
			nic_channel_begin(channel);
			atomic_store(&cq->cq.ring->waiter, channel->number);
		}
		cq->on_event = on_event;
		cq->user = user;
		cq->epoch = nic_epoch;
		cq->home = nic.next_home++ % nic.lane_count;
	}
	nic_leave();
	if (error)
		free(cq);
	else
		*ret_cq = cq;
	return error;
}

/* --- moderation --- */

static struct deadline *alarm_of(struct nic_cq *cq, const struct worker *worker)
{
	return &cq->holds[worker->lane.index].alarm;
}

void nic_cq_hold(struct nic_cq *cq, struct worker *worker)
{
	uint64_t at_ns = cq_release_moderated(&cq->cq, worker->now_ns, &worker->lane.signals);

	worker_set_alarm(worker, alarm_of(cq, worker), at_ns);
}

void nic_cq_alarm(struct worker *worker, struct deadline *alarm)
{
	nic_cq_hold(container_of(alarm, struct nic_cq_hold, alarm)->cq, worker);
}

/* Reserve room for one more alarm on every lane. The NIC is locked. Returns 0 or -ENOMEM. */
static int reserve_alarms(void)
{
	struct worker *worker;
	int error = 0;

	for (uint32_t i = 0; !error && (worker = nic_worker_next(&i));) {
		worker_lock(worker);
		error = deadline_heap_reserve(
			&worker->alarms, nic.moderated_count + 1 + WORKER_OWN_ALARMS);
		worker_unlock(worker);
	}
	return error;
}

/* Allocate the queue's alarms, one for each lane. The NIC is locked. Returns 0 or -ENOMEM. */
static int holds_make(struct nic_cq *cq)
{
	struct nic_cq_hold *holds;

	if (cq->holds)
		return 0;
	if (reserve_alarms())
		return -ENOMEM;
	holds = calloc(NIC_LANES_MAX, sizeof(*holds));
	if (!holds)
		return -ENOMEM;
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		holds[i].cq = cq;
	cq->holds = holds;
	nic.moderated_count++;
	return 0;
}

/* Clear the queue's alarms. No lane pushes into the queue any more. The NIC is locked. */
static void holds_unmake(struct nic_cq *cq)
{
	struct worker *worker;

	if (!cq->holds)
		return;
	for (uint32_t i = 0; (worker = nic_worker_next(&i));) {
		worker_lock(worker);
		worker_set_alarm(worker, alarm_of(cq, worker), DEADLINE_NEVER);
		worker_unlock(worker);
	}
	nic.moderated_count--;
}

int nic_cq_moderate(struct nic_cq *cq, uint32_t count, uint32_t period_us)
{
	int error = -EIO;

	nic_enter();
	if (cq->epoch == nic_epoch)
		error = holds_make(cq);
	if (!error)
		cq_moderate(&cq->cq, count, (uint64_t)period_us * 1000);
	nic_leave();
	return error;
}

/* --- life --- */

void nic_cq_destroy(struct nic_cq *cq)
{
	nic_enter();
	if (cq->epoch == nic_epoch) {
		if (cq->channel)
			nic_channel_leave(cq->channel);
		/* Wait until the queue's signals are delivered */
		nic_for_each_worker(nic_worker_pass);
		holds_unmake(cq);
		cq_done(&cq->cq, &nic.arena);
	}
	nic_leave();
	free(cq->holds);
	free(cq);
}

uint32_t nic_cq_capacity(const struct nic_cq *cq)
{
	return cq->cq.ring->capacity;
}

/*
 * Lock the lane. If another thread has it locked, that thread drives the lane, so usually do not
 * wait. But wait if a peer on this host has left records: the peer's program may already have told
 * this program in another way that the request is complete. The thread that has the lock, or the
 * peer process, may need this CPU. So yield the CPU after many polls that found the lane locked,
 * and at once when a thread is queued for the lock of any lane.
 */
static bool lane_enter(struct worker *worker)
{
	if (worker_try_lock(worker))
		return true;
	if (worker_has_local_work(worker)) {
		worker_lock(worker);
		return true;
	}
	if (poll_policy_yields_to_holder(&worker->policy) || busy_locks_are_wanted())
		sched_yield();
	return false;
}

/* Drive the lane in this thread, unless another thread does. */
static void lane_drive(struct worker *worker, struct cq_taker *taker)
{
	if (worker_poll_is_idle(worker) || !lane_enter(worker))
		return;
	worker_streams_read_ahead(worker);
	worker->lane.taker = taker;
	unsigned datagrams = worker_poll(worker, taker->cq);
	worker->lane.taker = NULL;
	bool yields = poll_policy_yields(&worker->policy, datagrams);
	bool has_borrowers = worker->local.has_borrowers;
	worker_unlock(worker);
	/*
	 * A poll does this, because the program may have only one thread, and that thread may do
	 * nothing but poll.
	 */
	if (has_borrowers && segments_may_begin())
		nic_mr_make_mappable();
	if (yields || busy_locks_are_wanted())
		sched_yield();
}

static void drive_all(struct nic_cq *cq, struct cq_taker *taker)
{
	uint32_t lanes = atomic_load_explicit(&cq->lane_mask, memory_order_acquire);

	for (; lanes; lanes &= lanes - 1)
		lane_drive(nic.worker[__builtin_ctz(lanes)], taker);
}

/*
 * Count the poll. Do not count it if the queue is armed, because then the program is about to
 * sleep.
 */
static void note_poll(struct nic_cq *cq)
{
	uint32_t lanes = atomic_load_explicit(&cq->lane_mask, memory_order_acquire);

	if (nic_cq_is_armed(cq))
		return;
	for (; lanes; lanes &= lanes - 1)
		poll_policy_note(&nic.worker[__builtin_ctz(lanes)]->policy, 1);
}

static uint32_t queue_take(struct nic_cq *cq, uint32_t count, struct cqe *out)
{
	return cq_poll(&cq->cq, &nic.arena, count, out);
}

/* Send the datagrams that wait (lane/post_policy.h). */
static void lanes_send_waiting(const struct nic_cq *cq)
{
	uint32_t lanes = atomic_load_explicit(&cq->lane_mask, memory_order_acquire);

	for (; lanes; lanes &= lanes - 1)
		worker_send_waiting(nic.worker[__builtin_ctz(lanes)]);
}

/* A program that gets as many completions as it has asked for is likely to poll again at once. */
uint32_t nic_cq_poll(struct nic_cq *cq, uint32_t count, struct cqe *out)
{
	uint32_t taken = queue_take(cq, count, out);

	if (cq->epoch != nic_epoch)
		return taken;
	note_poll(cq);
	if (taken) {
		if (taken < count)
			lanes_send_waiting(cq);
		return taken;
	}
	struct cq_taker taker = {.cq = &cq->cq, .out = out, .room = count};

	drive_all(cq, &taker);
	return taker.taken + queue_take(cq, count - taker.taken, out + taker.taken);
}

bool nic_cq_next(struct nic_cq *cq, struct cqe *out)
{
	return queue_take(cq, 1, out) == 1;
}

int nic_cq_resize(struct nic_cq *cq, uint32_t capacity)
{
	int error = -EIO;

	nic_enter();
	if (cq->epoch == nic_epoch)
		error = cq_resize(&cq->cq, &nic.arena, capacity);
	nic_leave();
	return error;
}

void nic_cq_ignore_overrun(struct nic_cq *cq)
{
	cq_ignore_overrun(&cq->cq);
}

static void worker_begin_stamping(struct worker *worker)
{
	atomic_store_explicit(&worker->is_stamping, true, memory_order_relaxed);
}

void nic_cq_stamp(void)
{
	nic_enter();
	nic.is_stamping = true;
	nic_for_each_worker(worker_begin_stamping);
	nic_leave();
}

void nic_collect(uint32_t lanes)
{
	for (; lanes; lanes &= lanes - 1) {
		struct worker *worker = nic.worker[__builtin_ctz(lanes)];

		if (!worker_has_local_work(worker))
			continue;
		worker_lock(worker);
		worker_collect(worker);
		worker_unlock(worker);
	}
}

/*
 * Collect the records that initiators on this host have left before the queue was armed. These
 * initiators have woken no thread. An initiator that leaves a record later sees that the queue is
 * armed.
 */
static void lanes_collect(const struct nic_cq *cq)
{
	atomic_thread_fence(memory_order_seq_cst);
	nic_collect(atomic_load_explicit(&cq->lane_mask, memory_order_acquire));
}

/* The caller is about to sleep, so the lanes' threads have to drive the lanes again. */
static void note_arm(struct nic_cq *cq)
{
	uint32_t lanes = atomic_load_explicit(&cq->lane_mask, memory_order_acquire);

	lanes_send_waiting(cq);
	for (; lanes; lanes &= lanes - 1)
		worker_note_arm(nic.worker[__builtin_ctz(lanes)], cq->channel);
}

void nic_cq_arm(struct nic_cq *cq, enum cq_arm arm)
{
	if (cq->epoch != nic_epoch)
		return;
	cq_arm(&cq->cq, arm);
	lanes_collect(cq);
	note_arm(cq);
	if (cq->channel)
		nic_channel_arm(cq->channel);
}

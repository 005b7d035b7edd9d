/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues, and polling: where an application's thread becomes the NIC.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "nic/nic_internal.h"
#include "os/log.h"
#include "segment/segment.h"

enum {
	POLLS_LOCKED_MAX =
		20, /* polls in a row that meet a locked lane before they give up the CPU */
	/*
	 * Weight of polls in a row without a packet: some round trips of a fast network; and from
	 * then on.
	 */
	POLLS_IDLE_MAX = 128 * WORKER_LOOK_WEIGHT,
	POLLS_IDLE_STEP = 32 * WORKER_LOOK_WEIGHT,
};

int nic_cq_create(uint32_t capacity, struct nic_channel *channel, nic_cq_news_fn *on_news,
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
			atomic_store(&cq->cq.ring->attention, channel->number);
		}
		cq->on_news = on_news;
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
	uint64_t at_ns = cq_release_held(&cq->cq, worker->now_ns, &worker->lane.signals);

	worker_set_alarm(worker, alarm_of(cq, worker), at_ns);
}

void nic_cq_alarm(struct worker *worker, struct deadline *alarm)
{
	nic_cq_hold(container_of(alarm, struct nic_cq_hold, alarm)->cq, worker);
}

/* Room for one more alarm on every lane that there is. The NIC is locked. Returns 0 or -ENOMEM. */
static int reserve_alarms(void)
{
	int error = 0;

	for (uint32_t i = 0; i < NIC_LANES_MAX && !error; i++)
		if (nic.worker[i]) {
			worker_lock(nic.worker[i]);
			error = deadline_heap_reserve(
				&nic.worker[i]->alarms, nic.moderated_count + 1);
			worker_unlock(nic.worker[i]);
		}
	return error;
}

/* The NIC is locked. Returns 0 or -ENOMEM. */
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

/* The NIC is locked. No lane pushes into the queue any more. */
static void holds_unmake(struct nic_cq *cq)
{
	if (!cq->holds)
		return;
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		if (nic.worker[i]) {
			worker_lock(nic.worker[i]);
			worker_set_alarm(nic.worker[i], &cq->holds[i].alarm, DEADLINE_NEVER);
			worker_unlock(nic.worker[i]);
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
		nic_for_each_worker(nic_worker_pass); /* a signal of it may be on its way */
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
 * Do in this thread what the lane can do now. Nobody waits: a locked lane is being driven. But this
 * thread polls, and whom it waits for may need the CPU: the driver of the lane, or the peer, which
 * is perhaps a process of this machine. So after a row of polls for nothing it is offered, and at
 * once when a thread waits for any lane.
 */
static void lane_drive(struct worker *worker, struct cq_taker *taker)
{
	static __thread uint32_t polls_locked, polls_idle;

	if (worker_poll_is_idle(worker))
		return;
	if (!worker_try_lock(worker)) {
		if (++polls_locked < POLLS_LOCKED_MAX && !busy_locks_are_wanted())
			return;
		polls_locked = 0;
		sched_yield();
		return;
	}
	worker_streams_read_ahead(worker);
	worker->lane.taker = taker;
	unsigned datagrams = worker_poll(worker, taker->cq);
	worker->lane.taker = NULL;
	uint32_t weight = worker->poll_weight;
	bool has_guests = worker->has_guests;
	worker_unlock(worker);
	/*
	 * This may be the only thread that the program has, and the only call that it still makes.
	 */
	if (has_guests && segments_may_begin())
		nic_mr_make_mappable();
	polls_locked = 0;
	polls_idle = datagrams ? 0 : polls_idle + weight;
	if (polls_idle >= POLLS_IDLE_MAX) {
		polls_idle -= POLLS_IDLE_STEP;
		sched_yield();
	} else if (busy_locks_are_wanted()) {
		sched_yield();
	}
}

static void drive_all(struct nic_cq *cq, struct cq_taker *taker)
{
	uint32_t lanes = atomic_load_explicit(&cq->lane_mask, memory_order_acquire);

	for (; lanes; lanes &= lanes - 1)
		lane_drive(nic.worker[__builtin_ctz(lanes)], taker);
}

/* Tell the lanes' threads that somebody polls. An armed queue's owner is about to sleep. */
static void note_poll(struct nic_cq *cq)
{
	uint32_t lanes = atomic_load_explicit(&cq->lane_mask, memory_order_acquire);

	if (nic_cq_is_armed(cq))
		return;
	for (; lanes; lanes &= lanes - 1)
		worker_note_polls(nic.worker[__builtin_ctz(lanes)], 1);
}

/* For a person who asked to be told: what failed, and which check it was. */
static __attribute__((cold)) void tell_failure(const struct cqe *cqe)
{
	if (log_is_on(LOG_INFO))
		log_write(LOG_INFO, "queue pair 0x%06x, work request %llu: %s", cqe->qpn,
			(unsigned long long)cqe->wr_id, fault_sentence((enum fault)cqe->fault));
}

static void tell_failures(const struct cqe *cqes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (cqes[i].fault != FAULT_NONE && cqes[i].fault != FAULT_FLUSHED)
			tell_failure(&cqes[i]);
}

static uint32_t queue_take(struct nic_cq *cq, uint32_t count, struct cqe *out)
{
	uint32_t taken = cq_poll(&cq->cq, &nic.arena, count, out);

	tell_failures(out, taken);
	return taken;
}

uint32_t nic_cq_poll(struct nic_cq *cq, uint32_t count, struct cqe *out)
{
	uint32_t taken = queue_take(cq, count, out);

	if (cq->epoch != nic_epoch)
		return taken;
	note_poll(cq);
	if (taken)
		return taken;
	struct cq_taker taker = {.cq = &cq->cq, .out = out, .room = count};

	drive_all(cq, &taker);
	tell_failures(out, taker.taken);
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

		if (!worker_has_news(worker))
			continue;
		worker_lock(worker);
		worker_collect(worker);
		worker_unlock(worker);
	}
}

/*
 * Initiators on this host that came before the queue was armed have woken nobody: what they have
 * left is taken in now. Those that come later see that it is armed.
 */
static void lanes_collect(const struct nic_cq *cq)
{
	atomic_thread_fence(memory_order_seq_cst);
	nic_collect(atomic_load_explicit(&cq->lane_mask, memory_order_acquire));
}

/* It is not polled on, for all that is known. */
static void note_arm(struct nic_cq *cq)
{
	uint32_t lanes = atomic_load_explicit(&cq->lane_mask, memory_order_acquire);

	for (; lanes; lanes &= lanes - 1)
		worker_note_arm(nic.worker[__builtin_ctz(lanes)]);
}

void nic_cq_arm(struct nic_cq *cq, enum cq_arm arm)
{
	if (cq->epoch != nic_epoch)
		return;
	cq_arm(&cq->cq, arm);
	lanes_collect(cq);
	note_arm(cq);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels: how waiters and visitors for events collect completions
 * (event/event_queue.h).
 *
 * The lane's sockets in the channel's descriptor make it readable although there may be no event.
 * The manual page's example takes that for an error, so the sockets are put there only for a
 * program that has shown that it tolerates it: ibv_get_cq_event failed with EAGAIN, and the program
 * armed a queue afterwards. For a blocking descriptor they are not: a program that polls before it
 * calls expects not to be blocked.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "nic/nic_internal.h"

static_assert(sizeof(struct waiter) == 64, "a cache line each");

int nic_channel_start(void)
{
	uint64_t offset = arena_alloc(&nic.arena, sizeof(struct waiter_table));

	if (!offset)
		return -ENOMEM;
	nic.waiters = arena_at(&nic.arena, offset);
	nic.public->waiters_offset = offset;
	return 0;
}

static bool has_peers(const struct worker *worker)
{
	return atomic_load_explicit(&worker->local.watch_count, memory_order_relaxed) != 0;
}

static enum event_view channel_collect(struct event_collector *collector)
{
	struct nic_channel *channel = container_of(collector, struct nic_channel, collector);
	uint32_t lanes = atomic_load_explicit(&channel->lane_mask, memory_order_acquire);
	enum event_view view = EVENT_VIEW_EMPTY;

	if (channel->epoch != nic_epoch)
		return EVENT_VIEW_NONE;
	nic_collect(lanes);
	for (; lanes; lanes &= lanes - 1)
		if (has_peers(nic.worker[__builtin_ctz(lanes)]))
			view = EVENT_VIEW_OPEN;
	return view;
}

/*
 * The waiter drives the channel's lane, unless there are several. A lane that is added meanwhile
 * has its own thread, which posts the event and so wakes the waiter.
 */
static int channel_drive(struct event_collector *collector)
{
	struct nic_channel *channel = container_of(collector, struct nic_channel, collector);
	uint32_t lanes = atomic_load_explicit(&channel->lane_mask, memory_order_acquire);
	struct worker *worker;

	if (channel->epoch != nic_epoch || !lanes || lanes & (lanes - 1))
		return -EAGAIN;
	worker = nic.worker[__builtin_ctz(lanes)];
	atomic_store(&channel->driven, worker);
	return worker_wait(worker, channel, &channel->queue->has_events);
}

static void channel_wake(struct event_collector *collector)
{
	struct nic_channel *channel = container_of(collector, struct nic_channel, collector);
	struct worker *worker = atomic_load(&channel->driven);

	if (worker)
		worker_wait_wake(worker);
}

static void channel_visit(struct event_collector *collector)
{
	struct nic_channel *channel = container_of(collector, struct nic_channel, collector);
	struct worker *worker = atomic_load(&channel->visited);

	if (worker && channel->epoch == nic_epoch)
		worker_visit(worker, channel, &channel->queue->has_events);
}

/* The program takes events as before. */
static void visits_end(struct nic_channel *channel)
{
	struct worker *worker = atomic_load(&channel->visited);

	atomic_store(&channel->collector.is_visited, false);
	if (worker)
		worker_visit_end(worker, channel);
}

void nic_channel_arm(struct nic_channel *channel)
{
	uint32_t lanes = atomic_load_explicit(&channel->lane_mask, memory_order_acquire);
	bool is_visited = atomic_load(&channel->collector.is_visited);
	struct worker *worker;

	if (!atomic_load(&channel->collector.has_missed) || channel->epoch != nic_epoch ||
		channel->is_inherited || !channel->number)
		return;
	if (event_queue_is_blocking(channel->queue)) {
		atomic_store(&channel->collector.has_missed, false);
		visits_end(channel);
	} else if (!lanes || lanes & (lanes - 1)) {
		visits_end(channel);
	} else if (is_visited || !event_queue_has_owner(channel->queue)) {
		worker = nic.worker[__builtin_ctz(lanes)];
		atomic_store(&channel->visited, worker);
		atomic_store(&channel->collector.is_visited,
			worker_visit_begin(worker, channel, channel->queue->fd));
	}
}

void nic_channel_leave(struct nic_channel *channel)
{
	if (channel->epoch == nic_epoch)
		visits_end(channel);
}

static void channel_share(struct event_collector *collector)
{
	struct nic_channel *channel = container_of(collector, struct nic_channel, collector);
	struct worker *worker = atomic_load(&channel->driven);

	if (worker && channel->epoch == nic_epoch)
		worker_wait_end(worker);
}

int nic_channel_create(struct event_queue *queue, struct nic_channel **ret_channel)
{
	struct nic_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return -ENOMEM;
	channel->queue = queue;
	channel->collector.collect = channel_collect;
	channel->collector.drive = channel_drive;
	channel->collector.wake = channel_wake;
	channel->collector.share = channel_share;
	channel->collector.visit = channel_visit;
	*ret_channel = channel;
	return 0;
}

static uint32_t number_take(void)
{
	for (uint32_t number = 1; number < WAITER_COUNT; number++)
		if (!nic.is_waiter_taken[number]) {
			nic.is_waiter_taken[number] = true;
			return number;
		}
	return 0;
}

void nic_channel_begin(struct nic_channel *channel)
{
	if (channel->epoch == nic_epoch)
		return;
	/* In the child of a fork, these are the parent's. */
	atomic_store(&channel->lane_mask, 0);
	atomic_store(&channel->driven, NULL);
	atomic_store(&channel->visited, NULL);
	atomic_store(&channel->collector.is_visited, false);
	channel->is_inherited = channel->queue->owner != getpid();
	channel->number = number_take();
	channel->epoch = nic_epoch;
	if (!channel->number)
		return;
	channel->collector.waiter = waiter_at(nic.waiters, channel->number);
	event_queue_set_collector(channel->queue, &channel->collector);
}

void nic_channel_destroy(struct nic_channel *channel)
{
	nic_enter();
	if (channel->epoch == nic_epoch) {
		visits_end(channel);
		nic.is_waiter_taken[channel->number] = false;
	}
	nic_leave();
	free(channel);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels: how waiters for events collect completions (event/event_queue.h). */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

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

int nic_channel_create(struct event_queue *queue, struct nic_channel **ret_channel)
{
	struct nic_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return -ENOMEM;
	channel->queue = queue;
	channel->collector.collect = channel_collect;
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
	if (channel->epoch == nic_epoch)
		nic.is_waiter_taken[channel->number] = false;
	nic_leave();
	free(channel);
}

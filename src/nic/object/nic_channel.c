/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels: how threads that wait for events, or that poll the descriptor (visits),
 * collect completions (event/event_queue.h).
 *
 * The channel's descriptor is an epoll set. It can contain the lane's sockets, and an eventfd to
 * which peers on this host write. The sockets and the eventfd make the descriptor readable although
 * there may be no event. The example in the manual page of ibv_get_cq_event() takes that for an
 * error. So the sockets and the eventfd are added only for a program that tolerates it: its
 * ibv_get_cq_event() has failed with EAGAIN, and the program has armed a queue afterwards. They are
 * not added to a blocking descriptor, because a program that first calls poll(2) expects that
 * ibv_get_cq_event() does not block.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "nic/object/nic_object.h"
#include "os/epoll.h"
#include "os/kick.h"
#include "os/log.h"

static_assert(sizeof(struct waiter) == 64, "a cache line each");

enum { VISITS_PER_CLEAR = 16 };

static enum event_view channel_collect(struct event_collector *collector)
{
	struct nic_channel *channel = container_of(collector, struct nic_channel, collector);
	uint32_t lanes = atomic_load_explicit(&channel->lane_mask, memory_order_acquire);
	enum event_view view = EVENT_VIEW_EMPTY;

	if (channel->epoch != nic_epoch)
		return EVENT_VIEW_NONE;
	nic_collect(lanes);
	for (; lanes; lanes &= lanes - 1)
		if (atomic_load_explicit(&nic.worker[__builtin_ctz(lanes)]->local.watch_count,
			    memory_order_relaxed))
			view = EVENT_VIEW_OPEN;
	return view;
}

/*
 * The waiter drives the channel's lane, if the channel has only one. If a lane is added meanwhile,
 * the new lane's own thread drives that lane. It posts the event, and so wakes the waiter.
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

/*
 * Collect the records that peers on this host have left. A peer increments the waiter's count of
 * raises, and then writes to the eventfd. `raises_seen` is how many of these writes the visits have
 * read. If both numbers are equal, the eventfd is empty, and this visit need not read it. A peer
 * that dies between its increment and its write leaves `raises_seen` too low for good. So each
 * VISITS_PER_CLEARth visit sets it to the count.
 */
static void records_visit(struct nic_channel *channel)
{
	struct waiter *waiter = channel->collector.waiter;
	bool is_due = ++channel->visits % VISITS_PER_CLEAR == 0;

	if (atomic_load(waiter_raises(waiter)) != channel->raises_seen || is_due) {
		channel->raises_seen +=
			(uint32_t)kick_clear(nic.waiter_eventfd[channel->number] - 1);
		atomic_store(&waiter->cleared, atomic_load(waiter_raises(waiter)));
		atomic_thread_fence(memory_order_seq_cst);
	}
	if (is_due)
		channel->raises_seen = atomic_load(waiter_raises(waiter));
	nic_collect(atomic_load_explicit(&channel->lane_mask, memory_order_acquire));
}

static void channel_visit(struct event_collector *collector)
{
	struct nic_channel *channel = container_of(collector, struct nic_channel, collector);
	struct worker *worker = atomic_load(&channel->visited);

	if (channel->epoch != nic_epoch)
		return;
	if (atomic_load(&channel->is_watching))
		records_visit(channel);
	if (worker)
		worker_visit(worker, channel, &channel->queue->has_events);
}

/* Take the lane's sockets out of the descriptor. */
static void lane_leave(struct nic_channel *channel)
{
	struct worker *worker = atomic_exchange(&channel->visited, NULL);

	if (worker)
		worker_visit_end(worker, channel);
}

/* Put the lane's sockets into the descriptor, if the channel has only one lane. */
static void lane_visit(struct nic_channel *channel)
{
	uint32_t lanes = atomic_load_explicit(&channel->lane_mask, memory_order_acquire);
	struct worker *worker = NULL;

	if (lanes && !(lanes & (lanes - 1)))
		worker = nic.worker[__builtin_ctz(lanes)];
	if (worker != atomic_load(&channel->visited))
		lane_leave(channel);
	if (worker && worker_visit_begin(worker, channel, channel->queue->fd))
		atomic_store(&channel->visited, worker);
}

/*
 * Put the eventfd to which peers on this host write into the descriptor. The NIC is locked. Returns
 * 0 or -errno.
 */
static int watch_begin(struct nic_channel *channel)
{
	struct epoll_event event = {.events = EPOLLIN};
	int fd = nic.waiter_eventfd[channel->number] - 1;

	if (fd < 0)
		fd = kick_create("programs that poll for events are slower");
	if (fd < 0)
		return fd;
	nic.waiter_eventfd[channel->number] = fd + 1;
	if (epoll_change(channel->queue->fd, EPOLL_CTL_ADD, fd, &event) && errno != EEXIST)
		return log_refusal("programs that poll for events are slower", "epoll_ctl");
	atomic_store(&channel->collector.waiter->eventfd, fd);
	atomic_store(&channel->is_watching, true);
	event_queue_watch(channel->queue, true);
	return 0;
}

static void watch_end(struct nic_channel *channel)
{
	if (!atomic_exchange(&channel->is_watching, false))
		return;
	event_queue_watch(channel->queue, false);
	epoll_change(
		channel->queue->fd, EPOLL_CTL_DEL, nic.waiter_eventfd[channel->number] - 1, NULL);
	nic_collect(atomic_load_explicit(&channel->lane_mask, memory_order_acquire));
}

/* Take the sockets and the eventfd out, so that only events make the descriptor readable. */
static void visits_end(struct nic_channel *channel)
{
	atomic_store(&channel->collector.is_visited, false);
	lane_leave(channel);
	watch_end(channel);
}

/* The program tolerates visits, and has armed a queue: put the eventfd into the descriptor. */
static void visits_begin(struct nic_channel *channel)
{
	bool is_begun;

	nic_enter();
	is_begun = channel->epoch == nic_epoch && !event_queue_has_owner(channel->queue) &&
		!watch_begin(channel);
	atomic_store(&channel->collector.is_visited, is_begun);
	/* If the begin has failed, the next EAGAIN of ibv_get_cq_event() causes another attempt. */
	atomic_store(&channel->collector.has_missed, is_begun);
	nic_leave();
}

void nic_channel_arm(struct nic_channel *channel)
{
	if (!atomic_load(&channel->collector.has_missed) || channel->epoch != nic_epoch ||
		channel->is_inherited || !channel->number)
		return;
	if (event_queue_is_blocking(channel->queue)) {
		atomic_store(&channel->collector.has_missed, false);
		visits_end(channel);
		return;
	}
	if (!atomic_load(&channel->collector.is_visited))
		visits_begin(channel);
	if (atomic_load(&channel->collector.is_visited))
		lane_visit(channel);
}

void nic_channel_forget(void)
{
	for (uint32_t i = 0; i < WAITER_COUNT; i++)
		if (nic.waiter_eventfd[i])
			close(nic.waiter_eventfd[i] - 1);
}

void nic_channel_leave(struct nic_channel *channel)
{
	if (channel->epoch == nic_epoch)
		lane_leave(channel);
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
	/* In the child of a fork, the channel still has the parent's values. */
	atomic_store(&channel->lane_mask, 0);
	atomic_store(&channel->driven, NULL);
	atomic_store(&channel->visited, NULL);
	atomic_store(&channel->collector.is_visited, false);
	atomic_store(&channel->is_watching, false);
	channel->collector.is_watching = false;
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

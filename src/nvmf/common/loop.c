/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lock: `mutex` guards the list of posted work. No callback runs while the mutex is locked.
 */
#include "nvmf/common/loop.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "nvmf/common/network.h"

enum {
	EVENTS_MAX = 64, /* the most events that one call of epoll_wait() returns */
	NS_PER_MS = 1000000,
	WAIT_MS_MAX = 3600000, /* a longer wait is cut, as epoll_wait() takes an int */
};

struct loop {
	int epoll; /* -1: a virtual loop */
	struct network *network;
	struct loop_watch wake;
	atomic_bool is_stopped;
	bool is_polling; /* loop_run() does not sleep */
	uint64_t now_ns;
	struct list timers; /* the earliest deadline first */
	struct list deferred;
	struct list reported;
	pthread_mutex_t mutex;
	struct list posted;
};

static uint64_t clock_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void wake_up(struct loop *loop)
{
	uint64_t one = 1;
	ssize_t written;

	if (loop->epoll < 0)
		return;
	written = write(loop->wake.fd, &one, sizeof(one));
	(void)written; /* write() fails only if the counter is full: then the loop wakes anyway. */
}

static void wake_ready(struct loop_watch *watch, uint32_t events)
{
	uint64_t count;
	ssize_t taken = read(watch->fd, &count, sizeof(count));

	(void)taken;
	(void)events;
}

int loop_create_virtual(struct network *network, struct loop **ret_loop)
{
	struct loop *loop = calloc(1, sizeof(*loop));

	if (!loop)
		return -ENOMEM;
	loop->epoll = -1;
	loop->network = network;
	loop->wake.fd = -1;
	list_init(&loop->timers);
	list_init(&loop->deferred);
	list_init(&loop->reported);
	list_init(&loop->posted);
	pthread_mutex_init(&loop->mutex, NULL);
	*ret_loop = loop;
	return 0;
}

int loop_create(struct loop **ret_loop)
{
	struct loop *loop;
	int error = loop_create_virtual(&network_sockets, &loop);
	int fd;

	if (error)
		return error;
	loop->epoll = epoll_create1(EPOLL_CLOEXEC);
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop->wake.ready = wake_ready;
	error = loop->epoll < 0 || fd < 0 ? -errno : loop_watch(loop, &loop->wake, fd, EPOLLIN);
	loop->wake.fd = fd;
	if (error) {
		loop_destroy(loop);
		return error;
	}
	loop->now_ns = clock_ns();
	*ret_loop = loop;
	return 0;
}

void loop_destroy(struct loop *loop)
{
	if (!loop)
		return;
	if (loop->wake.fd >= 0)
		close(loop->wake.fd);
	if (loop->epoll >= 0)
		close(loop->epoll);
	pthread_mutex_destroy(&loop->mutex);
	free(loop);
}

static struct list *item_pop(struct list *head)
{
	struct list *node = head->next;

	list_remove(node);
	return node;
}

/* Append all nodes of `from` to `to`, in order. */
static void move_all(struct list *to, struct list *from)
{
	while (!list_is_empty(from))
		list_append(to, item_pop(from));
}

static void run_timers(struct loop *loop)
{
	while (!list_is_empty(&loop->timers)) {
		struct loop_timer *timer = list_first(&loop->timers, struct loop_timer, node);

		if (timer->deadline_ns > loop->now_ns)
			return;
		list_remove(&timer->node);
		timer->expired(timer);
	}
}

/*
 * Run the posted and the deferred work. If that work defers more, the loop runs the new work in its
 * next step, so that the descriptors get their turn.
 */
static void run_work(struct loop *loop)
{
	struct list batch;

	list_init(&batch);
	pthread_mutex_lock(&loop->mutex);
	move_all(&batch, &loop->posted);
	pthread_mutex_unlock(&loop->mutex);
	move_all(&batch, &loop->deferred);
	while (!list_is_empty(&batch)) {
		struct loop_work *work = container_of(item_pop(&batch), struct loop_work, node);

		work->run(work);
	}
}

static bool has_work(struct loop *loop)
{
	bool is_posted;

	pthread_mutex_lock(&loop->mutex);
	is_posted = !list_is_empty(&loop->posted);
	pthread_mutex_unlock(&loop->mutex);
	return is_posted || !list_is_empty(&loop->deferred);
}

static int wait_ms(struct loop *loop, uint64_t wait_ns)
{
	uint64_t deadline_ns = loop_deadline_ns(loop);
	uint64_t now_ns = clock_ns();

	if (has_work(loop) || deadline_ns <= now_ns)
		return 0;
	if (deadline_ns != UINT64_MAX && deadline_ns - now_ns < wait_ns)
		wait_ns = deadline_ns - now_ns;
	if (wait_ns == UINT64_MAX)
		return -1;
	if (wait_ns > (uint64_t)WAIT_MS_MAX * NS_PER_MS)
		return WAIT_MS_MAX;
	return (int)((wait_ns + NS_PER_MS - 1) / NS_PER_MS);
}

/*
 * Call ready() of each reported watch. The watches form a list, because a ready() may call
 * loop_unwatch() for a watch that is still in the list.
 */
static void run_reported(struct loop *loop)
{
	while (!list_is_empty(&loop->reported)) {
		struct loop_watch *watch =
			container_of(item_pop(&loop->reported), struct loop_watch, reported);

		watch->ready(watch, watch->pending_events);
	}
}

void loop_report(struct loop *loop, struct loop_watch *watch, uint32_t events)
{
	watch->pending_events = events;
	if (!list_is_linked(&watch->reported))
		list_append(&loop->reported, &watch->reported);
}

static void wait_for_events(struct loop *loop, uint64_t wait_ns)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(loop->epoll, events, EVENTS_MAX, wait_ms(loop, wait_ns));

	loop->now_ns = clock_ns();
	for (int i = 0; i < count; i++)
		loop_report(loop, events[i].data.ptr, events[i].events);
	run_reported(loop);
}

void loop_step(struct loop *loop, uint64_t wait_ns)
{
	assert(loop->epoll >= 0);
	wait_for_events(loop, wait_ns);
	run_timers(loop);
	run_work(loop);
}

void loop_advance(struct loop *loop, uint64_t now_ns)
{
	assert(loop->epoll < 0 && now_ns >= loop->now_ns);
	loop->now_ns = now_ns;
	run_reported(loop);
	run_timers(loop);
	while (has_work(loop))
		run_work(loop);
}

void loop_run(struct loop *loop)
{
	while (!atomic_load(&loop->is_stopped))
		loop_step(loop, loop->is_polling ? 0 : UINT64_MAX);
	atomic_store(&loop->is_stopped, false);
}

void loop_set_polling(struct loop *loop)
{
	loop->is_polling = true;
}

void loop_stop(struct loop *loop)
{
	atomic_store(&loop->is_stopped, true);
	wake_up(loop);
}

uint64_t loop_deadline_ns(const struct loop *loop)
{
	if (list_is_empty(&loop->timers))
		return UINT64_MAX;
	return list_first(&loop->timers, struct loop_timer, node)->deadline_ns;
}

uint64_t loop_now_ns(const struct loop *loop)
{
	return loop->now_ns;
}

struct network *loop_network(const struct loop *loop)
{
	return loop->network;
}

bool loop_is_virtual(const struct loop *loop)
{
	return loop->epoll < 0;
}

/* Add, change or end a watch. `events` is 0 if `operation` is EPOLL_CTL_DEL. */
static int watch_change(
	struct loop *loop, struct loop_watch *watch, int fd, int operation, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};

	if (!loop_is_virtual(loop) && epoll_ctl(loop->epoll, operation, fd, &event) != 0)
		return -errno;
	watch->fd = fd;
	watch->events = events;
	if (loop_is_virtual(loop))
		loop->network->watch(loop->network, watch);
	return 0;
}

int loop_watch(struct loop *loop, struct loop_watch *watch, int fd, uint32_t events)
{
	assert(events != 0);
	list_init(&watch->reported);
	return watch_change(loop, watch, fd, EPOLL_CTL_ADD, events);
}

int loop_rewatch(struct loop *loop, struct loop_watch *watch, uint32_t events)
{
	if (watch->events == events)
		return 0;
	return watch_change(loop, watch, watch->fd, EPOLL_CTL_MOD, events);
}

void loop_unwatch(struct loop *loop, struct loop_watch *watch)
{
	if (!watch->events)
		return;
	(void)watch_change(loop, watch, watch->fd, EPOLL_CTL_DEL, 0);
	watch->events = 0;
	list_remove(&watch->reported);
}

void loop_timer_init(struct loop_timer *timer, void (*expired)(struct loop_timer *timer))
{
	list_init(&timer->node);
	timer->expired = expired;
}

void loop_work_init(struct loop_work *work, void (*run)(struct loop_work *work))
{
	list_init(&work->node);
	work->run = run;
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t deadline_ns)
{
	struct list *after;

	loop_timer_cancel(timer);
	after = loop->timers.prev;
	while (after != &loop->timers &&
		container_of(after, struct loop_timer, node)->deadline_ns > deadline_ns)
		after = after->prev;
	timer->deadline_ns = deadline_ns;
	/* Insert the timer before the node that follows `after`. */
	list_append(after->next, &timer->node);
}

void loop_timer_cancel(struct loop_timer *timer)
{
	list_remove(&timer->node);
}

void loop_defer(struct loop *loop, struct loop_work *work)
{
	if (!list_is_linked(&work->node))
		list_append(&loop->deferred, &work->node);
}

void loop_defer_cancel(struct loop_work *work)
{
	list_remove(&work->node);
}

void loop_post(struct loop *loop, struct loop_work *work)
{
	pthread_mutex_lock(&loop->mutex);
	list_append(&loop->posted, &work->node);
	pthread_mutex_unlock(&loop->mutex);
	wake_up(loop);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_LOOP_H
#define URNIC_NVMF_COMMON_LOOP_H

/*
 * An event loop: descriptors that become ready, timers, and work that is to be done soon.
 *
 * A thread runs one loop. Its caller owns each watch, timer and work item, embedded in an object
 * of the caller; the loop allocates nothing after its creation. Callbacks run on the loop's thread,
 * one after the other, and may add or remove anything, including their own item.
 * Only loop_post() and loop_stop() may be called from other threads.
 *
 * A virtual loop (loop_create_virtual()) has a clock that its caller sets, and a network instead of
 * the kernel's descriptors. The simulator runs both ends of the protocol on such loops.
 */

#include <stdbool.h>
#include <stdint.h>

#include "nvmf/common/list.h"

struct loop;
struct network;

/* A descriptor. `events` are EPOLLIN and EPOLLOUT, level-triggered. */
struct loop_watch {
	int fd;
	uint32_t events; /* 0: not in the loop */
	void (*ready)(struct loop_watch *watch, uint32_t events);
	struct list reported; /* linked while an event that epoll has reported is pending */
	uint32_t pending_events;
};

struct loop_timer {
	struct list node;
	uint64_t deadline_ns;
	void (*expired)(struct loop_timer *timer);
};

struct loop_work {
	struct list node;
	void (*run)(struct loop_work *work);
};

/* 0 or -errno; `*ret_loop` is set on success only. */
int loop_create(struct loop **ret_loop);
/* `network`: NULL if nothing is watched. */
int loop_create_virtual(struct network *network, struct loop **ret_loop);

/* What carries byte streams: network_sockets, or that of a virtual loop. */
struct network *loop_network(const struct loop *loop);
bool loop_is_virtual(const struct loop *loop);

/* All items have been removed. NULL is fine. */
void loop_destroy(struct loop *loop);

/* Run callbacks until loop_stop(); sleeps while there is nothing to do. */
void loop_run(struct loop *loop);

/* Make loop_run() return after the present callbacks. Any thread, and signal handlers. */
void loop_stop(struct loop *loop);

/*
 * Run what is due, once.
 *
 * `wait_ns`  How long to sleep at most if nothing is due; 0 polls.
 */
void loop_step(struct loop *loop, uint64_t wait_ns);

/* A virtual loop: set its clock, not before its present time, and run what is due. */
void loop_advance(struct loop *loop, uint64_t now_ns);

/* A virtual loop: the network says that these events of a watch are true. For loop_advance(). */
void loop_report(struct loop *loop, struct loop_watch *watch, uint32_t events);

/* When the first timer expires; UINT64_MAX if there is none. */
uint64_t loop_deadline_ns(const struct loop *loop);

/* Monotonic time, as of the last time when the loop woke up. */
uint64_t loop_now_ns(const struct loop *loop);

/*
 * Watch a descriptor.
 *
 * `watch`   Its `ready` is set by the caller. Stays in place until loop_unwatch().
 *
 * 0 or -errno.
 */
int loop_watch(struct loop *loop, struct loop_watch *watch, int fd, uint32_t events);

/* Change the events; 0 or -errno. The same events as before cost nothing. */
int loop_rewatch(struct loop *loop, struct loop_watch *watch, uint32_t events);

/* Fine if it is not watched. Call it before the descriptor is closed. */
void loop_unwatch(struct loop *loop, struct loop_watch *watch);

/* Before an item's first use. */
void loop_timer_init(struct loop_timer *timer, void (*expired)(struct loop_timer *timer));
void loop_work_init(struct loop_work *work, void (*run)(struct loop_work *work));

/* Set or move a timer. It expires once. */
void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t deadline_ns);
void loop_timer_cancel(struct loop_timer *timer);

/* Run `work` on this loop's thread before it sleeps; fine if it is deferred already. */
void loop_defer(struct loop *loop, struct loop_work *work);
void loop_defer_cancel(struct loop_work *work);

/*
 * Run `work` on the loop's thread soon. Any thread. The caller does not post it again, and does not
 * release it, before it has run.
 */
void loop_post(struct loop *loop, struct loop_work *work);

#endif

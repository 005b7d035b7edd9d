/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NVMF_COMMON_LOOP_H
#define URNIC_NVMF_COMMON_LOOP_H

/*
 * An event loop: it runs callbacks for ready descriptors, expired timers and deferred work.
 *
 * A loop runs on one thread. The caller owns each watch, timer and work item, embedded in an object
 * of the caller; the loop allocates nothing after its creation. Callbacks run on the loop's thread,
 * one after the other. A callback may add or remove any watch, timer or work item, also its own.
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
	uint32_t events; /* 0: the loop does not watch the descriptor */
	void (*ready)(struct loop_watch *watch, uint32_t events);
	struct list reported; /* linked from the report of an event until ready() is called */
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

/* Returns 0 or -errno; `*ret_loop` is set on success only. */
int loop_create(struct loop **ret_loop);
/* `network` may be NULL if the caller never calls loop_watch(). */
int loop_create_virtual(struct network *network, struct loop **ret_loop);

/* Returns the network of the loop's byte streams: network_sockets, unless the loop is virtual. */
struct network *loop_network(const struct loop *loop);
bool loop_is_virtual(const struct loop *loop);

/* The caller has removed all watches, timers and work items before. `loop` may be NULL. */
void loop_destroy(struct loop *loop);

/*
 * Run callbacks until loop_stop(). While no callback is due the thread sleeps or, after
 * loop_set_polling(), asks for events without sleeping.
 */
void loop_run(struct loop *loop);
void loop_set_polling(struct loop *loop);

/*
 * Make loop_run() return after the callbacks of its present step. Any thread and any signal handler
 * may call this.
 */
void loop_stop(struct loop *loop);

/*
 * Run each callback that is due, once.
 *
 * `wait_ns`  How long the thread sleeps at most if no callback is due; 0 polls.
 */
void loop_step(struct loop *loop, uint64_t wait_ns);

/* Set the clock of a virtual loop to `now_ns`, never back, and run the callbacks that are due. */
void loop_advance(struct loop *loop, uint64_t now_ns);

/*
 * The network of a virtual loop reports that `events` of `watch` are true. The next loop_advance()
 * calls the watch's ready().
 */
void loop_report(struct loop *loop, struct loop_watch *watch, uint32_t events);

/* When the first timer expires; UINT64_MAX if no timer is set. */
uint64_t loop_deadline_ns(const struct loop *loop);

/* The monotonic time at which the loop woke up last, or the clock of a virtual loop. */
uint64_t loop_now_ns(const struct loop *loop);

/*
 * Watch a descriptor.
 *
 * `watch`   The caller has set its `ready`, and neither moves nor frees it before loop_unwatch().
 * `events`  EPOLLIN and EPOLLOUT; not 0.
 *
 * Returns 0 or -errno.
 */
int loop_watch(struct loop *loop, struct loop_watch *watch, int fd, uint32_t events);

/* Change the events of a watch. Returns 0 or -errno. Unchanged events cost no system call. */
int loop_rewatch(struct loop *loop, struct loop_watch *watch, uint32_t events);

/* End a watch, before its descriptor is closed. `watch` may have ended already. */
void loop_unwatch(struct loop *loop, struct loop_watch *watch);

/* The caller calls these before the first use of a timer or a work item. */
void loop_timer_init(struct loop_timer *timer, void (*expired)(struct loop_timer *timer));
void loop_work_init(struct loop_work *work, void (*run)(struct loop_work *work));

/* Set a timer, or change its deadline. The timer expires once. */
void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t deadline_ns);
void loop_timer_cancel(struct loop_timer *timer);

/* Run `work` on the loop's thread before that thread sleeps; once, even if deferred twice. */
void loop_defer(struct loop *loop, struct loop_work *work);
void loop_defer_cancel(struct loop_work *work);

/*
 * Run `work` on the loop's thread, which wakes up for it. Any thread may call this. The caller
 * neither posts `work` again nor releases it before its run() has been called.
 */
void loop_post(struct loop *loop, struct loop_work *work);

#endif

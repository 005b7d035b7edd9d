/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WORKER_WORKER_H
#define URNIC_WORKER_WORKER_H

/*
 * A lane at work: the engine's lane, its port, its lock, and the NIC thread behind it.
 *
 * Driving a lane means to receive, to let deadlines expire, and to send. An application that posts
 * or polls drives the lane inline, in its own thread, so the fast path has no thread switch. When
 * no application polls, the lane's NIC thread sleeps in epoll and serves what arrives. The holder
 * of the lock drives. A poll that finds the lock taken reads its completion queue, and waits only
 * for records that a peer on this host has left.
 *
 * Packets must not wake the NIC thread while an application polls. The thread sees that the count
 * of polls has grown, and then leaves the sockets alone for one tick at a time, until the count
 * stops growing. A poll of an armed completion queue does not count, because its caller is about to
 * sleep. Arming a queue ends the tick, because many programs poll for a moment before they sleep.
 * Ticks get longer while the application goes on polling: frequent wake-ups make Linux starve other
 * programs (docs/lanes.md).
 *
 * After a packet the NIC thread polls for a short while before it sleeps. A remote peer's READs and
 * atomics mostly arrive in batches, and waking a thread takes longer than serving one.
 *
 * An acknowledgement is deferred when a poll has found a completion, because the application mostly
 * posts an answer next, and both go to the kernel together. After a few polls without a completion,
 * or at the next tick, the acknowledgement is sent alone. The NIC thread defers acknowledgements
 * too, because a program may watch its memory instead of a completion queue. If both leave in one
 * batch, one poll of the peer receives both. If the acknowledgement leaves alone, the peer's
 * program completes its request and then watches its memory only. Nothing then drives the peer's
 * lane, because its NIC thread still trusts the program to poll.
 *
 * lane/poll_policy.h decides all of this and has the constants. A lane never waits: the control
 * thread does what may have to wait (nic/nic_control.h).
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/multicast.h"
#include "lane/poll_policy.h"
#include "local/channel/borrower.h"
#include "local/local.h"
#include "os/busy_lock.h"
#include "os/clock.h"
#include "os/lock_order.h"
#include "port/udp.h"
#include "segment/nic_public.h"
#include "worker/worker_wait.h"

/* The age up to which a time counts as recent: some 20 us of the processor's counter. */
#define WORKER_RECENT_TICKS 65536

/* Alarms of the worker itself: one for impaired packets. */
#define WORKER_OWN_ALARMS 1

/* The readable descriptor, in epoll data. */
enum worker_source {
	WORKER_SOURCE_SOCKET,
	WORKER_SOURCE_QUIET,
	WORKER_SOURCE_KICK,
	WORKER_SOURCE_STREAMS,
	WORKER_SOURCE_WAIT,
};

struct worker;

/* Functions of the NIC that a worker calls. */
struct worker_hooks {
	/* A packet for another slot has arrived. The worker is locked. */
	void (*forward)(struct worker *worker, uint8_t slot, const struct port_udp_packet *packet);
	/* A signal was raised. The worker is locked. */
	void (*signal)(struct worker *worker, struct signal *signal, uint32_t events);
	/* A time set by worker_set_alarm() has come. The worker is locked. */
	void (*alarm)(struct worker *worker, struct deadline *alarm);
};

struct worker {
	struct busy_lock lock;
	struct lane lane;
	/* Without a doorbell before the lane has started, and in tests without a NIC */
	struct local_lane local;
	struct channel_table *channels; /* NULL: all peers are reached by packets */
	struct capture capture; /* has no ring before the lane has started */
	struct deadline_heap alarms; /* of the NIC's objects; the lane has deadlines of its own */
	struct port_udp *port;
	struct deadline held; /* of impaired packets; among `alarms` */
	_Atomic bool has_held; /* that is set: the thread does not leave the lane to polls */
	struct list frames; /* struct worker_frames: raw packet queue pairs (worker_frames.h) */
	struct list streams; /* struct worker_stream: iWARP queue pairs (worker_streams.h) */
	uint32_t stream_count;
	uint32_t stalled_count; /* streams with a message that waits for a receive request */
	struct worker_stream *hot_stream; /* NULL: none (worker_streams.h) */
	bool has_read_ahead; /* worker_streams_read_ahead() has read from the hot stream */
	int64_t ahead_bytes; /* the result of that read */
	uint32_t streams_silence; /* reads in a row of epoll_streams without a result */
	uint32_t streams_polls; /* since then, while a stream is hot */
	int epoll_streams; /* all streams but the hot one; in epoll_all */
	int streams_timer; /* timerfd; -1 before the first stream */
	bool is_streams_timer_set;
	const struct worker_hooks *hooks;
	pthread_t thread;
	bool is_running;
	bool is_stopping;
	bool is_deep_asleep; /* the lane's sleeper (the thread or a waiter) has no time limit */
	_Atomic bool are_acks_deferred; /* written with the lock held */
	struct poll_policy policy;
	struct worker_wait wait; /* of programs' threads that drive while they wait */
	uint32_t flushes; /* of packets to the kernel, by any thread */
	uint32_t packets; /* turns that have received some from a socket, by any thread */
	bool lacks_pwait2; /* the kernel has refused epoll_pwait2 */
	bool has_logged_refusal; /* the port's refused system call is in the log */
	bool has_socket_error; /* unread, it wakes the thread again and again */
	uint64_t last_packet_ns;
	_Atomic bool was_armed; /* a completion queue was, since the thread last read this */
	_Atomic bool is_keeping_quiet; /* the thread leaves the sockets alone for a tick */
	uint64_t now_ns; /* of the current turn */
	bool is_now_fresh; /* `now_ns` was read in this turn */
	uint64_t now_ticks; /* `now_ns` is at least as recent as this */
	/* Programs read the times of completions: the clock is read for each. */
	_Atomic bool is_stamping;
	int epoll_all; /* sockets, unless an application polls, and epoll_quiet */
	/* Kick and timers, which wake the thread also while an application polls. */
	int epoll_quiet;
	int kick; /* eventfd */
	bool is_watching_sockets;
	/* The next poll unwatches the sockets: the thread would seldom find the lock free. */
	_Atomic bool shall_unwatch;
	uint32_t address_count;
	struct worker_address {
		struct gid gid; /* zero: it was removed */
		uint32_t scope_ifindex;
	} address[PORT_UDP_ADDRESSES_MAX];
};

/*
 * Make a worker for `slot`. Its thread is not started.
 *
 * `public`  The counters of the worker's port.
 *
 * Returns 0 or -errno.
 */
int worker_create(struct arena *arena, const struct mr_table *mrs, uint8_t slot, uint32_t index,
	struct nic_public_lane *public, const struct worker_hooks *hooks,
	struct worker **ret_worker);

/*
 * Impair what the worker sends (impair/impair.h), before it has queue pairs. The caller has
 * reserved room for WORKER_OWN_ALARMS. Returns 0 or -ENOMEM.
 */
int worker_impair(struct worker *worker, struct impair *impair);

/* Start the NIC thread. Returns 0 or -errno. */
int worker_start(struct worker *worker);

/*
 * Stop the thread and close everything. The worker has no queue pairs left. `is_child`: the process
 * is a forked child, which has no such thread.
 */
void worker_destroy(struct worker *worker, bool is_child);

/*
 * The index of a local address or multicast group that this worker receives on, or -1. The worker
 * is locked.
 */
int worker_address_find(const struct worker *worker, const struct gid *gid, uint32_t scope_ifindex);

/*
 * Receive on another address. From then on the worker owns `socket`. The worker is locked. Returns
 * the index or -errno.
 */
int worker_address_add(
	struct worker *worker, const struct gid *gid, uint32_t scope_ifindex, int socket);

/*
 * Bypass the kernel's UDP for packets of an address (port_udp_use_bypass()). The worker is locked.
 * Returns 0 or -errno.
 */
int worker_use_link(struct worker *worker, uint32_t index, uint32_t ifindex);

/* Stop receiving on a multicast group's address. The worker is locked. */
void worker_address_remove(struct worker *worker, uint32_t index);

/*
 * Have the sockets wake the thread, or not. A socket in an epoll set makes every packet cost its
 * sender more, even while no thread sleeps on the set. The worker is locked.
 */
void worker_watch_sockets(struct worker *worker, bool shall_watch);

/* Let the thread watch a timer: the streams', or that of waiters that leave. 0 or -errno. */
int worker_watch_timer(struct worker *worker, int timer, enum worker_source source);

/* Read the errors of the sockets, which wake the lane's sleeper. The worker is locked. */
void worker_clear_socket_errors(struct worker *worker);

/* A hint, for any thread. */
static inline bool worker_has_local_work(const struct worker *worker)
{
	return local_has_work(&worker->local);
}

/* Deliver the pending signals. The worker is locked. */
void worker_deliver_signals(struct worker *worker);

/*
 * The lock. Unlocking first delivers the pending signals, so that no signal waits for the next
 * holder or outlives its object.
 */
static inline void worker_lock(struct worker *worker)
{
	lock_order_take(&worker->lock, "&worker->lock", __FILE__);
	busy_lock(&worker->lock);
}

static inline bool worker_try_lock(struct worker *worker)
{
	bool is_taken = busy_lock_try(&worker->lock);

	if (is_taken)
		lock_order_took(&worker->lock, "&worker->lock", __FILE__);
	return is_taken;
}

static inline void worker_unlock(struct worker *worker)
{
	if (worker->lane.signals.first)
		worker_deliver_signals(worker);
	lock_order_give(&worker->lock);
	busy_unlock(&worker->lock);
}

/*
 * Have hooks->alarm called at `at_ns`; DEADLINE_NEVER cancels it. The caller has reserved room for
 * `alarm` in worker->alarms. The worker is locked.
 */
void worker_set_alarm(struct worker *worker, struct deadline *alarm, uint64_t at_ns);

/* The earliest deadline of the lane and of the alarms. The worker is locked. */
uint64_t worker_deadline_ns(const struct worker *worker);

/*
 * Receive packets, collect what peers on this host have left, and let deadlines expire. The worker
 * is locked. Returns how many packets and records there were.
 */
unsigned worker_take_in(struct worker *worker);

/*
 * Receive all that has arrived by now, on every address, and send the answers, acknowledgements
 * included. The worker is locked.
 */
void worker_drain(struct worker *worker);

/* Only collect what peers on this host have left. The worker is locked. */
void worker_collect(struct worker *worker);

/*
 * Send what may be sent now. If packets or deadlines are left and the thread sleeps without a
 * limit, wake it. Without `with_acks`, acknowledgements stay pending until the next call with it.
 * The worker is locked.
 */
void worker_send(struct worker *worker, bool with_acks);

/*
 * Receive and send for an application that polls `cq`. The worker is locked. Returns the number of
 * datagrams and local records.
 */
unsigned worker_poll(struct worker *worker, const struct cq *cq);

/*
 * May a poll skip this lane? It may if it skips the sockets, there is no local work, and no thread
 * waits for a lock. Any thread, without the lock.
 */
static inline bool worker_poll_is_idle(struct worker *worker)
{
	return poll_policy_is_skipping(&worker->policy) && !worker_has_local_work(worker) &&
		!busy_locks_are_wanted() && poll_policy_skips(&worker->policy);
}

/* Read the clock for new completions if programs read their times. The worker is locked. */
static inline void worker_stamp(struct worker *worker)
{
	if (!atomic_load_explicit(&worker->is_stamping, memory_order_relaxed))
		return;
	worker->now_ns = clock_now_ns();
	worker->is_now_fresh = true;
}

/*
 * Refresh `now_ns`: exactly if programs read the times of completions, else within
 * WORKER_RECENT_TICKS, which is near enough for deadlines of streams. The worker is locked.
 */
static inline void worker_glance(struct worker *worker)
{
	uint64_t ticks = clock_ticks();

	if (ticks - worker->now_ticks < WORKER_RECENT_TICKS) {
		worker_stamp(worker);
		return;
	}
	worker->now_ns = clock_now_ns();
	worker->now_ticks = ticks;
	worker->is_now_fresh = true;
}

/*
 * The caller has armed a completion queue and is about to sleep. `channel`: that of the queue, or
 * NULL. Any thread; the worker is not locked.
 */
void worker_note_arm(struct worker *worker, const void *channel);

/* The body of the thread; worker_start() runs it. */
void *worker_thread_main(void *argument);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WORKER_WORKER_H
#define URNIC_WORKER_WORKER_H

/*
 * A lane at work: the engine's lane, its port, its lock, and the NIC thread behind it.
 *
 * Driving a lane means to receive, to let deadlines expire, and to send. An application that posts
 * or polls drives the lane inline, in its own thread, so the fast path has no thread switch. When
 * no application polls, the lane's NIC thread sleeps in epoll and drives the lane when a packet
 * arrives. The holder of the lock drives. A poll that finds the lock taken reads its completion
 * queue, and waits for the lock only if a peer on this host has left records.
 *
 * Packets must not wake the NIC thread while an application polls. When the thread sees that the
 * count of polls has grown, it does not wait on the sockets for one tick. It repeats that until the
 * count stops growing. A poll of an armed completion queue does not count, because its caller is
 * about to sleep. Arming a queue ends the tick, because many programs poll for a moment before they
 * sleep. Ticks get longer while the application goes on polling, because frequent wake-ups make
 * Linux starve other programs (docs/lanes.md).
 *
 * After packets for a program that sleeps, the NIC thread may poll for a short while before it
 * sleeps itself, because waking a thread takes longer than serving one request. lane/spin_policy.h
 * decides for how long.
 *
 * An acknowledgement is deferred when a poll has found a completion, because the application
 * usually posts an answer next, and acknowledgement and answer then go to the kernel together.
 * After a few polls without a completion, or at the next tick, the acknowledgement is sent alone.
 *
 * The NIC thread defers acknowledgements too, because a program may watch its memory instead of a
 * completion queue. If acknowledgement and answer leave in one batch, one poll of the peer receives
 * both. If the acknowledgement leaves alone, the peer's program gets its completion, stops polling,
 * and watches its memory for the answer. Then no thread drives the peer's lane, because the peer's
 * NIC thread still expects the program to poll.
 *
 * A post of a datagram may leave it in the send queue, so that it leaves with later ones. The next
 * post or poll sends it. If neither comes in time, the NIC thread does, at the end of its tick
 * (lane/post_policy.h).
 *
 * lane/poll_policy.h decides the rest and has the constants. No function here blocks while it
 * holds the lock: work that may block goes to the control thread (nic/nic_control.h).
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "lane/poll_policy.h"
#include "lane/post_policy.h"
#include "local/local.h"
#include "os/busy_lock.h"
#include "os/clock.h"
#include "os/lock_order.h"
#include "port/infiniband/ib.h"
#include "port/udp/udp.h"
#include "segment/nic_public.h"
#include "worker/worker_wait.h"

/* The age up to which a time counts as recent, in ticks of the CPU's time counter: some 20 us. */
#define WORKER_RECENT_TICKS 65536

/* Alarms of the worker itself: one for impaired packets. */
#define WORKER_OWN_ALARMS 1

/* Which descriptor is readable: the `data` of the thread's epoll events. */
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
	/* Pass on a packet that is for another slot. The worker is locked. */
	void (*forward)(struct worker *worker, uint8_t slot, const struct port_udp_packet *packet);
	/* Handle a raised signal. The worker is locked. */
	void (*signal)(struct worker *worker, struct signal *signal, uint32_t events);
	/* Handle an alarm of worker_set_alarm(), whose time has come. The worker is locked. */
	void (*alarm)(struct worker *worker, struct deadline *alarm);
};

/*
 * The port of a worker, whatever its kind. Each kind has one constant object. A function does what
 * its namesake of port/udp/udp.h does.
 */
struct worker_port_kind {
	unsigned (*receive)(struct worker *worker);
	unsigned (*looks)(const struct worker *worker);
	uint8_t *(*buffer)(struct worker *worker, uint32_t *ret_capacity_bytes);
	void (*stage_run)(struct worker *worker, uint32_t bytes, const struct packet_run *run);
	int (*flush)(struct worker *worker);
	bool (*is_blocked)(const struct worker *worker);
	unsigned (*fds)(const struct worker *worker, struct pollfd *ret_fds);
	/* Say whether a thread may sleep on the descriptors. NULL: they are sockets. */
	void (*watch)(struct worker *worker, bool is_watched);
};

struct worker {
	struct busy_lock lock;
	struct lane lane;
	/* Has no doorbell before the lane has started, and in tests without a NIC. */
	struct local_lane local;
	struct channel_table *channels; /* NULL: all peers are reached by packets */
	struct capture capture; /* has no ring before the lane has started */
	struct deadline_heap alarms; /* set by worker_set_alarm(); lane.deadlines is separate */
	const struct worker_port_kind *kind;
	struct port_udp *port; /* NULL for a port of InfiniBand */
	struct port_ib *ib; /* NULL for a port of UDP */
	struct deadline held; /* in `alarms`: when the next impaired packet is due */
	_Atomic bool has_held; /* `held` is set, so the thread does not leave the lane to polls */
	struct list frames; /* struct worker_frames: raw packet queue pairs (worker_frames.h) */
	struct list streams; /* struct worker_stream: iWARP queue pairs (worker_streams.h) */
	uint32_t stream_count;
	uint32_t stalled_count; /* streams with a message that waits for a receive request */
	struct worker_stream *hot_stream; /* NULL: none (worker_streams.h) */
	bool has_read_ahead; /* worker_streams_read_ahead() has read from the hot stream */
	int64_t ahead_bytes; /* the result of that read */
	uint32_t streams_silence; /* consecutive reads of epoll_streams without a result */
	uint32_t streams_polls; /* polls since the streams became silent, while a stream is hot */
	int epoll_streams; /* epoll set of all streams but the hot one; a member of epoll_all */
	int streams_timer; /* timerfd; -1 before the first stream */
	bool is_streams_timer_set;
	const struct worker_hooks *hooks;
	pthread_t thread;
	bool is_running;
	bool is_stopping;
	bool is_spinning_off; /* the thread never spins; set before worker_start() */
	bool is_deep_asleep; /* the lane's thread or waiter may sleep without a time limit */
	_Atomic bool are_acks_deferred; /* written with the lock held */
	struct poll_policy policy;
	struct post_policy posts;
	_Atomic bool are_posts_waiting; /* by worker_post_waits(); the holder of the lock writes */
	struct worker_wait wait; /* for a program's thread that drives while it waits for events */
	uint32_t flushes; /* count of flushes of packets to the kernel, by any thread */
	uint32_t packets; /* count of turns, of any thread, that received from a socket */
	bool lacks_pwait2; /* the kernel has refused epoll_pwait2 */
	bool has_logged_refusal; /* the port's refused system call is in the log */
	/* A socket has an error, which wakes the thread until the thread reads the error. */
	bool has_socket_error;
	uint64_t last_packet_ns;
	_Atomic bool was_armed; /* a completion queue was armed since the thread last read this */
	_Atomic bool is_keeping_quiet; /* the thread does not wait on the sockets for a tick */
	uint64_t now_ns; /* the time of the current turn */
	bool is_now_fresh; /* `now_ns` was read in this turn */
	uint64_t now_ticks; /* the CPU's time counter when `now_ns` was read, or just before */
	/* Programs read the times of completions, so the clock is read for each completion. */
	_Atomic bool is_stamping;
	int epoll_all; /* epoll set: epoll_quiet, and the sockets unless an application polls */
	/* Epoll set: `kick` and timers, which wake the thread even if an application polls. */
	int epoll_quiet;
	int kick; /* eventfd */
	bool is_watching_sockets;
	/*
	 * The next poll removes the sockets from epoll_all, because the thread seldom gets the
	 * lock.
	 */
	_Atomic bool shall_unwatch;
	uint32_t address_count;
	struct worker_address {
		struct gid gid; /* zero: the address was removed */
		uint32_t scope_ifindex;
	} address[PORT_UDP_ADDRESSES_MAX];
};

/*
 * Make a worker for `slot`. worker_start() starts its thread.
 *
 * `public`  Has the counters of the worker's port.
 *
 * Returns 0 or -errno.
 */
int worker_create(struct arena *arena, const struct mr_table *mrs, uint8_t slot, uint32_t index,
	struct nic_public_lane *public, const struct worker_hooks *hooks,
	struct worker **ret_worker);

/*
 * Give the worker, which has not started, a port of InfiniBand in place of that of UDP. The caller
 * keeps `wire` longer than the worker. Returns 0 or -ENOMEM.
 */
int worker_use_infiniband(struct worker *worker, const struct port_ib_wire *wire);

/*
 * Impair the packets that the worker sends (impair/impair.h). The worker has no queue pairs yet.
 * The caller has reserved room for WORKER_OWN_ALARMS in worker->alarms. Returns 0 or -ENOMEM.
 */
int worker_impair(struct worker *worker, struct impair *impair);

/* Start the NIC thread. Returns 0 or -errno. */
int worker_start(struct worker *worker);

/*
 * End the thread, close all descriptors, and free the worker. It has no queue pairs left.
 * `is_child`: the process is a forked child, which has no such thread.
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
 * Bypass the kernel's UDP for packets of an address: by port_udp_use_bypass(), or by
 * port_udp_use_xdp(). The worker is locked. Returns what these return.
 */
int worker_use_link(struct worker *worker, uint32_t index, uint32_t ifindex);
int worker_use_xdp(struct worker *worker, uint32_t index, uint32_t ifindex, bool is_generic);

/* Stop receiving on a multicast group's address. The worker is locked. */
void worker_address_remove(struct worker *worker, uint32_t index);

/*
 * Let the sockets wake the thread, or not. While a socket is in an epoll set, each packet costs the
 * sending CPU more, even if no thread sleeps on the set. The worker is locked.
 */
void worker_watch_sockets(struct worker *worker, bool shall_watch);

/*
 * Let the thread watch a timer: that of the streams, or wait.timer, which waiters set when they
 * leave. Returns 0 or -errno.
 */
int worker_watch_timer(struct worker *worker, int timer, enum worker_source source);

/* Read, and so clear, the errors of the sockets, which wake the thread. The worker is locked. */
void worker_clear_socket_errors(struct worker *worker);

/* Do packets of an earlier flush wait, so that no more can be sent? The worker is locked. */
static inline bool worker_is_blocked(const struct worker *worker)
{
	return worker->kind->is_blocked(worker);
}

/* May peers on this host have left something to collect? Only a hint. Any thread may call. */
static inline bool worker_has_local_work(const struct worker *worker)
{
	return local_has_work(&worker->local);
}

/* Deliver the pending signals. The worker is locked. */
void worker_deliver_signals(struct worker *worker);

/*
 * Take and release the worker's lock. The release first delivers pending signals, so that no signal
 * waits for the next holder of the lock, or outlives its object.
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
 * Let the worker call hooks->alarm for `alarm` at `at_ns`; DEADLINE_NEVER cancels the alarm. The
 * caller has reserved room for `alarm` in worker->alarms. The worker is locked.
 */
void worker_set_alarm(struct worker *worker, struct deadline *alarm, uint64_t at_ns);

/* The earliest deadline of the lane and of the alarms. The worker is locked. */
uint64_t worker_deadline_ns(const struct worker *worker);

/*
 * Receive packets, collect what peers on this host have left, and let deadlines expire. The worker
 * is locked. Returns the number of datagrams, stream reads and local records.
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
 * Send what may be sent now. If packets or deadlines are left, and the lane's thread or waiter
 * sleeps without a limit, wake it. If `with_acks` is false, acknowledgements stay pending until a
 * call with `with_acks`. The worker is locked.
 */
void worker_send(struct worker *worker, bool with_acks);

/*
 * The program has posted to `qp`, which is of type UD, and goes on polling. Do the datagrams wait
 * for the next post or poll (lane/post_policy.h)? If not, the caller calls worker_send(). The
 * worker is locked.
 */
bool worker_post_waits(struct worker *worker, const struct qp *qp);

/*
 * The program is about to sleep, or an address handle ends: send the datagrams that wait. Takes the
 * lock if there are any. If another thread posts at the same time, its datagram may wait for the
 * tick of the lane's thread.
 */
static inline void worker_send_waiting(struct worker *worker)
{
	if (!atomic_load(&worker->are_posts_waiting))
		return;
	worker_lock(worker);
	worker->now_ns = clock_now_ns();
	worker_send(worker, true);
	worker_unlock(worker);
}

/*
 * Receive and send for an application that polls `cq`. The worker is locked. Returns the number of
 * datagrams and local records.
 */
unsigned worker_poll(struct worker *worker, const struct cq *cq);

/*
 * May a poll skip this lane? Yes if the poll policy skips the sockets now, there is no local work,
 * and no thread waits for a lock (busy_locks_are_wanted()). Any thread may call, without the lock.
 */
static inline bool worker_poll_is_idle(struct worker *worker)
{
	return poll_policy_is_skipping(&worker->policy) && !worker_has_local_work(worker) &&
		!busy_locks_are_wanted() && poll_policy_skips(&worker->policy);
}

/* If programs read the times of completions, set `now_ns` to the time. The worker is locked. */
static inline void worker_stamp(struct worker *worker)
{
	if (!atomic_load_explicit(&worker->is_stamping, memory_order_relaxed))
		return;
	worker->now_ns = clock_now_ns();
	worker->is_now_fresh = true;
}

/*
 * Refresh `now_ns`: read the clock if programs read the times of completions, or if `now_ns` is
 * older than WORKER_RECENT_TICKS. A time of that age is exact enough for deadlines of streams. The
 * worker is locked.
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
 * The caller has armed a completion queue and is about to sleep. `channel` is the completion
 * channel of the queue, or NULL. Any thread; the worker is not locked.
 */
void worker_note_arm(struct worker *worker, const void *channel);

/* The body of the thread; worker_start() runs it. */
void *worker_thread_main(void *argument);

#endif

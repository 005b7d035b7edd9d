/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WORKER_WORKER_H
#define URNIC_WORKER_WORKER_H

/*
 * A lane at work: the engine's lane, its port, its lock, and the NIC thread behind it.
 *
 * Somebody must drive a lane: receive, let deadlines expire, send. An application that posts or
 * polls does it inline, in its own thread, so the fast case has no thread switch. When nobody
 * polls, the lane's NIC thread sleeps in epoll and serves what comes. Whoever holds the lock
 * drives; nobody waits for the other: a poll that finds the lock taken just looks at its queue.
 *
 * While an application polls, the NIC thread must not be woken by every packet. It notices that the
 * count of polls has grown and leaves the sockets alone for one tick (WORKER_TICK_NS) at a
 * time, until it has not. A poll of an armed completion queue does not count: its owner is about to
 * sleep. Who arms one ends the tick, because many programs poll for a moment before they sleep.
 * Ticks get longer while nothing changes, up to WORKER_TICK_NS << WORKER_TRUST_MAX: a thread that
 * wakes up often has Linux starve other programs (docs/lanes.md).
 *
 * After a packet the NIC thread looks for the next one for a short while before it sleeps
 * (WORKER_SPIN_NS): a remote peer's READs and atomics mostly come in rows, and waking a thread
 * takes longer than serving one.
 *
 * An acknowledgement that is owed when a poll has found a completion waits for the application's
 * next call: mostly that posts an answer, and both go to the kernel together. Polls that find
 * nothing send it after a few, the next tick in any case. The NIC thread waits in the same way, for
 * WORKER_HOLD_NS, because a program may watch its memory instead of a completion queue. That
 * matters more than it seems: with answer and acknowledgement in one batch the far end, which polls
 * for its completion, takes in both itself; with the acknowledgement alone it would go and watch
 * its memory, with nobody to drive its lane but the thread that it has just told to keep quiet.
 *
 * A lane waits for nobody: what may have to wait is left to the control thread (nic_control.h).
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/multicast.h"
#include "local/borrower.h"
#include "local/local.h"
#include "os/busy_lock.h"
#include "os/clock.h"
#include "os/lock_order.h"
#include "port/udp.h"
#include "segment/nic_public.h"

#define WORKER_TICK_NS      250000
#define WORKER_SPIN_NS      30000
#define WORKER_HOLD_NS      10000
#define WORKER_RECENT_TICKS 65536
#define WORKER_IDLE_NS \
	20000000 /* without packets or deadlines, before the thread sleeps without limit */

enum {
	WORKER_POLLS_PER_TICK = 4, /* polls in WORKER_TICK_NS that count as polling */
	/* Of polling, before the sockets stop waking the thread; one, if it has only just ceased */
	WORKER_QUIET_TICKS = 4,
	WORKER_TRUST_MAX = 4, /* ticks of 4 ms */
	WORKER_CLOCKLESS_POLLS = 16, /* polls without a packet until one reads the clock */
	WORKER_SKIP_MIN = 16, /* see polls_skip */
	WORKER_SKIP_MAX = 1024,
	WORKER_SKIP_WEIGHT = 8, /* polls that were skipped, for the weight of one that was not */
	WORKER_LOOK_WEIGHT =
		4, /* of a poll that made a system call, where one that did not has 1 */
	/* Of polls without a completion that leave acknowledgements owed. */
	WORKER_DEFERRING_WEIGHT = 3 * WORKER_LOOK_WEIGHT,
	WORKER_HOLD_LUCK_MAX = 8, /* misses in a row before holding back stops */
	WORKER_HOLD_LUCK_MIN = -8, /* batches until it is tried once more */
};

/* Who became readable, in epoll data. */
enum worker_source {
	WORKER_SOURCE_SOCKET,
	WORKER_SOURCE_QUIET,
	WORKER_SOURCE_KICK,
	WORKER_SOURCE_STREAMS,
};

struct worker;

/* What a worker needs of the NIC around it. */
struct worker_hooks {
	/* A packet for another slot arrived here. The worker is locked. */
	void (*forward)(struct worker *worker, uint8_t slot, const struct port_udp_packet *packet);
	/* A signal was raised. The worker is locked. */
	void (*signal)(struct worker *worker, struct signal *signal, uint32_t news);
	/* A time set by worker_set_alarm() has come. The worker is locked. */
	void (*alarm)(struct worker *worker, struct deadline *alarm);
};

struct worker {
	struct busy_lock lock;
	struct lane lane;
	struct local_lane local; /* without a doorbell, nobody meets on this host */
	struct channel_table *channels; /* with it */
	/* NULL before the lane has started, and in tests without a NIC */
	struct doorbell *borrower_doorbell;
	bool has_guests; /* one has left something here */
	struct capture capture; /* without a ring, before the lane has started */
	struct deadline_heap alarms; /* the NIC's own, beside the lane's deadlines */
	struct port_udp *port;
	struct list frames; /* struct worker_frames: raw packet queue pairs (worker_frames.h) */
	struct list streams; /* struct worker_stream: iWARP queue pairs (worker_streams.h) */
	uint32_t stream_count;
	uint32_t stalled_count; /* of them: a message waits for a receive request */
	struct worker_stream *hot_stream; /* NULL: none (worker_streams.h) */
	bool has_read_ahead; /* from it */
	int64_t ahead_bytes; /* what that returned */
	uint32_t streams_silence; /* times in a row that their set had nothing */
	uint32_t streams_polls; /* since then, while one is hot */
	int epoll_streams; /* all of them but the hot one; in epoll_all */
	int streams_timer; /* timerfd; -1 before the first stream */
	bool is_streams_timer_set;
	const struct worker_hooks *hooks;
	pthread_t thread;
	bool is_running;
	bool is_stopping;
	bool is_deep_asleep; /* the thread waits without a time limit */
	_Atomic bool are_acks_deferred; /* written with the lock held */
	uint32_t poll_weight; /* of the last: how long it took, roughly */
	uint32_t flushes; /* of packets to the kernel, by anybody */
	uint32_t deferring_weight; /* of polls in a row */
	int hold_luck; /* worker_thread.c */
	bool has_told_refusal; /* what its port was refused is in the log */
	bool has_socket_error; /* one woke the thread: it is to be read, or it wakes it for ever */
	uint64_t last_packet_ns;
	uint64_t last_polled_ns; /* when the thread last saw that one had polled or posted */
	_Atomic uint32_t polls; /* of unarmed completion queues on this lane, and posts */
	_Atomic uint32_t polls_driving; /* those that looked for packets; with the lock held */
	_Atomic bool was_armed; /* a completion queue, since the thread last looked */
	_Atomic bool is_keeping_quiet; /* the thread leaves the sockets alone for a tick */
	uint64_t now_ns; /* of the progress under way */
	bool is_now_fresh;
	uint64_t now_ticks; /* `now_ns` is that old, or more recent */
	uint32_t clockless_polls; /* in a row */
	/*
	 * While news come from peers on this host, and no deadline waits: so many polls look for
	 * such only. Twice as many each time that the sockets had nothing, either.
	 */
	_Atomic uint32_t polls_skip; /* 0: none */
	_Atomic uint32_t polls_skipped; /* in a row */
	uint32_t polls_skip_next;
	/* Programs read when completions were made: the clock is read for each */
	_Atomic bool is_stamping;
	int epoll_all; /* sockets, unless an application polls, and epoll_quiet */
	int epoll_quiet; /* kick, streams' timer: what matters while an application polls */
	int kick; /* eventfd */
	bool is_watching_sockets;
	/* The next poll is to end that: the thread would seldom find the lock free */
	_Atomic bool shall_unwatch;
	uint32_t address_count;
	struct worker_address {
		struct gid gid; /* zero for one that was removed */
		uint32_t scope_ifindex;
	} address[PORT_UDP_ADDRESSES_MAX];
};

/*
 * Make a worker for `slot`, with its thread not yet started.
 *
 * Returns 0 or -errno. `public` is where its port counts.
 */
int worker_create(struct arena *arena, const struct mr_table *mrs, uint8_t slot, uint32_t index,
	struct nic_public_lane *public, const struct worker_hooks *hooks,
	struct worker **ret_worker);

/* Start the NIC thread. Returns 0 or -errno. */
int worker_start(struct worker *worker);

/*
 * Stop the thread, close everything. All queue pairs are gone. In a forked child, `is_child`: there
 * is no thread.
 */
void worker_destroy(struct worker *worker, bool is_child);

/*
 * Index of a local address or multicast group that this worker receives on already, or -1. The
 * worker is locked.
 */
int worker_address_find(const struct worker *worker, const struct gid *gid, uint32_t scope_ifindex);

/*
 * Receive on one more address; takes `socket`. The worker is locked. Returns the index or -errno.
 */
int worker_address_add(
	struct worker *worker, const struct gid *gid, uint32_t scope_ifindex, int socket);

/*
 * Have packets of an address go around the kernel's UDP (port_udp_use_bypass()). The worker is
 * locked. Returns 0 or the -errno that says why not.
 */
int worker_use_link(struct worker *worker, uint32_t index, uint32_t ifindex);

/* Receive on it no longer: a multicast group. The worker is locked. */
void worker_address_remove(struct worker *worker, uint32_t index);

/*
 * Have the sockets wake the thread, or not: a socket that somebody might sleep on makes every
 * packet cost its sender more, even if nobody does. The worker is locked.
 */
void worker_watch_sockets(struct worker *worker, bool shall_watch);

/* Let the thread watch the streams' timer. Returns 0 or -errno. */
int worker_watch_streams_timer(struct worker *worker);

/* Has a peer on this host left something? A hint, for any thread. */
static inline bool worker_has_news(const struct worker *worker)
{
	return local_has_work(&worker->local) ||
		(worker->borrower_doorbell && doorbell_is_rung(worker->borrower_doorbell));
}

/* Hand out the signals that wait. The worker is locked. */
void worker_tell(struct worker *worker);

/*
 * The lock. Unlocking first hands out the signals that were raised, so none waits for the next who
 * comes, or outlives its object.
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
		worker_tell(worker);
	lock_order_give(&worker->lock);
	busy_unlock(&worker->lock);
}

/*
 * Have hooks->alarm called at `at_ns`, or not any more: DEADLINE_NEVER. Room for `alarm` is
 * reserved in worker->alarms. The worker is locked.
 */
void worker_set_alarm(struct worker *worker, struct deadline *alarm, uint64_t at_ns);

/* When time matters next, to the lane or the NIC. The worker is locked. */
uint64_t worker_deadline_ns(const struct worker *worker);

/*
 * Take in packets, and what peers on this host have left, and let deadlines expire. The worker is
 * locked. Returns how many there were.
 */
unsigned worker_take_in(struct worker *worker);

/*
 * Take in all that has arrived by now, on every address, and send what that causes,
 * acknowledgements included. The worker is locked.
 */
void worker_settle(struct worker *worker);

/* Take in what peers on this host have left, and nothing else. The worker is locked. */
void worker_collect(struct worker *worker);

/*
 * Send what may be sent now, and wake the thread from a sleep without limit for what is left:
 * packets, deadlines. Without `with_acks`, acknowledgements that are owed stay owed until the next
 * call with it. The worker is locked.
 */
void worker_send(struct worker *worker, bool with_acks);

/*
 * Take in and send for an application that polls `cq`. The worker is locked. Returns the datagrams
 * read.
 */
unsigned worker_poll(struct worker *worker, const struct cq *cq);

/*
 * Is there nothing for a poll to do (polls_skip), and nobody to make way for? Any thread, without
 * the lock.
 */
static inline bool worker_poll_is_idle(struct worker *worker)
{
	uint32_t skip = atomic_load_explicit(&worker->polls_skip, memory_order_relaxed);
	uint32_t skipped;

	if (!skip || worker_has_news(worker) || busy_locks_are_wanted())
		return false;
	skipped = atomic_load_explicit(&worker->polls_skipped, memory_order_relaxed) + 1;
	atomic_store_explicit(&worker->polls_skipped, skipped, memory_order_relaxed);
	return skipped < skip;
}

/* Read the clock for what is made now, if anybody wants to know. The worker is locked. */
static inline void worker_stamp(struct worker *worker)
{
	if (!atomic_load_explicit(&worker->is_stamping, memory_order_relaxed))
		return;
	worker->now_ns = clock_now_ns();
	worker->is_now_fresh = true;
}

/*
 * Know the time: within WORKER_RECENT_TICKS, which is near enough for what streams wait for, or
 * exactly if anybody wants to know. The worker is locked.
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
 * Somebody polls, or does what takes as long as `count` polls. Any thread, with or without the
 * lock; only a hint.
 */
static inline void worker_note_polls(struct worker *worker, uint32_t count)
{
	uint32_t polls = atomic_load_explicit(&worker->polls, memory_order_relaxed);

	atomic_store_explicit(&worker->polls, polls + count, memory_order_relaxed);
}

/*
 * Somebody has armed a completion queue, and is about to sleep. Any thread, with or without the
 * lock.
 */
void worker_note_arm(struct worker *worker);

/* The body of the thread; worker_start() runs it. */
void *worker_thread_main(void *argument);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting at a lookout. The waiting thread publishes its state in NIC memory. event_queue_post()
 * and peers on this host (local/peer.c) read it after they have left a completion.
 *
 * The thread polls for LOOK_NS before it sleeps. That shortens the wait of its program and takes
 * less processor time than going to sleep and waking up, so programs beside it gain, too.
 * bench/attend measures both.
 */
#include <errno.h>
#include <fcntl.h>

#include "base/arith.h"
#include "base/spin.h"
#include "event/event_queue.h"
#include "os/clock.h"
#include "os/futex.h"

/* About the time that going to sleep and waking up take. */
#define LOOK_NS 10000

enum {
	LOOKS_PER_CLOCK = 8,
	/*
	 * After LUCK_MAX fruitless waits in a row, the thread does not poll before its next
	 * -LUCK_MIN sleeps.
	 */
	LUCK_MAX = 8,
	LUCK_MIN = -32,
};

static void state_publish(const struct event_lookout *lookout, enum attention_state state)
{
	atomic_store(&lookout->attention->state, state);
	atomic_thread_fence(memory_order_seq_cst);
}

static bool attend_begin(struct event_queue *queue, struct event_lookout *lookout)
{
	bool is_free;

	pthread_mutex_lock(&queue->lock);
	is_free = !queue->is_attended && !queue->is_rung;
	if (is_free) {
		queue->is_attended = true;
		state_publish(lookout, ATTENTION_LOOKS);
	}
	pthread_mutex_unlock(&queue->lock);
	return is_free;
}

/*
 * Under the lock. Later events go to other waiters; the caller's next look finds earlier ones.
 */
static void attend_end(struct event_queue *queue, struct event_lookout *lookout)
{
	queue->is_attended = false;
	state_publish(lookout, ATTENTION_NONE);
	event_queue_ring(queue);
}

static void give_up(void *argument)
{
	struct event_queue *queue = argument;
	struct event_lookout *lookout = atomic_load(&queue->lookout);

	pthread_mutex_lock(&queue->lock);
	attend_end(queue, lookout);
	pthread_mutex_unlock(&queue->lock);
	lookout->look(lookout);
}

static bool is_worth_it(struct event_lookout *lookout)
{
	if (lookout->luck >= 0)
		return true;
	lookout->luck++;
	return false;
}

/* Poll for LOOK_NS, unless recent waits were fruitless. */
static void look_for_a_while(struct event_queue *queue, struct event_lookout *lookout)
{
	uint64_t until_ns = clock_now_ns() + LOOK_NS;

	if (!is_worth_it(lookout))
		return;
	do {
		for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
			lookout->look(lookout);
			if (atomic_load(&queue->has_waiting)) {
				lookout->luck = LUCK_MAX;
				return;
			}
			spin_pause();
		}
	} while (clock_now_ns() < until_ns);
	if (--lookout->luck < 0)
		lookout->luck = LUCK_MIN;
}

/* Returns 0 after a wake-up, or -EINTR. */
static int sleep_here(struct event_queue *queue, struct event_lookout *lookout)
{
	uint32_t wakes = atomic_load(attention_wakes(lookout->attention));
	int error = 0;

	state_publish(lookout, ATTENTION_SLEEPS);
	lookout->look(lookout);
	if (!atomic_load(&queue->has_waiting))
		error = futex_wait(attention_wakes(lookout->attention), wakes);
	state_publish(lookout, ATTENTION_LOOKS);
	if (!atomic_load(&queue->has_waiting))
		lookout->look(lookout);
	return error;
}

/*
 * Wait at the lookout. Returns 0 when there is an event; -EINTR; -ENOENT when the lookout sees
 * nothing any more.
 */
static int attend_wait(struct event_queue *queue, struct event_lookout *lookout)
{
	enum event_view view = lookout->look(lookout);
	int error = view == EVENT_VIEW_NONE ? -ENOENT : 0;

	if (view == EVENT_VIEW_OPEN && !atomic_load(&queue->has_waiting))
		look_for_a_while(queue, lookout);
	while (!error && !atomic_load(&queue->has_waiting))
		error = sleep_here(queue, lookout);
	return error;
}

static bool is_blocking(const struct event_queue *queue)
{
	int flags = fcntl(queue->fd, F_GETFL);

	return flags >= 0 && !(flags & O_NONBLOCK);
}

int event_queue_attend(struct event_queue *queue, void (*hold)(struct event *event, void *argument),
	void *argument)
{
	struct event_lookout *lookout = atomic_load(&queue->lookout);
	bool has_event;
	int error;

	if (!lookout || !is_blocking(queue) || !attend_begin(queue, lookout))
		return -ENOENT;
	pthread_cleanup_push(give_up, queue);
	error = attend_wait(queue, lookout);
	pthread_cleanup_pop(false);
	pthread_mutex_lock(&queue->lock);
	/*
	 * The event may have been forgotten since. An event that is there is taken in spite of a
	 * signal.
	 */
	has_event = !list_is_empty(&queue->waiting);
	if (has_event)
		event_queue_take_first(queue, hold, argument);
	attend_end(queue, lookout);
	pthread_mutex_unlock(&queue->lock);
	lookout->look(lookout);
	if (has_event)
		return 0;
	return error ? error : -ENOENT;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signals: events of the engine's objects. The NIC delivers them after the engine has returned.
 *
 * The engine makes no system calls, so it wakes no thread. An object with an event (a completion on
 * an armed queue, an asynchronous event) raises its signal. The signal waits in the lane's queue.
 * Before the worker unlocks the lane, it takes the signal out, and the NIC wakes the program. Each
 * object has one signal with a bit for each kind of event, so nothing is allocated. An event that
 * is raised twice before the worker takes the signal out is reported once.
 *
 * Several lanes may raise the signal of an object that they share (a completion queue, a shared
 * receive queue). The lane that sets the first bit puts the signal in its queue.
 */
#ifndef URNIC_LANE_SIGNAL_H
#define URNIC_LANE_SIGNAL_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

enum signal_kind {
	SIGNAL_KIND_CQ,
	SIGNAL_KIND_QP,
	SIGNAL_KIND_SRQ,
	SIGNAL_KIND_WQ,
};

/* Kinds of events, as bits (lane/signal.def): SIGNAL_COMPLETION and so on. */
enum signal_event {
#define SIGNAL(name, bit) SIGNAL_##name = 1 << (bit),
#include "lane/signal.def"
#undef SIGNAL
};

/*
 * All kinds of objects share one numbering of the bits, so no two rows have the same bit, and the
 * sum of all rows equals their union.
 */
enum {
#define SIGNAL(name, bit) +SIGNAL_##name
	SIGNAL_SUM = 0
#include "lane/signal.def"
	,
#undef SIGNAL
#define SIGNAL(name, bit) | SIGNAL_##name
	SIGNAL_UNION = 0
#include "lane/signal.def"
#undef SIGNAL
};
static_assert(SIGNAL_SUM == SIGNAL_UNION, "two rows of lane/signal.def share a bit");

struct signal {
	struct signal *next;
	_Atomic uint32_t events;
	enum signal_kind kind;
};

struct signal_queue {
	struct signal *first;
};

static inline void signal_raise(struct signal_queue *queue, struct signal *signal, uint32_t events)
{
	if (atomic_fetch_or_explicit(&signal->events, events, memory_order_acq_rel) == 0) {
		signal->next = queue->first;
		queue->first = signal;
	}
}

/*
 * Take a signal out of the queue, and its events out of the signal. Returns NULL if the queue is
 * empty.
 */
static inline struct signal *signal_take(struct signal_queue *queue, uint32_t *ret_events)
{
	struct signal *signal = queue->first;

	if (signal) {
		queue->first = signal->next;
		*ret_events = atomic_exchange_explicit(&signal->events, 0, memory_order_acq_rel);
	}
	return signal;
}

/* The signal's object is about to be destroyed: remove the signal if it is in this queue. */
static inline void signal_forget(struct signal_queue *queue, struct signal *signal)
{
	struct signal **link = &queue->first;

	while (*link && *link != signal)
		link = &(*link)->next;
	if (*link)
		*link = signal->next;
}

#endif

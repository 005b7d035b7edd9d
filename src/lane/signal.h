/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Signals: what the engine wants told to the outside once it is done.
 *
 * The engine makes no system calls, so it cannot wake anybody. An object that has news (a
 * completion on an armed queue, an asynchronous event) raises its signal; the signal waits in the
 * lane's queue until the runtime takes it out, under the same lane lock, and writes to a
 * descriptor. Each object has one signal with a bit per kind of news, so nothing is allocated and
 * nothing is said twice.
 *
 * An object that several lanes serve (a completion queue, a shared receive queue) may be raised by
 * all at once: who turns its bits from zero queues it.
 */
#ifndef URNIC_LANE_SIGNAL_H
#define URNIC_LANE_SIGNAL_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum signal_kind {
	SIGNAL_KIND_CQ,
	SIGNAL_KIND_QP,
	SIGNAL_KIND_SRQ,
	SIGNAL_KIND_WQ,
};

/* News, as bits (lane/signal.def): SIGNAL_COMPLETION and so on. */
enum signal_news {
#define SIGNAL(name, bit) SIGNAL_##name = 1 << (bit),
#include "lane/signal.def"
#undef SIGNAL
};

/* The news of all kinds of objects travel in one word: no two share a bit. */
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
	_Atomic uint32_t news;
	enum signal_kind kind;
};

struct signal_queue {
	struct signal *first;
};

static inline void signal_raise(struct signal_queue *queue, struct signal *signal, uint32_t news)
{
	if (atomic_fetch_or_explicit(&signal->news, news, memory_order_acq_rel) == 0) {
		signal->next = queue->first;
		queue->first = signal;
	}
}

/* Takes one signal out of the queue and its news out of the signal; NULL when there is none. */
static inline struct signal *signal_take(struct signal_queue *queue, uint32_t *ret_news)
{
	struct signal *signal = queue->first;

	if (signal) {
		queue->first = signal->next;
		*ret_news = atomic_exchange_explicit(&signal->news, 0, memory_order_acq_rel);
	}
	return signal;
}

/* The object is about to go: what it still had to say is taken back, if it is in this queue. */
static inline void signal_forget(struct signal_queue *queue, struct signal *signal)
{
	struct signal **link = &queue->first;

	while (*link && *link != signal)
		link = &(*link)->next;
	if (*link)
		*link = signal->next;
}

#endif

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
 * An object that several lanes serve (a completion queue, a shared receive queue) may be raised by all at once: who turns
 * its bits from zero queues it.
 */
#ifndef URNIC_QUEUE_SIGNAL_H
#define URNIC_QUEUE_SIGNAL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum signal_kind {
	SIGNAL_KIND_CQ,
	SIGNAL_KIND_QP,
	SIGNAL_KIND_SRQ,
	SIGNAL_KIND_WQ,
};

/* News, as bits. */
enum signal_news {
	SIGNAL_COMPLETION =
		1 << 0, /* CQ: an armed queue got the completion that it was armed for */
	SIGNAL_CQ_OVERRUN = 1 << 1, /* CQ: affiliated asynchronous error (IBTA 11.6.3.2) */
	SIGNAL_QP_FATAL = 1 << 2, /* QP: local catastrophic error */
	SIGNAL_QP_REQUEST = 1 << 3, /* QP: invalid request from the peer */
	SIGNAL_QP_ACCESS = 1 << 4, /* QP: access violation by the peer */
	SIGNAL_QP_ESTABLISHED =
		1 << 5, /* QP: first packet arrived in RTR (communication established) */
	SIGNAL_QP_LAST_WQE =
		1 << 6, /* QP: in error, it takes no more requests from its shared receive queue */
	SIGNAL_SRQ_LIMIT = 1 << 7, /* SRQ: fewer requests are left than the limit */
	SIGNAL_QP_DRAINED = 1 << 8, /* QP: in SQD, no request of its send queue is under way */
	SIGNAL_WQ_FATAL = 1 << 10, /* WQ: a request or the completion queue has failed */
	SIGNAL_CQ_HELD = 1 << 9, /* CQ: a completion's signal is held back: see queue/cq.h */
	SIGNAL_QP_MIGRATED = 1 << 10, /* QP: it uses its alternate path now */
	SIGNAL_QP_NOT_MIGRATED = 1
		<< 11, /* QP: the peer migrated to a path that is not the alternate */
	SIGNAL_QP_DISCONNECTED = 1 << 12, /* QP: its stream is over */
	SIGNAL_QP_ASKS = 1
		<< 13, /* QP: a request names a shared receive queue that may be another process's */
};

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

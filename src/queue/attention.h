/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who waits for completions, and how: what others have to do so that they are noticed.
 *
 * A thread that waits for an event of a completion channel attends to it: it takes in by itself
 * what peers on this host leave for the channel's queues. Whoever has left something that a queue
 * is armed for reads `state` after that. While the thread looks, nothing else has to be done; when
 * it sleeps, it is woken; when nobody attends, the lane's thread is.
 *
 * Before it sleeps, and after it has gone, the thread looks once more: each side writes, then reads
 * what the other one has written (sequentially consistent), so one of the two sees it.
 *
 * It lies in NIC memory, in a table whose entries stay what they are: who was stopped before he
 * could wake somebody may do so at any later time, and somebody wakes up for nothing.
 */
#ifndef URNIC_QUEUE_ATTENTION_H
#define URNIC_QUEUE_ATTENTION_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

enum attention_state {
	ATTENTION_NONE, /* nobody attends */
	ATTENTION_LOOKS,
	ATTENTION_SLEEPS, /* until `wakes` has changed */
};

struct attention {
	_Atomic uint32_t state; /* enum attention_state; the owner's */
	uint32_t reserved[15];
};

/* Of a process. Number 0 is that of a channel without one. */
enum { ATTENTION_COUNT = 256 };

struct attention_table {
	struct attention attention[ATTENTION_COUNT];
};

/* On the peers' side (base/arena.h): how often somebody was to be woken. A futex, anybody's. */
static inline _Atomic uint32_t *attention_wakes(const struct attention *attention)
{
	return (_Atomic uint32_t *)arena_peers_side(attention);
}

/* NULL: there is none of this number, which may be anything; or `table` is NULL. */
static inline struct attention *attention_at(struct attention_table *table, uint32_t number)
{
	return table && number && number < ATTENTION_COUNT ? &table->attention[number] : NULL;
}

/* Something was left, or is about to be looked for: what is to be done. NULL: nobody attends. */
static inline enum attention_state attention_state(const struct attention *attention)
{
	return attention ? (enum attention_state)atomic_load(&attention->state) : ATTENTION_NONE;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Named counters of a queue pair.
 *
 * Counters lie in NIC memory, so `urnic stat` can read them from another process at any time. The
 * holder of the lane's lock writes them, and any thread may read them. Each value is exact, but a
 * reader gets the values of several counters from different moments.
 */
#ifndef URNIC_LANE_COUNTER_H
#define URNIC_LANE_COUNTER_H

#include <stdatomic.h>
#include <stdint.h>

enum counter {
#define COUNTER(name, sentence) COUNTER_##name,
#include "lane/counter.def"
#undef COUNTER
	COUNTER_COUNT
};

struct counters {
	_Atomic uint64_t value[COUNTER_COUNT];
};

static inline void counter_add(struct counters *counters, enum counter counter, uint64_t amount)
{
	uint64_t value = atomic_load_explicit(&counters->value[counter], memory_order_relaxed);

	atomic_store_explicit(&counters->value[counter], value + amount, memory_order_relaxed);
}

static inline uint64_t counter_read(const struct counters *counters, enum counter counter)
{
	return atomic_load_explicit(&counters->value[counter], memory_order_relaxed);
}

const char *counter_name(enum counter counter);

#endif

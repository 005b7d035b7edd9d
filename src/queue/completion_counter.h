/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters: how many requests of a kind have completed, successfully and with an error.
 *
 * Several queue pairs on several lanes may count on one counter, and any thread may read and change
 * its values. So the values are atomic. They are not in NIC memory, because only a queue pair's own
 * process makes its completions.
 */
#ifndef URNIC_QUEUE_COMPLETION_COUNTER_H
#define URNIC_QUEUE_COMPLETION_COUNTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "queue/completion.h"

/* The values are those of enum ibv_qp_attach_comp_cntr_op. Atomics and binds are not counted. */
enum counted_operation {
	COUNTED_SEND = 1 << 0,
	COUNTED_RECV = 1 << 1,
	COUNTED_RDMA_READ = 1 << 2,
	COUNTED_RDMA_WRITE = 1 << 4,
	COUNTED_KNOWN = COUNTED_SEND | COUNTED_RECV | COUNTED_RDMA_READ | COUNTED_RDMA_WRITE,
	COUNTED_BITS = 5,
};

enum completion_outcome {
	COMPLETION_SUCCESS,
	COMPLETION_ERROR,
	COMPLETION_OUTCOMES,
};

struct completion_counter {
	/* value[COMPLETION_ERROR] always counts requests, never bytes */
	_Atomic uint64_t value[COMPLETION_OUTCOMES];
	bool counts_bytes; /* value[COMPLETION_SUCCESS] counts bytes, not requests */
};

/*
 * The operation under which a completion with `opcode` is counted: one bit, or 0 if such a
 * completion is not counted.
 */
enum counted_operation counted_operation_of(enum wc_opcode opcode);

static inline void completion_counter_add(
	struct completion_counter *counter, enum completion_outcome outcome, uint64_t amount)
{
	atomic_fetch_add_explicit(&counter->value[outcome], amount, memory_order_relaxed);
}

#endif

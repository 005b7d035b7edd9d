/* SPDX-License-Identifier: BSD-2-Clause */
/* Fences that cost nothing behind an instruction that is a fence. */
#ifndef URNIC_BASE_FENCE_H
#define URNIC_BASE_FENCE_H

#include <stdatomic.h>

/*
 * Call right behind a sequentially consistent exchange, compare-and-swap or store. The following
 * reads happen after that write is visible to all threads.
 *
 * Litmus, with x and y zero, and a thread each:
 *     x = 1; fence_after_rmw(); read y           y = 1; fence (seq_cst); read x
 * At least one thread reads 1. Without the fence C11 lets both read 0, because such a store orders
 * only sequentially consistent operations. On x86 the store is a locked instruction, which is a
 * full fence, so the function only keeps the compiler from moving the read.
 */
static inline void fence_after_rmw(void)
{
#if defined(__x86_64__) || defined(__i386__)
	atomic_signal_fence(memory_order_seq_cst);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

#endif

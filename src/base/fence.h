/* SPDX-License-Identifier: BSD-2-Clause */
/* A fence that costs nothing where the instruction before it is already a full fence. */
#ifndef URNIC_BASE_FENCE_H
#define URNIC_BASE_FENCE_H

#include <stdatomic.h>

/*
 * Call this right after a sequentially consistent exchange, compare-and-swap or store. The reads
 * after the call happen when that write is already visible to all threads.
 *
 * An example: x and y are zero, and each of two threads executes one line.
 *
 *     x = 1; fence_after_rmw(); read y
 *     y = 1; fence (seq_cst); read x
 *
 * At least one thread reads 1. Without this fence C11 allows both threads to read 0, because a
 * sequentially consistent store orders only other sequentially consistent operations. On x86 the
 * store is a locked instruction, which is a full fence, so the function only keeps the compiler
 * from moving the read.
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

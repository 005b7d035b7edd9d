/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fences that cost nothing where the instruction before them is one.
 */
#ifndef URNIC_BASE_FENCE_H
#define URNIC_BASE_FENCE_H

#include <stdatomic.h>

/*
 * Right behind a sequentially consistent exchange, compare-and-swap or store: what is read next is
 * read after that is visible to everybody.
 *
 * Litmus, with x and y zero, and one thread each:
 *     x = 1; fence_after_rmw(); read y           y = 1; fence (seq_cst); read x
 * At least one reads 1. Without the fence C11 lets both read 0 where the reads are not sequentially
 * consistent: such a store orders sequentially consistent operations only. On x86 it is a locked
 * instruction, which is a full fence; the compiler is kept from moving the read.
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

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_PREFETCH_H
#define URNIC_BASE_PREFETCH_H

/*
 * Prefetch the cache line at `address` for a store. Any address is allowed.
 *
 * A message to a line that another processor polls takes two trips: the line comes to this
 * processor, and goes back. The prefetch starts the first trip before the store leaves the
 * pipeline.
 */
static inline void prefetch_to_write(const void *address)
{
#if defined(__x86_64__) || defined(__i386__)
	/*
	 * Not __builtin_prefetch(): without -mprfchw it prefetches for a load. Processors without
	 * prefetchw do nothing.
	 */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
#else
	__builtin_prefetch(address, 1);
#endif
}

#endif

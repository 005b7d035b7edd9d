/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_PREFETCH_H
#define URNIC_BASE_PREFETCH_H

/*
 * Prefetch the cache line at `address` for a store. Any address is allowed.
 *
 * A store to a cache line that another processor polls costs two transfers of that line: to this
 * processor, and back to the other one. The prefetch starts the first transfer before the store
 * leaves the pipeline.
 */
static inline void prefetch_to_write(const void *address)
{
#if defined(__x86_64__) || defined(__i386__)
	/*
	 * __builtin_prefetch() would prefetch for a load, unless the build has -mprfchw. A
	 * processor without prefetchw executes the instruction as a no-op.
	 */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
#else
	__builtin_prefetch(address, 1);
#endif
}

#endif

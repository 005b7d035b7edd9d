/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_BASE_PREFETCH_H
#define URNIC_BASE_PREFETCH_H

/*
 * Have the cache line at `address` brought here to be written. A hint: the address may be anything.
 *
 * A line that another processor polls takes two trips per message, one to take it away from there
 * and one to bring it back. The first one begins with this, not when the store comes out of the
 * pipeline.
 */
static inline void prefetch_to_write(const void *address)
{
#if defined(__x86_64__) || defined(__i386__)
	/*
	 * Not __builtin_prefetch(): without -mprfchw that has the line brought to be read.
	 * Processors without it do nothing.
	 */
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)address));
#else
	__builtin_prefetch(address, 1);
#endif
}

#endif

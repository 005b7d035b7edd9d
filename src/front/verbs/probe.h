/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is memory there that a program wants to register?
 *
 * An adapter's driver pins the pages, which fails for addresses that are not mapped, or not for
 * writing. This NIC pins nothing, and would learn of a bad address from a page fault in the middle
 * of somebody else's message; so a registration asks the kernel first.
 */
#ifndef URNIC_FRONT_VERBS_PROBE_H
#define URNIC_FRONT_VERBS_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Check [address, address + bytes): that all of it is mapped and readable, and, if the NIC shall
 * write there, writable. Looks at mappings, not at pages: nothing is touched.
 *
 * Returns 0 or EFAULT. Where the kernel does not tell, 0.
 */
int memory_probe(const void *address, size_t bytes, bool is_written);

/*
 * Bring pages in, as a read or a write would. When it is awaited they are there on return;
 * otherwise it is a hint.
 *
 * Returns 0; EFAULT when some of it cannot be accessed like that, or ENOMEM.
 */
int memory_prefetch(void *address, size_t bytes, bool is_written, bool is_awaited);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is the memory that a program registers mapped?
 *
 * An adapter's driver pins the pages, which fails for unmapped or read-only addresses. This NIC
 * pins nothing; without this check it would get a page fault in the middle of a peer's message.
 */
#ifndef URNIC_FRONT_VERBS_PROBE_H
#define URNIC_FRONT_VERBS_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Check that all of [address, address + bytes) is mapped and readable, and, if the NIC shall write
 * there, writable. Checks mappings without touching pages.
 *
 * Returns 0 or EFAULT. Returns 0 if the kernel does not list mappings.
 */
int memory_probe(const void *address, size_t bytes, bool is_written);

/*
 * Bring pages in, as a read or a write would. If `is_awaited` they are present on return; otherwise
 * this is a hint.
 *
 * Returns 0, ENOMEM, or EFAULT when some page does not permit the access.
 */
int memory_prefetch(void *address, size_t bytes, bool is_written, bool is_awaited);

#endif

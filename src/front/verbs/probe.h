/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is memory there that a program wants to register?
 *
 * An adapter's driver pins the pages, which fails for addresses that are not mapped. This NIC pins nothing, and would learn of a
 * bad address from a SIGSEGV in the middle of somebody else's message; so a registration asks the kernel first.
 */
#ifndef URNIC_FRONT_VERBS_PROBE_H
#define URNIC_FRONT_VERBS_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Check [address, address + bytes): that all of it is mapped, and, if the NIC shall write there, that its first and last page may be
 * written. No data changes; at most those two pages are touched.
 *
 * Returns 0 or EFAULT. Where the kernel cannot tell, 0.
 */
int memory_probe(void *address, size_t bytes, bool is_written);

#endif

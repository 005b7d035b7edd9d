/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_ATTACK_ALLOCATIONS_H
#define URNIC_TESTS_ATTACK_ALLOCATIONS_H

/*
 * malloc(), calloc() and realloc() of the program, which stand before the C library's. They count
 * the calls that urnic's libraries make, and refuse the chosen ones with ENOMEM. Calls by the
 * program and by other libraries always reach the C library.
 */

#include <stdatomic.h>

enum { ALLOCATIONS_NEVER = -1, ALLOCATIONS_ALWAYS = 0 };

/*
 * Count the libraries' calls in *count from now on, and refuse the `use`-th one. `use` may be
 * ALLOCATIONS_ALWAYS or ALLOCATIONS_NEVER. The process has only one thread so far.
 */
void allocations_count(atomic_uint *count, int use);

#endif

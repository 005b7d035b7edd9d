/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SIM_REFUSED_H
#define URNIC_TESTS_SIM_REFUSED_H

#include <stdbool.h>
#include <stdint.h>

/* The rows of refused.def. */
uint32_t refused_case_count(void);

/*
 * A good stretch of work, a bad work request, more good ones behind it, over a link that loses and
 * reorders: statuses at both ends, states, memory and time. The seed chooses the row.
 */
void refused_run(uint64_t seed, bool is_traced);

#endif

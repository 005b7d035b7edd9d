/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_LAST_FAILURE_H
#define URNIC_TESTS_SUPPORT_LAST_FAILURE_H

#include "nic/nic_failure.h"

/* The failure of this process that was reported last; number 0: none. */
static inline struct failure last_failure(void)
{
	const struct failures *kept = nic_failures();
	struct failure last = {.number = 0};

	for (int i = 0; i < FAILURES_MAX; i++)
		if (kept->list[i].number > last.number)
			last = kept->list[i];
	return last;
}

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fork support, of which nothing is needed.
 *
 * An adapter reads and writes physical pages, so a fork under a registration could part the process from its own memory. This NIC
 * uses the process's own addresses: a copy on write concerns it no more than any other code of the process.
 */
#include "front/verbs/abi.h"

#pragma GCC visibility push(default)
/* Exported by every libibverbs, declared by no public header. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);
#pragma GCC visibility pop

int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	(void)base;
	(void)size;
	return 0;
}

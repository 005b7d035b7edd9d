/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fork support: the locks of this room across fork(), and the programs' calls for fork support,
 * which have no effect.
 *
 * An adapter accesses physical pages. So after a copy on write, the process and the adapter may use
 * different pages. This NIC uses the addresses of the process, so a copy on write does not matter.
 */
#include "front/verbs/fork.h"

#include "front/verbs/abi.h"
#include "front/verbs/strict.h"

#pragma GCC visibility push(default)
/* Every libibverbs exports these; no public header declares them. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);
#pragma GCC visibility pop

static void locks_take(void)
{
	pthread_mutex_lock(&refresh_lock);
	pthread_mutex_lock(&context_lock);
	pthread_mutex_lock(&device_lock);
	pthread_mutex_lock(&xrcd_lock);
	pthread_mutex_lock(&object_lock);
}

static void locks_give(void)
{
	pthread_mutex_unlock(&object_lock);
	pthread_mutex_unlock(&xrcd_lock);
	pthread_mutex_unlock(&device_lock);
	pthread_mutex_unlock(&context_lock);
	pthread_mutex_unlock(&refresh_lock);
}

static void child_begin(void)
{
	locks_give();
	strict_pins_forget();
}

static void handlers_register(void)
{
	pthread_atfork(locks_take, locks_give, child_begin);
}

void fork_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, handlers_register);
}

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

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_LOCK_ORDER_H
#define URNIC_OS_LOCK_ORDER_H

/*
 * The check of the order of locks (lock_order.def), in builds with -Dlock_order=true only. Each
 * thread keeps a list of its locks. A thread that takes a lock out of order, or a lock that is not
 * in the table, prints the names and aborts. Such a build includes this file before each source of
 * the runtime and the fronts, so that pthread_mutex_lock() means lock_order_mutex_lock() there.
 */

#include <pthread.h>

#include "base/export.h"

#ifdef URNIC_LOCK_ORDER

/*
 * lock_order_take(): the caller is about to wait for `lock`, which the sources call `name`.
 * lock_order_took(): it has got the lock by a trylock. lock_order_give(): it frees the lock.
 */
void lock_order_take(const void *lock, const char *name, const char *file)
	URNIC_EXPORT_AS(lock_order_take);
void lock_order_took(const void *lock, const char *name, const char *file)
	URNIC_EXPORT_AS(lock_order_took);
void lock_order_give(const void *lock) URNIC_EXPORT_AS(lock_order_give);

static inline int lock_order_mutex_lock(pthread_mutex_t *mutex, const char *name, const char *file)
{
	lock_order_take(mutex, name, file);
	return pthread_mutex_lock(mutex);
}

static inline int lock_order_mutex_trylock(
	pthread_mutex_t *mutex, const char *name, const char *file)
{
	int error = pthread_mutex_trylock(mutex);

	if (!error)
		lock_order_took(mutex, name, file);
	return error;
}

static inline int lock_order_mutex_unlock(pthread_mutex_t *mutex)
{
	lock_order_give(mutex);
	return pthread_mutex_unlock(mutex);
}

#ifdef URNIC_LOCK_ORDER_MUTEXES
#define pthread_mutex_lock(mutex)    lock_order_mutex_lock(mutex, #mutex, __FILE__)
#define pthread_mutex_trylock(mutex) lock_order_mutex_trylock(mutex, #mutex, __FILE__)
#define pthread_mutex_unlock(mutex)  lock_order_mutex_unlock(mutex)
#endif

#else

#define lock_order_take(lock, name, file) ((void)(lock))
#define lock_order_took(lock, name, file) ((void)(lock))
#define lock_order_give(lock)             ((void)(lock))

#endif

#endif

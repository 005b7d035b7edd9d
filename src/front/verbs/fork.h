/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The locks of this room across fork(). The forking thread takes these locks, so that the child
 * finds them free, and finds consistent data. Locks inside objects are left out, because the
 * parent's objects are dead in the child.
 */
#ifndef URNIC_FRONT_VERBS_FORK_H
#define URNIC_FRONT_VERBS_FORK_H

#include <pthread.h>

/*
 * The locks, in the order of os/lock_order.def. Each lock belongs to one file. A thread that has
 * context_lock or xrcd_lock may take the lock of an event queue. With any of these locks locked, a
 * thread takes no other lock of another room. A thread that has a lane locked may take xrcd_lock.
 */
extern pthread_mutex_t refresh_lock;
extern pthread_mutex_t context_lock;
extern pthread_mutex_t device_lock;
extern pthread_mutex_t xrcd_lock;
extern pthread_mutex_t object_lock;

/* Register the handlers. Repeated calls do no harm. */
void fork_watch(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The locks of this room across fork(). The forking thread takes them, so that the child finds them
 * free and their data consistent. Locks inside of objects are left out, because the parent's
 * objects are dead in the child.
 */
#ifndef URNIC_FRONT_VERBS_FORK_H
#define URNIC_FRONT_VERBS_FORK_H

#include <pthread.h>

/*
 * In the order of os/lock_order.def. Each lock belongs to one file. A thread that has context_lock
 * or xrcd_lock may take the lock of an event queue. That is the only lock of another room that it
 * takes while it has one of these locks. xrcd_lock is also taken with a lane locked.
 */
extern pthread_mutex_t refresh_lock;
extern pthread_mutex_t context_lock;
extern pthread_mutex_t device_lock;
extern pthread_mutex_t xrcd_lock;
extern pthread_mutex_t object_lock;

/* Register the handlers. Repeated calls do no harm. */
void fork_watch(void);

#endif

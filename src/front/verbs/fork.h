/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The locks of this room across fork(): held while the process forks, so that a child in which
 * other threads no longer exist finds them free, and what they guard whole. Locks that live in
 * objects are not among them: objects of the parent are dead in the child.
 */
#ifndef URNIC_FRONT_VERBS_FORK_H
#define URNIC_FRONT_VERBS_FORK_H

#include <pthread.h>

/*
 * In the order of os/lock_order.def. Each is its file's; nothing outside of this room is
 * called while it is held (but event queues under xrcd_lock, which is also taken under a lane's
 * lock).
 */
extern pthread_mutex_t refresh_lock;
extern pthread_mutex_t context_lock;
extern pthread_mutex_t device_lock;
extern pthread_mutex_t xrcd_lock;
extern pthread_mutex_t object_lock;

/* From now on. Any number of times. */
void fork_watch(void);

#endif

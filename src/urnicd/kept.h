/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_KEPT_H
#define URNIC_URNICD_KEPT_H

/*
 * What the service manager keeps of the system's urnicd while it restarts it: the listening
 * socket, its lock, and the fd store. Programs that connect meanwhile wait in the queue of the
 * socket, and the next keeper finds in the fd store what the last one did. So running programs keep
 * their sockets, also those of ordinary users, which may not have the fd store.
 *
 * The manager closes all three when the service ends for good.
 */

#include <stdbool.h>

#include "agent/place.h"

enum { KEPT_COUNT = 3 }; /* FileDescriptorStoreMax= of the unit */

struct kept {
	int socket, lock, fd_store;
};

/*
 * Take what the manager has kept (sd_listen_fds(3)). The descriptors are the first after standard
 * error. Call before any other descriptor is made or closed.
 *
 * Returns false if there is nothing, or not all of it.
 */
bool kept_take(struct kept *ret_kept);

/*
 * Go on with what kept_take() has returned. Returns the fd store and a listener; or -EINVAL when it
 * is of another network namespace, or its path is gone. Then the lock is released, and
 * all descriptors are closed.
 */
int kept_adopt(const struct kept *kept, struct place_listener *ret_listener);

/*
 * Ask the manager to close the descriptors that it has kept of another urnicd and that this one
 * cannot use. As long as the manager has the lock's descriptor, no process can take the lock; and
 * as long as it has three, it keeps no others.
 */
void kept_forget(void);

/* Ask the manager to keep these. */
void kept_pass(const struct place_listener *listener, int fd_store);

#endif

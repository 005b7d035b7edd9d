/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_KEPT_H
#define URNIC_URNICD_KEPT_H

/*
 * The descriptors that the service manager keeps while it restarts the system's urnicd: the
 * listening socket, its lock, and the fd store. Programs that connect meanwhile wait in the queue
 * of the socket. The next keeper gets the fd store of the last one, with all sockets. So running
 * programs keep their sockets. Programs of ordinary users could not pass on these sockets
 * themselves, because they do not get the fd store.
 *
 * The manager closes all three when the service ends for good.
 */

#include <stdbool.h>

#include "agent/place.h"

enum { KEPT_COUNT = 3 }; /* equals FileDescriptorStoreMax= of packaging/urnicd.service.in */

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
 * Use the descriptors that kept_take() has returned. Returns the fd store, and sets *ret_listener.
 * Returns -EINVAL when the listener is of another network namespace, or its path is gone; the call
 * has then released the lock and closed all three descriptors.
 */
int kept_adopt(const struct kept *kept, struct place_listener *ret_listener);

/*
 * Ask the manager to close the descriptors that it has kept of another urnicd, and that this urnicd
 * cannot use. While the manager has the descriptor of the lock, no process can take the lock. While
 * it keeps these three descriptors, it accepts no others.
 */
void kept_forget(void);

/* Ask the manager to keep the listener's socket and lock, and the fd store. */
void kept_pass(const struct place_listener *listener, int fd_store);

#endif

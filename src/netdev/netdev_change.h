/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NETDEV_NETDEV_CHANGE_H
#define URNIC_NETDEV_NETDEV_CHANGE_H

/*
 * Is a snapshot of the interfaces (netdev/netdev.h) still true?
 *
 * The kernel queues a message on a socket of ours before whoever changed a link, an address or a
 * route has his answer. So looking whether the socket is empty says for certain, and costs a
 * hundredth of another snapshot.
 */

#include <stdbool.h>

#include "base/export.h"

/*
 * Has anything changed in this thread's network namespace since this was last asked? True the first
 * time, in another namespace, in a forked child, and whenever it cannot be known. Take the snapshot
 * after asking. The caller serializes; the answer is the process's, given once.
 */
bool netdev_has_changes(void) URNIC_EXPORT_AS(netdev_has_changes);

#endif

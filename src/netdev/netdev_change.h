/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NETDEV_NETDEV_CHANGE_H
#define URNIC_NETDEV_NETDEV_CHANGE_H

/*
 * Is a snapshot of the interfaces (netdev/netdev.h) still valid?
 *
 * When a process changes a link, an address or a route, the kernel queues a message on urnic's
 * socket before it answers that process. So an empty socket proves that nothing has changed. That
 * check costs a hundredth of a snapshot.
 */

#include <stdbool.h>

#include "base/export.h"

/*
 * Has a link, an address or a route changed in this thread's network namespace since the last call?
 * Also true in the first call, in the first call in another namespace or in a forked child, and
 * when the answer is unknown.
 *
 * Each change is reported once per process. So the caller takes its new snapshot after the call,
 * because a snapshot from before the call may lack the reported change. The caller serializes the
 * calls.
 */
bool netdev_has_changes(void) URNIC_EXPORT_AS(netdev_has_changes);

#endif

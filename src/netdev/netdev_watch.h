/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NETDEV_NETDEV_WATCH_H
#define URNIC_NETDEV_NETDEV_WATCH_H

/*
 * Watching the network interfaces: a call for each change of a link or an address.
 *
 * While a device is open, a thread waits on a netlink socket. It is a separate thread, because a
 * program that only waits for a device's events has no lane, and so no lane's thread. Only a change
 * wakes the thread, at most once in WATCH_PAUSE_MS.
 *
 * After fork() the child has no thread, and watches nothing until it starts a watch.
 */

#include <stdint.h>

#include "base/export.h"

enum { WATCH_PAUSE_MS = 10 };

/*
 * Start a watch. The first watch starts the thread, in the caller's network namespace.
 *
 * `on_change`  The thread calls this function after a change or a possible change, once, even if
 *              several watches name it. The function may block, but must not start or stop a watch.
 *              The thread calls it until the last watch of any function has stopped.
 *
 * Returns the argument of netdev_watch_stop(). A missing thread or socket is reported in the log
 * and is no error: the present interfaces can still be read.
 */
uint32_t netdev_watch_start(void (*on_change)(void)) URNIC_EXPORT_AS(netdev_watch_start);

/*
 * Stop a watch. Stopping the last one ends the thread: after that, no call of a watch's function is
 * in progress.
 */
void netdev_watch_stop(uint32_t watch) URNIC_EXPORT_AS(netdev_watch_stop);

#endif

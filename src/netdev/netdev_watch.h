/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NETDEV_NETDEV_WATCH_H
#define URNIC_NETDEV_NETDEV_WATCH_H

/*
 * Watching the network interfaces: a call for each change of a link or an address.
 *
 * A thread that sleeps in netlink. It is there while somebody watches, which is while a device is
 * open, and it is a thread of its own because a program that opens a device and waits for its
 * events, or only polls the descriptor, has no lane whose thread could do it. Nothing wakes it but
 * a change, and of a storm of them one in WATCH_PAUSE_MS.
 *
 * After fork() the child has no thread and watches nothing until it starts to.
 */

#include <stdint.h>

#include "base/export.h"

enum { WATCH_PAUSE_MS = 10 };

/*
 * Watch from now on. The first one starts the thread, in the caller's network namespace.
 *
 * `on_change`  Called by the thread after something changed, or may have; once, however often it is
 *              given here. It may block; it may not start or stop a watch. It is called until the
 *              last watch of all has stopped.
 *
 * Returns what netdev_watch_stop() wants. That there is no thread or socket to be had is said in
 * the log, and not an error: the interfaces as they are can still be read.
 */
uint32_t netdev_watch_start(void (*on_change)(void)) URNIC_EXPORT_AS(netdev_watch_start);

/*
 * No longer. The last one of all ends the thread, and nothing is being called any more when it
 * returns.
 */
void netdev_watch_stop(uint32_t watch) URNIC_EXPORT_AS(netdev_watch_stop);

#endif

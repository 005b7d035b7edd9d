/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traffic counters in the private view: ports/1/counters and ports/1/hw_counters of each device.
 *
 * The files are ordinary ones of a tmpfs, which nobody asks when they are read. So a process of its
 * own, the keeper, writes them, in place: a program may keep a file open and read it again. It
 * sleeps until somebody opens one; while one is open it looks every 20 ms, and for as long as
 * programs use urnic, once a second. It ends with the last process that has the view.
 *
 * The values are sums over the queue pairs of all processes that urnicd knows and this user may
 * look into. They only grow: what a queue pair has counted stays counted when it goes. What it
 * counts after the last look before its end is missing.
 */
#ifndef TOOLS_VIEW_COUNTERS_H
#define TOOLS_VIEW_COUNTERS_H

#include "common/device_facts.h"

/*
 * Make the files of a device, all 0. `directory` is that of the device. The descriptors stay open
 * in this process until it executes another program. Returns 0 or -errno.
 */
int view_counters_add(int directory, const struct device_facts *device);

/*
 * Start the keeper. It is nobody's child, has no terminal and none of the caller's descriptors.
 * Where it cannot be started the files stay as they are. The process has no other threads.
 */
void view_counters_keep(void);

#endif

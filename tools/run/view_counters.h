/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traffic counters in the private view: ports/1/counters and ports/1/hw_counters of each device.
 *
 * The files are ordinary files of a tmpfs, so a separate process, the keeper, writes them. It
 * writes in place, because a program may keep a file open and read it again. The keeper sleeps
 * until a program opens a file. While one is open it updates them every OPEN_MS, and while programs
 * use urnic, every BUSY_MS. It ends with the last process that has the view.
 *
 * The values are sums over the queue pairs of all processes that urnicd lists and this user may
 * read. They only grow: an ended queue pair's counts remain. Counts between the last update and the
 * end are lost.
 */
#ifndef TOOLS_VIEW_COUNTERS_H
#define TOOLS_VIEW_COUNTERS_H

#include "common/device_facts.h"

/*
 * Make the files of a device, all 0. `directory` is the device's. The descriptors stay open in this
 * process until it executes another program. Returns 0 or -errno.
 */
int view_counters_add(int directory, const struct device_facts *device);

/*
 * Start the keeper: no process's child, without a terminal and without descriptors of the caller.
 * If it cannot start, the files keep their values. The process has no other threads.
 */
void view_counters_keep(void);

#endif

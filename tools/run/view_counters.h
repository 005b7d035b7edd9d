/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traffic counters in the private view: ports/1/counters and ports/1/hw_counters of each device.
 *
 * The files are ordinary files of a tmpfs, so a process has to write them: the keeper, which ps
 * shows as urnic-counters. The keeper writes in place, because a program may keep a file open and
 * read it again.
 *
 * The keeper sleeps until a program opens a file. It updates all files every OPEN_MS while a
 * program has one of them open, else every BUSY_MS while programs use urnic. It ends with the last
 * process that has the view.
 *
 * view_fabric_counters.h has the counters of an InfiniBand fabric's adapter. A counter of any other
 * device is a sum over the queue pairs of all processes that urnicd lists and this user may read.
 * The sum only grows, because the counts of ended queue pairs stay in it. What a queue pair counts
 * between the last update and its end is missing.
 */
#ifndef TOOLS_VIEW_COUNTERS_H
#define TOOLS_VIEW_COUNTERS_H

#include "common/device_facts.h"

/*
 * Make the files of a device, with the value 0. `directory` is a descriptor of the device's
 * directory. The files stay open in this process until it executes another program. Returns 0 or
 * -errno.
 */
int view_counters_add(int directory, const struct device_facts *device);

/*
 * Start the keeper. It is not a child of the caller, has no terminal, and closes the descriptors
 * that the caller's program inherits. If it cannot start, the files keep their values. The calling
 * process has no other threads.
 */
void view_counters_keep(void);

#endif

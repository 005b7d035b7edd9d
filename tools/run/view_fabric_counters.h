/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_VIEW_FABRIC_COUNTERS_H
#define TOOLS_VIEW_FABRIC_COUNTERS_H

/*
 * ports/N/counters of the adapter of an InfiniBand fabric in the private view: the counters that
 * the port's performance management agent has. The keeper (view_counters.h) updates the files.
 */

#include <stdbool.h>
#include <stdint.h>

#include "fabricd/client/fabric_client.h"

enum { VIEW_FABRIC_PORTS_MAX = 8 };

/*
 * Make the files of a port. `directory` is a descriptor of the device's directory. Returns 0 or
 * -errno.
 */
int view_fabric_counters_add(int directory, uint32_t number, struct fabric_client *client);

/* The directories that have the files; their descriptors close with exec. */
const int *view_fabric_counters_directories(uint32_t *ret_count);

/* Write the counters of now. Returns whether there are such files, and the fabric answers. */
bool view_fabric_counters_update(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_VIEW_FABRIC_COUNTERS_H
#define TOOLS_VIEW_FABRIC_COUNTERS_H

/*
 * The files ports/N/counters of a fabric's adapter in the private view. They have the counters of
 * the port's performance management agent (PMA). The keeper (view_counters.h) updates them.
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

/* Write the present counters to the files. Returns false without files, or without an answer. */
bool view_fabric_counters_update(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FRONT_UMAD_DEVICE_H
#define URNIC_FRONT_UMAD_DEVICE_H

/*
 * The one channel adapter of the process: the node of the fabric that URNIC_FABRIC names. Without
 * that variable the process has no adapter.
 */

#include "fabricd/client/fabric_client.h"

/* The name of the adapter, which is the same in libibverbs. */
#define DEVICE_NAME "ibp0"

/*
 * Connect to the node. The caller closes the connection. Returns 0; or -ENODEV when URNIC_FABRIC
 * names no node of a fabric that answers. The first failure goes to the log.
 */
int device_connect(struct fabric_client **ret_client);

/*
 * Connect to the node, and find a port of the adapter. The caller closes the connection. Returns 0
 * or -ENODEV.
 *
 * `ca_name`   The adapter's name; NULL: any adapter.
 * `portnum`   The port's number. UMAD_ANY_PORT: the first active port, or else the first port.
 */
int device_open(
	const char *ca_name, int portnum, struct fabric_client **ret_client, uint32_t *ret_port);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_DATAGRAM_H
#define URNIC_PEER_NIC_DATAGRAM_H

/*
 * Datagrams within this host (local/datagram.h): endpoints of our queue pairs, and routes to those
 * of others.
 *
 * Opening a route takes system calls and may wait for urnicd. So a posting thread only requests a
 * lookup. The control thread executes it; until then datagrams use packets. A route ends with its
 * address handle, and with the process that it leads to.
 *
 * The NIC is locked for all calls but those that say otherwise, and no worker is.
 */

#include <stdint.h>

struct worker;

/*
 * The lane begins. Returns the offset of its struct ud_endpoint_table; 0: there is no memory for
 * one, and datagrams come by packets.
 */
uint64_t nic_datagram_lane_start(const struct worker *worker);

#endif

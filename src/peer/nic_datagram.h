/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_DATAGRAM_H
#define URNIC_PEER_NIC_DATAGRAM_H

/*
 * Datagrams within this host (local/datagram.h): endpoints of our queue pairs, and routes to those
 * of others.
 *
 * A route takes system calls and may have to wait for urnicd, so no thread that posts makes one: it
 * asks, a NIC thread answers, and datagrams go by packets until then. Routes go with the address
 * handle, and when the process that they lead to ends.
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

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_PEER_NIC_DATAGRAM_H
#define URNIC_PEER_NIC_DATAGRAM_H

/*
 * Datagrams within this host (local/datagram.h): UD endpoints of this process's queue pairs, and
 * routes to the UD endpoints of other processes.
 *
 * Opening a route takes system calls and may wait for urnicd. So a posting thread only requests a
 * lookup, and the control thread executes it. Until then datagrams are sent in packets. A route is
 * removed when its address handle is destroyed, or when the process that it leads to ends.
 *
 * The NIC is locked for the call, and no worker is.
 */

#include <stdint.h>

struct worker;

/*
 * A lane is being created. Returns the offset of its struct ud_endpoint_table; or 0 when there is
 * no memory for it, and peers on this host then send packets.
 */
uint64_t nic_datagram_lane_start(const struct worker *worker);

#endif

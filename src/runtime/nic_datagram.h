/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_RUNTIME_NIC_DATAGRAM_H
#define URNIC_RUNTIME_NIC_DATAGRAM_H

/*
 * Datagrams within this host (local/datagram.h): doors of our queue pairs, and routes to those of
 * others.
 *
 * A route takes system calls and may have to wait for urnicd, so no thread that posts makes one: it
 * asks, a NIC thread answers, and datagrams go by packets until then. Routes go with the address
 * handle, and when the process that they lead to ends.
 *
 * The NIC is locked for all calls but those that say otherwise, and no worker is.
 */

#include <stdint.h>

#include "base/gid.h"

struct nic_ah;
struct nic_peer;
struct nic_qp;
struct nic_qp_init;
struct worker;

/* The NIC is being made. */
void nic_datagram_start(void);

/* The child of a fork. */
void nic_datagram_forget(void);

/*
 * The lane begins. Returns the offset of its struct door_table; 0: there is no memory for one, and
 * datagrams come by packets.
 */
uint64_t nic_datagram_lane_start(const struct worker *worker);

/* The queue pair for datagrams was made, or is about to be destroyed. */
void nic_door_add(struct nic_qp *qp, const struct nic_qp_init *init);
void nic_door_remove(struct nic_qp *qp);

/* The device of this interface has these addresses now. */
void nic_door_add_addresses(uint32_t ifindex, const struct gid *locals, uint32_t local_count);

/* The address handle has a path on the lane, or is about to lose it. */
void nic_datagram_path_open(struct nic_ah *ah, struct worker *worker);
void nic_datagram_path_close(struct nic_ah *ah, struct worker *worker);

/* Answer what lanes ask. The NIC is not locked. */
void nic_datagram_errand(void);

/* The peer has ended. */
void nic_datagram_forget_peer(const struct nic_peer *peer);

#endif

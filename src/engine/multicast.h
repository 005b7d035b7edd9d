/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of a lane (IBTA 10.5): the queue pairs that receive a group's datagrams.
 *
 * A group is an IP multicast address on an interface, or an MGID on a port of InfiniBand. The
 * caller joins the group, and passes each of its packets to every lane. The lane passes the packet
 * to the queue pairs that are attached to the group. The caller holds the lane's lock.
 */
#ifndef URNIC_ENGINE_MULTICAST_H
#define URNIC_ENGINE_MULTICAST_H

#include <stdbool.h>
#include <stdint.h>

#include "qp/qp.h"

/*
 * Attach a datagram queue pair to a group to which it is not attached yet.
 *
 * `group`    The address in the IP header; gid_is_multicast() is true for it.
 * `ifindex`  The interface, as in struct packet_origin.
 *
 * Returns 0 or -ENOMEM.
 */
int multicast_attach(struct qp *qp, const struct gid *group, uint32_t ifindex);

/* Detach the queue pair from a group. No effect if the queue pair is not attached to the group. */
void multicast_detach(struct qp *qp, const struct gid *group, uint32_t ifindex);

/* Detach the queue pair from all groups. */
void multicast_forget(struct qp *qp);

/*
 * Pass a packet for QPN_MULTICAST to all queue pairs that are attached to its destination group.
 * Returns false when no attached queue pair has the packet's P_Key and is in a state that receives.
 */
bool multicast_receive(struct lane *lane, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns);

#endif

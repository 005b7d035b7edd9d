/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of a lane (IBTA 10.5): which queue pairs a datagram to a group goes to.
 *
 * A group is an IP multicast address on one interface. That the host receives its packets at all is
 * the caller's business, and that each lane gets a copy; here a copy reaches every queue pair of
 * the lane that is attached. The lane's lock is held for all of it.
 */
#ifndef URNIC_ENGINE_MULTICAST_H
#define URNIC_ENGINE_MULTICAST_H

#include <stdbool.h>
#include <stdint.h>

#include "qp/qp.h"

/*
 * Attach a queue pair for datagrams, which is not attached to this group, to it.
 *
 * `group`    As the IP header has it: gid_is_multicast().
 * `ifindex`  The interface; what struct packet_origin says of the packets that count.
 *
 * Returns 0 or -ENOMEM.
 */
int multicast_attach(struct qp *qp, const struct gid *group, uint32_t ifindex);

/* Undo it. Nothing happens if it is not attached. */
void multicast_detach(struct qp *qp, const struct gid *group, uint32_t ifindex);

/* Detach it from all groups. */
void multicast_forget(struct qp *qp);

/*
 * Hand a packet for QPN_MULTICAST to all that are attached to its destination. False when nobody is
 * who can receive.
 */
bool multicast_receive(struct lane *lane, const struct packet *packet,
	const struct packet_origin *origin, uint64_t now_ns);

#endif

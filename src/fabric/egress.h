/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The traffic classes of a host's port (IEEE 802.1Qaz): what dcb of iproute2 calls ets and maxrate.
 *
 * Each priority belongs to a class. Strict classes send first, the highest before the others. The
 * other classes share the rest by weight: a class sends while it has credit. If a frame takes the
 * credit below zero, the class has less in its next round. So shares are exact to within a frame. A
 * class may have a maximum rate. Congestion notifications wait for no class.
 *
 * A host without classes chooses the order of its frames itself.
 */
#ifndef URNIC_FABRIC_EGRESS_H
#define URNIC_FABRIC_EGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/units.h"

struct fabric_host;
struct fabric_packet;

enum { EGRESS_CLASS_COUNT = 8 };

struct egress {
	uint8_t class_of[FABRIC_PRIORITY_COUNT];
	uint8_t strict; /* a bit for each strict class */
	uint8_t weight[EGRESS_CLASS_COUNT]; /* of the others, in percent; 0 counts as 1 */
	uint32_t rate_mbps[EGRESS_CLASS_COUNT]; /* 0: no limit */
	/* The state, which each frame changes. */
	uint8_t turn; /* the weighted class whose turn it is */
	bool has_begun; /* that class has got its credit for this round */
	int64_t credit_bytes[EGRESS_CLASS_COUNT];
	uint64_t next_ps[EGRESS_CLASS_COUNT]; /* when the class may send again */
};

/*
 * Ask a host with classes for its next frame, class by class. Arguments and result are those of
 * fabric_host_ops.next_packet.
 */
bool egress_next(
	struct fabric_host *host, struct fabric_packet *packet, uint8_t paused, uint64_t now_ps);

/* When the first class that now waits for its rate may send; FABRIC_NEVER: no class waits. */
uint64_t egress_next_time(const struct egress *egress, uint64_t now_ps);

#endif

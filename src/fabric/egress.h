/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The traffic classes of a host's port (IEEE 802.1Qaz), in what dcb calls ets and maxrate.
 *
 * Each priority belongs to a class. Strict classes send first, the highest before the others. The
 * other classes share the rest by weight: a class sends while it has credit, and the frame that
 * takes its credit below zero counts in its next round. So shares are exact within a frame. A
 * class may have a highest rate. Congestion notifications wait for no class.
 *
 * A host without classes sends its frames in the order of its own choice.
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
	/* What follows changes with each frame. */
	uint8_t turn; /* the class that is not strict and whose turn it is */
	bool has_begun; /* the class whose turn it is has got its credit */
	int64_t credit_bytes[EGRESS_CLASS_COUNT];
	uint64_t next_ps[EGRESS_CLASS_COUNT]; /* when the class may send again */
};

/*
 * Have a host that has classes fill in its next frame. Arguments and result are those of
 * fabric_host_ops.next_packet.
 */
bool egress_next(
	struct fabric_host *host, struct fabric_packet *packet, uint8_t paused, uint64_t now_ps);

/* The first time after `now_ps` at which a class may send that waits for its rate. */
uint64_t egress_next_time(const struct egress *egress, uint64_t now_ps);

#endif

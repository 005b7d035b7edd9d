/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable connection (IBTA 9.8.2): a reliable connection without answers.
 *
 * The requester cuts SENDs and WRITEs into packets; a work request is complete when its last packet
 * was sent. The responder takes in messages of which every packet arrives, in order. Of any other
 * message nothing is heard: the receive request that it took serves the next one, and the bytes
 * that a WRITE has placed stay (IBTA 9.8.2.2).
 *
 * A First or Only packet is always welcome, whatever came before (IBTA 9.8.2.2.1), except one from
 * the recent past. InfiniBand networks neither duplicate nor reorder, so the specification would
 * take a late or duplicated packet for a new message. On an IP network that would deliver a message
 * twice, or an old one after a newer; packets up to UC_LATE_PACKETS behind the expected one are
 * dropped.
 *
 * All of this runs under the lane's lock.
 */
#ifndef URNIC_IB_UC_UC_H
#define URNIC_IB_UC_UC_H

#include <stdbool.h>
#include <stdint.h>

#include "ib/message.h"
#include "qp/qp.h"
#include "wire/psn.h"

/*
 * Farther behind, a packet is taken for one that is ahead: a peer that was cut off for so long that
 * its PSNs came round must not be shut out for as long again.
 */
#define UC_LATE_PACKETS 65536

/*
 * Requests of which a peer on this host does not need packets wait for the packets before them:
 * after so many have been sent like those, and for so long, as packets may be lost.
 */
enum { UC_DETOURS_MAX = 16 };

/*
 * Keys that WRITEs were executed with, the last ones: they are good while somebody tries others
 * (qp/guard.h).
 */
enum { UC_PROVEN_KEYS = 16 };
#define UC_ARRIVAL_NS      4000000u
#define UC_ARRIVAL_LOOK_NS 10000u

struct uc_qp {
	struct qp qp;
	struct psn next; /* to send */
	uint32_t sent_packets; /* of the work request in progress, which is the oldest one */
	/* Requests sent since the peer, on this host, had taken in all before them */
	uint32_t detours;
	uint64_t waiting_since_ns; /* for it to do so; 0: nobody waits */
	struct psn expected;
	bool is_synchronized; /* a packet was taken: `expected` follows from it, not from rq_psn */
	struct message message; /* in progress */
	uint32_t proven[UC_PROVEN_KEYS]; /* a ring */
	uint32_t proven_count; /* ever */
};

extern const struct qp_transport uc_transport;

#endif

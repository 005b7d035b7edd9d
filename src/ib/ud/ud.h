/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable datagram (IBTA 9.8.3): one packet, to anybody, from anybody who knows the Q_Key.
 *
 * Each work request names its own destination: a path, a queue pair, a Q_Key. A datagram that
 * arrives fills a receive request: 40 bytes of GRH, then the payload. One that nobody can take (no
 * receive request, too long for it, wrong Q_Key) is dropped and counted, and nothing is heard of
 * it.
 *
 * A message longer than the MTU of the port completes with a local length error, as on adapters;
 * the letter of the specification (IBTA C10-93.1.1) would have it vanish as if it had been sent.
 *
 * After a datagram to an address with a static rate the queue pair waits for as long as that one
 * takes at this rate (IBTA 9.11), whomever the next one is for; datagrams may be early by
 * PACE_BURST_NS.
 *
 * A datagram for a queue pair of this host may need no packet (local/datagram.h): those in front of
 * it are sent first.
 *
 * All of this runs under the lane's lock.
 */
#ifndef URNIC_IB_UD_UD_H
#define URNIC_IB_UD_UD_H

#include <stdbool.h>
#include <stdint.h>

#include "qp/qp.h"
#include "wire/grh.h"
#include "wire/psn.h"

/* A Q_Key with this bit in a work request stands for that of the queue pair (IBTA 10.2.5). */
#define UD_QKEY_OWN 0x80000000u

/* What a GRH says where the IP header's hop limit is not known: what IP stacks send by default. */
#define UD_HOP_LIMIT_ASSUMED 64

struct ud_qp {
	struct qp qp;
	struct psn next; /* to send; nobody looks at it */
	uint64_t due_ns; /* when the next one is due, after those to addresses with a static rate */
	bool has_receive; /* `receive` was taken and not used: it is the next one */
	struct recv_wqe receive;
};

extern const struct qp_transport ud_transport;

/* The packet of a request, without its payload. */
void ud_packet_init(
	struct packet *packet, const struct qp *qp, const struct send_wqe *wqe, struct psn psn);

/* The header that comes before the payload of this packet in a receive buffer. */
void ud_grh_make(
	const struct packet *packet, const struct packet_origin *origin, uint8_t to[GRH_BYTES]);

/*
 * A datagram has come to its end at a receive request of this queue pair.
 *
 * `cqe`    But status and wr_id.
 * `fault`  Of the receive request itself: the queue pair goes to the error state.
 */
void ud_receive_end(struct qp *qp, uint64_t wr_id, struct cqe *cqe, enum fault fault,
	bool is_solicited, uint64_t now_ns);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable datagram (IBTA 9.8.3): a packet to any queue pair, from any sender with the Q_Key.
 *
 * Each work request names its destination: a path, a queue pair, a Q_Key. A datagram that arrives
 * fills a receive request: 40 bytes of GRH, then the payload. A datagram without a receive request,
 * too long for it, or with a wrong Q_Key is dropped and counted.
 *
 * A message longer than the MTU of the port completes with a local length error, as on adapters. By
 * the letter of the specification (IBTA C10-93.1.1) it would succeed and vanish.
 *
 * After a datagram to an address with a static rate, the queue pair waits for the duration of that
 * datagram at its rate (IBTA 9.11), whatever the next destination. Datagrams may be early by
 * PACE_BURST_NS.
 *
 * A datagram for a queue pair of this host may need no packet (local/datagram.h). Earlier datagrams
 * that need packets are sent first.
 *
 * Everything runs under the lane's lock.
 */
#ifndef URNIC_IB_UD_UD_H
#define URNIC_IB_UD_UD_H

#include <stdbool.h>
#include <stdint.h>

#include "qp/qp.h"
#include "wire/grh.h"
#include "wire/psn.h"

/* A work request's Q_Key with this bit means the Q_Key of the queue pair (IBTA 10.2.5). */
#define UD_QKEY_OWN 0x80000000u

/* The hop limit in a GRH when the IP header's is unknown: the default of IP stacks. */
#define UD_HOP_LIMIT_ASSUMED 64

struct ud_qp {
	struct qp qp;
	struct psn next; /* PSN of the next datagram to send; no receiver checks it */
	/*
	 * When the next datagram is due, because of earlier ones to addresses with a static rate.
	 */
	uint64_t due_ns;
	bool has_receive; /* `receive` was taken and not used: the next datagram takes it */
	struct recv_wqe receive;
};

extern const struct qp_transport ud_transport;

/* Start the packet of a request; the caller writes the payload. */
void ud_packet_init(
	struct packet *packet, const struct qp *qp, const struct send_wqe *wqe, struct psn psn);

/* The header that precedes the payload of this packet in a receive buffer. */
void ud_grh_make(
	const struct packet *packet, const struct packet_origin *origin, uint8_t to[GRH_BYTES]);

/*
 * A datagram has filled a receive request of this queue pair: complete the request.
 *
 * `cqe`    Without status and wr_id.
 * `fault`  Of the receive request's memory, or FAULT_NONE. After a fault the queue pair goes to the
 *          error state.
 */
void ud_receive_end(struct qp *qp, uint64_t wr_id, struct cqe *cqe, enum fault fault,
	bool is_solicited, uint64_t now_ns);

#endif

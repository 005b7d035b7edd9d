/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Unreliable datagram (IBTA 9.8.3): each datagram is one packet, goes to any queue pair, and is
 * accepted from any sender that uses the right Q_Key.
 *
 * Each work request names its destination: a path, a queue pair, a Q_Key. A datagram that arrives
 * fills a receive request: 40 bytes of GRH, then the payload. A datagram is dropped and counted if
 * its Q_Key is wrong, if there is no receive request, or if the datagram is longer than that
 * request.
 *
 * A message longer than the MTU of the port completes with a local length error, as on adapters. By
 * the letter of the specification (IBTA C10-93.1.1) the request would succeed, and its message
 * would be lost.
 *
 * After a datagram to an address with a static rate, the queue pair waits for the duration of that
 * datagram at that rate (IBTA 9.11), whatever the next destination is. A datagram may leave up to
 * PACE_BURST_NS before its due time.
 *
 * A datagram for a queue pair of this host may need no packet (local/datagram.h). The queue pair
 * first sends the earlier datagrams that need packets.
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

/*
 * The hop limit in a GRH when the hop limit of the IP header is unknown. It is the default of IP
 * stacks.
 */
#define UD_HOP_LIMIT_ASSUMED 64

struct ud_qp {
	struct qp qp;
	struct psn next; /* PSN of the next datagram to send; no receiver checks it */
	/*
	 * When the next datagram is due. Earlier datagrams to addresses with a static rate delay
	 * it.
	 */
	uint64_t due_ns;
	bool has_receive; /* `receive` was taken and not used, so the next datagram uses it */
	struct recv_wqe receive;
};

extern const struct qp_transport ud_transport;

/* The most ports of an InfiniBand device, and P_Keys of a port. */
#define UD_INFINIBAND_PORTS_MAX 2
#define UD_INFINIBAND_PKEYS_MAX 128

/* The link layers. engine_lane_init() sets that of Ethernet. */
extern const struct lane_link ud_link_ethernet;
extern const struct lane_link ud_link_infiniband;

/* Start the packet of a request; the caller writes the payload. */
void ud_packet_init(
	struct packet *packet, const struct qp *qp, const struct send_wqe *wqe, struct psn psn);

/* The header that precedes the payload of this packet in a receive buffer. */
void ud_grh_make(
	const struct packet *packet, const struct packet_origin *origin, uint8_t to[GRH_BYTES]);

/*
 * A datagram has filled a receive request of this queue pair: complete the request.
 *
 * `cqe`    The completion; the caller has set the fields that qp_complete_recv() requires.
 * `fault`  The fault of the receive request's memory, or FAULT_NONE. After a fault the queue pair
 *          goes to the error state.
 */
void ud_receive_end(struct qp *qp, uint64_t wr_id, struct cqe *cqe, enum fault fault,
	bool is_solicited, uint64_t now_ns);

#endif

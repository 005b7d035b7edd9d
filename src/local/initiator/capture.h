/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_INITIATOR_CAPTURE_H
#define URNIC_LOCAL_INITIATOR_CAPTURE_H

/*
 * Capturing requests that were executed without packets.
 *
 * A capture shows an executed request as the packets that a wire would have had: the request, cut
 * at the path MTU, and the answer of a responder that acknowledges each message. Their PSNs are
 * consecutive, from the connection's first PSN on, as if all captured requests had been packets.
 * Requests that fall back to packets do not count; the requester assigns the PSNs of those packets.
 * Where possible, a request of one packet is recorded as a repetition of an earlier packet, its
 * model (wire/captured.h).
 *
 * Threads: the caller holds the lane's lock.
 */

#include "local/initiator/local_qp.h"
#include "wire/captured.h"
#include "wire/packet.h"

/* Capture a request that was executed and has not completed. The lane is being captured. */
void local_capture(struct local_initiator *local, const struct send_wqe *wqe);

/* The same for the next `count` requests of the send queue, which were executed at once. */
void local_capture_batch(struct local_initiator *local, uint32_t count);

/* Capture one packet with the request's bytes from `offset` on. The lane is being captured. */
void local_capture_packet(const struct qp *qp, struct captured *about, const struct packet *packet,
	const struct send_wqe *wqe, uint64_t offset);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_CAPTURE_H
#define URNIC_LOCAL_CAPTURE_H

/*
 * The packets that an executed request would have been on a wire.
 *
 * A capture shows an executed request as packets: those into which the requester would have cut it
 * at the path MTU, and the answer of a responder that acknowledges each message. Their PSNs are
 * consecutive, from the connection's first PSN on, as if all captured requests had been packets.
 * Requests that do fall back to packets have PSNs of their own.
 *
 * Threads: as local.h.
 */

#include "local/datagram.h"
#include "local/local.h"

/* The request was executed, and is not complete yet. The lane is captured. */
void local_capture(struct local_qp *local, const struct send_wqe *wqe);

/* local_capture() for a datagram, which goes on a path. Its packets are numbered from 0. */
void datagram_capture(
	struct ud_endpoint_qp *from, const struct datagram_path *path, const struct send_wqe *wqe);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_CAPTURE_H
#define URNIC_LOCAL_CAPTURE_H

/*
 * Capturing requests that were executed without packets.
 *
 * A capture shows an executed request as the packets that a wire would have had: the request, cut
 * at the path MTU, and the answer of a responder that acknowledges each message. Their PSNs are
 * consecutive, from the connection's first PSN on, as if all captured requests had been packets.
 * Requests that fall back to packets do not count; the requester assigns the PSNs of those packets.
 *
 * Threads: the caller holds the lane's lock.
 */

#include "local/datagram.h"
#include "local/local.h"

/* Capture a request that was executed and has not completed. The lane is being captured. */
void local_capture(struct local_qp *local, const struct send_wqe *wqe);

/* local_capture() for a datagram to `path`. The PSNs of a queue pair's datagrams count from 0. */
void datagram_capture(
	struct ud_endpoint_qp *from, const struct datagram_path *path, const struct send_wqe *wqe);

#endif

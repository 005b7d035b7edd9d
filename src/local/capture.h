/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_LOCAL_CAPTURE_H
#define URNIC_LOCAL_CAPTURE_H

/*
 * What a request would have been on a wire.
 *
 * A request that was executed here is shown to whoever captures as packets: those that the
 * requester would have cut it into at the path MTU, and the answer of a responder that acknowledges
 * each message. Their numbers follow each other as if all that was captured of the connection had
 * been packets, from that of its first packet on. Those that do go by packets have numbers of their
 * own.
 *
 * Threads: as local.h.
 */

#include "local/datagram.h"
#include "local/local.h"

/* The request was executed, and is not complete yet. The lane is captured. */
void local_capture(struct local_qp *local, const struct send_wqe *wqe);

/* The same for a datagram, which goes on a path. Its packets are numbered from 0. */
void datagram_capture(
	struct ud_endpoint_qp *from, const struct datagram_path *path, const struct send_wqe *wqe);

#endif

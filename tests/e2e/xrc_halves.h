/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_E2E_XRC_HALVES_H
#define URNIC_TESTS_E2E_XRC_HALVES_H

/*
 * Extended reliable connections for the programs of this folder: a half at either end, and a shared
 * receive queue that may be a third process's. As in peer.h, what should not happen ends the
 * program.
 */

#include "peer.h"

/* What a half has to know of the other one. */
struct xrc_link {
	union ibv_gid gid;
	enum ibv_mtu mtu;
	uint32_t dest_qpn;
	uint32_t rq_psn; /* where the other one begins */
	uint32_t sq_psn; /* and this one */
	uint8_t rd_atomic;
};

/* Open the domain of this file. */
struct ibv_xrcd *xrc_domain(struct peer *peer, int file);

struct ibv_srq *xrc_queue(
	struct peer *peer, struct ibv_xrcd *domain, struct ibv_cq *cq, struct ibv_srq_attr attr);
uint32_t xrc_queue_number(struct ibv_srq *srq);

struct ibv_qp *xrc_receiver(struct peer *peer, struct ibv_xrcd *domain);
struct ibv_qp *xrc_sender(
	struct peer *peer, struct ibv_cq *cq, struct ibv_qp_cap cap, bool is_all_signaled);

/* To RTS, with the timeouts and retries that the peer's options name. */
void xrc_receiver_connect(struct peer *peer, struct ibv_qp *qp, const struct xrc_link *link);
void xrc_sender_connect(struct peer *peer, struct ibv_qp *qp, const struct xrc_link *link);

#endif

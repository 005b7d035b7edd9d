/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_XRC_MEMBER_H
#define URNIC_TESTS_SUPPORT_XRC_MEMBER_H

/*
 * The objects of one of several processes that share an XRC domain. As in verbs_pair.h, a call that
 * fails ends the program.
 */

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

enum {
	XRC_BYTES = 4096, /* of a message */
	XRC_DEPTH = 32, /* of the shared receive queue, and of a queue pair that sends */
};

struct xrc_member {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq; /* full of receive requests */
	uint8_t *buffer;
};

/* `file`: of the domain. */
void xrc_member_make(struct xrc_member *member, int file);
void xrc_member_unmake(struct xrc_member *member);

uint32_t xrc_srq_number(struct ibv_srq *srq);
struct ibv_qp *xrc_receiver_make(struct xrc_member *member);
struct ibv_qp *xrc_sender_make(struct xrc_member *member);

/* One receive request. */
void xrc_post_receive(struct xrc_member *member);

/* Post a receive request for each one that is complete. Returns how many. */
uint32_t xrc_receive_all(struct xrc_member *member);

/* Post one message to the shared receive queue of this number. False when there is no room. */
bool xrc_send(struct xrc_member *member, struct ibv_qp *sender, uint32_t srqn);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_E2E_WAYS_END_H
#define URNIC_TESTS_E2E_WAYS_END_H

/* An end that runs random programs: its objects, how they are connected, and what it prints. */

#include "ways.h"
#include "ways_receiver.h"

enum {
	/* A little room between pieces stays as it is. */
	WAYS_STRIDE = WAYS_REQUEST_BYTES + 64,
	WAYS_AREA_BYTES = WAYS_REQUESTS_MAX * WAYS_STRIDE,
	WAYS_QUEUE_DEPTH = 32,
	WAYS_QKEY = 0x1234567,
};

/* The keys that the other end uses. */
struct ways_keys {
	uint64_t address;
	uint32_t key[KEY_NONE + 1];
	uint32_t stale_window;
};

struct ways {
	struct peer *peer;
	unsigned end;
	struct ibv_comp_channel *channel;
	struct ibv_pd *other_pd;
	uint8_t *target, *local, *received; /* WAYS_AREA_BYTES each */
	struct ibv_mr *target_mr, *read_only, *write_only, *foreign, *local_mr, *local_read_only,
		*received_mr;
	/* Of the program that runs: */
	struct ibv_cq *send_cq, *receive_cq;
	struct ibv_qp *qp;
	struct ways_receiver *receiver;
	struct ibv_xrcd *domain;
	bool is_xrc; /* `qp` only sends; the receiver has another one, */
	uint32_t receiver_qpn, their_srqn;
	struct ibv_srq *srq; /* NULL: the queue pair has a receive queue of its own */
	struct ibv_ah *ah; /* of datagrams, else NULL: */
	uint32_t their_qpn;
	struct ibv_mw *window, *stale;
	bool is_window_bound;
	struct ways_keys theirs;
	uint64_t seed;
	uint32_t number; /* of the step */
};

/* Print a completion. */
void ways_show(const struct ways *ways, const char *what, const struct ibv_wc *wc);

/* Print the state and the events of the queue pair that receives; returns its state. */
enum ibv_qp_state ways_show_receiver(const struct ways *ways);

/*
 * Print the state, the memory, the events and the wake-ups. Who asks for the state meets everything
 * that was told before.
 */
void ways_show_rest(const struct ways *ways);

/* Make the queues of a program, and destroy them. */
void ways_queues_create(struct ways *ways, const struct ways_program *program);
void ways_queues_destroy(struct ways *ways);

/* Connect the queue pair with the other end's. */
void ways_connection_begin(struct ways *ways, const struct ways_program *program);

#endif

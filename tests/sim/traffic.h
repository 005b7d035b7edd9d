/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random work on connected queue pairs, with a model of the expected results.
 *
 * Each end of a connection is given a list of operations when it is made. A model executes that
 * list at once, on copies: what each READ must return, what each atomic must find, what the peer's
 * memory holds at the end, what each receive request gets. Then the network executes it, and every
 * byte and completion is compared.
 *
 * Each end may write to one part of the peer's memory, its window. No other end writes there, so
 * the order of one queue pair's operations decides its contents. A counter per host is shared by
 * all; its sum is checked. With shared receive queues (pool.h) the model does not know which
 * request a message takes, but it knows the order of one connection's messages in one queue.
 *
 * The end names the window by the key of its region, or by the key of a grant: one of a few memory
 * windows of type 2 that the peer has bound to it. A SEND with invalidate ends a grant, in its
 * place among the operations. Each end also binds and invalidates one memory window that no peer
 * uses.
 *
 * Between the pieces of scatter/gather lists lie gaps that must not change.
 */
#ifndef URNIC_TESTS_SIM_TRAFFIC_H
#define URNIC_TESTS_SIM_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "heap.h"
#include "pool.h"
#include "world.h"

enum {
	TRAFFIC_OP_COUNT_MAX = 64,
	TRAFFIC_INLINE_BYTES = 220,
	TRAFFIC_GRANT_COUNT = 3,
};

/* In the wr_id of receive requests. */
#define RECV_WR_ID_FLAG (1ull << 63)

struct op {
	struct send_wr wr;
	struct piece_list list;
	uint32_t bytes;
	uint64_t seed; /* of the bytes that a SEND or WRITE carries */
	uint64_t window_offset; /* of a WRITE or READ */
	uint8_t *expected; /* what a READ must return */
	uint64_t original; /* what an atomic on the own word must find */
	bool has_original;
	const struct pool *pool; /* that the peer receives it with; NULL: its own receive queue */
};

/* A key that an end has given its peer. */
struct grant {
	uint32_t key;
	bool is_revoked; /* in the plan */
	bool is_read; /* a READ through it may still be under way, in the plan */
};

/* `list` is empty for a message that a pool receives. */
struct receive {
	struct piece_list list;
	const struct op *op; /* the peer's message that it is for */
	bool is_complete;
};

struct shape {
	uint32_t op_count;
	uint32_t mtu_bytes;
	uint32_t big_bytes_max; /* of the few long messages */
	uint32_t send_depth;
	uint32_t recv_depth;
	uint32_t signaled_ppm;
	/* Receive requests are posted now and then, not as early as possible */
	bool is_receive_late;
};

struct end {
	struct world *world;
	struct host *host;
	struct end *peer;
	struct qp *qp;
	struct qp *recv_qp; /* the same, or the receiving half of XRC */
	struct pool *pools; /* NULL: it has a receive queue of its own */
	uint32_t pool_count;
	struct shape shape;

	uint8_t *window; /* what the peer writes and reads here */
	uint32_t window_key;
	struct grant grant[TRAFFIC_GRANT_COUNT];
	uint32_t own_key; /* of the memory window that this end binds itself */
	bool is_own_bound; /* in the plan */
	uint8_t *model; /* of the peer's window */
	struct heap heap; /* local buffers */

	uint32_t op_count;
	struct op op[TRAFFIC_OP_COUNT_MAX];
	uint32_t ops_posted;
	uint32_t ops_completed;
	uint32_t receive_count;
	struct receive receive[TRAFFIC_OP_COUNT_MAX];
	uint32_t receives_posted;
	uint32_t receives_completed;
};

/* What an end is made of. */
struct end_init {
	struct world *world;
	struct host *host;
	struct qp *qp;
	struct qp *recv_qp;
	struct pool *pools; /* among which each message to it chooses; NULL: none */
	uint32_t pool_count;
	struct shape shape;
};

/* The counter of a host, for all its ends. */
struct shared_counter {
	uint64_t value;
	uint64_t expected; /* when all operations are done */
	uint32_t key;
};

void end_init(struct end *end, const struct end_init *init);
void end_done(struct end *end);

/* Make the operations of `end` towards `peer`, which was initialised. */
void end_plan(struct end *end, struct end *peer, struct shared_counter *peer_counter);

/* After both ends were planned: make the receive requests. */
void end_plan_receives(struct end *end);

/* Post some of what is left: up to `count` operations, and receive requests. */
void end_post_sends(struct end *end, uint32_t count);
void end_post_receives(struct end *end);

/* A completion of this end's queue pair was polled: it must be the next one, and right. */
void end_complete(struct end *end, const struct cqe *cqe);

bool end_is_finished(const struct end *end);

/* Nothing is left to do: compare what is left in memory. */
void end_check_final(const struct end *end);

#endif

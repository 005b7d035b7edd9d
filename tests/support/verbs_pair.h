/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SUPPORT_VERBS_PAIR_H
#define URNIC_TESTS_SUPPORT_VERBS_PAIR_H

/*
 * Two connected queue pairs of this process, for tests with threads.
 *
 * Each thread makes what it uses. A call that fails ends the test program with a line that says
 * where: cmocka's assertions are for the thread that runs the tests only.
 */

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#define MUST(condition)                                                     \
	do {                                                                \
		if (!(condition))                                           \
			verbs_pair_give_up(__FILE__, __LINE__, #condition); \
	} while (0)

_Noreturn void verbs_pair_give_up(const char *file, int line, const char *what);

enum {
	PAIR_DEPTH = 64,
	PAIR_BYTES = 16384,
	PAIR_TIMEOUT_S = 120, /* for a completion; sanitizers are slow, and machines busy */
};

struct verbs_end {
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel; /* blocking */
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buffer; /* PAIR_BYTES */
};

struct verbs_pair {
	struct verbs_end a;
	struct verbs_end b;
};

/* The first device; the namespace has one. */
struct ibv_context *verbs_pair_open(void);

/* An end that is not connected. `cq`: it completes there; NULL: a queue of its own. */
void verbs_end_make(struct verbs_end *end, struct ibv_context *context, struct ibv_cq *cq);
/* Also destroys the completion queue if the end made it. */
void verbs_end_unmake(struct verbs_end *end);

/*
 * Connect a queue pair with `dest_qpn` on this device, up to RTS. The masks are those of both XRC
 * halves, as programs use them for a half, too.
 */
void verbs_qp_connect(struct ibv_qp *qp, uint32_t dest_qpn, uint8_t timeout);

/* The same with a queue pair at this address. */
void verbs_qp_connect_to(
	struct ibv_qp *qp, const union ibv_gid *gid, uint32_t dest_qpn, uint8_t timeout);

/* Connect both; `timeout` as in struct ibv_qp_attr. */
void verbs_ends_connect(struct verbs_end *a, struct verbs_end *b, uint8_t timeout);

void verbs_pair_make(struct verbs_pair *pair, struct ibv_context *context);
void verbs_pair_unmake(struct verbs_pair *pair);

/* Post `bytes` bytes at `offset` of the buffer. A WRITE or READ names the same place of `to`. */
int verbs_post(struct verbs_end *end, enum ibv_wr_opcode opcode, const struct verbs_end *to,
	uint32_t offset, uint32_t bytes);
/* The same without a completion. */
int verbs_post_unsignaled(struct verbs_end *end, enum ibv_wr_opcode opcode,
	const struct verbs_end *to, uint32_t offset, uint32_t bytes);
void verbs_post_recv(struct verbs_end *end, uint64_t id, uint32_t offset, uint32_t bytes);

/* Poll until there is one. */
struct ibv_wc verbs_poll_one(struct ibv_cq *cq);
/* Sleep on the channel until there is one. */
struct ibv_wc verbs_wait_one(struct verbs_end *end);

/* Bytes that only this `seed` gives. */
void verbs_pattern_fill(uint8_t *bytes, uint32_t count, uint32_t seed);
bool verbs_pattern_is(const uint8_t *bytes, uint32_t count, uint32_t seed);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the wrong programs share: two connected queue pairs of one process. Only public headers are
 * used, so that the programs are ones that a user may write.
 */
#ifndef TESTS_MISTAKES_MISTAKE_H
#define TESTS_MISTAKES_MISTAKE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

enum { REGION_BYTES = 4096, MESSAGE_BYTES = 64, SEND_DEPTH = 16, ENTRIES_MAX = 2 };

#define MUST(condition)                                                        \
	do {                                                                   \
		if (!(condition)) {                                            \
			printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                               \
		}                                                              \
	} while (0)

/* How the queue pairs are connected; a mistake changes members before mistake_connect(). */
struct mistake_settings {
	int access; /* of the target's queue pair */
	uint32_t target_qpn; /* that the sender is told; 0: the right one */
	union ibv_gid target_gid; /* zero: the device's own */
	uint32_t target_rq_psn;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
};

struct mistake {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_pd *other_pd;
	struct ibv_cq *cq;
	struct ibv_qp *sender;
	struct ibv_qp *target;
	union ibv_gid gid;
	int gid_index;
	char *memory; /* of the sender */
	char *target_memory;
	struct mistake_settings settings;
};

/* Open the first device, and make all but regions; the queue pairs are in RESET. */
void mistake_begin(struct mistake *m);

/* A queue pair of this type, in RESET. */
struct ibv_qp *mistake_qp(const struct mistake *m, enum ibv_qp_type type, struct ibv_cq *cq);
/* A queue pair of one SEND, for ibv_wr_start(). */
struct ibv_qp_ex *mistake_qp_extended(const struct mistake *m);

/* Connect both queue pairs by the settings. */
void mistake_connect(const struct mistake *m);

/* Move a queue pair to INIT, RTR, RTS; exits if that fails. */
void mistake_to_init(struct ibv_qp *qp, int access);
struct ibv_qp_attr mistake_rtr(const struct mistake *m, uint32_t dest_qpn, uint32_t rq_psn);
struct ibv_qp_attr mistake_rts(const struct mistake *m);

enum {
	MISTAKE_RTR_MASK = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	MISTAKE_RTS_MASK = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
};

/* Register the memory of the sender or the target, in `pd` or, if NULL, in the common domain. */
struct ibv_mr *mistake_register(
	const struct mistake *m, char *memory, struct ibv_pd *pd, int access);

/* Post one signaled request, number 1, with one entry. Returns the post's result. */
int mistake_post(const struct mistake *m, enum ibv_wr_opcode opcode, struct ibv_sge entry,
	uint64_t remote_address, uint32_t rkey);

int mistake_receive(const struct mistake *m, struct ibv_sge entry);

/* Poll until a completion comes, and return it. */
struct ibv_wc mistake_poll(struct ibv_cq *cq);

struct ibv_sge mistake_entry(const void *address, uint32_t bytes, uint32_t lkey);

/* mistake_loaded.so calls it while the program loads that library. */
__attribute__((visibility("default"))) void mistake_loaded(void);

#define MISTAKE(name, reason, sentence) void mistake_##name(struct mistake *m);
#include "mistakes.def"
#undef MISTAKE
#define FORGIVEN(name, ...) void mistake_##name(struct mistake *m);
#include "strict.def"
#undef FORGIVEN
#define CHECKED(name, ...) void mistake_##name(struct mistake *m);
#include "checked.def"
#undef CHECKED
#define RIGHT(name) void right_##name(struct mistake *m);
#include "right.def"
#undef RIGHT

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What test_check.c has in the place of a verbs library and of the checker's hooks and reports: one
 * device with a completion queue, a queue pair and a region. Each test begins with set_up().
 */
#ifndef TESTS_UNIT_CHECK_FIXTURE_H
#define TESTS_UNIT_CHECK_FIXTURE_H

#include <stdint.h>

#include <infiniband/verbs.h>

#include "check/report.h"

enum { MEMORY_BYTES = 8192, LKEY = 77, QPN = 5, DEPTH = 4 };

extern uint32_t counts[KIND_COUNT]; /* of reports */
extern struct ibv_context context;
extern struct ibv_mr mr; /* of all of `memory` */
extern struct ibv_cq cq;
extern struct ibv_qp qp; /* of DEPTH requests */
extern struct ibv_srq srq; /* a test makes it */
extern unsigned char memory[MEMORY_BYTES];
extern enum ibv_qp_state qp_state; /* IBV_QPS_UNKNOWN: a query fails */
extern uint64_t ticks; /* the clock */
extern int room; /* requests that the library accepts; negative: all */
extern const char *object_name; /* what the loader finds; NULL: the right one */
extern uint32_t lookups; /* calls of dladdr() */

/* For cmocka: all objects are new, and nothing was reported. */
int set_up(void **state);

/* The number of reports of all kinds. */
uint32_t reports(void);

/* Register `memory` again, with these rights. */
void regions_make(int access);

/* `bytes` of `memory` from `offset` on. */
struct ibv_sge entry_of(uint32_t offset, uint32_t bytes);

/* Post a SEND of these bytes, with wr_id 0. Returns the post's result. */
int send_bytes(uint32_t offset, uint32_t bytes, unsigned flags);

/* Post a receive request, which the queue pair accepts. */
void receive_bytes(uint32_t offset, uint32_t bytes, uint64_t wr_id);

/* Poll a completion with wr_id 0. */
void complete_one(enum ibv_wc_opcode opcode, enum ibv_wc_status status);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SIM_UD_ENDPOINTS_H
#define URNIC_TESTS_SIM_UD_ENDPOINTS_H

/*
 * Two hosts of a world as two processes of one, for datagrams: each queue pair for datagrams has a
 * endpoint (local/ud_endpoint.h), and lanes learn of each other's, and of their own. By the seed
 * receive buffers are mapped by senders, or copied to, or in part; endpoints are collected late;
 * questions are answered late, or by nobody, or what was answered is forgotten.
 */

#include "world.h"

void endpoints_init(struct world *world);
void endpoints_done(struct endpoints *endpoints);

/*
 * The queue pair for datagrams was made on host `number`, or is about to be destroyed. Without
 * `endpoints`: nothing.
 */
void endpoints_add(struct world *world, struct qp *qp, uint32_t number);
void endpoints_remove(struct world *world, struct qp *qp);

/* Collect and answer, perhaps. True when there was something. */
bool endpoints_collect(struct world *world, uint32_t number);

#endif

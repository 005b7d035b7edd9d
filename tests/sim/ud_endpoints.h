/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SIM_UD_ENDPOINTS_H
#define URNIC_TESTS_SIM_UD_ENDPOINTS_H

/*
 * Two hosts of a world as two processes of one host, for datagrams. Each queue pair for datagrams
 * has an endpoint (local/ud_endpoint.h), and lanes learn the endpoints of the other host and their
 * own. The seed chooses whether senders map receive buffers, copy to them, or either; whether
 * endpoints are collected late; and whether lookups are answered late, not at all, or forgotten
 * after the answer.
 */

#include "world.h"

void endpoints_init(struct world *world);
void endpoints_done(struct endpoints *endpoints);

/*
 * The queue pair for datagrams was made on host `number`, or is about to be destroyed. `endpoints`
 * NULL: do nothing.
 */
void endpoints_add(struct world *world, struct qp *qp, uint32_t number);
void endpoints_remove(struct world *world, struct qp *qp);

/* Collect and answer, perhaps. True when there was something. */
bool endpoints_collect(struct world *world, uint32_t number);

#endif

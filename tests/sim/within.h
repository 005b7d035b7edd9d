/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SIM_WITHIN_H
#define URNIC_TESTS_SIM_WITHIN_H

/*
 * Two hosts of a world as two processes of one host: their queue pairs use src/local. The seed
 * chooses whether each process maps the memory of the other, copies it, or now and then cannot
 * reach it; whether channels are collected late; and which connections have a channel in one
 * direction only.
 */

#include "world.h"

void within_init(struct world *world);
void within_done(struct within *within);

/*
 * The queue pair is in RTR, or about to be destroyed. Does nothing if `within` is NULL, and for
 * types without channels.
 */
void within_connect(struct world *world, struct qp *qp, uint32_t number);
void within_disconnect(struct world *world, struct qp *qp);

/* Collect, perhaps. True when there was something. */
bool within_collect(struct world *world, uint32_t number);

/* Is there something to be collected still? */
bool within_has_events(const struct world *world, uint32_t number);

void within_forget_peer(struct world *world, uint32_t number);

#endif

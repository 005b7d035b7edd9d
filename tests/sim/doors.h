/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_TESTS_SIM_DOORS_H
#define URNIC_TESTS_SIM_DOORS_H

/*
 * Two hosts of a world as two processes of one, for datagrams: each queue pair for datagrams has a
 * door (local/door.h), and lanes learn of each other's, and of their own. By the seed receive
 * buffers are mapped by senders, or copied to, or in part; doors are collected late; questions are
 * answered late, or by nobody, or what was answered is forgotten.
 */

#include "world.h"

void doors_init(struct world *world);
void doors_done(struct doors *doors);

/*
 * The queue pair for datagrams was made on host `number`, or is about to be destroyed. Without
 * `doors`: nothing.
 */
void doors_add(struct world *world, struct qp *qp, uint32_t number);
void doors_remove(struct world *world, struct qp *qp);

/* Collect and answer, perhaps. True when there was something. */
bool doors_collect(struct world *world, uint32_t number);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_WORKER_WORKER_WAIT_INTERNAL_H
#define URNIC_WORKER_WORKER_WAIT_INTERNAL_H

/*
 * Functions that worker_wait.c and worker_visit.c share. The worker is locked, except where a
 * comment says otherwise.
 */

#include "worker/worker.h"
#include "worker/worker_streams.h"
#include "worker/worker_wait.h"

/* Open the descriptors `wake` and `timer`. Returns whether there are both. */
bool worker_wait_open(struct worker *worker);

/*
 * Wake the lane's thread after `ns`; 0: do not. If the kernel refuses that, the lane is taken back.
 */
void worker_wait_set_timer(struct worker *worker, uint64_t ns);

/* May a wait or visit of this channel drive? Counts as one. Takes the lane back from another. */
bool worker_wait_is_free(struct worker *worker, const void *channel);

/* Assign the lane to the channel, if it is not assigned yet. */
void worker_wait_assign(struct worker *worker, const void *channel);

/*
 * The program gets an event, so it is likely to answer, unless it has not done so lately. Returns
 * whether the acknowledgements wait for the answer. As poll_thread_delays_acks().
 */
bool worker_wait_holds_acks(struct worker_wait *wait);

/* The held acknowledgements were sent: did the program answer meanwhile? */
void worker_wait_update_hold_budget(struct worker *worker);

#endif

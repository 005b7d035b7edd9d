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

/* Open wait.wake and wait.timer, unless they are open. Returns whether both are. */
bool worker_wait_open(struct worker *worker);

/*
 * Set the timer to wake the lane's thread after `ns`; 0 cancels it. If the kernel refuses the
 * timer, the lane is taken back.
 */
void worker_wait_set_timer(struct worker *worker, uint64_t ns);

/*
 * May this wait or visit of the channel drive the lane? The call counts down wait.refusals. If the
 * lane is assigned to another channel, the call takes it back and returns false.
 */
bool worker_wait_is_free(struct worker *worker, const void *channel);

/* Assign the lane to the channel, if it is not assigned yet. */
void worker_wait_assign(struct worker *worker, const void *channel);

/*
 * The program gets an event, and is likely to post an answer if it has done so lately. Returns
 * whether acknowledgements stay pending for the answer, by the rule of poll_thread_delays_acks().
 */
bool worker_wait_holds_acks(struct worker_wait *wait);

/* Called before held acknowledgements are sent: note whether an answer has already sent them. */
void worker_wait_update_hold_budget(struct worker *worker);

#endif

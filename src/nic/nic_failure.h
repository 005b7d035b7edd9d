/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_FAILURE_H
#define URNIC_NIC_NIC_FAILURE_H

/*
 * The failures of this process (lane/failure.h): each is written to the process's file
 * (agent/failure_file.h), and with URNIC_LOG=info to the log. By default the log has a call that
 * fails for want of memory or descriptors, with what to do, unless it has the refused system call
 * (log_refusal()). A line of the log ends with the reason's name in brackets, for `urnic explain
 * --log`. The log has at most LINES_PER_SECOND lines about failures.
 *
 * The child of a fork has no failures, and makes a file of its own.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "lane/failure.h"
#include "qp/reason.h"

/* The list of this process's failures. The lanes add to it. */
struct failures *nic_failures(void);

/*
 * Report that a call of the program fails.
 *
 * `reason`  A reason of kind CALL.
 * `error`   A positive errno; 0: the reason needs no errno.
 * `format`  The call's name, or the sentence that {text} of the reason's row stands for.
 *
 * Any thread may call, with any locks.
 */
void nic_failure_call(enum reason reason, int error, const char *format, ...)
	URNIC_EXPORT_AS(nic_failure_call) __attribute__((cold, format(printf, 3, 4)));

/*
 * nic_failure_call() for a failure whose facts the caller has set. The function sets `at_ns` and
 * `is_repeated`.
 */
void nic_failure_add(struct failure *failure);

/*
 * Note why the present call of this thread is about to fail: a check refuses it. `reason` is a row
 * of queue/call.def with an errno. Returns that errno, which is positive. The call then fails with
 * it (nic_failure_end()).
 */
int nic_failure_cause(enum reason reason) URNIC_EXPORT_AS(nic_failure_cause) __attribute__((cold));

/*
 * nic_failure_cause() with a fact. The sentence of the row shows the fact, or the fact has a
 * sentence of its own.
 */
int nic_failure_cause_fact(enum reason reason, enum fact fact, uint64_t value)
	URNIC_EXPORT_AS(nic_failure_cause_fact) __attribute__((cold));

/* nic_failure_cause() for a value outside of its limits; `limit` is the highest. */
int nic_failure_cause_limit(enum reason reason, uint64_t given, uint64_t limit)
	URNIC_EXPORT_AS(nic_failure_cause_limit) __attribute__((cold));

/*
 * nic_failure_cause() for a row without an errno. The caller gives the sentence and the errno.
 * Returns `error`.
 */
int nic_failure_cause_text(enum reason reason, int error, const char *format, ...)
	URNIC_EXPORT_AS(nic_failure_cause_text) __attribute__((cold, format(printf, 3, 4)));

/* Set the queue pair of the cause that this thread has just noted. */
void nic_failure_cause_qpn(uint32_t qpn);

/*
 * If the row of `reason` has the errno `error`, a positive one, call nic_failure_cause(). Returns
 * `error`.
 */
int nic_failure_cause_if(int error, enum reason reason) URNIC_EXPORT_AS(nic_failure_cause_if)
	__attribute__((cold));

/*
 * Report that `call` of the program fails with `error`, a positive errno. The reason is the cause
 * that this thread has noted. If there is none, the reason is the system's, by the errno. Does
 * nothing if the reason of the failed call was reported before (nic_failure_is_explained()). Any
 * thread may call, with any locks.
 */
void nic_failure_end(const char *call, int error) URNIC_EXPORT_AS(nic_failure_end)
	__attribute__((cold));

/*
 * Has this thread reported the reason of a failed call that has not returned yet? The answer counts
 * once, because the caller is about to return from that call: the next answer is false.
 */
bool nic_failure_is_explained(void) URNIC_EXPORT_AS(nic_failure_is_explained);

/* The child of a fork calls this, to forget the parent's failures. */
void nic_failures_forget(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_NIC_NIC_FAILURE_H
#define URNIC_NIC_NIC_FAILURE_H

/*
 * The failures of this process (lane/failure.h): each is written to the process's file
 * (agent/failure_file.h), and with URNIC_LOG=info to the log. A line of the log ends with the
 * reason's name in brackets, for `urnic explain --log`. The log has at most LINES_PER_SECOND lines
 * about failures.
 *
 * The child of a fork has no failures, and makes a file of its own.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "lane/failure.h"
#include "qp/reason.h"

/* The process's list, for its lanes. */
struct failures *nic_failures(void);

/*
 * Report that a call of the program fails.
 *
 * `reason`  Of kind CALL.
 * `error`   A positive errno; 0: the reason says it all.
 * `format`  The call's name, or the sentence that {text} of the reason's row stands for.
 *
 * Any thread, with any locks.
 */
void nic_failure_call(enum reason reason, int error, const char *format, ...)
	URNIC_EXPORT_AS(nic_failure_call) __attribute__((cold, format(printf, 3, 4)));

/* The same for a failure whose facts the caller has set; `at_ns` and `is_repeated` are set here. */
void nic_failure_add(struct failure *failure);

/*
 * A check refuses the call of this thread that is about to fail. `reason` is a row of
 * queue/call.def with an errno. Returns that errno, which is positive, and which the call then
 * fails with (nic_failure_end()).
 */
int nic_failure_cause(enum reason reason) URNIC_EXPORT_AS(nic_failure_cause)
	__attribute__((cold));

/* nic_failure_cause() with a fact, which the row's sentence or the fact's own one shows. */
int nic_failure_cause_fact(enum reason reason, enum fact fact, uint64_t value)
	URNIC_EXPORT_AS(nic_failure_cause_fact) __attribute__((cold));

/* nic_failure_cause() for a value outside of its limits; `limit` is the highest. */
int nic_failure_cause_limit(enum reason reason, uint64_t given, uint64_t limit)
	URNIC_EXPORT_AS(nic_failure_cause_limit) __attribute__((cold));

/* nic_failure_cause() for a row without an errno, with a sentence of its own. Returns `error`. */
int nic_failure_cause_text(enum reason reason, int error, const char *format, ...)
	URNIC_EXPORT_AS(nic_failure_cause_text) __attribute__((cold, format(printf, 3, 4)));

/* The queue pair of the cause that was just noted. */
void nic_failure_cause_qpn(uint32_t qpn);

/* nic_failure_cause(), if `reason` has the errno `error`, a positive one. Returns `error`. */
int nic_failure_cause_if(int error, enum reason reason) URNIC_EXPORT_AS(nic_failure_cause_if)
	__attribute__((cold));

/*
 * Report that `call` of the program fails with `error`, a positive errno: for the cause that this
 * thread has noted, or else for the machine's. Does nothing if the reason of the failed call was
 * reported before (nic_failure_is_explained()). Any thread, with any locks.
 */
void nic_failure_end(const char *call, int error) URNIC_EXPORT_AS(nic_failure_end)
	__attribute__((cold));

/*
 * Has this thread reported the reason of a failed call that has not returned yet? The caller is
 * about to return from that call, so the next answer is false again.
 */
bool nic_failure_is_explained(void) URNIC_EXPORT_AS(nic_failure_is_explained);

/* In the child of a fork. */
void nic_failures_forget(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_OS_LOG_H
#define URNIC_OS_LOG_H

/*
 * The log: one sentence per line on standard error, for users whose program does not work.
 *
 * URNIC_LOG sets the level. With "off" nothing is logged. With "error", the default, the log says
 * what the environment lacks when a verb fails for that reason. With "info" the log also says why
 * requests complete with an error. The variable is read once. Any thread may log.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include "base/export.h"

enum log_level {
	LOG_OFF,
	LOG_ERROR,
	LOG_INFO,
};

/* Is the level on? */
bool log_is_on(enum log_level level) URNIC_EXPORT_AS(log_is_on);

/* Write a line "urnic[pid]: ..." if the level is on. */
void log_write(enum log_level level, const char *format, ...) URNIC_EXPORT_AS(log_write)
	__attribute__((format(printf, 2, 3)));

/*
 * A required system call has failed with `errno`. Log at level "error" what is missing, why, and
 * the remedy if one is known.
 *
 * `what`  What is missing, such as "no NIC memory".
 * `call`  The system call's name, as a seccomp filter has it: "pwrite64", not "pwrite".
 *
 * Returns -errno, and leaves errno unchanged.
 */
int log_refusal(const char *what, const char *call) URNIC_EXPORT_AS(log_refusal);

/*
 * Has this thread written a line at level "error" in the last second, and since the last call of
 * this function? Then the log has the cause of a call that fails now.
 */
bool log_error_take(void) URNIC_EXPORT_AS(log_error_take);

/* What to do about an error number, as the end of a sentence; "" if that is not known. */
const char *log_advice(int error) URNIC_EXPORT_AS(log_advice);

/* log_refusal() for a call that may fail often: each use of the macro logs only once. */
#define LOG_REFUSAL_ONCE(what, call)                     \
	do {                                             \
		static atomic_bool is_logged_;           \
                                                         \
		if (!atomic_exchange(&is_logged_, true)) \
			log_refusal(what, call);         \
	} while (0)

#endif

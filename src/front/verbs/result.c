/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/result.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What result_because() was told last; reason 0: nothing. */
static __thread struct {
	enum reason reason;
	char why[80];
} because;

void result_because(enum reason reason, const char *format, ...)
{
	va_list arguments;

	because.reason = reason;
	va_start(arguments, format);
	vsnprintf(because.why, sizeof(because.why), format, arguments);
	va_end(arguments);
}

int result_refused(const char *call, int error)
{
	enum reason reason = because.reason;

	because.reason = REASON_NONE;
	if (nic_failure_is_explained())
		; /* reported by the check */
	else if (reason)
		nic_failure_call(reason, 0, "%s fails: %s: %s", call, strerror(error), because.why);
	else
		nic_failure_call(REASON_REFUSED_CALL, error, "%s", call);
	nic_failure_is_explained();
	errno = error;
	return error;
}

int result_of_post(const char *call, int error)
{
	if (error == EINVAL)
		nic_failure_call(REASON_POST_STATE, 0, "%s", call);
	else if (error != ENOMEM)
		nic_failure_call(REASON_REFUSED_CALL, error, "%s", call);
	nic_failure_is_explained();
	errno = error;
	return error;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/result.h"

int result_refused(const char *call, int error)
{
	nic_failure_end(call, error);
	errno = error;
	return error;
}

int result_of_import(int error)
{
	error = result_as(error, REASON_IMPORT_OWNER);
	return result_as(error, REASON_IMPORT_ENDED);
}

int result_of_post(const char *call, int error)
{
	if (error != ENOMEM)
		nic_failure_end(call, error);
	errno = error;
	return error;
}

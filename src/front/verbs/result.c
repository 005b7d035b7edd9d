/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/result.h"

#include "nic/nic_failure.h"

int result_refused(const char *call, int error)
{
	if (!nic_failure_is_explained())
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

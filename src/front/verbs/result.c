/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/verbs/result.h"

#include <string.h>

#include "os/log.h"

int result_refused(const char *call, int error)
{
	log_write(LOG_INFO, "%s fails: %s", call, strerror(error));
	errno = error;
	return error;
}

int result_of_post(const char *call, int error)
{
	if (error == EINVAL)
		log_write(LOG_INFO,
			"%s fails: the queue pair cannot execute this request in its state, or was "
			"created for smaller ones",
			call);
	else if (error != ENOMEM)
		log_write(LOG_INFO, "%s fails: %s", call, strerror(error));
	errno = error;
	return error;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_TIMELINE_FAULTS_H
#define TOOLS_TIMELINE_FAULTS_H

/* The failures that this user's processes have kept (lane/failure.h), ordered by time. */

#include <stdint.h>

#include "lane/failure.h"
#include "os/process.h"

struct timeline_fault {
	struct failure failure;
	uint32_t pid;
	char comm[PROCESS_NAME_BYTES];
};

struct timeline_faults {
	uint32_t count;
	uint32_t room;
	struct timeline_fault *fault;
};

/* Without memory, some are missing. The caller frees `fault`. */
void timeline_faults_read(struct timeline_faults *ret_faults);

#endif

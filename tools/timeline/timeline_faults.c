/* SPDX-License-Identifier: BSD-2-Clause */
#include "timeline/timeline_faults.h"

#include <stdlib.h>
#include <string.h>

#include "agent/failure_file.h"

static bool fault_add(struct timeline_faults *faults, const struct timeline_fault *fault)
{
	struct timeline_fault *more;

	if (faults->count == faults->room) {
		more = realloc(faults->fault, (faults->room * 2 + FAILURES_MAX) * sizeof(*more));
		if (!more)
			return false;
		faults->room = faults->room * 2 + FAILURES_MAX;
		faults->fault = more;
	}
	faults->fault[faults->count++] = *fault;
	return true;
}

static bool file_take(void *context, const struct failure_file *file)
{
	struct timeline_fault fault = {.pid = file->head.pid};

	memcpy(fault.comm, file->head.comm, sizeof(fault.comm));
	for (uint32_t i = 0; i < FAILURES_MAX; i++) {
		fault.failure = file->list[i];
		if (fault.failure.number && !fault_add(context, &fault))
			return false;
	}
	return true;
}

static int time_compare(const void *a, const void *b)
{
	uint64_t a_ns = ((const struct timeline_fault *)a)->failure.wall_ns;
	uint64_t b_ns = ((const struct timeline_fault *)b)->failure.wall_ns;

	return a_ns < b_ns ? -1 : a_ns > b_ns;
}

void timeline_faults_read(struct timeline_faults *ret_faults)
{
	*ret_faults = (struct timeline_faults){.count = 0};
	failure_file_visit(file_take, ret_faults);
	if (ret_faults->count)
		qsort(ret_faults->fault, ret_faults->count, sizeof(*ret_faults->fault),
			time_compare);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/scheduler.h"

#include <assert.h>

#include "base/arith.h"

static void turn_end(struct scheduler *scheduler)
{
	scheduler->turn = (uint8_t)((scheduler->turn + 1) % FABRIC_PRIORITY_COUNT);
	scheduler->has_begun = false;
}

static void turn_begin(struct scheduler *scheduler)
{
	uint32_t weight = max_u32(scheduler->weight[scheduler->turn], 1);

	if (!scheduler->has_begun)
		scheduler->deficit_bytes[scheduler->turn] += weight * SCHEDULER_QUANTUM_BYTES;
	scheduler->has_begun = true;
}

uint32_t scheduler_choose(struct scheduler *scheduler, uint8_t ready,
	const uint32_t head_bytes[FABRIC_PRIORITY_COUNT])
{
	uint32_t strict = ready & scheduler->strict;

	assert(ready);
	if (strict)
		return 31 - (uint32_t)__builtin_clz(strict);
	if (!(ready & (ready - 1)))
		return (uint32_t)__builtin_ctz(ready); /* the only one */
	for (;; turn_end(scheduler)) {
		uint32_t *deficit_bytes = &scheduler->deficit_bytes[scheduler->turn];

		if (!(ready >> scheduler->turn & 1)) {
			*deficit_bytes = 0;
			continue;
		}
		turn_begin(scheduler);
		if (*deficit_bytes >= head_bytes[scheduler->turn]) {
			*deficit_bytes -= head_bytes[scheduler->turn];
			return scheduler->turn;
		}
	}
}

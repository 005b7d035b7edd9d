/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/bias.h"

#include "base/arith.h"

static void (*_Atomic barrier)(void);

void bias_begin(void (*function)(void))
{
	atomic_store(&barrier, function);
}

static bool is_inside(const struct bias *bias)
{
	return atomic_load_explicit(&bias->is_inside, memory_order_acquire) != 0;
}

bool bias_revoke(struct bias *bias)
{
	if (atomic_load_explicit(&bias->owner, memory_order_relaxed)) {
		atomic_store_explicit(&bias->owner, 0, memory_order_relaxed);
		bias->streak_min =
			min_u32(2 * max_u32(bias->streak_min, BIAS_STREAK_MIN), BIAS_STREAK_MAX);
		atomic_load (&barrier)();
	}
	return !is_inside(bias);
}

void bias_offer(struct bias *bias)
{
	uintptr_t self = bias_self();

	if (!atomic_load_explicit(&barrier, memory_order_relaxed) ||
		bias->streak < bias->streak_min || (bias->only && bias->only != self))
		return;
	bias->streak = 0;
	bias->only = self;
	atomic_store_explicit(&bias->owner, self, memory_order_relaxed);
}

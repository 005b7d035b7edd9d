/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The placer watches how a lane places WRITEs. It is the checker of `urnic run --check=full`
 * (src/check/model/watch.h), in a library that the loader has put before this one. It finds out
 * whether the program waits for a WRITE by polling a byte that is not the last.
 *
 * With a placer, all WRITEs of peers arrive as packets at one lane, whose thread may wait in
 * begin() and wait() for some hundred milliseconds.
 */
#ifndef URNIC_LANE_PLACER_H
#define URNIC_LANE_PLACER_H

#include <stdbool.h>
#include <stddef.h>

enum { PLACER_TAIL_BYTES = 8 };

struct lane_placer {
	/*
	 * The lane is about to place the first `bytes` bytes of a WRITE; `rest_bytes` come in later
	 * packets. Returns true if the lane has to place the last PLACER_TAIL_BYTES of the WRITE
	 * later than the other bytes: it calls wait() in between.
	 */
	bool (*begin)(const void *memory, size_t bytes, size_t rest_bytes);
	void (*wait)(void);
};

/* The checker defines it; without the checker its address is NULL. */
extern const struct lane_placer *urnic_check_placer(void) __attribute__((weak));

/* The placer; NULL: none. */
static inline const struct lane_placer *placer_find(void)
{
	return urnic_check_placer ? urnic_check_placer() : NULL;
}

#endif

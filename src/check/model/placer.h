/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The functions that the checker gives to urnic's lanes. src/lane/placer.h has the same struct by
 * another name, because the checker includes no header of urnic. A unit test compares the two.
 */
#ifndef URNIC_CHECK_MODEL_PLACER_H
#define URNIC_CHECK_MODEL_PLACER_H

#include <stdbool.h>
#include <stddef.h>

struct urnic_placer {
	bool (*begin)(const void *memory, size_t bytes, size_t rest_bytes);
	void (*wait)(void);
};

#endif

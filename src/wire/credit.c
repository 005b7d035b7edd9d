/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/credit.h"

#include <assert.h>

static const uint16_t counts[CREDIT_CODE_UNLIMITED] = {
#define CREDIT(code, count) [code] = (count),
#include "wire/credit.def"
};

uint32_t credit_count(uint8_t code)
{
	assert(code <= CREDIT_CODE_UNLIMITED);
	return code == CREDIT_CODE_UNLIMITED ? CREDIT_COUNT_UNLIMITED : counts[code];
}

uint8_t credit_code(uint32_t count)
{
	uint8_t low = 0;
	uint8_t high = CREDIT_CODE_UNLIMITED;

	/*
	 * Always counts[low] <= count, and either counts[high] > count or `high` is past the last
	 * row.
	 */
	while (high - low > 1) {
		uint8_t middle = (uint8_t)((low + high) / 2);

		if (counts[middle] <= count)
			low = middle;
		else
			high = middle;
	}
	return low;
}

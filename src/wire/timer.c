/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/timer.h"

#include <assert.h>

#define NS_PER_US           1000u
#define ACK_TIMEOUT_UNIT_NS 4096u

static const uint32_t rnr_timer_us[TIMER_CODE_MAX + 1] = {
#define RNR_TIMER(code, microseconds) [code] = (microseconds),
#include "wire/rnr_timer.def"
};

uint64_t rnr_timer_ns(uint8_t code)
{
	assert(code <= TIMER_CODE_MAX);
	return (uint64_t)rnr_timer_us[code] * NS_PER_US;
}

uint64_t ack_timeout_ns(uint8_t code)
{
	assert(code <= TIMER_CODE_MAX);
	return code ? (uint64_t)ACK_TIMEOUT_UNIT_NS << code : TIMER_INFINITE_NS;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Conversions of static rates. */
#include "base/arith.h"
#include "front/verbs/abi.h"

struct rate {
	int multiple; /* the rate divided by 2.5 Gbit/s; 0: the ABI names no multiple */
	int mbps; /* 0: the encoding is not assigned */
};

/* clang-format off */
static const struct rate rate_table[] = {
#define RATE(name, multiple_, mbps_) [name] = {.multiple = multiple_, .mbps = mbps_},
#include "front/verbs/rates.def"
#undef RATE
};
/* clang-format on */

static const struct rate *rate_lookup(enum ibv_rate rate)
{
	static const struct rate unassigned;
	size_t index = (unsigned int)rate;

	return index < ARRAY_COUNT(rate_table) ? &rate_table[index] : &unassigned;
}

int ibv_rate_to_mult(enum ibv_rate rate)
{
	int multiple = rate_lookup(rate)->multiple;

	return multiple ? multiple : -1;
}

enum ibv_rate mult_to_ibv_rate(int mult)
{
	for (size_t i = 0; i < ARRAY_COUNT(rate_table); i++)
		if (mult > 0 && rate_table[i].multiple == mult)
			return (enum ibv_rate)i;
	return IBV_RATE_MAX;
}

int ibv_rate_to_mbps(enum ibv_rate rate)
{
	int mbps = rate_lookup(rate)->mbps;

	return mbps ? mbps : -1;
}

enum ibv_rate mbps_to_ibv_rate(int mbps)
{
	for (size_t i = 0; i < ARRAY_COUNT(rate_table); i++)
		if (mbps > 0 && rate_table[i].mbps == mbps)
			return (enum ibv_rate)i;
	return IBV_RATE_MAX;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/units.h"

uint32_t fabric_response_quanta(uint32_t rate_mbps)
{
	static const struct {
		uint32_t rate_mbps;
		uint32_t quanta;
	} deadlines[] = {
		{10000, 67},
		{25000, 80},
		{40000, 118},
		{50000, 147},
		{100000, 394},
		{200000, 453},
		{FABRIC_RATE_MBPS_MAX, 905},
	};
	uint32_t i = 0;

	while (i < ARRAY_COUNT(deadlines) - 1 && rate_mbps > deadlines[i].rate_mbps)
		i++;
	return deadlines[i].quanta;
}

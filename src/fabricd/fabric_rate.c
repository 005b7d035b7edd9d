/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabricd/fabric_rate.h"

#include "base/arith.h"

/* The signalling rate of a lane, by the bits of PortInfo (IBTA 14.2.5.6). */
struct speed {
	unsigned tenths;
	const char *name;
};

struct fabric_rate fabric_rate_of(const struct attach_port *port)
{
	static const struct speed basic[] = {[1] = {25, ""}, [2] = {50, "DDR"}, [4] = {100, "QDR"}};
	static const struct speed extended[] = {
		[1] = {140, "FDR"}, [2] = {250, "EDR"}, [4] = {500, "HDR"}, [8] = {1000, "NDR"}};
	static const unsigned lanes[] = {[1] = 1, [2] = 4, [4] = 8, [8] = 12, [16] = 2};
	struct fabric_rate rate = {.speed = ""};
	struct speed speed = {0, NULL};

	if (port->link_width < ARRAY_COUNT(lanes))
		rate.lanes = lanes[port->link_width];
	if (port->link_speed_ext > 0 && port->link_speed_ext < ARRAY_COUNT(extended))
		speed = extended[port->link_speed_ext];
	else if (port->link_speed < ARRAY_COUNT(basic))
		speed = basic[port->link_speed];
	rate.tenths = rate.lanes * speed.tenths;
	if (speed.name)
		rate.speed = speed.name;
	return rate;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_FABRIC_RATE_H
#define URNIC_FABRICD_FABRIC_RATE_H

/* The rate of a port's link, as Linux shows it. */

#include "base/export.h"
#include "fabricd/attach_protocol.h"

struct fabric_rate {
	unsigned tenths; /* of Gb/s, of all lanes; 0: unknown */
	unsigned lanes;
	const char *speed; /* "", "DDR", ... */
};

struct fabric_rate fabric_rate_of(const struct attach_port *port) URNIC_EXPORT_AS(fabric_rate_of);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FABRICD_FABRIC_NAME_H
#define URNIC_FABRICD_FABRIC_NAME_H

/* Names of fabrics, and where the sockets of their processes are. */

#include <stdbool.h>
#include <stdint.h>

#include "fabricd/attach_protocol.h"

#define FABRIC_NAME_DEFAULT "default"

/* [FABRIC:]NODE in parts. */
struct fabric_place {
	char fabric[ATTACH_NAME_BYTES];
	char node[ATTACH_NAME_BYTES]; /* "" for a console */
};

/*
 * The name of a fabric consists of letters, digits, '-', '_' and '.'; a name of a node may have
 * any characters, so a colon behind other characters belongs to the node's name. Returns 0, or
 * -EINVAL when a part is too long or there is nothing.
 */
int fabric_place_parse(const char *text, struct fabric_place *ret_place);

bool fabric_name_is_legal(const char *name);

/* The number of the fabric's socket for agent/place.h. Never 0. */
uint64_t fabric_name_number(const char *name);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FRONT_UMAD_PORT_H
#define URNIC_FRONT_UMAD_PORT_H

/*
 * Open ports. A port's number, its portid, is the descriptor of its socket of MADs, so programs may
 * poll(2) for it.
 */

#include <pthread.h>

#include "base/list.h"
#include "fabricd/client/fabric_client.h"

struct umad_opening {
	struct list link; /* in the list of open ports */
	int fd; /* the socket of MADs */
	uint32_t id; /* the fabric's name of the opening */
	uint32_t use_count; /* calls that use it, and one for being open */
	struct fabric_client *client;
	pthread_mutex_t receiving; /* one thread takes a MAD off the socket */
};

/* The open port with this number, in use until opening_put(); NULL: there is none. */
struct umad_opening *opening_get(int portid);
void opening_put(struct umad_opening *opening);

#endif

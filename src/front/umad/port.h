/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_FRONT_UMAD_PORT_H
#define URNIC_FRONT_UMAD_PORT_H

/*
 * Open ports. The portid of a port is the descriptor of its socket of MADs, so programs may pass it
 * to poll(2).
 */

#include <pthread.h>

#include "base/list.h"
#include "fabricd/client/fabric_client.h"

struct umad_opening {
	struct list link; /* in the list of open ports */
	int fd; /* the socket of MADs */
	uint32_t id; /* the ID by which the fabric knows the opening */
	/* Number of calls that use the opening, plus 1 while the port is open */
	uint32_t use_count;
	struct fabric_client *client;
	pthread_mutex_t receiving; /* only one thread at a time takes a MAD off the socket */
};

/* The open port with this portid; NULL: there is none. The caller uses it until opening_put(). */
struct umad_opening *opening_get(int portid);
void opening_put(struct umad_opening *opening);

#endif

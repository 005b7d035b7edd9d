/* SPDX-License-Identifier: BSD-2-Clause */
/* The life of an InfiniBand port, and its paths. */
#include "port/infiniband/ib.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "port/infiniband/ib_internal.h"
#include "wire/ip.h"

enum { PATHS_FIRST = 64 };

int port_ib_create(const struct port_ib_wire *wire, struct port_ib **ret_port)
{
	struct port_ib *port = calloc(1, sizeof(*port));

	if (!port)
		return -ENOMEM;
	port->wire = wire;
	*ret_port = port;
	return 0;
}

void port_ib_destroy(struct port_ib *port)
{
	if (!port)
		return;
	for (uint32_t i = 0; i < port->path_limit; i++)
		free(port->paths[i]);
	free(port->paths);
	free(port->path_free);
	free(port);
}

void port_ib_set_state(struct port_ib *port, uint32_t number, const struct port_ib_state *state)
{
	assert(number >= 1 && number <= PORT_IB_PORTS_MAX);
	port->state[number] = *state;
}

const struct port_ib_counters *port_ib_counters(const struct port_ib *port)
{
	return &port->counters;
}

uint16_t port_ib_pkey(const struct port_ib *port, uint32_t number, uint32_t index)
{
	const struct port_ib_state *state = &port->state[number];

	return index < state->pkey_count ? state->pkeys[index] : 0;
}

int port_ib_fd(const struct port_ib *port)
{
	return port->wire->fd;
}

/* --- paths --- */

/* Make room for one more path. Returns 0, -ENOSPC or -ENOMEM. */
static int paths_grow(struct port_ib *port)
{
	uint32_t room = port->path_room ? 2 * port->path_room : PATHS_FIRST;
	struct ib_path **paths;
	uint32_t *path_free;

	if (port->path_free_count || port->path_limit < port->path_room)
		return 0;
	if (port->path_limit == PORT_IB_PATHS_MAX)
		return -ENOSPC;
	paths = realloc(port->paths, room * sizeof(struct ib_path *));
	if (!paths)
		return -ENOMEM;
	port->paths = paths;
	path_free = realloc(port->path_free, room * sizeof(uint32_t));
	if (!path_free)
		return -ENOMEM;
	port->path_free = path_free;
	port->path_free_head = 0; /* the ring is empty */
	port->path_room = room;
	return 0;
}

static uint32_t index_take(struct port_ib *port)
{
	uint32_t index;

	if (!port->path_free_count)
		return port->path_limit++;
	index = port->path_free[port->path_free_head];
	port->path_free_head = (port->path_free_head + 1) % port->path_room;
	port->path_free_count--;
	return index;
}

static void headers_make(struct ib_path *path, const struct qp_path *from)
{
	const struct lrh lrh = {
		.sl = from->service_level & 0xf,
		.next = from->ib.has_grh ? LRH_GRH : LRH_BTH,
		.dlid = from->ib.dlid,
	};
	const struct ip_header grh = {
		.traffic_class = from->traffic_class,
		.flow_label = from->flow_label & IPV6_FLOW_LABEL_MASK,
		.next_header = GRH_NEXT_HEADER_IB,
		.hop_limit = from->hop_limit,
		.sgid = from->local,
		.dgid = from->remote,
	};

	lrh_encode(&lrh, path->headers);
	path->header_bytes = LRH_BYTES;
	if (!from->ib.has_grh)
		return;
	grh_encode(&grh, path->headers + LRH_BYTES);
	path->header_bytes = IB_HEADERS_BYTES_MAX;
}

int port_ib_path_open(struct port_ib *port, const struct qp_path *settings, uint32_t pkey_index,
	uint32_t *ret_path)
{
	struct ib_path *path;
	uint32_t index;
	int error;

	if (settings->ib.port < 1 || settings->ib.port > PORT_IB_PORTS_MAX)
		return -EINVAL;
	error = paths_grow(port);
	if (error)
		return error;
	path = calloc(1, sizeof(*path));
	if (!path)
		return -ENOMEM;
	index = index_take(port);
	path->id = port->path_generation++ * PORT_IB_PATHS_MAX + index;
	path->port = settings->ib.port;
	path->path_bits = settings->ib.path_bits;
	path->pkey_index = pkey_index;
	headers_make(path, settings);
	port->paths[index] = path;
	*ret_path = path->id;
	return 0;
}

void port_ib_path_close(struct port_ib *port, uint32_t id)
{
	uint32_t index = id % PORT_IB_PATHS_MAX;

	assert(index < port->path_limit && port->paths[index] && port->paths[index]->id == id);
	free(port->paths[index]);
	port->paths[index] = NULL;
	port->path_free[(port->path_free_head + port->path_free_count++) % port->path_room] =
		index;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Local addresses of lanes, and paths of connected queue pairs. */
#include "nic/nic_internal.h"

int nic_address_find(struct worker *worker, const struct gid *local, uint32_t ifindex)
{
	const struct agent_address address = agent_address_of(local, ifindex);
	int index;

	if (worker->ib)
		return 0; /* a worker's InfiniBand ports receive on all their addresses */
	worker_lock(worker);
	index = worker_address_find(worker, &address.gid, address.scope_ifindex);
	worker_unlock(worker);
	return index;
}

/*
 * Get a socket for the address from urnicd. The NIC is locked, in a turn. Returns the address's
 * index on the worker, or -errno.
 */
static int address_add(struct worker *worker, const struct agent_address *address, uint32_t ifindex)
{
	int socket = -1;
	int index, error;

	nic_request_enter();
	error = nic_agent_log(
		agent_client_open(&nic.agent, (uint8_t)worker->lane.slot, address, &socket));
	nic_request_leave(socket);
	if (error)
		return error;
	worker_lock(worker);
	index = worker_address_add(worker, &address->gid, address->scope_ifindex, socket);
	if (index >= 0)
		nic_link_use(worker, (uint32_t)index, ifindex);
	worker_unlock(worker);
	return index;
}

int nic_address_open(struct worker *worker, const struct gid *local, uint32_t ifindex)
{
	const struct agent_address address = agent_address_of(local, ifindex);
	int index = nic_address_find(worker, &address.gid, ifindex);
	int error;

	if (index >= 0)
		return index;
	error = nic_request_begin();
	if (error)
		return error;
	index = nic_address_find(worker, &address.gid, ifindex);
	if (index < 0)
		index = address_add(worker, &address, ifindex);
	nic_request_end();
	return index;
}

void nic_path_close(struct worker *worker, const struct qp_path *path)
{
	if (worker->ib) {
		port_ib_path_close(worker->ib, path->id);
		return;
	}
	port_udp_path_close(worker->port, path->id);
	if (worker->lane.cc)
		port_udp_path_close(worker->port, path->cnp_id);
}

/*
 * Open the path of congestion notifications. It is the path `data` with another DSCP. The worker is
 * locked. Returns 0 or -errno.
 */
static int cnp_path_open(
	struct worker *worker, const struct port_udp_path *data, uint32_t *ret_path)
{
	struct port_udp_path settings = *data;

	if (!worker->lane.cc)
		return 0;
	settings.dscp = (uint8_t)worker->lane.cc->np_cnp_dscp;
	return port_udp_path_open(worker->port, &settings, ret_path);
}

static int path_open_ib(struct worker *worker, struct qp_path *path, uint32_t pkey_index)
{
	int error;

	worker_lock(worker);
	error = port_ib_path_open(worker->ib, path, pkey_index, &path->id);
	worker_unlock(worker);
	return error;
}

int nic_path_open(
	struct worker *worker, struct qp_path *path, uint32_t dest_qpn, uint32_t pkey_index)
{
	int index, error;

	if (worker->ib)
		return path_open_ib(worker, path, pkey_index);
	index = nic_address_open(worker, &path->local, path->ifindex);
	if (index < 0)
		return index;
	struct port_udp_path settings = {
		.address = (uint8_t)index,
		.destination_slot = (uint8_t)(dest_qpn >> 16),
		.dscp = path->traffic_class >> 2,
		.hop_limit = path->hop_limit,
		.flow_label = path->flow_label,
		.remote = path->remote,
	};
	worker_lock(worker);
	error = port_udp_path_open(worker->port, &settings, &path->id);
	if (!error) {
		error = cnp_path_open(worker, &settings, &path->cnp_id);
		if (error)
			port_udp_path_close(worker->port, path->id);
	}
	worker_unlock(worker);
	return error;
}

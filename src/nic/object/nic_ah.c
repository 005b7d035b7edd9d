/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address handles. The paths of datagrams are opened when a handle is created, not when a datagram
 * is posted.
 *
 * Any queue pair of the process may use a handle. So a handle has a path on each lane that has UD
 * queue pairs.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "netdev/netdev.h"
#include "nic/nic_part.h"
#include "nic/object/nic_object.h"
#include "os/log.h"
#include "segment/segment.h"

static_assert(PORT_UDP_PATHS_MAX >= 2 * LANE_QP_COUNT_MAX + 4 * NIC_AH_COUNT_MAX,
	"a lane's paths do not run out before its queue pairs and the address handles of four devices do");

/*
 * Open the handle's path on a lane, from that lane's local address number `index`. The NIC is
 * locked, the worker is not. Returns 0 or -errno.
 */
static int ah_path_open(struct nic_ah *ah, struct worker *worker, int index)
{
	uint32_t lane = worker->lane.index;
	int error;

	struct port_udp_path settings = {
		.address = (uint8_t)index,
		.is_shared = true,
		.dscp = ah->route.traffic_class >> 2,
		.hop_limit = ah->route.hop_limit,
		.flow_label = ah->route.flow_label,
		.ifindex = ah->route.ifindex,
		.remote = ah->route.remote,
	};
	worker_lock(worker);
	error = worker->ib
		? port_ib_path_open(worker->ib, &ah->route, PORT_IB_PKEY_OF_PACKET, &ah->path[lane])
		: port_udp_path_open(worker->port, &settings, &ah->path[lane]);
	worker_unlock(worker);
	if (error == -ENOSPC)
		error = -ENOMEM; /* too many handles; other limits have the same error */
	ah->has_path[lane] = !error;
	if (!error)
		NIC_PARTS_CALL(ah_opened, ah, worker);
	return error;
}

static void ah_close(struct nic_ah *ah)
{
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++) {
		if (!ah->has_path[i])
			continue;
		worker_send_waiting(nic.worker[i]);
		NIC_PARTS_CALL(ah_closing, ah, nic.worker[i]);
		worker_lock(nic.worker[i]);
		if (nic.worker[i]->ib)
			port_ib_path_close(nic.worker[i]->ib, ah->path[i]);
		else
			port_udp_path_close(nic.worker[i]->port, ah->path[i]);
		worker_unlock(nic.worker[i]);
	}
}

/*
 * Open the handle's local address on a lane. Returns the address's index or -errno. The NIC may be
 * unlocked for a while.
 */
static int address_try(struct nic_ah *ah, struct worker *worker)
{
	const struct gid local = ah->route.local;

	ah->tried_lanes |= 1u << worker->lane.index;
	return nic_address_open(worker, &local, ah->route.ifindex);
}

/*
 * Find a lane that has UD queue pairs, and on which address_try() was not called yet for the
 * handle. Returns NIC_LANES_MAX when there is none.
 */
static uint32_t lane_untried(const struct nic_ah *ah)
{
	uint32_t lane = 0;

	while (lane < NIC_LANES_MAX && (!nic.has_datagrams[lane] || ah->tried_lanes & 1u << lane))
		lane++;
	return lane;
}

/*
 * Open the handle's path on every lane that needs it. While this thread waits for urnicd, another
 * thread may create a UD queue pair on a further lane. So look for a lane again after each wait.
 */
static int ah_open_all(struct nic_ah *ah)
{
	uint32_t lane;
	int error = 0;

	while (!error && (lane = lane_untried(ah)) < NIC_LANES_MAX) {
		int index = address_try(ah, nic.worker[lane]);

		error = index < 0 ? index : ah_path_open(ah, nic.worker[lane], index);
	}
	if (error)
		ah_close(ah);
	return error;
}

static struct nic_ah *ah_untried(uint32_t lane)
{
	list_for_each(ah, &nic.ahs, struct nic_ah, link)
		if (!(ah->tried_lanes & 1u << lane))
			return ah;
	return NULL;
}

/*
 * Open the paths of all handles on a lane. A handle may be destroyed while this thread waits for
 * urnicd to open the handle's address. So open all addresses first, and then the paths, which do
 * not need urnicd.
 */
static void ahs_open(struct worker *worker)
{
	struct nic_ah *untried;

	while ((untried = ah_untried(worker->lane.index)))
		address_try(untried, worker);
	list_for_each(ah, &nic.ahs, struct nic_ah, link) {
		int index = nic_address_find(worker, &ah->route.local, ah->route.ifindex);

		if (!ah->has_path[worker->lane.index] &&
			(index < 0 || ah_path_open(ah, worker, index)))
			ah->path[worker->lane.index] = NIC_PATH_NONE;
	}
}

/*
 * Receive datagrams on the addresses of the device. Some addresses may fail, such as an IPv6
 * address that is still tentative. Returns 0 if at least one is open.
 */
static int addresses_open(
	struct worker *worker, uint32_t ifindex, const struct gid *locals, uint32_t count)
{
	int error = -EADDRNOTAVAIL;

	for (uint32_t i = 0; i < count; i++) {
		int index = nic_address_open(worker, &locals[i], ifindex);

		if (index >= 0)
			error = 0;
		else if (error)
			error = index;
	}
	return error;
}

/* Does the worker have a UD queue pair of this interface's device? */
static bool has_datagrams(struct worker *worker, uint32_t ifindex)
{
	bool is_found = false;

	worker_lock(worker);
	for (uint32_t i = 0; i < LANE_QP_COUNT_MAX && !is_found; i++) {
		const struct qp *qp = worker->lane.qp_by_number[i];

		is_found = qp && qp->type == QP_TYPE_UD && qp->public->owner == ifindex;
	}
	worker_unlock(worker);
	return is_found;
}

void nic_addresses_changed(uint32_t ifindex, const struct gid *locals, uint32_t local_count)
{
	nic_enter();
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		if (nic.has_datagrams[i] && has_datagrams(nic.worker[i], ifindex))
			addresses_open(nic.worker[i], ifindex, locals, local_count);
	NIC_PARTS_CALL(addresses_changed, ifindex, locals, local_count);
	nic_leave();
}

int nic_datagrams_start(struct worker *worker, const struct nic_qp_init *init)
{
	uint32_t lane = worker->lane.index;
	int error = worker->ib
		? 0
		: addresses_open(worker, init->ifindex, init->locals, init->local_count);

	if (error || nic.has_datagrams[lane])
		return error;
	nic.has_datagrams[lane] = true;
	worker_lock(worker);
	if (worker->port)
		port_udp_report_hops(worker->port);
	worker_unlock(worker);
	ahs_open(worker);
	return 0;
}

int nic_ah_create(const struct qp_path *route, struct nic_ah **ret_ah)
{
	struct nic_ah *ah = calloc(1, sizeof(*ah));
	bool has_come;
	int error;

	if (!ah)
		return -ENOMEM;
	ah->route = *route;
	if (!route->ib.port)
		ah->route.remote = gid_ip_address(&route->remote);
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		ah->path[i] = NIC_PATH_NONE;
	nic_enter();
	ah->epoch = nic_epoch;
	error = -EINVAL;
	if (!route->ib.port && gid_is_interface_local(&ah->route.remote))
		nic_multicast_refuse_scope();
	else if (gid_is_ipv4(&ah->route.local) != gid_is_ipv4(&ah->route.remote))
		log_write(LOG_INFO,
			"the two addresses of an address handle must be of one family, IPv4 or IPv6");
	else
		error = nic_start();
	if (!error)
		ah->may_be_here = nic.is_local_on && !ah->route.rate_kbps &&
			!gid_is_multicast(&ah->route.remote);
	if (!error)
		error = ah_open_all(ah);
	if (!error)
		list_append(&nic.ahs, &ah->link);
	/*
	 * A process that receives datagrams usually answers, and its answers access this process's
	 * memory. So an address of this host counts as a peer that could map memory.
	 */
	has_come = !error && ah->may_be_here && segments_may_begin() &&
		netdev_has_address(&ah->route.remote, ah->route.ifindex);
	nic_leave();
	if (has_come)
		nic_mr_make_mappable();
	if (error)
		free(ah);
	else
		*ret_ah = ah;
	return error;
}

void nic_ah_destroy(struct nic_ah *ah)
{
	nic_enter();
	if (ah->epoch == nic_epoch) {
		ah_close(ah);
		list_remove(&ah->link);
	}
	nic_leave();
	free(ah);
}

void nic_ah_target(const struct nic_ah *ah, const struct nic_qp *qp, struct datagram_target *target)
{
	bool is_alive = ah->epoch == nic_epoch;

	target->path = is_alive ? ah->path[qp->worker->lane.index] : NIC_PATH_NONE;
	target->rate_kbps = ah->route.rate_kbps;
}

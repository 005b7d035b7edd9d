/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams within this host (local/datagram.h): UD endpoints of this process's queue pairs, and
 * routes to the UD endpoints of other processes.
 *
 * Opening a route takes system calls and may wait for urnicd. So a posting thread only requests a
 * lookup. The control thread executes it; until then datagrams use packets. A route ends with its
 * address handle, and with the process that it leads to.
 */

#include <errno.h>
#include <stdlib.h>

#include "local/datagram.h"
#include "local/ud_endpoint.h"
#include "nic/nic_control.h"
#include "nic/nic_internal.h"
#include "nic/nic_part.h"
#include "nic/object/nic_object.h"
#include "os/clock.h"
#include "peer/nic_owner.h"
#include "peer/nic_peer.h"
#include "wire/roce.h"

/* After a lookup that failed, the next lookup of the same destination is due after this time. */
#define AGAIN_NS 1000000000ull

/*
 * The UD endpoint of a queue pair. Its NIC memory is reused for endpoints only, because a late
 * sender may still access it after the queue pair was destroyed.
 */
struct nic_ud_endpoint {
	struct ud_endpoint_qp local;
	struct list link; /* in `endpoints`, or `free_endpoints` */
	uint64_t offset; /* offset of the struct ud_endpoint */
	uint32_t ifindex;
};

static struct list endpoints = {&endpoints, &endpoints};
static struct list free_endpoints = {&free_endpoints, &free_endpoints};
/* The UD endpoint table of each lane of this process; NULL: the lane has none */
static struct ud_endpoint_table *tables[NIC_LANES_MAX];
static struct datagram_lane lanes[NIC_LANES_MAX];

/* --- life --- */

static void datagram_start(void)
{
	for (uint32_t i = 0; i < NIC_LANES_MAX; i++) {
		datagram_lane_init(&lanes[i], nic_control_wake);
		tables[i] = NULL;
	}
}

static bool is_any(const struct datagram_route *route, const void *context)
{
	(void)route;
	(void)context;
	return true;
}

/*
 * In the child of a fork: free the routes, but not the references that they have to other
 * processes, because these are the parent's.
 */
static void datagram_forget(void)
{
	struct datagram_route *route;

	for (uint32_t i = 0; i < NIC_LANES_MAX; i++)
		while ((route = datagram_route_take(&lanes[i], is_any, NULL)))
			free(route);
	list_for_each_safe(endpoint, &endpoints, struct nic_ud_endpoint, link)
		free(endpoint);
	list_for_each_safe(endpoint, &free_endpoints, struct nic_ud_endpoint, link)
		free(endpoint);
	list_init(&endpoints);
	list_init(&free_endpoints);
}

/* Without memory for the lane's table, peers send their datagrams in packets. */
static int datagram_lane_start(struct worker *worker, struct nic_public_lane *public)
{
	uint64_t offset =
		nic.is_local_on ? arena_alloc(&nic.arena, sizeof(struct ud_endpoint_table)) : 0;

	tables[worker->lane.index] = offset ? arena_at(&nic.arena, offset) : NULL;
	atomic_store(&public->endpoints_offset, offset);
	return 0;
}

/* --- endpoints --- */

/* Get a free endpoint, which was used before or is new. Returns NULL when out of memory. */
static struct nic_ud_endpoint *endpoint_get(void)
{
	struct nic_ud_endpoint *endpoint;

	if (!list_is_empty(&free_endpoints)) {
		endpoint = list_first(&free_endpoints, struct nic_ud_endpoint, link);
		list_remove(&endpoint->link);
		return endpoint;
	}
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint)
		return NULL;
	list_init(&endpoint->link);
	endpoint->offset = arena_alloc(&nic.arena, sizeof(struct ud_endpoint));
	if (endpoint->offset)
		return endpoint;
	free(endpoint);
	return NULL;
}

static void datagram_qp_created(struct nic_qp *qp, const struct nic_qp_init *init)
{
	struct worker *worker = qp->worker;
	struct datagram_lane *lane = &lanes[worker->lane.index];
	struct nic_ud_endpoint *endpoint;
	struct ud_endpoint_place place;

	if (init->type != QP_TYPE_UD)
		return;
	endpoint = tables[worker->lane.index] ? endpoint_get() : NULL;
	if (!endpoint)
		return;
	place = (struct ud_endpoint_place){
		.endpoint = arena_at(&nic.arena, endpoint->offset),
		.offset = endpoint->offset,
		.table = tables[worker->lane.index],
		.lane = &worker->local,
	};
	endpoint->ifindex = init->ifindex;
	endpoint->local = (struct ud_endpoint_qp){.serial = 0};
	atomic_store(&place.endpoint->address_count, 0);
	for (uint32_t i = 0; i < init->local_count; i++)
		ud_endpoint_add_address(place.endpoint, &init->locals[i]);
	list_append(&endpoints, &endpoint->link);
	worker_lock(worker);
	qp->endpoint = endpoint;
	ud_endpoint_add(&endpoint->local, qp->qp, &place, lane);
	worker_unlock(worker);
}

static void datagram_qp_ending(struct nic_qp *qp)
{
	struct nic_ud_endpoint *endpoint = qp->endpoint;
	bool is_free;

	if (!endpoint)
		return;
	worker_lock(qp->worker);
	is_free = ud_endpoint_remove(&endpoint->local, clock_now_ns());
	if (!is_free)
		/* So that nothing frees the receive queue with the queue pair. */
		qp->qp->rq_offset = 0;
	qp->endpoint = NULL;
	worker_unlock(qp->worker);
	list_remove(&endpoint->link);
	if (is_free)
		list_append(&free_endpoints, &endpoint->link);
	else
		free(endpoint);
}

static void datagram_addresses_changed(
	uint32_t ifindex, const struct gid *locals, uint32_t local_count)
{
	list_for_each(endpoint, &endpoints, struct nic_ud_endpoint, link) {
		if (endpoint->ifindex != ifindex)
			continue;
		for (uint32_t i = 0; i < local_count; i++)
			ud_endpoint_add_address(endpoint->local.place.endpoint, &locals[i]);
	}
}

/* --- paths --- */

static void datagram_ah_opened(struct nic_ah *ah, struct worker *worker)
{
	uint32_t index = worker->lane.index;
	struct datagram_path *path = &ah->here[index];

	if (!ah->may_be_here)
		return;
	*path = (struct datagram_path){
		.id = ah->path[index],
		.local = gid_ip_address(&ah->route.local),
		.remote = ah->route.remote,
		.traffic_class = roce_traffic_class(ah->route.traffic_class),
		.hop_limit = ah->route.hop_limit,
	};
	worker_lock(worker);
	datagram_path_add(&lanes[index], path);
	worker_unlock(worker);
}

/*
 * Remove the first route for which `is_it` returns true, and release its reference to a process.
 * The worker is not locked. Returns false when there is no such route.
 */
static bool route_drop(struct worker *worker,
	bool (*is_it)(const struct datagram_route *route, const void *context), const void *context)
{
	struct datagram_route *route;

	worker_lock(worker);
	route = datagram_route_take(&lanes[worker->lane.index], is_it, context);
	worker_unlock(worker);
	if (!route)
		return false;
	if (route->process.owner)
		nic_owner_put(container_of(route->process.owner, struct nic_owner, process));
	free(route);
	return true;
}

static bool is_of_path(const struct datagram_route *route, const void *path)
{
	return route->path == path;
}

static void datagram_ah_closing(struct nic_ah *ah, struct worker *worker)
{
	uint32_t index = worker->lane.index;

	if (!ah->may_be_here)
		return;
	worker_lock(worker);
	datagram_path_remove(&lanes[index], &ah->here[index]);
	worker_unlock(worker);
	while (route_drop(worker, is_of_path, &ah->here[index]))
		;
}

static bool is_of_peer(const struct datagram_route *route, const void *peer)
{
	const struct owner_process *owner = route->process.owner;

	return owner && container_of(owner, struct nic_owner, process)->peer == peer;
}

static void datagram_peer_exited(const struct nic_peer *peer)
{
	struct worker *worker;

	for (uint32_t i = 0; (worker = nic_worker_next(&i));)
		while (route_drop(worker, is_of_peer, peer))
			;
}

/* --- answering --- */

/*
 * Fill in what the worker's lane needs to send datagrams to `slot` of process `owner`. Returns 0 or
 * -errno.
 */
static int owner_reach(struct worker *worker, uint8_t slot, struct nic_owner *owner,
	struct datagram_process *ret_process)
{
	struct datagram_process *process = ret_process;
	struct nic_peer *peer = owner->peer;
	uint64_t doorbell_offset;
	int error;

	process->endpoints = nic_peer_endpoints(peer, slot, &process->lane);
	if (!process->endpoints)
		return -ENOENT;
	error = nic_peer_reach_lane(peer, process->lane, &doorbell_offset);
	if (error)
		return error;
	owner->process.doorbell_offset[process->lane] = doorbell_offset;
	worker_lock(worker);
	process->channel = owner_channel(&owner->process, worker->lane.index, process->lane);
	worker_unlock(worker);
	if (!process->channel)
		return -ENOSPC;
	process->doorbell = peer_at_shared(&peer->peer, doorbell_offset, sizeof(struct doorbell));
	process->owner = &owner->process;
	return 0;
}

/*
 * Find the process that has queue pair `qpn` at address `remote`; may wait for urnicd. Returns 0,
 * and the caller then has a reference to ret_process->owner; or -errno.
 */
static int process_find(struct worker *worker, const struct gid *remote, uint32_t ifindex,
	uint32_t qpn, struct datagram_process *ret_process)
{
	uint8_t slot = (uint8_t)(qpn >> 16);
	struct nic_peer *peer;
	struct nic_owner *owner;
	/* Slot 0 belongs to urnicd, which has no such queue pair */
	int error = slot ? nic_peer_get_at(remote, ifindex, qpn, &peer) : -ENOENT;

	if (!error)
		error = nic_owner_get(peer, &owner);
	if (error)
		return error;
	error = owner_reach(worker, slot, owner, ret_process);
	if (error)
		nic_owner_put(owner);
	return error;
}

/* The address handle to which the path of a lookup belongs. The NIC is locked. */
static const struct nic_ah *ah_of(const struct worker *worker, const struct datagram_lookup *lookup)
{
	return container_of(lookup->path, struct nic_ah, here[worker->lane.index]);
}

static bool is_same(const struct datagram_route *route, const void *context)
{
	const struct datagram_lookup *lookup = context;

	return route->path == lookup->path && route->qpn == lookup->qpn;
}

/*
 * The sender, queue pair `qpn`, falls back to packets. Count the fallback, if the queue pair still
 * exists. The worker is locked.
 */
static void count_unreachable(const struct worker *worker, uint32_t qpn)
{
	struct qp *qp = worker->lane.qp_by_number[qpn % LANE_QP_COUNT_MAX];

	if (qp && qp->qpn == qpn)
		qp_count(qp, COUNTER_local_unreachable, 1);
}

static struct datagram_lookup lookup_of(struct worker *worker)
{
	struct datagram_lookup lookup;

	worker_lock(worker);
	lookup = lanes[worker->lane.index].lookup;
	worker_unlock(worker);
	return lookup;
}

/*
 * Is the lookup `before` still pending? Its address handle may have been destroyed meanwhile, and a
 * new handle to another address may have got the same memory.
 */
static bool is_lookup_current(
	struct worker *worker, const struct datagram_lookup *before, const struct gid *remote)
{
	struct datagram_lookup now = lookup_of(worker);

	return now.path == before->path && now.qpn == before->qpn &&
		gid_is_equal(&ah_of(worker, &now)->route.remote, remote);
}

static void lookup_execute(struct worker *worker)
{
	struct datagram_lane *lane = &lanes[worker->lane.index];
	struct datagram_lookup lookup = lookup_of(worker);
	struct datagram_route *route;
	struct qp_path path;
	int error;

	if (!lookup.path)
		return;
	path = ah_of(worker, &lookup)->route;
	while (lane->route_count >= DATAGRAM_ROUTES_MAX &&
		route_drop(worker, datagram_route_is_idle, NULL))
		;
	while (lane->route_count >= DATAGRAM_ROUTES_MAX && route_drop(worker, is_any, NULL))
		;
	route_drop(worker, is_same, &lookup);
	route = calloc(1, sizeof(*route));
	if (!route)
		return; /* the lookup stays pending */
	error = process_find(worker, &path.remote, path.ifindex, lookup.qpn, &route->process);
	if (!is_lookup_current(worker, &lookup, &path.remote)) {
		if (!error)
			nic_owner_put(
				container_of(route->process.owner, struct nic_owner, process));
		free(route);
		return;
	}
	if (error)
		route->again_ns = clock_now_ns() + AGAIN_NS;
	worker_lock(worker);
	if (error && error != -ENOENT)
		count_unreachable(worker, lookup.from_qpn);
	datagram_lookup_done(lane, route);
	worker_unlock(worker);
}

/* Execute the pending lookups of all lanes. */
static void datagram_work(void)
{
	nic_enter();
	nic_for_each_worker(lookup_execute);
	nic_leave();
}

const struct nic_part nic_datagram_part = {
	.start = datagram_start,
	.lane_start = datagram_lane_start,
	.work = datagram_work,
	.peer_exited = datagram_peer_exited,
	.qp_created = datagram_qp_created,
	.qp_ending = datagram_qp_ending,
	.ah_opened = datagram_ah_opened,
	.ah_closing = datagram_ah_closing,
	.addresses_changed = datagram_addresses_changed,
	.forget = datagram_forget,
};

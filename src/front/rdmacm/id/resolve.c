/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses and routes. The kernel's routing chooses source address and interface. On Ethernet, the
 * source and destination addresses are the whole route.
 */
#include <net/if.h>
#include <stdlib.h>

#include "front/rdmacm/address.h"
#include "front/rdmacm/device.h"
#include "front/rdmacm/id/id.h"
#include "front/rdmacm/id/path_query.h"
#include "front/rdmacm/id/resolver.h"
#include "front/rdmacm/infiniband.h"
#include "netdev/neighbour.h"
#include "os/log.h"

/* Choose the device and the source address for a destination. */
static int choose_device(
	struct id *id, const struct sockaddr *remote, struct sockaddr_storage *local)
{
	int rc = address_source(remote, id->tos, local);
	struct gid gid;

	if (rc)
		return rc;
	gid = address_gid((struct sockaddr *)local);
	return id_take_local(
		id, id_device_kinds(id), &gid, address_ifindex((struct sockaddr *)local));
}

/*
 * The destination of packets to this address. If no device has a loopback address, the destination
 * is the source address. Over iWARP the destination is always `remote`, because TCP supports
 * loopback addresses.
 */
static struct gid path_remote(const struct id *id, const struct sockaddr *remote)
{
	struct gid gid = address_gid(remote);
	uint32_t gid_index, ifindex;

	if (id->is_iwarp || !gid_is_loopback(&gid) ||
		device_find(DEVICE_KIND_ROCE, &gid, 0, &gid_index, &ifindex))
		return gid;
	return id->path.local;
}

/*
 * Choose the local address and the device for a remote address. Returns 0 or -errno; -EINPROGRESS:
 * an event reports the result.
 */
static int route_choose(struct id *id, const struct sockaddr *remote, int timeout_ms)
{
	struct rdma_addr *addr = &id->id.route.addr;
	struct sockaddr_storage local = addr->src_storage;
	uint16_t port = address_port(&addr->src_addr);
	int rc;

	if (address_bytes(remote) == 0 || remote->sa_family != addr->src_addr.sa_family)
		return -id_cause(REASON_CM_FAMILY);
	memset(&addr->dst_storage, 0, sizeof(addr->dst_storage));
	memcpy(&addr->dst_storage, remote, address_bytes(remote));
	rc = choose_device(id, remote, &local);
	if (rc)
		return rc;
	addr->src_storage = local;
	address_set_port(&addr->src_addr, port);
	if (infiniband_is_used())
		return path_query_address(id, remote, timeout_ms);
	id->path.remote = path_remote(id, remote);
	id->path.traffic_class = id->tos;
	return 0;
}

/*
 * Bind to `source`. If `source` is NULL or has no family, bind to the zero address of the family of
 * `remote`.
 */
static int bind_source(struct id *id, const struct sockaddr *source, const struct sockaddr *remote)
{
	struct sockaddr_storage any = {.ss_family = remote->sa_family};

	if (id->state == ID_BOUND)
		return 0;
	if (source && address_bytes(source) != 0)
		return id_bind(id, source);
	return id_bind(id, (struct sockaddr *)&any);
}

/* Resolve the next hop. Usually the kernel knows the next hop, and the event is posted at once. */
static int neighbour_reach(struct id *id, int timeout_ms)
{
	int rc;

	if (id->path.ib.port || gid_is_equal(&id->path.local, &id->path.remote) ||
		neighbour_look(&id->path.local, &id->path.remote, id->path.ifindex) ==
			NEIGHBOUR_KNOWN) {
		id->state = ID_ADDRESS_RESOLVED;
		id_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
		return 0;
	}
	id->state = ID_RESOLVING;
	rc = resolver_wait(id, timeout_ms);
	if (rc)
		id->state = ID_BOUND;
	return rc;
}

static void route_error_log(const struct id *id, int rc)
{
	if (rc == -ENETUNREACH || rc == -EHOSTUNREACH)
		id_report_failure(id, REASON_CM_ADDRESS, "there is no route");
	else if (rc == -ENODEV)
		id_report_failure(id, REASON_CM_ADDRESS,
			"its route leads through an interface without a device");
}

int rdma_resolve_addr(
	struct rdma_cm_id *public, struct sockaddr *source, struct sockaddr *remote, int timeout_ms)
{
	struct id *id = id_find(public);
	int rc;

	if (!id)
		return fail_errno(errno);
	if (!remote)
		return fail_errno(id_cause(REASON_ATTR_MISSING));
	if (id->state != ID_IDLE && id->state != ID_BOUND)
		return fail_errno(id_cause(REASON_CM_STATE));
	rc = bind_source(id, source, remote);
	if (rc == 0)
		rc = route_choose(id, remote, timeout_ms);
	if (rc == 0)
		rc = neighbour_reach(id, timeout_ms);
	if (rc && rc != -EINPROGRESS) {
		route_error_log(id, rc);
		return fail_errno(-rc);
	}
	return id_complete(id);
}

/* The path MTU that the local interface permits; the peer may propose less. */
static enum ibv_mtu mtu_of(const struct id *id)
{
	struct ibv_port_attr port;

	if (ibv_query_port(id->id.verbs, DEVICE_PORT, &port))
		return IBV_MTU_1024;
	return port.active_mtu;
}

int id_path_alloc(struct id *id)
{
	struct rdma_route *route = &id->id.route;

	if (!route->path_rec)
		route->path_rec = calloc(1, sizeof(*route->path_rec));
	return route->path_rec ? 0 : -id_cause(REASON_NO_MEMORY);
}

void id_path_fill(struct id *id)
{
	struct rdma_route *route = &id->id.route;
	struct rdma_ib_addr *ib = &route->addr.addr.ibaddr;
	struct ibv_sa_path_rec *path = route->path_rec;

	memcpy(ib->sgid.raw, id->path.local.raw, sizeof(ib->sgid.raw));
	memcpy(ib->dgid.raw, id->path.remote.raw, sizeof(ib->dgid.raw));
	ib->pkey = htobe16(id_pkey(id));
	*path = (struct ibv_sa_path_rec){
		.sgid = ib->sgid,
		.dgid = ib->dgid,
		.hop_limit = ID_HOP_LIMIT,
		.traffic_class = id->tos,
		.reversible = 1,
		.numb_path = 1,
		.pkey = ib->pkey,
		.sl = id->tos >> 5,
		/* 2 stands for "exactly `mtu`", and also in the other selectors */
		.mtu_selector = 2,
		.mtu = id->path_mtu ? id->path_mtu : (uint8_t)mtu_of(id),
		.rate_selector = 2,
		.rate = id->path_rate ? id->path_rate : IBV_RATE_10_GBPS,
		.packet_life_time_selector = 2,
		.packet_life_time = (uint8_t)(id->ack_timeout > 0 ? id->ack_timeout - 1 : 0),
	};
	if (id->path.ib.port) {
		path->slid = htobe16(id->path.ib.slid);
		path->dlid = htobe16(id->path.ib.dlid);
		path->sl = id->path.ib.sl;
	}
	route->num_paths = 1;
	if (id->agreement.path_mtu == 0 || id->agreement.path_mtu > path->mtu)
		id->agreement.path_mtu = path->mtu;
}

int id_fill_path(struct id *id)
{
	int rc = id_path_alloc(id);

	if (!rc)
		id_path_fill(id);
	return rc;
}

/*
 * On Ethernet a route needs no query, so there is no later failure, and no
 * RDMA_CM_EVENT_ROUTE_ERROR. Like the kernel's rdma_cm, check only that the interface of the
 * address still exists. Returns 0 or -errno.
 */
static int ethernet_route(struct id *id)
{
	char name[IF_NAMESIZE];
	int rc;

	if (!if_indextoname(id->path.ifindex, name)) {
		if (errno != ENXIO && errno != ENODEV)
			return log_refusal("the name of an interface is not known", "ioctl");
		id_report_failure(id, REASON_CM_ADDRESS, "the interface of its route has gone");
		return -id_cause(REASON_CM_NO_DEVICE);
	}
	rc = id_fill_path(id);
	if (rc)
		return rc;
	id->state = ID_ROUTE_RESOLVED;
	id_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *public, int timeout_ms)
{
	struct id *id = id_find(public);
	int rc;

	if (!id)
		return fail_errno(errno);
	if (id->state != ID_ADDRESS_RESOLVED)
		return fail_errno(id_cause(REASON_CM_STATE));
	rc = id->path.ib.port ? path_query_route(id, timeout_ms) : ethernet_route(id);
	return rc ? fail_errno(-rc) : id_complete(id);
}

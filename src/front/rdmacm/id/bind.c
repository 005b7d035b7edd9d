/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local addresses and ports: binding to them, listening at them.
 */

#include "base/arith.h"
#include "front/rdmacm/address.h"
#include "front/rdmacm/device.h"
#include "front/rdmacm/id/id.h"
#include "front/rdmacm/id/iwarp_connect.h"
#include "front/rdmacm/infiniband.h"

/* --- binding --- */

static uint32_t claim_flags(const struct id *id, sa_family_t family)
{
	uint32_t flags = id->is_reusable ? AGENT_CLAIM_SHARES : 0;

	if (family == AF_INET6 && id->is_family_only)
		flags |= AGENT_CLAIM_IPV6_ONLY;
	return flags;
}

/*
 * No device has this local address. Returns why: -EADDRNOTAVAIL if this host does not have the
 * address, else -ENODEV.
 */
static int explain_no_device(const struct sockaddr *address)
{
	struct sockaddr_storage local = {0};
	int rc;

	if (infiniband_is_used())
		return -id_cause(REASON_CM_LOCAL_ADDRESS);
	memcpy(&local, address, address_bytes(address));
	rc = address_source(address, 0, &local);
	return -id_cause(rc == -EADDRNOTAVAIL ? REASON_CM_LOCAL_ADDRESS : REASON_CM_NO_DEVICE);
}

/* Set the identifier's device. If it has no protection domain yet, set the device's default one. */
static void use_device(struct id *id, struct device *device, uint32_t gid_index)
{
	id->device = device;
	id->is_iwarp = device->kind == DEVICE_KIND_IWARP;
	id->gid_index = gid_index;
	id->id.verbs = device->context;
	id->id.port_num = DEVICE_PORT;
	if (!id->id.pd)
		id->id.pd = device->pd;
}

uint32_t id_device_kinds(const struct id *id)
{
	return id->id.qp_type == IBV_QPT_RC ? DEVICE_KIND_ANY : DEVICE_KIND_ROCE;
}

int id_take_local(struct id *id, uint32_t kinds, const struct gid *gid, uint32_t ifindex)
{
	uint32_t gid_index, found_ifindex;
	struct device *device;
	struct gid local = *gid;

	if (infiniband_is_used() && !infiniband_local_gid(gid, &local))
		return -id_cause(REASON_CM_NO_DEVICE);
	device = device_find(kinds, &local, ifindex, &gid_index, &found_ifindex);

	if (!device && gid_is_loopback(gid))
		device = device_find_for_loopback(
			kinds, gid_is_ipv4(gid), &local, &gid_index, &found_ifindex);
	if (!device)
		return -id_cause(REASON_CM_NO_DEVICE);
	use_device(id, device, gid_index);
	/*
	 * iWARP uses TCP, which supports loopback addresses. So an iWARP identifier keeps such an
	 * address.
	 */
	id->path.local = id->is_iwarp ? *gid : local;
	id->path.ifindex = found_ifindex;
	return 0;
}

/*
 * Like the kernel's rdma_cm, choose no device for a loopback address. libfabric binds to a loopback
 * address to test whether connections work. If binding chose a device, libfabric would see only
 * this device.
 */
int id_bind(struct id *id, const struct sockaddr *address)
{
	struct gid gid;
	int rc;

	if (id->state != ID_IDLE)
		return -id_cause(REASON_CM_STATE);
	if (address_bytes(address) == 0)
		return -id_cause(REASON_CM_FAMILY);
	gid = address_gid(address);
	if (!address_is_any(address) && !address_is_loopback(address)) {
		rc = id_take_local(id, id_device_kinds(id), &gid, address_ifindex(address));
		if (rc)
			return explain_no_device(address);
	}
	id->claim = (struct agent_claim){
		.service_id = ip_cm_service_id((uint16_t)id->id.ps, address_port(address)),
		.address = {.gid = gid, .scope_ifindex = address_ifindex(address)},
		.flags = claim_flags(id, address->sa_family),
	};
	rc = id_cause_if(nic_cm_claim(&id->claim), REASON_CM_PORT_TAKEN);
	if (rc) {
		id->claim.id = 0;
		return rc;
	}
	memcpy(&id->id.route.addr.src_storage, address, address_bytes(address));
	address_set_port(&id->id.route.addr.src_addr, ip_cm_service_port(id->claim.service_id));
	id->state = ID_BOUND;
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *public, struct sockaddr *address)
{
	struct id *id = id_find(public);
	int rc;

	if (!id)
		return fail_errno(errno);
	if (!address)
		return fail_errno(id_cause(REASON_ATTR_MISSING));
	rc = id_bind(id, address);
	return rc ? fail_errno(-rc) : 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *public)
{
	const struct sockaddr *address = &public->route.addr.src_addr;

	return address_bytes(address) ? htons(address_port(address)) : 0;
}

__be16 rdma_get_dst_port(struct rdma_cm_id *public)
{
	const struct sockaddr *address = &public->route.addr.dst_addr;

	return address_bytes(address) ? htons(address_port(address)) : 0;
}

/* --- listening --- */

struct listening {
	const struct id *id;
	uint32_t opened;
	int error;
};

/*
 * Receive requests at a local address, if the listener's address includes it. If this fails for one
 * address, a listener at the zero address still receives requests at the others. watch.c adds
 * addresses that appear later.
 */
static void listen_at(const struct gid *gid, uint32_t ifindex, void *argument)
{
	struct listening *listening = argument;
	const struct cm_listener *listener = &listening->id->listener;
	const struct agent_address address = agent_address_of(gid, ifindex);
	int rc;

	/* A request to a loopback address may arrive at any address of the host. */
	if (!gid_is_loopback(&listener->address) &&
		!cm_address_matches(&listener->address, listener->ifindex, listener->is_ipv6_only,
			gid, ifindex))
		return;
	rc = nic_cm_receive_address(&address);
	if (rc)
		listening->error = rc;
	else
		listening->opened++;
}

/* Begin to listen on RoCE devices, with `backlog` identifiers in reserve. Returns 0 or -errno. */
static int roce_listen(struct id *id, uint32_t backlog)
{
	struct listening listening = {.id = id};
	int rc;

	/* The program may have set options after binding, so set the flags again. */
	id->claim.flags = claim_flags(id, id->id.route.addr.src_addr.sa_family);
	id->listener = (struct cm_listener){
		.service_id = id->claim.service_id,
		.address = id->claim.address.gid,
		.ifindex = id->claim.address.scope_ifindex,
		.is_ipv6_only = id->claim.flags & AGENT_CLAIM_IPV6_ONLY,
		.half_open_max = backlog,
		.user = id,
	};
	nic_cm_listen(&id->listener);
	for (uint32_t i = 0; i < backlog; i++) {
		rc = id_add_spare(id);
		if (rc)
			return rc;
	}
	device_for_each_gid(DEVICE_KIND_ROCE, listen_at, &listening);
	return listening.opened == 0 ? listening.error : 0;
}

/*
 * The kinds of devices at which to listen. If the identifier is bound to a device, that is the
 * device's kind. Otherwise these are all kinds of which this host has a device.
 */
static uint32_t kinds_to_listen_for(const struct id *id)
{
	uint32_t kinds = id_device_kinds(id);

	if (id->device)
		return kinds & id->device->kind;
	if (!device_exists(DEVICE_KIND_IWARP))
		return kinds & DEVICE_KIND_ROCE;
	return device_exists(DEVICE_KIND_ROCE) ? kinds : kinds & DEVICE_KIND_IWARP;
}

static int listen_begin(struct id *id, uint32_t backlog)
{
	uint32_t kinds = kinds_to_listen_for(id);
	int rc = 0;

	if (kinds & DEVICE_KIND_ROCE)
		rc = roce_listen(id, backlog);
	if (rc == 0 && (kinds & DEVICE_KIND_IWARP))
		rc = iwarp_listen(id, backlog);
	if (rc)
		return rc;
	id->claim.flags |= AGENT_CLAIM_LISTENS;
	rc = id_cause_if(nic_cm_claim(&id->claim), REASON_CM_PORT_TAKEN);
	if (rc)
		id->claim.flags &= ~(uint32_t)AGENT_CLAIM_LISTENS;
	return rc;
}

int rdma_listen(struct rdma_cm_id *public, int backlog)
{
	const struct sockaddr_in any = {.sin_family = AF_INET};
	struct id *id = id_find(public);
	uint32_t count = backlog > 0 ? min_u32((uint32_t)backlog, ID_BACKLOG_MAX) : ID_BACKLOG_MAX;
	int rc;

	if (!id)
		return fail_errno(errno);
	if (id->state == ID_IDLE) {
		rc = id_bind(id, (const struct sockaddr *)&any);
		if (rc)
			return fail_errno(-rc);
	}
	if (id->state != ID_BOUND)
		return fail_errno(id_cause(REASON_CM_STATE));
	rc = listen_begin(id, count);
	if (rc) {
		if (id->listener.user)
			nic_cm_unlisten(&id->listener);
		id->listener.user = NULL;
		iwarp_unlisten(id);
		return fail_errno(-rc);
	}
	id->state = ID_LISTENING;
	return 0;
}

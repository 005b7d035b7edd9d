/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memberships of multicast groups at the subnet administrator. It knows ports, not processes. So
 * the server counts which clients need a port's membership, as Linux does in its kernel.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabricd/server/server_internal.h"
#include "wire/bytes.h"
#include "wire/infiniband/rmpp.h"
#include "wire/infiniband/sa_record.h"

enum {
	LEAVE_TIMEOUT_MS = 200,
	LEAVE_RETRIES = 10,
};

/* What one client needs. */
struct membership {
	struct list link; /* in the client's memberships */
	struct list port_link; /* in the port's memberships */
	struct server_port *port;
	struct gid mgid;
	uint8_t join_state;
	uint32_t count;
};

/* --- leaving --- */

/* Returns 0 or -errno. */
static int agent_make(struct server_port *port)
{
	const struct mad_agent_spec spec = {
		.management_class = MAD_CLASS_SUBN_ADM,
		.class_version = SA_CLASS_VERSION,
		.qpn = GSI_QPN,
	};
	int rc = server_port_mads(port);

	if (rc || port->sa_agent)
		return rc;
	return mad_agent_add(port->mads, &spec, NULL, &port->sa_agent);
}

static void leave_fill(const struct server_port *port, const struct gid *mgid, uint8_t join_state,
	uint64_t transaction_id, uint8_t mad[MAD_BYTES])
{
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_SUBN_ADM,
		.class_version = SA_CLASS_VERSION,
		.method = MAD_METHOD_DELETE,
		.attribute_id = SA_ATTRIBUTE_MC_MEMBER,
		.transaction_id = transaction_id,
	};
	const struct sa_header sa = {
		.component_mask = sa_mask_mc_member_mgid | sa_mask_mc_member_port_gid |
			sa_mask_mc_member_join_state,
	};
	struct sa_mc_member record = {.join_state = join_state};
	struct attach_port info;

	server_port_describe(port, &info);
	memcpy(record.mgid, mgid->raw, sizeof(record.mgid));
	put_be64(record.port_gid, info.gid_prefix);
	put_be64(record.port_gid + 8, info.guid);
	mad_header_encode(&header, mad);
	sa_header_encode(&sa, mad);
	sa_mc_member_encode(&record, mad + SA_DATA_OFFSET);
}

/* Without memory the port stays in the group. */
static void group_leave(struct server_port *port, const struct gid *mgid, uint8_t join_state)
{
	uint8_t mad[MAD_BYTES] = {0};
	struct attach_port info;

	server_port_describe(port, &info);
	if (!info.sm_lid || agent_make(port))
		return;
	const struct mad_address to = {
		.qpn = GSI_QPN, .qkey = GSI_QKEY, .lid = info.sm_lid, .sl = info.sm_sl};

	leave_fill(port, mgid, join_state, ++port->server->leaves, mad);
	mad_agent_send(port->sa_agent, &to, mad, sizeof(mad), LEAVE_TIMEOUT_MS, LEAVE_RETRIES,
		port->server->now_ns);
	server_arrivals_run(port->server);
}

/* --- counting --- */

static struct membership *membership_find(const struct client *client,
	const struct server_port *port, const struct gid *mgid, uint8_t join_state)
{
	list_for_each(membership, &client->memberships, struct membership, link)
		if (membership->port == port && membership->join_state == join_state &&
			gid_is_equal(&membership->mgid, mgid))
			return membership;
	return NULL;
}

int membership_hold(struct client *client, struct server_port *port, const struct gid *mgid,
	uint8_t join_state)
{
	struct membership *membership = membership_find(client, port, mgid, join_state);

	if (!membership) {
		membership = client->membership_count < MEMBERSHIPS_PER_CLIENT_MAX
			? calloc(1, sizeof(*membership))
			: NULL;
		if (!membership)
			return -ENOMEM;
		membership->port = port;
		membership->mgid = *mgid;
		membership->join_state = join_state;
		list_append(&client->memberships, &membership->link);
		list_append(&port->memberships, &membership->port_link);
		client->membership_count++;
	}
	membership->count++;
	return 0;
}

static void membership_end(struct client *client, struct membership *membership)
{
	struct server_port *port = membership->port;
	uint8_t unused = membership->join_state;

	list_remove(&membership->link);
	list_remove(&membership->port_link);
	client->membership_count--;
	list_for_each(other, &port->memberships, struct membership, port_link)
		if (gid_is_equal(&other->mgid, &membership->mgid))
			unused &= (uint8_t)~other->join_state;
	if (unused)
		group_leave(port, &membership->mgid, unused);
	free(membership);
}

int membership_release(struct client *client, struct server_port *port, const struct gid *mgid,
	uint8_t join_state)
{
	struct membership *membership = membership_find(client, port, mgid, join_state);

	if (!membership)
		return -EINVAL;
	if (--membership->count == 0)
		membership_end(client, membership);
	return 0;
}

void memberships_drop(struct client *client)
{
	list_for_each_safe(membership, &client->memberships, struct membership, link)
		membership_end(client, membership);
}

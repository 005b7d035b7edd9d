/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memberships of multicast groups at the subnet administrator. The administrator knows ports, not
 * processes. So the server counts which clients need a port's membership, as Linux's kernel does.
 *
 * A new subnet manager that does not know the groups sets ClientReregister of each port. Then the
 * server joins the groups of the port again. It sends all attributes of the administrator's answer
 * to the first join, the group's LID included. So programs need not join again if the new manager
 * gives the group the same LID, as OpenSM and the embedded manager do.
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
	/* A new subnet manager answers when it has set up the subnet. */
	JOIN_TIMEOUT_MS = 250,
	JOIN_RETRIES = 120,
};

/* A membership of a port that one client needs. */
struct membership {
	struct list link; /* in the client's memberships */
	struct list port_link; /* in the port's memberships */
	struct server_port *port;
	struct gid mgid;
	uint8_t join_state;
	uint32_t count;
	bool has_record;
	struct sa_mc_member record; /* of the administrator's last answer to a join */
};

/* --- requests to the subnet administrator --- */

/* Send a record. Without memory, or without a subnet manager, the server sends nothing. */
static void member_record_send(struct server_port *port, enum mad_method method,
	uint64_t component_mask, struct sa_mc_member *record, uint32_t timeout_ms, uint32_t retries)
{
	struct sa_request request = {
		.method = method,
		.attribute_id = SA_ATTRIBUTE_MC_MEMBER,
		.component_mask = component_mask,
		.timeout_ms = timeout_ms,
		.retries = retries,
	};
	struct attach_port info;
	uint32_t transaction;

	server_port_describe(port, &info);
	put_be64(record->port_gid, info.gid_prefix);
	put_be64(record->port_gid + 8, info.guid);
	sa_mc_member_encode(record, request.record);
	sa_request_send(port, &request, &transaction);
}

/* Leave a group for the port. Without memory the port stays in the group. */
static void group_leave(struct server_port *port, const struct gid *mgid, uint8_t join_state)
{
	struct sa_mc_member record = {.join_state = join_state};

	memcpy(record.mgid, mgid->raw, sizeof(record.mgid));
	member_record_send(port, MAD_METHOD_DELETE,
		sa_mask_mc_member_mgid | sa_mask_mc_member_port_gid | sa_mask_mc_member_join_state,
		&record, LEAVE_TIMEOUT_MS, LEAVE_RETRIES);
}

/* --- joining again --- */

static void record_keep(struct membership *membership, const struct sa_mc_member *record)
{
	if (memcmp(membership->mgid.raw, record->mgid, sizeof(record->mgid)) != 0)
		return;
	membership->record = *record;
	membership->has_record = true;
}

void membership_answer(struct server_port *port, uint16_t slid, const uint8_t mad[MAD_BYTES])
{
	struct sa_mc_member record;
	struct mad_header header;
	struct attach_port info;

	mad_header_decode(&header, mad);
	if (header.management_class != MAD_CLASS_SUBN_ADM || header.method != MAD_METHOD_GET_RESP ||
		header.status || header.attribute_id != SA_ATTRIBUTE_MC_MEMBER)
		return;
	server_port_describe(port, &info);
	if (slid != info.sm_lid)
		return;
	sa_mc_member_decode(&record, mad + SA_DATA_OFFSET);
	port->member_answer = record;
	list_for_each(membership, &port->memberships, struct membership, port_link)
		record_keep(membership, &record);
}

/* The join states that the clients of the port need, all together. */
static uint8_t join_state_of(const struct server_port *port, const struct gid *mgid)
{
	uint8_t all = 0;

	list_for_each(membership, &port->memberships, struct membership, port_link)
		if (gid_is_equal(&membership->mgid, mgid))
			all |= membership->join_state;
	return all;
}

/* Does the port's list have an earlier membership of the same group, with a record? */
static bool has_earlier(const struct server_port *port, const struct membership *membership)
{
	list_for_each(other, &port->memberships, struct membership, port_link) {
		if (other == membership)
			return false;
		if (other->has_record && gid_is_equal(&other->mgid, &membership->mgid))
			return true;
	}
	return false;
}

static void group_join_again(struct server_port *port, const struct membership *membership)
{
	struct sa_mc_member record = membership->record;

	record.join_state = join_state_of(port, &membership->mgid);
	record.mtu_selector = record.rate_selector = SA_SELECT_EXACTLY;
	member_record_send(port, MAD_METHOD_SET,
		sa_mask_mc_member_mgid | sa_mask_mc_member_port_gid | sa_mask_mc_member_join_state |
			sa_mask_mc_member_qkey | sa_mask_mc_member_mlid |
			sa_mask_mc_member_mtu_selector | sa_mask_mc_member_mtu |
			sa_mask_mc_member_rate_selector | sa_mask_mc_member_rate |
			sa_mask_mc_member_pkey | sa_mask_mc_member_sl |
			sa_mask_mc_member_flow_label | sa_mask_mc_member_traffic_class,
		&record, JOIN_TIMEOUT_MS, JOIN_RETRIES);
}

void memberships_renew(struct fabric_server *server)
{
	if (!server->has_reregistered)
		return;
	server->has_reregistered = false;
	for (struct server_port *port = NULL; (port = server_port_next(server, port));) {
		if (!port->has_reregistered)
			continue;
		port->has_reregistered = false;
		list_for_each(membership, &port->memberships, struct membership, port_link)
			if (membership->has_record && !has_earlier(port, membership))
				group_join_again(port, membership);
	}
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

int membership_hold(
	struct client *client, struct server_port *port, const struct gid *mgid, uint8_t join_state)
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
		/*
		 * If the administrator has chosen the group's GID, the client calls this after the
		 * answer to its join, so take the record from that answer.
		 */
		record_keep(membership, &port->member_answer);
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

int membership_release(
	struct client *client, struct server_port *port, const struct gid *mgid, uint8_t join_state)
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

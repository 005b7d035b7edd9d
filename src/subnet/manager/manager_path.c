/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "subnet/manager/manager_internal.h"
#include "wire/infiniband/pkey.h"

/* After so many pairs of ports that have no such path, a query ends. */
enum { MISSES_MAX = RECORDS_MAX };

/* What a route allows: the lowest MTU and the lowest rate of its links. */
struct way {
	uint8_t mtu;
	uint32_t mbps;
};

/* --- rates --- */

static const struct {
	uint32_t mbps;
	uint8_t code;
} rates[] = {
	{2500, 2},
	{5000, 5},
	{10000, 3},
	{14000, 11},
	{20000, 6},
	{25000, 15},
	{28000, 19},
	{30000, 4},
	{40000, 7},
	{50000, 20},
	{56000, 12},
	{60000, 8},
	{80000, 9},
	{100000, 16},
	{112000, 13},
	{120000, 10},
	{168000, 14},
	{200000, 17},
	{300000, 18},
	{400000, 21},
	{600000, 22},
	{800000, 23},
	{1200000, 24},
};

uint8_t manager_rate_code(uint32_t mbps)
{
	uint8_t code = rates[0].code;

	for (size_t i = 0; i < ARRAY_COUNT(rates); i++)
		if (rates[i].mbps <= mbps)
			code = rates[i].code;
	return code;
}

uint32_t manager_rate_mbps(uint8_t code)
{
	for (size_t i = 0; i < ARRAY_COUNT(rates); i++)
		if (rates[i].code == code)
			return rates[i].mbps;
	return 0;
}

static uint32_t port_mbps(const struct subnet *subnet, uint32_t node, uint32_t port)
{
	static const uint32_t lane_mbps[] = {2500, 5000, 10000, 14000, 25000, 50000, 100000};
	struct subnet_port_view view;

	return subnet_port(subnet, node, port, &view) ? view.width * lane_mbps[view.speed] : 0;
}

/* --- ways --- */

struct gid manager_port_gid(const struct node_port *port)
{
	struct gid gid = {{0}};

	put_be64(gid.raw, port->info.gid_prefix);
	put_be64(gid.raw + 8, port->guids[0]);
	return gid;
}

static bool port_has_gid(const struct node_port *port, const struct gid *gid)
{
	const uint64_t prefix = get_be64(gid->raw), guid = get_be64(gid->raw + 8);

	if (prefix != port->info.gid_prefix && prefix != 0xfe80000000000000u)
		return false;
	for (uint32_t i = 0; i < SUBNET_GUIDS_MAX; i++)
		if (guid && port->guids[i] == guid)
			return true;
	return false;
}

static const struct node_port *port_of_lid(const struct subnet *subnet, uint16_t lid)
{
	const struct manager_lid *at = &subnet->manager->lids[lid];

	return at->node ? &subnet->nodes[at->node - 1].ports[at->port] : NULL;
}

const struct manager_lid *manager_find_gid(const struct subnet *subnet, const struct gid *gid)
{
	for (uint32_t lid = 1; lid <= subnet->manager->lid_last; lid++) {
		const struct node_port *port = port_of_lid(subnet, (uint16_t)lid);

		if (port && port_has_gid(port, gid))
			return &subnet->manager->lids[lid];
	}
	return NULL;
}

static void way_narrow(const struct subnet *subnet, uint32_t node, uint32_t port, struct way *way)
{
	const struct ib_port_info *info = &subnet->nodes[node].ports[port].info;

	way->mtu = info->neighbor_mtu < way->mtu ? info->neighbor_mtu : way->mtu;
	way->mbps = min_u32(way->mbps, port_mbps(subnet, node, port));
}

/* Follow the forwarding tables from an end port. Returns false if they do not lead to the LID. */
static bool way_follow(
	const struct subnet *subnet, const struct manager_lid *from, uint16_t lid, struct way *way)
{
	uint32_t node = from->node - 1, port = from->port;

	*way = (struct way){
		.mtu = subnet->nodes[node].ports[port].info.mtu_cap, .mbps = UINT32_MAX};
	for (uint32_t hops = 0; hops < HOPS_MAX; hops++) {
		const struct subnet_node *at = &subnet->nodes[node];
		const struct node_port *out;
		uint32_t out_port = port;

		if (port_has_lid(&at->ports[node_is_switch(at) ? 0 : port], lid))
			return true;
		if (node_is_switch(at))
			out_port = subnet_switch_route(subnet, node, lid);
		else if (hops)
			return false;
		if (out_port == 0 || out_port > at->port_count)
			return false;
		out = &at->ports[out_port];
		if (out->info.port_state != IB_PORT_ACTIVE)
			return false;
		way_narrow(subnet, node, out_port, way);
		node = out->peer_node;
		port = out->peer_port;
	}
	return false;
}

/* --- records --- */

/* Does a route fit a selector? If the route allows more than is asked for, lowers *value. */
static bool selector_fits(uint8_t selector, uint32_t asked, uint32_t *value)
{
	switch (selector & 3) {
	case SA_SELECT_ABOVE:
		return *value > asked;
	case SA_SELECT_BELOW:
		if (*value >= asked)
			*value = asked - 1;
		return asked > 1;
	case SA_SELECT_EXACTLY:
		if (*value < asked)
			return false;
		*value = asked;
		return true;
	default:
		return true;
	}
}

static bool way_fits(const struct sa_path *query, uint64_t mask, struct way *way)
{
	uint32_t mtu = way->mtu;

	if (mask & sa_mask_path_mtu && mask & sa_mask_path_mtu_selector &&
		!selector_fits(query->mtu_selector, query->mtu, &mtu))
		return false;
	way->mtu = (uint8_t)mtu;
	return !(mask & sa_mask_path_rate && mask & sa_mask_path_rate_selector) ||
		selector_fits(query->rate_selector, manager_rate_mbps(query->rate), &way->mbps);
}

/* The P_Key of a path: the one that was asked for, or the first that both ends have. */
static uint16_t pkey_choose(const struct node_port *from, const struct node_port *to,
	const struct sa_path *query, uint64_t mask)
{
	if (mask & sa_mask_path_pkey)
		return pkey_table_matches(from->pkeys, SUBNET_PKEYS_MAX, query->pkey) &&
				pkey_table_matches(to->pkeys, SUBNET_PKEYS_MAX, query->pkey)
			? query->pkey
			: 0;
	return pkey_find_common(from->pkeys, SUBNET_PKEYS_MAX, to->pkeys, SUBNET_PKEYS_MAX);
}

/* Add the path between two LIDs. Returns false if none fits the query. */
static bool path_add(const struct subnet *subnet, const struct sa_path *query, uint64_t mask,
	uint16_t slid, uint16_t dlid, struct manager_records *records)
{
	const struct node_port *from = port_of_lid(subnet, slid), *to = port_of_lid(subnet, dlid);
	const struct gid sgid = manager_port_gid(from), dgid = manager_port_gid(to);
	struct sa_path path = {
		.dlid = dlid,
		.slid = slid,
		.is_reversible = 1,
		.path_count = 1,
		.mtu_selector = SA_SELECT_EXACTLY,
		.rate_selector = SA_SELECT_EXACTLY,
		.life_selector = SA_SELECT_EXACTLY,
		.life = PACKET_LIFE,
		.service_id = mask & sa_mask_path_service_id ? query->service_id : 0,
	};
	struct way way;
	uint8_t *to_bytes;

	path.pkey = pkey_choose(from, to, query, mask);
	if (!path.pkey || !way_follow(subnet, &subnet->manager->lids[slid], dlid, &way))
		return false;
	/* A path from a port to itself has no link, so it has the port's own rate. */
	if (way.mbps == UINT32_MAX)
		way.mbps = port_mbps(subnet, subnet->manager->lids[slid].node - 1,
			subnet->manager->lids[slid].port);
	if (!way_fits(query, mask, &way))
		return false;
	path.mtu = way.mtu;
	path.rate = manager_rate_code(way.mbps);
	memcpy(path.sgid, mask & sa_mask_path_sgid ? query->sgid : sgid.raw, 16);
	memcpy(path.dgid, mask & sa_mask_path_dgid ? query->dgid : dgid.raw, 16);
	to_bytes = manager_records_add(records);
	if (to_bytes)
		sa_path_encode(&path, to_bytes);
	return true;
}

/* A path to a multicast group. */
static void group_path_add(const struct subnet *subnet, const struct sa_path *query,
	const struct manager_group *group, uint16_t slid, struct manager_records *records)
{
	const struct gid sgid = manager_port_gid(port_of_lid(subnet, slid));
	struct sa_path path = {
		.dlid = group->mlid,
		.slid = slid,
		.flow_label = group->flow_label,
		.hop_limit = group->hop_limit,
		.traffic_class = group->traffic_class,
		.path_count = 1,
		.pkey = group->pkey,
		.sl = group->sl,
		.mtu_selector = SA_SELECT_EXACTLY,
		.mtu = group->mtu,
		.rate_selector = SA_SELECT_EXACTLY,
		.rate = group->rate,
		.life_selector = SA_SELECT_EXACTLY,
		.life = group->life,
	};
	uint8_t *to = manager_records_add(records);

	memcpy(path.sgid, sgid.raw, 16);
	memcpy(path.dgid, query->dgid, 16);
	if (to)
		sa_path_encode(&path, to);
}

/*
 * May `lid` be an end of the path? If the query names a LID for that end, `lid` has to be it. If
 * the query names a GID, the port of `lid` has to have it.
 */
static bool end_is_asked(const struct subnet *subnet, uint16_t lid, bool has_lid,
	uint16_t asked_lid, bool has_gid, const uint8_t gid_bytes[16])
{
	const struct node_port *port = port_of_lid(subnet, lid);
	struct gid gid;

	memcpy(gid.raw, gid_bytes, sizeof(gid.raw));
	return port && (!has_lid || lid == asked_lid) && (!has_gid || port_has_gid(port, &gid));
}

/*
 * Does the port have the P_Key that was asked for, and as a source the rate and MTU? No path has
 * what its ends lack. So for a query that no port fits, the manager looks once at each port, and at
 * no pair of ports.
 */
static bool end_fits(const struct subnet *subnet, uint16_t lid, const struct sa_path *query,
	uint64_t mask, bool is_source)
{
	const struct manager_lid *at = &subnet->manager->lids[lid];
	const struct node_port *port = port_of_lid(subnet, lid);
	struct way way = {.mtu = port->info.mtu_cap};

	if (mask & sa_mask_path_pkey &&
		!pkey_table_matches(port->pkeys, SUBNET_PKEYS_MAX, query->pkey))
		return false;
	if (!is_source || node_is_switch(&subnet->nodes[at->node - 1]))
		return true;
	way.mbps = port_mbps(subnet, at->node - 1, at->port);
	return way_fits(query, mask, &way);
}

/* The LIDs that may be an end of the path. The caller frees them; NULL: there is no memory. */
static uint32_t ends_find(const struct subnet *subnet, const struct sa_path *query, uint64_t mask,
	bool is_source, uint16_t **ret_lids)
{
	const bool has_lid = mask & (is_source ? sa_mask_path_slid : sa_mask_path_dlid);
	const bool has_gid = mask & (is_source ? sa_mask_path_sgid : sa_mask_path_dgid);
	const uint16_t asked_lid = is_source ? query->slid : query->dlid;
	const uint8_t *gid = is_source ? query->sgid : query->dgid;
	const uint32_t last = subnet->manager->lid_last;
	uint16_t *lids = malloc((last + 1) * sizeof(*lids));
	uint32_t count = 0;

	*ret_lids = lids;
	if (!lids)
		return 0;
	for (uint32_t lid = 1; lid <= last; lid++)
		if (end_is_asked(subnet, (uint16_t)lid, has_lid, asked_lid, has_gid, gid) &&
			end_fits(subnet, (uint16_t)lid, query, mask, is_source))
			lids[count++] = (uint16_t)lid;
	return count;
}

/*
 * Add the paths from each source to each destination, or to a group. If more than MISSES_MAX pairs
 * do not fit, the query ends, so that no query occupies the manager for long. An example is a query
 * for a rate that all ports of hosts have, but the cables between switches lack.
 */
static void paths_add(const struct subnet *subnet, const struct sa_path *asked, uint64_t mask,
	const uint16_t *slids, uint32_t source_count, const uint16_t *dlids, uint32_t dest_count,
	struct manager_records *records)
{
	const struct manager_group *group = NULL;
	uint32_t misses = 0;
	struct gid dgid;

	memcpy(dgid.raw, asked->dgid, sizeof(dgid.raw));
	if (mask & sa_mask_path_dgid && gid_is_multicast(&dgid))
		group = manager_find_group(subnet->manager, &dgid);
	for (uint32_t i = 0; i < source_count; i++) {
		if (group)
			group_path_add(subnet, asked, group, slids[i], records);
		for (uint32_t k = 0; k < dest_count && !records->is_too_long; k++)
			if (!path_add(subnet, asked, mask, slids[i], dlids[k], records) &&
				++misses > MISSES_MAX)
				records->is_too_long = true;
	}
}

uint16_t manager_paths_get(
	struct subnet *subnet, const struct manager_query *query, struct manager_records *records)
{
	const uint64_t mask = query->component_mask;
	uint32_t source_count, dest_count;
	uint16_t *slids, *dlids;
	struct sa_path asked;

	sa_path_decode(&asked, query->record);
	source_count = ends_find(subnet, &asked, mask, true, &slids);
	dest_count = ends_find(subnet, &asked, mask, false, &dlids);
	if (slids && dlids)
		paths_add(subnet, &asked, mask, slids, source_count, dlids, dest_count, records);
	free(slids);
	free(dlids);
	if (!slids || !dlids)
		return SA_STATUS_NO_RESOURCES;
	/* A Get returns one path, and any will do. */
	if (query->method == MAD_METHOD_GET && records->count > 1)
		records->count = 1;
	return MAD_STATUS_OK;
}

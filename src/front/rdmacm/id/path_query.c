/* SPDX-License-Identifier: BSD-2-Clause */
#include "front/rdmacm/id/path_query.h"

#include <errno.h>
#include <string.h>

#include "front/rdmacm/device.h"
#include "front/rdmacm/id/event_cause.h"
#include "front/rdmacm/infiniband.h"
#include "wire/infiniband/sa_record.h"

enum { QUERY_MS_MIN = 100 };

static struct id *id_of_query(struct nic_fabric_query *query)
{
	return container_of(query, struct id, query);
}

static enum event_cause address_cause(int error)
{
	switch (error) {
	case -ETIMEDOUT:
		return CAUSE_ADDRESS_SILENT;
	case -ENETDOWN:
		return CAUSE_ADDRESS_CUT_OFF;
	case -EHOSTUNREACH:
		return CAUSE_ADDRESS_UNKNOWN;
	default:
		return CAUSE_ADDRESS_INVALID;
	}
}

static enum event_cause route_cause(int error)
{
	switch (error) {
	case -ETIMEDOUT:
		return CAUSE_ROUTE_SILENT;
	case -ENETDOWN:
		return CAUSE_ROUTE_CUT_OFF;
	case -EHOSTUNREACH:
		return CAUSE_ROUTE_UNKNOWN;
	default:
		return CAUSE_ROUTE_INVALID;
	}
}

static void on_address(struct nic_fabric_query *query, int error, const uint8_t *record)
{
	struct id *id = id_of_query(query);
	struct sa_path path;

	if (error) {
		id_fail(id, address_cause(error), error, NULL);
		return;
	}
	sa_path_decode(&path, record);
	memcpy(id->path.remote.raw, path.dgid, sizeof(path.dgid));
	id->path.ib.pkey = path.pkey;
	id_post(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

static void on_route(struct nic_fabric_query *query, int error, const uint8_t *record)
{
	struct id *id = id_of_query(query);
	struct sa_path path;

	if (error) {
		id_fail(id, route_cause(error), error, NULL);
		return;
	}
	sa_path_decode(&path, record);
	id->path.ib.sl = path.sl;
	id->path.ib.slid = path.slid;
	id->path.ib.dlid = path.dlid;
	id->path.ib.pkey = path.pkey;
	id->path_mtu = path.mtu;
	id->path_rate = path.rate;
	id_post(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

static uint32_t query_ms(int timeout_ms)
{
	return timeout_ms > QUERY_MS_MIN ? (uint32_t)timeout_ms : QUERY_MS_MIN;
}

int path_query_address(struct id *id, const struct sockaddr *remote, int timeout_ms)
{
	uint16_t lid;
	int rc = infiniband_destination(remote, &id->path.remote, &lid);

	id->path.traffic_class = id->tos;
	id->path.ib = (struct cm_path_ib){.port = DEVICE_PORT};
	if (rc || !lid)
		return rc;
	id->state = ID_RESOLVING;
	id->query.on_answer = on_address;
	rc = nic_fabric_query_path(&id->query, DEVICE_PORT, NULL, lid, query_ms(timeout_ms));
	if (rc)
		id->state = ID_BOUND;
	return rc ? rc : -EINPROGRESS;
}

int path_query_route(struct id *id, int timeout_ms)
{
	int rc = id_path_alloc(id);

	if (rc)
		return rc;
	id->state = ID_ROUTING;
	id->query.on_answer = on_route;
	rc = nic_fabric_query_path(
		&id->query, DEVICE_PORT, &id->path.remote, 0, query_ms(timeout_ms));
	if (rc) {
		id->state = ID_ADDRESS_RESOLVED;
		id_report_failure(id, REASON_CM_ADDRESS, "its port has no subnet manager");
	}
	return rc;
}

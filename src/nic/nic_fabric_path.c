/* SPDX-License-Identifier: BSD-2-Clause */
/* Queries to the subnet administrator (IBTA 15.2). */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/arith.h"
#include "fabricd/client/fabric_client.h"
#include "nic/nic_fabric.h"
#include "nic/nic_internal.h"
#include "os/clock.h"
#include "wire/bytes.h"
#include "wire/infiniband/mad.h"
#include "wire/infiniband/rmpp.h"
#include "wire/infiniband/sa_record.h"

enum {
	QUERY_MS = 200, /* until the first repetition */
	MAD_CLASS_BYTE = 1,
	MAD_METHOD_BYTE = 3,
	MAD_STATUS = 4,
	MAD_ATTRIBUTE = 16,
};

/* A query that waits for its answer. */
struct query {
	int socket;
	struct attach_mad head;
	uint8_t mad[MAD_BYTES];
};

static void query_fill(
	struct query *query, const struct sa_path *path, uint64_t component_mask)
{
	const struct sa_header sa = {.component_mask = component_mask};

	query->mad[0] = MAD_BASE_VERSION;
	query->mad[MAD_CLASS_BYTE] = MAD_CLASS_SUBN_ADM;
	query->mad[2] = SA_CLASS_VERSION;
	query->mad[MAD_METHOD_BYTE] = MAD_METHOD_GET;
	put_be32(query->mad + 12, (uint32_t)nic_random_u64());
	put_be16(query->mad + MAD_ATTRIBUTE, SA_ATTRIBUTE_PATH);
	sa_header_encode(&sa, query->mad);
	sa_path_encode(path, query->mad + SA_DATA_OFFSET);
}

/* Wait for the answer. Returns 0 or -errno. */
static int answer_await(struct query *query, uint32_t timeout_ms)
{
	uint64_t until_ns = clock_now_ns() + (uint64_t)timeout_ms * 1000000;
	struct pollfd answer = {.fd = query->socket, .events = POLLIN};
	int error;

	while ((error = fabric_mads_receive(query->socket, &query->head, query->mad,
			sizeof(query->mad))) == -EAGAIN) {
		if (clock_now_ns() >= until_ns)
			return -ETIMEDOUT;
		poll(&answer, 1, clock_ms_until(until_ns));
	}
	if (!error && query->head.status)
		error = -(int)query->head.status;
	return error;
}

/* Read the answer. Returns 0 or -errno. */
static int answer_read(const struct query *query, struct sa_path *ret_path)
{
	if (query->head.mad_bytes < MAD_BYTES ||
		query->mad[MAD_CLASS_BYTE] != MAD_CLASS_SUBN_ADM ||
		query->mad[MAD_METHOD_BYTE] != MAD_METHOD_GET_RESP)
		return -EPROTO;
	if (get_be16(query->mad + MAD_STATUS))
		return -EHOSTUNREACH;
	sa_path_decode(ret_path, query->mad + SA_DATA_OFFSET);
	return ret_path->dlid ? 0 : -EHOSTUNREACH;
}

static int query_run(uint32_t port, const struct attach_port *info, uint32_t timeout_ms,
	struct query *query, struct sa_path *ret_path)
{
	struct attach_agent agent = {
		.port = port,
		.management_class = MAD_CLASS_SUBN_ADM,
		.class_version = SA_CLASS_VERSION,
		.qpn = GSI_QPN,
	};
	uint32_t opening;
	int error;

	query->socket = fabric_mads_open(nic_fabric_client(), port, &opening);
	if (query->socket < 0)
		return query->socket;
	error = fabric_mads_agent_add(nic_fabric_client(), opening, &agent);
	query->head = (struct attach_mad){
		.agent = agent.id,
		.timeout_ms = min_u32(timeout_ms, QUERY_MS),
		.retries = timeout_ms / QUERY_MS,
		.mad_bytes = MAD_BYTES,
		.qpn = GSI_QPN,
		.qkey = GSI_QKEY,
		.lid = info->sm_lid,
		.sl = info->sm_sl,
	};
	if (!error)
		error = fabric_mads_send(query->socket, &query->head, query->mad);
	if (!error)
		error = answer_await(query, timeout_ms);
	if (!error)
		error = answer_read(query, ret_path);
	close(query->socket);
	return error;
}

int nic_fabric_path(uint32_t port, const struct gid *dgid, uint16_t dlid, uint32_t timeout_ms,
	struct sa_path *ret_path)
{
	struct query query = {.socket = -1};
	struct sa_path wanted = {.dlid = dlid, .is_reversible = 1, .path_count = 1};
	struct attach_port info;
	struct gid own;
	int error = nic_fabric_port(port, &info);

	if (error)
		return error;
	if (!info.sm_lid || !nic_fabric_gid(&info, 0, &own))
		return -ENETUNREACH;
	memcpy(wanted.sgid, own.raw, sizeof(wanted.sgid));
	if (dgid)
		memcpy(wanted.dgid, dgid->raw, sizeof(wanted.dgid));
	query_fill(&query, &wanted,
		sa_mask_path_sgid | sa_mask_path_is_reversible | sa_mask_path_path_count |
			(dgid ? sa_mask_path_dgid : sa_mask_path_dlid));
	return query_run(port, &info, timeout_ms, &query, ret_path);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of the fabric's process to the subnet administrator, each from a port of a host. */
#include <errno.h>
#include <string.h>

#include "base/arith.h"
#include "fabricd/server/server_internal.h"

static void answer_take(struct agent_owner *owner, const struct mad_address *peer, int status,
	const uint8_t *bytes, uint32_t count)
{
	struct server_port *port = container_of(owner, struct server_port, sa_owner);

	(void)peer;
	/* deliver_mad() passes answers about multicast groups to membership_answer(). */
	service_levels_answer(port, status, bytes, count);
}

/* Make the port's agent for requests, if it has none. Returns 0 or -errno. */
static int agent_make(struct server_port *port)
{
	const struct mad_agent_spec spec = {
		.management_class = MAD_CLASS_SUBN_ADM,
		.class_version = SA_CLASS_VERSION,
		.has_rmpp = true,
		.qpn = GSI_QPN,
	};
	int rc = server_port_mads(port);

	if (rc || port->sa_agent)
		return rc;
	port->sa_owner.take = answer_take;
	return mad_agent_add(port->mads, &spec, &port->sa_owner, &port->sa_agent);
}

int sa_request_send(
	struct server_port *port, const struct sa_request *request, uint32_t *ret_transaction)
{
	struct fabric_server *server = port->server;
	const struct sa_header sa = {.component_mask = request->component_mask};
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.management_class = MAD_CLASS_SUBN_ADM,
		.class_version = SA_CLASS_VERSION,
		.method = (uint8_t)request->method,
		.attribute_id = request->attribute_id,
		.transaction_id = ++server->sa_requests,
	};
	uint8_t mad[MAD_BYTES] = {0};
	struct attach_port info;
	int rc;

	server_port_describe(port, &info);
	if (!info.sm_lid)
		return -ENETUNREACH;
	rc = agent_make(port);
	if (rc)
		return rc;
	const struct mad_address to = {
		.qpn = GSI_QPN, .qkey = GSI_QKEY, .lid = info.sm_lid, .sl = info.sm_sl};

	mad_header_encode(&header, mad);
	sa_header_encode(&sa, mad);
	memcpy(mad + SA_DATA_OFFSET, request->record, sizeof(request->record));
	*ret_transaction = server->sa_requests;
	rc = mad_agent_send(port->sa_agent, &to, mad, sizeof(mad), request->timeout_ms,
		request->retries, server->now_ns);
	server_arrivals_run(server);
	return rc;
}

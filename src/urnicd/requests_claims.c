/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests for claims of service IDs. */
#include <errno.h>

#include "urnicd/privilege.h"
#include "urnicd/request_handlers.h"
#include "wire/cm/cm_message.h"

enum { SURVIVOR_MS = 10000 /* time for survivors of the last urnicd to repeat their claims */ };

/*
 * A survivor that had a low port may repeat its claim, though it may have dropped its privileges
 * since.
 */
static bool may_claim_low_ports(const struct server *server, const struct client *client)
{
	return (client->had_low_port && server_now_ms() < server->started_at_ms + SURVIVOR_MS) ||
		privilege_has_low_ports(client->pid, client->uid, client->pidfd);
}

/* Remember for the next urnicd that the client had a low port. */
static void note_low_port(struct server *server, const struct client *client)
{
	for (unsigned slot = 1; slot < AGENT_SLOTS; slot++) {
		struct slot_lease *lease = &server->slots.leases[slot];

		if (!agent_slots_has(&client->slots, (uint8_t)slot) || lease->has_low_port)
			continue;
		lease->has_low_port = true;
		server_note_lease(server, (uint8_t)slot);
	}
}

int request_handle_claim(struct request *request)
{
	struct server *server = request->server;
	const struct claim wanted = {
		.client = (uint32_t)(request->client - server->clients),
		.id = request->message.claim.id,
		.service_id = request->message.claim.service_id,
		.address = request->message.claim.address,
		.flags = request->message.claim.flags,
		.made_ms = server_now_ms(),
	};
	uint16_t port = ip_cm_service_port(wanted.service_id);
	uint32_t before = server->claims.count;
	uint64_t service_id;
	bool is_new;
	int rc;

	if (server->has_survivors && !server_has_waited(server))
		return REQUEST_LATER;
	is_new = !claim_table_has(&server->claims, wanted.client, wanted.id);
	if (is_new && port && port < PRIVILEGED_PORTS &&
		!may_claim_low_ports(server, request->client))
		return request_refuse(request, -EACCES,
			"port %u is below %d: it needs CAP_NET_BIND_SERVICE in the user namespace "
			"that owns the network namespace",
			port, PRIVILEGED_PORTS);
	rc = is_new ? request_check_quota(request, QUOTA_CLAIMS) : 0;
	if (rc)
		return rc;
	rc = claim_table_put(&server->claims, &wanted, &service_id);
	if (rc) {
		server->counters.claims_refused++;
		return request_refuse(request, rc,
			rc == -ENOSPC ? "all ports are in use"
				      : "another program has port %u already",
			(unsigned)(uint16_t)wanted.service_id);
	}
	if (port && port < PRIVILEGED_PORTS)
		note_low_port(server, request->client);
	request->client->claims += server->claims.count - before;
	server->counters.claims_made++;
	request_answer(request)->claim.service_id = service_id;
	return 0;
}

int request_handle_unclaim(struct request *request)
{
	struct server *server = request->server;
	uint32_t before = server->claims.count;

	claim_table_drop(&server->claims, (uint32_t)(request->client - server->clients),
		request->message.unclaim.id, server_now_ms());
	request->client->claims -= before - server->claims.count;
	request_answer(request);
	return 0;
}

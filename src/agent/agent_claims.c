/* SPDX-License-Identifier: BSD-2-Clause */
/* Claims: service IDs that urnicd keeps for this process. */
#include <errno.h>

#include "agent/agent_exchange.h"
#include "os/log.h"
#include "wire/cm/cm_message.h"

static void claim_message(const struct agent_claim *claim, struct agent_message *ret_message)
{
	*ret_message = (struct agent_message){
		.type = AGENT_CLAIM,
		.claim =
			{
				.service_id = claim->service_id,
				.address = claim->address,
				.id = claim->id,
				.flags = claim->flags,
			},
	};
}

static struct agent_claim *claim_find(const struct agent_client *client, uint32_t id)
{
	list_for_each(claim, &client->claims, struct agent_claim, node)
		if (claim->id == id)
			return claim;
	return NULL;
}

static struct agent_claim *claim_unrepeated(const struct agent_client *client)
{
	list_for_each(claim, &client->claims, struct agent_claim, node)
		if (!claim->is_repeated)
			return claim;
	return NULL;
}

/* Log that another process claimed the service ID before this process could repeat its claim. */
static void claim_report(const struct agent_client *client, const struct agent_claim *claim)
{
	if (claim->flags & AGENT_CLAIM_LISTENS)
		log_write(LOG_ERROR,
			"urnicd has died, and the next one cannot give this process its port %u of "
			"rdma_cm again (%s): the listener gets no more requests; close it, and listen "
			"again when the port is free",
			ip_cm_service_port(claim->service_id), client->why);
}

/*
 * A new urnicd does not know the claims of its predecessor, so it gives a port to the first process
 * that claims it. Another thread may remove a claim from the list while this thread waits, so look
 * the claim up again.
 */
int agent_claims_repeat(struct agent_client *client)
{
	struct agent_claim *claim;

	list_for_each(each, &client->claims, struct agent_claim, node)
		each->is_repeated = false;
	while ((claim = claim_unrepeated(client))) {
		struct passed_fds descriptors;
		struct agent_message message;
		uint32_t id = claim->id;
		int rc;

		claim->is_repeated = true;
		claim_message(claim, &message);
		rc = agent_exchange(client, &message, NULL, 0, &descriptors);
		if (rc == -ECONNRESET || rc == -ETIMEDOUT)
			return rc;
		if (rc == 0)
			passed_fds_close(&descriptors);
		else if ((claim = claim_find(client, id)))
			claim_report(client, claim);
	}
	return 0;
}

int agent_client_claim(struct agent_client *client, struct agent_claim *claim)
{
	struct agent_message unclaim = {.type = AGENT_UNCLAIM}, message;
	bool is_new = claim->id == 0;
	int rc;

	if (is_new) {
		claim->id = ++client->claims_made;
		list_init(&claim->node);
	}
	claim_message(claim, &message);
	rc = agent_request(client, &message, NULL, 0);
	if (rc) {
		/* urnicd may still execute the request, so return the claim. */
		unclaim.unclaim.id = claim->id;
		if (is_new && rc == -ETIMEDOUT)
			agent_send_only(client, &unclaim);
		if (is_new)
			claim->id = 0;
		return rc;
	}
	claim->service_id = message.claim.service_id;
	if (is_new)
		list_append(&client->claims, &claim->node);
	return 0;
}

void agent_client_unclaim(struct agent_client *client, struct agent_claim *claim, bool may_wait)
{
	struct agent_message message = {.type = AGENT_UNCLAIM, .unclaim.id = claim->id};

	if (claim->id == 0)
		return;
	list_remove(&claim->node);
	claim->id = 0;
	if (may_wait)
		agent_give_back(client, &message);
	else
		agent_send_only(client, &message);
}

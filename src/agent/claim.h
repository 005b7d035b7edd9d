/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_AGENT_CLAIM_H
#define URNIC_AGENT_CLAIM_H

/*
 * Who has which service ID: the ports of the RDMA port spaces, shared by all processes of the network namespace.
 *
 * A claim is (service ID, local address or any). The rules are those of the kernel's rdma_cm: two claims of one port exclude each other
 * when their addresses are equal, or one is any address of a family that the other belongs to; unless both say that they share, and
 * then one of them may listen. A plain array, bounded; pure.
 */

#include <stdint.h>

#include "runtime/agent_protocol.h"

struct claim {
	uint32_t client; /* index */
	uint32_t id; /* the client's name for it */
	uint64_t service_id;
	struct agent_address address; /* zero, or the zero address of IPv4: any */
	uint32_t flags; /* enum agent_claim_flags */
};

struct claim_table {
	uint32_t count;
	uint32_t last_port; /* ephemeral, handed out */
	struct claim claims[AGENT_CLAIMS_MAX];
};

/*
 * Add a claim, or change the one with this client and id. With port 0 a free port is chosen, 32768 and up.
 *
 * Returns 0 and the service ID; -EADDRINUSE; -EADDRNOTAVAIL where any address is involved; -ENOSPC.
 */
int claim_table_put(
	struct claim_table *table, const struct claim *wanted, uint64_t *ret_service_id);

/* Nothing happens if there is none. */
void claim_table_drop(struct claim_table *table, uint32_t client, uint32_t id);
void claim_table_drop_client(struct claim_table *table, uint32_t client);

/* Who listens at (service ID, address): one address before any. NULL: nobody. */
const struct claim *claim_table_listener(
	const struct claim_table *table, uint64_t service_id, const struct agent_address *address);

#endif

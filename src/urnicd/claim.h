/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_CLAIM_H
#define URNIC_URNICD_CLAIM_H

/*
 * Who has which service ID: the ports of the RDMA port spaces, shared by all processes of the
 * network namespace.
 *
 * A claim is (service ID, local address or any). The rules are those of the kernel's rdma_cm: two
 * claims of one port exclude each other when their addresses are equal, or one is any address of a
 * family that the other belongs to; unless both say that they share, and then one of them may
 * listen. An array, bounded, indexed by port and by who has the claim; pure.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_protocol.h"

struct claim {
	uint32_t client; /* index */
	uint32_t id; /* the client's name for it */
	uint64_t service_id;
	struct agent_address address; /* zero, or the zero address of IPv4: any */
	uint32_t flags; /* enum agent_claim_flags */
	uint64_t made_ms; /* when */
};

enum {
	CLAIM_RECENT_COUNT = 64,
	CLAIM_RECENT_MS = 3000, /* a busy machine may take its time */
	CLAIM_PORTS = 1 << 16, /* of whatever port space */
	CLAIM_OWNERS = 1 << 13, /* hashes of (client, id) */
};

struct claim_table {
	uint32_t count;
	uint32_t recent_next;
	struct claim_recent {
		uint64_t service_id;
		uint64_t until_ms;
	} recent[CLAIM_RECENT_COUNT]; /* listeners that were given up just now */
	uint32_t last_port; /* ephemeral, handed out */
	/* Chains of places in `claims`, each plus one: 0 ends a chain. */
	uint16_t port_first[CLAIM_PORTS];
	uint16_t port_next[AGENT_CLAIMS_MAX];
	uint16_t owner_first[CLAIM_OWNERS];
	uint16_t owner_next[AGENT_CLAIMS_MAX];
	struct claim claims[AGENT_CLAIMS_MAX]; /* the first `count` */
};

/*
 * Add a claim, or change the one with this client and id. With port 0 a free port is chosen, 32768
 * and up.
 *
 * Returns 0 and the service ID; -EADDRINUSE; -EADDRNOTAVAIL where any address is involved; -ENOSPC.
 */
int claim_table_put(
	struct claim_table *table, const struct claim *wanted, uint64_t *ret_service_id);

/* Has the client a claim of this id? */
bool claim_table_has(const struct claim_table *table, uint32_t client, uint32_t id);

/* Nothing happens if there is none. `now_ms`: of any clock, the same in all calls. */
void claim_table_drop(struct claim_table *table, uint32_t client, uint32_t id, uint64_t now_ms);
void claim_table_drop_client(struct claim_table *table, uint32_t client);

/* Is there a claim of just this address? */
bool claim_table_has_address(const struct claim_table *table, const struct agent_address *address);

/* Who listens at (service ID, address): one address before any. NULL: nobody. */
const struct claim *claim_table_listener(
	const struct claim_table *table, uint64_t service_id, const struct agent_address *address);

/*
 * Nobody listens there: is somebody likely to, in a moment? A port that was claimed, or whose
 * listener ended, less than CLAIM_RECENT_MS ago. Programs tell their port and only then listen
 * (qperf), or accept one connection, close the listener and listen anew for the next (ib_send_lat
 * -R), with -c UD in another port space, while the other end is connecting already: whoever asks in
 * between is better left to ask once more than refused. So the port counts, and not the port space.
 */
bool claim_table_expects(const struct claim_table *table, uint64_t service_id, uint64_t now_ms);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_URNICD_CLAIM_H
#define URNIC_URNICD_CLAIM_H

/*
 * The claimed service IDs: ports of the RDMA port spaces, which all processes of the network
 * namespace share.
 *
 * A claim has a service ID and a local address, which may be "any address". The rules are those of
 * the kernel's rdma_cm. Two claims of one port exclude each other when their addresses are equal,
 * or one is the zero address of the other's family. If both have AGENT_CLAIM_SHARES, both may
 * exist, but only one may listen.
 *
 * The table is a bounded array with indexes by port and by (client, id). The functions are pure.
 */

#include <stdbool.h>
#include <stdint.h>

#include "agent/agent_protocol.h"

struct claim {
	uint32_t client; /* index of the client in the server's table */
	uint32_t id; /* chosen by the client */
	uint64_t service_id;
	struct agent_address address; /* zero, or the zero address of IPv4, means any */
	uint32_t flags; /* enum agent_claim_flags */
	uint64_t made_ms; /* time of the request that made the claim */
};

enum {
	CLAIM_RECENT_COUNT = 64,
	CLAIM_PORTS = 1 << 16, /* chains by port; the same port of all port spaces has one chain */
	CLAIM_OWNERS = 1 << 13, /* chains by the hash of (client, id) */
};

struct claim_table {
	uint32_t count;
	uint32_t recent_next;
	struct claim_recent {
		uint64_t service_id;
		uint64_t until_ms;
	} recent[CLAIM_RECENT_COUNT]; /* the last dropped claims of listeners */
	uint32_t last_port; /* the ephemeral port chosen last */
	/* Chains of places in `claims`. A number is a place plus one; 0 ends the chain. */
	uint16_t port_first[CLAIM_PORTS];
	uint16_t port_next[AGENT_CLAIMS_MAX];
	uint16_t owner_first[CLAIM_OWNERS];
	uint16_t owner_next[AGENT_CLAIMS_MAX];
	struct claim claims[AGENT_CLAIMS_MAX]; /* the first `count` entries are in use */
};

/*
 * Add a claim, or change the claim with this client and id. For port 0 the table chooses a free
 * port from 32768 up.
 *
 * Returns 0 and the service ID; -EADDRINUSE for another claim of the port, or -EADDRNOTAVAIL if one
 * of the two is for any address; -ENOSPC when the table is full, or no port is free.
 */
int claim_table_put(
	struct claim_table *table, const struct claim *wanted, uint64_t *ret_service_id);

/* Has the client a claim with this id? */
bool claim_table_has(const struct claim_table *table, uint32_t client, uint32_t id);

/*
 * Drop a claim, if it exists. `now_ms`: the time of any clock, but of the same clock in all calls.
 */
void claim_table_drop(struct claim_table *table, uint32_t client, uint32_t id, uint64_t now_ms);
void claim_table_drop_client(struct claim_table *table, uint32_t client);

/* Is there a claim of exactly this address? */
bool claim_table_has_address(const struct claim_table *table, const struct agent_address *address);

/* The listener at (service ID, address); a claim of that very address is preferred. NULL: none. */
const struct claim *claim_table_listener(
	const struct claim_table *table, uint64_t service_id, const struct agent_address *address);

/*
 * For a port without a listener: is a program likely to listen soon? True for
 * CM_LISTENER_EXPECTED_MS after a claim of the port or the end of a listener.
 *
 * A program may publish its port before it listens (qperf), or close its listener after each
 * connection and listen anew (ib_send_lat -R; with -c UD in another port space). urnicd does not
 * answer a request that arrives in between, so that its sender retries. The function ignores the
 * port space.
 */
bool claim_table_expects(const struct claim_table *table, uint64_t service_id, uint64_t now_ms);

#endif

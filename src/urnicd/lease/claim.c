/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/lease/claim.h"

#include <errno.h>
#include <stddef.h>

#include "cm/cm.h"

enum {
	EPHEMERAL_FIRST = 32768,
	EPHEMERAL_COUNT = 28232, /* to 60999, the kernel's default range */
};

static bool is_ipv6_only(const struct claim *claim)
{
	return claim->flags & AGENT_CLAIM_IPV6_ONLY;
}

static bool claim_includes(const struct claim *claim, const struct agent_address *address)
{
	return cm_address_matches(&claim->address.gid, claim->address.scope_ifindex,
		is_ipv6_only(claim), &address->gid, address->scope_ifindex);
}

/* Is the claim for an IPv4 address, or for any IPv4 address? */
static bool is_ipv4_only(const struct claim *claim)
{
	return gid_is_ipv4(&claim->address.gid);
}

/* Returns 0, or the -errno of the rule by which one claim excludes the other. */
static int claim_conflict(const struct claim *a, const struct claim *b)
{
	bool is_any = cm_address_is_any(&a->address.gid) || cm_address_is_any(&b->address.gid);

	if (a->service_id != b->service_id)
		return 0;
	if (a->flags & b->flags & AGENT_CLAIM_SHARES &&
		!(a->flags & b->flags & AGENT_CLAIM_LISTENS))
		return 0;
	if (!is_any)
		return claim_includes(a, &b->address) ? -EADDRINUSE : 0;
	/* One claim is for IPv4 only, and the other one for IPv6 only. */
	if ((is_ipv4_only(a) && is_ipv6_only(b)) || (is_ipv6_only(a) && is_ipv4_only(b)))
		return 0;
	if (is_ipv4_only(a) != is_ipv4_only(b) && !gid_is_zero(&a->address.gid) &&
		!gid_is_zero(&b->address.gid))
		return 0;
	return -EADDRNOTAVAIL;
}

static uint16_t *port_chain(struct claim_table *table, uint64_t service_id)
{
	return &table->port_first[ip_cm_service_port(service_id)];
}

static uint32_t owner_hash(uint32_t client, uint32_t id)
{
	return (client * 0x9e3779b1u ^ id) % CLAIM_OWNERS;
}

static void chain_add(uint16_t *first, uint16_t *next, uint32_t place)
{
	next[place] = *first;
	*first = (uint16_t)(place + 1);
}

static void chain_remove(uint16_t *first, uint16_t *next, uint32_t place)
{
	while (*first != place + 1)
		first = &next[*first - 1];
	*first = next[place];
}

/* Add the claim at this place to both indexes. */
static void index_add(struct claim_table *table, uint32_t place)
{
	const struct claim *claim = &table->claims[place];

	chain_add(port_chain(table, claim->service_id), table->port_next, place);
	chain_add(&table->owner_first[owner_hash(claim->client, claim->id)], table->owner_next,
		place);
}

static void index_remove(struct claim_table *table, uint32_t place)
{
	const struct claim *claim = &table->claims[place];

	chain_remove(port_chain(table, claim->service_id), table->port_next, place);
	chain_remove(&table->owner_first[owner_hash(claim->client, claim->id)], table->owner_next,
		place);
}

/* Remove the claim at `place`, and move the last claim there. */
static void remove_at(struct claim_table *table, uint32_t place)
{
	uint32_t last = table->count - 1;

	index_remove(table, place);
	if (place != last) {
		index_remove(table, last);
		table->claims[place] = table->claims[last];
		index_add(table, place);
	}
	table->count--;
}

/* The place of a claim; table->count: there is none. */
static uint32_t place_of(const struct claim_table *table, uint32_t client, uint32_t id)
{
	uint32_t i = table->owner_first[owner_hash(client, id)];

	for (; i; i = table->owner_next[i - 1])
		if (table->claims[i - 1].client == client && table->claims[i - 1].id == id)
			return i - 1;
	return table->count;
}

static struct claim *claim_find(struct claim_table *table, uint32_t client, uint32_t id)
{
	uint32_t place = place_of(table, client, id);

	return place < table->count ? &table->claims[place] : NULL;
}

bool claim_table_has(const struct claim_table *table, uint32_t client, uint32_t id)
{
	return place_of(table, client, id) < table->count;
}

/* The first claim of a port, and the next one; NULL: there is none. */
static const struct claim *port_first(const struct claim_table *table, uint64_t service_id)
{
	uint32_t i = table->port_first[ip_cm_service_port(service_id)];

	return i ? &table->claims[i - 1] : NULL;
}

static const struct claim *port_next(const struct claim_table *table, const struct claim *claim)
{
	uint32_t i = table->port_next[claim - table->claims];

	return i ? &table->claims[i - 1] : NULL;
}

/* Returns 0 when `wanted` is compatible with all other claims; else as claim_conflict(). */
static int claim_check(const struct claim_table *table, const struct claim *wanted)
{
	for (const struct claim *other = port_first(table, wanted->service_id); other;
		other = port_next(table, other)) {
		int rc;

		if (other->client == wanted->client && other->id == wanted->id)
			continue;
		rc = claim_conflict(other, wanted);
		if (rc)
			return rc;
	}
	return 0;
}

/* Choose ports in turn, so that a port stays unused for a while after its claim was dropped. */
static int choose_port(struct claim_table *table, struct claim *wanted)
{
	uint64_t space = wanted->service_id & ~(uint64_t)0xffff;

	for (uint32_t i = 1; i <= EPHEMERAL_COUNT; i++) {
		uint32_t port = (table->last_port + i) % EPHEMERAL_COUNT;

		wanted->service_id = space | (EPHEMERAL_FIRST + port);
		if (claim_check(table, wanted) == 0) {
			table->last_port = port;
			return 0;
		}
	}
	return -ENOSPC;
}

int claim_table_put(struct claim_table *table, const struct claim *wanted, uint64_t *ret_service_id)
{
	struct claim claim = *wanted;
	struct claim *old = claim_find(table, wanted->client, wanted->id);
	int rc;

	if (!old && table->count == AGENT_CLAIMS_MAX)
		return -ENOSPC;
	rc = ip_cm_service_port(claim.service_id) == 0 ? choose_port(table, &claim)
						       : claim_check(table, &claim);
	if (rc)
		return rc;
	if (!old) {
		old = &table->claims[table->count++];
	} else {
		claim.made_ms = old->made_ms;
		index_remove(table, (uint32_t)(old - table->claims));
	}
	*old = claim;
	index_add(table, (uint32_t)(old - table->claims));
	*ret_service_id = claim.service_id;
	return 0;
}

void claim_table_drop(struct claim_table *table, uint32_t client, uint32_t id, uint64_t now_ms)
{
	struct claim *claim = claim_find(table, client, id);

	if (!claim)
		return;
	if (claim->flags & AGENT_CLAIM_LISTENS)
		table->recent[table->recent_next++ % CLAIM_RECENT_COUNT] =
			(struct claim_recent){.service_id = claim->service_id,
				.until_ms = now_ms + CM_LISTENER_EXPECTED_MS};
	remove_at(table, (uint32_t)(claim - table->claims));
}

/* Do both service IDs name the same port, in any port space? */
static bool has_port_of(uint64_t service_id, uint64_t other)
{
	return ip_cm_service_port(service_id) == ip_cm_service_port(other);
}

bool claim_table_expects(const struct claim_table *table, uint64_t service_id, uint64_t now_ms)
{
	for (uint32_t i = 0; i < CLAIM_RECENT_COUNT; i++)
		if (has_port_of(table->recent[i].service_id, service_id) &&
			now_ms < table->recent[i].until_ms)
			return true;
	for (const struct claim *claim = port_first(table, service_id); claim;
		claim = port_next(table, claim))
		if (now_ms - claim->made_ms < CM_LISTENER_EXPECTED_MS)
			return true;
	return false;
}

void claim_table_drop_client(struct claim_table *table, uint32_t client)
{
	for (uint32_t i = 0; i < table->count;) {
		if (table->claims[i].client == client)
			remove_at(table, i);
		else
			i++;
	}
}

const struct claim *claim_table_listener(
	const struct claim_table *table, uint64_t service_id, const struct agent_address *address)
{
	const struct claim *best = NULL;

	for (const struct claim *claim = port_first(table, service_id); claim;
		claim = port_next(table, claim)) {
		if (claim->service_id != service_id || !(claim->flags & AGENT_CLAIM_LISTENS) ||
			!claim_includes(claim, address))
			continue;
		if (!best || gid_is_equal(&claim->address.gid, &address->gid))
			best = claim;
	}
	return best;
}

bool claim_table_has_address(const struct claim_table *table, const struct agent_address *address)
{
	for (uint32_t i = 0; i < table->count; i++)
		if (gid_is_equal(&table->claims[i].address.gid, &address->gid))
			return true;
	return false;
}

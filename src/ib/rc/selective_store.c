/* SPDX-License-Identifier: BSD-2-Clause */
#include "ib/rc/selective_store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct selective_store {
	uint32_t packets; /* length of `entries` */
	uint32_t touched; /* entries before this index were used at least once */
	uint32_t count; /* entries that are in use */
	struct selective_entry *free; /* entries that were used and given back */
	struct selective_entry entries[];
};

struct selective_store *selective_store_create(uint32_t packets)
{
	struct selective_store *store =
		calloc(1, sizeof(*store) + packets * sizeof(struct selective_entry));

	if (store)
		store->packets = packets;
	return store;
}

void selective_store_destroy(struct selective_store *store)
{
	assert(!store || !store->count);
	free(store);
}

uint32_t selective_store_count(const struct selective_store *store)
{
	return store->count;
}

/* Prefer an entry that was used before, because its pages exist. NULL: the store is full. */
static struct selective_entry *entry_take(struct selective_store *store)
{
	struct selective_entry *entry = store->free;

	if (entry)
		store->free = entry->next;
	else if (store->touched < store->packets)
		entry = &store->entries[store->touched++];
	if (entry)
		store->count++;
	return entry;
}

/* Packets mostly arrive in order, so try the end of the queue first. */
static void entry_insert(struct selective_queue *queue, struct selective_entry *entry)
{
	struct psn psn = entry->packet.bth.psn;
	struct selective_entry **place = &queue->first;

	if (queue->last && psn_before(queue->last->packet.bth.psn, psn))
		place = &queue->last->next;
	while (*place && psn_before((*place)->packet.bth.psn, psn))
		place = &(*place)->next;
	entry->next = *place;
	*place = entry;
	if (!entry->next)
		queue->last = entry;
}

bool selective_queue_add(struct selective_queue *queue, struct selective_store *store,
	const struct packet *packet, uint32_t ahead, uint32_t count)
{
	struct selective_entry *entry;

	if (ahead >= SELECTIVE_PACKETS_MAX || packet->payload_bytes > SELECTIVE_PAYLOAD_BYTES_MAX)
		return false;
	if (selective_map_has(&queue->map, ahead))
		return true;
	entry = entry_take(store);
	if (!entry)
		return false;
	entry->packet = *packet;
	entry->packet.payload = entry->payload;
	if (packet->payload_bytes)
		memcpy(entry->payload, packet->payload, packet->payload_bytes);
	entry_insert(queue, entry);
	for (uint32_t i = 0; i < count && ahead + i < SELECTIVE_PACKETS_MAX; i++)
		selective_map_set(&queue->map, ahead + i);
	return true;
}

static void first_drop(struct selective_queue *queue, struct selective_store *store)
{
	struct selective_entry *entry = queue->first;

	queue->first = entry->next;
	if (!queue->first)
		queue->last = NULL;
	entry->next = store->free;
	store->free = entry;
	store->count--;
}

void selective_queue_advance(struct selective_queue *queue, struct selective_store *store,
	struct psn expected, uint32_t count)
{
	while (queue->first && psn_before(queue->first->packet.bth.psn, expected))
		first_drop(queue, store);
	if (queue->first)
		selective_map_shift(&queue->map, count);
	else
		queue->map = (struct selective_map){{0, 0}};
}

const struct packet *selective_queue_take(
	struct selective_queue *queue, struct selective_store *store, struct psn expected)
{
	struct selective_entry *entry = queue->first;

	if (!entry || !psn_equal(entry->packet.bth.psn, expected))
		return NULL;
	first_drop(queue, store);
	if (queue->first)
		queue->map.bits[0] &= ~(UINT64_C(1) << 63);
	else
		queue->map = (struct selective_map){{0, 0}};
	return &entry->packet;
}

void selective_queue_clear(struct selective_queue *queue, struct selective_store *store)
{
	while (queue->first)
		first_drop(queue, store);
	queue->map = (struct selective_map){{0, 0}};
}

void selective_queue_check(const struct selective_queue *queue, struct psn expected)
{
	const struct selective_entry *before = NULL;

	for (const struct selective_entry *entry = queue->first; entry; entry = entry->next) {
		int32_t ahead = psn_diff(entry->packet.bth.psn, expected);

		assert(ahead > 0 && selective_map_has(&queue->map, (uint32_t)ahead));
		assert(!before || psn_before(before->packet.bth.psn, entry->packet.bth.psn));
		before = entry;
	}
	assert(queue->last == before);
	assert(queue->first || selective_map_is_empty(&queue->map));
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "fabric/packet.h"

#include <stdlib.h>

#include "base/arith.h"

enum { CHUNK_PACKETS = 64 };

struct packet_chunk {
	struct packet_chunk *next;
};

static uint64_t packet_stride(const struct packet_pool *pool)
{
	return align_up_u64(sizeof(struct fabric_packet) + pool->data_capacity, 64);
}

static bool pool_grow(struct packet_pool *pool)
{
	uint64_t stride = packet_stride(pool);
	struct packet_chunk *chunk = (struct packet_chunk *)calloc(CHUNK_PACKETS + 1, stride);

	if (!chunk)
		return false;
	chunk->next = pool->chunks;
	pool->chunks = chunk;
	for (uint32_t i = CHUNK_PACKETS; i; i--) {
		struct fabric_packet *packet =
			(struct fabric_packet *)(void *)((uint8_t *)chunk + i * stride);

		packet->next = pool->free;
		pool->free = packet;
	}
	return true;
}

struct fabric_packet *packet_pool_take(struct packet_pool *pool)
{
	struct fabric_packet *packet;

	if (!pool->free && !pool_grow(pool))
		return NULL;
	packet = pool->free;
	pool->free = packet->next;
	pool->used++;
	*packet = (struct fabric_packet){0};
	return packet;
}

void packet_pool_return(struct packet_pool *pool, struct fabric_packet *packet)
{
	packet->next = pool->free;
	pool->free = packet;
	pool->used--;
}

void packet_pool_done(struct packet_pool *pool)
{
	while (pool->chunks) {
		struct packet_chunk *chunk = pool->chunks;

		pool->chunks = chunk->next;
		free(chunk);
	}
	pool->free = NULL;
}

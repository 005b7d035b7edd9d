/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef URNIC_IB_RC_SELECTIVE_STORE_H
#define URNIC_IB_RC_SELECTIVE_STORE_H

/*
 * Early packets: the responder's half of selective repeat.
 *
 * A packet that arrives before an earlier one is stored, and executed in its turn, as if it had
 * arrived then. So selective repeat changes neither the order of execution nor a check.
 *
 * A lane has one store, for all its queue pairs. The store has SELECTIVE_STORE_PACKETS entries,
 * about 2 MiB; an entry that was never used takes no memory. If the store has no room for a packet,
 * the packet is dropped, and the peer sends it again. A queue pair stores at most the packets that
 * a map covers (wire/selective.h), in a queue of its own in the order of their PSNs.
 *
 * The lane's lock covers all calls. Only selective_store_create() allocates.
 */

#include <stdbool.h>
#include <stdint.h>

#include "wire/packet.h"
#include "wire/selective.h"

enum {
	/* Four queue pairs with a whole window each */
	SELECTIVE_STORE_PACKETS = 4 * SELECTIVE_PACKETS_MAX,
	SELECTIVE_PAYLOAD_BYTES_MAX = 4096, /* the largest MTU */
};

struct selective_store;

struct selective_entry {
	struct selective_entry *next;
	struct packet packet; /* its payload is `payload` */
	uint8_t payload[SELECTIVE_PAYLOAD_BYTES_MAX];
};

/* The early packets of a queue pair; all zero: none. */
struct selective_queue {
	struct selective_entry *first, *last;
	struct selective_map map; /* bit i: the packet `expected` + i is stored */
};

/* A store for `packets` packets; NULL when there is no memory. */
struct selective_store *selective_store_create(uint32_t packets);

/* Destroy the store. All queues are empty. `store` may be NULL. */
void selective_store_destroy(struct selective_store *store);

/* The number of stored packets. */
uint32_t selective_store_count(const struct selective_store *store);

/*
 * Store a copy of a packet.
 *
 * `ahead`  How many packets it is after the expected one, at least 1.
 * `count`  The number of PSNs that it takes, at least 1. PSNs that the map does not cover are not
 *          recorded.
 *
 * Returns false when the packet is too far ahead or too long, or the store is full. Returns true,
 * and does nothing, when the PSN is recorded already.
 */
bool selective_queue_add(struct selective_queue *queue, struct selective_store *store,
	const struct packet *packet, uint32_t ahead, uint32_t count);

/*
 * The responder now expects `expected`, which is `count` PSNs after the packet that it expected
 * before. Drops all packets before that PSN.
 */
void selective_queue_advance(struct selective_queue *queue, struct selective_store *store,
	struct psn expected, uint32_t count);

/*
 * Take the packet with the PSN `expected` out of the queue; NULL when the first packet of the queue
 * has another PSN. The result is valid until the store's next packet is stored.
 */
const struct packet *selective_queue_take(
	struct selective_queue *queue, struct selective_store *store, struct psn expected);

/* Drop all packets. */
void selective_queue_clear(struct selective_queue *queue, struct selective_store *store);

static inline bool selective_queue_is_empty(const struct selective_queue *queue)
{
	return !queue->first;
}

/* Assert the invariants of a queue whose responder expects `expected`. */
void selective_queue_check(const struct selective_queue *queue, struct psn expected);

#endif

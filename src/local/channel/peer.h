/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer on this host: its NIC memory, which this process has mapped, and the memory of its
 * process.
 *
 * This process has mapped all of the peer's NIC memory (queues, tables, channels). Offsets from the
 * directory there lead to all objects. The memory of the peer's program is at addresses of the
 * peer's process. peer_find() turns a key into such a place, with the checks of the peer's
 * responder, on the peer's table. peer_put() and peer_get() move bytes to and from a place: by
 * plain stores and loads if this process has mapped the place (peer_ops.map), else by one system
 * call (peer_ops.write and .read).
 *
 * The peer may change its tables at any time. So the caller sets an in-use mark in the peer's
 * channel (local/channel/channel.h) before the lookup, and clears it when the bytes have moved. The
 * peer's deregistration waits until the mark is clear.
 *
 * This room makes no system calls; the caller passes in the functions that do. Threads: all lanes
 * read a peer; the functions of peer_ops have rules of their own.
 */
#ifndef URNIC_LOCAL_PEER_H
#define URNIC_LOCAL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/mr.h"
#include "queue/cq.h"
#include "queue/waiter.h"

struct peer;

/*
 * The creator of a peer sets these functions. All addresses that they take are of the peer's
 * process.
 */
struct peer_ops {
	/*
	 * Copy to or from the peer's memory. Returns false when the peer has not mapped all of the
	 * bytes, or has ended; then any part of the bytes may have been copied. A write makes the
	 * last bytes visible last (memory/copy.h).
	 */
	bool (*write)(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes);
	bool (*read)(struct peer *peer, uint8_t *to, uint64_t from, size_t bytes);
	/*
	 * The mapping in this process of the region's bytes from `address` on, or NULL when there
	 * is none. *bytes, at least 1, is reduced to the length of that mapping. The function
	 * pointer is NULL if this process maps no memory of peers.
	 */
	uint8_t *(*map)(
		struct peer *peer, const struct mr_slot *region, uint64_t address, uint64_t *bytes);
	/* Wake the thread of the peer's lane, which has something to collect. */
	void (*kick)(struct peer *peer, uint32_t lane);
	/*
	 * Wake the thread that sleeps at `waiter`, or the program that watches the waiter's
	 * descriptor. The caller has already counted the wake-up in the waiter. Returns false if
	 * this process cannot wake the peer.
	 */
	bool (*wake)(struct peer *peer, struct waiter *waiter, enum waiter_state state);
	/* Is the process alive that calls itself `who` in the peer's memory (local_owner.who)? */
	bool (*is_alive)(struct peer *peer, uint32_t who);
};

struct peer {
	uint8_t *base; /* the mapping of the peer's NIC memory in this process: both sides */
	uint64_t bytes; /* the size of the owner's side */
	struct mr_table mrs; /* a view of the peer's table (mr_table_view) */
	const struct peer_ops *ops;
	struct waiter_table *waiters; /* NULL: the peer has no waiters */
};

/* Where some bytes of a region lie. Valid while an in-use mark names the region's key. */
struct peer_place {
	/* Address in this process; NULL: this process has not mapped all of the bytes */
	uint8_t *here;
	/*
	 * Address in the peer's process; if it is 0 and `here` is NULL, the region is a null region
	 */
	uint64_t there;
	const struct mr_slot *region;
};

/* mr_resolve_for() on the peer's table. */
enum mr_fault peer_find(struct peer *peer, uint32_t key, struct mr_user user, uint32_t access,
	uint64_t iova, uint64_t bytes, struct peer_place *ret_place);

/* peer_find(), also for on-demand memory. If pages are missing, peer_put() or peer_get() fails. */
enum mr_fault peer_find_unseen(struct peer *peer, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, uint64_t bytes, struct peer_place *ret_place);

/*
 * Cache what peer_find() has just found for `key`: the piece of the key's region that this process
 * has mapped. The entry is valid for the same struct mr_user, until the key becomes invalid.
 */
void peer_cache(struct peer *peer, uint32_t key, struct mr_cached *ret_cached);

/*
 * peer_find() that first tries `cached`, an entry for the same `user`. If the entry does not cover
 * the range, the call looks the range up, and renews the entry.
 */
static inline enum mr_fault peer_find_cached(struct peer *peer, struct mr_cached *cached,
	uint32_t key, struct mr_user user, uint32_t access, uint64_t iova, uint64_t bytes,
	struct peer_place *ret_place)
{
	enum mr_fault fault;

	ret_place->here = mr_cached_find(cached, key, access | MR_TOUCH, iova, bytes);
	if (ret_place->here)
		return MR_OK;
	fault = peer_find(peer, key, user, access, iova, bytes, ret_place);
	if (!fault && ret_place->here)
		peer_cache(peer, key, cached);
	return fault;
}

/*
 * Copy bytes to or from `place`, starting `offset` bytes into it. Both functions return false when
 * peer_ops.write or .read does.
 */
bool peer_put(struct peer *peer, const struct peer_place *place, uint64_t offset,
	const uint8_t *from, size_t bytes);
bool peer_get(struct peer *peer, const struct peer_place *place, uint64_t offset, uint8_t *to,
	size_t bytes);

/*
 * The caller has published (sequentially consistent) a record whose request will complete in the
 * peer's completion queue `cq`. Wake the peer's waiter, if `cq` is armed for such a completion.
 */
void peer_notify_armed(
	struct peer *peer, const struct cq_ring *cq, uint32_t lane, bool is_solicited);

static inline void peer_notify(
	struct peer *peer, const struct cq_ring *cq, uint32_t lane, bool is_solicited)
{
	if (atomic_load(&cq->arm) != CQ_ARM_NONE)
		peer_notify_armed(peer, cq, lane, is_solicited);
}

/*
 * The object of `bytes` bytes at an offset of NIC memory. A hostile peer may have written the
 * offset. Returns NULL when the offset is out of bounds, or is not aligned to a cache line.
 */
static inline void *peer_at(const struct peer *peer, uint64_t offset, uint64_t bytes)
{
	bool is_inside = offset != 0 && offset % ARENA_BLOCK_BYTES_MIN == 0 &&
		offset < peer->bytes && bytes <= peer->bytes - offset;

	return is_inside ? peer->base + offset : NULL;
}

/* peer_at() on the peers' side (base/arena.h), where this process may write. */
static inline void *peer_at_shared(const struct peer *peer, uint64_t offset, uint64_t bytes)
{
	void *block = peer_at(peer, offset, bytes);

	return block ? arena_peers_side(block) : NULL;
}

/* The offset of an object that peer_at_shared() would find. */
static inline uint64_t peer_offset(const struct peer *peer, const void *object)
{
	return (uint64_t)((const uint8_t *)arena_owners_side(object) - peer->base);
}

#endif

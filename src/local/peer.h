/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer on this host: its NIC memory, mapped here, and the memory of its process.
 *
 * Two kinds of memory, reached in two ways. NIC memory (queues, tables, channels) is one stretch
 * that is always mapped: offsets lead from its directory to everything. The program's memory is
 * what its regions name, at addresses of the other process. A lookup (peer_find) turns a key into a
 * place there, with the checks that the peer's own responder makes, on the peer's own table. Bytes
 * move to and from a place by peer_put() and peer_get(): with plain stores and loads where the
 * place is mapped here too (peer_ops.map), else by whoever can reach the other process
 * (peer_ops.write and .read: one system call).
 *
 * The peer changes its tables while they are used. Who uses a place says so in the peer's channel
 * (local/channel.h) before the lookup and until the bytes have moved; a region that is deregistered
 * waits for that.
 *
 * There is no system call in this room: the functions that need one come from outside. Threads: a
 * peer is read by all lanes; what is behind peer_ops has its own rules.
 */
#ifndef URNIC_LOCAL_PEER_H
#define URNIC_LOCAL_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/copy.h"
#include "memory/mr.h"
#include "queue/cq.h"
#include "queue/waiter.h"

struct peer;

/* Set by the owner of a peer (the runtime, tests). All addresses are of the peer's process. */
struct peer_ops {
	/*
	 * Copy to or from the peer's memory. False when some of it is not there, or the peer is
	 * not: then any part may have been copied. Of what is written, the last bytes become
	 * visible last (memory/copy.h).
	 */
	bool (*write)(struct peer *peer, uint64_t to, const uint8_t *from, size_t bytes);
	bool (*read)(struct peer *peer, uint8_t *to, uint64_t from, size_t bytes);
	/*
	 * Where bytes of this region lie here that begin at `address`, or NULL when they are not
	 * mapped; *bytes, 1 and up, is made smaller when the answer does not hold for all of them.
	 * NULL instead of the function: nothing is.
	 */
	uint8_t *(*map)(
		struct peer *peer, const struct mr_slot *region, uint64_t address, uint64_t *bytes);
	/* Wake the peer's lane: there is something for it, and nobody polls. */
	void (*kick)(struct peer *peer, uint32_t lane);
	/* Wake who sleeps there, and has been counted as woken. */
	void (*wake)(struct peer *peer, struct waiter *waiter);
	/* Does the process live that calls itself `who` (local_owner.who) in the peer's memory? */
	bool (*is_alive)(struct peer *peer, uint32_t who);
};

struct peer {
	uint8_t *base; /* its NIC memory, mapped here: both sides */
	uint64_t bytes; /* of the owner's side */
	struct mr_table mrs; /* a view of its table (mr_table_view) */
	const struct peer_ops *ops;
	struct waiter_table *waiters; /* NULL: the peer has no waiters */
};

/* Where bytes of a region lie. Good as long as the channel says that its key is in use. */
struct peer_place {
	uint8_t *here; /* NULL: not mapped, or not all of it */
	uint64_t there; /* address in the peer's process; 0 with `here` NULL is a null region */
	const struct mr_slot *region;
};

/* mr_resolve_for() on the peer's table. */
enum mr_fault peer_find(struct peer *peer, uint32_t key, struct mr_user user, uint32_t access,
	uint64_t iova, uint64_t bytes, struct peer_place *ret_place);

/*
 * The same, also for memory on demand, which may be missing: then bytes cannot be moved.
 */
enum mr_fault peer_find_unseen(struct peer *peer, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, uint64_t bytes, struct peer_place *ret_place);

/*
 * Keep what peer_find() has just said of `key`: as much of its region as is mapped here, in one
 * piece. It holds for the same user, and until the key is used no more.
 */
void peer_cache(struct peer *peer, uint32_t key, struct mr_cached *ret_cached);

/* peer_find(), by what is cached of this user if that suffices; else it is cached anew. */
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

/* Move bytes. False as peer_ops.write and .read. */
bool peer_put(struct peer *peer, const struct peer_place *place, uint64_t offset,
	const uint8_t *from, size_t bytes);
bool peer_get(struct peer *peer, const struct peer_place *place, uint64_t offset, uint8_t *to,
	size_t bytes);

/*
 * Something that is to complete in the peer's queue `cq` was left for its lane, before this call
 * (sequentially consistent). Wake who waits for it, if the queue is armed for that.
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
 * The object of `bytes` bytes at an offset of NIC memory, or NULL when that is not one: offsets are
 * the peer's to write. Objects are aligned to cache lines.
 */
static inline void *peer_at(const struct peer *peer, uint64_t offset, uint64_t bytes)
{
	bool is_inside = offset != 0 && offset % ARENA_BLOCK_BYTES_MIN == 0 &&
		offset < peer->bytes && bytes <= peer->bytes - offset;

	return is_inside ? peer->base + offset : NULL;
}

/*
 * The same on the peers' side (base/arena.h), where we may write: NIC memory is mapped here with
 * both.
 */
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

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host: another process of this machine, as a guest sees it (local/guest.h).
 *
 * Its datagram queue pairs are reached by local/datagram.h. Two more things of a host are used
 * here. Its memory, by queue pairs in one of its protection domains: each access takes a seat of
 * the host, marks the key, looks it up in the host's table, moves the bytes, and takes the mark
 * away. And its XRC shared receive queues, each by a struct srq of our own (far_srq), which queue
 * pairs take on like any other: taking a request is one compare-and-swap in the host's ring, and
 * completing it leaves a record, which the host's own threads put into the completion queue.
 *
 * A host that ends takes nothing along but its own: seats, marks and records lie in its memory,
 * which stays mapped here. What is asked of it from then on is refused.
 *
 * No system call here: whoever makes a host gives it what needs one (struct peer_ops, struct
 * far_owner). Threads: any, each with some lane's lock.
 */
#ifndef URNIC_LOCAL_FAR_H
#define URNIC_LOCAL_FAR_H

#include <stdbool.h>
#include <stdint.h>

#include "local/guest.h"
#include "local/peer.h"
#include "memory/abroad.h"
#include "queue/srq.h"

enum {
	FAR_MARK_SEATS = 16, /* accesses to memory of one host at a time */
	FAR_LANES_MAX = 16, /* of a process */
};

struct far_owner {
	uint32_t who; /* of this process, told to hosts */
	/* Does the process live that calls itself `who` at this host? */
	bool (*is_alive)(void *host, uint32_t who);
	/* Something is waited for, and has been for `round` calls: let some time pass. */
	void (*pause)(uint32_t round);
};

struct far_mark_seat {
	_Atomic bool is_busy;
	struct guest_seat *seat; /* NULL: not taken yet */
};

struct far_host {
	struct peer *peer;
	struct guest_table *guests;
	const struct far_owner *owner;
	_Atomic bool is_gone;
	struct far_mark_seat mark[FAR_MARK_SEATS];
	/*
	 * Where each lane of ours leaves records for each lane of the host's; under our lane's
	 * lock.
	 */
	struct guest_seat *record[FAR_LANES_MAX][FAR_LANES_MAX];
	uint64_t bell_offset[FAR_LANES_MAX]; /* struct doorbell of its lanes; 0: not reached */
};

/* A protection domain of a host's. */
struct far_domain {
	struct far_host *host;
	uint32_t pd; /* there */
};

/* One of its shared receive queues. */
struct far_srq {
	struct srq srq; /* srq.afar is set */
	struct far_host *host;
	struct srq_public *public;
	struct cq_ring *cq;
	uint64_t serial;
	uint32_t lane; /* the host's, that completes for it */
};

/* --- memory: as struct mr_abroad says --- */

enum mr_fault far_check(const struct far_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, uint64_t bytes);
enum mr_fault far_put(const struct far_domain *domain, uint32_t key, uint32_t qpn, uint32_t access,
	uint64_t iova, size_t bytes, const uint8_t *from);
enum mr_fault far_get(const struct far_domain *domain, uint32_t key, uint32_t qpn, uint32_t access,
	uint64_t iova, size_t bytes, uint8_t *to);
enum mr_fault far_apply(const struct far_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, const struct mr_word *word, uint64_t *ret_before);

/* --- shared receive queues --- */

/*
 * See the host's queue whose public state is at `offset` of its memory, any value. `pd` is the
 * number here of its protection domain, `xrcd` that of the XRC domain. False when there is none
 * that is shared.
 */
bool far_srq_init(
	struct far_srq *srq, struct far_host *host, uint64_t offset, uint32_t pd, uint32_t xrcd);

/*
 * The host does not find this key. It finds none while it moves its memory, or forks: that is
 * waited for, without a mark of a key. False: it is not that, or lasts too long. `round`: how often
 * that was waited for before.
 */
bool far_await_key(const struct far_host *host, uint32_t key, uint32_t round);

/*
 * The seat in which lane `own` of ours leaves records for lane `its` of the host's, and uses what
 * it needs for that; NULL: there is none. The own lane is locked.
 */
struct guest_seat *far_seat(struct far_host *host, uint32_t own, uint32_t its);

/* Where a seat is in the host's NIC memory: its twin. */
static inline uint64_t far_seat_offset(const struct peer *host, const struct guest_seat *seat)
{
	return (uint64_t)((uint8_t *)arena_owners_side(seat) - host->base);
}

/* All seats are free again; nobody uses the host. */
void far_host_done(struct far_host *host);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Owners: other processes of this host whose memory and receive queues this process borrows.
 *
 * This file is the borrower's part; local/channel/borrower.h is the owner's. local/datagram.h sends
 * to an owner's UD endpoints. A queue pair in a protection domain of an owner accesses the owner's
 * memory: each access sets the in-use mark of a borrower's channel, looks the key up in the owner's
 * table, moves the bytes, and clears the mark. A queue pair takes receive requests from an owner's
 * XRC shared receive queue through a struct srq of this process (borrowed_srq). Taking a request is
 * one compare-and-swap in the owner's ring. Completing a request publishes a record, which the
 * owner's threads collect into the completion queue.
 *
 * When an owner ends, its NIC memory stays mapped in this process, with all channels, marks and
 * records. From then on, all calls for that owner fail.
 *
 * This file makes no system calls; the functions of struct peer_ops and struct local_owner do.
 * Threads: any thread that holds the lock of some lane.
 */
#ifndef URNIC_LOCAL_OWNER_H
#define URNIC_LOCAL_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "local/channel/borrower.h"
#include "local/channel/peer.h"
#include "memory/mr_borrowed.h"
#include "queue/srq.h"

enum {
	OWNER_MARKS_MAX = 16, /* the most concurrent accesses to the memory of one owner */
	OWNER_LANES_MAX = 16, /* the most lanes of a process */
};

struct owner_mark {
	_Atomic bool is_busy;
	/* NULL: this process has taken no channel for the mark yet */
	struct request_channel *channel;
};

struct owner_process {
	struct peer *peer;
	struct borrower_table *borrowers;
	const struct local_owner *self; /* the struct of this process */
	_Atomic bool is_gone;
	struct owner_mark mark[OWNER_MARKS_MAX];
	/*
	 * record[i][k] is the channel in which lane i of this process leaves records for lane k of
	 * the owner. The lock of lane i protects the entry.
	 */
	struct request_channel *record[OWNER_LANES_MAX][OWNER_LANES_MAX];
	/* The struct doorbell of each lane of the owner; 0: this process cannot reach the lane */
	uint64_t doorbell_offset[OWNER_LANES_MAX];
};

/* An imported protection domain. */
struct borrowed_domain {
	struct owner_process *owner;
	uint32_t pd; /* the domain's number in the owner's process */
};

/* An owner's shared receive queue. */
struct borrowed_srq {
	struct srq srq; /* srq.borrowed is set */
	struct owner_process *owner;
	struct srq_public *public;
	struct cq_ring *cq;
	uint64_t serial;
	uint32_t lane; /* index of the owner's lane that completes the queue's requests */
};

/* --- memory: the operations of struct mr_borrowed --- */

enum mr_fault borrowed_check(const struct borrowed_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, uint64_t bytes);
enum mr_fault borrowed_put(const struct borrowed_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, size_t bytes, const uint8_t *from);
enum mr_fault borrowed_get(const struct borrowed_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, size_t bytes, uint8_t *to);
enum mr_fault borrowed_apply(const struct borrowed_domain *domain, uint32_t key, uint32_t qpn,
	uint32_t access, uint64_t iova, const struct mr_word *word, uint64_t *ret_before);

/* --- shared receive queues --- */

/*
 * Make a view of the owner's shared receive queue whose struct srq_public is at `offset` of the
 * owner's NIC memory. `pd` and `xrcd` are the numbers that this process has for the queue's
 * protection and XRC domains. `offset` may have any value. Returns false when no shared queue is
 * there.
 */
bool borrowed_srq_init(struct borrowed_srq *srq, struct owner_process *owner, uint64_t offset,
	uint32_t pd, uint32_t xrcd);

/*
 * The caller's lookup of this key in the owner's table has failed. If the reason is that the table
 * is suspended, because the owner moves memory or forks, let some time pass; the caller then looks
 * again. The caller has no mark set. `round` counts the calls for one lookup, from 0. Returns false
 * when the key is invalid, or the table stays suspended for too long.
 */
bool owner_await_key(const struct owner_process *owner, uint32_t key, uint32_t round);

/*
 * The channel in which lane `own` of this process leaves records for lane `its` of the owner.
 * Returns NULL when no channel is free. Lane `own` is locked.
 */
struct request_channel *owner_channel(struct owner_process *owner, uint32_t own, uint32_t its);

/* Give all channels of this owner back. No thread of this process uses the owner any more. */
void owner_process_done(struct owner_process *owner);

#endif

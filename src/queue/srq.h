/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues (IBTA 10.2.9).
 *
 * A shared receive queue belongs to no queue pair. Any number of queue pairs take requests from it,
 * in the order in which their messages arrive. Its requests name regions of the shared queue's
 * protection domain, not of the queue pair's. A shared receive queue has no state. If a queue pair
 * fails, the other queue pairs still take the requests.
 *
 * On an extended reliable connection each request of the initiator names an XRC shared receive
 * queue (IBTA annex A14). Such a queue has a completion queue, and belongs to an XRC domain.
 *
 * The program may set a limit. When fewer requests than the limit remain, the queue raises its
 * signal and turns the limit off.
 *
 * Queue pairs of all lanes take from the queue at once; the lock of the ring (queue/rq.h) orders
 * them. Room nic creates the queue, and destroys it after the queue pairs. struct srq_public and
 * the ring lie in NIC memory.
 */
#ifndef URNIC_QUEUE_SRQ_H
#define URNIC_QUEUE_SRQ_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "lane/signal.h"
#include "queue/cq.h"
#include "queue/rq.h"

/* The file by which processes open the same XRC domain; zeros: no file. */
struct xrc_file {
	uint64_t device;
	uint64_t inode;
};

struct srq_public {
	_Atomic uint32_t number; /* 0: the queue was destroyed */
	/* The lane that completes requests taken by other processes, if they share the queue */
	uint32_t lane;
	uint64_t rq_offset; /* offset of the struct recv_queue */
	uint64_t next_offset; /* the next struct srq_public in the NIC's list */
	uint64_t owner; /* the open device that the queue belongs to */
	struct xrc_file file; /* the XRC domain's file, if other processes share the domain */
	_Atomic uint64_t serial; /* random and unique for an XRC queue, otherwise 0 */
	/*
	 * The offset of its completion queue's struct cq_ring, which says whether that queue is
	 * armed; 0 if this is no XRC queue.
	 */
	uint64_t cq_offset;
	uint32_t pd;
	uint32_t xrcd; /* its XRC domain's number in the owner's process; 0: no XRC queue */
};

struct lane;
struct srq;

/* The operations on a shared receive queue of another process. The lane is locked. */
struct srq_borrowed {
	/* Take a request as srq_take() does, and complete a taken request. */
	bool (*take)(struct srq *srq, struct lane *lane, struct recv_wqe *wqe);
	void (*complete)(
		struct srq *srq, struct lane *lane, const struct cqe *cqe, bool is_solicited);
	/* Does the owner still have the queue? */
	bool (*is_there)(const struct srq *srq);
};

struct srq {
	uint32_t number;
	uint32_t pd;
	uint32_t xrcd; /* the XRC domain's number; 0: no XRC queue */
	struct cq *cq; /* the requests of an XRC or tag-matching queue complete here */
	struct tags *tags; /* NULL unless this is a tag-matching queue */
	struct recv_queue *rq;
	uint64_t rq_offset;
	struct srq_public *public;
	uint64_t public_offset;
	/*
	 * Other processes that share the queue's XRC domain take from it (local/channel/borrower.h)
	 */
	bool is_shared;
	/*
	 * True if a suspended process may be taking a request from the queue. Then the queue's
	 * memory is never reused.
	 */
	bool is_in_use;
	/*
	 * The operations if another process owns the queue; cq, tags and public are then NULL.
	 * Otherwise NULL
	 */
	const struct srq_borrowed *borrowed;
	struct srq *_Atomic next_borrowed;
	struct signal signal;
};

struct srq_init {
	uint32_t number; /* below 2^24 */
	uint32_t pd;
	uint32_t xrcd; /* 0: no XRC queue */
	struct cq *cq; /* for an XRC or tag-matching queue; outlives the queue */
	uint32_t tag_count; /* number of buffers of a tag-matching queue; else 0 */
	uint32_t depth; /* 1 to 2^20 */
	uint32_t sge_count_max;
	uint64_t owner;
	uint64_t serial; /* only for an XRC queue */
	/* The file of an XRC domain that other processes share. If it is set, so is `lane`. */
	struct xrc_file file;
	uint32_t lane;
};

/*
 * A table of shared receive queues by the low 16 bits of their numbers. Only the owner's process
 * changes it. Before it frees a queue that it has removed, it ensures that no lane uses that queue.
 */
#define SRQ_TABLE_SIZE 65536

struct srq_directory {
	_Atomic uint64_t offset[SRQ_TABLE_SIZE]; /* struct srq_public; 0: none */
};

struct srq_table {
	uint32_t count;
	/*
	 * The directory in which other processes find the XRC queues of this table. It lies in NIC
	 * memory. NULL: there is none.
	 */
	struct srq_directory *directory;
	struct srq *_Atomic first_borrowed; /* queues of other processes, linked by next_borrowed */
	struct srq *_Atomic by_number[SRQ_TABLE_SIZE];
};

/*
 * Find a free number with top byte `slot`. `random` says where the search starts. The table is not
 * full.
 */
uint32_t srq_table_number(const struct srq_table *table, uint8_t slot, uint64_t random);

void srq_table_add(struct srq_table *table, struct srq *srq);
void srq_table_remove(struct srq_table *table, const struct srq *srq);

/*
 * Find the queue with `number`, which may have any value; NULL when there is none. Any thread may
 * call.
 */
struct srq *srq_table_find(const struct srq_table *table, uint32_t number);

/* srq_table_find() among the queues of other processes that are in XRC domain `xrcd`. */
struct srq *srq_table_find_borrowed(const struct srq_table *table, uint32_t number, uint32_t xrcd);

/* Fill *srq. Returns 0 or -ENOMEM. */
int srq_init(struct srq *srq, struct arena *arena, const struct srq_init *init);

/* From now on no other process finds the queue. */
void srq_withdraw(const struct srq_table *table, struct srq *srq);

/*
 * Free what srq_init() allocated. No queue pair takes from the queue any more, and the queue's
 * signal is in no lane's signal queue.
 */
void srq_done(struct srq *srq, struct arena *arena);

/*
 * Post a request. Returns 0; -EINVAL for too many scatter/gather entries; -ENOMEM when the queue is
 * full.
 */
int srq_post(struct srq *srq, const struct recv_wr *wr);

/*
 * Take the oldest request into *wqe, for a queue pair of the lane whose signals are `signals`.
 * Returns false when there is no request.
 */
bool srq_take(struct srq *srq, struct recv_wqe *wqe, struct signal_queue *signals);

/*
 * Another process has taken a request. Raises the signal if fewer requests than the limit remain.
 */
void srq_note_taken(struct srq *srq, struct signal_queue *signals);

#endif

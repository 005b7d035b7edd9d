/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues (IBTA 10.2.9).
 *
 * A receive queue that belongs to no queue pair: any number of them take from it, in the order in
 * which their messages come. Its requests are scattered within its own protection domain. It has
 * no state: a queue pair that fails leaves the requests to the others.
 *
 * An XRC queue (IBTA annex A14) is one that the requests of extended reliable connections name. It
 * has a completion queue, and belongs to an XRC domain.
 *
 * The program may ask to be told when fewer than a limit are left: one signal, and the limit is
 * off.
 *
 * Queue pairs of all lanes take from it at once; the lock of the ring (queue/rq.h) orders them. The
 * owner (runtime) destroys it after the queue pairs. struct srq_public and the ring lie in NIC
 * memory.
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

/* The file that an XRC domain is opened by, which other processes open too; zeros: none. */
struct xrc_file {
	uint64_t device;
	uint64_t inode;
};

struct srq_public {
	_Atomic uint32_t number; /* 0: it is gone */
	uint32_t lane; /* of a shared one: whose threads complete what other processes take */
	uint64_t rq_offset; /* struct recv_queue */
	uint64_t next_offset; /* of the next one in the NIC's list */
	uint64_t owner; /* which open device it belongs to */
	struct xrc_file file; /* of the XRC domain that it shares with other processes */
	_Atomic uint64_t serial; /* of an XRC queue: random, no other one's */
	/* Struct cq_ring, to see whether it is armed; 0 if it is not an XRC queue */
	uint64_t cq_offset;
	uint32_t pd;
	uint32_t xrcd; /* the owner's number of its XRC domain; 0 when it is not an XRC queue */
};

struct lane;
struct srq;

/* What becomes of a shared receive queue of another process (local/owner.h). The lane is locked. */
struct srq_borrowed {
	/* srq_take(), and the completion of what was taken. */
	bool (*take)(struct srq *srq, struct lane *lane, struct recv_wqe *wqe);
	void (*complete)(
		struct srq *srq, struct lane *lane, const struct cqe *cqe, bool is_solicited);
	/* Does its owner have it still? */
	bool (*is_there)(const struct srq *srq);
};

struct srq {
	uint32_t number;
	uint32_t pd;
	uint32_t xrcd; /* the XRC domain; 0 when it is not an XRC queue */
	struct cq *cq; /* of an XRC or tag-matching queue: where its requests complete */
	struct tags *tags; /* of a tag-matching queue, else NULL */
	struct recv_queue *rq;
	uint64_t rq_offset;
	struct srq_public *public;
	uint64_t public_offset;
	bool is_shared; /* its XRC domain is: borrowers take from it (local/borrower.h) */
	/* Who took from it may stand still in the middle: its memory must never be used again */
	bool is_in_use;
	const struct srq_borrowed
		*borrowed; /* it is another process's, and has no cq, tags, public; else NULL */
	struct srq *_Atomic next_borrowed;
	struct signal signal;
};

struct srq_init {
	uint32_t number; /* below 2^24 */
	uint32_t pd;
	uint32_t xrcd; /* 0: not an XRC queue */
	struct cq *cq; /* of an XRC or tag-matching queue, which it outlives */
	uint32_t tag_count; /* buffers of a tag-matching queue, else 0 */
	uint32_t depth; /* 1 to 2^20 */
	uint32_t sge_count_max;
	uint64_t owner;
	uint64_t serial; /* of an XRC queue */
	struct xrc_file
		file; /* of its XRC domain, if other processes are to share it; then also: */
	uint32_t lane;
};

/*
 * The shared receive queues of a process by the low 16 bits of their numbers. The owner changes it,
 * and sees to it that no lane uses a queue that it took out.
 */
#define SRQ_TABLE_SIZE 65536

struct srq_directory {
	_Atomic uint64_t offset[SRQ_TABLE_SIZE]; /* struct srq_public; 0: none */
};

struct srq_table {
	uint32_t count;
	/* Of XRC queues, in NIC memory, for other processes; NULL: there is none */
	struct srq_directory *directory;
	struct srq *_Atomic first_borrowed; /* those of other processes, linked by next_borrowed */
	struct srq *_Atomic by_number[SRQ_TABLE_SIZE];
};

/*
 * A number that is free, its top byte `slot`. `random`: where the search starts. The table is not
 * full.
 */
uint32_t srq_table_number(const struct srq_table *table, uint8_t slot, uint64_t random);

void srq_table_add(struct srq_table *table, struct srq *srq);
void srq_table_remove(struct srq_table *table, const struct srq *srq);

/* The queue with this number, any value, or NULL. Any thread. */
struct srq *srq_table_find(const struct srq_table *table, uint32_t number);

/* The same among those of other processes, for queue pairs of this XRC domain. */
struct srq *srq_table_find_borrowed(const struct srq_table *table, uint32_t number, uint32_t xrcd);

/* Fill *srq. Returns 0 or -ENOMEM. */
int srq_init(struct srq *srq, struct arena *arena, const struct srq_init *init);

/* From here on no other process finds it. */
void srq_withdraw(const struct srq_table *table, struct srq *srq);

/* No queue pair takes from it any more, and its signal is in no lane's queue. */
void srq_done(struct srq *srq, struct arena *arena);

/*
 * Post one request. Returns 0; -EINVAL for too many scatter/gather entries; -ENOMEM when it is
 * full.
 */
int srq_post(struct srq *srq, const struct recv_wr *wr);

/*
 * Take the oldest request into *wqe, for a queue pair of the lane whose signals are `signals`.
 * False when there is none.
 */
bool srq_take(struct srq *srq, struct recv_wqe *wqe, struct signal_queue *signals);

/* Another process has taken from it: is the limit met? */
void srq_note_taken(struct srq *srq, struct signal_queue *signals);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requests of a queue from their post to the poll of their completion, and the memory that they
 * use meanwhile.
 *
 * A send queue completes in order: the completion of a later request implies that of an unsignaled
 * one. A receive queue completes in order, too. A shared receive queue does not, so the checker
 * finds its requests by wr_id.
 *
 * The memory that a SEND, WRITE or tag message reads has a digest of its bytes at the post. If the
 * digest differs at the completion, the memory was written meanwhile. That is a mistake of the
 * program, unless a receive request, READ or atomic of the program had the same memory as its
 * target. The checker keeps a list of the last targets to find that out.
 *
 * A thread locks a queue for a post and for a completion. A search of all queues locks one queue
 * after the other. The lock is recursive, because a thread has it between ibv_wr_start() and
 * ibv_wr_complete(). Meanwhile the thread may poll, or free memory, which causes a search.
 */
#ifndef URNIC_CHECK_MODEL_REQUEST_H
#define URNIC_CHECK_MODEL_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "check/model/object.h"
#include "check/model/owned_lock.h"
#include "check/model/region.h"
#include "check/model/rest.h"
#include "check/site.h"

struct buffer {
	uintptr_t memory;
	/* Long after the deregistration, this struct may be reused for another region */
	struct region *region;
	uint32_t lkey;
	uint32_t bytes;
	bool is_protected; /* protect_begin() was called for the memory */
};

struct request {
	uint64_t wr_id;
	uint64_t digest;
	uint64_t target_count; /* the number of targets that were noted before the post */
	uint32_t site;
	uint16_t buffer_count;
	uint8_t opcode; /* enum ibv_wr_opcode; meaningless for a receive request */
	bool is_signaled;
	bool is_done;
	bool has_digest;
	bool is_target; /* the adapter writes the memory */
};

struct request_queue {
	struct owned_lock lock;
	struct request *requests; /* a ring */
	struct buffer *buffers; /* a ring with `buffers_each` entries for each request */
	/*
	 * A power of two; half of the ring is for the requests of a post that the library may
	 * refuse
	 */
	uint32_t size;
	uint32_t buffers_each;
	/*
	 * Index of the oldest request, and of the next one to add. Written under the lock, but also
	 * read without it.
	 */
	_Atomic uint64_t head, tail;
	/* Number of requests from `head` to `tail` that will have a completion */
	uint64_t signaled;
	uint64_t last_wr_id;
	/* Two requests had the same wr_id, so the checker cannot distinguish them */
	bool has_twins;
	bool is_receive;
	/* The region of the last request, which is often that of the next one, too */
	struct region *last_region;
	const void *last_address; /* return address of the last call that posted */
	uint32_t last_site;
};

/* A request to send, as its post describes it. */
struct send_request {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned flags; /* enum ibv_send_flags */
	const struct ibv_sge *entries;
	uint32_t count;
};

/* A completion queue. Several threads may poll it at once, without a lock. */
struct cq_record {
	struct ibv_cq *cq;
	struct context_record *context;
	struct object *known;
	atomic_bool is_polled; /* the program has polled this queue */
	_Atomic(struct queue_record *) last_queue; /* the queue of the last completion; a hint */
	atomic_bool is_armed; /* the program has requested an event, which has not come yet */
	/* For an extended completion queue: the library's functions */
	int (*start_poll)(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr);
	int (*next_poll)(struct ibv_cq_ex *cq);
};

struct extended_post; /* a request that a program builds with ibv_wr_*() */

/* A queue pair or a shared receive queue. A shared receive queue has only `receives`. */
struct queue_record {
	const void *object;
	struct ibv_qp *qp; /* NULL: a shared receive queue */
	struct context_record *context;
	struct object *known;
	struct cq_record *send_cq, *receive_cq;
	struct queue_record *srq;
	uint32_t qp_num;
	bool signals_all;
	atomic_bool has_failed; /* the program has polled a failed completion of this queue */
	/* The program itself has moved the queue pair to the error state */
	atomic_bool was_stopped;
	struct extended_post *extended; /* NULL: the program posts with ibv_post_send() */
	struct rest rest;
	struct request_queue sends, receives;
};

/*
 * Prepare a queue for `depth` requests with `entries` entries each. Returns false when out of
 * memory.
 */
bool request_queue_init(
	struct request_queue *queue, uint32_t depth, uint32_t entries, bool is_receive);

/* The child of a fork calls this: no thread has a lock of request.c. */
void requests_inherit(void);

/* Empty the queue for good. Its lock remains usable for threads that poll meanwhile. */
void request_queue_done(struct request_queue *queue);

/* Note a request before it is posted. The queue's lock is locked. */
void request_add_send(struct queue_record *record, const struct send_request *wr, uint32_t site);
void request_add_receive(struct queue_record *record, const struct ibv_recv_wr *wr, uint32_t site);

/*
 * The site of a call that posts; `address` is the call's return address. The queue's lock is
 * locked.
 */
static inline uint32_t request_site(struct request_queue *queue, const void *address)
{
	if (queue->last_address != address || check_is_full) {
		queue->last_address = address;
		queue->last_site = site_of(address);
	}
	return queue->last_site;
}

/*
 * Remove the requests from index `tail` on, because the library has refused them. The lock is
 * locked.
 */
void request_take_back(struct request_queue *queue, uint64_t tail);

/*
 * The post is over. If the queue has more requests than its depth, the checker has missed
 * completions; then the queue forgets its oldest requests. The lock is locked.
 */
void request_settle(struct request_queue *queue);

/* The program polls a completion at `site`. No lock is locked. */
void request_complete(struct queue_record *record, const struct ibv_wc *wc, bool is_receive_only,
	const void *address);

/* Forget all requests: the queue pair is reset or destroyed. */
void request_forget(struct request_queue *queue);

/*
 * Report all requests, of any queue, that use these bytes. The program gives the bytes back at
 * `site`, by the function `what`.
 */
void request_report_users(
	uint32_t kind, uintptr_t start, uint64_t bytes, const char *what, uint32_t site);

/*
 * May an incomplete request use some of these bytes? The call does not wait for a queue that
 * another thread has locked.
 */
bool request_may_use(uintptr_t start, uint64_t bytes);

/* --- what request.c and request_report.c share --- */

/*
 * Set the head or the tail of a queue. The order of this store does not matter, because the queue's
 * lock guards the requests.
 */
static inline void index_set(_Atomic uint64_t *index, uint64_t value)
{
	atomic_store_explicit(index, value, memory_order_relaxed);
}

static inline struct request *request_at(const struct request_queue *queue, uint64_t index)
{
	return &queue->requests[index & (queue->size - 1)];
}

static inline struct buffer *buffers_at(const struct request_queue *queue, uint64_t index)
{
	return &queue->buffers[(index & (queue->size - 1)) * queue->buffers_each];
}

static inline bool ranges_overlap(uintptr_t a, uint64_t a_bytes, uintptr_t b, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

/* The name of a request, as a sentence uses it: "WRITE". */
const char *request_name(const struct request_queue *queue, const struct request *request);

/*
 * Report that entry `index` is not within its region, or that the program has deregistered the
 * region.
 */
void request_report_entry(const struct request_queue *queue, const struct request *request,
	const struct region *region, const struct ibv_sge *entry, uint32_t index);

/* Report that the memory of an entry is registered, but not mapped. */
void request_report_unmapped(const struct request_queue *queue, const struct request *request,
	const struct buffer *buffer);

/* --- the records ----------------------------------------------------------------------------- */

/* Note a new queue pair, shared receive queue or completion queue. */
void queue_add(struct ibv_qp *qp, const struct ibv_qp_cap *cap, bool signals_all, uint32_t site);
void queue_add_shared(struct ibv_srq *srq, uint32_t depth, uint32_t entries, uint32_t site);
struct cq_record *queue_add_cq(struct ibv_cq *cq, uint32_t site);

/* A queue pair or shared receive queue was destroyed, or reset: its requests are gone. */
void queue_remove(const void *object);
void queue_reset(const void *object);

/* If the object is a queue that rests, end the rest. */
void queue_wake(const void *object);

/* The record of a live queue pair or shared receive queue; NULL: unknown. */
struct queue_record *queue_of(const void *object);

/* A cache of each thread: the queue that the thread has last used, for each place in the array. */
enum { QUEUE_RECENT_BITS = 3 };

extern __thread struct queue_record *queue_recent[1 << QUEUE_RECENT_BITS]
	__attribute__((tls_model("initial-exec")));
extern __thread struct cq_record *queue_recent_cq[1 << QUEUE_RECENT_BITS]
	__attribute__((tls_model("initial-exec")));

static inline uint32_t queue_recent_place(const void *object)
{
	return (uint32_t)(((uintptr_t)object * 0x9e3779b97f4a7c15u) >> (64 - QUEUE_RECENT_BITS));
}

static inline bool object_is_ours(const struct object *object, const void *record)
{
	return object->is_live && !object->is_inherited && object->record == record;
}

/* queue_find() and queue_find_cq() for objects that are not in the thread's cache. */
struct queue_record *queue_look_up(const void *object);
struct cq_record *queue_look_up_cq(const struct ibv_cq *cq);

/*
 * Note that the program polls the queue. Later calls only read the cache line, because other
 * threads poll, too.
 */
static inline void cq_note_poll(struct cq_record *record)
{
	if (!atomic_load_explicit(&record->is_polled, memory_order_relaxed))
		atomic_store_explicit(&record->is_polled, true, memory_order_relaxed);
}

/*
 * queue_of() for calls on the data path. Also returns NULL if the object belongs to the parent
 * process.
 */
static inline struct queue_record *queue_find(const void *object)
{
	struct queue_record *record = queue_recent[queue_recent_place(object)];

	return record && record->object == object && object_is_ours(record->known, record)
		? record
		: queue_look_up(object);
}

static inline struct cq_record *queue_find_cq(const struct ibv_cq *cq)
{
	struct cq_record *record = queue_recent_cq[queue_recent_place(cq)];

	return record && record->cq == cq && object_is_ours(record->known, record)
		? record
		: queue_look_up_cq(cq);
}

struct queue_record *queue_by_number(const struct context_record *context, uint32_t qp_num);

/*
 * The next record of a live object, for a loop that starts with *i at 0. Records of the parent
 * process are left out: their requests use the parent's memory, and a thread of the parent may have
 * locked them at the fork.
 */
struct queue_record *queue_next(uint32_t *i);

struct cq_record *cq_of(const struct ibv_cq *cq);

/*
 * Is the queue pair in a state in which it accesses no memory of requests? Also returns true if the
 * state is unknown.
 */
bool queue_is_idle(const struct queue_record *record);

/* Is the queue pair in the error state, or its send queue (SQE)? */
bool queue_has_error(const struct queue_record *record);

#endif

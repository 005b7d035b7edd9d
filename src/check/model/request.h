/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requests of a queue from their post to the poll of their completion, and the memory that they
 * use meanwhile.
 *
 * A send queue completes in order: a completion of an unsignaled request is implied by that of a
 * later one. A receive queue completes in order, too; a shared one does not, so its requests are
 * found by wr_id.
 *
 * The memory that a SEND, WRITE or tag message reads has a digest of its bytes at the post. If the
 * digest differs at the completion, the memory was written meanwhile. That is a mistake of the
 * program unless a receive request, READ or atomic of the program had the same memory as its
 * target; a list of the last targets tells.
 *
 * A thread locks a queue for a post and for a completion, and a search of all queues locks one
 * after the other. The lock is recursive: between ibv_wr_start() and ibv_wr_complete() the thread
 * has it, and may poll, or free memory, which makes a search.
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
	struct region *region; /* its memory may serve another region, long after deregistration */
	uint32_t lkey;
	uint32_t bytes;
	bool is_protected; /* protect.h has it */
};

struct request {
	uint64_t wr_id;
	uint64_t digest;
	uint64_t target_count; /* the number of targets that completed before the post */
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
	struct buffer *buffers; /* `buffers_each` of each request */
	uint32_t size; /* a power of two; half of it is room for a post that may be refused */
	uint32_t buffers_each;
	/* The oldest request, and the next one. Set with the lock, read also without it. */
	_Atomic uint64_t head, tail;
	uint64_t signaled; /* requests between them that will have a completion */
	uint64_t last_wr_id;
	bool has_twins; /* two requests with one wr_id, so that they cannot be told apart */
	bool is_receive;
	/* What the last request had, which the next one often has, too */
	struct region *last_region;
	const void *last_address; /* of the call that posted */
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

/* Several threads may poll the queue at once, without a lock. */
struct cq_record {
	struct ibv_cq *cq;
	struct context_record *context;
	struct object *known;
	atomic_bool is_polled; /* the program has polled it */
	_Atomic(struct queue_record *) last_queue; /* of the last completion; a hint */
	atomic_bool is_armed; /* the program has asked for an event and not got it */
	/* Of an extended queue: the functions of the library. */
	int (*start_poll)(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr);
	int (*next_poll)(struct ibv_cq_ex *cq);
};

struct extended_post; /* a request that a program builds with ibv_wr_*() */

/* A queue pair, or a shared receive queue, which has only `receives`. */
struct queue_record {
	const void *object;
	struct ibv_qp *qp; /* NULL: a shared receive queue */
	struct context_record *context;
	struct object *known;
	struct cq_record *send_cq, *receive_cq;
	struct queue_record *srq;
	uint32_t qp_num;
	bool signals_all;
	atomic_bool has_failed; /* the program has polled a failed completion of it */
	atomic_bool was_stopped; /* the program has moved it to the error state itself */
	struct extended_post *extended; /* NULL: the program posts with ibv_post_send() */
	struct rest rest;
	struct request_queue sends, receives;
};

/* Prepare a queue for `depth` requests with `entries` entries each. False: no memory. */
bool request_queue_init(
	struct request_queue *queue, uint32_t depth, uint32_t entries, bool is_receive);

/* This process is a forked child: no thread has a lock of request.c. */
void requests_inherit(void);

/* The queue is empty from now on. Its lock stays, for threads that poll meanwhile. */
void request_queue_done(struct request_queue *queue);

/* Note a request before it is posted. The queue's lock is locked. */
void request_add_send(struct queue_record *record, const struct send_request *wr, uint32_t site);
void request_add_receive(struct queue_record *record, const struct ibv_recv_wr *wr, uint32_t site);

/* The site of a call that posts, which returns to `address`. The queue's lock is locked. */
static inline uint32_t request_site(struct request_queue *queue, const void *address)
{
	if (queue->last_address != address || check_is_full) {
		queue->last_address = address;
		queue->last_site = site_of(address);
	}
	return queue->last_site;
}

/* Take back what was noted since `tail`, because the library refused it. The lock is locked. */
void request_take_back(struct request_queue *queue, uint64_t tail);

/*
 * The post is over. A queue with more requests than its depth has missed completions, and forgets
 * its oldest requests. The lock is locked.
 */
void request_settle(struct request_queue *queue);

/* The program polls a completion at `site`. No lock is locked. */
void request_complete(struct queue_record *record, const struct ibv_wc *wc, bool is_receive_only,
	const void *address);

/* Forget all requests: the queue pair is reset or destroyed. */
void request_forget(struct request_queue *queue);

/* Report the requests, of all queues, that use these bytes, which `what` takes away at `site`. */
void request_report_users(
	uint32_t kind, uintptr_t start, uint64_t bytes, const char *what, uint32_t site);

/* May an incomplete request use some of these bytes? Does not wait for other threads. */
bool request_may_use(uintptr_t start, uint64_t bytes);

/* --- what request.c and request_report.c share --- */

/* Set the head or the tail of a queue. Its lock orders what belongs to it. */
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

/* The name of a request, for a sentence: "WRITE". */
const char *request_name(const struct request_queue *queue, const struct request *request);

/* Entry `index` is not within its region, or the program has deregistered this. */
void request_report_entry(const struct request_queue *queue, const struct request *request,
	const struct region *region, const struct ibv_sge *entry, uint32_t index);

/* The memory is registered, and not mapped. */
void request_report_unmapped(const struct request_queue *queue, const struct request *request,
	const struct buffer *buffer);

/* --- the records ----------------------------------------------------------------------------- */

/* Note a queue pair, a shared receive queue or a completion queue that was made. */
void queue_add(struct ibv_qp *qp, const struct ibv_qp_cap *cap, bool signals_all, uint32_t site);
void queue_add_shared(struct ibv_srq *srq, uint32_t depth, uint32_t entries, uint32_t site);
struct cq_record *queue_add_cq(struct ibv_cq *cq, uint32_t site);

/* A queue pair or shared receive queue was destroyed, or reset: its requests are gone. */
void queue_remove(const void *object);
void queue_reset(const void *object);

/* End the rest of an object, if it is a queue that rests. */
void queue_wake(const void *object);

/* The record of a live queue pair or shared receive queue; NULL: unknown. */
struct queue_record *queue_of(const void *object);

/* What this thread used last, of objects with the same place in the array. */
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

/* queue_find() and queue_find_cq() for what the thread did not use last. */
struct queue_record *queue_look_up(const void *object);
struct cq_record *queue_look_up_cq(const struct ibv_cq *cq);

/* The program polls. Once this is known, the line is only read, because other threads poll, too. */
static inline void cq_note_poll(struct cq_record *record)
{
	if (!atomic_load_explicit(&record->is_polled, memory_order_relaxed))
		atomic_store_explicit(&record->is_polled, true, memory_order_relaxed);
}

/* queue_of() for calls on the data path; NULL also if the object belongs to the parent process. */
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
 * The records of live objects, for a loop that starts with *i at 0. Those of the parent process are
 * left out: their requests use its memory, and a thread of it may have locked them at the fork.
 */
struct queue_record *queue_next(uint32_t *i);

struct cq_record *cq_of(const struct ibv_cq *cq);

/*
 * The queue pair is in a state in which it does not touch memory of requests, or its state is
 * unknown.
 */
bool queue_is_idle(const struct queue_record *record);

/* The queue pair is in the error state, or its send queue is (SQE). */
bool queue_has_error(const struct queue_record *record);

#endif

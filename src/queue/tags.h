/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The matching list of a tag-matching shared receive queue.
 *
 * The program adds buffers with a tag and a mask; a message takes the oldest one whose tag is its
 * own under the mask. A message that finds none is unexpected: it goes into an ordinary request of
 * the queue, for the program to match by itself.
 *
 * Both match at the same time, so they could disagree: a buffer that the program adds while an
 * unexpected message for it is on its way to the program must not take a later message. Therefore
 * the list counts unexpected messages, and the program says how many it has handled. While the two
 * differ, buffers that are added lie idle; when they agree again, all become active.
 *
 * Queue pairs of all lanes match, any thread changes the list: one spin lock. The memory is the
 * owner's alone; nothing is allocated after creation.
 */
#ifndef URNIC_QUEUE_TAGS_H
#define URNIC_QUEUE_TAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/spin.h"
#include "queue/completion.h"
#include "queue/rq.h"

enum {
	TAGS_COUNT_MAX = 1024, /* buffers of one list */
	/*
	 * The send queue of a queue pair belongs to the list: it is for the READ and the final
	 * message of rendezvous, two slots each.
	 */
	TAGS_SEND_DEPTH = 64,
	TAGS_INLINE_BYTES = 32,
	/* The longest rendezvous request that is matched here; a longer one is the program's. */
	TAGS_RENDEZVOUS_BYTES_MAX = 64,
};

struct tags;

/* The values of enum ibv_ops_wr_opcode. */
enum tag_operation { TAG_ADD, TAG_REMOVE, TAG_SYNC };

struct tag_wr {
	uint64_t wr_id;
	uint32_t operation; /* enum tag_operation, from the user: any value */
	bool is_signaled;
	bool has_count; /* also says how many unexpected messages were handled; SYNC always does */
	uint32_t unexpected_count;
	uint32_t handle; /* REMOVE: of what; ADD sets it */
	uint64_t recv_wr_id; /* ADD: names the buffer in completions */
	uint64_t tag;
	uint64_t mask;
	const struct sge *sge;
	uint32_t sge_count;
};

/* A list for `count` buffers, 1 to TAGS_COUNT_MAX. NULL when memory is out. */
struct tags *tags_create(uint32_t count);
void tags_destroy(struct tags *tags);

/*
 * Execute one operation on the list.
 *
 * `ret_cqe`  Its completion, but for the time: to be pushed if it was asked for or says an error.
 *
 * Returns 0; -EINVAL for an operation that there is not, too many scatter/gather entries, or a
 * handle that never was one; -ENOMEM when the list is full. A buffer that is gone already makes a
 * completion with an error.
 */
int tags_execute(struct tags *tags, struct tag_wr *wr, struct cqe *ret_cqe);

enum tag_match {
	TAG_MATCHED, /* a buffer was taken */
	TAG_UNEXPECTED, /* an ordinary request was taken, and the message counted */
	TAG_NOT_READY, /* nothing was taken: there is no request */
};

/* How tags_take() gets at the ordinary requests: false when there is none. */
typedef bool tags_take_fn(void *context, struct recv_wqe *wqe);

/*
 * Find the buffer for a message with this tag, or else a request for an unexpected one.
 *
 * `may_match`  False when this queue pair cannot take a matching message now: then nothing is taken
 *              if there is a buffer for it.
 */
enum tag_match tags_take(struct tags *tags, uint64_t tag, bool may_match, tags_take_fn *take,
	void *context, struct recv_wqe *wqe);

/* Check the invariants; asserts. For tests. */
void tags_check(const struct tags *tags);

#endif

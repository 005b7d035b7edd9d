/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The matching list of a tag-matching shared receive queue.
 *
 * The program adds buffers with a tag and a mask. A message takes the oldest active buffer whose
 * tag equals the message's tag & the buffer's mask. A message without a matching buffer is
 * unexpected: it goes into an ordinary receive request of the queue, and the program finds the
 * buffer for it.
 *
 * The NIC and the program match at the same time, so they could disagree. The program may add a
 * buffer while an unexpected message for that buffer is on its way to the program. The buffer must
 * not take a later message then. Therefore the list counts unexpected messages, and the program
 * reports how many it has handled. A buffer that is added while the two counts differ is inactive.
 * When the counts are equal again, all buffers become active.
 *
 * Queue pairs of all lanes match, and any thread changes the list, under one spin lock. Only the
 * owner accesses the memory; nothing is allocated after creation.
 */
#ifndef URNIC_QUEUE_TAGS_H
#define URNIC_QUEUE_TAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "queue/completion.h"
#include "queue/rq.h"

enum {
	TAGS_COUNT_MAX = 1024, /* buffers of one list */
	/*
	 * The depth of the send queue of a queue pair whose shared receive queue matches tags. A
	 * rendezvous takes two slots: one for the READ, and one for the message that ends the
	 * rendezvous.
	 */
	TAGS_SEND_DEPTH = 64,
	TAGS_INLINE_BYTES = 32,
	/* The longest rendezvous request that the NIC matches; a longer one goes to the program. */
	TAGS_RENDEZVOUS_BYTES_MAX = 64,
};

struct tags;

/* The values are those of enum ibv_ops_wr_opcode. */
enum tag_operation { TAG_ADD, TAG_REMOVE, TAG_SYNC };

struct tag_wr {
	uint64_t wr_id;
	uint32_t operation; /* enum tag_operation; the program may have set any value */
	bool is_signaled;
	bool has_count; /* unexpected_count is valid; for SYNC it always is */
	uint32_t unexpected_count;
	uint32_t handle; /* the buffer's handle; REMOVE reads it, ADD sets it */
	uint64_t recv_wr_id; /* ADD: names the buffer in completions */
	uint64_t tag;
	uint64_t mask;
	const struct sge *sge;
	uint32_t sge_count;
};

/* Create a list for `count` buffers, 1 to TAGS_COUNT_MAX. Returns NULL when there is no memory. */
struct tags *tags_create(uint32_t count);
void tags_destroy(struct tags *tags);

/*
 * Execute an operation on the list.
 *
 * `ret_cqe`  The operation's completion, with made_ns still 0. The caller pushes it if
 *            wr->is_signaled, or if it has an error status.
 *
 * Returns 0; -EINVAL for an unknown operation, too many scatter/gather entries, or a handle that
 * was never given out; -ENOMEM when the list is full. If a message has taken the buffer that
 * TAG_REMOVE names, the call returns 0, and the completion has an error status.
 */
int tags_execute(struct tags *tags, struct tag_wr *wr, struct cqe *ret_cqe);

enum tag_match {
	TAG_MATCHED, /* a buffer was taken */
	TAG_UNEXPECTED, /* an ordinary request was taken, and the message counted */
	TAG_NOT_READY, /* no buffer or request was taken: there is none, or may_match is false */
};

/* Takes an ordinary request of the queue. Returns false when there is none. */
typedef bool tags_take_fn(void *context, struct recv_wqe *wqe);

/*
 * Find the buffer for a message with this tag, or else a request for an unexpected message.
 *
 * `may_match`  False when the queue pair cannot use a matching buffer now. If a buffer matches, the
 *              result is then TAG_NOT_READY.
 */
enum tag_match tags_take(struct tags *tags, uint64_t tag, bool may_match, tags_take_fn *take,
	void *context, struct recv_wqe *wqe);

/* Assert the invariants of the list. For tests. */
void tags_check(const struct tags *tags);

#endif

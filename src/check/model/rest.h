/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cheap checks rest: they watch the first REST_FIRST_POSTS requests of a queue, and then batches of
 * REST_POSTS. The rest after a batch is REST_TIMES as long as the batch. During a rest posts go
 * straight to the library, and the checker looks only at completions.
 *
 * The checker does not know the requests that were posted during a rest. A completion of an unknown
 * request ends all known ones before it, and the checker reports no mistake that an unknown request
 * could explain. A queue rests only after the program has polled some of its completions.
 */
#ifndef URNIC_CHECK_MODEL_REST_H
#define URNIC_CHECK_MODEL_REST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "check/model/owned_lock.h"

struct queue_record;

enum {
	REST_FIRST_POSTS = 1024,
	REST_POSTS = 128,
	REST_LOOKS = 8, /* one in this many completions reads the clock, because that is slow */
	REST_TIMES = 20, /* a rest is this many times as long as the batch before it */
};

/*
 * A queue's place in the cycle. Threads that post and threads that poll read and count without a
 * lock. `lock` guards the begin and the end of a rest. A thread that locks it may have locked the
 * queue's sends or receives already.
 */
struct rest {
	struct owned_lock lock;
	atomic_bool is_resting;
	atomic_bool has_rested;
	_Atomic uint32_t posts; /* number of posts in the present batch */
	_Atomic uint32_t completions; /* number of completions during rests */
	_Atomic uint64_t begun_ticks; /* when the batch has begun */
	_Atomic uint64_t wake_ticks; /* when the rest ends, and the next batch begins */
};

/*
 * A queue of the process has rested, so the program may have posted targets that the checker does
 * not know.
 */
extern atomic_bool rest_is_used;

/*
 * From now on the program's posts by ibv_wr_*() go to the library (hook/hook_extended.c). Returns
 * false, and changes nothing, while a thread builds a request.
 */
bool rest_hooks_remove(struct queue_record *record);

/* From the next ibv_wr_start() on, posts go to the checker again. */
void rest_hooks_put(struct queue_record *record);

/* Count a post. Begins a rest when the batch is over. */
void rest_count(struct queue_record *record);

/* A completion was polled while the queue rests. Begins a batch if the rest is over. */
void rest_look(struct queue_record *record);

/* End the rest, because the object is about to be destroyed, or the process is a forked child. */
void rest_end(struct queue_record *record);

#endif

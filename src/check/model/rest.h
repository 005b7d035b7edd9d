/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Cheap checks rest: they watch the first REST_FIRST_POSTS requests of a queue, and then batches of
 * REST_POSTS, so that a small share of the time is spent in batches. Between them the program's
 * posts go to the library, and only completions are looked at.
 *
 * What a queue has posted while it rested is unknown. A completion of an unknown request ends all
 * known ones before it, and mistakes that an unknown request could explain are not reported. A
 * queue rests only after some of its completions were polled.
 */
#ifndef URNIC_CHECK_REST_H
#define URNIC_CHECK_REST_H

#include <stdbool.h>
#include <stdint.h>

struct queue_record;

enum {
	REST_FIRST_POSTS = 1024,
	REST_POSTS = 128,
	REST_LOOKS = 8, /* each so many completions the clock is read, which takes a while */
	REST_TIMES = 20, /* a rest is so many times as long as the batch before it */
};

/* A queue's place in the cycle. Posts change it under the lock of the queue's sends or receives. */
struct rest {
	bool is_resting;
	bool has_rested;
	uint32_t posts; /* of the present batch */
	uint32_t completions; /* during rests */
	uint64_t begun_ticks; /* of the batch */
	uint64_t wake_ticks; /* of the rest: when the next batch begins */
};

/* Set once a queue of the process has rested: it may have posted targets that are unknown. */
extern bool rest_is_used;

/*
 * What the hooks do (hook/hook_extended.c): from now on the program's posts of ibv_wr_*() go to the
 * library. Returns false, and changes nothing, while a thread builds a request.
 */
bool rest_hooks_remove(struct queue_record *record);

/* Posts go to the checker again, from the next ibv_wr_start() on. */
void rest_hooks_put(struct queue_record *record);

/* Count a post. Begins a rest when the batch is over. */
void rest_count(struct queue_record *record);

/* A completion was polled while the queue rests. Begins a batch if it is time. */
void rest_look(struct queue_record *record);

/* End the rest, because the object is about to be destroyed, or the process is a forked child. */
void rest_end(struct queue_record *record);

#endif

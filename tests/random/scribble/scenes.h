/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scenes: owners and peers of NIC memory in one process, and an attacker.
 *
 * A round makes a scene, has its owners and peers do some eighty random operations while random
 * words are written wherever a peer may write, and takes the scene down. In some rounds the owner
 * of the memory is the attacker: then random words are written to the owner's side, too, and only
 * its peers are checked. The program fails when
 *
 *   - it crashes, or a sanitizer or an assertion of the engine says something;
 *   - one operation takes longer than OPERATION_NS of the processor's time, or waits for ever;
 *   - a byte is read or written that no region names which a peer may use;
 *   - a program sees a completion with a wr_id that it has not posted.
 */
#ifndef URNIC_TESTS_RANDOM_SCRIBBLE_SCENES_H
#define URNIC_TESTS_RANDOM_SCRIBBLE_SCENES_H

#include <stdbool.h>
#include <stdint.h>

#include "words.h"

enum round_kind {
	ROUND_PLAIN, /* words between operations, and in callbacks */
	ROUND_STEPS, /* and after instructions */
	ROUND_THREAD, /* and by a thread */
	ROUND_HOSTILE_OWNER, /* on the owner's side, too; and after instructions */
};

/* What a round is about, and its generators. */
struct scene {
	enum round_kind kind;
	struct sim_random random; /* of the operations */
	struct words words;
	uint64_t now_ns; /* virtual */
	uint32_t calm; /* one operation in so many is attacked: else few connections live long */
	uint32_t pauses; /* of the operation under way */
	bool is_dead; /* who is waited for in it */
	bool is_restless; /* the attacker changes marks while they are waited for */
};

extern struct scene scene;
extern uint64_t slowest_ns; /* operation, of the processor's time */

void connected_round(void); /* RC, UC, XRC; with shared receive queues */
void datagram_round(void); /* UD */
void borrower_round(void); /* imported protection domains, XRC queues of another process */

/* A number of the scene's below `limit`; one time in `limit`. */
uint32_t draw(uint32_t limit);
static inline bool draw_once_in(uint32_t limit)
{
	return draw(limit) == 0;
}

/* One time in scene.calm, and in `limit` of those. */
static inline bool draw_attack(uint32_t limit)
{
	return draw_once_in(scene.calm) && draw_once_in(limit);
}

/* Around each operation of a victim. Words are written before and, in some rounds, meanwhile. */
void operation_begin(void);
void operation_end(void);

/*
 * The wait of an owner or peer for another one, called from its callbacks: time passes, and words
 * are written. Fails when an operation waits without end.
 */
void scene_pause(void);

/* The test fails: says so with the seed, and ends. */
_Noreturn __attribute__((format(printf, 1, 2))) void scene_fail(const char *format, ...);

#endif

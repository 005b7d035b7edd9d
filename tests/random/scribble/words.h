/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random words for memory that an attacker may write.
 *
 * A scene (scenes.h) names the places that an attacker may write, and values that mean something
 * there: offsets, counts, names. The generator writes random values, small ones, ones near what is
 * there, bits that flip, copies of other words, and the scene's own values. A seed replays them.
 *
 * There are three ways to write while an operation of the victim is under way. The scene's
 * callbacks call words_scribble(). words_step_begin() has the processor stop after each
 * instruction, and writes after some; this is replayed by the seed, too. words_thread_begin() has a
 * thread write at the same time, which no seed replays.
 *
 * Threads: one player; the thread of words_thread_begin() has a generator of its own.
 */
#ifndef URNIC_TESTS_RANDOM_SCRIBBLE_WORDS_H
#define URNIC_TESTS_RANDOM_SCRIBBLE_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "support/sim_random.h"

enum {
	WORDS_PLACES_MAX = 64,
	WORDS_VALUES_MAX = 64,
	WORDS_UNDO_MAX = 8192,
};

struct words_place {
	uint8_t *start; /* aligned to 8 */
	uint64_t bytes; /* a multiple of 8 */
};

struct words_change {
	uint64_t *word;
	uint64_t before;
};

struct words {
	struct sim_random random;
	struct words_place place[WORDS_PLACES_MAX];
	uint32_t place_count;
	uint64_t value[WORDS_VALUES_MAX];
	uint32_t value_count;
	bool is_undone; /* words_undo() is to come: changes are noted */
	struct words_change change[WORDS_UNDO_MAX];
	uint32_t change_count;
	uint64_t written; /* words, ever */
};

/* Begin anew: no place, no value. */
void words_begin(struct words *words, uint64_t seed);

/* An attacker may write these bytes, which are cut to whole words. */
void words_add(struct words *words, void *start, uint64_t bytes);
void words_add_value(struct words *words, uint64_t value);

/* Write `count` words. Without a place nothing is written. */
void words_scribble(struct words *words, uint32_t count);

/* The words are again what they were before words_scribble() wrote them, if is_undone. */
void words_undo(struct words *words);

/* A value of any kind; `near` is what is there now. */
uint64_t words_value(struct words *words, uint64_t near);

/* --- while an operation is under way --- */

/*
 * From here to words_step_end() some words are written after random instructions of the calling
 * thread. Does nothing where the processor or a sanitizer does not allow it.
 */
void words_step_begin(struct words *words);
void words_step_end(void);

/* A thread writes until words_thread_end(), with a generator that begins with `seed`. */
void words_thread_begin(const struct words *words, uint64_t seed);
uint64_t words_thread_end(void);

#endif

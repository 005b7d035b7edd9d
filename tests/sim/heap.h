/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Local buffers of a simulated program: registered memory, handed out in scatter/gather lists with
 * gaps between the pieces that must not change.
 */
#ifndef URNIC_TESTS_SIM_HEAP_H
#define URNIC_TESTS_SIM_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "world.h"

enum { PIECE_COUNT_MAX = 4 };

/* A scatter/gather list over memory of its own. */
struct piece_list {
	uint32_t count;
	struct sge sge[PIECE_COUNT_MAX];
};

struct heap {
	struct world *world;
	uint8_t *memory;
	uint64_t bytes;
	uint64_t used_bytes;
	uint32_t key;
};

void heap_init(struct heap *heap, struct world *world, struct host *host, uint64_t bytes);
void heap_done(struct heap *heap);

/* Memory for `bytes`, in one to `count_max` pieces with gaps before, between and after. */
void heap_take_pieces(
	struct heap *heap, struct piece_list *list, uint32_t bytes, uint32_t count_max);

/* As it was when it was taken. */
void heap_clear_piece(const struct sge *sge);

/* Do the pieces hold these bytes, the rest of them and the gaps behind them nothing? */
bool pieces_hold(const struct piece_list *list, const uint8_t *expected, uint32_t bytes);

void pieces_fill(const struct piece_list *list, const uint8_t *from);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Is a history of blocks linearizable? Each block is a register, which commands of both hosts read
 * and write at the same time.
 *
 * An action is what a command does to one block. It happens at one moment between its beginning and
 * its end; if its outcome is unknown, then at one such moment or never. The checker looks for
 * moments that explain everything that was read. It is exact: it follows each order of the actions
 * that were pending together.
 *
 * A crash of the target's machine may take each block back to a value that it had since it was last
 * durable. A flush, and a write with FUA, makes it durable.
 *
 * The run records actions as they happen; register_check() looks at all of them in the end.
 */
#ifndef URNIC_TESTS_SIM_NVMF_REGISTER_H
#define URNIC_TESTS_SIM_NVMF_REGISTER_H

#include "nvmf_world.h"

enum register_kind {
	REGISTER_READ, /* `value` was there */
	REGISTER_READ_OTHER, /* `value` was not there */
	REGISTER_WRITE,
	REGISTER_DISCARD, /* 0 was written, or nothing */
	REGISTER_SWAP, /* `other` was there, and `value` was written */
	REGISTER_COPY, /* a value that the block `other` had was written */
	REGISTER_FLUSH, /* of `other` blocks from `block` on */
};

enum register_outcome {
	REGISTER_PENDING,
	REGISTER_DONE,
	REGISTER_MAYBE, /* done before its end, or never */
	REGISTER_NEVER,
};

struct register_action {
	enum register_kind kind;
	enum register_outcome outcome;
	bool is_durable; /* what was written */
	bool is_closed; /* its end is fixed */
	unsigned block;
	uint64_t value; /* 0, or a value of the block, from register_value() */
	uint64_t other;
	uint64_t begin, end; /* places in the history */
	unsigned previous; /* action of this block */
};

struct register_result {
	uint64_t actions;
	uint64_t configs; /* that were followed */
	uint64_t undecided; /* blocks with more orders than the checker follows */
};

struct register_set;

/* All blocks hold 0. */
struct register_set *register_create(struct nvmf_world *world, unsigned blocks);
void register_destroy(struct register_set *set);

/* A new value for the block: no other write has it. */
uint64_t register_value(struct register_set *set, unsigned block);
/* No more may be made. */
bool register_is_full(const struct register_set *set, unsigned block);
bool register_is_of(uint64_t value, unsigned block);

/* Something begins now. Only kind, block, value, other and is_durable are used. Its number. */
unsigned register_begin(struct register_set *set, const struct register_action *action);
/* It has ended, now or when it was closed. `value` is what a REGISTER_READ found. */
void register_end(
	struct register_set *set, unsigned number, enum register_outcome outcome, uint64_t value);
/* It was a read that did not find `value`. */
void register_refute(struct register_set *set, unsigned number, uint64_t value);
/* Its outcome is unknown, and it may still happen until it is closed. */
void register_lose(struct register_set *set, unsigned number);
/* It ends now; register_end() says how, before or later. */
void register_close(struct register_set *set, unsigned number);

/* Writes to the block that are not closed: with many of them the search takes long. */
unsigned register_open_count(const struct register_set *set, unsigned block);

/* The machine of all blocks crashes now. The caller has closed what it had begun. */
void register_crash(struct register_set *set);

/* Ends the run if some block has a history that no order explains. Adds to *result. */
void register_check(struct register_set *set, struct register_result *result);

#endif

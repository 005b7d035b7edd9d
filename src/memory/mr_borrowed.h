/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory in protection domains of other processes.
 *
 * A queue pair may work in a protection domain of another process, the owner: an imported domain,
 * or that of an XRC shared receive queue. The number of such a domain is below MR_PD_BORROWED_END,
 * and no domain of this process has such a number. Regions that this process registers in the
 * domain are in this process's table, which is searched first. Any other key is looked up in the
 * owner's table, and the functions of struct mr_borrowed move the bytes.
 *
 * No caller gets a pointer to borrowed memory, because the owner may remove the memory at any time,
 * and waits only for a call in progress. So mr_put() and mr_get() move bytes that may be borrowed.
 *
 * Threads: the caller holds one lane's lock, as for lookups.
 */
#ifndef URNIC_MEMORY_MR_BORROWED_H
#define URNIC_MEMORY_MR_BORROWED_H

#include <stddef.h>

#include "memory/mr.h"

enum mr_word_operation {
	MR_WORD_COMPARE_SWAP,
	MR_WORD_FETCH_ADD,
	MR_WORD_STORE,
};

struct mr_word {
	enum mr_word_operation operation;
	uint64_t compare; /* compare and swap: the expected value */
	uint64_t value; /* the value to swap in, add or store */
};

/*
 * Set by room peer. The functions return MR_FAULT_PAGE when the access is permitted, but the memory
 * cannot be reached.
 */
struct mr_borrowed {
	/* mr_resolve_for() without a pointer. */
	enum mr_fault (*check)(
		uint32_t key, struct mr_user user, uint32_t access, uint64_t iova, uint64_t bytes);
	/*
	 * put() and get() check as check() does, then copy. put() stores the last bytes last, as
	 * copy_place() does.
	 */
	enum mr_fault (*put)(uint32_t key, struct mr_user user, uint32_t access, uint64_t iova,
		size_t bytes, const uint8_t *from);
	enum mr_fault (*get)(uint32_t key, struct mr_user user, uint32_t access, uint64_t iova,
		size_t bytes, uint8_t *to);
	/*
	 * Apply `word` atomically, and set *ret_before to the previous contents. `iova` is a
	 * multiple of 8. Returns MR_FAULT_LATER when only the owner can execute the operation, and
	 * did not begin in time.
	 */
	enum mr_fault (*apply)(uint32_t key, struct mr_user user, uint32_t access, uint64_t iova,
		const struct mr_word *word, uint64_t *ret_before);
};

/* Does the protection domain belong to another process? */
static inline bool mr_is_borrowed(const struct mr_table *table, uint32_t pd)
{
	return pd < MR_PD_BORROWED_END && table->borrowed;
}

/* mr_resolve_for() without a pointer, for memory of this process or borrowed memory. */
enum mr_fault mr_check(const struct mr_table *table, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, uint64_t bytes);

/* Copy to or from memory of this process or borrowed memory, if `access` is granted. */
enum mr_fault mr_put(const struct mr_table *table, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, size_t bytes, const uint8_t *from);
enum mr_fault mr_get(const struct mr_table *table, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, size_t bytes, uint8_t *to);

/*
 * Apply an operation to memory of this process: eight aligned bytes, in this machine's byte order.
 * Returns the previous contents.
 */
uint64_t mr_word_apply(const struct mr_word *word, void *target);

/*
 * Apply an operation to the memory of a key, of this process or borrowed. `iova` is a multiple of
 * 8. Returns MR_FAULT_ALIGN when the memory at `iova` is not aligned to 8 bytes.
 */
enum mr_fault mr_apply(const struct mr_table *table, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, const struct mr_word *word, uint64_t *ret_before);

#endif

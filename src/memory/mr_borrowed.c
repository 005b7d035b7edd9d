/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/mr_borrowed.h"

#include <string.h>

#include "memory/copy.h"

enum mr_fault mr_check(const struct mr_table *table, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, uint64_t bytes)
{
	uint8_t *pointer;
	enum mr_fault fault = mr_resolve_for(table, key, user, access, iova, bytes, &pointer);

	if (fault && mr_is_borrowed(table, user.pd))
		fault = table->borrowed->check(key, user, access, iova, bytes);
	return fault;
}

enum mr_fault mr_put(const struct mr_table *table, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, size_t bytes, const uint8_t *from)
{
	uint8_t *to;
	enum mr_fault fault = mr_resolve_for(table, key, user, access | MR_TOUCH, iova, bytes, &to);

	if (!fault)
		copy_place(to, from, bytes);
	else if (mr_is_borrowed(table, user.pd))
		fault = table->borrowed->put(key, user, access, iova, bytes, from);
	return fault;
}

enum mr_fault mr_get(const struct mr_table *table, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, size_t bytes, uint8_t *to)
{
	uint8_t *from;
	enum mr_fault fault =
		mr_resolve_for(table, key, user, access | MR_TOUCH, iova, bytes, &from);

	if (!fault)
		memcpy(to, from, bytes);
	else if (mr_is_borrowed(table, user.pd))
		fault = table->borrowed->get(key, user, access, iova, bytes, to);
	return fault;
}

uint64_t mr_word_apply(const struct mr_word *word, void *target)
{
	_Atomic uint64_t *at = target;
	uint64_t before = word->compare;

	switch (word->operation) {
	case MR_WORD_COMPARE_SWAP:
		atomic_compare_exchange_strong(at, &before, word->value);
		return before;
	case MR_WORD_FETCH_ADD:
		return atomic_fetch_add(at, word->value);
	case MR_WORD_STORE:
		break;
	}
	return atomic_exchange(at, word->value);
}

enum mr_fault mr_apply(const struct mr_table *table, uint32_t key, struct mr_user user,
	uint32_t access, uint64_t iova, const struct mr_word *word, uint64_t *ret_before)
{
	uint8_t *target;
	enum mr_fault fault = mr_resolve_for(
		table, key, user, access | MR_TOUCH, iova, sizeof(uint64_t), &target);

	if (fault && mr_is_borrowed(table, user.pd))
		return table->borrowed->apply(key, user, access, iova, word, ret_before);
	if (fault)
		return fault;
	if ((uintptr_t)target % sizeof(uint64_t))
		return MR_FAULT_ALIGN;
	*ret_before = mr_word_apply(word, target);
	return MR_OK;
}

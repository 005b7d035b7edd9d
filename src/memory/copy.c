/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory/copy.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/arith.h"
#include "base/spin.h"
#include "memory/mr_borrowed.h"

enum { TAIL_BYTES = 8, LINE_BYTES = 64 };

void copy_place(uint8_t *to, const uint8_t *from, size_t bytes)
{
	uint64_t tail;

	if (bytes > TAIL_BYTES) {
		memcpy(&tail, from + bytes - TAIL_BYTES, TAIL_BYTES);
		memmove(to, from, bytes - TAIL_BYTES);
		atomic_thread_fence(memory_order_release);
		memcpy(to + bytes - TAIL_BYTES, &tail, TAIL_BYTES);
		return;
	}
	/* With a constant size, memmove() compiles to a single store instruction. */
	switch (bytes) {
	case 8:
		memmove(to, from, 8);
		break;
	case 4:
		memmove(to, from, 4);
		break;
	default:
		memmove(to, from, bytes);
	}
}

place_fn *place_payload = copy_place;

/* How often copy_place_tail_first() pauses: a few microseconds on common CPUs. */
enum { TAIL_PAUSES = 64 };

void copy_place_tail_first(uint8_t *to, const uint8_t *from, size_t bytes)
{
	size_t head_bytes;

	if (bytes <= TAIL_BYTES) {
		copy_place(to, from, bytes);
		return;
	}
	head_bytes = bytes - TAIL_BYTES;
	memcpy(to + head_bytes, from + head_bytes, TAIL_BYTES);
	atomic_thread_fence(memory_order_seq_cst);
	for (int i = 0; i < TAIL_PAUSES; i++)
		spin_pause();
	memcpy(to, from, head_bytes);
}

#ifdef __x86_64__
/*
 * Copy whole cache lines to an aligned address. Stores that bypass the caches become visible in any
 * order, so a fence ends the copy. The caller stores the last bytes after that fence.
 */
static void stream_copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
	for (; bytes; bytes -= LINE_BYTES, to += LINE_BYTES, from += LINE_BYTES) {
		__m128i a = _mm_loadu_si128((const void *)from);
		__m128i b = _mm_loadu_si128((const void *)(from + 16));
		__m128i c = _mm_loadu_si128((const void *)(from + 32));
		__m128i d = _mm_loadu_si128((const void *)(from + 48));

		_mm_stream_si128((void *)to, a);
		_mm_stream_si128((void *)(to + 16), b);
		_mm_stream_si128((void *)(to + 32), c);
		_mm_stream_si128((void *)(to + 48), d);
	}
	_mm_sfence();
}
#else
static void stream_copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
	memmove(to, from, bytes);
}
#endif

void copy_place_long(uint8_t *to, const uint8_t *from, size_t bytes)
{
	/* Would a copy from front to back overwrite source bytes that it has not read yet? */
	bool is_overrun = (uintptr_t)to - (uintptr_t)from < bytes;

	if (bytes >= COPY_STREAM_BYTES && !is_overrun) {
		size_t head_bytes = -(uintptr_t)to % LINE_BYTES;
		size_t line_bytes = (bytes - head_bytes - TAIL_BYTES) & ~(size_t)(LINE_BYTES - 1);

		memmove(to, from, head_bytes);
		stream_copy(to + head_bytes, from + head_bytes, line_bytes);
		to += head_bytes + line_bytes;
		from += head_bytes + line_bytes;
		bytes -= head_bytes + line_bytes;
	}
	copy_place(to, from, bytes);
}

/* A walk over the parts of a list that hold bytes [offset, offset + bytes). */
struct walk {
	const struct sge *list;
	uint32_t count;
	uint32_t index;
	uint64_t skip_bytes;
	size_t left_bytes;
};

static bool walk_next(
	struct walk *walk, uint64_t *ret_address, uint32_t *ret_lkey, size_t *ret_bytes)
{
	while (walk->left_bytes && walk->index < walk->count) {
		const struct sge *sge = &walk->list[walk->index];

		walk->index++;
		if (walk->skip_bytes >= sge->bytes) {
			walk->skip_bytes -= sge->bytes;
			continue;
		}
		*ret_address = sge->address + walk->skip_bytes;
		*ret_lkey = sge->lkey;
		*ret_bytes = (size_t)min_u64(sge->bytes - walk->skip_bytes, walk->left_bytes);
		walk->left_bytes -= *ret_bytes;
		walk->skip_bytes = 0;
		return true;
	}
	return false;
}

enum mr_fault sge_gather(const struct mr_table *table, uint32_t pd, const struct sge *list,
	uint32_t count, uint64_t offset, size_t bytes, uint8_t *to)
{
	struct walk walk = {list, count, 0, offset, bytes};
	uint64_t address;
	uint32_t lkey;
	size_t step_bytes;

	while (walk_next(&walk, &address, &lkey, &step_bytes)) {
		enum mr_fault fault = mr_get(table, lkey, (struct mr_user){pd, 0}, MR_LOCAL_READ,
			address, step_bytes, to);

		if (fault)
			return fault;
		to += step_bytes;
	}
	return MR_OK;
}

const uint8_t *sge_piece(const struct mr_table *table, uint32_t pd, const struct sge *list,
	uint32_t count, uint64_t offset, size_t bytes)
{
	struct walk walk = {list, count, 0, offset, bytes};
	uint64_t address;
	uint32_t lkey;
	size_t step_bytes;
	uint8_t *piece;

	if (!walk_next(&walk, &address, &lkey, &step_bytes) || step_bytes != bytes ||
		mr_resolve(table, lkey, pd, MR_LOCAL_READ | MR_TOUCH, address, bytes, &piece))
		return NULL;
	return piece;
}

struct sge sge_slice(const struct sge *list, uint32_t count, uint64_t offset, size_t bytes)
{
	struct walk walk = {list, count, 0, offset, bytes};
	struct sge slice = {0};
	size_t step_bytes = 0;

	walk_next(&walk, &slice.address, &slice.lkey, &step_bytes);
	slice.bytes = (uint32_t)step_bytes;
	return slice;
}

/*
 * Copy `from` to a list that may name borrowed memory. `check` and `walk` are walks over the same
 * bytes: the first to check them all, the second to copy.
 */
static enum mr_fault scatter_borrowed(const struct mr_table *table, uint32_t pd, struct walk *check,
	struct walk *walk, const uint8_t *from)
{
	struct mr_user user = {pd, 0};
	enum mr_fault fault = MR_OK;
	uint64_t address;
	uint32_t lkey;
	size_t step_bytes;

	while (!fault && walk_next(check, &address, &lkey, &step_bytes))
		fault = mr_check(table, lkey, user, MR_LOCAL_WRITE, address, step_bytes);
	while (!fault && walk_next(walk, &address, &lkey, &step_bytes)) {
		fault = mr_put(table, lkey, user, MR_LOCAL_WRITE, address, step_bytes, from);
		from += step_bytes;
	}
	return fault;
}

enum mr_fault sge_scatter(const struct mr_table *table, uint32_t pd, const struct sge *list,
	uint32_t count, uint64_t offset, size_t bytes, const uint8_t *from)
{
	struct walk check = {list, count, 0, offset, bytes};
	struct walk walk = check;
	uint64_t address;
	uint32_t lkey;
	size_t step_bytes;
	uint8_t *to = NULL;

	if (mr_is_borrowed(table, pd))
		return scatter_borrowed(table, pd, &check, &walk, from);
	while (walk_next(&check, &address, &lkey, &step_bytes)) {
		enum mr_fault fault = mr_resolve(
			table, lkey, pd, MR_LOCAL_WRITE | MR_TOUCH, address, step_bytes, &to);

		if (fault)
			return fault;
		/* The usual case: one entry has all the bytes, so it is resolved once only. */
		if (step_bytes == bytes) {
			copy_place(to, from, bytes);
			return MR_OK;
		}
	}
	while (walk_next(&walk, &address, &lkey, &step_bytes)) {
		if (mr_resolve(table, lkey, pd, MR_LOCAL_WRITE, address, step_bytes, &to))
			/* Cannot happen: no region is deregistered while the lane is locked. */
			return MR_FAULT_KEY;
		copy_place(to, from, step_bytes);
		from += step_bytes;
	}
	return MR_OK;
}

enum mr_fault sge_check(const struct mr_table *table, uint32_t pd, uint32_t access,
	const struct sge *list, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		enum mr_fault fault;

		if (!list[i].bytes)
			continue;
		fault = mr_check(table, list[i].lkey, (struct mr_user){pd, 0}, access,
			list[i].address, list[i].bytes);
		if (fault)
			return fault;
	}
	return MR_OK;
}

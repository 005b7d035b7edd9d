/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * free(), realloc(), munmap(), mremap(), mmap() over a mapping, and shmdt(): does the program give
 * memory back that a request still uses? Each wrapper marks the region and reports before the
 * memory is released. Otherwise another thread that takes the digest of a request might read memory
 * that is gone.
 *
 * mprotect() of memory that a request uses is no mistake: adapters pin the pages. The checker then
 * leaves the protection of these pages to the program.
 *
 * The checker frees the memory of a destroyed object later. So a use of the object finds its last
 * contents, and the checker can say that the object is destroyed.
 */
/* Programs call mmap() or mmap64(), so each has a wrapper of its own here. */
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "check/check.h"
#include "check/hook/hook.h"
#include "check/model/protect.h"
#include "check/model/region.h"
#include "check/model/request.h"
#include "check/model/watch.h"
#include "check/report.h"
#include "check/site.h"
#include "check/table.h"

enum { KEPT_COUNT = 1024 };

static void *kept[KEPT_COUNT]; /* memory of destroyed objects; guarded by check_lock */
static uint32_t next_kept;
static struct table segments; /* the length of each attached segment of shared memory, by address */
static __thread const char *keeping __attribute__((tls_model("initial-exec")));

void object_keep(const void *pointer)
{
	keeping = pointer;
}

/* Keep a chunk. Returns the chunk that was kept the longest; the caller may free it. */
static void *chunk_keep(void *chunk)
{
	void *oldest;

	pthread_mutex_lock(&check_lock);
	oldest = kept[next_kept];
	kept[next_kept] = chunk;
	next_kept = (next_kept + 1) % KEPT_COUNT;
	pthread_mutex_unlock(&check_lock);
	return oldest;
}

/* The program gives memory back, by the function `what`. */
static void memory_give_back(
	uint32_t kind, uintptr_t start, uint64_t bytes, const char *what, const void *address)
{
	check_depth++;
	watch_end_at(start, bytes);
	protect_open(start, bytes);
	if (region_give_back(start, bytes))
		request_report_users(kind, start, bytes, what, site_of_stack(address));
	check_depth--;
}

/* May some byte of the chunk belong to a region? A region may begin anywhere within a chunk. */
static bool chunk_may_have_region(void *chunk)
{
	return chunk && check_depth == 0 && region_count() > 0 &&
		region_may_overlap((uintptr_t)chunk, malloc_usable_size(chunk));
}

CHECK_EXPORT void free(void *pointer)
{
	static void (*real)(void *pointer);
	static __thread bool is_looking __attribute__((tls_model("initial-exec")));

	/*
	 * dlsym() calls free() for the text of its last error, before the real free() is known.
	 * That text is leaked.
	 */
	if (is_looking)
		return;
	if (!real) {
		is_looking = true;
		real = (__typeof__(real))check_next("free");
		is_looking = false;
	}
	if (__builtin_expect(keeping != NULL, 0) && pointer && keeping >= (char *)pointer &&
		keeping < (char *)pointer + malloc_usable_size(pointer)) {
		keeping = NULL;
		pointer = chunk_keep(pointer);
	} else if (chunk_may_have_region(pointer)) {
		memory_give_back(KIND_MEMORY_FREED, (uintptr_t)pointer, malloc_usable_size(pointer),
			"free()", __builtin_return_address(0));
	}
	real(pointer);
}

/*
 * The wrapper of realloc() always moves a chunk that has a region. So the checker can report before
 * the old memory is released. A program must not rely on a chunk that grows in place.
 */
static void *chunk_move(void *chunk, size_t bytes, const void *address)
{
	size_t before = malloc_usable_size(chunk);
	void *moved = malloc(bytes);

	if (!moved)
		return NULL;
	memory_give_back(KIND_MEMORY_FREED, (uintptr_t)chunk, before, "realloc()", address);
	check_depth++;
	memcpy(moved, chunk, before < bytes ? before : bytes);
	free(chunk);
	check_depth--;
	return moved;
}

CHECK_EXPORT void *realloc(void *pointer, size_t bytes)
{
	CHECK_REAL(realloc);
	const void *address = __builtin_return_address(0);

	if (!chunk_may_have_region(pointer) ||
		!region_overlapping(
			(uintptr_t)pointer, malloc_usable_size(pointer), REGION_ANY_ACCESS))
		return real(pointer, bytes);
	if (bytes > 0)
		return chunk_move(pointer, bytes, address);
	memory_give_back(KIND_MEMORY_FREED, (uintptr_t)pointer, malloc_usable_size(pointer),
		"realloc()", address);
	return real(pointer, bytes);
}

/* The program removes a mapping by the function `what`. */
static void mapping_give_back(void *memory, size_t bytes, const char *what, const void *address)
{
	if (check_depth == 0 && bytes > 0 && region_may_overlap((uintptr_t)memory, bytes))
		memory_give_back(KIND_MEMORY_UNMAPPED, (uintptr_t)memory, bytes, what, address);
}

CHECK_EXPORT int munmap(void *memory, size_t bytes)
{
	CHECK_REAL(munmap);

	mapping_give_back(memory, bytes, "munmap()", __builtin_return_address(0));
	return real(memory, bytes);
}

CHECK_EXPORT void *mremap(void *memory, size_t bytes, size_t new_bytes, int flags, ...)
{
	CHECK_REAL(mremap);
	const void *address = __builtin_return_address(0);
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	/* How many bytes of the old mapping remain in place */
	size_t left = (new_bytes + page_bytes - 1) & -page_bytes;
	void *target = NULL;
	va_list rest;

	if (flags & ~MREMAP_MAYMOVE) {
		va_start(rest, flags);
		target = va_arg(rest, void *);
		va_end(rest);
		left = 0;
	} else if (new_bytes > bytes && (flags & MREMAP_MAYMOVE) &&
		region_may_overlap((uintptr_t)memory, bytes)) {
		/*
		 * The kernel moves the mapping only if it cannot grow in place. So first try to
		 * grow it there.
		 */
		void *grown;

		protect_open((uintptr_t)memory, bytes);
		grown = real(memory, bytes, new_bytes, 0);

		if (grown != MAP_FAILED || errno != ENOMEM)
			return grown;
		left = 0;
	}
	if (left < bytes)
		mapping_give_back((char *)memory + left, bytes - left, "mremap()", address);
	if (flags & MREMAP_FIXED)
		mapping_give_back(target, new_bytes, "mremap()", address);
	return real(memory, bytes, new_bytes, flags, target);
}

/*
 * Does the program itself make this call, and for memory that a region may have? The verbs library
 * may replace pages of a region by others with the same contents.
 */
static bool program_changes(const void *memory, size_t bytes, const void *address)
{
	return check_depth == 0 && bytes > 0 && region_may_overlap((uintptr_t)memory, bytes) &&
		!site_address_is_library((uintptr_t)address);
}

#define MMAP_WRAPPER(function, offset_type)                                                        \
	CHECK_EXPORT void *function(                                                               \
		void *memory, size_t bytes, int protection, int flags, int fd, offset_type offset) \
	{                                                                                          \
		CHECK_REAL(function);                                                              \
		const void *address = __builtin_return_address(0);                                 \
                                                                                                   \
		if ((flags & MAP_FIXED) && program_changes(memory, bytes, address))                \
			memory_give_back(KIND_MEMORY_UNMAPPED, (uintptr_t)memory, bytes, "mmap()", \
				address);                                                          \
		return real(memory, bytes, protection, flags, fd, offset);                         \
	}

MMAP_WRAPPER(mmap, off_t)
MMAP_WRAPPER(mmap64, off64_t)

CHECK_EXPORT int mprotect(void *memory, size_t bytes, int protection)
{
	CHECK_REAL(mprotect);

	if (program_changes(memory, bytes, __builtin_return_address(0))) {
		check_depth++;
		if (protection != (PROT_READ | PROT_WRITE))
			region_restrict((uintptr_t)memory, bytes, protection & PROT_READ);
		watch_end_at((uintptr_t)memory, bytes);
		protect_open((uintptr_t)memory, bytes);
		check_depth--;
	}
	return real(memory, bytes, protection);
}

/*
 * Note the length of a segment, because shmdt() gets only the address. 0: the segment is detached.
 */
static void segment_note(const void *memory, size_t bytes)
{
	pthread_mutex_lock(&check_lock);
	table_set(&segments, (uintptr_t)memory, (void *)bytes);
	pthread_mutex_unlock(&check_lock);
}

CHECK_EXPORT void *shmat(int id, const void *memory, int flags)
{
	CHECK_REAL(shmat);
	void *attached = real(id, memory, flags);
	struct shmid_ds segment;

	if (attached != (void *)-1 && shmctl(id, IPC_STAT, &segment) == 0)
		segment_note(attached, segment.shm_segsz);
	return attached;
}

CHECK_EXPORT int shmdt(const void *memory)
{
	CHECK_REAL(shmdt);
	size_t bytes = (size_t)table_find(&segments, (uintptr_t)memory);

	if (bytes > 0) {
		mapping_give_back((void *)memory, bytes, "shmdt()", __builtin_return_address(0));
		segment_note(memory, 0);
	}
	return real(memory);
}

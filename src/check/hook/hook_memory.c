/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * free() and munmap(): does the program give memory back that a request still uses?
 *
 * The checker frees the memory of a destroyed object later. So a use of the object finds its last
 * contents, and the checker can say that the object is destroyed.
 */
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "check/check.h"
#include "check/hook/hook.h"
#include "check/model/protect.h"
#include "check/model/region.h"
#include "check/model/request.h"
#include "check/report.h"
#include "check/site.h"

enum { KEPT_COUNT = 1024 };

static void *kept[KEPT_COUNT]; /* memory of destroyed objects; check_lock */
static uint32_t next_kept;
static __thread const char *keeping __attribute__((tls_model("initial-exec")));

void object_keep(const void *pointer)
{
	keeping = pointer;
}

/* Keep a chunk, and return the oldest, which may be freed. */
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

/* The program gives memory back. */
static void memory_give_back(
	uint32_t kind, uintptr_t start, uint64_t bytes, const char *what, const void *address)
{
	check_depth++;
	protect_open(start, bytes);
	if (region_give_back(start, bytes))
		request_report_users(kind, start, bytes, what, site_of_stack(address));
	check_depth--;
}

/* May a region have some byte of a chunk? It may begin anywhere within. */
static bool chunk_may_have_region(void *chunk)
{
	return chunk && check_depth == 0 && region_count() > 0 &&
		region_may_overlap((uintptr_t)chunk, malloc_usable_size(chunk));
}

CHECK_EXPORT void free(void *pointer)
{
	static void (*real)(void *pointer);

	if (!real)
		real = (__typeof__(real))check_next("free");
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

CHECK_EXPORT int munmap(void *memory, size_t bytes)
{
	CHECK_REAL(munmap);

	if (check_depth == 0 && region_may_overlap((uintptr_t)memory, bytes))
		memory_give_back(KIND_MEMORY_UNMAPPED, (uintptr_t)memory, bytes, "munmap()",
			__builtin_return_address(0));
	return real(memory, bytes);
}

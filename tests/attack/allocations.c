/* SPDX-License-Identifier: BSD-2-Clause */
#include "attack/allocations.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The libraries call these functions, too. */
#define EXPORT __attribute__((visibility("default")))

enum { RANGES_MAX = 16 };

/* The C library's own names of its functions. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

/* Where the libraries' code is mapped. */
static struct {
	uintptr_t start, end;
} ranges[RANGES_MAX];
static unsigned range_count;
static atomic_uint *calls; /* NULL: calls are not counted */
static int refused_use;

static int object_note(struct dl_phdr_info *info, size_t bytes, void *unused)
{
	(void)bytes;
	(void)unused;
	if (!strstr(info->dlpi_name, "libibverbs.") && !strstr(info->dlpi_name, "librdmacm.") &&
		!strstr(info->dlpi_name, "liburnic"))
		return 0;
	for (int i = 0; i < info->dlpi_phnum && range_count < RANGES_MAX; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		ranges[range_count].start = info->dlpi_addr + segment->p_vaddr;
		ranges[range_count].end = ranges[range_count].start + segment->p_memsz;
		range_count++;
	}
	return 0;
}

void allocations_count(atomic_uint *count, int use)
{
	dl_iterate_phdr(object_note, NULL);
	refused_use = use;
	calls = count;
}

static bool is_refused(const void *caller)
{
	bool is_library = false;
	unsigned use;

	for (unsigned i = 0; calls && i < range_count; i++)
		is_library |=
			(uintptr_t)caller >= ranges[i].start && (uintptr_t)caller < ranges[i].end;
	if (!is_library)
		return false;
	use = atomic_fetch_add(calls, 1) + 1;
	if (refused_use != ALLOCATIONS_ALWAYS && (int)use != refused_use)
		return false;
	errno = ENOMEM;
	return true;
}

EXPORT void *malloc(size_t bytes)
{
	return is_refused(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes);
}

EXPORT void *calloc(size_t count, size_t bytes)
{
	return is_refused(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}

EXPORT void *realloc(void *memory, size_t bytes)
{
	return is_refused(__builtin_return_address(0)) ? NULL : __libc_realloc(memory, bytes);
}

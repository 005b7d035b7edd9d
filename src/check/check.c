/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions that all files of the checker use. */
#include "check/check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

pthread_mutex_t check_lock = PTHREAD_MUTEX_INITIALIZER;
bool check_is_full;
__thread unsigned check_depth;

/*
 * If the program has loaded libibverbs with dlopen(), RTLD_NEXT does not find that library. So look
 * for the function in the library of that name.
 */
void *check_next(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);
	void *library;

	if (!found && strncmp(name, "ibv_", 4) == 0) {
		library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
		found = library ? dlsym(library, name) : NULL;
	}
	if (!found) {
		fprintf(stderr, "urnic check: no library has %s()\n", name);
		abort();
	}
	return found;
}

/* The bounds of the section that CHECK_REAL() fills, as the linker defines them. */
extern const struct check_real __start_check_real_list[] __attribute__((visibility("hidden")));
extern const struct check_real __stop_check_real_list[] __attribute__((visibility("hidden")));

/* libibverbs may lack some of its functions, and only the program calls their wrappers. */
void check_find_real(void)
{
	for (const struct check_real *it = __start_check_real_list; it < __stop_check_real_list;
		it++) {
		void *found = strncmp(it->name, "ibv_", 4) == 0 ? NULL : dlsym(RTLD_NEXT, it->name);

		if (found)
			memcpy(it->place, &found, sizeof(found));
	}
}

uint64_t check_ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

static pthread_mutex_t allocate_lock = PTHREAD_MUTEX_INITIALIZER;

void *check_allocate(size_t bytes)
{
	enum { CHUNK_BYTES = 1 << 20 };
	static char *next;
	static size_t left;
	size_t needed = (bytes + 15) & ~(size_t)15;
	void *memory = NULL;

	pthread_mutex_lock(&allocate_lock);
	if (needed > left) {
		size_t chunk = needed > CHUNK_BYTES ? needed : CHUNK_BYTES;
		void *mapped = mmap(
			NULL, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		next = mapped == MAP_FAILED ? NULL : mapped;
		left = next ? chunk : 0;
	}
	if (needed <= left) {
		memory = next;
		next += needed;
		left -= needed;
	}
	pthread_mutex_unlock(&allocate_lock);
	return memory;
}

void check_inherit(void)
{
	pthread_mutex_init(&check_lock, NULL);
	pthread_mutex_init(&allocate_lock, NULL);
}

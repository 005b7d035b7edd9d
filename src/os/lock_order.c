/* SPDX-License-Identifier: BSD-2-Clause */
#include "os/lock_order.h"

#ifdef URNIC_LOCK_ORDER

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"

static const char *const names[] = {
#define LOCK(name, sentence) name,
#include "os/lock_order.def"
#undef LOCK
};

enum { HELD_MAX = 64 };

static __thread struct {
	const void *lock;
	uint32_t rank;
} held[HELD_MAX];
static __thread uint32_t held_count;

/*
 * The index of a lock in lock_order.def. That table calls the lock "file.c:name" if several files
 * have a lock of this name, and otherwise just "name".
 */
static uint32_t rank_of(const char *name, const char *file)
{
	const char *base = strrchr(file, '/');
	char full[128];

	snprintf(full, sizeof(full), "%s:%s", base ? base + 1 : file, name);
	for (uint32_t i = 0; i < ARRAY_COUNT(names); i++)
		if (!strcmp(names[i], full) || !strcmp(names[i], name))
			return i;
	fprintf(stderr, "urnic: lock %s is not in lock_order.def\n", full);
	abort();
}

static bool has_several(const char *name)
{
	return !strcmp(name, "&worker->lock");
}

static bool is_held(const char *name)
{
	for (uint32_t i = 0; i < held_count; i++)
		if (!strcmp(names[held[i].rank], name))
			return true;
	return false;
}

static void rank_check(uint32_t rank)
{
	for (uint32_t i = 0; i < held_count; i++) {
		if (held[i].rank < rank ||
			(held[i].rank == rank && has_several(names[rank]) &&
				is_held("nic.c:&lock")))
			continue;
		fprintf(stderr, "urnic: lock %s is taken under %s: see lock_order.def\n",
			names[rank], names[held[i].rank]);
		abort();
	}
}

static void lock_hold(const void *lock, uint32_t rank)
{
	if (held_count == HELD_MAX)
		abort();
	held[held_count].lock = lock;
	held[held_count++].rank = rank;
}

void lock_order_take(const void *lock, const char *name, const char *file)
{
	uint32_t rank = rank_of(name, file);

	rank_check(rank);
	lock_hold(lock, rank);
}

/* A trylock cannot cause a deadlock, so the order of the lock that it has taken is not checked. */
void lock_order_took(const void *lock, const char *name, const char *file)
{
	lock_hold(lock, rank_of(name, file));
}

void lock_order_give(const void *lock)
{
	for (uint32_t i = held_count; i-- > 0;)
		if (held[i].lock == lock) {
			memmove(&held[i], &held[i + 1], (held_count - i - 1) * sizeof(held[0]));
			held_count--;
			return;
		}
}

#endif

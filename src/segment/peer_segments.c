/* SPDX-License-Identifier: BSD-2-Clause */
#include "segment/peer_segments.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arith.h"

/*
 * Serializes mapping and unmapping, for all peers. A thread that takes this lock holds no other
 * lock than a lane's, and does not wait for anything while it holds this lock.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct peer_stale *stale; /* under the lock */

int peer_segments_init(struct peer_segments *segments, const struct segment_public *list, int pidfd)
{
	*segments = (struct peer_segments){.list = list, .pidfd = pidfd};
	if (list)
		segments->of = calloc(SEGMENT_COUNT_MAX, sizeof(*segments->of));
	return list && !segments->of ? -ENOMEM : 0;
}

static void segment_unmap(struct peer_segment *segment)
{
	if (segment->base)
		munmap(segment->base, segment->bytes);
	segment->base = NULL;
	atomic_store_explicit(&segment->serial, 0, memory_order_relaxed);
}

static void stale_free(struct peer_stale *all, bool is_mapped)
{
	while (all) {
		struct peer_stale *next = all->next;

		if (is_mapped)
			munmap(all->base, all->bytes);
		free(all);
		all = next;
	}
}

void peer_segments_done(struct peer_segments *segments, bool is_child)
{
	/* A forked child has not inherited the mappings (MADV_DONTFORK). */
	if (is_child) {
		stale_free(stale, false);
		stale = NULL;
	}
	for (uint32_t i = 0; segments->of && !is_child && i < SEGMENT_COUNT_MAX; i++)
		segment_unmap(&segments->of[i]);
	free(segments->of);
	segments->of = NULL;
	segments->list = NULL;
}

/* A copy of the peer's descriptor `public->fd`; -1 if it no longer refers to the segment's file. */
static int file_get(const struct peer_segments *segments, const struct segment_public *public)
{
	int file = (int)syscall(SYS_pidfd_getfd, segments->pidfd, public->fd, 0);
	struct stat status;

	if (file < 0)
		return -1;
	if (!fstat(file, &status) && status.st_dev == public->dev && status.st_ino == public->ino &&
		range_inside(public->offset, public->bytes, 0, (uint64_t)status.st_size))
		return file;
	close(file);
	return -1;
}

static uint8_t *segment_map(
	const struct peer_segments *segments, const struct segment_public *public)
{
	int file = file_get(segments, public);
	void *base;

	if (file < 0)
		return NULL;
	base = mmap(NULL, public->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file,
		(off_t) public->offset);
	close(file);
	if (base == MAP_FAILED)
		return NULL;
	madvise(base, public->bytes, MADV_DONTFORK);
	return base;
}

/* Note the mapping as stale. If malloc() fails, the segment stays mapped for ever. */
static void segment_leave(const struct peer_segments *segments, struct peer_segment *segment)
{
	struct peer_stale *one = segment->base ? malloc(sizeof(*one)) : NULL;

	if (one) {
		*one = (struct peer_stale){stale, segment->base, segment->bytes};
		stale = one;
		segments->on_stale();
	}
	segment->base = NULL;
	atomic_store_explicit(&segment->serial, 0, memory_order_relaxed);
}

struct peer_stale *peer_segments_stale(void)
{
	struct peer_stale *all;

	pthread_mutex_lock(&lock);
	all = stale;
	stale = NULL;
	pthread_mutex_unlock(&lock);
	return all;
}

void peer_segments_unmap(struct peer_stale *all)
{
	stale_free(all, true);
}

/* Unmap the segments that the peer has ended, or note them as stale. */
static void segments_sweep(struct peer_segments *segments)
{
	for (uint32_t i = 0; i < SEGMENT_COUNT_MAX; i++) {
		struct peer_segment *segment = &segments->of[i];
		uint64_t serial = atomic_load_explicit(&segment->serial, memory_order_relaxed);

		if (serial == 0 || atomic_load(&segments->list[i].serial) == serial)
			continue;
		if (segments->on_stale)
			segment_leave(segments, segment);
		else
			segment_unmap(segment);
	}
}

/*
 * Map segment `index`. If that fails, `base` becomes NULL, and no later call tries to map this
 * segment.
 */
static void segment_renew(struct peer_segments *segments, uint32_t index, uint64_t serial)
{
	struct segment_public public = segments->list[index];
	struct peer_segment *segment = &segments->of[index];

	/*
	 * The peer writes serial = 0, then the fields, with a release fence between. This thread
	 * reads the fields, then the serial, with an acquire fence between. So if a field that this
	 * thread has read belongs to a later segment, this thread sees that the serial has changed.
	 */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&segments->list[index].serial, memory_order_relaxed) != serial)
		return;
	pthread_mutex_lock(&lock);
	if (atomic_load_explicit(&segment->serial, memory_order_relaxed) != serial) {
		segments_sweep(segments);
		segment->start = public.start;
		segment->bytes = public.bytes;
		segment->base = segment_map(segments, &public);
		atomic_store_explicit(&segment->serial, serial, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
}

uint8_t *peer_segments_at(
	struct peer_segments *segments, uint32_t index, uint64_t address, uint64_t bytes)
{
	const struct peer_segment *segment;
	uint64_t serial;

	if (!segments->list || index >= SEGMENT_COUNT_MAX)
		return NULL;
	serial = atomic_load_explicit(&segments->list[index].serial, memory_order_acquire);
	segment = &segments->of[index];
	if (serial == 0)
		return NULL;
	if (atomic_load_explicit(&segment->serial, memory_order_acquire) != serial)
		segment_renew(segments, index, serial);
	if (atomic_load_explicit(&segment->serial, memory_order_acquire) != serial ||
		!segment->base || !range_inside(address, bytes, segment->start, segment->bytes))
		return NULL;
	return segment->base + (address - segment->start);
}

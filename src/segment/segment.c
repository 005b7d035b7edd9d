/* SPDX-License-Identifier: BSD-2-Clause */
#include "segment/segment.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arith.h"
#include "os/log.h"
#include "os/setting.h"
#include "segment/segment_move.h"
#include "segment/segment_shared.h"

/*
 * The file offsets of the memfd. Each segment gets a window of them, which no other segment gets.
 * A window is several times as long as its segment, so that a mapping which the program extends
 * (mremap(2)) reaches a hole and not the next segment.
 */
#define FILE_BYTES       (1ull << 62)
#define WINDOW_BYTES_MIN (1ull << 32)
#define MOVED_BYTES_MAX  (1ull << 40)

/* File offset and address are congruent modulo this, so that the kernel can map huge pages. */
#define HUGE_PAGE_BYTES (1ull << 21)

struct segment {
	uint64_t start;
	uint64_t bytes;
	uint64_t offset;
	uint64_t window_bytes; /* moved memory: the distance from `offset` to the next window */
	int file; /* shared memory: its file, which this room closes; -1: moved to the memfd */
	uint32_t holds; /* number of regions with bytes in the segment */
};

enum { GIVEN_UP_MAX = 16 };

static struct {
	struct segment_public *list; /* SEGMENT_COUNT_MAX, in NIC memory */
	struct segment of[SEGMENT_COUNT_MAX]; /* an entry with bytes == 0 is free */
	uint32_t used; /* all entries of `of` with this index or a higher one are free */
	uint32_t count;
	uint64_t last_serial;
	int file; /* the memfd; 0 or -1: none */
	_Atomic bool may_begin; /* segments_begin() will create the memfd */
	uint64_t next_offset;
	/* The most recent ranges of the memfd to which a suspended peer may still write. */
	struct {
		uint64_t offset;
		uint64_t bytes;
	} given_up[GIVEN_UP_MAX];
	uint32_t given_up_count;
} segments;

/* Values of URNIC_MR, in the order of the words that setting_choice() gets. */
enum policy { POLICY_AUTO, POLICY_MAP, POLICY_COPY };

/* --- what is wanted ----------------------------------------------------------------------- */

/*
 * May the process use moved memory? Not with strict overcommit or a limit on file sizes, because
 * the kernel could later refuse a page of the file.
 */
static bool is_possible(void)
{
	FILE *file = fopen("/proc/sys/vm/overcommit_memory", "re");
	struct rlimit limit;
	int mode = 0;

	if (file) {
		if (fscanf(file, "%d", &mode) != 1)
			mode = 0;
		fclose(file);
	}
	return mode != 2 && !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur == RLIM_INFINITY;
}

static int file_make(void)
{
	int file = memfd_create(SEGMENT_FILE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (file < 0)
		return -1;
	if (ftruncate(file, (off_t)FILE_BYTES) ||
		fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		close(file);
		return -1;
	}
	return file;
}

static void registry_begin(void)
{
	segments.may_begin = false;
	if (segments.list && is_possible())
		segments.file = file_make();
}

bool segments_begin(void)
{
	if (!segments.may_begin)
		return false;
	registry_begin();
	return segments.file > 0;
}

bool segments_may_begin(void)
{
	return atomic_load_explicit(&segments.may_begin, memory_order_relaxed);
}

uint64_t segments_init(struct arena *arena)
{
	enum policy policy = (enum policy)setting_choice("URNIC_MR", "auto", "map", "copy", NULL);
	uint64_t offset = arena_alloc(arena, SEGMENT_COUNT_MAX * sizeof(struct segment_public));

	if (offset)
		segments.list = arena_at(arena, offset);
	segments.file = -1;
	segments.may_begin = policy == POLICY_AUTO;
	if (policy == POLICY_MAP)
		registry_begin();
	return offset;
}

void segments_forget(void)
{
	for (uint32_t i = 0; i < segments.used; i++)
		if (segments.of[i].bytes && segments.of[i].file >= 0)
			close(segments.of[i].file);
	if (segments.file > 0)
		close(segments.file);
	memset(&segments, 0, sizeof(segments));
}

uint32_t segments_count(void)
{
	return segments.count;
}

/* --- the list ----------------------------------------------------------------------------- */

struct range {
	uint64_t start;
	uint64_t bytes;
};

static struct range whole_pages(const void *address, uint64_t bytes)
{
	uint64_t page_bytes = (uint64_t)getpagesize();
	uint64_t first = (uintptr_t)address;
	uint64_t start = align_up_u64(first, page_bytes);
	uint64_t end = (first + bytes) & ~(page_bytes - 1);

	return (struct range){start, end > start ? end - start : 0};
}

/* The intersection of the segment and [address, address + bytes); 0 bytes: there is none. */
static struct range common_range(const struct segment *segment, uint64_t address, uint64_t bytes)
{
	uint64_t start = max_u64(segment->start, address);
	uint64_t end = min_u64(segment->start + segment->bytes, address + bytes);

	return (struct range){start, end > start ? end - start : 0};
}

static struct segment *segment_overlapping(uint64_t address, uint64_t bytes, uint32_t from)
{
	for (uint32_t i = from; i < segments.used; i++)
		if (segments.of[i].bytes && common_range(&segments.of[i], address, bytes).bytes)
			return &segments.of[i];
	return NULL;
}

#define FOR_EACH_OVERLAPPING(segment, address, bytes)                                       \
	for (struct segment *segment = segment_overlapping((address), (bytes), 0); segment; \
		segment = segment_overlapping(                                              \
			(address), (bytes), (uint32_t)(segment - segments.of) + 1))

static struct segment *slot_find(void)
{
	for (uint32_t i = 0; i < segments.used; i++)
		if (!segments.of[i].bytes)
			return &segments.of[i];
	return segments.used < SEGMENT_COUNT_MAX ? &segments.of[segments.used] : NULL;
}

static int file_of(const struct segment *segment)
{
	return segment->file >= 0 ? segment->file : segments.file;
}

static void segment_publish(struct segment *slot, const struct segment *segment)
{
	uint32_t index = (uint32_t)(slot - segments.of);
	struct segment_public *public = &segments.list[index];
	struct stat status = {.st_ino = 0};

	*slot = *segment;
	segments.used = max_u32(segments.used, index + 1);
	segments.count++;
	fstat(file_of(slot), &status);
	public->start = slot->start;
	public->bytes = slot->bytes;
	public->offset = slot->offset;
	public->dev = status.st_dev;
	public->ino = status.st_ino;
	public->fd = file_of(slot);
	atomic_store_explicit(&public->serial, ++segments.last_serial, memory_order_release);
}

static void segment_withdraw(struct segment *slot)
{
	atomic_store_explicit(&segments.list[slot - segments.of].serial, 0, memory_order_relaxed);
	/* A peer that sees what publish() writes next also sees the changed serial number. */
	atomic_thread_fence(memory_order_release);
	slot->bytes = 0;
	segments.count--;
}

/* --- making them -------------------------------------------------------------------------- */

bool segment_is_wanted(const void *address, uint64_t bytes)
{
	struct range pages = whole_pages(address, bytes);

	return segments.file > 0 && pages.bytes && pages.bytes <= MOVED_BYTES_MAX &&
		!segment_overlapping(pages.start, pages.bytes, 0);
}

static void cover_shared(struct segment *slot, struct range pages)
{
	struct shared_memory memory;
	struct segment segment;

	if (!shared_memory_find(pages.start, pages.bytes, &memory))
		return;
	segment = (struct segment){
		.start = memory.start,
		.bytes = memory.bytes,
		.offset = memory.offset,
		.file = memory.file,
	};
	segment_publish(slot, &segment);
}

static void cover_private(struct segment *slot, struct range pages)
{
	uint64_t window_bytes = align_up_u64(4 * pages.bytes, WINDOW_BYTES_MIN);
	uint64_t skip_bytes = pages.start % HUGE_PAGE_BYTES;
	struct segment segment = {
		.start = pages.start,
		.bytes = pages.bytes,
		.offset = segments.next_offset + skip_bytes,
		.window_bytes = window_bytes - skip_bytes,
		.file = -1,
	};
	sigset_t all, before;
	bool is_anonymous;
	int error;

	if (FILE_BYTES - segments.next_offset < window_bytes ||
		!segment_may_move(pages.start, pages.bytes, &is_anonymous))
		return;
	segments.next_offset += window_bytes;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = segment_move_in(
		segments.file, segment.offset, segment.start, segment.bytes, is_anonymous);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error)
		segment_publish(slot, &segment);
}

static void note_given_up(const struct segment *segment)
{
	uint32_t place = segments.given_up_count++ % GIVEN_UP_MAX;

	segments.given_up[place].offset = segment->offset;
	segments.given_up[place].bytes = segment->window_bytes;
}

/*
 * A suspended peer may have continued, and written to ranges that were given up: discard these
 * bytes.
 */
static void given_up_clear(void)
{
	for (uint32_t i = 0; i < min_u32(segments.given_up_count, GIVEN_UP_MAX); i++)
		segment_hole_punch(
			segments.file, segments.given_up[i].offset, segments.given_up[i].bytes);
}

void segment_cover(const void *address, uint64_t bytes, bool is_alone, bool has_neighbours)
{
	struct range pages = whole_pages(address, bytes);
	struct segment *slot;

	given_up_clear();
	if (has_neighbours || !segment_is_wanted(address, bytes))
		return;
	slot = slot_find();
	if (!slot)
		return;
	cover_shared(slot, pages);
	if (!slot->bytes && is_alone)
		cover_private(slot, pages);
}

/* --- keeping and ending them -------------------------------------------------------------- */

struct mr_extent segment_ref(const void *address, uint64_t bytes)
{
	uint64_t start = (uintptr_t)address;
	struct mr_extent extent = {0, 0, 0};

	FOR_EACH_OVERLAPPING(segment, start, bytes)
	{
		struct range both = common_range(segment, start, bytes);

		segment->holds++;
		if (both.bytes > extent.end - extent.start)
			extent = (struct mr_extent){both.start, both.start + both.bytes,
				(uint32_t)(segment - segments.of)};
	}
	return extent;
}

/*
 * End the segment: moved memory becomes private again. If that fails, the failure is logged, and
 * segments_move_out() tries again when the process forks.
 */
static void segment_end(struct segment *segment, bool is_alone)
{
	sigset_t all, before;
	int error;

	if (segment->file >= 0) {
		close(segment->file);
		segment_withdraw(segment);
		return;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = segment_move_out(segments.file, segment->offset, segment->window_bytes, is_alone);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		log_write(LOG_ERROR, "memory at %p, deregistered, cannot be made private again: %s",
			(void *)(uintptr_t)segment->start, strerror(-error));
	else
		segment_withdraw(segment);
}

void segment_unref(const void *address, uint64_t bytes, bool is_alone)
{
	given_up_clear();
	FOR_EACH_OVERLAPPING(segment, (uintptr_t)address, bytes)
	{
		if (--segment->holds == 0)
			segment_end(segment, is_alone);
	}
}

static bool is_moved(const struct segment *segment)
{
	return segment->bytes && segment->file < 0;
}

void segments_unmap(const struct mr_table *table)
{
	for (uint32_t i = 0; i < segments.used; i++)
		if (is_moved(&segments.of[i]))
			mr_table_unmap(table, i);
}

void segments_move_out(bool is_alone, bool is_quiet)
{
	given_up_clear();
	for (uint32_t i = 0; i < segments.used; i++)
		if (is_moved(&segments.of[i])) {
			if (!is_quiet)
				note_given_up(&segments.of[i]);
			segment_end(&segments.of[i], is_alone);
		}
}

void segments_give_up(
	const struct mr_table *table, const void *address, uint64_t bytes, bool is_alone)
{
	FOR_EACH_OVERLAPPING(segment, (uintptr_t)address, bytes)
	{
		if (!is_moved(segment))
			continue;
		mr_table_unmap(table, (uint32_t)(segment - segments.of));
		note_given_up(segment);
		segment_end(segment, is_alone);
	}
}

bool segments_are_moved(const void *address, uint64_t bytes)
{
	FOR_EACH_OVERLAPPING(segment, (uintptr_t)address, bytes)
	{
		if (is_moved(segment))
			return true;
	}
	return false;
}

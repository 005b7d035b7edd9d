/* SPDX-License-Identifier: BSD-2-Clause */
#include "segment/peer_segments.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/setting.h"
#include "support/sanitizer.h"

enum {
	PAGE = 4096,
	PAGES = 16,
	BYTES = PAGES * PAGE,
	ARENA_BYTES = 1 << 20,
};

struct fixture {
	struct arena arena;
	struct segment_public *list;
	uint8_t *memory; /* BYTES of private memory, filled */
};

static void fill(uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)(i * 7 + i / PAGE + 1);
}

static void expect_filled(const uint8_t *bytes, size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++)
		assert_int_equal(bytes[i], (uint8_t)(i * 7 + i / PAGE + 1));
}

static void expect_zeros(const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_int_equal(bytes[i], 0);
}

static void *private_memory(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	setenv("URNIC_MR", "map", 1);
	settings_read();
	arena_init(&fixture->arena, private_memory(ARENA_BYTES), ARENA_BYTES);
	fixture->list = arena_at(&fixture->arena, segments_init(&fixture->arena));
	fixture->memory = private_memory(BYTES);
	fill(fixture->memory, BYTES);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(segments_count(), 0);
	segments_forget();
	munmap(fixture->memory, BYTES);
	munmap(fixture->arena.base, ARENA_BYTES);
	free(fixture);
	return 0;
}

/* As another process would map it. */
static uint8_t *peer_map(const struct segment_public *segment)
{
	uint8_t *peer = mmap(NULL, segment->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd,
		(off_t)segment->offset);

	assert_ptr_not_equal(peer, MAP_FAILED);
	return peer;
}

static struct mr_extent cover_and_hold(const void *address, uint64_t bytes)
{
	segment_cover(address, bytes, true, false);
	return segment_ref(address, bytes);
}

static void expect_private(uint8_t *memory, size_t bytes)
{
	assert_int_equal(madvise(memory, bytes, MADV_DONTNEED), 0);
	expect_zeros(memory, bytes);
	memset(memory, 5, bytes);
}

static void moved_memory_keeps_its_bytes_and_is_what_a_peer_maps(void **state)
{
	struct fixture *fixture = *state;
	uint8_t *memory = fixture->memory;
	struct mr_extent extent = cover_and_hold(memory + 100, 6 * PAGE);
	const struct segment_public *segment = &fixture->list[extent.segment];

	/* The whole pages: 1 to 5. */
	assert_int_equal(extent.start, (uintptr_t)memory + PAGE);
	assert_int_equal(extent.end, (uintptr_t)memory + 6 * PAGE);
	assert_int_not_equal(segment->serial, 0);
	assert_int_equal(segment->start, extent.start);
	expect_filled(memory, 0, BYTES);
	uint8_t *peer = peer_map(segment);
	assert_memory_equal(peer, memory + PAGE, segment->bytes);
	peer[10] = 0xaa;
	assert_int_equal(memory[PAGE + 10], 0xaa);
	memory[PAGE + 11] = 0xbb;
	assert_int_equal(peer[11], 0xbb);

	struct segment_public before = *segment;
	munmap(peer, segment->bytes);
	segment_unref(memory + 100, 6 * PAGE, true);
	assert_int_equal(segment->serial, 0);
	assert_int_equal(memory[PAGE + 10], 0xaa);
	assert_int_equal(memory[PAGE + 11], 0xbb);
	expect_filled(memory, 0, PAGE);
	expect_filled(memory, PAGE + 12, BYTES - PAGE - 12);
	/* A peer that is late finds nothing, and does no harm. */
	peer = peer_map(&before);
	expect_zeros(peer, before.bytes);
	peer[20] = 0xcc;
	expect_filled(memory, PAGE + 20, 1);
	munmap(peer, before.bytes);
	expect_private(memory, BYTES);
}

static void memory_in_two_regions_stays_until_both_are_gone(void **state)
{
	struct fixture *fixture = *state;
	uint8_t *memory = fixture->memory;
	struct mr_extent all = cover_and_hold(memory, BYTES);
	struct mr_extent some = cover_and_hold(memory + PAGE + 3, 100);
	struct mr_extent beyond = cover_and_hold(memory - PAGE, 2 * PAGE);

	assert_int_equal(segments_count(), 1);
	assert_int_equal(some.segment, all.segment);
	assert_int_equal(some.start, (uintptr_t)memory + PAGE + 3);
	assert_int_equal(some.end, some.start + 100);
	assert_int_equal(beyond.start, (uintptr_t)memory);
	assert_int_equal(beyond.end, (uintptr_t)memory + PAGE);
	segment_unref(memory, BYTES, true);
	segment_unref(memory - PAGE, 2 * PAGE, true);
	assert_int_equal(segments_count(), 1);
	segment_unref(memory + PAGE + 3, 100, true);
	assert_int_equal(segments_count(), 0);
	expect_filled(memory, 0, BYTES);
	expect_private(memory, BYTES);
}

static void memory_is_not_moved_beside_threads_or_regions(void **state)
{
	struct fixture *fixture = *state;

	segment_cover(fixture->memory, BYTES, false, false);
	assert_int_equal(segments_count(), 0);
	segment_cover(fixture->memory, BYTES, true, true);
	assert_int_equal(segments_count(), 0);
}

static void memory_of_other_kinds_is_not_moved(void **state)
{
	struct fixture *fixture = *state;
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

	segment_cover((void *)(frame & ~(uintptr_t)(PAGE - 1)), PAGE, true, false);
	assert_int_equal(segments_count(), 0);
	assert_int_equal(mprotect(fixture->memory + PAGE, PAGE, PROT_READ), 0);
	segment_cover(fixture->memory, BYTES, true, false);
	assert_int_equal(segments_count(), 0);
	assert_int_equal(munmap(fixture->memory + PAGE, PAGE), 0);
	segment_cover(fixture->memory, BYTES, true, false);
	assert_int_equal(segments_count(), 0);
	/* Sanitizers make nothing of the function. */
	if (syscall(SYS_mlock, fixture->memory + 4 * PAGE, PAGE) == 0) {
		segment_cover(fixture->memory + 4 * PAGE, PAGE, true, false);
		assert_int_equal(segments_count(), 0);
		syscall(SYS_munlock, fixture->memory + 4 * PAGE, PAGE);
	}
	segment_cover(fixture->memory + 4 * PAGE, PAGE - 1, true, false);
	assert_int_equal(segments_count(), 0);
}

/* A descriptor that may hold pages, for all that is known; -1: not here, or not for us. */
static int stranger_open(unsigned kind)
{
	switch (kind) {
	case 0:
		return socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
	case 1:
		return socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
	case 2:
		return open("/dev/fuse", O_RDWR | O_CLOEXEC);
	case 3:
		return open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	case 4:
		return open("/dev/kvm", O_RDWR | O_CLOEXEC);
	case 5:
		return (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	default:
		return (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC); /* a kind of no list */
	}
}

static void memory_is_not_moved_beside_a_descriptor_that_may_hold_pages(void **state)
{
	struct fixture *fixture = *state;
	unsigned opened = 0;

	for (unsigned kind = 0; kind < 7; kind++) {
		int fd = stranger_open(kind);

		if (fd < 0)
			continue;
		segment_cover(fixture->memory, BYTES, true, false);
		assert_int_equal(segments_count(), 0);
		close(fd);
		opened++;
	}
	if (!opened)
		skip();
}

static void memory_is_moved_beside_harmless_descriptors(void **state)
{
	struct fixture *fixture = *state;
	int pipe_fds[2];
	const int fds[] = {
		open("/dev/null", O_RDWR | O_CLOEXEC),
		open("/proc/self/maps", O_RDONLY | O_CLOEXEC),
		open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
		socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
		eventfd(0, EFD_CLOEXEC),
		epoll_create1(EPOLL_CLOEXEC),
		timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC),
		memfd_create("harmless", MFD_CLOEXEC),
		(int)syscall(SYS_pidfd_open, getpid(), 0),
	};

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	segment_cover(fixture->memory, BYTES, true, false);
	assert_int_equal(segments_count(), 1);
	segment_ref(fixture->memory, BYTES);
	segment_unref(fixture->memory, BYTES, true);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		close(fds[i]);
}

static void untouched_pages_are_zeros_before_and_after(void **state)
{
	uint8_t *memory = private_memory(1024 * PAGE);

	(void)state;
	memory[700 * PAGE] = 1;
	cover_and_hold(memory, 1024 * PAGE);
	assert_int_equal(segments_count(), 1);
	assert_int_equal(memory[700 * PAGE], 1);
	memory[300 * PAGE] = 2;
	segment_unref(memory, 1024 * PAGE, true);
	assert_int_equal(memory[700 * PAGE], 1);
	assert_int_equal(memory[300 * PAGE], 2);
	memory[700 * PAGE] = memory[300 * PAGE] = 0;
	expect_zeros(memory, 1024 * PAGE);
	munmap(memory, 1024 * PAGE);
}

struct counter {
	_Atomic uint64_t *words; /* one a page */
	atomic_bool must_end;
	uint64_t total;
};

static void *count(void *argument)
{
	struct counter *counter = argument;

	for (uint32_t page = 0; !counter->must_end; page = (page + 1) % PAGES) {
		counter->words[page * PAGE / sizeof(*counter->words)]++;
		counter->total++;
	}
	return NULL;
}

static void moving_out_under_a_thread_loses_no_write(void **state)
{
	struct fixture *fixture = *state;
	struct counter counter = {.words = (_Atomic uint64_t *)(void *)fixture->memory};

	/* To it, a mapping that changes under a thread is a race. */
	if (HAS_THREAD_SANITIZER)
		skip();
	for (int round = 0; round < 50; round++) {
		pthread_t thread;
		uint64_t sum = 0;

		memset(fixture->memory, 0, BYTES);
		counter.total = 0;
		counter.must_end = false;
		cover_and_hold(fixture->memory, BYTES);
		assert_int_equal(segments_count(), 1);
		assert_int_equal(pthread_create(&thread, NULL, count, &counter), 0);
		usleep(500);
		segment_unref(fixture->memory, BYTES, false);
		usleep(500);
		counter.must_end = true;
		pthread_join(thread, NULL);
		for (int page = 0; page < PAGES; page++)
			sum += *(uint64_t *)(void *)(fixture->memory + page * PAGE);
		assert_int_equal(sum, counter.total);
		expect_private(fixture->memory, BYTES);
	}
}

static void a_fork_finds_private_memory(void **state)
{
	struct fixture *fixture = *state;
	uint8_t *memory = fixture->memory;

	cover_and_hold(memory, BYTES);
	segments_move_out(true, true);
	assert_int_equal(segments_count(), 0);
	expect_filled(memory, 0, BYTES);
	/* The region goes later: nothing is left to do. */
	segment_unref(memory, BYTES, true);
	expect_private(memory, BYTES);
}

static void shared_memory_is_used_as_it_is_if_it_cannot_shrink(void **state)
{
	struct fixture *fixture = *state;
	int file = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct mr_extent extent;
	uint8_t *memory;

	assert_int_equal(ftruncate(file, 4 * PAGE), 0);
	memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, PAGE);
	segment_cover(memory, 2 * PAGE, false, false);
	assert_int_equal(segments_count(), 0);
	assert_int_equal(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	segment_cover(memory, 2 * PAGE, false, false);
	assert_int_equal(segments_count(), 1);
	extent = segment_ref(memory, 2 * PAGE);
	assert_int_equal(fixture->list[extent.segment].offset, PAGE);
	memory[5] = 7;
	uint8_t *peer = peer_map(&fixture->list[extent.segment]);
	assert_int_equal(peer[5], 7);
	munmap(peer, 2 * PAGE);
	segment_unref(memory, 2 * PAGE, false);
	assert_int_equal(memory[5], 7);
	munmap(memory, 2 * PAGE);
	close(file);
}

/* The process is its own peer. */
static void a_peer_maps_a_segment_once_and_its_successor_anew(void **state)
{
	struct fixture *fixture = *state;
	struct peer_segments peer;
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	struct mr_extent extent = cover_and_hold(fixture->memory, BYTES);
	uint64_t start = extent.start;
	uint8_t *mapped;

	assert_int_equal(peer_segments_init(&peer, fixture->list, pidfd), 0);
	mapped = peer_segments_at(&peer, extent.segment, start + 5, 100);
	assert_non_null(mapped);
	assert_ptr_not_equal(mapped, fixture->memory + 5);
	assert_memory_equal(mapped, fixture->memory + 5, 100);
	mapped[0] = 0xaa;
	assert_int_equal(fixture->memory[5], 0xaa);
	assert_ptr_equal(peer_segments_at(&peer, extent.segment, start, 1), mapped - 5);
	assert_ptr_equal(peer_segments_at(&peer, extent.segment, start + BYTES - 1, 1),
		mapped - 5 + BYTES - 1);
	/* Nothing beyond it, nothing of segments that there are not. */
	assert_null(peer_segments_at(&peer, extent.segment, start + BYTES - 1, 2));
	assert_null(peer_segments_at(&peer, extent.segment, start - 1, 1));
	assert_null(peer_segments_at(&peer, extent.segment, start + 1, UINT64_MAX));
	assert_null(peer_segments_at(&peer, extent.segment + 1, start, 1));
	assert_null(peer_segments_at(&peer, SEGMENT_COUNT_MAX, start, 1));

	segment_unref(fixture->memory, BYTES, true);
	assert_null(peer_segments_at(&peer, extent.segment, start, 1));
	extent = cover_and_hold(fixture->memory + PAGE, PAGE);
	assert_null(peer_segments_at(&peer, extent.segment, start, 1));
	mapped = peer_segments_at(&peer, extent.segment, start + PAGE, PAGE);
	assert_non_null(mapped);
	assert_memory_equal(mapped, fixture->memory + PAGE, PAGE);
	/* Another file under the descriptor's number is not taken for it. */
	fixture->list[extent.segment].serial++;
	fixture->list[extent.segment].ino++;
	assert_null(peer_segments_at(&peer, extent.segment, start + PAGE, PAGE));
	peer_segments_done(&peer, false);
	segment_unref(fixture->memory + PAGE, PAGE, true);
	close(pidfd);
}

static unsigned stale_count;

static void note_stale(void)
{
	stale_count++;
}

static void a_mapping_that_the_peer_took_away_stays_until_lanes_have_left_it(void **state)
{
	struct fixture *fixture = *state;
	struct peer_segments peer;
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	struct mr_extent extent = cover_and_hold(fixture->memory, BYTES);
	volatile uint8_t *mapped;

	assert_int_equal(peer_segments_init(&peer, fixture->list, pidfd), 0);
	peer.on_stale = note_stale;
	mapped = peer_segments_at(&peer, extent.segment, extent.start, 100);
	assert_non_null(mapped);
	segment_unref(fixture->memory, BYTES, true);
	extent = cover_and_hold(fixture->memory, BYTES);
	assert_non_null(peer_segments_at(&peer, extent.segment, extent.start, 1));
	assert_int_equal(stale_count, 1);
	mapped[0] = 1; /* a copy that goes on */
	peer_segments_unmap(peer_segments_stale());
	assert_null(peer_segments_stale());
	assert_int_equal(
		madvise((void *)(uintptr_t)(mapped - (uintptr_t)mapped % PAGE), PAGE, MADV_NORMAL),
		-1);
	peer_segments_done(&peer, false);
	segment_unref(fixture->memory, BYTES, true);
	close(pidfd);
}

static void nothing_is_mapped_unless_asked_for(void **state)
{
	struct fixture *fixture = *state;

	segments_forget();
	setenv("URNIC_MR", "copy", 1);
	settings_read();
	segments_init(&fixture->arena);
	assert_false(segment_is_wanted(fixture->memory, BYTES));
	segment_cover(fixture->memory, BYTES, true, false);
	assert_int_equal(segments_count(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(moved_memory_keeps_its_bytes_and_is_what_a_peer_maps),
		TEST(memory_in_two_regions_stays_until_both_are_gone),
		TEST(memory_is_not_moved_beside_threads_or_regions),
		TEST(memory_of_other_kinds_is_not_moved),
		TEST(memory_is_not_moved_beside_a_descriptor_that_may_hold_pages),
		TEST(memory_is_moved_beside_harmless_descriptors),
		TEST(untouched_pages_are_zeros_before_and_after),
		TEST(moving_out_under_a_thread_loses_no_write),
		TEST(a_fork_finds_private_memory),
		TEST(shared_memory_is_used_as_it_is_if_it_cannot_shrink),
		TEST(a_peer_maps_a_segment_once_and_its_successor_anew),
		TEST(a_mapping_that_the_peer_took_away_stays_until_lanes_have_left_it),
		TEST(nothing_is_mapped_unless_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

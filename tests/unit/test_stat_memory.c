/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading another process's NIC memory: that of an engine, and that of a hostile process. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/stat_memory.h"
#include "engine/engine.h"
#include "support/permutation.h"

enum {
	MEMORY_BYTES = 16 << 20,
	MR_COUNT = 64,
	QP_COUNT = 3,
	SLOT = 7,
	LANE_INDEX = 2,
	FUZZ_RUNS = 300,
};

/* A NIC as the runtime makes one, with one lane. */
struct fixture {
	int shared; /* the peers\' side */
	int fd;
	struct arena arena;
	struct mr_table mrs;
	struct nic_public *public;
	struct lane lane;
	struct cq cq;
	struct qp *qps[QP_COUNT];
	void *untouched; /* a copy of the memory before the test */
};

static void add_qps(struct fixture *fixture)
{
	struct qp_init init = {
		.type = QP_TYPE_RC,
		.send_cq = &fixture->cq,
		.recv_cq = &fixture->cq,
		.caps = {.send_depth = 10, .recv_depth = 20, .send_sge_max = 1, .recv_sge_max = 1},
		.owner = 5,
	};

	for (uint64_t i = 0; i < QP_COUNT; i++)
		assert_int_equal(
			engine_qp_create(&fixture->lane, &init, 100 + i, &fixture->qps[i]), 0);
}

static uint8_t *side_map(uint8_t *at, int file)
{
	uint8_t *side =
		mmap(at, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);

	assert_true(side == at);
	return side;
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	uint8_t *base;

	assert_non_null(fixture);
	fixture->fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(fixture->fd >= 0);
	assert_int_equal(ftruncate(fixture->fd, MEMORY_BYTES), 0);
	fixture->shared = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(fixture->shared >= 0);
	assert_int_equal(ftruncate(fixture->shared, MEMORY_BYTES), 0);
	assert_int_equal(fcntl(fixture->shared, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	base = mmap(NULL, ARENA_SPAN(MEMORY_BYTES), PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(base != MAP_FAILED);
	base = side_map(base, fixture->fd);
	side_map(base + ARENA_SIDE_BYTES, fixture->shared);
	arena_init(&fixture->arena, base, MEMORY_BYTES);
	assert_int_equal(
		arena_alloc(&fixture->arena, sizeof(struct nic_public)), NIC_PUBLIC_OFFSET);
	assert_int_equal(
		mr_table_init(&fixture->mrs, &fixture->arena, MR_COUNT, test_permutation(1)), 0);
	assert_int_equal(
		engine_lane_init(&fixture->lane, &fixture->arena, &fixture->mrs, SLOT, LANE_INDEX),
		0);
	assert_int_equal(cq_init(&fixture->cq, &fixture->arena, 16), 0);
	add_qps(fixture);
	fixture->public = arena_at(&fixture->arena, NIC_PUBLIC_OFFSET);
	fixture->public->magic = NIC_PUBLIC_MAGIC;
	fixture->public->version = NIC_PUBLIC_VERSION;
	fixture->public->mr_count = 4;
	fixture->public->shared = fixture->shared;
	fixture->public->lanes[LANE_INDEX].lane_offset = fixture->lane.public_offset;
	fixture->public->lanes[LANE_INDEX].port.rx_packets = 1234;
	fixture->untouched = malloc(fixture->arena.bytes);
	assert_non_null(fixture->untouched);
	memcpy(fixture->untouched, base, fixture->arena.bytes);
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	memcpy(fixture->arena.base, fixture->untouched, fixture->arena.bytes);
	for (int i = 0; i < QP_COUNT; i++)
		engine_qp_destroy(fixture->qps[i]);
	engine_lane_done(&fixture->lane);
	cq_done(&fixture->cq, &fixture->arena);
	mr_table_done(&fixture->mrs);
	munmap(fixture->arena.base, ARENA_SPAN(MEMORY_BYTES));
	close(fixture->fd);
	close(fixture->shared);
	free(fixture->untouched);
	free(fixture);
	return 0;
}

static void memory_of_an_engine_is_read_as_it_is(void **state)
{
	struct fixture *fixture = *state;
	struct sge sge = {0};
	struct recv_wr wr = {.wr_id = 1, .sge = &sge, .sge_count = 1};
	struct stat_memory memory;
	struct stat_lane *lane = &memory.lanes[0];

	fixture->lane.public->drops[DROP_malformed] = 99;
	qp_count(fixture->qps[1], COUNTER_sent_pkts, UINT64_MAX);
	assert_int_equal(rq_post(fixture->qps[1]->rq, &wr), 0);
	assert_int_equal(stat_memory_read(fixture->fd, getpid(), &memory), 0);
	assert_int_equal(memory.mr_count, 4);
	assert_int_equal(memory.lane_count, 1);
	assert_int_equal(lane->index, LANE_INDEX);
	assert_int_equal(lane->slot, SLOT);
	assert_int_equal(lane->port.rx_packets, 1234);
	assert_int_equal(lane->drops[DROP_malformed], 99);
	assert_true(lane->is_complete);
	assert_int_equal(lane->qp_count, QP_COUNT);
	for (int i = 0; i < QP_COUNT; i++) {
		assert_int_equal(lane->qps[i].qpn, fixture->qps[i]->qpn);
		assert_int_equal(lane->qps[i].state, QP_RESET);
		assert_int_equal(lane->qps[i].ifindex, 5);
		assert_true(lane->qps[i].send_queue.is_known);
		assert_int_equal(lane->qps[i].send_queue.depth, 10);
		assert_int_equal(lane->qps[i].recv_queue.waiting, i == 1);
	}
	assert_int_equal(lane->qps[1].counters[COUNTER_sent_pkts], UINT64_MAX);
	stat_memory_done(&memory);
}

static void memory_of_another_version_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct stat_memory memory;

	fixture->public->version++;
	assert_int_equal(stat_memory_read(fixture->fd, getpid(), &memory), -EPROTO);
	fixture->public->version--;
	fixture->public->magic++;
	assert_int_equal(stat_memory_read(fixture->fd, getpid(), &memory), -EPROTO);
}

static void memory_that_is_cut_short_is_refused(void **state)
{
	struct fixture *fixture = *state;
	struct stat_memory memory;

	assert_int_equal(ftruncate(fixture->fd, NIC_PUBLIC_OFFSET + 100), 0);
	assert_int_equal(stat_memory_read(fixture->fd, getpid(), &memory), -EPROTO);
	assert_int_equal(ftruncate(fixture->fd, 0), 0);
	assert_int_equal(stat_memory_read(fixture->fd, getpid(), &memory), -EPROTO);
	assert_int_equal(ftruncate(fixture->fd, MEMORY_BYTES), 0);
}

static void lane_outside_of_the_memory_is_refused(void **state)
{
	static const uint64_t offsets[] = {
		1, MEMORY_BYTES, MEMORY_BYTES - 64, UINT64_MAX - 63, 1ull << 63, INT64_MAX - 63};
	struct fixture *fixture = *state;
	struct stat_memory memory;

	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		fixture->public->lanes[LANE_INDEX].lane_offset = offsets[i];
		assert_int_equal(stat_memory_read(fixture->fd, getpid(), &memory), -EPROTO);
	}
}

/* What of the list makes sense is shown, and that it is not all. */
static void list_that_leads_astray_is_cut_off(void **state)
{
	struct fixture *fixture = *state;
	struct stat_memory memory;

	fixture->qps[1]->public->next_offset = MEMORY_BYTES - 64;
	assert_int_equal(stat_memory_read(fixture->fd, getpid(), &memory), 0);
	assert_false(memory.lanes[0].is_complete);
	assert_int_equal(memory.lanes[0].qp_count, 2);
	stat_memory_done(&memory);

	fixture->qps[1]->public->qpn ^= 1 << 20;
	assert_int_equal(stat_memory_read(fixture->fd, getpid(), &memory), 0);
	assert_false(memory.lanes[0].is_complete);
	assert_int_equal(memory.lanes[0].qp_count, 1);
	stat_memory_done(&memory);
}

static void list_in_a_circle_ends(void **state)
{
	struct fixture *fixture = *state;
	struct stat_memory memory;

	for (int i = 0; i < QP_COUNT; i++) {
		fixture->qps[0]->public->next_offset = fixture->qps[i]->public_offset;
		assert_int_equal(stat_memory_read(fixture->fd, getpid(), &memory), 0);
		assert_false(memory.lanes[0].is_complete);
		assert_true(memory.lanes[0].qp_count <= 4 * QP_COUNT);
		stat_memory_done(&memory);
	}
}

static void queue_that_makes_no_sense_is_not_shown(void **state)
{
	struct fixture *fixture = *state;
	struct stat_memory memory;

	fixture->qps[0]->sq->posted = fixture->qps[0]->sq->completed + 11;
	fixture->qps[1]->public->rq_offset = MEMORY_BYTES;
	fixture->qps[2]->rq->depth = UINT32_MAX;
	assert_int_equal(stat_memory_read(fixture->fd, getpid(), &memory), 0);
	assert_true(memory.lanes[0].is_complete);
	assert_false(memory.lanes[0].qps[0].send_queue.is_known);
	assert_true(memory.lanes[0].qps[0].recv_queue.is_known);
	assert_false(memory.lanes[0].qps[1].recv_queue.is_known);
	assert_false(memory.lanes[0].qps[2].recv_queue.is_known);
	stat_memory_done(&memory);
}

/* Any words anywhere: every answer is a legal one, and nothing out of bounds is in it. */
static void memory_of_random_words_is_survived(void **state)
{
	struct fixture *fixture = *state;
	const uint64_t used_words = 1 << 17;
	uint64_t *words = (void *)fixture->arena.base;
	unsigned short seed[3] = {1, 2, 3};

	for (int run = 0; run < FUZZ_RUNS; run++) {
		uint64_t *word = &words[NIC_PUBLIC_OFFSET / 8 + 2 + (uint64_t)nrand48(seed) % 400];
		struct stat_memory memory;

		if (run % 2)
			word = (void *)fixture->qps[run % QP_COUNT]->public;
		word[run % 2 ? nrand48(seed) % 60 : 0] = (uint64_t)nrand48(seed) % used_words * 64;
		if (stat_memory_read(fixture->fd, getpid(), &memory) < 0)
			continue;
		assert_true(memory.lane_count <= NIC_LANES_MAX);
		for (uint32_t i = 0; i < memory.lane_count; i++) {
			for (uint32_t j = 0; j < memory.lanes[i].qp_count; j++) {
				assert_true(memory.lanes[i].qps[j].type < QP_TYPE_COUNT);
				assert_true(memory.lanes[i].qps[j].state < QP_STATE_COUNT);
			}
		}
		stat_memory_done(&memory);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(memory_of_an_engine_is_read_as_it_is),
		TEST(memory_of_another_version_is_refused),
		TEST(memory_that_is_cut_short_is_refused),
		TEST(lane_outside_of_the_memory_is_refused),
		TEST(list_that_leads_astray_is_cut_off),
		TEST(list_in_a_circle_ends),
		TEST(queue_that_makes_no_sense_is_not_shown),
		TEST(memory_of_random_words_is_survived),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much memory a connected queue pair takes that has transferred nothing: only its parts that
 * say how it is connected. Rings, counters, and the state of transfers, of congestion control and
 * of pacing lie in pages that it does not touch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "congestion/cc_params.h"
#include "engine/engine.h"
#include "ib/rc/rc.h"
#include "support/arena_memory.h"
#include "support/permutation.h"
#include "support/qp_masks.h"

enum {
	ARENA_BYTES = 256 << 20,
	QP_COUNT = 2000,
	DEPTH = 64,
	IDLE_BYTES_MAX = 400,
};

static struct arena arena;
static uint8_t *memory;
static struct mr_table mrs;
static struct lane lane;
static struct cq cq;
static struct cc_params params;
static struct qp *qps[QP_COUNT];

static uint64_t side_resident_bytes(uint8_t *side)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t pages = ARENA_BYTES / page_bytes, resident = 0;
	uint8_t *is_resident = malloc(pages);

	assert_non_null(is_resident);
	assert_int_equal(mincore(side, ARENA_BYTES, is_resident), 0);
	for (uint64_t i = 0; i < pages; i++)
		resident += is_resident[i] & 1;
	free(is_resident);
	return resident * page_bytes;
}

/* The memory that both sides of the arena take. */
static uint64_t resident_bytes(void)
{
	return side_resident_bytes(memory) + side_resident_bytes(arena_peers_side(memory));
}

static void qp_connect(struct qp *qp)
{
	struct qp_attr attr = {
		.port = 1,
		.access = MR_REMOTE_ANY,
		.path = {.local = gid_from_ipv4((const uint8_t[]){10, 0, 0, 1}),
			.remote = gid_from_ipv4((const uint8_t[]){10, 0, 0, 2})},
		.path_mtu = 3,
		.dest_qpn = 7,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	const uint32_t *mask = qp_masks[QP_TYPE_RC];

	assert_int_equal(qp_modify(qp, QP_INIT, ATTR_STATE | mask[0], &attr, 1), 0);
	assert_int_equal(qp_modify(qp, QP_RTR, ATTR_STATE | mask[1], &attr, 1), 0);
	assert_int_equal(qp_modify(qp, QP_RTS, ATTR_STATE | mask[2], &attr, 1), 0);
}

static void connected_qp_touches_no_page_of_what_it_does_not_use(void **state)
{
	const struct qp_init init = {
		.type = QP_TYPE_RC,
		.mtu_bytes = 1024,
		.pd = 1,
		.send_cq = &cq,
		.recv_cq = &cq,
		.caps = {DEPTH, DEPTH, 1, 1, 0},
	};
	uint64_t before = resident_bytes();

	(void)state;
	for (uint32_t i = 0; i < QP_COUNT; i++) {
		assert_int_equal(engine_qp_create(&lane, &init, i, &qps[i]), 0);
		qp_connect(qps[i]);
	}
	assert_in_range((resident_bytes() - before) / QP_COUNT, 0, IDLE_BYTES_MAX);
	for (uint32_t i = 0; i < QP_COUNT; i++)
		engine_qp_destroy(qps[i]);
}

static int setup(void **state)
{
	(void)state;
	memory = arena_memory_new(ARENA_BYTES);
	madvise(memory, ARENA_BYTES, MADV_NOHUGEPAGE);
	madvise(arena_peers_side(memory), ARENA_BYTES, MADV_NOHUGEPAGE);
	arena_init(&arena, memory, ARENA_BYTES);
	assert_int_equal(mr_table_init(&mrs, &arena, 16, test_permutation(1)), 0);
	assert_int_equal(engine_lane_init(&lane, &arena, &mrs, 5, 0), 0);
	cc_params_init(&params, CC_DCQCN, CC_PRESET_SIGCOMM15);
	lane.cc = &params;
	assert_int_equal(cq_init(&cq, &arena, 16), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cq_done(&cq, &arena);
	engine_lane_done(&lane);
	mr_table_done(&mrs);
	arena_memory_free(memory, ARENA_BYTES);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			connected_qp_touches_no_page_of_what_it_does_not_use, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

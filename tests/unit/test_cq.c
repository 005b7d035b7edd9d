/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "queue/cq.h"
#include "queue/sq.h"
#include "support/sim_random.h"

enum { ARENA_BYTES = 1 << 20 };

static _Alignas(64) uint8_t arena_memory[ARENA_BYTES];
static struct arena arena;
static struct cq cq;
static struct signal_queue signals;

static int setup(void **state)
{
	(void)state;
	memset(arena_memory, 0, sizeof(arena_memory));
	arena_init(&arena, arena_memory, sizeof(arena_memory));
	signals.first = NULL;
	assert_int_equal(cq_init(&cq, &arena, 5), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cq_done(&cq, &arena);
	assert_int_equal(arena.live_bytes, 0);
	return 0;
}

static bool push(uint64_t wr_id, uint32_t qpn, enum wc_status status, bool is_solicited)
{
	struct cqe cqe = {.wr_id = wr_id, .qpn = qpn, .status = status};

	return cq_push(&cq, &arena, &cqe, is_solicited, &signals);
}

static uint32_t events(void)
{
	uint32_t bits = 0;

	signal_take(&signals, &bits);
	return bits;
}

static void cq_entries_leave_in_the_order_they_came(void **state)
{
	struct sim_random random = {1};
	uint64_t pushed = 0;
	uint64_t polled = 0;
	struct cqe cqe[8];

	(void)state;
	assert_int_equal(cq.ring->capacity, 8);
	for (uint32_t step = 0; step < 10000; step++) {
		while (pushed - polled < 8 && sim_random_below(&random, 3))
			assert_true(push(pushed++, 1, WC_SUCCESS, false));
		uint32_t want = (uint32_t)sim_random_below(&random, 9);
		uint32_t count = cq_poll(&cq, &arena, want, cqe);
		assert_int_equal(count, want < pushed - polled ? want : pushed - polled);
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(cqe[i].wr_id, polled++);
		assert_int_equal(cq_is_empty(&cq), pushed == polled);
	}
}

static void cq_when_full_is_dead_for_good(void **state)
{
	struct cqe cqe[16];

	(void)state;
	for (uint32_t i = 0; i < 8; i++)
		assert_true(push(i, 1, WC_SUCCESS, false));
	assert_false(push(8, 1, WC_SUCCESS, false));
	assert_int_equal(events(), SIGNAL_CQ_OVERRUN);
	assert_int_equal(cq_poll(&cq, &arena, 16, cqe), 8);
	assert_false(push(9, 1, WC_SUCCESS, false));
	assert_int_equal(events(), 0); /* said once */
}

static void cq_armed_for_next_signals_the_next_only(void **state)
{
	(void)state;
	push(0, 1, WC_SUCCESS, false);
	cq_arm(&cq, CQ_ARM_NEXT);
	assert_int_equal(events(), 0); /* what is there raises none */
	push(1, 1, WC_SUCCESS, false);
	assert_int_equal(events(), SIGNAL_COMPLETION);
	push(2, 1, WC_SUCCESS, false);
	assert_int_equal(events(), 0);
}

static void cq_armed_for_solicited_waits_for_solicited_or_failed(void **state)
{
	(void)state;
	cq_arm(&cq, CQ_ARM_SOLICITED);
	push(0, 1, WC_SUCCESS, false);
	assert_int_equal(events(), 0);
	push(1, 1, WC_SUCCESS, true);
	assert_int_equal(events(), SIGNAL_COMPLETION);
	cq_arm(&cq, CQ_ARM_SOLICITED);
	push(2, 1, WC_WR_FLUSH_ERR, false);
	assert_int_equal(events(), SIGNAL_COMPLETION);
}

static void cq_armed_twice_keeps_the_wider_request(void **state)
{
	(void)state;
	cq_arm(&cq, CQ_ARM_NEXT);
	cq_arm(&cq, CQ_ARM_SOLICITED);
	push(0, 1, WC_SUCCESS, false);
	assert_int_equal(events(), SIGNAL_COMPLETION);
	cq_arm(&cq, CQ_ARM_SOLICITED);
	cq_arm(&cq, CQ_ARM_NEXT);
	push(1, 1, WC_SUCCESS, false);
	assert_int_equal(events(), SIGNAL_COMPLETION);
}

static void cq_forgets_one_queue_pair_and_keeps_the_order_of_others(void **state)
{
	struct cqe cqe[8];

	(void)state;
	for (uint32_t i = 0; i < 6; i++) /* so that the ring wraps */
		push(0, 1, WC_SUCCESS, false);
	cq_poll(&cq, &arena, 8, cqe);
	for (uint32_t i = 0; i < 8; i++)
		push(i, i % 3, WC_SUCCESS, false);
	cq_forget_qp(&cq, 1);
	assert_int_equal(cq_poll(&cq, &arena, 8, cqe), 5);
	static const uint64_t kept[] = {0, 2, 3, 5, 6};
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(cqe[i].wr_id, kept[i]);
	assert_true(push(9, 1, WC_SUCCESS, false));
}

static void cq_poll_frees_the_slots_of_the_send_queue(void **state)
{
	uint64_t offset = sq_create(&arena, 4, 1, 0);
	struct send_queue *sq = arena_at(&arena, offset);
	struct cqe cqe = {.queue_offset = offset, .queue_index = 2};

	(void)state;
	cq_push(&cq, &arena, &cqe, false, &signals);
	assert_int_equal(sq->released, 0);
	cq_poll(&cq, &arena, 1, &cqe);
	assert_int_equal(sq->released, 3);
	sq_destroy(&arena, offset);
}

/* Who polls waits for it, and does not see half of it. */
static void cq_entry_is_there_when_all_of_it_is_written(void **state)
{
	const struct cqe cqe = {.wr_id = 5, .qpn = 6};
	struct cqe out;

	(void)state;
	for (uint32_t i = 0; i < 20; i++) {
		struct cqe *entry = cq_push_begin(&cq, &arena, &signals);

		assert_non_null(entry);
		assert_true(cq_is_empty(&cq));
		*entry = cqe;
		cq_push_end(&cq, entry, false, &signals);
		assert_int_equal(cq_poll(&cq, &arena, 1, &out), 1);
		assert_memory_equal(&out, &cqe, sizeof(cqe));
	}
	for (uint32_t i = 0; i < cq.ring->capacity; i++)
		push(i, 1, WC_SUCCESS, false);
	assert_null(cq_push_begin(&cq, &arena, &signals));
	assert_int_equal(events(), SIGNAL_CQ_OVERRUN);
	assert_int_equal(cq_poll(&cq, &arena, 1, &out), 1); /* it is not locked */
}

/* --- handing over --- */

static bool hand_over(struct cq_taker *taker, uint64_t wr_id)
{
	struct cqe cqe = {.wr_id = wr_id};

	return cq_hand_over(taker, &cq, &arena, &cqe);
}

static void cq_hands_over_to_who_polls_it_until_he_has_enough(void **state)
{
	struct cqe out[2];
	struct cq_taker taker = {&cq, out, 2, 0};
	struct cq_taker other = {NULL, out, 2, 0};

	(void)state;
	assert_false(hand_over(&other, 0));
	for (uint64_t i = 0; i < 2; i++)
		assert_true(hand_over(&taker, i));
	assert_false(hand_over(&taker, 2));
	assert_int_equal(taker.taken, 2);
	for (uint64_t i = 0; i < 2; i++)
		assert_int_equal(out[i].wr_id, i);
	assert_true(cq_is_empty(&cq));
}

static void cq_hands_over_nothing_past_what_is_in_it(void **state)
{
	struct cqe out[2];
	struct cq_taker taker = {&cq, out, 2, 0};

	(void)state;
	push(0, 1, WC_SUCCESS, false);
	assert_false(hand_over(&taker, 1));
	assert_int_equal(cq_poll(&cq, &arena, 1, out), 1);
	assert_true(hand_over(&taker, 1));
}

static void cq_hands_over_nothing_that_it_is_armed_for(void **state)
{
	struct cqe out[2];
	struct cq_taker taker = {&cq, out, 2, 0};

	(void)state;
	cq_arm(&cq, CQ_ARM_SOLICITED);
	assert_false(hand_over(&taker, 0));
	push(0, 1, WC_SUCCESS, true);
	assert_int_equal(events(), SIGNAL_COMPLETION);
}

static void cq_that_is_dead_hands_over_nothing(void **state)
{
	struct cqe out[8];
	struct cq_taker taker = {&cq, out, 8, 0};

	(void)state;
	for (uint32_t i = 0; i <= 8; i++)
		push(i, 1, WC_SUCCESS, false);
	assert_int_equal(cq_poll(&cq, &arena, 8, out), 8);
	assert_false(hand_over(&taker, 9));
	assert_int_equal(events(), SIGNAL_CQ_OVERRUN);
}

static void cq_handing_over_frees_the_slots_of_the_send_queue(void **state)
{
	uint64_t offset = sq_create(&arena, 4, 1, 0);
	const struct send_queue *sq = arena_at(&arena, offset);
	struct cqe cqe = {.queue_offset = offset, .queue_index = 2}, out;
	struct cq_taker taker = {&cq, &out, 1, 0};

	(void)state;
	assert_true(cq_hand_over(&taker, &cq, &arena, &cqe));
	assert_int_equal(sq->released, 3);
	sq_destroy(&arena, offset);
}

static void cq_that_ignores_overruns_loses_the_oldest(void **state)
{
	uint64_t offset = sq_create(&arena, 4, 1, 0);
	struct send_queue *sq = arena_at(&arena, offset);
	struct cqe first = {.wr_id = 0, .queue_offset = offset, .queue_index = 0};
	struct cqe cqe[16];

	(void)state;
	cq_ignore_overrun(&cq);
	assert_true(cq_push(&cq, &arena, &first, false, &signals));
	for (uint32_t i = 1; i < 11; i++)
		assert_true(push(i, 1, WC_SUCCESS, false));
	assert_int_equal(events(), 0);
	assert_int_equal(sq->released, 1); /* its slots are not lost with it */
	assert_int_equal(cq_poll(&cq, &arena, 16, cqe), 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(cqe[i].wr_id, i + 3);
	sq_destroy(&arena, offset);
}

static void cq_resized_keeps_what_is_in_it(void **state)
{
	static const uint32_t sizes[] = {6, 7, 100, 9, 32, 5};
	uint64_t pushed = 0;
	uint64_t polled = 0;
	struct cqe cqe[8];

	(void)state;
	for (uint32_t round = 0; round < 600; round++) {
		uint32_t size = sizes[round % 6];

		while (pushed - polled < 5)
			assert_true(push(pushed++, 1, WC_SUCCESS, false));
		assert_int_equal(cq_resize(&cq, &arena, size), 0);
		assert_true(cq.ring->capacity >= size && cq.ring->capacity < 2 * size);
		uint32_t count = cq_poll(&cq, &arena, 1 + round % 5, cqe);
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(cqe[i].wr_id, polled++);
	}
}

static void cq_is_not_resized_below_what_is_in_it(void **state)
{
	struct cqe cqe[8];

	(void)state;
	for (uint32_t i = 0; i < 7; i++)
		assert_true(push(i, 1, WC_SUCCESS, false));
	assert_int_equal(cq_resize(&cq, &arena, 6), -EINVAL);
	assert_int_equal(cq_resize(&cq, &arena, CQ_CAPACITY_MAX), -ENOMEM);
	assert_int_equal(cq.ring->capacity, 8);
	assert_int_equal(cq_resize(&cq, &arena, 7), 0);
	assert_int_equal(cq_poll(&cq, &arena, 8, cqe), 7);
	assert_int_equal(cq_resize(&cq, &arena, 1), 0);
	assert_int_equal(cq.ring->capacity, 1);
}

static bool push_at(uint64_t now_ns)
{
	struct cqe cqe = {.qpn = 1, .made_ns = now_ns};

	return cq_push(&cq, &arena, &cqe, false, &signals);
}

static void cq_moderated_signals_after_the_count_or_the_time(void **state)
{
	(void)state;
	cq_moderate(&cq, 3, 1000);
	cq_arm(&cq, CQ_ARM_NEXT);
	push_at(50);
	assert_int_equal(events(), SIGNAL_CQ_MODERATED);
	push_at(60);
	assert_int_equal(events(), 0);
	push_at(70);
	assert_int_equal(events(), SIGNAL_COMPLETION);
	push_at(80);
	assert_int_equal(events(), 0); /* not armed */

	cq_arm(&cq, CQ_ARM_NEXT);
	push_at(5000);
	assert_int_equal(events(), SIGNAL_CQ_MODERATED);
	assert_int_equal(cq_release_moderated(&cq, 5999, &signals), 6000);
	assert_int_equal(events(), 0);
	assert_true(cq_release_moderated(&cq, 6000, &signals) == UINT64_MAX);
	assert_int_equal(events(), SIGNAL_COMPLETION);
	assert_true(cq_release_moderated(&cq, 7000, &signals) == UINT64_MAX);
	assert_int_equal(events(), 0);

	cq_moderate(&cq, 1, 1000);
	cq_arm(&cq, CQ_ARM_NEXT);
	push_at(8000);
	assert_int_equal(events(), SIGNAL_COMPLETION);
	cq_moderate(&cq, 2, 0);
	cq_arm(&cq, CQ_ARM_NEXT);
	push_at(9000);
	assert_int_equal(events(), SIGNAL_COMPLETION);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cq_entries_leave_in_the_order_they_came),
		TEST(cq_when_full_is_dead_for_good),
		TEST(cq_armed_for_next_signals_the_next_only),
		TEST(cq_armed_for_solicited_waits_for_solicited_or_failed),
		TEST(cq_armed_twice_keeps_the_wider_request),
		TEST(cq_forgets_one_queue_pair_and_keeps_the_order_of_others),
		TEST(cq_that_ignores_overruns_loses_the_oldest),
		TEST(cq_resized_keeps_what_is_in_it),
		TEST(cq_is_not_resized_below_what_is_in_it),
		TEST(cq_moderated_signals_after_the_count_or_the_time),
		TEST(cq_poll_frees_the_slots_of_the_send_queue),
		TEST(cq_entry_is_there_when_all_of_it_is_written),
		TEST(cq_hands_over_to_who_polls_it_until_he_has_enough),
		TEST(cq_hands_over_nothing_past_what_is_in_it),
		TEST(cq_hands_over_nothing_that_it_is_armed_for),
		TEST(cq_that_is_dead_hands_over_nothing),
		TEST(cq_handing_over_frees_the_slots_of_the_send_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

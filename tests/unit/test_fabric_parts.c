/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/arith.h"
#include "fabric/marking.h"
#include "fabric/packet.h"
#include "fabric/plan.h"
#include "fabric/scheduler.h"
#include "fabric/shared_buffer.h"
#include "fabric/units.h"

enum { FRAME_BYTES = 1048 };

/* --- units --- */

static void byte_at_each_rate_takes_whole_picoseconds(void **state)
{
	(void)state;
	assert_int_equal(fabric_wire_ps(1, 10000), 800);
	assert_int_equal(fabric_wire_ps(1, 40000), 200);
	assert_int_equal(fabric_wire_ps(1, 100000), 80);
	assert_int_equal(fabric_wire_ps(1, 800000), 10);
	assert_int_equal(fabric_wire_ps(1, 30000), 267); /* rounded up */
	assert_int_equal(fabric_bytes_in(2 * FABRIC_PS_PER_US, 40000), 10000);
}

/* The longest pause is 65,535 quanta of 512 bit times. */
static void longest_pause_takes_its_quanta_at_each_rate(void **state)
{
	(void)state;
	assert_int_equal(fabric_quanta_ps(FABRIC_PAUSE_QUANTA_MAX, 40000), 838848000);
	assert_int_equal(fabric_quanta_ps(FABRIC_PAUSE_QUANTA_MAX, 100000), 335539200);
	assert_int_equal(fabric_quanta_ps(FABRIC_PAUSE_QUANTA_MAX, 400000), 83884800);
}

static void response_deadline_of_each_rate_is_the_standards(void **state)
{
	static const uint32_t rows[][2] = {{10000, 67}, {25000, 80}, {40000, 118}, {50000, 147},
		{100000, 394}, {200000, 453}, {400000, 905}, {800000, 905}, {1000, 67}};

	(void)state;
	for (uint32_t i = 0; i < ARRAY_COUNT(rows); i++)
		assert_int_equal(fabric_response_quanta(rows[i][0]), rows[i][1]);
}

/* --- plan --- */

static void thresholds_of_a_switch_are_those_of_the_formula(void **state)
{
	struct plan_thresholds thresholds = plan_thresholds(12000000, 32, 8, 22400, 8);

	(void)state;
	assert_int_equal(thresholds.pause_bytes, 24475);
	assert_int_equal(thresholds.mark_bytes, 21755);
	assert_int_equal(plan_thresholds(1000, 32, 8, 22400, 8).pause_bytes, 0);
}

static void xoff_of_mlx5_is_the_drivers(void **state)
{
	(void)state;
	assert_int_equal(plan_mlx5_xoff_bytes(40000, 100, 1500), 24760);
	assert_int_equal(plan_mlx5_xoff_bytes(100000, 100, 1500), 55780);
	assert_int_equal(plan_mlx5_xoff_bytes(400000, 100, 9216), 231867);
}

static void headroom_is_cable_frames_and_response(void **state)
{
	(void)state;
	assert_int_equal(plan_headroom_bytes(40000, FABRIC_PS_PER_US, 1048, 0), 12180);
	assert_int_equal(
		plan_headroom_bytes(40000, FABRIC_PS_PER_US, 1048, fabric_quanta_ps(118, 40000)),
		12180 + 118 * 64);
}

/* --- marks --- */

static void marks_rise_from_the_minimum_to_the_maximum(void **state)
{
	struct marking marking = {5000, 200000, 10000};
	struct marking step = {65000, 65000, 0};

	(void)state;
	assert_int_equal(marking_ppm(&marking, 5000), 0);
	assert_int_equal(marking_ppm(&marking, 102500), 5000);
	assert_int_equal(marking_ppm(&marking, 200000), 10000);
	assert_int_equal(marking_ppm(&marking, 200001), 1000000);
	assert_int_equal(marking_ppm(&step, 65000), 0);
	assert_int_equal(marking_ppm(&step, 65001), 1000000);
	assert_int_equal(marking_ppm(&(struct marking){0}, 1000000), 0);
}

/* --- scheduler --- */

/* What each priority sends when those in `ready` never run dry, in `frames` frames. */
static void schedule_run(struct scheduler *scheduler, uint8_t ready, const uint32_t *head_bytes,
	uint32_t frames, uint64_t *ret_bytes)
{
	memset(ret_bytes, 0, FABRIC_PRIORITY_COUNT * sizeof(*ret_bytes));
	while (frames--) {
		uint32_t priority = scheduler_choose(scheduler, ready, head_bytes);

		ret_bytes[priority] += head_bytes[priority];
	}
}

/* Is `bytes` this percentage of `total`, within the quantum of the priority and a frame? */
static void share_check(uint64_t bytes, uint64_t total, uint32_t percent)
{
	uint64_t slack = percent * SCHEDULER_QUANTUM_BYTES + FRAME_BYTES;

	assert_in_range(bytes, total * percent / 100 - slack, total * percent / 100 + slack);
}

static void shares_of_saturated_priorities_are_exact(void **state)
{
	struct scheduler scheduler = {.weight = {33, 33, 34}};
	const uint32_t head_bytes[FABRIC_PRIORITY_COUNT] = {FRAME_BYTES, 300, 9000};
	uint64_t bytes[FABRIC_PRIORITY_COUNT];
	uint64_t total;

	(void)state;
	schedule_run(&scheduler, 7, head_bytes, 100000, bytes);
	total = bytes[0] + bytes[1] + bytes[2];
	share_check(bytes[0], total, 33);
	share_check(bytes[1], total, 33);
	assert_in_range(bytes[2], total * 34 / 100 - 2 * 9000, total * 34 / 100 + 2 * 9000);
}

static void share_of_an_idle_priority_goes_to_the_others(void **state)
{
	struct scheduler scheduler = {.weight = {20, 60, 20}};
	const uint32_t head_bytes[FABRIC_PRIORITY_COUNT] = {FRAME_BYTES, FRAME_BYTES, FRAME_BYTES};
	uint64_t bytes[FABRIC_PRIORITY_COUNT];

	(void)state;
	schedule_run(&scheduler, 3, head_bytes, 100000, bytes);
	share_check(bytes[0], bytes[0] + bytes[1], 25);
	share_check(bytes[1], bytes[0] + bytes[1], 75);
	assert_int_equal(bytes[2], 0);
}

static void idle_priority_saves_up_nothing(void **state)
{
	struct scheduler scheduler = {.weight = {25, 50, 25}};
	const uint32_t head_bytes[FABRIC_PRIORITY_COUNT] = {FRAME_BYTES, FRAME_BYTES, FRAME_BYTES};
	uint64_t bytes[FABRIC_PRIORITY_COUNT];

	(void)state;
	schedule_run(&scheduler, 1 | 1 << 2, head_bytes, 1000, bytes);
	schedule_run(&scheduler, 7, head_bytes, 100, bytes);
	share_check(bytes[1], bytes[0] + bytes[1] + bytes[2], 50);
}

static void strict_priority_sends_before_all_others(void **state)
{
	struct scheduler scheduler = {.strict = 1u << 6 | 1u << 2, .weight = {100}};
	const uint32_t head_bytes[FABRIC_PRIORITY_COUNT] = {64, 64, 64, 64, 64, 64, 64, 64};

	(void)state;
	assert_int_equal(scheduler_choose(&scheduler, 0xff, head_bytes), 6);
	assert_int_equal(scheduler_choose(&scheduler, 0xff & ~(1u << 6), head_bytes), 2);
	assert_int_equal(scheduler_choose(&scheduler, 1, head_bytes), 0);
}

/* --- the shared buffer --- */

static void group_over_its_threshold_pauses_and_uses_its_headroom(void **state)
{
	struct shared_buffer buffer = {.pool_bytes = 100000, .dynamic_th = -1};
	struct priority_group group = {.headroom_limit = 2500};

	(void)state;
	for (uint32_t i = 0; i < 33; i++) {
		assert_true(shared_buffer_admit(&buffer, &group, 1000));
		assert_false(group.is_paused); /* 33,000 <= (100,000 - 33,000) / 2 */
	}
	assert_true(shared_buffer_admit(&buffer, &group, 1000));
	assert_true(group.is_paused);
	assert_int_equal(group.headroom_bytes, 0);
	assert_true(shared_buffer_admit(&buffer, &group, 1000));
	assert_true(shared_buffer_admit(&buffer, &group, 1000));
	assert_false(shared_buffer_admit(&buffer, &group, 1000));
	assert_int_equal(group.headroom_bytes, 2000);
	assert_int_equal(buffer.used_bytes, 34000);
}

static void group_resumes_below_its_threshold_by_the_offset(void **state)
{
	struct shared_buffer buffer = {
		.pool_bytes = 100000, .dynamic_th = -1, .xon_offset_bytes = 3000};
	struct priority_group group = {.headroom_limit = 10000};

	(void)state;
	while (!group.is_paused)
		assert_true(shared_buffer_admit(&buffer, &group, 1000));
	assert_true(shared_buffer_admit(&buffer, &group, 1000));
	shared_buffer_release(&buffer, &group, 1000); /* of the headroom */
	assert_int_equal(group.headroom_bytes, 0);
	assert_int_equal(group.shared_bytes, 34000);
	shared_buffer_release(&buffer, &group, 2000);
	assert_true(group.is_paused); /* 32,000 + 3,000 > 34,000 */
	shared_buffer_release(&buffer, &group, 1000);
	assert_false(group.is_paused); /* 31,000 + 3,000 <= 34,500 */
}

static void groups_share_the_pool_by_its_rest(void **state)
{
	struct shared_buffer buffer = {.pool_bytes = 1 << 20, .dynamic_th = 0};
	struct priority_group group[3] = {{.headroom_limit = 0}};

	(void)state;
	for (bool is_any = true; is_any;) {
		is_any = false;
		for (uint32_t i = 0; i < 3; i++)
			if (!group[i].is_paused) {
				assert_true(shared_buffer_admit(&buffer, &group[i], 64));
				is_any = true;
			}
	}
	/* N groups of alpha 1 have 1 / (1 + N) of the pool each. */
	for (uint32_t i = 0; i < 3; i++)
		assert_in_range(group[i].shared_bytes, (1 << 18) - 64, (1 << 18) + 64);
}

static void lossy_frame_is_dropped_by_a_long_queue(void **state)
{
	struct shared_buffer buffer = {.pool_bytes = 10000, .dynamic_th = -1};
	struct priority_group group = {.headroom_limit = 10000};

	(void)state;
	assert_true(shared_buffer_admit_lossy(&buffer, &group, 4000, 1000));
	assert_false(shared_buffer_admit_lossy(&buffer, &group, 4000, 1000));
	assert_false(group.is_paused);
	assert_int_equal(group.headroom_bytes, 0);
}

/* --- packets --- */

static void packet_from_the_pool_has_room_and_is_zero(void **state)
{
	struct packet_pool pool = {.data_capacity = 100};
	struct fabric_packet *packets[200];

	(void)state;
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 200; i++) {
			packets[i] = packet_pool_take(&pool);
			assert_non_null(packets[i]);
			assert_int_equal(packets[i]->bytes, 0);
			packets[i]->bytes = 7;
			memset(packets[i]->data, (int)i, 100);
		}
		assert_int_equal(pool.used, 200);
		for (uint32_t i = 0; i < 200; i++) {
			assert_int_equal(packets[i]->data[99], (uint8_t)i);
			packet_pool_return(&pool, packets[i]);
		}
	}
	assert_int_equal(pool.used, 0);
	packet_pool_done(&pool);
}

/* --- chance --- */

/* Of an exponential distribution 1 - 1/e, that is 63.2 %, are below its mean. */
static void gaps_are_distributed_exponentially(void **state)
{
	enum { DRAWS = 100000 };
	struct fabric_random random = {1};
	uint64_t sum = 0;
	uint32_t below = 0;

	(void)state;
	for (uint32_t i = 0; i < DRAWS; i++) {
		uint64_t gap = fabric_random_gap(&random, 1000000);

		sum += gap;
		below += gap < 1000000;
	}
	assert_in_range(sum / DRAWS, 990000, 1010000);
	assert_in_range(below, DRAWS * 627 / 1000, DRAWS * 637 / 1000);
	assert_int_equal(fabric_random_gap(&random, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(byte_at_each_rate_takes_whole_picoseconds),
		cmocka_unit_test(longest_pause_takes_its_quanta_at_each_rate),
		cmocka_unit_test(response_deadline_of_each_rate_is_the_standards),
		cmocka_unit_test(thresholds_of_a_switch_are_those_of_the_formula),
		cmocka_unit_test(xoff_of_mlx5_is_the_drivers),
		cmocka_unit_test(headroom_is_cable_frames_and_response),
		cmocka_unit_test(marks_rise_from_the_minimum_to_the_maximum),
		cmocka_unit_test(shares_of_saturated_priorities_are_exact),
		cmocka_unit_test(share_of_an_idle_priority_goes_to_the_others),
		cmocka_unit_test(idle_priority_saves_up_nothing),
		cmocka_unit_test(strict_priority_sends_before_all_others),
		cmocka_unit_test(group_over_its_threshold_pauses_and_uses_its_headroom),
		cmocka_unit_test(group_resumes_below_its_threshold_by_the_offset),
		cmocka_unit_test(groups_share_the_pool_by_its_rest),
		cmocka_unit_test(lossy_frame_is_dropped_by_a_long_queue),
		cmocka_unit_test(packet_from_the_pool_has_room_and_is_zero),
		cmocka_unit_test(gaps_are_distributed_exponentially),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "top/top_rows.h"

static void numbers_take_six_characters_at_most(void **state)
{
	static const struct {
		uint64_t number;
		const char *text;
	} cases[] = {
		{0, "0"},
		{999, "999"},
		{1000, "1.0K"},
		{12345, "12.3K"},
		{999949, "999.9K"},
		{999950, "1.0M"},
		{4500000000, "4.5G"},
		{UINT64_MAX, "18.4E"},
	};
	char text[8];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		top_number_print(cases[i].number, text);
		assert_string_equal(text, cases[i].text);
	}
}

/* Two processes with three queue pairs; what the counters have gained is in them. */
struct scene {
	struct stat_qp qps[3];
	struct stat_process processes[2];
	struct stat_report report;
};

static struct scene *scene_make(void)
{
	struct scene *scene = calloc(1, sizeof(*scene));

	assert_non_null(scene);
	scene->report = (struct stat_report){
		.is_running = true, .process_count = 2, .processes = scene->processes};
	for (uint32_t i = 0; i < 2; i++) {
		scene->processes[i].agent.pid = 100 + i;
		scene->processes[i].memory.lane_count = 1;
		scene->processes[i].memory.lanes[0].qps = &scene->qps[i];
	}
	scene->processes[0].memory.lanes[0].qp_count = 1;
	scene->processes[1].memory.lanes[0].qp_count = 2;
	for (uint32_t i = 0; i < 3; i++) {
		scene->qps[i].qpn = 7 - i;
		scene->qps[i].send_queue = (struct stat_queue){true, 16, 5};
		scene->qps[i].counters[COUNTER_sent_bytes] = 1000;
		scene->qps[i].counters[COUNTER_rcvd_bytes] = 10 * (i + 1);
	}
	return scene;
}

static void process_has_the_sum_of_its_queue_pairs(void **state)
{
	struct scene *scene = scene_make();
	struct top_rows rows;

	(void)state;
	assert_int_equal(top_rows_make(&scene->report, 500000000, false, &rows), 0);
	top_rows_sort(&rows, TOP_SENT);
	assert_int_equal(rows.count, 2);
	assert_int_equal(rows.rows[0].pid, 101);
	assert_int_equal(rows.rows[0].per_s[TOP_SENT], 4000);
	assert_int_equal(rows.rows[0].per_s[TOP_RECEIVED], 100);
	assert_int_equal(rows.rows[0].waiting, 10);
	assert_int_equal(rows.rows[0].qp_count, 2);
	assert_int_equal(rows.rows[1].per_s[TOP_SENT], 2000);
	top_rows_done(&rows);
	free(scene);
}

static void queue_pairs_are_sorted_by_rate_then_by_number(void **state)
{
	static const uint32_t by_sent[] = {7, 5, 6}, by_received[] = {5, 6, 7};
	struct scene *scene = scene_make();
	struct top_rows rows;

	(void)state;
	assert_int_equal(top_rows_make(&scene->report, 1000000000, true, &rows), 0);
	assert_int_equal(rows.count, 3);
	top_rows_sort(&rows, TOP_SENT);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rows.rows[i].qp->qpn, by_sent[i]);
	top_rows_sort(&rows, TOP_RECEIVED);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(rows.rows[i].qp->qpn, by_received[i]);
	top_rows_done(&rows);
	free(scene);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_take_six_characters_at_most),
		cmocka_unit_test(process_has_the_sum_of_its_queue_pairs),
		cmocka_unit_test(queue_pairs_are_sorted_by_rate_then_by_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

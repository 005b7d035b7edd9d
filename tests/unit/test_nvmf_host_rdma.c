/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's RDMA transport against a controller that the test implements on bare verbs, and that
 * answers right. URNIC_TRANSPORTS chooses RoCEv2 or iWARP.
 */
#include "support/nvmf_bare_controller.h"

#include <stdio.h>

#include "support/nvmf_posts.h"

static void queue_says_its_sizes(void **state)
{
	(void)state;
	connect_both(0);
	assert_int_equal(controller.request.qid, 1);
	assert_int_equal(controller.request.hsqsize, DEPTH);
	assert_int_equal(controller.request.hrqsize, DEPTH + 1);
	assert_int_equal(controller.request.cntlid, 7);
	close_both();
}

static void command_without_data_has_an_empty_keyed_sgl(void **state)
{
	struct command command;

	(void)state;
	connect_both(0);
	command_submit(&command, 1, NULL, 0, HOST_NO_DATA);
	RUN_UNTIL(controller.received == 1);
	assert_int_equal(controller.received_bytes, 64);
	assert_int_equal(controller_command(0)[1], 0x40);
	assert_int_equal(le16_get(controller_command(0) + 2), command.command.cid);
	assert_int_equal(le24_get(controller_command(0) + 32), 0);
	assert_int_equal(controller_command(0)[39], 0x40);
	assert_int_equal(controller_command(0)[63], 1);
	controller_respond(command.command.cid, 0x4004);
	RUN_UNTIL(command.done_count);
	assert_int_equal(command.end, HOST_COMPLETED);
	assert_int_equal(le16_get(command.command.cqe + 14), 0x4004);
	close_both();
	assert_int_equal(command.done_count, 1);
}

static void controller_reads_what_is_written(void **state)
{
	struct command command;
	const uint8_t *sqe;

	(void)state;
	connect_both(4096);
	command_submit(&command, 1, pattern, DATA_BYTES_MAX, HOST_TO_CONTROLLER);
	RUN_UNTIL(controller.received == 1);
	sqe = controller_command(0);
	assert_int_equal(controller.received_bytes, 64);
	assert_int_equal(sqe[39], 0x40);
	assert_int_equal(le24_get(sqe + 32), DATA_BYTES_MAX);
	controller_post(IBV_WR_RDMA_READ, DATA_BYTES_MAX, le64_get(sqe + 24), le32_get(sqe + 35));
	RUN_UNTIL(controller.sent == 1);
	assert_int_equal(controller.status, IBV_WC_SUCCESS);
	assert_memory_equal(controller.bytes + SEND_AT, pattern, DATA_BYTES_MAX);
	controller_respond(command.command.cid, 0);
	RUN_UNTIL(command.done_count);
	close_both();
}

/* The mapping of shared memory without a name. */
static bool is_shared(uint64_t address)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	bool is_shared = false;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long start, end;

		if (sscanf(line, "%lx-%lx", &start, &end) == 2 && address >= start && address < end)
			is_shared = strstr(line, " rw-s ") && strstr(line, "/dev/zero");
	}
	fclose(maps);
	return is_shared;
}

/* So the adapter of a process on the same host can map it. */
static void data_is_in_shared_memory(void **state)
{
	struct command command;

	(void)state;
	connect_both(0);
	command_submit(&command, 1, pattern, 4096, HOST_TO_CONTROLLER);
	RUN_UNTIL(controller.received == 1);
	assert_true(is_shared(le64_get(controller_command(0) + 24)));
	close_both();
}

static void small_data_travels_in_the_capsule(void **state)
{
	struct command command;

	(void)state;
	connect_both(4096);
	command_submit(&command, 1, pattern, 4096, HOST_TO_CONTROLLER);
	RUN_UNTIL(controller.received == 1);
	assert_int_equal(controller.received_bytes, 64 + 4096);
	assert_int_equal(controller_command(0)[39], 0x01);
	assert_int_equal(le64_get(controller_command(0) + 24), 0);
	assert_int_equal(le32_get(controller_command(0) + 32), 4096);
	assert_memory_equal(controller_command(0) + 64, pattern, 4096);
	controller_respond(command.command.cid, 0);
	RUN_UNTIL(command.done_count);
	close_both();
}

static void controller_writes_what_is_read(void **state)
{
	struct command command;
	const uint8_t *sqe;

	(void)state;
	connect_both(4096);
	memset(buffer, 0, sizeof(buffer));
	command_submit(&command, 1, buffer, 8192, HOST_FROM_CONTROLLER);
	RUN_UNTIL(controller.received == 1);
	sqe = controller_command(0);
	memcpy(controller.bytes + SEND_AT, pattern, 8192);
	controller_post(IBV_WR_RDMA_WRITE, 8192, le64_get(sqe + 24), le32_get(sqe + 35));
	RUN_UNTIL(controller.sent == 1);
	controller_respond(command.command.cid, 0);
	RUN_UNTIL(command.done_count);
	assert_memory_equal(buffer, pattern, 8192);
	close_both();
}

static void commands_of_one_round_are_posted_together(void **state)
{
	struct command commands[DEPTH];

	(void)state;
	connect_both(0);
	posts_begin(controller.id->qp);
	for (unsigned i = 0; i < DEPTH; i++)
		command_submit(&commands[i], (uint8_t)i, NULL, 0, HOST_NO_DATA);
	RUN_UNTIL(controller.received == DEPTH);
	assert_int_equal(posts.requests, DEPTH);
	assert_int_equal(posts.calls, 1);
	posts_end();
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(controller_command(i)[63], i);
	close_both();
}

/* More data than the pool has room for: commands wait, in order, and each ends once. */
static void commands_wait_for_room_in_order(void **state)
{
	struct command commands[DEPTH];

	(void)state;
	connect_both(0);
	for (unsigned i = 0; i < DEPTH; i++)
		command_submit(
			&commands[i], (uint8_t)i, buffer, DATA_BYTES_MAX, HOST_FROM_CONTROLLER);
	for (unsigned i = 0; i < DEPTH; i++) {
		RUN_UNTIL(controller.received > i);
		assert_int_equal(controller_command(i)[63], i);
		assert_in_range(controller.received, i + 1, i + 2);
		controller_respond(le16_get(controller_command(i) + 2), 0);
		RUN_UNTIL(commands[i].done_count == 1);
	}
	close_both();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queue_says_its_sizes),
		cmocka_unit_test(command_without_data_has_an_empty_keyed_sgl),
		cmocka_unit_test(controller_reads_what_is_written),
		cmocka_unit_test(data_is_in_shared_memory),
		cmocka_unit_test(small_data_travels_in_the_capsule),
		cmocka_unit_test(controller_writes_what_is_read),
		cmocka_unit_test(commands_of_one_round_are_posted_together),
		cmocka_unit_test(commands_wait_for_room_in_order),
	};

	int status = host_begin();

	if (status)
		return status;
	status = cmocka_run_group_tests(tests, NULL, NULL);
	loop_destroy(host.loop);
	return status;
}

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's RDMA transport against a controller that the test implements on bare verbs: each
 * answer of a hostile controller, and queues that are closed early. URNIC_TRANSPORTS chooses RoCEv2
 * or iWARP.
 */
#include "support/nvmf_bare_controller.h"

#include <errno.h>

static void each_wrong_reply_ends_the_connection(void **state)
{
	/* clang-format off */
	static const struct {
		uint8_t bytes[4];
		size_t length;
	} rows[] = {
		{{0, 0, DEPTH, 0}, 4}, /* too short; InfiniBand adds zeroes: of another size */
		{{1, 0, DEPTH, 0}, RDMA_REPLY_BYTES},
		{{0, 0, 0, 0}, RDMA_REPLY_BYTES},
		{{0, 0, DEPTH - 1, 0}, RDMA_REPLY_BYTES},
	};
	/* clang-format on */
	(void)state;
	for (size_t i = !is_iwarp(); i < sizeof(rows) / sizeof(rows[0]); i++) {
		controller_open();
		memset(controller.reply, 0, sizeof(controller.reply));
		memcpy(controller.reply, rows[i].bytes, sizeof(rows[i].bytes));
		controller.reply_bytes = rows[i].length;
		host_open(0);
		RUN_UNTIL(host.error);
		assert_int_equal(host.error, -EPROTO);
		assert_false(host.is_connected);
		close_both();
	}
}

static void each_reject_is_said(void **state)
{
	uint8_t bytes[RDMA_REJECT_BYTES];

	(void)state;
	for (int status = 1; status <= RDMA_REJECT_ORD; status++) {
		controller_open();
		controller.reject = (enum rdma_reject)status;
		host_open(0);
		RUN_UNTIL(host.error);
		rdma_reject_encode((enum rdma_reject)status, bytes);
		assert_int_equal(host.error, -ECONNREFUSED);
		assert_string_equal(host.reason, rdma_reject_sentence(bytes, sizeof(bytes)));
		close_both();
	}
}

static void port_where_nobody_listens_refuses(void **state)
{
	(void)state;
	host_open(0);
	while (!host.error)
		loop_step(host.loop, 1000000);
	assert_int_equal(host.error, -ECONNREFUSED);
	host_close();
}

enum wrong_response {
	SHORT,
	LONG,
	UNKNOWN_INDEX,
	STALE_GENERATION,
	TWICE,
	IMMEDIATE,
	INVALIDATE,
	FOREIGN_KEY,
	BEYOND_THE_POOL,
	WRONG_RESPONSES,
};

static void answer_wrongly(enum wrong_response wrong, const struct command *command)
{
	const uint8_t *sqe = controller_command(0);
	uint32_t key = le32_get(sqe + 35);
	uint16_t cid = command->command.cid;

	memset(controller.bytes + SEND_AT, 0, 64);
	le16_put(controller.bytes + SEND_AT + 12, cid);
	switch (wrong) {
	case SHORT:
	case LONG:
		controller_post(IBV_WR_SEND, wrong == SHORT ? 15 : 17, 0, 0);
		break;
	case UNKNOWN_INDEX:
		controller_respond((uint16_t)(cid ^ 0x3ff), 0);
		break;
	case STALE_GENERATION:
		controller_respond((uint16_t)(cid ^ 0x400), 0);
		break;
	case TWICE:
		controller_respond(cid, 0);
		RUN_UNTIL(command->done_count);
		controller_respond(cid, 0);
		break;
	case IMMEDIATE:
		controller_post(IBV_WR_SEND_WITH_IMM, HOST_CQE_BYTES, 0, 0);
		break;
	case INVALIDATE:
		controller_post(IBV_WR_SEND_WITH_INV, HOST_CQE_BYTES, 0, key);
		break;
	case FOREIGN_KEY:
		controller_post(IBV_WR_RDMA_WRITE, 4096, le64_get(sqe + 24), key ^ 0x1000);
		break;
	case BEYOND_THE_POOL:
		controller_post(IBV_WR_RDMA_READ, 4096, le64_get(sqe + 24) + (1 << 30), key);
		break;
	case WRONG_RESPONSES:
		break;
	}
}

static void each_wrong_response_ends_the_connection(void **state)
{
	(void)state;
	for (enum wrong_response wrong = SHORT; wrong < WRONG_RESPONSES; wrong++) {
		struct command commands[2];

		/* iWARP has no immediate data in a SEND. */
		if (is_iwarp() && wrong == IMMEDIATE)
			continue;
		connect_both(0);
		command_submit(&commands[0], 0, buffer, 4096, HOST_FROM_CONTROLLER);
		command_submit(&commands[1], 1, NULL, 0, HOST_NO_DATA);
		RUN_UNTIL(controller.received == 2);
		answer_wrongly(wrong, &commands[0]);
		RUN_UNTIL(host.error);
		assert_true(host.error == -EPROTO || host.error == -ECONNRESET);
		/* Nothing ends by itself, but what was completed before. */
		assert_int_equal(commands[0].done_count, wrong == TWICE);
		assert_int_equal(commands[1].done_count, 0);
		close_both();
		for (unsigned i = 0; i < 2; i++) {
			assert_int_equal(commands[i].done_count, 1);
			assert_int_equal(commands[i].end,
				wrong == TWICE && i == 0 ? HOST_COMPLETED : HOST_LOST);
		}
	}
}

static void closed_queue_ends_its_commands_in_order(void **state)
{
	struct command commands[DEPTH];

	(void)state;
	connect_both(0);
	for (unsigned i = 0; i < DEPTH - 1; i++)
		command_submit(
			&commands[i], (uint8_t)i, buffer, DATA_BYTES_MAX, HOST_FROM_CONTROLLER);
	RUN_UNTIL(controller.received == 2);
	assert_int_equal(rdma_disconnect(controller.id), 0);
	RUN_UNTIL(host.error);
	command_submit(&commands[DEPTH - 1], DEPTH - 1, NULL, 0, HOST_NO_DATA);
	close_both();
	for (unsigned i = 0; i < DEPTH; i++) {
		assert_int_equal(commands[i].done_count, 1);
		assert_int_equal(commands[i].end, i < 2 ? HOST_LOST : HOST_UNSENT);
		assert_int_equal(done_order[i], i);
	}
}

/* After close(), the controller has access to nothing. */
static void closed_queue_has_no_memory(void **state)
{
	struct command command;
	const uint8_t *sqe;

	(void)state;
	connect_both(0);
	command_submit(&command, 0, buffer, 4096, HOST_FROM_CONTROLLER);
	RUN_UNTIL(controller.received == 1);
	sqe = controller_command(0);
	memset(buffer, 0, 4096);
	host_close();
	memset(controller.bytes + SEND_AT, 0xff, 4096);
	controller_post(IBV_WR_RDMA_WRITE, 4096, le64_get(sqe + 24), le32_get(sqe + 35));
	RUN_UNTIL(controller.sent == 1);
	/* A WRITE of iWARP completes when the stream has taken it. */
	assert_true(is_iwarp() || controller.status != IBV_WC_SUCCESS);
	assert_int_equal(buffer[0], 0);
	controller_close();
}

static void queue_is_closed_while_it_connects(void **state)
{
	(void)state;
	for (unsigned steps = 0; steps < 16; steps++) {
		controller_open();
		host_open(0);
		for (unsigned i = 0; i < steps; i++) {
			loop_step(host.loop, 100000);
			controller_poll();
		}
		close_both();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_wrong_reply_ends_the_connection),
		cmocka_unit_test(each_reject_is_said),
		cmocka_unit_test(port_where_nobody_listens_refuses),
		cmocka_unit_test(each_wrong_response_ends_the_connection),
		cmocka_unit_test(closed_queue_ends_its_commands_in_order),
		cmocka_unit_test(closed_queue_has_no_memory),
		cmocka_unit_test(queue_is_closed_while_it_connects),
	};

	int status = host_begin();

	if (status)
		return status;
	status = cmocka_run_group_tests(tests, NULL, NULL);
	loop_destroy(host.loop);
	return status;
}

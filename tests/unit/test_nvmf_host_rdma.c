/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The host's RDMA transport against a controller that the test implements on bare verbs: right
 * answers, and each answer of a hostile controller. URNIC_TRANSPORTS chooses RoCEv2 or iWARP.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#include "nvmf/common/bytes.h"
#include "nvmf/common/rdma/rdma_private.h"
#include "nvmf/host/controller/transport.h"
#include "support/netns.h"
#include "support/nvmf_posts.h"

enum {
	PORT = 4420,
	DEPTH = 8,
	DATA_BYTES_MAX = 128 << 10,
	CONTROLLER_BYTES = 512 << 10,
	COMMAND_BYTES = 8192, /* a receive buffer of the controller */
	SEND_AT = 256 << 10, /* where the controller's own data is */
	STEPS_MAX = 60000, /* of a millisecond at most */
};

static bool is_iwarp(void)
{
	const char *transports = getenv("URNIC_TRANSPORTS");

	return transports && strcmp(transports, "iwarp") == 0;
}

/* --- the controller --- */

static struct {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct rdma_cm_id *id; /* NULL: not connected */
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *bytes;
	/* What it says, and what has happened to it. */
	uint8_t reply[RDMA_REPLY_BYTES];
	size_t reply_bytes;
	enum rdma_reject reject;
	struct rdma_request request;
	bool is_connected, is_over;
	unsigned received; /* commands; their bytes are in `bytes`, one after the other */
	uint32_t received_bytes;
	unsigned sent;
	enum ibv_wc_status status; /* of the last send, READ or WRITE */
} controller;

static void controller_receive(unsigned index)
{
	struct ibv_sge sge = {(uintptr_t)controller.bytes + index * COMMAND_BYTES, COMMAND_BYTES,
		controller.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(controller.id->qp, &wr, &bad), 0);
}

static void controller_accept(struct rdma_cm_id *id, const struct rdma_conn_param *param)
{
	struct ibv_qp_init_attr attr = {.cap = {16, 2 * DEPTH, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct rdma_conn_param answer = {
		.private_data = controller.reply,
		.private_data_len = (uint8_t)controller.reply_bytes,
		.initiator_depth = param->initiator_depth,
		.rnr_retry_count = 7,
	};
	uint8_t reject[RDMA_REJECT_BYTES];

	assert_int_equal(rdma_request_decode(param->private_data, param->private_data_len, 1024,
				 &controller.request),
		RDMA_ACCEPT);
	if (controller.reject) {
		rdma_reject_encode(controller.reject, reject);
		assert_int_equal(rdma_reject(id, reject, sizeof(reject)), 0);
		assert_int_equal(rdma_destroy_id(id), 0);
		return;
	}
	controller.id = id;
	assert_non_null(controller.pd = ibv_alloc_pd(id->verbs));
	assert_non_null(controller.cq = ibv_create_cq(id->verbs, 64, NULL, NULL, 0));
	assert_non_null(
		controller.mr = ibv_reg_mr(controller.pd, controller.bytes, CONTROLLER_BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	attr.send_cq = attr.recv_cq = controller.cq;
	assert_int_equal(rdma_create_qp(id, controller.pd, &attr), 0);
	for (unsigned i = 0; i < 2 * DEPTH; i++)
		controller_receive(i);
	/* The host may have gone. */
	controller.is_over = rdma_accept(id, &answer) != 0;
}

static void controller_open(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	memset(&controller, 0, sizeof(controller));
	rdma_reply_encode(DEPTH + 1, controller.reply);
	controller.reply_bytes = RDMA_REPLY_BYTES;
	assert_non_null(controller.bytes = aligned_alloc(4096, CONTROLLER_BYTES));
	assert_non_null(controller.channel = rdma_create_event_channel());
	assert_int_equal(fcntl(controller.channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(
		rdma_create_id(controller.channel, &controller.listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(controller.listener, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(controller.listener, 4), 0);
}

static void controller_close(void)
{
	if (controller.id) {
		rdma_disconnect(controller.id);
		rdma_destroy_qp(controller.id);
		ibv_destroy_cq(controller.cq);
		ibv_dereg_mr(controller.mr);
		ibv_dealloc_pd(controller.pd);
		assert_int_equal(rdma_destroy_id(controller.id), 0);
	}
	assert_int_equal(rdma_destroy_id(controller.listener), 0);
	rdma_destroy_event_channel(controller.channel);
	free(controller.bytes);
}

static void controller_poll(void)
{
	struct rdma_cm_event *event;
	struct ibv_wc wc;

	while (rdma_get_cm_event(controller.channel, &event) == 0) {
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			/* Private data lives as long as the event. */
			controller_accept(event->id, &event->param.conn);
		} else if (event->event == RDMA_CM_EVENT_ESTABLISHED) {
			controller.is_connected = true;
		} else if (event->event == RDMA_CM_EVENT_DISCONNECTED) {
			controller.is_over = true;
		}
		rdma_ack_cm_event(event);
	}
	while (controller.cq && ibv_poll_cq(controller.cq, 1, &wc) == 1) {
		if (wc.wr_id < 2 * DEPTH) {
			controller.received += wc.status == IBV_WC_SUCCESS;
			controller.received_bytes = wc.byte_len;
		} else {
			controller.status = wc.status;
			controller.sent++;
		}
	}
}

/* Post a send, READ or WRITE of `bytes` from SEND_AT. */
static void controller_post(
	enum ibv_wr_opcode opcode, uint32_t bytes, uint64_t address, uint32_t key)
{
	struct ibv_sge sge = {(uintptr_t)controller.bytes + SEND_AT, bytes, controller.mr->lkey};
	struct ibv_send_wr wr =
				   {
					   .wr_id = 1000,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = opcode,
					   .send_flags = IBV_SEND_SIGNALED,
				   },
			   *bad;

	if (opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_RDMA_WRITE) {
		wr.wr.rdma.remote_addr = address;
		wr.wr.rdma.rkey = key;
	} else if (opcode == IBV_WR_SEND_WITH_INV) {
		wr.invalidate_rkey = key;
	}
	assert_int_equal(ibv_post_send(controller.id->qp, &wr, &bad), 0);
}

static void controller_respond(uint16_t cid, uint16_t status)
{
	uint8_t *cqe = controller.bytes + SEND_AT;

	memset(cqe, 0, HOST_CQE_BYTES);
	le16_put(cqe + 12, cid);
	le16_put(cqe + 14, status);
	controller_post(IBV_WR_SEND, HOST_CQE_BYTES, 0, 0);
}

static const uint8_t *controller_command(unsigned index)
{
	return controller.bytes + index * COMMAND_BYTES;
}

/* --- the host --- */

static struct {
	struct loop *loop;
	struct host_queue *queue;
	bool is_connected;
	int error;
	char reason[HOST_REASON_BYTES];
} host;

struct command {
	struct host_command command;
	unsigned done_count;
	enum host_end end;
};

static unsigned done_order[64], done_total;

static void note_connected(void *context)
{
	(void)context;
	assert_false(host.is_connected);
	host.is_connected = true;
}

static void note_lost(void *context, int error, const char *reason)
{
	(void)context;
	assert_int_equal(host.error, 0);
	host.error = error;
	strcpy(host.reason, reason);
}

static void note_done(struct host_command *command, enum host_end end)
{
	struct command *own = (struct command *)command;

	own->done_count++;
	own->end = end;
	done_order[done_total++ % 64] = command->sqe[63];
}

static struct host_queue_settings settings_of(uint32_t in_capsule_bytes)
{
	struct host_queue_settings settings = {
		.loop = host.loop,
		.qid = 1,
		.cntlid = 7,
		.depth = DEPTH,
		.in_capsule_bytes = in_capsule_bytes,
		.sgls = 1 << 20,
		.data_bytes_max = DATA_BYTES_MAX,
		.connected = note_connected,
		.lost = note_lost,
	};
	struct sockaddr_in *remote = (struct sockaddr_in *)&settings.remote;

	remote->sin_family = AF_INET;
	remote->sin_port = htons(PORT);
	inet_pton(AF_INET, "127.0.0.1", &remote->sin_addr);
	return settings;
}

static void host_open(uint32_t in_capsule_bytes)
{
	struct host_queue_settings settings = settings_of(in_capsule_bytes);
	char reason[HOST_REASON_BYTES];

	host.queue = NULL;
	host.is_connected = false;
	host.error = 0;
	done_total = 0;
	if (host_rdma.open(&settings, &host.queue, reason))
		fail_msg("%s", reason);
}

static void host_close(void)
{
	host_rdma.close(host.queue);
}

/* Both ends work until the condition holds. */
#define RUN_UNTIL(condition)                                    \
	do {                                                    \
		unsigned steps = 0;                             \
		while (!(condition)) {                          \
			loop_step(host.loop, 1000000);          \
			controller_poll();                      \
			assert_in_range(steps++, 0, STEPS_MAX); \
		}                                               \
	} while (0)

static void command_submit(struct command *command, uint8_t number, void *data, uint32_t bytes,
	enum host_direction direction)
{
	*command = (struct command){.command = {
					    .data = data,
					    .data_bytes = bytes,
					    .direction = direction,
					    .done = note_done,
				    }};
	command->command.sqe[0] = 2;
	command->command.sqe[63] = number;
	host_rdma.submit(host.queue, &command->command);
}

static void connect_both(uint32_t in_capsule_bytes)
{
	controller_open();
	host_open(in_capsule_bytes);
	RUN_UNTIL(host.is_connected && controller.is_connected);
}

static void close_both(void)
{
	host_close();
	controller_close();
}

static uint8_t pattern[DATA_BYTES_MAX], buffer[DATA_BYTES_MAX];

/* --- right answers --- */

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
	for (uint8_t i = 0; i < DEPTH; i++)
		command_submit(&commands[i], i, NULL, 0, HOST_NO_DATA);
	RUN_UNTIL(controller.received == DEPTH);
	assert_int_equal(posts.requests, DEPTH);
	assert_int_equal(posts.calls, 1);
	posts_end();
	for (uint8_t i = 0; i < DEPTH; i++)
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

/* --- wrong answers --- */

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
		cmocka_unit_test(queue_says_its_sizes),
		cmocka_unit_test(command_without_data_has_an_empty_keyed_sgl),
		cmocka_unit_test(controller_reads_what_is_written),
		cmocka_unit_test(data_is_in_shared_memory),
		cmocka_unit_test(small_data_travels_in_the_capsule),
		cmocka_unit_test(controller_writes_what_is_read),
		cmocka_unit_test(commands_of_one_round_are_posted_together),
		cmocka_unit_test(commands_wait_for_room_in_order),
		cmocka_unit_test(each_wrong_reply_ends_the_connection),
		cmocka_unit_test(each_reject_is_said),
		cmocka_unit_test(port_where_nobody_listens_refuses),
		cmocka_unit_test(each_wrong_response_ends_the_connection),
		cmocka_unit_test(closed_queue_ends_its_commands_in_order),
		cmocka_unit_test(closed_queue_has_no_memory),
		cmocka_unit_test(queue_is_closed_while_it_connects),
	};
	int failed;

	if (netns_enter_new() < 0)
		return 77;
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (uint8_t)(i * 7 + i / 251);
	if (loop_create(&host.loop))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	loop_destroy(host.loop);
	return failed;
}

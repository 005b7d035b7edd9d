/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The target's RDMA transport against a host that the test implements on bare verbs, and with a
 * core of the test. The host sends right requests, and everything that a hostile host may send.
 * URNIC_TRANSPORTS chooses RoCEv2 or iWARP.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nvmf/target/rdma/rdma_queue.h"
#include "support/netns.h"
#include "support/nvmf_posts.h"
#include "support/nvmf_rdma_host.h"

enum {
	PORT = 4420,
	ENTRIES_MAX = 64,
	HSQSIZE = 15,
	IN_CAPSULE_BYTES = 4096,
	DATA_BYTES_MAX = 512 << 10,
	STEPS_MAX = 60000, /* of a millisecond at most */
	HELD_MAX = 64,
};

static bool is_iwarp(void)
{
	const char *transports = getenv("URNIC_TRANSPORTS");

	return transports && strcmp(transports, "iwarp") == 0;
}

/* --- the core --- */

/* What the core does with a command, by its opcode. */
enum { OP_RESPOND = 0x00, OP_FETCH = 0x01, OP_PREPARE = 0x02, OP_HOLD = 0x03 };

static struct {
	struct loop *loop;
	struct target_rdma *rdma;
	struct target_rdma_listener *listener;
	struct target_queue *queue; /* the last one that was opened */
	unsigned opened, closed, commands, responded, flushed;
	uint16_t last_refusal, last_status;
	uint64_t sum; /* of the last data that was fetched */
	struct target_command *held[HELD_MAX];
	unsigned held_count;
	bool is_closed;
} core;

static void core_respond(struct target_command *command, uint16_t status)
{
	command->cqe = (struct nvme_cqe){.cid = command->sqe.cid, .status = status};
	core.last_status = status;
	core.responded++;
	command->queue->transport->respond(command);
}

static uint64_t sum_of(const uint8_t *bytes, uint32_t count)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++)
		sum = sum * 31 + bytes[i];
	return sum;
}

void target_command_data_ready(struct target_command *command, uint16_t status)
{
	if (status == NVME_SUCCESS && command->sqe.opcode == OP_FETCH)
		core.sum = sum_of(command->data, command->data_bytes);
	else if (status == NVME_SUCCESS)
		memset(command->data, command->sqe.cid, command->data_bytes);
	core_respond(command, status);
}

/* Whether the core has room for a connection. */
static bool is_full;

enum target_admission target_admit(struct target *target, const char *peer)
{
	(void)target;
	assert_non_null(strstr(peer, "127.0.0.1:"));
	return is_full ? TARGET_ADMITTED_AS_SURPLUS : TARGET_ADMITTED;
}

void target_queue_open(struct target *target, struct target_queue *queue)
{
	queue->target = target;
	core.queue = queue;
	core.is_closed = false;
	core.opened++;
}

bool target_queue_command(struct target_queue *queue, struct target_command *command)
{
	command->queue = queue;
	core.commands++;
	core.last_refusal = command->refusal;
	if (core.held_count == HELD_MAX)
		return false;
	if (command->refusal != NVME_SUCCESS || command->sqe.opcode == OP_RESPOND) {
		core_respond(command, command->refusal);
	} else if (command->sqe.opcode == OP_HOLD) {
		core.held[core.held_count++] = command;
	} else if (command->sqe.opcode == OP_FETCH) {
		command->direction = TARGET_TO_CONTROLLER;
		queue->transport->fetch(command);
	} else {
		command->direction = TARGET_FROM_CONTROLLER;
		queue->transport->prepare(command);
	}
	return true;
}

void target_queue_closed(struct target_queue *queue)
{
	assert_ptr_equal(queue, core.queue);
	core.is_closed = true;
	core.closed++;
}

void target_flush(struct target *target)
{
	(void)target;
	core.flushed++;
}

static void core_release_held(void)
{
	while (core.held_count > 0)
		core_respond(core.held[--core.held_count], NVME_SUCCESS);
}

/* --- the host --- */

static const struct rdma_request usual_request = {
	.qid = 1, .hrqsize = HSQSIZE + 1, .hsqsize = HSQSIZE};

#define RUN_UNTIL(condition)                                    \
	do {                                                    \
		unsigned steps = 0;                             \
		while (!(condition)) {                          \
			loop_step(core.loop, 1000000);          \
			host_poll();                            \
			assert_in_range(steps++, 0, STEPS_MAX); \
		}                                               \
	} while (0)

static void host_open(const struct rdma_request *request)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	memset(&host, 0, sizeof(host));
	host.reject = -1;
	host.read_depth = 4;
	host.private_bytes = RDMA_REQUEST_BYTES;
	rdma_request_encode(request, host.private_data);
	core.commands = core.responded = core.opened = core.closed = 0;
	assert_non_null(host.bytes = aligned_alloc(4096, HOST_BYTES));
	assert_non_null(host.channel = rdma_create_event_channel());
	assert_int_equal(fcntl(host.channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rdma_create_id(host.channel, &host.id, NULL, RDMA_PS_TCP), 0);
	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	assert_int_equal(rdma_resolve_addr(host.id, NULL, (struct sockaddr *)&address, 20000), 0);
}

static void connect_host(void)
{
	host_open(&usual_request);
	RUN_UNTIL(host.is_connected);
}

/* The host goes; then each command comes back, and the target has nothing of the queue left. */
static void host_close(void)
{
	if (host.id->qp) {
		rdma_disconnect(host.id);
		rdma_destroy_qp(host.id);
		ibv_destroy_cq(host.cq);
		ibv_dereg_mr(host.mr);
		ibv_dealloc_pd(host.pd);
		host.cq = NULL;
	}
	RUN_UNTIL(core.closed == core.opened);
	core_release_held();
	RUN_UNTIL(target_rdma_queue_count(core.rdma) == 0);
	assert_int_equal(core.commands, core.responded);
	assert_int_equal(rdma_destroy_id(host.id), 0);
	rdma_destroy_event_channel(host.channel);
	free(host.bytes);
}

struct capsule {
	uint8_t opcode;
	uint8_t psdt;
	uint8_t type; /* of the SGL descriptor */
	uint64_t address;
	uint32_t length;
	uint32_t key;
	uint32_t bytes; /* 0: 64 */
	enum ibv_wr_opcode send;
};

static void host_send(uint16_t cid, const struct capsule *capsule)
{
	uint8_t *sqe = host.bytes + 4096 + (cid % 64) * 8192u;
	struct ibv_sge sge = {(uintptr_t)sqe, capsule->bytes ? capsule->bytes : 64, host.mr->lkey};
	struct ibv_send_wr wr =
				   {
					   .wr_id = 1000,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = capsule->send ? capsule->send : IBV_WR_SEND,
					   .send_flags = IBV_SEND_SIGNALED,
					   .invalidate_rkey = capsule->send == IBV_WR_SEND_WITH_INV
						   ? host.mr->rkey
						   : 0,
				   },
			   *bad;

	memset(sqe, 0, 64);
	sqe[0] = capsule->opcode;
	sqe[1] = (uint8_t)(capsule->psdt << 6);
	le16_put(sqe + 2, cid);
	le64_put(sqe + 24, capsule->address);
	le32_put(sqe + 32, capsule->length);
	if (capsule->type >> 4 == 4) {
		le24_put(sqe + 32, capsule->length);
		le32_put(sqe + 35, capsule->key);
	}
	sqe[39] = capsule->type;
	assert_int_equal(ibv_post_send(host.id->qp, &wr, &bad), 0);
}

static struct capsule keyed(uint8_t opcode, uint8_t type, uint64_t offset, uint32_t length)
{
	return (struct capsule){.opcode = opcode,
		.psdt = 1,
		.type = type,
		.address = (uintptr_t)host_data() + offset,
		.length = length,
		.key = host.mr->rkey};
}

static void fill_data(uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		host_data()[i] = (uint8_t)(i * 7 + i / 251);
}

/* --- right requests --- */

static void command_without_data_is_answered(void **state)
{
	struct capsule capsule;

	(void)state;
	connect_host();
	capsule = (struct capsule){.opcode = OP_RESPOND, .psdt = 1, .type = 0x40};
	for (uint16_t cid = 0; cid < 200; cid++) {
		host_send(cid, &capsule);
		RUN_UNTIL(host.responses == cid + 1u && host.sent == cid + 1u);
		assert_int_equal(host.last_cid, cid);
		assert_int_equal(host.last_status, NVME_SUCCESS);
	}
	assert_int_not_equal(core.flushed, 0);
	assert_string_not_equal(core.queue->peer, "");
	assert_int_equal(core.queue->in_capsule_bytes, IN_CAPSULE_BYTES);
	assert_true(core.queue->transport->set_entries(core.queue, HSQSIZE + 1));
	assert_false(core.queue->transport->set_entries(core.queue, HSQSIZE + 2));
	host_close();
}

static void target_reads_what_the_host_writes(void **state)
{
	struct capsule capsule;

	(void)state;
	connect_host();
	fill_data(DATA_BYTES_MAX);
	capsule = keyed(OP_FETCH, 0x40, 0, DATA_BYTES_MAX);
	host_send(1, &capsule);
	RUN_UNTIL(host.responses == 1);
	assert_int_equal(host.last_status, NVME_SUCCESS);
	assert_true(core.sum == sum_of(host_data(), DATA_BYTES_MAX));
	host_close();
}

static void data_in_the_capsule_has_its_offset(void **state)
{
	struct capsule capsule = {.opcode = OP_FETCH,
		.psdt = 1,
		.type = 0x01,
		.address = 100,
		.length = 412,
		.bytes = 64 + 512};
	uint8_t *sqe;

	(void)state;
	connect_host();
	sqe = host.bytes + 4096 + 8192;
	for (unsigned i = 0; i < 512; i++)
		sqe[64 + i] = (uint8_t)(i * 3);
	host_send(1, &capsule);
	RUN_UNTIL(host.responses == 1);
	assert_int_equal(host.last_status, NVME_SUCCESS);
	assert_true(core.sum == sum_of(sqe + 64 + 100, 412));
	host_close();
}

static void target_writes_what_the_host_reads(void **state)
{
	struct capsule capsule;

	(void)state;
	connect_host();
	memset(host_data(), 0, 8192);
	capsule = keyed(OP_PREPARE, 0x40, 0, 4096);
	host_send(0x5a, &capsule);
	RUN_UNTIL(host.responses == 1);
	assert_int_equal(host_data()[0], 0x5a);
	assert_int_equal(host_data()[4095], 0x5a);
	assert_int_equal(host_data()[4096], 0);
	assert_int_equal(host.invalidated, 0);
	host_close();
}

/* More data and more RDMA READs than the target moves at once. */
static void commands_wait_for_room_and_for_reads(void **state)
{
	(void)state;
	for (uint8_t read_depth = 1; read_depth < 4; read_depth += 2) {
		host_open(&usual_request);
		host.read_depth = read_depth;
		RUN_UNTIL(host.is_connected);
		for (unsigned cid = 0; cid < HSQSIZE; cid++) {
			struct capsule capsule = keyed(cid % 3 ? OP_FETCH : OP_PREPARE, 0x40,
				cid * (uint64_t)DATA_BYTES_MAX, cid % 2 ? DATA_BYTES_MAX : 4096);

			host_send((uint16_t)cid, &capsule);
		}
		RUN_UNTIL(host.responses == HSQSIZE);
		for (unsigned cid = 0; cid < HSQSIZE; cid += 3)
			assert_int_equal(host_data()[cid * DATA_BYTES_MAX + 17], cid);
		host_close();
	}
}

/* Data and completions of commands that arrive together leave by a few calls. */
static void responses_of_one_round_are_posted_together(void **state)
{
	(void)state;
	connect_host();
	posts_begin(host.id->qp);
	for (unsigned cid = 0; cid < HSQSIZE; cid++) {
		struct capsule capsule = keyed(OP_PREPARE, 0x40, cid * 4096u, 4096);

		host_send((uint16_t)cid, &capsule);
	}
	RUN_UNTIL(host.responses == HSQSIZE && host.sent == HSQSIZE);
	assert_int_equal(posts.requests, 2 * HSQSIZE);
	assert_in_range(posts.calls, 1, HSQSIZE / 2);
	for (unsigned cid = 0; cid < HSQSIZE; cid++)
		assert_int_equal(host_data()[cid * 4096 + 17], cid);
	posts_end();
	host_close();
}

static void reads_of_one_round_are_posted_together(void **state)
{
	(void)state;
	host_open(&usual_request);
	host.read_depth = HSQSIZE;
	RUN_UNTIL(host.is_connected);
	posts_begin(host.id->qp);
	for (unsigned cid = 0; cid < HSQSIZE; cid++) {
		struct capsule capsule = keyed(OP_FETCH, 0x40, cid * 4096u, 4096);

		host_send((uint16_t)cid, &capsule);
	}
	RUN_UNTIL(host.responses == HSQSIZE);
	assert_int_equal(posts.requests, 2 * HSQSIZE);
	assert_in_range(posts.calls, 2, HSQSIZE);
	posts_end();
	host_close();
}

/* --- wrong requests --- */

static void each_wrong_connection_request_is_rejected(void **state)
{
	/* clang-format off */
	static const struct {
		struct rdma_request request;
		uint16_t recfmt;
		uint8_t bytes;
		uint8_t read_depth;
		enum rdma_reject status;
	} rows[] = {
		{{1, 16, 15, 0}, 0, 31, 4, RDMA_REJECT_LENGTH},
		{{1, 16, 15, 0}, 1, 32, 4, RDMA_REJECT_RECFMT},
		{{1, 16, 0, 0}, 0, 32, 4, RDMA_REJECT_HSQSIZE},
		{{1, 16, ENTRIES_MAX, 0}, 0, 32, 4, RDMA_REJECT_HSQSIZE},
		{{1, 16, 65535, 0}, 0, 32, 4, RDMA_REJECT_HSQSIZE},
		{{0, 16, 32, 0}, 0, 32, 4, RDMA_REJECT_HSQSIZE},
		{{1, 0, 15, 0}, 0, 32, 4, RDMA_REJECT_HRQSIZE},
		{{1, 16, 15, 0}, 0, 32, 0, RDMA_REJECT_IRD},
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* InfiniBand delivers private data of one size. */
		if (rows[i].status == RDMA_REJECT_LENGTH && !is_iwarp())
			continue;
		host_open(&rows[i].request);
		le16_put(host.private_data, rows[i].recfmt);
		host.private_bytes = rows[i].bytes;
		host.read_depth = rows[i].read_depth;
		RUN_UNTIL(host.reject >= 0);
		if (host.reject != (int)rows[i].status)
			fail_msg("row %zu: status %d", i, host.reject);
		assert_int_equal(core.opened, 0);
		host_close();
	}
}

static void host_beyond_its_share_is_rejected(void **state)
{
	(void)state;
	is_full = true;
	host_open(&usual_request);
	RUN_UNTIL(host.reject >= 0);
	assert_int_equal(host.reject, RDMA_REJECT_RESOURCES);
	host_close();
	is_full = false;
	connect_host();
	host_close();
}

static void each_wrong_descriptor_fails_its_command_only(void **state)
{
	/* clang-format off */
	static const struct {
		struct capsule capsule;
		uint16_t status;
	} rows[] = {
		{{.opcode = OP_FETCH, .psdt = 0, .type = 0x40}, NVME_INVALID_FIELD},
		{{.opcode = OP_FETCH, .psdt = 2, .type = 0x40}, NVME_INVALID_FIELD},
		{{.opcode = OP_FETCH, .psdt = 3, .type = 0x40}, NVME_INVALID_FIELD},
		{{.opcode = OP_FETCH, .psdt = 1, .type = 0x00, .length = 16}, NVME_SGL_TYPE},
		{{.opcode = OP_FETCH, .psdt = 1, .type = 0x31, .length = 16}, NVME_SGL_TYPE},
		{{.opcode = OP_FETCH, .psdt = 1, .type = 0x5a, .length = 16}, NVME_SGL_TYPE},
		{{.opcode = OP_FETCH, .psdt = 1, .type = 0x4a, .length = 16}, NVME_SGL_TYPE},
		{{.opcode = OP_FETCH, .psdt = 1, .type = 0x01, .length = 1}, NVME_SGL_LENGTH},
		{{.opcode = OP_FETCH, .psdt = 1, .type = 0x01, .length = 513, .bytes = 64 + 512},
			NVME_SGL_LENGTH},
		{{.opcode = OP_FETCH, .psdt = 1, .type = 0x01, .address = 1, .length = 512,
			.bytes = 64 + 512}, NVME_SGL_LENGTH},
		{{.opcode = OP_FETCH, .psdt = 1, .type = 0x01, .address = 513, .length = 0,
			.bytes = 64 + 512}, NVME_SGL_OFFSET},
		{{.opcode = OP_FETCH, .psdt = 1, .type = 0x01, .address = UINT64_MAX, .length = 2,
			.bytes = 64 + 512}, NVME_SGL_OFFSET},
		{{.opcode = OP_FETCH, .psdt = 1, .type = 0x01, .length = UINT32_MAX,
			.bytes = 64 + 512}, NVME_SGL_LENGTH},
		{{.opcode = OP_PREPARE, .psdt = 1, .type = 0x01, .length = 512, .bytes = 64 + 512},
			NVME_SGL_TYPE},
		/* Nothing is allocated for them. */
		{{.opcode = OP_FETCH, .psdt = 1, .type = 0x40, .length = DATA_BYTES_MAX + 1},
			NVME_INVALID_FIELD},
		{{.opcode = OP_PREPARE, .psdt = 1, .type = 0x40, .length = 0xffffff},
			NVME_INVALID_FIELD},
	};
	/* clang-format on */
	const size_t count = sizeof(rows) / sizeof(rows[0]);
	struct capsule right = {.opcode = OP_RESPOND, .psdt = 1, .type = 0x40};

	(void)state;
	connect_host();
	for (size_t i = 0; i < count; i++) {
		host_send((uint16_t)i, &rows[i].capsule);
		RUN_UNTIL(host.responses == i + 1);
		if (host.last_status != rows[i].status)
			fail_msg("row %zu: status %x", i, host.last_status);
	}
	host_send(1, &right);
	RUN_UNTIL(host.responses == count + 1);
	assert_int_equal(host.last_status, NVME_SUCCESS);
	host_close();
}

enum wrong_capsule {
	SHORT,
	LONG,
	IMMEDIATE,
	INVALIDATE,
	FOREIGN_KEY_TO_READ,
	FOREIGN_KEY_TO_WRITE,
	BEYOND_THE_REGION,
	WRONG_CAPSULES,
};

static struct capsule wrong_capsule_of(enum wrong_capsule wrong)
{
	struct capsule capsule = {.psdt = 1, .type = 0x40};

	if (wrong == FOREIGN_KEY_TO_READ || wrong == BEYOND_THE_REGION)
		capsule = keyed(OP_FETCH, 0x40, wrong == BEYOND_THE_REGION ? HOST_BYTES : 0, 4096);
	else if (wrong == FOREIGN_KEY_TO_WRITE)
		capsule = keyed(OP_PREPARE, 0x40, 0, 4096);
	if (wrong == FOREIGN_KEY_TO_READ || wrong == FOREIGN_KEY_TO_WRITE)
		capsule.key ^= 0x1000;
	if (wrong == SHORT)
		capsule.bytes = 63;
	if (wrong == LONG)
		capsule.bytes = 64 + IN_CAPSULE_BYTES + 1;
	if (wrong == IMMEDIATE)
		capsule.send = IBV_WR_SEND_WITH_IMM;
	if (wrong == INVALIDATE)
		capsule.send = IBV_WR_SEND_WITH_INV;
	return capsule;
}

/* With another command pending at the core, which comes back. */
static void each_wrong_capsule_ends_the_connection(void **state)
{
	(void)state;
	for (enum wrong_capsule wrong = SHORT; wrong < WRONG_CAPSULES; wrong++) {
		struct capsule hold = {.opcode = OP_HOLD, .psdt = 1, .type = 0x40}, capsule;

		/* iWARP has no immediate data in a SEND. */
		if (is_iwarp() && wrong == IMMEDIATE)
			continue;
		connect_host();
		host_send(1, &hold);
		RUN_UNTIL(core.held_count == 1);
		capsule = wrong_capsule_of(wrong);
		host_send(2, &capsule);
		RUN_UNTIL(core.is_closed);
		assert_int_equal(core.closed, 1);
		assert_int_equal(target_rdma_queue_count(core.rdma), 1);
		host_close();
	}
}

static void refused_command_ends_the_connection(void **state)
{
	struct capsule hold = {.opcode = OP_HOLD, .psdt = 1, .type = 0x40};

	(void)state;
	connect_host();
	core.held_count = HELD_MAX;
	host_send(1, &hold);
	RUN_UNTIL(core.is_closed);
	core.held_count = 0;
	core.commands--;
	host_close();
}

/* --- the end of a connection --- */

/* The host goes while its commands wait for room and for RDMA READs. */
static void commands_come_back_when_the_host_goes(void **state)
{
	(void)state;
	for (unsigned steps = 0; steps < 12; steps++) {
		connect_host();
		for (unsigned cid = 0; cid < HSQSIZE; cid++) {
			struct capsule capsule = keyed(cid % 4 ? OP_FETCH : OP_HOLD, 0x40,
				cid * (uint64_t)DATA_BYTES_MAX, DATA_BYTES_MAX);

			host_send((uint16_t)cid, &capsule);
		}
		for (unsigned i = 0; i < steps; i++)
			loop_step(core.loop, 100000);
		host_close();
	}
}

static void response_leaves_before_the_connection_is_closed(void **state)
{
	struct capsule hold = {.opcode = OP_HOLD, .psdt = 1, .type = 0x40};

	(void)state;
	connect_host();
	host_send(7, &hold);
	RUN_UNTIL(core.held_count == 1);
	core_respond(core.held[--core.held_count], NVME_SUCCESS);
	core.queue->transport->close(core.queue);
	RUN_UNTIL(host.responses == 1 && core.is_closed);
	assert_int_equal(host.last_cid, 7);
	RUN_UNTIL(host.is_over);
	host_close();
}

/* A queue that is polled stays disarmed, because an event of it costs the host system calls. */
static void queue_that_polls_answers_without_events(void **state)
{
	struct capsule capsule = {.opcode = OP_RESPOND, .psdt = 1, .type = 0x40};
	const struct target_rdma_queue *queue;

	(void)state;
	connect_host();
	queue = list_first(&core.rdma->queues, struct target_rdma_queue, node);
	target_rdma_set_busy(core.rdma, true);
	for (uint16_t cid = 0; cid < 20; cid++) {
		host_send(cid, &capsule);
		RUN_UNTIL(host.responses == cid + 1u);
		assert_true(cid == 0 || !queue->completions.is_armed);
	}
	target_rdma_set_busy(core.rdma, false);
	RUN_UNTIL(queue->completions.is_armed);
	host_close();
}

static void port_in_use_is_said(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	char sentence[TARGET_RDMA_SENTENCE_BYTES];
	struct target_rdma_listener *listener;

	(void)state;
	assert_int_not_equal(target_rdma_listen(core.rdma, NULL, (struct sockaddr *)&address,
				     IN_CAPSULE_BYTES, ENTRIES_MAX, &listener, sentence),
		0);
	assert_string_equal(sentence,
		"another program listens there over RDMA, or the address is not this machine's; "
		"choose another port number or address");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(command_without_data_is_answered),
		cmocka_unit_test(target_reads_what_the_host_writes),
		cmocka_unit_test(data_in_the_capsule_has_its_offset),
		cmocka_unit_test(target_writes_what_the_host_reads),
		cmocka_unit_test(commands_wait_for_room_and_for_reads),
		cmocka_unit_test(responses_of_one_round_are_posted_together),
		cmocka_unit_test(reads_of_one_round_are_posted_together),
		cmocka_unit_test(each_wrong_connection_request_is_rejected),
		cmocka_unit_test(host_beyond_its_share_is_rejected),
		cmocka_unit_test(each_wrong_descriptor_fails_its_command_only),
		cmocka_unit_test(each_wrong_capsule_ends_the_connection),
		cmocka_unit_test(refused_command_ends_the_connection),
		cmocka_unit_test(commands_come_back_when_the_host_goes),
		cmocka_unit_test(response_leaves_before_the_connection_is_closed),
		cmocka_unit_test(queue_that_polls_answers_without_events),
		cmocka_unit_test(port_in_use_is_said),
	};
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	char sentence[TARGET_RDMA_SENTENCE_BYTES];
	int failed;

	if (netns_enter_new() < 0)
		return 77;
	if (loop_create(&core.loop) || target_rdma_create(NULL, core.loop, &core.rdma) ||
		target_rdma_listen(core.rdma, NULL, (struct sockaddr *)&address, IN_CAPSULE_BYTES,
			ENTRIES_MAX, &core.listener, sentence))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	target_rdma_unlisten(core.listener);
	target_rdma_destroy(core.rdma);
	loop_destroy(core.loop);
	return failed;
}

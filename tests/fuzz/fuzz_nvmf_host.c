/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A remote namespace of a hostile controller, above the transports: the input chooses the answer to
 * each command, when queues are lost, and which requests the user submits meanwhile. Each request
 * is done exactly once, no command is longer than the controller takes, and each has the data of
 * its blocks. No I/O command is sent before the namespace was identified on the same association,
 * with blocks of the size that the user knows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf/common/codec/identify.h"
#include "nvmf/host/controller/sqe.h"
#include "nvmf/host/remote/remote.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define STEP_NS 50000000u

enum {
	REQUESTS = 8,
	STEP_BYTES = 8,
	IO_QUEUES = 2,
	BLOCK_MAX = 1 << 18,
	QUEUES_MAX = 3,
	ROUNDS_MAX = 100000
};

struct fuzz_queue {
	struct host_queue queue;
	struct host_queue_settings settings;
	struct list commands;
	struct loop_work work;
	uint32_t pending;
	bool is_connected, is_lost;
};

struct fuzz_block {
	struct block_request request;
	bool is_pending;
};

static struct loop *loop;
static uint64_t now_ns;
static struct remote *remote;
static struct fuzz_queue *queues[QUEUES_MAX];
static struct fuzz_block blocks[REQUESTS];
static uint8_t memory[BLOCK_MAX];
static unsigned ready_count;
static uint32_t block_bytes; /* as the user was told */

/* The bytes of the input that take_byte() has not returned yet. */
static const uint8_t *input;
static size_t input_bytes;

static uint8_t take_byte(void)
{
	if (input_bytes == 0)
		return 0;
	input_bytes--;
	return *input++;
}

static const struct host_transport fake;

/* A page that is right, but for what the input changes. */
static void page_make(const uint8_t *sqe, uint8_t *page, uint32_t bytes)
{
	static const uint8_t descriptor[] = {3, 16, 0, 0, 1};
	static const uint16_t places[] = {0, 1, 2, 7, 26, 33, 77, 78, 92, 95, 99, 128, 129, 130,
		131, 520, 525, 1792, 1795, 1796, 1800, 4, 8, 104, 120, 134, 188};
	uint8_t changes = take_byte();

	memset(page, 0, bytes);
	if (bytes < HOST_IDENTIFY_BYTES || sqe[0] != NVME_ADMIN_IDENTIFY)
		return;
	if (sqe[40] == 1) {
		page[77] = 2;
		page[78] = 1;
		page[93] = 1;
		page[520] = 12;
		page[525] = 1;
		le32_put(page + 1792, 36);
		page[1796] = 1;
	} else if (sqe[40] == 0) {
		le64_put(page, 4096);
		/* Blocks of 512 to 4,096 bytes. */
		page[130] = (uint8_t)(9 + (changes < 64 ? changes % 4 : 0));
	} else if (sqe[40] == IDENTIFY_DESCRIPTORS) {
		memcpy(page, descriptor, sizeof(descriptor));
	} else {
		page[0] = 1;
	}
	for (unsigned i = 0; i < changes % 4u && changes >= 64; i++) {
		uint8_t place = take_byte();

		page[places[place % (sizeof(places) / sizeof(places[0]))]] = take_byte();
	}
}

static bool is_io(const struct fuzz_queue *queue, const struct host_command *command)
{
	return queue->settings.qid && command->sqe[0] != NVME_OPCODE_FABRICS;
}

/* What the controller has said of the namespace on the present association. */
static struct {
	uint32_t block_bytes;
	bool has_descriptors;
} said;

static void identify_note(const struct host_command *command)
{
	const uint8_t *page = command->data;

	if (command->sqe[0] != NVME_ADMIN_IDENTIFY)
		return;
	said.has_descriptors |= command->sqe[40] == IDENTIFY_DESCRIPTORS;
	if (command->sqe[40] == IDENTIFY_NAMESPACE)
		said.block_bytes = 1u << (page[130 + 4 * (page[26] & 15)] & 31);
}

static void io_check(const struct host_command *command)
{
	uint32_t count = (le32_get(command->sqe + 48) & 0xffff) + 1;

	if (command->sqe[0] != NVME_IO_READ && command->sqe[0] != NVME_IO_WRITE)
		return;
	if (command->data_bytes != count * block_bytes)
		abort();
}

static void command_answer(struct fuzz_queue *queue, struct host_command *command)
{
	uint8_t choice = take_byte();
	uint64_t result = 0;
	uint16_t status = 0;

	if (command->data_bytes > queue->settings.data_bytes_max)
		abort();
	if (is_io(queue, command))
		io_check(command);
	if (command->direction == HOST_FROM_CONTROLLER)
		page_make(command->sqe, command->data, command->data_bytes);
	if (command->sqe[0] == NVME_OPCODE_FABRICS)
		result = le32_get(command->sqe + 44) == 0 && command->sqe[4] == 4 ? 1023 : 1;
	else if (command->sqe[0] == NVME_ADMIN_SET_FEATURES)
		result = 0x10001;
	if (choice >= 0xf0)
		result = (uint64_t)take_byte() << (choice & 15) * 4;
	else if (choice >= 0xe0)
		status = (uint16_t)(take_byte() | (choice & 7) << 8 | (choice & 8) << 11);
	if (queue->settings.qid == 0 && (status == 0 || command->sqe[40] == IDENTIFY_DESCRIPTORS) &&
		choice != 0xdf)
		identify_note(command);
	list_remove(&command->node);
	queue->pending--;
	memset(command->cqe, 0, sizeof(command->cqe));
	le64_put(command->cqe, result);
	le16_put(command->cqe + 14, (uint16_t)(status << 1));
	command->done(command, choice == 0xdf ? HOST_DAMAGED : HOST_COMPLETED);
}

static void fake_run(struct loop_work *work)
{
	struct fuzz_queue *queue = container_of(work, struct fuzz_queue, work);

	if (!queue->is_connected) {
		queue->is_connected = true;
		queue->settings.connected(queue->settings.context);
	}
}

static int fake_open(
	const struct host_queue_settings *settings, struct host_queue **ret_queue, char *ret_reason)
{
	struct fuzz_queue *queue;

	if (take_byte() == 0xff) {
		snprintf(ret_reason, HOST_REASON_BYTES, "unreachable");
		return -1;
	}
	queue = calloc(1, sizeof(*queue));
	if (!queue || settings->qid >= QUEUES_MAX || queues[settings->qid])
		abort();
	queue->queue.transport = &fake;
	queue->settings = *settings;
	list_init(&queue->commands);
	loop_work_init(&queue->work, fake_run);
	loop_defer(settings->loop, &queue->work);
	queues[settings->qid] = queue;
	if (settings->qid == 0)
		memset(&said, 0, sizeof(said));
	*ret_queue = &queue->queue;
	return 0;
}

static void fake_submit(struct host_queue *base, struct host_command *command)
{
	struct fuzz_queue *queue = container_of(base, struct fuzz_queue, queue);

	if (++queue->pending > queue->settings.depth)
		abort();
	if (is_io(queue, command) && (!said.has_descriptors || said.block_bytes != block_bytes))
		abort();
	list_append(&queue->commands, &command->node);
}

static unsigned fake_poll(struct host_queue *base)
{
	(void)base;
	return 0;
}

static void fake_close(struct host_queue *base)
{
	struct fuzz_queue *queue = container_of(base, struct fuzz_queue, queue);

	loop_defer_cancel(&queue->work);
	queues[queue->settings.qid] = NULL;
	while (!list_is_empty(&queue->commands)) {
		struct host_command *command =
			list_first(&queue->commands, struct host_command, node);

		list_remove(&command->node);
		command->done(command, HOST_LOST);
	}
	free(queue);
}

static const struct host_transport fake = {
	.name = "fake",
	.open = fake_open,
	.submit = fake_submit,
	.poll = fake_poll,
	.close = fake_close,
};

static void block_done(struct block_request *request, int error)
{
	struct fuzz_block *block = container_of(request, struct fuzz_block, request);

	(void)error;
	if (!block->is_pending)
		abort();
	block->is_pending = false;
}

static void block_begin(void)
{
	static const enum block_op ops[] = {
		BLOCK_READ, BLOCK_WRITE, BLOCK_FLUSH, BLOCK_TRIM, BLOCK_WRITE_ZEROES};
	struct fuzz_block *block = &blocks[take_byte() % REQUESTS];

	if (block->is_pending || !ready_count)
		return;
	block->is_pending = true;
	block->request =
		(struct block_request){.op = ops[take_byte() % (sizeof(ops) / sizeof(ops[0]))],
			.flags = take_byte() & 3,
			.offset_bytes = (uint64_t)take_byte() * block_bytes,
			.length_bytes = (1 + take_byte() % 64u) * 4096,
			.data = memory,
			.done = block_done};
	block_submit(remote_device(remote), &block->request);
}

static void queue_lose(uint8_t choice)
{
	struct fuzz_queue *queue = queues[choice % QUEUES_MAX];

	if (!queue || queue->is_lost)
		return;
	queue->is_lost = true;
	queue->settings.lost(queue->settings.context, -1, "fuzz");
}

static void answer_oldest(uint8_t choice)
{
	struct fuzz_queue *queue = queues[choice % QUEUES_MAX];

	if (!queue || !queue->is_connected || queue->is_lost || list_is_empty(&queue->commands))
		return;
	/* Not always the oldest one. */
	if (choice & 0x80)
		command_answer(
			queue, container_of(queue->commands.prev, struct host_command, node));
	else
		command_answer(queue, list_first(&queue->commands, struct host_command, node));
}

static void note_ready(void *context, int error)
{
	(void)context;
	ready_count += error == 0;
	block_bytes = remote_device(remote)->block_bytes;
}

static void run_input(void)
{
	while (input_bytes) {
		uint8_t choice = take_byte();

		if (choice < 0x20) {
			block_begin();
		} else if (choice < 0x28) {
			queue_lose(take_byte());
		} else if (choice < 0x30) {
			now_ns += (uint64_t)take_byte() * STEP_NS;
		} else {
			answer_oldest(choice & 0x80 ? take_byte() : 0);
		}
		loop_advance(loop, now_ns);
	}
}

static bool is_pending(void)
{
	for (int i = 0; i < REQUESTS; i++)
		if (blocks[i].is_pending)
			return true;
	return false;
}

/* Behind the end of the input all answers are right: each request ends. */
static void run_rightly(void)
{
	for (unsigned round = 0; is_pending(); round++) {
		if (round == ROUNDS_MAX)
			abort();
		for (unsigned i = 0; i < QUEUES_MAX; i++)
			answer_oldest((uint8_t)i);
		now_ns += STEP_NS / 10;
		loop_advance(loop, now_ns);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct remote_settings settings = {
		.controller = {.transport = &fake,
			.subnqn = "nqn.2026-01.org.example:disk",
			.hostnqn = "nqn.2026-01.org.example:host",
			.hostid = {1},
			.io_queues = IO_QUEUES,
			.io_depth = 4,
			.keeps_trying = true},
		.ready = note_ready,
	};

	input = data;
	input_bytes = size;
	now_ns = 1000000000u;
	ready_count = 0;
	if (loop_create_virtual(NULL, &loop))
		abort();
	settings.controller.loop = loop;
	if (remote_create(&settings, &remote))
		abort();
	loop_advance(loop, now_ns);
	run_input();
	run_rightly();
	block_device_destroy(remote_device(remote));
	for (int i = 0; i < QUEUES_MAX; i++)
		if (queues[i])
			abort();
	loop_destroy(loop);
	return 0;
}

/* SPDX-License-Identifier: BSD-2-Clause */
#include "nvmf_disk.h"

#include <stdlib.h>
#include <string.h>

#include "nvmf/target/backend/object.h"

enum { PAST_MAX = 8 };

struct block {
	uint64_t value;
	/* Values since the block was last durable, the durable one first. */
	uint64_t past[PAST_MAX];
	unsigned past_count;
};

/* What the target has open. */
struct handle {
	struct backend backend; /* first */
	struct nvmf_disk *disk;
};

/* A request that is under way. */
struct flight {
	struct list node;
	struct loop_timer timer;
	struct nvmf_disk *disk;
	struct backend_request *request;
	uint64_t done_blocks;
	bool fails;
	bool is_last; /* the next step ends it */
};

struct nvmf_disk {
	struct nvmf_world *world;
	struct nvmf_disk_settings settings;
	uint64_t size_bytes;
	struct handle *handle;
	bool is_dead; /* the machine has crashed: nothing more happens */
	struct list flights;
	unsigned fails_one_of;
	uint64_t delay_ns_max;
	struct block block[];
};

/* --- contents --- */

static uint64_t word_of(uint64_t value, uint32_t number)
{
	return number && value ? mix_u64(value + number * 0x9e3779b97f4a7c15u) : value;
}

void nvmf_content_fill(uint8_t *bytes, uint32_t length, uint64_t value)
{
	for (uint32_t i = 0; i < length / 8; i++) {
		uint64_t word = word_of(value, i);

		memcpy(bytes + 8ul * i, &word, sizeof(word));
	}
}

uint64_t nvmf_content_value(const uint8_t *bytes, uint32_t length)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	for (uint32_t i = 1; i < length / 8; i++) {
		uint64_t word;

		memcpy(&word, bytes + 8ul * i, sizeof(word));
		if (word != word_of(value, i))
			return NVMF_GARBAGE;
	}
	return value;
}

/* --- blocks --- */

static void block_make_durable(struct block *block)
{
	block->past[0] = block->value;
	block->past_count = 1;
}

static void block_set(struct block *block, uint64_t value, bool is_durable)
{
	block->value = value;
	if (is_durable) {
		block_make_durable(block);
		return;
	}
	if (block->past_count == PAST_MAX)
		block->past_count--;
	block->past[block->past_count++] = value;
}

/* The data of a block, counted from the first one of a request that reads or writes. */
static uint8_t *data_of(const struct flight *flight, uint64_t number)
{
	const struct backend_request *request = flight->request;

	NVMF_CHECK(flight->disk->world, request->iov_count, "a request has no data");
	return (uint8_t *)request->iov->iov_base + number * flight->disk->settings.block_bytes;
}

/* One block of a request happens. */
static void block_do(struct flight *flight, uint64_t number)
{
	const struct backend_request *request = flight->request;
	struct nvmf_disk *disk = flight->disk;
	uint32_t bytes = disk->settings.block_bytes;
	uint64_t place = request->offset_bytes / bytes + number;
	uint64_t traced = disk->settings.first_block + place;
	struct block *block = &disk->block[place];
	uint64_t value = 0;

	switch (request->operation) {
	case BACKEND_READ:
		nvmf_content_fill(data_of(flight, number), bytes, block->value);
		return;
	case BACKEND_WRITE:
		value = nvmf_content_value(data_of(flight, number), bytes);
		NVMF_CHECK(disk->world, value != NVMF_GARBAGE, "garbage is written to block %llu",
			(unsigned long long)place);
		nvmf_trace(disk->world, "disk: block %llu = %llx", (unsigned long long)traced,
			(unsigned long long)value);
		block_set(block, value, request->is_fua);
		return;
	case BACKEND_WRITE_ZEROES:
		block_set(block, 0, request->is_fua);
		return;
	case BACKEND_DISCARD:
		if (nvmf_below(disk->world, 2))
			block_set(block, 0, false);
		return;
	case BACKEND_FLUSH:
		return;
	}
}

static void blocks_do(struct flight *flight, uint64_t limit)
{
	while (flight->done_blocks < limit)
		block_do(flight, flight->done_blocks++);
}

static uint64_t block_count(const struct flight *flight)
{
	return flight->request->length_bytes / flight->disk->settings.block_bytes;
}

/* --- requests --- */

static uint64_t delay_ns(struct nvmf_disk *disk)
{
	return nvmf_any_size(disk->world, 5 * NVMF_US, disk->delay_ns_max);
}

static void flight_end(struct flight *flight)
{
	struct backend_request *request = flight->request;
	struct nvmf_disk *disk = flight->disk;
	enum backend_status status = BACKEND_OK;

	if (flight->disk->is_dead || flight->fails)
		status = request->operation == BACKEND_READ ? BACKEND_READ_ERROR
							    : BACKEND_WRITE_FAULT;
	else if (request->operation == BACKEND_FLUSH)
		for (unsigned i = 0; i < disk->settings.blocks; i++)
			block_make_durable(&disk->block[i]);
	else
		blocks_do(flight, block_count(flight));
	list_remove(&flight->node);
	free(flight);
	backend_finish(request, status);
}

static void flight_step(struct loop_timer *timer)
{
	struct flight *flight = container_of(timer, struct flight, timer);
	struct nvmf_disk *disk = flight->disk;

	if (flight->is_last || disk->is_dead) {
		flight_end(flight);
		return;
	}
	blocks_do(flight, nvmf_below(disk->world, block_count(flight)));
	flight->is_last = true;
	loop_timer_set(disk->world->loop[NVMF_TARGET], timer, disk->world->now_ns + delay_ns(disk));
}

static void disk_submit(
	struct backend *backend, struct backend_ring *ring, struct backend_request *request)
{
	struct nvmf_disk *disk = ((struct handle *)backend)->disk;
	struct flight *flight = calloc(1, sizeof(*flight));
	uint64_t traced =
		disk->settings.first_block + request->offset_bytes / disk->settings.block_bytes;

	(void)ring;
	if (!flight)
		abort();
	flight->disk = disk;
	flight->request = request;
	nvmf_trace(disk->world, "disk: begins %u, block %llu + %llu", request->operation,
		(unsigned long long)traced, (unsigned long long)block_count(flight));
	flight->fails = disk->fails_one_of && nvmf_below(disk->world, disk->fails_one_of) == 0;
	flight->is_last = block_count(flight) < 2;
	list_init(&flight->node);
	list_append(&disk->flights, &flight->node);
	loop_timer_init(&flight->timer, flight_step);
	loop_timer_set(disk->world->loop[NVMF_TARGET], &flight->timer,
		disk->world->now_ns + (disk->is_dead ? 0 : delay_ns(disk)));
}

/* What is cut off is zero if it comes back. */
static int disk_resize(struct backend *backend, uint64_t size_bytes, char *sentence)
{
	struct nvmf_disk *disk = ((struct handle *)backend)->disk;
	uint32_t bytes = disk->settings.block_bytes;

	(void)sentence;
	NVMF_CHECK(disk->world, list_is_empty(&disk->flights), "a namespace is resized at work");
	for (uint64_t i = size_bytes / bytes; i < disk->size_bytes / bytes; i++) {
		struct register_action action = {.kind = REGISTER_WRITE,
			.block = disk->settings.first_block + (unsigned)i,
			.is_durable = true};

		block_set(&disk->block[i], 0, true);
		register_end(disk->settings.registers,
			register_begin(disk->settings.registers, &action), REGISTER_DONE, 0);
	}
	backend->size_bytes = disk->size_bytes = size_bytes;
	return 0;
}

static void disk_close(struct backend *backend)
{
	struct handle *handle = (struct handle *)backend;

	handle->disk->handle = NULL;
	free(handle);
}

struct backend *nvmf_disk_open(struct nvmf_disk *disk)
{
	static const struct backend_kind kind = {disk_submit, disk_resize, disk_close};
	struct handle *handle;

	if (disk->handle)
		return NULL;
	handle = calloc(1, sizeof(*handle));
	if (!handle)
		abort();
	handle->disk = disk;
	handle->backend.kind = &kind;
	handle->backend.size_bytes = disk->size_bytes;
	handle->backend.block_bytes = disk->settings.block_bytes;
	disk->handle = handle;
	disk->is_dead = false;
	return &handle->backend;
}

/* --- crashes --- */

void nvmf_disk_crash(struct nvmf_disk *disk)
{
	disk->is_dead = true;
	list_for_each(flight, &disk->flights, struct flight, node) {
		if (flight->request->operation != BACKEND_READ)
			blocks_do(flight,
				nvmf_between(
					disk->world, flight->done_blocks, block_count(flight)));
		loop_timer_set(disk->world->loop[NVMF_TARGET], &flight->timer, disk->world->now_ns);
	}
}

void nvmf_disk_roll_back(struct nvmf_disk *disk)
{
	for (unsigned i = 0; i < disk->settings.blocks && disk->settings.loses_writes; i++) {
		struct block *block = &disk->block[i];

		block->value = block->past[nvmf_below(disk->world, block->past_count)];
		block_make_durable(block);
	}
}

void nvmf_disk_trouble(struct nvmf_disk *disk, unsigned one_of, uint64_t delay_ns_max)
{
	disk->fails_one_of = one_of;
	disk->delay_ns_max = delay_ns_max;
}

struct nvmf_disk *nvmf_disk_create(
	struct nvmf_world *world, const struct nvmf_disk_settings *settings)
{
	struct nvmf_disk *disk =
		calloc(1, sizeof(*disk) + settings->blocks * sizeof(disk->block[0]));

	if (!disk)
		abort();
	disk->world = world;
	disk->settings = *settings;
	disk->size_bytes = (uint64_t)settings->blocks * settings->block_bytes;
	disk->delay_ns_max = 100 * NVMF_US;
	list_init(&disk->flights);
	for (unsigned i = 0; i < settings->blocks; i++)
		block_make_durable(&disk->block[i]);
	return disk;
}

void nvmf_disk_destroy(struct nvmf_disk *disk)
{
	if (!disk)
		return;
	NVMF_CHECK(disk->world, !disk->handle, "a namespace is not closed");
	free(disk);
}
